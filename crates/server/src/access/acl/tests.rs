//! Compiled policies, compared with a naive evaluator.

mod tokens;

use berth_jobfile::{NAMESPACE_CAPABILITIES, PolicyRules};
use berth_model::JobKey;

use super::*;
use crate::access::{Capability, Realm};

/// What policies come to together.
fn compile<'p>(policies: impl IntoIterator<Item = &'p PolicyRules>) -> Rights {
    let grants: Vec<PolicyGrants> = policies.into_iter().map(PolicyGrants::from).collect();
    super::compile(&grants)
}

/// What a policy of a few rules says, chosen by the digits of a number.
fn policy(mut number: u64) -> String {
    const PATTERNS: [&str; 7] = ["web", "web-admin", "web-*", "*", "*-admin", "other", "w*b"];
    const SAYS: [&str; 6] = [
        r#"policy = "read""#,
        r#"policy = "write""#,
        r#"policy = "deny""#,
        r#"capabilities = ["read-logs"]"#,
        r#"capabilities = ["deny", "read-job"]"#,
        r#"policy = "scale""#,
    ];
    let mut digit = |below: usize| {
        let digit = (number % below as u64) as usize;
        number /= below as u64;
        digit
    };
    (0..=digit(3))
        .map(|_| format!("namespace \"{}\" {{ {} }}\n", PATTERNS[digit(7)], SAYS[digit(6)]))
        .collect()
}

/// Whether a pattern fits a name: as slow as can be, and as plain.
fn fits(pattern: &str, name: &str) -> bool {
    match pattern.split_at_checked(1) {
        None => name.is_empty(),
        Some(("*", rest)) => (0..=name.len()).any(|at| fits(rest, &name[at..])),
        Some((letter, rest)) => name.strip_prefix(letter).is_some_and(|name| fits(rest, name)),
    }
}

/// The plainest evaluator: of all rules whose pattern fits best, one must grant it and none deny.
fn grants(policies: &[PolicyRules], namespace: &str, capability: Capability) -> bool {
    let rules: Vec<_> = policies.iter().flat_map(|policy| &policy.namespaces).collect();
    let fitting = rules.iter().map(|rule| &*rule.pattern);
    let fitting = fitting.filter(|pattern| fits(pattern, namespace));
    // An exact name goes before every pattern; then the one with most letters; then the first by its text.
    let best = fitting.min_by_key(|pattern| {
        let letters = pattern.chars().filter(|c| *c != '*').count();
        (pattern.contains('*'), std::cmp::Reverse(letters), pattern.to_string())
    });
    let Some(best) = best else { return false };
    let message: Vec<_> = rules.into_iter().filter(|rule| rule.pattern == best).collect();
    let denied = message.iter().any(|rule| {
        rule.level == Some(berth_jobfile::Level::Deny) || rule.capabilities.iter().any(|word| word == "deny")
    });
    let granted =
        message.iter().filter_map(|rule| grant::in_namespace(rule)).any(|some| some.has(capability));
    granted && !denied
}

#[test]
fn compiled_policies_grant_what_a_naive_evaluator_grants() {
    let (mut granted, mut refused) = (0, 0);
    for seed in 0..4000_u64 {
        let mixed = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 8;
        let texts = [policy(mixed), policy(mixed >> 24)];
        let rules = texts.each_ref().map(|text| parse_policy(text.as_bytes(), "p").expect("it is right").0);
        let rights = compile(&rules);
        for namespace in ["web", "web-admin", "web-2", "other", "weird-admin", "x", "wb"] {
            for capability in
                [Capability::ReadJob, Capability::RegisterJob, Capability::ReadLogs, Capability::ScaleJob]
            {
                let expected = grants(&rules, namespace, capability);
                let found = rights.grant(capability, Realm::Namespace(namespace));
                assert_eq!(found, expected, "{capability:?} in {namespace} by {texts:#?}");
                if expected { granted += 1 } else { refused += 1 }
            }
        }
        for capability in [Capability::NodeRead, Capability::OperatorRead, Capability::Management] {
            assert!(!rights.grant(capability, Realm::Cluster));
        }
    }
    assert!(granted > 10_000 && refused > 10_000, "{granted} granted, {refused} refused");
}

/// What a few rules about variables say, chosen by the digits of a number.
fn policy_of_variables(mut number: u64) -> String {
    const NAMESPACES: [&str; 4] = ["web", "web-*", "*", "w*"];
    const PATHS: [&str; 7] = ["app", "app/*", "*", "*/db", "app/db", "a*b", "app*"];
    const SAYS: [&str; 5] =
        [r#""list""#, r#""read""#, r#""write", "destroy""#, r#""deny""#, r#""deny", "read""#];
    let mut digit = |below: usize| {
        let digit = (number % below as u64) as usize;
        number /= below as u64;
        digit
    };
    let mut rules = String::new();
    for _ in 0..=digit(4) {
        let (namespace, path, says) = (NAMESPACES[digit(4)], PATHS[digit(7)], SAYS[digit(5)]);
        rules += &format!(
            "namespace \"{namespace}\" {{\n variables {{\n path \"{path}\" {{ capabilities = [{says}] }}\n }}\n}}\n"
        );
    }
    rules
}

/// The plainest evaluator: of all rules whose namespace and path fit best, one must grant it and none deny.
fn grants_variable(policies: &[PolicyRules], namespace: &str, path: &str, capability: &str) -> bool {
    let namespaces = policies.iter().flat_map(|policy| &policy.namespaces);
    let rules = namespaces.flat_map(|rule| rule.variables.iter().map(move |of| (&*rule.pattern, of)));
    let rules: Vec<_> = rules.map(|(namespace, of)| ((namespace, &*of.pattern), &of.capabilities)).collect();
    let fitting = rules.iter().map(|(key, _)| *key);
    let fitting = fitting.filter(|(one, other)| fits(one, namespace) && fits(other, path));
    let letters = |text: &str| text.chars().filter(|c| *c != '*').count();
    let best = fitting.min_by_key(|(one, other)| {
        let is_pattern = one.contains('*') || other.contains('*');
        (is_pattern, std::cmp::Reverse(letters(one) + letters(other)), format!("{one}\0{other}"))
    });
    let message = rules.iter().filter(|(key, _)| Some(*key) == best).flat_map(|(_, words)| *words);
    let message: Vec<&str> = message.map(String::as_str).collect();
    let granted = message.contains(&capability) || (capability == "list" && message.contains(&"read"));
    granted && !message.contains(&"deny")
}

#[test]
fn compiled_rules_of_variables_grant_what_a_naive_evaluator_grants() {
    let (mut granted, mut refused) = (0, 0);
    for seed in 0..4000_u64 {
        let mixed = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let texts = [policy_of_variables(mixed), policy_of_variables(mixed >> 24)];
        let rules = texts.each_ref().map(|text| parse_policy(text.as_bytes(), "p").expect("it is right").0);
        let rights = compile(&rules);
        for (namespace, path) in ["web", "web-2", "other", "w"].into_iter().flat_map(|namespace| {
            ["app", "app/db", "db", "x/db", "ab", "app/a/db"].map(|path| (namespace, path))
        }) {
            for (capability, word) in [
                (Capability::VariablesList, "list"),
                (Capability::VariablesRead, "read"),
                (Capability::VariablesWrite, "write"),
                (Capability::VariablesDestroy, "destroy"),
            ] {
                let expected = grants_variable(&rules, namespace, path, word);
                let found = rights.grant(capability, Realm::Variable { namespace, path });
                assert_eq!(found, expected, "{word} {path} in {namespace} by {texts:#?}");
                if expected { granted += 1 } else { refused += 1 }
            }
            assert!(!rights.grant(Capability::ReadJob, Realm::Namespace(namespace)));
        }
    }
    assert!(granted > 10_000 && refused > 10_000, "{granted} granted, {refused} refused");
}

/// Numbers below others, one after the other, that follow from a seed.
fn digits(seed: u64) -> impl FnMut(usize) -> usize {
    let mut number = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 8;
    move |below| {
        let digit = (number % below as u64) as usize;
        number /= below as u64;
        digit
    }
}

/// What a task may do: a rule about exactly that path says all, else what is its own may be listed and read besides.
fn grants_task(policies: &[PolicyRules], task: &TaskName, path: &str, capability: &str) -> bool {
    let namespace = &*task.job.namespace;
    let rules = policies.iter().flat_map(|policy| &policy.namespaces);
    let mut exact = rules.filter(|rule| rule.pattern == namespace).flat_map(|rule| &rule.variables);
    let own = [
        "nomad/jobs".to_owned(),
        format!("nomad/jobs/{}", task.job.id),
        format!("nomad/jobs/{}/{}", task.job.id, task.group),
        format!("nomad/jobs/{}/{}/{}", task.job.id, task.group, task.task),
    ];
    let is_own = own.iter().any(|own| own == path) && matches!(capability, "list" | "read");
    (is_own && !exact.any(|rule| rule.pattern == path))
        || grants_variable(policies, namespace, path, capability)
}

#[test]
fn a_task_may_read_what_is_its_own_unless_a_rule_names_that_path() {
    const PATHS: [&str; 6] = [
        "nomad/jobs",
        "nomad/jobs/web",
        "nomad/jobs/web/*",
        "nomad/*",
        "nomad/jobs/web/g/t",
        "nomad/jobs/w*",
    ];
    const SAYS: [&str; 5] =
        [r#""list""#, r#""read""#, r#""write", "destroy""#, r#""deny""#, r#""deny", "read""#];
    let task = TaskName { job: JobKey::new("team", "web"), group: "g".to_owned(), task: "t".to_owned() };
    let (mut granted, mut refused) = (0, 0);
    for seed in 0..2000_u64 {
        let mut digit = digits(seed);
        let rules: String = (0..=digit(4))
            .map(|_| {
                let (namespace, path, says) = (["team", "t*"][digit(2)], PATHS[digit(6)], SAYS[digit(5)]);
                format!("namespace \"{namespace}\" {{\n variables {{\n path \"{path}\" {{ capabilities = [{says}] }}\n }}\n}}\n")
            })
            .collect();
        let policies = [parse_policy(rules.as_bytes(), "p").expect("it is right").0];
        let mut rights = compile(&policies);
        rights.grant_own(&task);
        for path in
            ["nomad/jobs", "nomad/jobs/web", "nomad/jobs/web/g", "nomad/jobs/web/g/t", "nomad/jobs/wo"]
        {
            for (capability, word) in [
                (Capability::VariablesList, "list"),
                (Capability::VariablesRead, "read"),
                (Capability::VariablesWrite, "write"),
            ] {
                let expected = grants_task(&policies, &task, path, word);
                let found = rights.grant(capability, Realm::Variable { namespace: "team", path });
                assert_eq!(found, expected, "{word} {path} by {rules}");
                if expected { granted += 1 } else { refused += 1 }
            }
        }
    }
    assert!(granted > 3000 && refused > 3000, "{granted} granted, {refused} refused");
}

/// The plainest evaluator: of all rules whose name fits best, one must grant it and none deny.
fn grants_host_volume(policies: &[PolicyRules], name: &str, writes: bool) -> bool {
    use berth_jobfile::Level;
    let rules: Vec<_> = policies.iter().flat_map(|policy| &policy.host_volumes).collect();
    let fitting = rules.iter().map(|rule| &*rule.pattern).filter(|pattern| fits(pattern, name));
    let best = fitting.min_by_key(|pattern| {
        let letters = pattern.chars().filter(|c| *c != '*').count();
        (pattern.contains('*'), std::cmp::Reverse(letters), pattern.to_string())
    });
    let message: Vec<_> = rules.into_iter().filter(|rule| Some(&*rule.pattern) == best).collect();
    let says = |level: Level, word: &str| {
        message
            .iter()
            .any(|rule| rule.level == Some(level) || rule.capabilities.iter().any(|one| one == word))
    };
    let may_write = says(Level::Write, "mount-readwrite");
    let may = may_write || (!writes && says(Level::Read, "mount-readonly"));
    may && !says(Level::Deny, "deny")
}

#[test]
fn compiled_rules_of_host_volumes_grant_what_a_naive_evaluator_grants() {
    const NAMES: [&str; 6] = ["data", "data-*", "*", "*-ro", "d*a", "other"];
    const SAYS: [&str; 6] = [
        r#"policy = "read""#,
        r#"policy = "write""#,
        r#"policy = "deny""#,
        r#"capabilities = ["mount-readonly"]"#,
        r#"capabilities = ["mount-readwrite"]"#,
        r#"capabilities = ["deny", "mount-readwrite"]"#,
    ];
    let (mut granted, mut refused) = (0, 0);
    for seed in 0..2000_u64 {
        let mut digit = digits(seed);
        let rules: String = (0..=digit(4))
            .map(|_| format!("host_volume \"{}\" {{ {} }}\n", NAMES[digit(6)], SAYS[digit(6)]))
            .collect();
        let (parsed, warnings) = parse_policy(rules.as_bytes(), "p").expect("it is right");
        assert!(warnings.is_empty(), "{warnings}");
        let policies = [parsed];
        let rights = compile(&policies);
        for name in ["data", "data-1", "data-ro", "other", "dca", "x"] {
            for (capability, writes) in
                [(Capability::MountReadOnly, false), (Capability::MountReadWrite, true)]
            {
                let expected = grants_host_volume(&policies, name, writes);
                let found = rights.grant(capability, Realm::HostVolume(name));
                assert_eq!(found, expected, "{capability:?} {name} by {rules}");
                if expected { granted += 1 } else { refused += 1 }
            }
        }
    }
    assert!(granted > 3000 && refused > 3000, "{granted} granted, {refused} refused");
}

/// The plainest evaluator: of all rules whose name fits best, one must grant it and none deny.
fn grants_node_pool(policies: &[PolicyRules], name: &str, word: &str) -> bool {
    use berth_jobfile::Level;
    let rules: Vec<_> = policies.iter().flat_map(|policy| &policy.node_pools).collect();
    let fitting = rules.iter().map(|rule| &*rule.pattern).filter(|pattern| fits(pattern, name));
    let best = fitting.min_by_key(|pattern| {
        let letters = pattern.chars().filter(|c| *c != '*').count();
        (pattern.contains('*'), std::cmp::Reverse(letters), pattern.to_string())
    });
    let message: Vec<_> = rules.into_iter().filter(|rule| Some(&*rule.pattern) == best).collect();
    let says = |word: &str| message.iter().any(|rule| rule.capabilities.iter().any(|one| one == word));
    let has_level = |level: Level| message.iter().any(|rule| rule.level == Some(level));
    let granted = says(word) || has_level(Level::Write) || (word == "read" && has_level(Level::Read));
    granted && !says("deny") && !has_level(Level::Deny)
}

#[test]
fn compiled_rules_of_node_pools_grant_what_a_naive_evaluator_grants() {
    const NAMES: [&str; 6] = ["gpu", "gpu-*", "*", "*-eu", "g*u", "default"];
    const SAYS: [&str; 7] = [
        r#"policy = "read""#,
        r#"policy = "write""#,
        r#"policy = "deny""#,
        r#"capabilities = ["read"]"#,
        r#"capabilities = ["write"]"#,
        r#"capabilities = ["delete", "read"]"#,
        r#"capabilities = ["deny", "write"]"#,
    ];
    let (mut granted, mut refused) = (0, 0);
    for seed in 0..3000_u64 {
        let mut digit = digits(seed);
        let mut policies = Vec::new();
        for _ in 0..=digit(2) {
            let rules: String = (0..=digit(4))
                .map(|_| format!("node_pool \"{}\" {{ {} }}\n", NAMES[digit(6)], SAYS[digit(7)]))
                .collect();
            let (parsed, warnings) = parse_policy(rules.as_bytes(), "p").expect("it is right");
            assert!(warnings.is_empty(), "{warnings}");
            policies.push(parsed);
        }
        let rights = compile(&policies);
        for name in ["gpu", "gpu-1", "gpu-eu", "default", "gxu", "x", "all"] {
            for (capability, word) in [
                (Capability::NodePoolRead, "read"),
                (Capability::NodePoolWrite, "write"),
                (Capability::NodePoolDelete, "delete"),
            ] {
                let expected = grants_node_pool(&policies, name, word);
                let found = rights.grant(capability, Realm::NodePool(name));
                assert_eq!(found, expected, "{capability:?} {name} by {policies:#?}");
                if expected { granted += 1 } else { refused += 1 }
            }
        }
        assert!(!rights.grant(Capability::NodeRead, Realm::Cluster), "nodes are not their pools");
    }
    assert!(granted > 3000 && refused > 3000, "{granted} granted, {refused} refused");
}

#[test]
fn a_cluster_rule_grants_its_capabilities_and_write_grants_no_root_keys() {
    use Capability::*;
    let of = |rules: &str| {
        let (rules, _) = parse_policy(rules.as_bytes(), "p").expect("it is right");
        compile([&rules]).cluster
    };
    let only = |words: &str| of(&format!("operator {{ {words} }}"));
    assert_eq!(only(r#"policy = "read""#), [OperatorRead].into());
    assert_eq!(only(r#"policy = "write""#), [OperatorRead, OperatorWrite, SnapshotSave].into());
    for (word, granted) in [
        ("snapshot-save", vec![SnapshotSave]),
        ("keyring-read", vec![KeyringRead]),
        ("keyring-rotate", vec![KeyringRotate]),
        ("keyring-delete", vec![KeyringDelete]),
        ("license-read", vec![]),
        ("deny", vec![]),
    ] {
        assert_eq!(only(&format!("capabilities = [\"{word}\"]")), granted.into_iter().collect(), "{word}");
    }
    let both = only(
        r#"policy = "read"
        capabilities = ["keyring-read"]"#,
    );
    assert_eq!(both, [OperatorRead, KeyringRead].into());
    let denied = only(
        r#"policy = "write"
        capabilities = ["deny"]"#,
    );
    assert!(denied.is_empty());
    let others = ["policy = \"write\"", "capabilities = [\"deny\"]"].map(|words| {
        let text = format!("operator {{ {words} }}");
        parse_policy(text.as_bytes(), "p").expect("it is right").0
    });
    assert!(compile(&others).cluster.is_empty(), "what one policy denies, none grants");
    for (word, lists) in [("list", true), ("read", true), ("write", true), ("deny", false)] {
        let granted = of(&format!("plugin {{ policy = \"{word}\" }}"));
        assert_eq!(granted.has(PluginList), lists, "{word}");
    }
}

#[test]
fn words_that_no_rule_knows_are_refused_with_their_line_and_column() {
    for (rules, place, help) in [
        ("operator {\n  capabilities = [\"snapshot-safe\"]\n}", "2:", "did you mean `snapshot-save`?"),
        ("node_pool \"a\" {\n  capabilities = [\"red\"]\n}", "2:", "did you mean `read`?"),
        ("node_pool \"a\" {\n  policy = \"list\"\n}", "2:", "read"),
        ("plugin {\n  policy = \"scale\"\n}", "2:", "list"),
        ("plugin {\n  capabilities = [\"list\"]\n}", "2:", "there is no capability"),
        ("agent {\n  capabilities = [\"read\"]\n}", "2:", "there is no capability"),
        ("node_pool \"a\" { }", "1:", "the rule says nothing"),
        ("plugin { }", "1:", "the rule says nothing"),
        ("operator { }", "1:", "the rule says nothing"),
        ("node_pool \"a/b\" { policy = \"read\" }", "1:", "cannot be the name of a node_pool"),
    ] {
        let refused = parse_policy(rules.as_bytes(), "p").expect_err("it is wrong").to_string();
        assert!(refused.contains(&format!("p:{place}")), "{rules}: {refused}");
        assert!(refused.contains(help), "{rules}: {refused}");
    }
    let (_, warnings) =
        parse_policy(br#"operator { capabilities = ["license-read"] }"#, "p").expect("it is right");
    assert!(warnings.to_string().contains("`license-read` grants nothing"), "{warnings}");
}

#[test]
fn no_word_grants_more_than_write_but_one_or_anything_in_another_namespace() {
    let write = br#"namespace "web" {
        policy       = "write"
        capabilities = ["alloc-node-exec"]
    }"#;
    let write = compile([&parse_policy(write, "p").expect("it is right").0]);
    for word in NAMESPACE_CAPABILITIES {
        let text = format!(r#"namespace "web" {{ capabilities = ["{word}"] }}"#);
        let (rules, warnings) = parse_policy(text.as_bytes(), "p").expect("it is right");
        let rights = compile([&rules]);
        let granted = rights.namespaces["web"];
        assert_eq!(granted.common(write.namespaces["web"]), granted, "{word}");
        assert_eq!(granted.is_empty(), *word == "deny", "{word}");
        let of_nothing = granted == [Capability::ListNamespaces].into();
        assert_eq!(warnings.to_string().contains("grants nothing yet"), of_nothing, "{word}: {warnings}");
        assert!(!rights.grant(Capability::ListNamespaces, Realm::Namespace("web-admin")));
    }
}

#[test]
fn each_word_of_a_jobs_life_grants_its_part_and_submit_job_grants_all() {
    let parts = [
        ("register-job", Capability::RegisterJob),
        ("revert-job", Capability::RevertJob),
        ("deregister-job", Capability::DeregisterJob),
        ("purge-job", Capability::PurgeJob),
        ("evaluate-job", Capability::EvaluateJob),
        ("plan-job", Capability::PlanJob),
        ("tag-job-version", Capability::TagJobVersion),
        ("stable-job", Capability::StableJob),
        ("force-periodic-job", Capability::ForcePeriodicJob),
        ("fail-deployment", Capability::FailDeployment),
        ("pause-deployment", Capability::PauseDeployment),
        ("promote-deployment", Capability::PromoteDeployment),
        ("unblock-deployment", Capability::UnblockDeployment),
        ("set-alloc-health-deployment", Capability::SetAllocHealth),
        ("scale-job", Capability::ScaleJob),
    ];
    let of = |rule: &str| {
        let text = format!(r#"namespace "web" {{ {rule} }}"#);
        compile([&parse_policy(text.as_bytes(), "p").expect("it is right").0])
    };
    let (submit, write) = (of(r#"capabilities = ["submit-job"]"#), of(r#"policy = "write""#));
    for (word, part) in parts {
        let rights = of(&format!(r#"capabilities = ["{word}"]"#));
        for (_, other) in parts {
            // Whoever purges a job stops it.
            let expected = other == part || (word == "purge-job" && other == Capability::DeregisterJob);
            assert_eq!(rights.grant(other, Realm::Namespace("web")), expected, "{word}: {other:?}");
        }
        assert!(!rights.grant(part, Realm::Namespace("other")) && !rights.grant(part, Realm::AllNamespaces));
        assert!(submit.grant(part, Realm::Namespace("web")) && write.grant(part, Realm::Namespace("web")));
        assert!(!of(r#"policy = "read""#).grant(part, Realm::Namespace("web")), "{word}");
    }
}

#[test]
fn of_two_rules_for_a_part_of_the_cluster_the_stronger_applies_and_deny_is_strongest() {
    let rules = ["read", "write", "deny"].map(|word| {
        let text = format!(r#"node {{ policy = "{word}" }}"#);
        parse_policy(text.as_bytes(), "p").expect("it is right").0
    });
    let [read, write, deny] = &rules;
    let may = |policies: &[&PolicyRules], capability| {
        compile(policies.iter().copied()).grant(capability, Realm::Cluster)
    };
    assert!(may(&[read], Capability::NodeRead) && !may(&[read], Capability::NodeWrite));
    assert!(may(&[write, read], Capability::NodeWrite) && may(&[write], Capability::NodeRead));
    assert!(!may(&[write, deny, read], Capability::NodeRead));
}
