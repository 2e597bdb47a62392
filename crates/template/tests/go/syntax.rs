//! Texts, trimming, comments, pipelines, variables and blocks.

use berth_template::{Delimiters, ParsedTemplate, RenderOptions};

use super::all;
use super::world::{World, outcome, parse};

#[test]
fn texts_and_trimming() {
    all(&[
        ("", ""),
        ("plain } text {", "plain } text {"),
        ("a {{ \"b\" }} c", "a b c"),
        ("a {{- \"b\" -}} c", "abc"),
        ("a \n\t{{- \"b\" }} c", "ab c"),
        ("a {{ \"b\" -}} \n c", "a bc"),
        ("{{23 -}} < {{- 45}}", "23<45"),
        ("{{-3}}", "-3"),
        ("{{- -3}}", "-3"),
        ("a{{/* a comment }} */}}b", "ab"),
        ("a {{- /* trimmed */ -}} b", "ab"),
        ("{{ /* not one */ }}", "error: line 1, column 4: '/' has no meaning here"),
        ("a\n{{ \"x\"\n| toUpper }}\n", "a\nX\n"),
        ("{{\"{{\"}}", "{{"),
        ("{{`raw \\n \"text\"`}}", "raw \\n \"text\""),
        ("{{\"\\t\\x41\\u00e9\\\"\\\\\"}}", "\tAé\"\\"),
        ("ä{{ \"ö\" }}ü", "äöü"),
    ]);
}

#[test]
fn literals() {
    all(&[
        ("{{ 1 }} {{ 0x1F }} {{ 010 }} {{ 0b11 }} {{ 1_000 }} {{ +5 }}", "1 31 8 3 1000 5"),
        (
            "{{ 1.5 }} {{ 1e3 }} {{ 1e6 }} {{ 123456789.0 }} {{ 0.00001 }} {{ .5 }}",
            "1.5 1000 1e+06 1.23456789e+08 1e-05 0.5",
        ),
        ("{{ 'a' }} {{ '\\n' }}", "97 10"),
        ("{{ true }} {{ false }}", "true false"),
        ("{{ . }}", "<no value>"),
        (
            "{{ 99999999999999999999 }}",
            "error: line 1, column 4: \"99999999999999999999\" is not a number of 64 bits",
        ),
    ]);
}

#[test]
fn pipelines_and_parentheses() {
    all(&[
        ("{{ \"x\" | printf \"%s-%s\" \"a\" }}", "a-x"),
        ("{{ printf \"%d\" (add 1 2) }}", "3"),
        ("{{ (nomadVar \"nomad/jobs/web\").user }}", "web"),
        ("{{ (index (nomadVar \"nomad/jobs/web\") \"user\") | toUpper | printf \"%q\" }}", "\"WEB\""),
        ("{{ 1 | 2 }}", "error: line 1, column 8: a value is piped into something that is no function"),
        ("{{ .a 1 }}", "error: line 1, column 7: arguments follow something that is no function"),
        ("{{ (1 }}", "error: line 1, column 4: the parenthesis is not closed"),
        ("{{ }}", "error: line 1, column 4: a value is missing here"),
        ("{{ 1 | }}", "error: line 1, column 8: a value is missing here"),
        ("{{ \"a\"\"b\" }}", "error: line 1, column 7: a space is missing before a text in quotes"),
    ]);
}

#[test]
fn variables_have_scopes() {
    all(&[
        ("{{ $x := 1 }}{{ $x }}", "1"),
        ("{{ $x := 1 }}{{ if true }}{{ $x = 2 }}{{ end }}{{ $x }}", "2"),
        ("{{ $x := 1 }}{{ if true }}{{ $x := 2 }}{{ end }}{{ $x }}", "1"),
        ("{{ if $x := 3 }}{{ $x }}{{ end }}", "3"),
        ("{{ if $x := 0 }}{{ else }}{{ $x }}{{ end }}", "0"),
        ("{{ with $v := nomadVar \"nomad/jobs/web\" }}{{ $v.user }}{{ .user }}{{ end }}", "webweb"),
        ("{{ range $i := split \",\" \"a,b\" }}{{ $i }}{{ end }}", "ab"),
        ("{{ $n := 0 }}{{ range loop 5 }}{{ $n = add $n . }}{{ end }}{{ $n }}", "10"),
        ("{{ $x }}", "error: line 1, column 4: there is no variable $x here: declare it with `$x := ...`"),
        (
            "{{ if true }}{{ $x := 1 }}{{ end }}{{ $x }}",
            "error: line 1, column 39: there is no variable $x here: declare it with `$x := ...`",
        ),
        ("{{ $x = 1 }}", "error: line 1, column 4: there is no variable $x: declare it with `:=`"),
        ("{{ $ }}", "<no value>"),
    ]);
}

#[test]
fn conditions() {
    all(&[
        ("{{ if \"\" }}a{{ else }}b{{ end }}", "b"),
        ("{{ if 0 }}a{{ else if 0.0 }}b{{ else if \"x\" }}c{{ else }}d{{ end }}", "c"),
        ("{{ if (split \",\" \"\") }}a{{ else }}b{{ end }}", "b"),
        ("{{ if nil }}a{{ else }}b{{ end }}", "b"),
        ("{{ with \"x\" }}{{ . }}{{ else }}no{{ end }}", "x"),
        ("{{ with \"\" }}{{ . }}{{ else }}no{{ end }}", "no"),
        ("{{ with \"\" }}1{{ else with \"y\" }}{{ . }}{{ end }}", "y"),
        (
            "{{ with nomadVar \"nomad/jobs/web\" }}{{ if .empty }}a{{ else }}b{{ end }}{{ if .none }}c{{ else }}d{{ end }}{{ end }}",
            "bd",
        ),
        ("{{ if true }}", "error: line 1, column 4: `if` has no `end`"),
        ("a\nbc{{ end }}", "error: line 2, column 3: `end` without what it belongs to"),
        ("{{ else }}", "error: line 1, column 1: `else` without what it belongs to"),
        ("{{ if 1 }}{{ else }}{{ else }}{{ end }}", "error: line 1, column 4: `if` has two `else`"),
        ("{{ if 1 }}{{ end 2 }}", "error: line 1, column 18: `2` has no meaning here: the action is to end"),
    ]);
}

#[test]
fn ranges() {
    all(&[
        ("{{ range split \",\" \"a,b,c\" }}[{{ . }}]{{ end }}", "[a][b][c]"),
        ("{{ range $i, $v := split \",\" \"a,b\" }}{{ $i }}={{ $v }} {{ end }}", "0=a 1=b "),
        ("{{ range $k, $v := nomadVar \"nomad/jobs/web/db\" }}{{ $k }}={{ $v }}{{ end }}", "host=db1"),
        ("{{ range $k, $v := parseJSON `{\"b\":1,\"a\":2}` }}{{ $k }}{{ $v }}{{ end }}", "a2b1"),
        ("{{ range nomadVar \"app/list\" }}{{ .Key }}:{{ .Value }} {{ end }}", "csv:a,b,c true:true "),
        ("{{ range 3 }}{{ . }}{{ end }}", "012"),
        ("{{ range split \",\" \"\" }}x{{ else }}none{{ end }}", "none"),
        (
            "{{ range loop 9 }}{{ if eq . 2 }}{{ continue }}{{ end }}{{ if gt . 4 }}{{ break }}{{ end }}{{ . }}{{ end }}",
            "0134",
        ),
        ("{{ range loop 2 }}{{ range loop 2 }}{{ break }}{{ end }}{{ . }}{{ end }}", "01"),
        ("{{ break }}", "error: line 1, column 4: `break` stands in no `range`"),
        (
            "{{ range true }}{{ end }}",
            "error: line 1, column 10: `range` goes over lists, maps and numbers, not over a value of type bool",
        ),
        (
            "{{ range $a, $b }}{{ end }}",
            "error: line 1, column 10: `range` with two variables needs `:=` after them",
        ),
    ]);
}

#[test]
fn templates_within_templates() {
    all(&[
        (
            "{{ define \"row\" }}<{{ . }}>{{ end }}{{ range loop 2 }}{{ template \"row\" . }}{{ end }}",
            "<0><1>",
        ),
        ("{{ template \"later\" \"x\" }}{{ define \"later\" }}{{ $ }}{{ end }}", "x"),
        ("{{ block \"b\" 5 }}[{{ . }}]{{ end }}", "[5]"),
        (
            "{{ $x := 1 }}{{ define \"own\" }}{{ $x }}{{ end }}",
            "error: line 1, column 35: there is no variable $x here: declare it with `$x := ...`",
        ),
        (
            "{{ template \"none\" }}",
            "error: line 1, column 4: there is no template \"none\": `define` it in this one",
        ),
        (
            "{{ define \"a\" }}{{ end }}{{ define \"a\" }}{{ end }}",
            "error: line 1, column 29: template \"a\" is defined twice",
        ),
        (
            "{{ if 1 }}{{ define \"a\" }}{{ end }}{{ end }}",
            "error: line 1, column 14: `define` stands within another block",
        ),
    ]);
}

#[test]
fn other_delimiters() {
    let delimiters = Delimiters { left: "[[".to_owned(), right: "]]".to_owned() };
    let template =
        ParsedTemplate::parse("{{ x }} [[ env \"NOMAD_TASK_NAME\" -]] !", &delimiters).expect("it is read");
    let rendered = template.render(&World::default(), RenderOptions::default()).expect("rendered");
    assert_eq!(rendered.text, "{{ x }} main!");
    let none = Delimiters { left: String::new(), ..delimiters };
    assert!(ParsedTemplate::parse("", &none).is_err());
}

#[test]
fn errors_say_where_in_characters() {
    let error = parse("öö\nöö {{ nope }}").expect_err("unknown");
    assert_eq!((error.line, error.column), (2, 7));
    assert_eq!(
        outcome("a\n  {{ .x.y }}"),
        "error: line 2, column 6: there is no field .x of a value that is nil"
    );
    assert_eq!(outcome("{{ \"open"), "error: line 1, column 4: the text after \" has no end");
    assert_eq!(outcome("{{ 1"), "error: line 1, column 1: the action has no end \"}}\"");
    assert_eq!(outcome("{{/* open"), "error: line 1, column 1: the comment has no end `*/`");
}
