//! How a job's allocations are exchanged where its file says nothing of it, little, or that it is to be at once.

use berth_jobfile::{Inputs, parse, parse_hcl_as_given, parse_json, to_json};
use berth_model::job::{Job, Update};

/// The `max_parallel` and `canary` of the job and of its groups.
fn updates(job: &Job) -> String {
    let describe = |update: Option<&Update>| {
        update.map_or_else(|| "none".into(), |update| format!("{}/{}", update.max_parallel, update.canary))
    };
    let groups = job.groups.iter().map(|group| describe(group.update.as_deref()));
    std::iter::once(describe(job.update.as_deref())).chain(groups).collect::<Vec<_>>().join(" ")
}

/// A job of two groups; these settings are its own and those of the second group.
fn hcl(of_job: &str, of_group: &str) -> String {
    let task = "task \"t\" {\n driver = \"mock_driver\"\n }";
    format!(
        "job \"j\" {{\n{of_job}\ngroup \"a\" {{\n {task}\n }}\ngroup \"b\" {{\n{of_group}\n {task}\n }}\n}}"
    )
}

fn of_hcl(of_job: &str, of_group: &str) -> Job {
    parse(hcl(of_job, of_group).as_bytes(), "x.hcl", &Inputs::default()).expect("it is a job").job
}

fn of_json(of_job: &str, of_group: &str) -> Job {
    let task = r#""Tasks": [{"Name": "t", "Driver": "mock_driver"}]"#;
    let text = format!(
        r#"{{"ID": "j", "Update": {of_job}, "TaskGroups": [{{"Name": "a", {task}}}, {{"Name": "b", "Update": {of_group}, {task}}}]}}"#
    );
    parse_json(text.as_bytes(), "x.json").expect("it is a job").job
}

#[test]
fn a_service_is_exchanged_step_by_step_unless_it_says_otherwise() {
    let check = |of_job: &str, of_group: &str, expected: &str| {
        let job = of_hcl(of_job, of_group);
        assert_eq!(updates(&job), expected, "{of_job} {of_group}");
        let again = parse_json(to_json(&job).to_string().as_bytes(), "x.json").expect("it is a job").job;
        assert_eq!(again, job, "{of_job} {of_group}");
    };
    check("", "", "1/0 1/0 1/0");
    check("update {\n }", "", "1/0 1/0 1/0");
    check("update {\n max_parallel = 0\n }", "", "0/0 0/0 0/0");
    check("update {\n max_parallel = 3\n }", "update {\n canary = 1\n }", "3/0 3/0 3/1");
    check("", "update {\n canary = 1\n }", "1/0 1/0 1/1");
    check("", "update {\n max_parallel = 0\n }", "1/0 1/0 0/0");
    for job_type in ["batch", "system", "sysbatch"] {
        check(&format!("type = \"{job_type}\""), "", "none none none");
    }
    assert_eq!(of_hcl("", "").groups[0].update.as_deref(), Some(&Update::default()));
}

/// Clients and servers send blocks of zeros for those that are not there; `MaxParallel` of 0 says something.
#[test]
fn zeros_in_json_are_no_block_unless_max_parallel_is_among_them() {
    let zeros = r#"{"Stagger": 0, "MaxParallel": 0, "HealthCheck": "", "MinHealthyTime": 0, "HealthyDeadline": 0,
        "ProgressDeadline": 0, "AutoRevert": false, "AutoPromote": false, "Canary": 0}"#;
    let check = |of_job: &str, of_group: &str, expected: &str| {
        assert_eq!(updates(&of_json(of_job, of_group)), expected, "{of_job} {of_group}");
    };
    check("null", "null", "1/0 1/0 1/0");
    check("{}", "{}", "1/0 1/0 1/0");
    check(r#"{"MaxParallel": null, "Canary": null}"#, "null", "1/0 1/0 1/0");
    check(r#"{"MaxParallel": 0}"#, "null", "0/0 0/0 0/0");
    check("null", r#"{"MaxParallel": 0}"#, "1/0 1/0 0/0");
    check(r#"{"MaxParallel": 0}"#, r#"{"MaxParallel": 2}"#, "0/0 0/0 2/0");
    check(zeros, "null", "0/0 0/0 0/0");
    check(r#"{"MaxParallel": 2, "Canary": 1}"#, zeros, "2/1 2/1 0/1");
}

#[test]
fn a_job_as_its_file_gives_it_has_no_default() {
    let (given, _) = parse_hcl_as_given(&hcl("", ""), "x.hcl", &Inputs::default()).expect("it is a job");
    assert!(given["Update"].is_null() && given["TaskGroups"][0]["Update"].is_null(), "{given}");
}
