//! Blocks and settings that change nothing where they stand: each is named, in both syntaxes, and what clients send for every job
//! is not.

use berth_jobfile::{Inputs, Severity, parse, parse_json};

/// What is said of a job in HCL; `inside` stands in it, in its group and in its task.
fn of_hcl(kind: &str, inside: [&str; 3]) -> String {
    let [job, group, task] = inside;
    let text = format!(
        "job \"j\" {{\ntype = \"{kind}\"\n{job}\ngroup \"g\" {{\n{group}\ntask \"t\" {{\ndriver = \"mock_driver\"\n{task}\n}}\n}}\n}}"
    );
    messages(parse(text.as_bytes(), "j.hcl", &Inputs::default()))
}

/// The same in JSON: members, each with a comma behind it.
fn of_json(kind: &str, inside: [&str; 3]) -> String {
    let [job, group, task] = inside;
    let text = format!(
        r#"{{"ID": "j", {job} "TaskGroups": [{{{group} "Tasks": [{{{task} "Name": "t", "Driver": "mock_driver"}}], "Name": "g"}}], "Type": "{kind}"}}"#
    );
    messages(parse_json(text.as_bytes(), "j.json"))
}

fn messages(parsed: Result<berth_jobfile::ParsedJob, berth_jobfile::Diagnostics>) -> String {
    let (prefix, messages) = match parsed {
        Ok(parsed) => ("", parsed.warnings),
        Err(refused) => ("refused: ", refused),
    };
    format!("{prefix}{}", messages.messages())
}

const UPDATE: &str = r#""Update": {"MaxParallel": 2, "Canary": 1},"#;
const MIGRATE: &str = r#""Migrate": {"MaxParallel": 2},"#;

#[test]
fn update_acts_in_services_and_system_jobs_alone() {
    let block = "update {\n max_parallel = 2\n canary = 1\n}";
    for kind in ["batch", "sysbatch"] {
        for inside in [[block, "", ""], ["", block, ""], [block, block, ""]] {
            assert_eq!(of_hcl(kind, inside), format!("`update` has no effect in a {kind} job"));
        }
        assert_eq!(of_hcl(kind, ["update {}", "", ""]), format!("`update` has no effect in a {kind} job"));
        for inside in [[UPDATE, "", ""], ["", UPDATE, ""], [UPDATE, UPDATE, ""]] {
            assert_eq!(of_json(kind, inside), format!("`Update` has no effect in a {kind} job"));
        }
    }
    for kind in ["service", "system"] {
        assert_eq!(of_hcl(kind, [block, block, ""]), "");
        assert_eq!(of_json(kind, [UPDATE, UPDATE, ""]), "");
    }
}

#[test]
fn migrate_acts_in_services_alone() {
    let block = "migrate {\n max_parallel = 2\n}";
    for kind in ["batch", "sysbatch", "system"] {
        for (hcl, json) in [([block, "", ""], [MIGRATE, "", ""]), (["", block, ""], ["", MIGRATE, ""])] {
            assert_eq!(of_hcl(kind, hcl), format!("`migrate` has no effect in a {kind} job"));
            assert_eq!(of_json(kind, json), format!("`Migrate` has no effect in a {kind} job"));
        }
    }
    assert_eq!(of_hcl("service", [block, block, ""]), "");
    assert_eq!(of_json("service", [MIGRATE, MIGRATE, ""]), "");
}

/// As Nomad's client sends a job that it has filled in, and as its servers report one: the head of the job's block, or zeros.
#[test]
fn what_clients_send_for_every_job_is_no_warning() {
    let zeros = r#""Update": {"Stagger": 0, "MaxParallel": 0, "HealthCheck": "", "MinHealthyTime": 0, "HealthyDeadline": 0,
        "ProgressDeadline": 0, "AutoRevert": false, "AutoPromote": false, "Canary": 0},"#;
    let head = r#""Update": {"Stagger": 30000000000, "MaxParallel": 1, "HealthCheck": "", "MinHealthyTime": 0,
        "HealthyDeadline": 0, "ProgressDeadline": 0, "AutoRevert": false, "AutoPromote": false, "Canary": 0},"#;
    let defaults = r#""Update": {"Stagger": 30000000000, "MaxParallel": 1, "HealthCheck": "checks",
        "MinHealthyTime": 10000000000, "HealthyDeadline": 300000000000, "ProgressDeadline": 600000000000,
        "AutoRevert": false, "AutoPromote": false, "Canary": 0}, "Migrate": {"MaxParallel": 1, "HealthCheck": "checks",
        "MinHealthyTime": 10000000000, "HealthyDeadline": 300000000000},"#;
    let nulls = r#""Update": null, "Migrate": null, "Affinities": null, "Spreads": null,"#;
    let empty = r#""Update": {}, "Affinities": [], "Spreads": [],"#;
    for kind in ["batch", "sysbatch", "system"] {
        for job in [zeros, head, defaults, nulls, empty] {
            for group in [zeros, defaults, nulls, empty] {
                let task = r#""DispatchPayload": null, "Affinities": null,"#;
                assert_eq!(of_json(kind, [job, group, task]), "", "{kind} {job} {group}");
            }
        }
    }
    let task = r#""DispatchPayload": {"File": ""},"#;
    assert_eq!(of_json("batch", ["", "", task]), "");
}

#[test]
fn affinities_are_refused_in_system_jobs_and_named_in_sysbatch_jobs() {
    let block = "affinity {\n attribute = \"${node.class}\"\n value = \"large\"\n}";
    let json = r#""Affinities": [{"LTarget": "${node.class}", "RTarget": "large", "Operand": "="}],"#;
    for at in 0..3 {
        let (mut of_block, mut of_array) = ([""; 3], [""; 3]);
        (of_block[at], of_array[at]) = (block, json);
        for messages in [of_hcl("system", of_block), of_json("system", of_array)] {
            assert_eq!(messages, "refused: a system job cannot have an affinity");
        }
        assert_eq!(of_hcl("sysbatch", of_block), "`affinity` has no effect in a sysbatch job");
        assert_eq!(of_json("sysbatch", of_array), "`Affinities` has no effect in a sysbatch job");
        for kind in ["service", "batch"] {
            assert_eq!((of_hcl(kind, of_block), of_json(kind, of_array)), (String::new(), String::new()));
        }
    }
    let device =
        format!("resources {{\n device \"gpu\" {{\n{}\n}}\n}}", block.replace("node.class", "device.model"));
    assert_eq!(of_hcl("system", ["", "", &device]), "", "among the devices of a node");
}

#[test]
fn a_payload_comes_with_dispatches_alone() {
    let block = "dispatch_payload {\n file = \"input\"\n}";
    let json = r#""DispatchPayload": {"File": "input"},"#;
    let why = "has no effect in a job that is not parameterized";
    assert_eq!(of_hcl("batch", ["", "", block]), format!("`dispatch_payload` {why}"));
    assert_eq!(of_json("batch", [r#""Dispatched": false,"#, "", json]), format!("`DispatchPayload` {why}"));
    assert_eq!(of_hcl("batch", ["parameterized {}", "", block]), "");
    for job in [r#""ParameterizedJob": {"Payload": "optional"},"#, r#""Dispatched": true, "ParentID": "p","#]
    {
        assert_eq!(of_json("batch", [job, "", json]), "", "{job}");
    }
}

#[test]
fn services_are_warned_of_once_whatever_they_say() {
    let once = "`service` is not registered: there is no catalogue of services";
    for provider in ["nomad", "consul"] {
        let service = format!(
            "service {{\n provider = \"{provider}\"\n name = \"web\"\n tags = [\"a\"]\n canary_tags = [\"b\"]\n port = \"80\"\n \
             address = \"a\"\n meta {{\n k = \"v\"\n}}\n weights {{\n passing = 2\n}}\n check {{\n type = \"tcp\"\n interval = \"10s\"\n \
             timeout = \"2s\"\n}}\n}}\n"
        );
        assert_eq!(of_hcl("service", ["", &service.repeat(2), &service]), once);
    }
    let json =
        r#""Services": [{"Name": "web", "Tags": ["a"], "Cluster": "default", "EnableTagOverride": true}],"#;
    assert_eq!(of_json("service", ["", json, json]), once);
    // What is no part of a registration has its own.
    let service = "service {\n address_mode = \"driver\"\n connect {\n sidecar_service {}\n}\n}";
    let connect = "`connect` in service is not implemented";
    let mode = "address_mode `driver` in service is not implemented";
    assert_eq!(of_hcl("service", ["", service, ""]), format!("{once}\n{mode}\n{connect}"));
}

#[test]
fn a_network_of_a_task_is_to_be_written_in_the_group() {
    let network = "resources {\n network {\n mbits = 10\n port \"http\" {}\n}\n}";
    let text = format!(
        "job \"j\" {{\ngroup \"g\" {{\ntask \"t\" {{\ndriver = \"mock_driver\"\n{network}\n}}\n}}\n}}"
    );
    let warnings = parse(text.as_bytes(), "j.hcl", &Inputs::default()).expect("it is a job").warnings;
    assert_eq!(warnings.messages(), "`network` in resources is not implemented");
    let help = warnings.iter().next().and_then(|warning| warning.help.clone()).unwrap_or_default();
    assert!(help.starts_with("write it in the group"), "{help}");
    let own = "network {\n mbits = 10\n}";
    assert_eq!(of_hcl("service", ["", own, ""]), "`mbits` in network is not implemented");
    // Mistakes in it are mistakes all the same.
    let wrong = network.replace("mbits = 10", "mbits = \"many\"");
    let messages = of_hcl("service", ["", "", &wrong]);
    assert!(messages.contains("`mbits` must be a whole number, found text"), "{messages}");
}

#[test]
fn warnings_are_shown_beside_mistakes() {
    let task = "vault {\n role = \"r\"\n}\nkill_timeout = \"soon\"";
    let text =
        format!("job \"j\" {{\ngroup \"g\" {{\ntask \"t\" {{\ndriver = \"mock_driver\"\n{task}\n}}\n}}\n}}");
    let found = parse(text.as_bytes(), "j.hcl", &Inputs::default()).expect_err("it has a mistake");
    let found: Vec<_> = found.iter().map(|found| (found.severity, found.message.as_str())).collect();
    let expected = [
        (Severity::Warning, "`vault` in task is not implemented"),
        (Severity::Error, "`kill_timeout` is not a duration"),
    ];
    assert_eq!(found, expected);
}

/// What is wrong by itself is found in the same run; what may be right once the value is known is not guessed at.
#[test]
fn a_value_that_is_not_known_hides_no_mistake_elsewhere() {
    let job = "priority = \"high\"\nmeta = {\n a = var.nope\n (var.nope) = 1\n b = [1]\n}";
    let group = "count = var.nope\nscaling {\n min = 2\n max = 3\n}\nnetwork {\n mode = var.nope\n prot \"http\" {}\n}";
    let task = "user = var.nope\nkill_timeout = \"soon\"\nvault {}\nresources {\n memory = var.nope\n memory_max = 20\n}\n\
                config {\n wrong = 1\n run_for = var.nope\n}\nenv {\n a = \"${var.nope}\"\n}";
    let messages = of_hcl("service", [job, group, task]);
    let (nope, messages): (Vec<&str>, Vec<&str>) =
        messages.lines().partition(|line| line.ends_with("the file declares no variable `nope`"));
    assert_eq!(nope.len(), 8, "{nope:?}");
    let expected = [
        "refused: `priority` must be a whole number, found text",
        "`b` in `meta`: expected text, found a list",
        "unknown block `prot` in network",
        "`kill_timeout` is not a duration",
        "`vault` in task is not implemented",
        "driver `mock_driver` has no setting `wrong`",
    ];
    assert_eq!(messages, expected);
}

#[test]
fn a_driver_that_is_not_known_is_not_said_to_be_missing() {
    let text =
        "job \"j\" {\ngroup \"g\" {\ntask \"t\" {\ndriver = var.nope\nconfig {\n anything = 1\n}\n}\n}\n}";
    let found =
        parse(text.as_bytes(), "j.hcl", &Inputs::default()).expect_err("the variable is not declared");
    assert_eq!(found.messages(), "the file declares no variable `nope`");
}
