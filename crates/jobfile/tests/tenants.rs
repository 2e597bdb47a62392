//! Files of namespaces and quotas, in both syntaxes, sound and not.

use berth_jobfile::{parse_namespace, parse_node_pool, parse_quota};
use expect_test::{Expect, expect};

fn check_namespace(source: &str, expected: Expect) {
    expected.assert_eq(&match parse_namespace(source.as_bytes(), "dev.hcl") {
        Ok(namespace) => format!("{namespace:#}\n"),
        Err(mistakes) => mistakes.to_string(),
    });
}

fn check_quota(source: &str, expected: Expect) {
    expected.assert_eq(&match parse_quota(source.as_bytes(), "small.hcl") {
        Ok(quota) => format!("{quota:#}\n"),
        Err(mistakes) => mistakes.to_string(),
    });
}

#[test]
fn a_namespace_is_the_same_in_both_syntaxes() {
    let hcl = r#"
        name        = "dev"
        description = "for trying out"
        weight      = 2.5
        quota       = "small"
        meta { owner = "platform" }
        capabilities { disabled_task_drivers = ["raw_exec"] }
    "#;
    let json = r#"{"Name": "dev", "Description": "for trying out", "Weight": 2.5, "Quota": "small",
        "Meta": {"owner": "platform"}, "Capabilities": {"DisabledTaskDrivers": ["raw_exec"]}, "ModifyIndex": 7}"#;
    let read = |source: &str| parse_namespace(source.as_bytes(), "dev").expect("it is sound");
    assert_eq!(read(hcl), read(json));
    check_namespace(
        hcl,
        expect![[r#"
        {
          "Capabilities": {
            "DisabledTaskDrivers": [
              "raw_exec"
            ],
            "EnabledTaskDrivers": null
          },
          "Description": "for trying out",
          "Meta": {
            "owner": "platform"
          },
          "Name": "dev",
          "Parent": "",
          "Quota": "small",
          "Weight": 2.5
        }
    "#]],
    );
}

#[test]
fn mistakes_in_a_namespace_are_shown_in_their_place() {
    check_namespace(
        "nmae = \"dev\"\nweight = \"much\"\ncapabilities {\n  enabled_task_drivers = \"exec\"\n}\n",
        expect![[r#"
            error: unknown attribute `nmae` in namespace
             --> dev.hcl:1:1
              |
            1 | nmae = "dev"
              | ^^^^
              = help: did you mean `name`?

            error: `weight` is `much`, but must be a number
             --> dev.hcl:2:10
              |
            2 | weight = "much"
              |          ^^^^^^

            error: `enabled_task_drivers` must be a list of texts, found text
             --> dev.hcl:4:26
              |
            4 |   enabled_task_drivers = "exec"
              |                          ^^^^^^
        "#]],
    );
    check_namespace(
        r#"{"Name": 5, "Colour": "red"}"#,
        expect![[r#"
        error: unknown key `Colour` in namespace
         --> dev.hcl: namespace.Colour
    "#]],
    );
}

#[test]
fn a_quota_limits_and_guarantees() {
    check_quota(
        r#"
            name = "small"
            limit {
              region = "global"
              region_limit {
                cpu    = 2500
                memory = 1000
                device "nvidia/gpu" { count = 2 }
              }
            }
            guarantee { cpu = 500 }
        "#,
        expect![[r#"
            {
              "Description": "",
              "Guarantee": {
                "CPU": 500,
                "Devices": [],
                "DiskMB": null,
                "MemoryMB": null
              },
              "Limits": [
                {
                  "Region": "global",
                  "RegionLimit": {
                    "CPU": 2500,
                    "Devices": [
                      {
                        "Count": 2,
                        "Name": "nvidia/gpu"
                      }
                    ],
                    "DiskMB": null,
                    "MemoryMB": 1000
                  }
                }
              ],
              "Name": "small"
            }
        "#]],
    );
    check_quota(
        "limit {\n  region_limit {\n    cpu = -5\n    memroy = 1\n    device \"x\" { count = \"many\" }\n  }\n}\n",
        expect![[r#"
            error: quota has no name
             --> small.hcl
              = help: write `name = "..."` at the top of the file

            error: `cpu` is -5, but must be -1 to 1000000000000
             --> small.hcl:3:11
              |
            3 |     cpu = -5
              |           ^^

            error: unknown attribute `memroy` in amounts
             --> small.hcl:4:5
              |
            4 |     memroy = 1
              |     ^^^^^^
              = help: did you mean `memory`?

            error: `count` must be a whole number, found text
             --> small.hcl:5:26
              |
            5 |     device "x" { count = "many" }
              |                          ^^^^^^
        "#]],
    );
}

#[test]
fn a_node_pool_is_a_block_with_its_name_or_a_document() {
    let read = |source: &str| match parse_node_pool(source.as_bytes(), "pool") {
        Ok(pool) => pool.to_string(),
        Err(mistakes) => mistakes.to_string(),
    };
    let hcl = "node_pool \"gpu\" {\n  description = \"with GPUs\"\n  meta { owner = \"ml\" }\n}\n";
    let json = r#"{"Name": "gpu", "Description": "with GPUs", "Meta": {"owner": "ml"}, "CreateIndex": 7}"#;
    assert_eq!(read(hcl), r#"{"Description":"with GPUs","Meta":{"owner":"ml"},"Name":"gpu"}"#);
    assert_eq!(read(hcl), read(json));
    assert!(read("node_pool { }\n").contains("no name"), "{}", read("node_pool { }\n"));
    let two = read("node_pool \"a\" { }\nnode_pool \"b\" { }\n");
    assert!(two.contains("several node pools"), "{two}");
    assert!(read("# nothing\n").contains("there is no node pool"), "{}", read("# nothing\n"));
    let enterprise = read("node_pool \"a\" {\n  scheduler_config { }\n}\n");
    assert!(enterprise.contains("scheduler_config") && enterprise.contains("pool:2:3"), "{enterprise}");
}
