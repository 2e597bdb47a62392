//! Sources made to hurt: each ends in a message, never in a panic, a deep stack or a long wait.

use berth_jobfile::{
    DEPTH_MAX, Inputs, NAME_BYTES_MAX, SOURCE_BYTES_MAX, format, is_deceptive, parse, parse_hcl, parse_json,
};
use proptest::prelude::*;

fn hcl_message(source: &str) -> String {
    parse_hcl(source, "x.hcl", &Inputs::default()).expect_err("a bad source").to_string()
}

fn json_message(source: &str) -> String {
    parse_json(source.as_bytes(), "x.json").expect_err("a bad source").to_string()
}

/// A source that opens something again and again.
fn deep(start: &str, open: &str, times: usize) -> String {
    format!("{start}{}", open.repeat(times))
}

#[test]
fn too_deep_is_found_before_the_stack_ends() {
    let openings = [
        "[",
        "{a=",
        "(",
        "f(",
        "!",
        "-",
        "true ? 1 : ",
        "\"${",
        "[for a in ",
        "{for a in ",
        "a[",
        "\"%{ if ",
        "<<E\n${",
    ];
    for open in openings {
        let message = hcl_message(&deep("a = ", open, 100_000));
        assert!(message.contains("nested more than 64 levels deep"), "{open}: {message}");
        assert!(message.contains("--> x.hcl:"), "{open}: {message}");
    }
    assert!(hcl_message(&"a {\n".repeat(100_000)).contains("--> x.hcl:65:3"));
    assert!(hcl_message(&"a \"x\" {".repeat(100_000)).contains("nested more than 64 levels deep"));
    for open in ["[", "{\"a\":"] {
        let message = json_message(&open.repeat(100_000));
        assert!(message.contains("nested more than 64 levels deep"), "{message}");
        assert!(message.contains("--> x.json:1:"), "{message}");
    }
}

#[test]
fn brackets_in_text_and_comments_are_not_depth() {
    let (open, limit) = ("[{(".repeat(1000), DEPTH_MAX - 4);
    let source = format!(
        "# {open}\n/* {open} */\njob \"x\" {{ // {open}\n task \"t\" {{\n driver = \"d\"\n env = {{ a = \"{open}\" }}\n \
         config {{\n text = <<END\n{open}\n$${{\nEND\n}} }} }}"
    );
    parse_hcl(&source, "x.hcl", &Inputs::default()).unwrap_or_else(|e| panic!("{e}"));
    let nested = format!("x = {}1{}", "(".repeat(limit), ")".repeat(limit));
    assert!(!hcl_message(&nested).contains("nested"), "{}", hcl_message(&nested));
}

#[test]
fn long_chains_are_not_depth() {
    for (start, link) in
        [("a = 1", " + 1"), ("a = a", ".b"), ("a = a", "[0]"), ("a = 1", "\na = 1"), ("a", " \"b\"")]
    {
        let message = hcl_message(&deep(start, link, 100_000));
        assert!(!message.contains("nested"), "{message}");
    }
}

#[test]
fn a_million_keys_are_read_in_one_pass() {
    let keys = |line: fn(usize) -> String| (0..250_000).map(line).collect::<String>();
    let attributes = keys(|i| format!("k{i} = {i}\n"));
    let message = hcl_message(&format!("job \"x\" {{\n{attributes}}}\n"));
    assert!(message.ends_with("and 249981 more\n"), "{}", &message[message.len() - 100..]);
    let message = hcl_message(&format!(
        "job \"x\" {{\nmeta = {{\n{attributes}}}\ntask \"t\" {{\ndriver = \"d\"\n}}\n}}"
    ));
    assert!(
        message.starts_with("error: meta of the job has 3027780 bytes, the limit is 131072"),
        "{message}"
    );
    let members = keys(|i| format!("\"k{i}\":{i},"));
    assert!(json_message(&format!("{{{members}\"k\":0}}")).contains("unknown key `k1` in job is left out"));
    let job = r#""ID":"j","TaskGroups":[{"Name":"g","Tasks":[{"Name":"t","Driver":"mock"}]}]"#;
    let parsed = berth_jobfile::parse_json(format!("{{{members}{job}}}").as_bytes(), "test");
    let warnings = parsed.expect("what is unknown is left out").warnings.messages();
    assert!(warnings.ends_with("\nand 249979 more"), "{}", &warnings[warnings.len().saturating_sub(100)..]);
    let blocks = "group \"g\" {}\n".repeat(250_000);
    assert!(hcl_message(&format!("job \"x\" {{\n{blocks}}}")).contains("more\n"));
    assert!(hcl_message(&"job \"x\" {\n@\n}\n".repeat(250_000)).contains("expected the name"));
}

#[test]
fn only_so_many_blocks_are_opened() {
    let blocks = |item: &str, times: usize| vec![item; times].join(",");
    let job = |services: &str| {
        let task = format!(r#"{{"Name":"t","Driver":"d","Services":[{services}]}}"#);
        format!(r#"{{"Job":{{"ID":"x","TaskGroups":[{{"Name":"g","Tasks":[{task}]}}]}}}}"#)
    };
    assert!(parse_json(job(&blocks(r#"{"Name":"s"}"#, 5_000)).as_bytes(), "x.json").is_ok());
    let message = json_message(&job(&blocks(r#"{"Name":"s"}"#, 100_000)));
    assert!(message.starts_with("error: a job may have 20000 blocks, and this is one more"), "{message}");
    assert!(message.contains("Tasks[0].Services[19997]"), "{message}");
    let artifacts = |times| {
        format!(
            "job \"x\" {{\ntask \"t\" {{\ndriver = \"d\"\n{}}}\n}}",
            "artifact {\nsource = \"s\"\n}\n".repeat(times)
        )
    };
    assert!(parse_hcl(&artifacts(5_000), "x.hcl", &Inputs::default()).is_ok());
    let message = hcl_message(&artifacts(100_000));
    assert!(message.contains("20000 blocks, and this is one more"), "{message}");
    assert!(message.contains("--> x.hcl:59998:1"), "{message}");
}

#[test]
fn a_replacement_makes_no_more_than_a_value_may_take_and_its_searches_are_bounded() {
    let job = |expression: &str| {
        format!("job \"x\" {{\nmeta = {{\nv = {expression}\n}}\ntask \"t\" {{\ndriver = \"d\"\n}}\n}}")
    };
    let long = |text: &str| format!(r#"join("", [for i in range(100000) : "{text}"])"#);
    // A match of a megabyte, a hundred thousand times.
    let message =
        hcl_message(&job(&format!(r#"regex_replace({}, "(?s).+", {})"#, long("0123456789"), long("$0"))));
    assert!(message.contains("its value would take more than 16 MiB"), "{message}");
    // Each search looks at all that is left before it takes one letter, also where mistakes are forgiven.
    let text = r#"join("", [for i in range(2000) : "AAAAAAAAAA"])"#;
    let searches = format!(r#"regex_replace({text}, ".*[^A-Z]|[A-Z]", "")"#);
    for searches in [searches.clone(), format!("try({searches}, {searches}, 1)")] {
        let message = hcl_message(&job(&searches));
        assert!(
            message.contains("looks through too much text") || message.contains("look at more than 64 MiB"),
            "{message}"
        );
    }
    let message = hcl_message(&job(r#"regex_replace("a", "[a-z]{1000}{1000}", "")"#));
    assert!(message.contains("takes more than 1024 KiB when it is compiled"), "{message}");
}

#[test]
fn a_source_beyond_the_limit_is_not_looked_at() {
    let long = vec![b'\n'; SOURCE_BYTES_MAX + 1];
    for message in [parse(&long, "x", &Inputs::default()), parse_json(&long, "x")]
        .map(|r| r.expect_err("too long").to_string())
    {
        assert!(message.contains("job file has more than 4 MiB"), "{message}");
    }
    assert!(!hcl_message(&"\n".repeat(SOURCE_BYTES_MAX)).contains("limit"));
}

#[test]
fn broken_encodings_are_named_with_their_place() {
    let message = |source: &[u8]| parse(source, "x.hcl", &Inputs::default()).expect_err("broken").to_string();
    assert!(message(b"job \"x\" {\n\xff").contains("not UTF-8 from here on\n --> x.hcl:2:1"));
    assert!(message(b"\xff\xfej\0o\0b\0").contains("it is in UTF-16: save it in UTF-8"));
    assert!(message(b"a = \"\0\"").contains("NUL byte\n --> x.hcl:1:6"));
    assert!(message(br#"{"ID": "a\u0000b"}"#).contains("NUL character"));
    assert!(message(br#"a = "\u0000""#).contains("cannot hold a NUL"));
    assert!(message(b"\xef\xbb\xbf").contains("no job in this file"));
}

#[test]
fn what_a_source_says_cannot_steer_a_terminal_or_fill_it() {
    let long = "x".repeat(1_000_000);
    let sources = [
        "{\"ID\": \"a\", \"\\u001b[31m\": 1, \"TaskGroups\": [{\"Name\": \"\\u001b\"}]}".to_owned(),
        "job \"x\" {\n name \"\u{1b}[31m\"\n}".to_owned(),
        format!("{{\"{long}\": 1}}"),
        format!("{long} {long}"),
        format!("{long} = {{\n"),
        format!("a = <<{long}\n"),
        format!("a = {long}({long}\n"),
    ];
    for source in sources {
        let message =
            parse(source.as_bytes(), "x", &Inputs::default()).expect_err("a bad source").to_string();
        assert!(!message.contains('\u{1b}'), "{message}");
        assert!(message.len() < 3_000, "{}", message.len());
    }
}

const GOOD: &str = include_str!("good/full.hcl");
const STRINGS: &str = include_str!("good/strings.hcl");
const CLIENT: &str = include_str!("good/client.json");
const BLOCKS: &str = include_str!("good/blocks.hcl");
const SETTINGS: &str = include_str!("good/settings.json");
const VARIABLES: &str = include_str!("../src/starters/variables.nomad.hcl");

/// Bits that grammars stumble over.
fn scrap() -> impl Strategy<Value = &'static str> {
    prop::sample::select(vec![
        "{",
        "}",
        "[",
        "]",
        "(",
        ")",
        "\"",
        "${",
        "%{",
        "$${",
        "<<A\n",
        "<<-A\n",
        "A\n",
        "\\",
        "\\u12",
        "\n",
        "\r\n",
        "/*",
        "*/",
        "#",
        "//",
        "=",
        ":",
        ",",
        ".",
        "~",
        "?",
        "=>",
        "...",
        "for ",
        "if ",
        "é",
        "\u{feff}",
        "\u{1b}",
        "1e999",
        "-",
        "null",
        "::",
        "\t",
        "var.",
        "local.a",
        "[*]",
        "for x in ",
        "%{ endif }",
        "&&",
        "!",
        "range(9)",
        "$${",
        "~}",
        "...",
        "try(",
        "true ? ",
    ])
}

/// The source with a few parts cut out, doubled, or replaced by scraps.
fn mutated(source: &'static str) -> impl Strategy<Value = String> {
    let edit = (any::<prop::sample::Index>(), 0..12_usize, prop::collection::vec(scrap(), 0..4));
    prop::collection::vec(edit, 1..6).prop_map(move |edits| {
        edits.into_iter().fold(source.to_owned(), |text, (at, length, scraps)| {
            let start = text.floor_char_boundary(at.index(text.len() + 1));
            let end = text.floor_char_boundary((start + length).min(text.len())).max(start);
            format!("{}{}{}", &text[..start], scraps.concat(), &text[end..])
        })
    })
}

/// Ids that lead elsewhere, show as another, or are taken.
fn odd_id() -> impl Strategy<Value = String> {
    let bits = [
        "..", ".", "/", "\\", "\0", "\u{1b}", "\n", "alloc", "local", "secrets", "tmp", "logs", "a", "B-",
        "é", "字", "\u{301}", "\u{202e}", "\u{200b}", "\u{feff}", " ", "_", "%2e", "$", "\"", "~", ":",
    ];
    let long = prop_oneof![8 => Just(String::new()), 1 => Just("x".repeat(NAME_BYTES_MAX - 1))];
    (prop::collection::vec(prop::sample::select(bits.to_vec()), 0..5), long)
        .prop_map(|(bits, long)| bits.concat() + &long)
}

/// What nodes make a directory of, and what people tell apart.
fn is_one_directory(name: &str) -> bool {
    let odd = |c: char| c.is_control() || matches!(c, '/' | '\\');
    !name.is_empty()
        && name.len() <= NAME_BYTES_MAX
        && !name.starts_with('.')
        && name != "alloc"
        && !name.contains(odd)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(ProptestConfig::default().cases * 4))]

    /// Whoever is accepted leads nowhere, in either syntax; and who is sound is accepted.
    #[test]
    fn no_id_that_is_accepted_is_a_path(job in odd_id(), group in odd_id(), task in odd_id()) {
        let tasks = serde_json::json!([{"Name": task, "Driver": "mock_driver"}]);
        let json = serde_json::json!({"ID": job, "TaskGroups": [{"Name": group, "Tasks": tasks}]});
        let text = |name: &str| serde_json::json!(name).to_string();
        let hcl = format!(
            "job {} {{\n group {} {{\n task {} {{\n driver = \"mock_driver\"\n}}\n}}\n}}", text(&job), text(&group), text(&task)
        );
        let parsed = [parse_json(json.to_string().as_bytes(), "x.json"), parse_hcl(&hcl, "x.hcl", &Inputs::default())];
        let seen = |c: char| !c.is_whitespace() && !is_deceptive(c);
        let sound = |id: &str| !id.is_empty() && id.len() <= NAME_BYTES_MAX && id.chars().all(seen);
        let expected = sound(&job) && !job.split('/').any(|part| matches!(part, "." | ".."))
            && sound(&group) && !group.contains(['/', '\\']) && !group.contains("..") && group != "."
            && sound(&task) && is_one_directory(&task) && !task.contains("..");
        for parsed in parsed {
            prop_assert_eq!(parsed.is_ok(), expected, "{:?}", parsed.map(|parsed| parsed.job.key));
            let Ok(parsed) = parsed else { continue };
            let found = &parsed.job.groups[0];
            prop_assert_eq!((&*parsed.job.key.id, &*found.name, &*found.tasks[0].name), (&*job, &*group, &*task));
        }
    }

    #[test]
    fn no_change_of_a_file_makes_it_panic(
        source in prop_oneof![
            mutated(GOOD),
            mutated(STRINGS),
            mutated(CLIENT),
            mutated(BLOCKS),
            mutated(SETTINGS),
            mutated(VARIABLES),
        ],
    ) {
        if let Err(diagnostics) = parse(source.as_bytes(), "x.hcl", &Inputs::default()) {
            prop_assert!(diagnostics.iter().count() >= 1);
            let text = diagnostics.to_string().replace('\n', "");
            prop_assert!(!text.contains(char::is_control));
        }
        if let Ok(formatted) = format(&source, "x.hcl") {
            prop_assert_eq!(format(&formatted, "x.hcl"), Ok(formatted));
        }
    }

    #[test]
    fn no_bytes_make_it_panic(scraps in prop::collection::vec(scrap(), 0..40), bytes: Vec<u8>) {
        let source = [scraps.concat().into_bytes(), bytes].concat();
        prop_assert!(parse(&source, "x.hcl", &Inputs::default()).is_err());
        prop_assert!(parse_json(&source, "x.json").is_err());
    }
}
