//! Whatever stands in a template, reading and rendering it ends without a panic.

use berth_template::{RenderOptions, function_names};
use proptest::prelude::*;

use super::world::{World, parse};

/// Pieces of templates: most of what is put together from them can be read, or nearly.
fn piece() -> impl Strategy<Value = String> {
    let fixed = prop::sample::select(vec![
        "{{",
        "}}",
        "{{- ",
        " -}}",
        "(",
        ")",
        "|",
        " ",
        "\n",
        ".",
        ".a",
        "$",
        "$x",
        ":=",
        "=",
        ",",
        "if ",
        "else ",
        "end",
        "range ",
        "with ",
        "define ",
        "template ",
        "block ",
        "break",
        "continue",
        "true",
        "nil",
        "0",
        "-1",
        "1.5",
        "9223372036854775807",
        "\"a\"",
        "`b`",
        "'c'",
        "\"%d %s\"",
        "/*",
        "*/",
        "{{ end }}",
        "{{ else }}",
        "{{ if . }}",
        "{{ range $k, $v := nomadVar \"nomad/jobs/web\" }}",
        "{{ $x := \"é\" }}",
        "ä",
        "\u{0}",
    ]);
    prop_oneof![
        4 => fixed.prop_map(str::to_owned),
        2 => prop::sample::select(function_names()).prop_map(|name| format!("{name} ")),
        1 => "\\PC{0,6}",
    ]
}

/// A call of a function with arguments of any kind.
fn call() -> impl Strategy<Value = String> {
    let argument = prop::sample::select(vec![
        "0",
        "-1",
        "3",
        "1.5",
        "true",
        "nil",
        "\"\"",
        "\"a,b\"",
        "\"%5d|%-3s|%q\"",
        "\"é😀\"",
        "(loop 3)",
        "(parseJSON `{\"a\":[1,null,{}]}`)",
        "(nomadVar \"nomad/jobs/web\")",
        "(nomadVar \"none\")",
        ".",
        "9223372036854775807",
        "-9223372036854775808",
        "(split \",\" \"a,b\")",
        "(nomadVarList)",
    ]);
    let arguments = prop::collection::vec(argument, 0..4);
    (prop::sample::select(function_names()), arguments)
        .prop_map(|(name, arguments)| format!("{{{{ {name} {} }}}}", arguments.join(" ")))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2_000, ..ProptestConfig::default() })]

    #[test]
    fn no_pieces_panic(pieces in prop::collection::vec(piece(), 0..40)) {
        if let Ok(template) = parse(&pieces.concat()) {
            let _ = template.render(&World::default(), RenderOptions::default());
        }
    }

    #[test]
    fn no_text_panics(text in "\\PC*") {
        let _ = parse(&format!("{{{{ {text} }}}}"));
        let _ = parse(&text);
    }

    #[test]
    fn no_call_panics(text in call()) {
        if let Ok(template) = parse(&text) {
            let _ = template.render(&World::default(), RenderOptions { error_on_missing_key: true });
        }
    }

    #[test]
    fn a_text_without_actions_is_rendered_as_it_is(text in "[^{]*") {
        let rendered = parse(&text).expect("read").render(&World::default(), RenderOptions::default()).expect("rendered");
        prop_assert_eq!(rendered.text, text);
    }
}
