//! Variables, locals and dynamic blocks.

use super::*;

#[test]
fn variables_come_from_flags_files_and_the_environment() {
    let helpers = r#"
        variable "image" { default = "nginx" }
        variable "count" {
          type    = number
          default = 1
        }
        variable "tags" {
          type    = list(string)
          default = []
        }
        variables { tier = "front" }
    "#;
    let values = |inputs: &Inputs| {
        value_with(helpers, "\"${var.image} ${var.count + 1} ${join(\"+\", var.tags)} ${var.tier}\"", inputs)
    };
    expect![[r#""nginx 2  front""#]].assert_eq(&values(&Inputs::default()));
    let inputs = environment(&[("NOMAD_VAR_image", "a"), ("BERTH_VAR_image", "b"), ("NOMAD_VAR_other", "x")]);
    expect![[r#""b 2  front""#]].assert_eq(&values(&inputs));
    let inputs = inputs.file("vars.hcl", "image = \"c\"\ncount = 4\ntags = [\"x\", \"y\"]");
    expect![[r#""c 5 x+y front""#]].assert_eq(&values(&inputs));
    let inputs = inputs.file("vars.json", r#"{"count": 5}"#);
    expect![[r#""c 6 x+y front""#]].assert_eq(&values(&inputs));
    let inputs = inputs.value("tags=[\"z\"]").and_then(|i| i.value("image=d=e")).expect("assignments");
    expect![[r#""d=e 6 z front""#]].assert_eq(&values(&inputs));
}

fn environment(pairs: &[(&str, &str)]) -> Inputs {
    Inputs::default().environment(pairs.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())))
}

#[test]
fn what_a_file_takes_from_the_environment_is_known() {
    let file = "variable \"image\" {}\nvariables {\n count = 1\n tag = \"t\"\n list = []\n}";
    let from_environment =
        |inputs: &Inputs| berth_jobfile::from_environment(file.as_bytes(), "j.hcl", inputs);
    let inputs = environment(&[
        ("NOMAD_VAR_image", "a"),
        ("BERTH_VAR_image", "b"),
        ("NOMAD_VAR_count", "2"),
        ("NOMAD_VAR_tag", "x"),
        ("NOMAD_VAR_list", "[1]"),
        ("NOMAD_VAR_other", "x"),
        ("HOME", "/"),
    ]);
    let of = |pairs: &[(&str, &str)]| {
        pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
    };
    assert_eq!(
        from_environment(&inputs),
        of(&[("count", "2"), ("image", "b"), ("list", "[1]"), ("tag", "x")])
    );
    let inputs = inputs.file("v.hcl", "count = 3").value("tag=y").expect("an assignment");
    assert_eq!(from_environment(&inputs), of(&[("image", "b"), ("list", "[1]")]));
    assert_eq!(berth_jobfile::from_environment(b"{}", "j.json", &inputs), of(&[]));
}

#[test]
fn variables_are_what_they_are_declared_to_be() {
    let one = |declaration: &str, given: &str| {
        let inputs = Inputs::default().value(given).expect("an assignment");
        value_with(&format!("variable \"v\" {{\n{declaration}\n}}"), "var.v", &inputs)
    };
    let port = "type = number\nvalidation {\n condition = var.v > 1024\n error_message = \"must be free\"\n}";
    let object = "type = object({ a = string, b = optional(number, 7) })";
    let lines = [
        one("type = number", "v=5"),
        one("type = string", "v=5"),
        one("type = bool", "v=true"),
        one("type = set(string)", "v=[2, 1, 2]"),
        one("type = map(number)", "v={ a = \"1\" }"),
        one(object, "v={ a = 1 }"),
        one("type = tuple([string, bool])", "v=[\"x\", false]"),
        one(port, "v=8080"),
        one(port, "v=80"),
        one("type = number", "v=five"),
        one("type = number", "v=[1]"),
        one("type = list(number)", "v=[\"x\"]"),
        one(object, "v={ b = 1 }"),
        one("type = strng", "v=1"),
        one("", "w=1"),
        one("nullable = false\ntype = number", "v=null"),
        one("typ = number", "v=1"),
        value_with("variable \"v\" {}", "var.v", &Inputs::default()),
        value_with("variable \"v\" {}\nvariable \"v\" {}", "1", &Inputs::default()),
    ];
    expect![[r#"
        5
        "5"
        true
        ["1","2"]
        {"a":1}
        {"a":"1","b":7}
        ["x",false]
        8080
        variable `v` is not valid: must be free
        the reference to `five` stands outside of a string (for text, and for `${...}`, write quotes around it)
        variable `v` must be a number, found a list
        variable `v` has an item that must be a number, found text
        variable `v` lacks `a`
        there is no type `strng` (did you mean `string`?)
        the job file declares no variable `w` (did you mean `v`?)
        variable `v` may not be null
        `typ` does not belong in a variable (a variable has type, default, description, sensitive, nullable and validation blocks)
        variable `v` has no value (give it by `-var v=...`, in a file of variables, or as NOMAD_VAR_v)
        variable `v` is declared twice
    "#]].assert_eq(&format!("{}\n", lines.join("\n")));
}

#[test]
fn locals_may_stand_in_any_order_but_not_in_a_circle() {
    let with = |locals: &str, expression: &str| {
        value_with(&format!("locals {{\n{locals}\n}}"), expression, &Inputs::default())
    };
    assert_eq!(with("c = local.b + 1\na = 1\nb = local.a + 1", "[local.a, local.b, local.c]"), "[1,2,3]");
    expect!["locals need each other: local.a → local.b → local.c → local.a (one of them must do without the others)"].assert_eq(&with("a = local.b\nb = \"${local.c}\"\nc = [local.a]", "1"));
    expect!["local `a` is declared twice"].assert_eq(&with("a = 1\na = 2", "1"));
    expect!["the file declares no local `nam` (did you mean `name`?)"]
        .assert_eq(&with("name = 1", "local.nam"));
    let long = (0..5000).map(|i| format!("l{i} = local.l{} + 1\n", i + 1)).collect::<String>();
    assert_eq!(with(&format!("{long}l5000 = 0"), "local.l0"), "5000");
}

#[test]
fn dynamic_blocks_make_a_block_for_each_item() {
    let source = r#"
        job "x" {
          group "g" {
            network {
              dynamic "port" {
                for_each = { http = 8080, admin = null }
                labels   = [port.key]
                content {
                  to = port.value
                }
              }
            }
            task "t" {
              driver = "d"
              config {
                dynamic "mount" {
                  for_each = ["a", "b"]
                  iterator = it
                  content {
                    source = "${it.key}-${it.value}"
                    dynamic "option" {
                      for_each = [it.value]
                      content {
                        name = option.value
                      }
                    }
                  }
                }
              }
            }
          }
        }
    "#;
    let job = to_json(&parse_hcl(source, "x.hcl", &Inputs::default()).unwrap_or_else(|e| panic!("{e}")).job);
    let group = &job["TaskGroups"][0];
    expect![[r#"[{"HostNetwork":"","IgnoreCollision":false,"Label":"admin","To":0,"Value":0},{"HostNetwork":"","IgnoreCollision":false,"Label":"http","To":8080,"Value":0}]"#]].assert_eq(&group["Networks"][0]["DynamicPorts"].to_string());
    expect![[
        r#"{"mount":[{"option":[{"name":"a"}],"source":"0-a"},{"option":[{"name":"b"}],"source":"1-b"}]}"#
    ]]
    .assert_eq(&group["Tasks"][0]["Config"].to_string());
}
