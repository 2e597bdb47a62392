//! What expressions evaluate to, and why some are refused.

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
fn functions_of_text() {
    check(
        &[
            r#"chomp("a\n\n")"#,
            r#"format("%s is %05.1f%%, %d of %v; %q %-4s|%4s|%x", "it", 3.14159, 7, [1], "q", "l", "r", 255)"#,
            r#"formatlist("%s:%d", ["a", "b"], 80)"#,
            r#"indent(2, "a\nb")"#,
            r#"join(",", ["a", 1, true])"#,
            r#"lower("ÄB")"#,
            r#"regex_replace("v1.2.3", "v(\\d+)\\.(\\d+)", "$2-$1")"#,
            r#"replace("a.b.c", ".", "/")"#,
            r#"split(",", "a,b,")"#,
            r#"strlen("äö")"#,
            r#"strrev("abc")"#,
            r#"substr("hello", -3, 2)"#,
            r#"title("hello big world")"#,
            r#"trim("xxaxx", "x")"#,
            r#"trimprefix("v1", "v")"#,
            r#"trimspace("  a ")"#,
            r#"trimsuffix("a.hcl", ".hcl")"#,
            r#"title("foo_bar baz-o'neil 2nd")"#,
            r#"reverse("abc")"#,
            r#"format("%[2]s %[1]s %[2]s", "a", "b")"#,
            r#"format("%+d % d %x %X %b %o", 5, 5, -255, 255, -5, 8)"#,
            r#"format("%d|%6.2e|%E|%#v|%v", 9007199254740993, 1234.5, 0.00025, "a\"", "a")"#,
            r#"format("%d", 1.5)"#,
            r#"format("%s", "a", "b")"#,
            r#"format("%d")"#,
            r#"format("%y", 1)"#,
            r#"regex_replace("a", "(", "b")"#,
        ],
        expect![[r#"
            chomp("a\n\n") → "a"
            format("%s is %05.1f%%, %d of %v; %q %-4s|%4s|%x", "it", 3.14159, 7, [1], "q", "l", "r", 255) → "it is 003.1%, 7 of [1]; \"q\" l   |   r|ff"
            formatlist("%s:%d", ["a", "b"], 80) → ["a:80","b:80"]
            indent(2, "a\nb") → "a\n  b"
            join(",", ["a", 1, true]) → "a,1,true"
            lower("ÄB") → "äb"
            regex_replace("v1.2.3", "v(\\d+)\\.(\\d+)", "$2-$1") → "2-1.3"
            replace("a.b.c", ".", "/") → "a/b/c"
            split(",", "a,b,") → ["a","b",""]
            strlen("äö") → 2
            strrev("abc") → "cba"
            substr("hello", -3, 2) → "ll"
            title("hello big world") → "Hello Big World"
            trim("xxaxx", "x") → "a"
            trimprefix("v1", "v") → "1"
            trimspace("  a ") → "a"
            trimsuffix("a.hcl", ".hcl") → "a"
            title("foo_bar baz-o'neil 2nd") → "Foo_bar Baz-O'Neil 2nd"
            reverse("abc") → "cba"
            format("%[2]s %[1]s %[2]s", "a", "b") → "b a b"
            format("%+d % d %x %X %b %o", 5, 5, -255, 255, -5, 8) → "+5  5 -ff FF -101 10"
            format("%d|%6.2e|%E|%#v|%v", 9007199254740993, 1234.5, 0.00025, "a\"", "a") → "9007199254740993|1.23e+03|2.500000E-04|\"a\\\"\"|a"
            format("%d", 1.5) → `format`: `%d` needs a whole number, found a number
            format("%s", "a", "b") → `format`: 2 arguments, of which the pattern uses 1
            format("%d") → `format`: there is no argument for `%d`
            format("%y", 1) → `format`: there is no verb `%y`
            regex_replace("a", "(", "b") → `regex_replace`: `(` is not a regular expression
        "#]],
    );
}

#[test]
fn functions_of_collections() {
    check(
        &[
            "chunklist([1, 2, 3], 2)",
            "coalesce(null, \"\", \"b\")",
            "coalescelist([], [1])",
            "compact([\"a\", \"\", null])",
            "concat([1], [2, 3], [])",
            "contains([1, 2], 2)",
            "distinct([2, 1, 2])",
            "element([1, 2, 3], 4)",
            "flatten([1, [2, [3, []]]])",
            "index([\"a\", \"b\"], \"b\")",
            "keys({ b = 1, a = 2 })",
            "length({ a = 1 })",
            "lookup({ a = 1 }, \"b\", 2)",
            "merge({ a = 1, b = 1 }, { b = 2 }, null)",
            "range(3)",
            "range(1, 10, 4)",
            "range(3, 0)",
            "reverse([1, 2])",
            "setintersection([1, 2, 3], [3, 2])",
            "setproduct([1, 2], [\"a\", \"b\"])",
            "setunion([2, 1], [1])",
            "slice([1, 2, 3], 1, 2)",
            "sort([\"b\", \"a\"])",
            "values({ b = 1, a = 2 })",
            "zipmap([\"a\", \"b\"], [1, 2])",
            "max([1, 5, 3]...)",
            "slice([1], 1, 3)",
            "range(0, 1, -1)",
        ],
        expect![[r#"
            chunklist([1, 2, 3], 2) → [[1,2],[3]]
            coalesce(null, "", "b") → ""
            coalescelist([], [1]) → [1]
            compact(["a", "", null]) → ["a"]
            concat([1], [2, 3], []) → [1,2,3]
            contains([1, 2], 2) → true
            distinct([2, 1, 2]) → [2,1]
            element([1, 2, 3], 4) → 2
            flatten([1, [2, [3, []]]]) → [1,2,3]
            index(["a", "b"], "b") → 1
            keys({ b = 1, a = 2 }) → ["a","b"]
            length({ a = 1 }) → 1
            lookup({ a = 1 }, "b", 2) → 2
            merge({ a = 1, b = 1 }, { b = 2 }, null) → {"a":1,"b":2}
            range(3) → [0,1,2]
            range(1, 10, 4) → [1,5,9]
            range(3, 0) → [3,2,1]
            reverse([1, 2]) → [2,1]
            setintersection([1, 2, 3], [3, 2]) → [2,3]
            setproduct([1, 2], ["a", "b"]) → [[1,"a"],[1,"b"],[2,"a"],[2,"b"]]
            setunion([2, 1], [1]) → [1,2]
            slice([1, 2, 3], 1, 2) → [2]
            sort(["b", "a"]) → ["a","b"]
            values({ b = 1, a = 2 }) → [2,1]
            zipmap(["a", "b"], [1, 2]) → {"a":1,"b":2}
            max([1, 5, 3]...) → 5
            slice([1], 1, 3) → `slice`: 1 to 3 is no part of a list of 1 items
            range(0, 1, -1) → `range`: its steps never reach the limit
        "#]],
    );
}

#[test]
fn functions_of_numbers_and_encodings() {
    check(
        &[
            "abs(-1.5)",
            "ceil(1.2)",
            "floor(-1.2)",
            "log(8, 2)",
            "max(1, 3, 2)",
            "min(1, 3, 2)",
            "parseint(\"ff\", 16)",
            "pow(2, 10)",
            "signum(-3)",
            r#"base64decode(base64encode("hä"))"#,
            r#"base64decode("aG\r\nk=\n")"#,
            r#"csvdecode("a,b\n1,2\n")"#,
            r#"jsondecode("{\"a\": [1, 2.5, null]}")"#,
            r#"jsonencode({ b = [true], a = "\"" })"#,
            r#"urlencode("a b&c/d")"#,
            r#"yamlencode({ b = [true, "x: y"], a = "1" })"#,
            r#"yamldecode("a: [1, 2.5, yes, true, null]\nb: {c: 0x10, d: '1'}")"#,
            r#"yamldecode("a: &x 1\nb: *x")"#,
            r#"md5("")"#,
            r#"sha1("abc")"#,
            r#"sha256("abc")"#,
            r#"uuidv5("dns", "example.org")"#,
            r#"formatdate("EEE, DD MMM YYYY hh:mm:ss ZZZ", "2026-01-31T23:05:09Z")"#,
            r#"formatdate("YYYY-MM-DD'T'h:mm AA Z", "2026-01-31T23:05:09+02:00")"#,
            r#"formatdate("h 'o''clock' ''D'' ZZZ ZZZZ", "2026-01-31T23:05:09+02:00")"#,
            r#"formatdate("h 'o''clock", "2026-01-31T23:05:09Z")"#,
            r#"timeadd("2026-01-31T23:05:09Z", "1h30m")"#,
            r#"timeadd("2026-01-31T23:05:09Z", "-24h")"#,
            r#"cidrhost("10.1.0.0/16", 260)"#,
            r#"cidrhost("fd00::/64", -1)"#,
            r#"cidrnetmask("10.0.0.0/12")"#,
            r#"cidrsubnet("10.0.0.0/8", 8, 5)"#,
            r#"cidrsubnets("10.0.0.0/8", 1, 8, 2)"#,
            r#"cidrsubnet("10.0.0.0/30", 8, 0)"#,
            r#"cidrsubnet("10.0.0.0/8", 4294967295, 0)"#,
            r#"parseint("zz", 10)"#,
            r#"timeadd("today", "1h")"#,
            r#"try({}.a, "fallback")"#,
            r#"can({}.a)"#,
            r#"convert("5", number)"#,
            r#"convert(["9007199254740993", 9007199254740993, "1.5"], list(number))"#,
            r#"convert([2, 1, 1], set(string))"#,
        ],
        expect![[r#"
            abs(-1.5) → 1.5
            ceil(1.2) → 2
            floor(-1.2) → -2
            log(8, 2) → 3
            max(1, 3, 2) → 3
            min(1, 3, 2) → 1
            parseint("ff", 16) → 255
            pow(2, 10) → 1024
            signum(-3) → -1
            base64decode(base64encode("hä")) → "hä"
            base64decode("aG\r\nk=\n") → "hi"
            csvdecode("a,b\n1,2\n") → [{"a":"1","b":"2"}]
            jsondecode("{\"a\": [1, 2.5, null]}") → {"a":[1,2.5,null]}
            jsonencode({ b = [true], a = "\"" }) → "{\"a\":\"\\\"\",\"b\":[true]}"
            urlencode("a b&c/d") → "a+b%26c%2Fd"
            yamlencode({ b = [true, "x: y"], a = "1" }) → "a: \"1\"\nb:\n- true\n- \"x: y\"\n"
            yamldecode("a: [1, 2.5, yes, true, null]\nb: {c: 0x10, d: '1'}") → {"a":[1,2.5,"yes",true,null],"b":{"c":16,"d":"1"}}
            yamldecode("a: &x 1\nb: *x") → `yamldecode`: the text has anchors: write out what they stand for
            md5("") → "d41d8cd98f00b204e9800998ecf8427e"
            sha1("abc") → "a9993e364706816aba3e25717850c26c9cd0d89d"
            sha256("abc") → "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
            uuidv5("dns", "example.org") → "aad03681-8b63-5304-89e0-8ca8f49461b5"
            formatdate("EEE, DD MMM YYYY hh:mm:ss ZZZ", "2026-01-31T23:05:09Z") → "Sat, 31 Jan 2026 23:05:09 UTC"
            formatdate("YYYY-MM-DD'T'h:mm AA Z", "2026-01-31T23:05:09+02:00") → "2026-01-31T23:05 PM +02:00"
            formatdate("h 'o''clock' ''D'' ZZZ ZZZZ", "2026-01-31T23:05:09+02:00") → "23 o'clock '31' +0200 +0200"
            formatdate("h 'o''clock", "2026-01-31T23:05:09Z") → `formatdate`: a quote is not closed
            timeadd("2026-01-31T23:05:09Z", "1h30m") → "2026-02-01T00:35:09Z"
            timeadd("2026-01-31T23:05:09Z", "-24h") → "2026-01-30T23:05:09Z"
            cidrhost("10.1.0.0/16", 260) → "10.1.1.4"
            cidrhost("fd00::/64", -1) → "fd00::ffff:ffff:ffff:ffff"
            cidrnetmask("10.0.0.0/12") → "255.240.0.0"
            cidrsubnet("10.0.0.0/8", 8, 5) → "10.5.0.0/16"
            cidrsubnets("10.0.0.0/8", 1, 8, 2) → ["10.0.0.0/9","10.128.0.0/16","10.192.0.0/10"]
            cidrsubnet("10.0.0.0/30", 8, 0) → `cidrsubnet`: the block has not that many bits left
            cidrsubnet("10.0.0.0/8", 4294967295, 0) → `cidrsubnet`: the block has not that many bits left
            parseint("zz", 10) → `parseint`: "zz" is not a whole number of base 10
            timeadd("today", "1h") → `timeadd`: "today" is not a time, as "2026-01-31T12:00:00Z"
            try({}.a, "fallback") → "fallback"
            can({}.a) → false
            convert("5", number) → 5
            convert(["9007199254740993", 9007199254740993, "1.5"], list(number)) → [9007199254740993,9007199254740993,1.5]
            convert([2, 1, 1], set(string)) → ["1","2"]
        "#]],
    );
}

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
