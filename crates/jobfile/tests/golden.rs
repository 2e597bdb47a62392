//! Job files and what becomes of them: JSON, or messages. `UPDATE_EXPECT=1` writes the expected files again.

use std::{collections::BTreeSet, fs, path::PathBuf};

use berth_jobfile::{Inputs, parse, parse_json, to_json};
use expect_test::expect_file;
use serde_json::Value;

fn folder(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests").join(name)
}

/// Name and content of every job file in a folder, in order of names.
fn sources(name: &str) -> Vec<(String, Vec<u8>)> {
    let files =
        fs::read_dir(folder(name)).expect("folder of job files").map(|entry| entry.expect("entry").path());
    let mut files: Vec<PathBuf> = files
        .filter(|file| file.extension().is_some_and(|e| e == "hcl" || e == "json"))
        .filter(|file| !file.to_string_lossy().ends_with(".expected.json"))
        .collect();
    files.sort();
    let name_of = |file: &PathBuf| file.file_name().expect("file name").to_string_lossy().into_owned();
    files.iter().map(|file| (name_of(file), fs::read(file).expect("job file"))).collect()
}

#[test]
fn bad_files_are_refused_with_these_messages() {
    for (name, source) in sources("bad") {
        let diagnostics = parse(&source, &name, &Inputs::default()).expect_err(&name);
        expect_file![folder("bad").join(format!("{name}.txt"))].assert_eq(&diagnostics.to_string());
    }
}

/// JSON without the members that are null, whose names are noted: most of a job's settings are not given, and an expected file
/// is about those that are.
fn without_nulls(json: Value, nulls: &mut BTreeSet<String>) -> Value {
    match json {
        Value::Object(members) => {
            let (null, given): (Vec<_>, Vec<_>) = members.into_iter().partition(|(_, value)| value.is_null());
            nulls.extend(null.into_iter().map(|(name, _)| name));
            given.into_iter().map(|(name, value)| (name, without_nulls(value, nulls))).collect()
        }
        Value::Array(items) => items.into_iter().map(|item| without_nulls(item, nulls)).collect(),
        other => other,
    }
}

#[test]
fn good_files_become_this_json_and_the_same_job_again() {
    let mut nulls = BTreeSet::new();
    for (name, source) in sources("good") {
        let parsed = parse(&source, &name, &Inputs::default()).unwrap_or_else(|e| panic!("{e}"));
        let json = to_json(&parsed.job);
        let json_text = format!("{:#}\n", without_nulls(json.clone(), &mut nulls));
        expect_file![folder("good").join(format!("{name}.expected.json"))].assert_eq(&json_text);
        let json = json.to_string();
        expect_file![folder("good").join(format!("{name}.warnings.txt"))]
            .assert_eq(&parsed.warnings.to_string());
        assert_eq!(parse_json(json.as_bytes(), &name).map(|again| again.job), Ok(parsed.job), "{name}");
    }
    let nulls: Vec<String> = nulls.into_iter().map(|name| name + "\n").collect();
    expect_file![folder("good").join("nulls.txt")].assert_eq(&nulls.concat());
}

#[test]
fn line_ends_and_byte_order_marks_do_not_matter() {
    let source = String::from_utf8(sources("good").swap_remove(2).1).expect("UTF-8");
    let windows = format!("\u{feff}{}", source.replace('\n', "\r\n"));
    assert_eq!(
        parse(windows.as_bytes(), "x.hcl", &Inputs::default()),
        parse(source.as_bytes(), "x.hcl", &Inputs::default())
    );
}

#[test]
fn the_jobs_of_the_load_tests_parse() {
    let shared = folder("../../../../shared/jobs");
    let Ok(files) = fs::read_dir(&shared) else {
        println!("skipped: there is no {}", shared.display());
        return;
    };
    for file in files.map(|entry| entry.expect("entry").path()) {
        let parsed = parse(&fs::read(&file).expect("job file"), &file.to_string_lossy(), &Inputs::default());
        let job = parsed.unwrap_or_else(|e| panic!("{e}")).job;
        assert_eq!((&*job.key.id, job.groups[0].count, job.groups[0].tasks.len()), ("JOBID", 100, 2));
        assert_eq!(
            job.groups[0].tasks[0].config["stdout_string"],
            berth_model::value::Value::String("hello, world!\n".into())
        );
    }
}
