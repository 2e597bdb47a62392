//! What each function comes to.

use berth_template::{RenderOptions, function_names};

use super::all;
use super::world::{World, outcome, parse, rendered};

#[test]
fn comparisons_and_logic() {
    all(&[
        (
            "{{ eq 1 1 }} {{ eq 1 2 3 1 }} {{ eq \"a\" \"b\" }} {{ ne 1 2 }} {{ eq 1 1.0 }}",
            "true true false true true",
        ),
        ("{{ lt 1 2 }} {{ le 2 2 }} {{ gt \"b\" \"a\" }} {{ ge 1.5 2.5 }}", "true true true false"),
        ("{{ and 1 0 (mustEnv \"NONE\") }} {{ or 0 \"x\" (mustEnv \"NONE\") }}", "0 x"),
        ("{{ and true \"last\" }} {{ or false 0 }} {{ not 0 }}", "last 0 true"),
        ("{{ 1 | and 0 }} {{ 1 | and true }}", "0 1"),
        ("{{ eq nil nil }}", "true"),
        (
            "{{ with nomadVar \"nomad/jobs/web\" }}{{ eq .user \"web\" }}{{ eq .user.Value \"web\" }}{{ end }}",
            "truetrue",
        ),
        (
            "{{ lt 1 \"a\" }}",
            "error: line 1, column 4: lt: a value of type int cannot be compared with one of type string",
        ),
        ("{{ eq 1 }}", "error: line 1, column 4: \"eq\" takes 2 or more arguments, and is given 1"),
    ]);
}

#[test]
fn formats() {
    all(&[
        (
            "{{ printf \"%d|%5d|%-5d|%05d|%+d|%x|%X|%#x|%o|%b|%c\" 42 42 42 42 42 255 255 255 8 5 65 }}",
            "42|   42|42   |00042|+42|ff|FF|0xff|10|101|A",
        ),
        ("{{ printf \"%05d %x\" -42 -255 }}", "-0042 -ff"),
        (
            "{{ printf \"%s|%5s|%-5s|%q|%v|%.2s|%x\" \"ab\" \"ab\" \"ab\" \"a\\\"b\" \"ab\" \"abc\" \"ab\" }}",
            "ab|   ab|ab   |\"a\\\"b\"|ab|ab|6162",
        ),
        (
            "{{ printf \"%f|%.2f|%8.3f|%e|%g|%v\" 1.5 1.555 1.5 1500.0 1.5 2.0 }}",
            "1.500000|1.55|   1.500|1.500000e+03|1.5|2",
        ),
        // Precisions as `fmt` of Go 1.22 has them.
        (
            "{{ printf \"%.3g|%.3g|%.3g|%.3g|%.3g|%.3g|%.3v|%.0g|%8.2g|%+.2g\" 1234.5678 123.456 0.00001234 1.0 100000.0 0.000123456 3.14159 2.5 1.25 9.99 }}",
            "1.23e+03|123|1.23e-05|1|1e+05|0.000123|3.14|2|     1.2|+10",
        ),
        ("{{ printf \"%.10g|%.2g|%.1g|%.5g\" 0.1 99.9 -0.05 1000000.0 }}", "0.1|1e+02|-0.05|1e+06"),
        ("{{ printf \"%t %v %T %T\" true nil 1 \"x\" }}", "true <nil> int string"),
        (
            "{{ printf \"%v %v\" (split \",\" \"a,b\") (parseJSON `{\"b\":1,\"a\":null}`) }}",
            "[a b] map[a:<nil> b:1]",
        ),
        ("{{ printf \"%d%% %s\" 5 }}", "5% %!s(MISSING)"),
        (
            "{{ printf \"%d\" \"x\" }} {{ printf \"%s\" 1 }} {{ printf \"a\" 1 }}",
            "%!d(string=x) %!s(int=1) a%!(EXTRA int=1)",
        ),
        ("{{ print 1 2 \"a\" \"b\" 3 }}|{{ println 1 \"a\" }}", "1 2ab3|1 a\n"),
        (
            "{{ printf \"%*d\" 1 2 }}",
            "error: line 1, column 4: printf: %* in a format is not implemented: write the number itself",
        ),
    ]);
}

#[test]
fn texts() {
    all(&[
        (
            "{{ toLower \"AB\" }}{{ toUpper \"ab\" }}{{ toTitle \"a big-dog's d_ay\" }}",
            "abABA Big-Dog'S D_ay",
        ),
        (
            "{{ trimSpace \" a \\n\" }}|{{ trim \"!\" \"!!a!!\" }}|{{ trimPrefix \"a\" \"aab\" }}|{{ trimSuffix \"b\" \"abb\" }}",
            "a|a|ab|ab",
        ),
        ("{{ \"a-b-c\" | replaceAll \"-\" \"_\" }}", "a_b_c"),
        ("{{ \"a,b\" | split \",\" | join \"+\" }} {{ split \"\" \"ab\" }}", "a+b [a b]"),
        (
            "{{ split \",\" \" a,b \\n\" }}|{{ len (split \"\" \" \") }}|{{ split \"\" \" x y \" }}",
            "[a b]|0|[x   y]",
        ),
        ("{{ \"x\\n\\ny\" | indent 2 }}", "  x\n\n  y"),
        (
            "{{ \"foo.bar\" | regexMatch \"foo[.a-z]+\" }} {{ \"a12b\" | regexReplaceAll \"([0-9])\" \"<$1>\" }}",
            "true a<1><2>b",
        ),
        (
            "{{ regexMatch \"(\" \"a\" }}",
            "error: line 1, column 4: regexMatch: the regular expression is none: unclosed group",
        ),
        (
            "{{ slice \"abcd\" 1 3 }} {{ slice \"abcd\" 2 }} {{ slice (split \",\" \"a,b,c\") 1 }}",
            "bc cd [b c]",
        ),
        ("{{ html \"<a>&'\" }} {{ urlquery \"a b&c\" }}", "&lt;a&gt;&amp;&#39; a+b%26c"),
        ("{{ toLower 1 }}", "error: line 1, column 4: toLower: expected a string, found a value of type int"),
    ]);
}

#[test]
fn lists_and_maps() {
    all(&[
        ("{{ len \"abc\" }}{{ len (split \",\" \"a,b\") }}{{ len (parseJSON `{\"a\":1}`) }}", "321"),
        ("{{ index (split \",\" \"a,b\") 1 }} {{ index (parseJSON `{\"a\":[5,6]}`) \"a\" 1 }}", "b 6"),
        ("{{ index (parseJSON `{}`) \"a\" }}", "<no value>"),
        ("{{ index (split \",\" \"a\") 1 }}", "error: line 1, column 4: index: the index is out of range"),
        (
            "{{ in (split \",\" \"a,b\") \"a\" }} {{ split \",\" \"a,b\" | contains \"c\" }} {{ in \"abc\" \"b\" }}",
            "true false true",
        ),
        (
            "{{ $l := split \",\" \"a,b\" }}{{ $l | containsAny (split \",\" \"b,c\") }} {{ $l | containsAll (split \",\" \"b,c\") }} {{ $l | containsNone (split \",\" \"x\") }} {{ $l | containsNotAll (split \",\" \"b,c\") }}",
            "true false true true",
        ),
        (
            "{{ with parseJSON (nomadVar \"nomad/jobs/web\").json }}{{ .f }} {{ .t }} {{ .n }} {{ (index .a 2).b }} {{ len .a }}{{ end }}",
            "1.5 true <no value> deep 3",
        ),
        ("{{ (parseJSON `{\"a\":1}`).b }}|{{ (parseJSON `{\"a\":1}`).a }}", "<no value>|1"),
    ]);
}

#[test]
fn numbers() {
    all(&[
        (
            "{{ add 1 2 }} {{ 5 | subtract 2 }} {{ multiply 2 3 }} {{ 7 | divide 2 }} {{ 7 | modulo 4 }} {{ minimum 1 2 }} {{ maximum 1 2 }}",
            "3 3 6 3 3 1 2",
        ),
        ("{{ add 1 2.5 }} {{ 5.0 | divide 2 }}", "3.5 2.5"),
        ("{{ divide 0 1 }}", "error: line 1, column 4: divide: the result is not a number of 64 bits"),
        (
            "{{ add 9223372036854775807 1 }}",
            "error: line 1, column 4: add: the result is not a number of 64 bits",
        ),
        (
            "{{ parseInt \"-5\" }} {{ parseUint \"5\" }} {{ parseFloat \"1.5\" }} {{ parseBool \"T\" }} {{ parseInt \"\" }}",
            "-5 5 1.5 true 0",
        ),
        ("{{ parseUint \"-5\" }}", "error: line 1, column 4: parseUint: it is not such a number"),
        (
            "{{ range loop 2 4 }}{{ . }}{{ end }} {{ len (loop 3) }} {{ len (loop -1) }} {{ len (loop \"2\") }}",
            "23 3 0 2",
        ),
    ]);
}

#[test]
fn encodings() {
    all(&[
        (
            "{{ base64Encode \"a?>\" }} {{ base64Decode \"YT8+\" }} {{ base64URLEncode \"a?>\" }} {{ base64URLDecode \"YT8-\" }}",
            "YT8+ a?> YT8- a?>",
        ),
        ("{{ base64Decode \"YT\\r\\n8+\\n\" }} {{ base64URLDecode \"YT\\n8-\" }}", "a?> a?>"),
        ("{{ sha256Hex \"a\" }}", "ca978112ca1bbdcafac231b39a23dc4da786eff8147c4e72b9807785afee48bb"),
        ("{{ md5sum \"a\" }}", "0cc175b9c0f1b6a831c399e269772661"),
        (
            "{{ toJSON (parseJSON `{\"b\":[1,2.5,\"<x>\"],\"a\":null}`) }}",
            "{\"a\":null,\"b\":[1,2.5,\"\\u003cx\\u003e\"]}",
        ),
        ("{{ toJSON 1.0 }} {{ toJSON -2.0 }} {{ toJSON (parseJSON `[3.0,1e3,0.5]`) }}", "1 -2 [3,1000,0.5]"),
        ("{{ toJSONPretty (parseJSON `{\"a\":1}`) }}", "{\n  \"a\": 1\n}"),
        ("{{ nomadVar \"nomad/jobs/web/db\" | toJSON }}", "{\"host\":\"db1\"}"),
    ]);
    assert!(outcome("{{ parseJSON \"{\" }}").contains("it is not JSON"));
    assert!(outcome("{{ base64Decode \"!\" }}").contains("it is not Base64"));
}

#[test]
fn what_is_known_of_the_task() {
    all(&[
        (
            "{{ env \"NOMAD_TASK_NAME\" }}{{ env \"NONE\" }}{{ envOrDefault \"NONE\" \"x\" }}{{ envOrDefault \"EMPTY\" \"y\" }}",
            "mainxy",
        ),
        (
            "{{ mustEnv \"NONE\" }}",
            "error: line 1, column 4: mustEnv: the task's environment has no such variable",
        ),
        ("{{ timestamp }} {{ timestamp \"unix\" }}", "2023-11-14T22:13:20Z 1700000000"),
        (
            "{{ timestamp \"2006\" }}",
            "error: line 1, column 4: timestamp: a layout is not implemented: leave it out, or write \"unix\"",
        ),
    ]);
}

#[test]
fn variables() {
    all(&[
        ("{{ with nomadVar \"nomad/jobs/web\" }}{{ .user }}:{{ .password }}{{ end }}", "web:a<b"),
        (
            "{{ with nomadVar \"app/list\" }}{{ .Keys }} {{ .Values }} {{ range .Tuples }}{{ .K }}={{ .V }};{{ end }} {{ .Metadata.Path }} {{ .Metadata.ModifyIndex }}{{ end }}",
            "[csv true] [a,b,c true] csv=a,b,c;true=true; app/list 8",
        ),
        (
            "{{ (nomadVar \" /nomad/jobs/web/ \").user }} {{ nomadVarExists \"/app/list\" }} {{ nomadVarExists \"///app/list@\" }}",
            "error: line 1, column 80: nomadVarExists: after `@` stands one namespace; variables of other regions are not implemented",
        ),
        ("{{ (nomadVar \" /nomad/jobs/web/ \").user }} {{ nomadVarExists \"/app/list\" }}", "web true"),
        ("{{ nomadVar \"//a/@b\" }}", "missing nomad.var.block(a@b)"),
        ("{{ nomadVarExists \"app/list\" }} {{ nomadVarExists \"none\" }}", "true false"),
        (
            "{{ range nomadVarList \"nomad/jobs\" }}{{ .Path }}@{{ .Namespace }} {{ end }}{{ len (nomadVarList) }}",
            "nomad/jobs/web@default nomad/jobs/web/db@default 3",
        ),
        ("{{ range nomadVarListSafe \"app\" }}{{ . }}{{ end }}", "app/list"),
        (
            "{{ nomadVar \"\" }}",
            "error: line 1, column 4: nomadVar: a variable needs a path, as in \"nomad/jobs/web\"",
        ),
        (
            "{{ nomadVar \"a@b.c\" }}",
            "error: line 1, column 4: nomadVar: after `@` stands one namespace; variables of other regions are not implemented",
        ),
        (
            "{{ (index (nomadVarList \"app\") 0).None }}",
            "error: line 1, column 4: there is no field .None: known are .Namespace, .Path, .CreateIndex, .ModifyIndex, .CreateTime, .ModifyTime",
        ),
    ]);
}

#[test]
fn a_missing_key_is_an_error_where_that_is_asked_for() {
    let strict = RenderOptions { error_on_missing_key: true };
    for (template, why) in [
        ("{{ (nomadVar \"nomad/jobs/web\").none }}", "the variable has no item \"none\""),
        ("{{ (parseJSON `{}`).none }}", "the map has no entry \"none\""),
    ] {
        let template = parse(template).expect("it is read");
        let error = template.render(&World::default(), strict).expect_err("missing").message;
        assert!(error.starts_with(why), "{error}");
    }
}

#[test]
fn functions_that_are_not_there_are_named_when_a_template_is_read() {
    for (name, why) in [
        ("key", "Berth has no Consul"),
        ("secret", "Berth has no Vault"),
        ("nomadService", "Berth registers no services yet"),
        ("file", "a template reads nothing of its node"),
        ("sprig_upper", "Sprig"),
        ("toYAML", "toJSON"),
        ("splitToMap", "split and index are there"),
        ("trimspace", "did you mean \"trimSpace\"?"),
        ("nope", "there is no function \"nope\""),
    ] {
        // It is found wherever it stands, also where it is never called.
        let error =
            parse(&format!("a\n{{{{ if false }}}}{{{{ {name} \"x\" }}}}{{{{ end }}}}")).expect_err("unknown");
        assert_eq!((error.line, error.column), (2, 18), "{error}");
        assert!(error.message.contains(why) && error.message.contains(name), "{error}");
    }
    assert!(function_names().windows(2).all(|pair| pair[0] < pair[1]), "each once");
    assert!(rendered("{{ join \",\" (loop 2) }}").is_err());
}

#[test]
fn a_literal_that_cannot_work_is_refused_when_a_template_is_read() {
    for (call, why) in [
        ("timestamp \"2006-01-02\"", "timestamp: a layout is not implemented"),
        ("nomadVar \"/\"", "nomadVar: a variable needs a path"),
        ("nomadVarExists \"a@*\"", "nomadVarExists: after `@` stands one namespace"),
    ] {
        let error = parse(&format!("{{{{ if false }}}}{{{{ {call} }}}}{{{{ end }}}}")).expect_err("refused");
        assert!(error.message.starts_with(why), "{error}");
        assert_eq!(error.column, 18);
    }
    assert!(parse("{{ timestamp \"unix\" }}{{ timestamp }}{{ nomadVar (env \"X\") }}").is_ok());
}
