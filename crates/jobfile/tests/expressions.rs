//! What expressions evaluate to, and why some are refused.

#[path = "expressions/functions.rs"]
mod functions;
#[path = "expressions/variables.rs"]
mod variables;

use berth_jobfile::{Inputs, parse_hcl, to_json};
use expect_test::{Expect, expect};

/// A job in which a setting has the expression as its value, behind what helps to write it.
fn job(helpers: &str, expression: &str) -> String {
    format!(
        "{helpers}\njob \"x\" {{\n task \"t\" {{\n driver = \"d\"\n config {{\n v = {expression}\n }}\n }}\n}}"
    )
}

fn value_with(helpers: &str, expression: &str, inputs: &Inputs) -> String {
    match parse_hcl(&job(helpers, expression), "x.hcl", inputs) {
        Ok(parsed) => to_json(&parsed.job)["TaskGroups"][0]["Tasks"][0]["Config"]["v"].to_string(),
        Err(mistakes) => {
            let of_one = |mistake: &berth_jobfile::Diagnostic| match &mistake.help {
                Some(help) => format!("{} ({help})", mistake.message),
                None => mistake.message.clone(),
            };
            mistakes.iter().map(of_one).collect::<Vec<_>>().join("; ")
        }
    }
}

fn value(expression: &str) -> String {
    value_with("", expression, &Inputs::default())
}

/// A line for each expression, with what it comes to.
fn check(expressions: &[&str], expected: Expect) {
    let lines = expressions.iter().map(|expression| format!("{expression} → {}\n", value(expression)));
    expected.assert_eq(&lines.collect::<String>());
}

#[test]
fn operators_bind_as_in_mathematics() {
    check(
        &[
            "1 + 2 * 3 - 4 / 2",
            "(1 + 2) * 3",
            "7 / 2",
            "-7 % 3",
            "2 - 3 - 4",
            "-(1 + 2)",
            "1 < 2 && 2 <= 2 || false && true",
            "!(1 == 1.0)",
            "\"a\" == \"a\" != false",
            "1 > 2 ? \"yes\" : \"no\"",
            "true ? 1 : true ? 2 : 3",
            "9223372036854775807 + 1",
            "0.1 + 0.2",
            "\"5\" * 2",
        ],
        expect![[r#"
            1 + 2 * 3 - 4 / 2 → 5
            (1 + 2) * 3 → 9
            7 / 2 → 3.5
            -7 % 3 → -1
            2 - 3 - 4 → -5
            -(1 + 2) → -3
            1 < 2 && 2 <= 2 || false && true → true
            !(1 == 1.0) → true
            "a" == "a" != false → true
            1 > 2 ? "yes" : "no" → "no"
            true ? 1 : true ? 2 : 3 → 1
            9223372036854775807 + 1 → 9.223372036854776e+18
            0.1 + 0.2 → 0.30000000000000004
            "5" * 2 → 10
        "#]],
    );
}

#[test]
fn what_has_no_value_says_why() {
    check(
        &[
            "1 / 0",
            "1 + [2]",
            "!3",
            "true && 3",
            "[1][2]",
            "{ a = 1 }.b",
            "{ alpha = 1 }.alpah",
            "1.5.x",
            "\"x\" ? 1 : 2",
            "\"1\" ? 1 : 2",
            "nobody",
            "node.class",
            "upper(node.class)",
            "\"${upper(attr.cpu.arch)}\"",
            "\"${[1]} x\"",
            "var.x",
            "local.x",
            "uper(\"x\")",
            "upper()",
            "upper([])",
            "uuidv4()",
            "file(\"/etc/passwd\")",
            "[for x in 3 : x]",
            "{for x in [1, 1] : \"k\" => x}",
            "[for x in [1] : x => 1]",
            "\"%{ if true }x\"",
            "\"%{ endif }\"",
        ],
        expect![[r#"
            1 / 0 → division by zero
            1 + [2] → expected a number, found a list
            !3 → `!` needs true or false, found a number
            true && 3 → `&&` and `||` need true or false, found a number
            [1][2] → index 2 is outside of the list, which has 1 items
            { a = 1 }.b → there is no `b` in it (did you mean `a`?)
            { alpha = 1 }.alpah → there is no `alpah` in it (did you mean `alpha`?)
            1.5.x → a number has no attribute `x`
            "x" ? 1 : 2 → a condition must be true or false, found text
            "1" ? 1 : 2 → 1
            nobody → the reference to `nobody` stands outside of a string (for text, and for `${...}`, write quotes around it)
            node.class → `node` is not known before the task runs (it may stand alone in a string, as in `"${node.class}"`; nothing else can be done with it here)
            upper(node.class) → `node` is not known before the task runs (it may stand alone in a string, as in `"${node.class}"`; nothing else can be done with it here)
            "${upper(attr.cpu.arch)}" → `attr` is not known before the task runs (it may stand alone in a string, as in `"${node.class}"`; nothing else can be done with it here)
            "${[1]} x" → only text, numbers and truth values can stand inside of a string, not a list
            var.x → the file declares no variable `x` (write `variable "x" {}` in front of the job)
            local.x → the file declares no local `x` (write `locals { x = ... }` in front of the job)
            uper("x") → there is no function `uper` (did you mean `upper`?)
            upper() → `upper` takes 1 argument, found 0
            upper([]) → `upper`: argument 1 must be text, found a list
            uuidv4() → the function `uuidv4` is left out on purpose (the same file must always make the same job; `uuidv5` does)
            file("/etc/passwd") → `file`: servers read no files: use it with `berth job run`
            [for x in 3 : x] → expected a list or an object to go over, found a number
            {for x in [1, 1] : "k" => x} → two items of this `for` expression have the same key (write `...` behind the value to make lists of them)
            [for x in [1] : x => 1] → a `for` expression in brackets makes a list: it has no key
            "%{ if true }x" → `%{ if }` has no `%{ endif }`
            "%{ endif }" → this ends nothing: no `if` or `for` is open here
        "#]],
    );
}

#[test]
fn parts_are_taken_of_lists_and_objects() {
    check(
        &[
            "[1, 2, 3][1]",
            "{ a = { b = [5] } }.a.b.0",
            "{ a = 1 }[\"a\"]",
            "[{ n = 1 }, { n = 2 }][*].n",
            "[{ n = 1 }, { n = 2 }].*.n",
            "[{ n = [1, 2] }, { n = [3] }].*.n[0]",
            "[[1], [2]][*][0]",
            "{ n = 1 }[*].n",
            "null[*]",
        ],
        expect![[r#"
            [1, 2, 3][1] → 2
            { a = { b = [5] } }.a.b.0 → 5
            { a = 1 }["a"] → 1
            [{ n = 1 }, { n = 2 }][*].n → [1,2]
            [{ n = 1 }, { n = 2 }].*.n → [1,2]
            [{ n = [1, 2] }, { n = [3] }].*.n[0] → [1,2]
            [[1], [2]][*][0] → [1,2]
            { n = 1 }[*].n → [1]
            null[*] → []
        "#]],
    );
}

#[test]
fn for_goes_over_lists_and_objects() {
    check(
        &[
            "[for x in [1, 2, 3] : x * 10 if x != 2]",
            "[for i, x in [\"a\", \"b\"] : \"${i}${x}\"]",
            "[for k, v in { b = 1, a = 2 } : k]",
            "{for x in [\"a\", \"b\"] : upper(x) => x}",
            "{for x in [\"a\", \"b\", \"ab\"] : substr(x, 0, 1) => x...}",
            "[for x in [1, 2] : [for y in [3] : x * y]]",
        ],
        expect![[r#"
            [for x in [1, 2, 3] : x * 10 if x != 2] → [10,30]
            [for i, x in ["a", "b"] : "${i}${x}"] → ["0a","1b"]
            [for k, v in { b = 1, a = 2 } : k] → ["a","b"]
            {for x in ["a", "b"] : upper(x) => x} → {"A":"a","B":"b"}
            {for x in ["a", "b", "ab"] : substr(x, 0, 1) => x...} → {"a":["a","ab"],"b":["b"]}
            [for x in [1, 2] : [for y in [3] : x * y]] → [[3],[6]]
        "#]],
    );
}

#[test]
fn strings_keep_what_only_agents_know() {
    check(
        &[
            r#""${1 + 1} ${node.class} ${ attr.cpu.arch }${env["HOME"]}""#,
            r#""${NOMAD_PORT_http}""#,
            r#""$${HOME} $${NOMAD_TASK_NAME} $${a b} %%{x}""#,
            r#""${true}""#,
            r#""${[1, 2]}""#,
            r#""a ${~ 1 ~} b""#,
            r#""%{ if 1 == 1 }yes%{ else }no%{ endif }""#,
            r#""%{ for i, x in ["a", "b"] }${i}=${x} %{ endfor }""#,
            r#""${[for x in ["a"] : "${x}-${node.class}"][0]}""#,
            "<<-END\n  %{ for x in [1, 2] ~}\n    - ${x}\n  %{ endfor ~}\n  end\n  END",
            "<<END\nENDLESS\nEND of it\nEND",
            "trimspace(<<END\nx\nEND)",
        ],
        expect![[r#"
            "${1 + 1} ${node.class} ${ attr.cpu.arch }${env["HOME"]}" → "2 ${node.class} ${ attr.cpu.arch }${env[\"HOME\"]}"
            "${NOMAD_PORT_http}" → "${NOMAD_PORT_http}"
            "$${HOME} $${NOMAD_TASK_NAME} $${a b} %%{x}" → "${HOME} $${NOMAD_TASK_NAME} $${a b} %{x}"
            "${true}" → true
            "${[1, 2]}" → [1,2]
            "a ${~ 1 ~} b" → "a1b"
            "%{ if 1 == 1 }yes%{ else }no%{ endif }" → "yes"
            "%{ for i, x in ["a", "b"] }${i}=${x} %{ endfor }" → "0=a 1=b "
            "${[for x in ["a"] : "${x}-${node.class}"][0]}" → "a-${node.class}"
            <<-END
              %{ for x in [1, 2] ~}
                - ${x}
              %{ endfor ~}
              end
              END → "  - 1\n  - 2\nend\n"
            <<END
            ENDLESS
            END of it
            END → "ENDLESS\nEND of it\n"
            trimspace(<<END
            x
            END) → "x"
        "#]],
    );
}

#[test]
fn sources_that_make_much_of_little_are_stopped() {
    let doubling = (0..60).map(|i| format!("l{} = [local.l{i}, local.l{i}]\n", i + 1)).collect::<String>();
    let nested = (0..100).map(|i| format!("l{} = [local.l{i}]\n", i + 1)).collect::<String>();
    let with = |locals: &str, expression: &str| {
        value_with(&format!("locals {{\nl0 = \"some text\"\n{locals}\n}}"), expression, &Inputs::default())
    };
    let lines = [
        with(&doubling, "local.l60"),
        with(&nested, "local.l100"),
        value("[for a in range(10000) : [for b in range(10000) : b]]"),
        value("range(1000000000)"),
        value("setproduct(range(1000), range(1000))"),
        value("format(\"%1000000000d\", 1)"),
        value("indent(1000000000, \"a\\nb\")"),
        value("join(join(\",\", range(90000)), range(90000))"),
        value("replace(join(\",\", range(90000)), \",\", join(\",\", range(90000)))"),
        value("try(range(1000000000), 1)"),
        value("try([for a in range(10000) : [for b in range(10000) : b]], 1)"),
        value("\"%{ for a in range(90000) }%{ for b in range(90000) }x%{ endfor }%{ endfor }\""),
        value(&format!("a{}", "[*]".repeat(9))),
    ];
    expect![[r#"
        this value takes more than 16 MiB
        this value is nested more than 64 levels deep
        the expressions of this file make and look at more than 64 MiB (shorten its lists, or what is done for each item)
        `range`: more than 100000 numbers
        `setproduct`: more than 10000 lists
        `format`: a width or precision of more than 1024
        `indent`: its value would take more than 16 MiB
        `join`: its value would take more than 16 MiB
        `replace`: its value would take more than 16 MiB
        1
        the expressions of this file make and look at more than 64 MiB (shorten its lists, or what is done for each item)
        the expressions of this file make and look at more than 64 MiB (shorten its lists, or what is done for each item)
        more than 8 `[*]` in one expression
    "#]].assert_eq(&format!("{}\n", lines.join("\n")));
}
