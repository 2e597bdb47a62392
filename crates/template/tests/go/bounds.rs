//! Hostile templates end soon, in bounded memory, and say which limit they ran into.

use berth_template::limits::{ACTIONS_MAX, NESTING_MAX, TEXT_BYTES_MAX};

use super::world::{parse, shown};

/// On a thread with less room than those that serve requests and prepare tasks have.
fn on_a_small_stack(template: String) -> String {
    let thread = std::thread::Builder::new().stack_size(1 << 20);
    thread.spawn(move || shown(&template)).expect("a thread").join().expect("no overflow")
}

#[test]
fn nesting_is_bounded() {
    let ifs = |count: usize| "{{ if true }}".repeat(count) + "x" + &"{{ end }}".repeat(count);
    assert_eq!(on_a_small_stack(ifs(NESTING_MAX)), "x");
    assert!(on_a_small_stack(ifs(NESTING_MAX + 1)).contains("lie in one another, the limit of a template"));
    let parentheses = |count: usize| format!("{{{{ {}1{} }}}}", "(".repeat(count), ")".repeat(count));
    assert_eq!(on_a_small_stack(parentheses(NESTING_MAX)), "1");
    assert!(on_a_small_stack(parentheses(100_000)).contains("the limit of a template"));
    let chain = "{{ if 0 }}".to_owned() + &"{{ else if 0 }}".repeat(NESTING_MAX - 1) + "{{ end }}";
    assert_eq!(on_a_small_stack(chain), "");
    let recursive =
        "{{ define \"a\" }}{{ if true }}{{ template \"a\" ((.)) }}{{ end }}{{ end }}{{ template \"a\" }}";
    assert!(on_a_small_stack(recursive.to_owned()).contains("within one another, the limit of one template"));
    let json = format!("{{{{ toJSON (parseJSON `{}`) }}}}", "[".repeat(10_000));
    assert!(on_a_small_stack(json).contains("it is nested too deeply"));
}

#[test]
fn text_and_actions_are_bounded() {
    let error = parse(&"x".repeat(TEXT_BYTES_MAX + 1)).expect_err("too long");
    assert_eq!(error.message, "the template has 1048577 bytes; it may have 1048576");
    let error = parse(&"{{1}}".repeat(ACTIONS_MAX + 1)).expect_err("too many");
    assert!(error.message.contains("more than 50000 actions"), "{error}");
}

#[test]
fn steps_are_bounded() {
    for endless in [
        "{{ range 9223372036854775807 }}{{ end }}",
        "{{ range loop 1000 }}{{ range loop 1000 }}{{ range loop 1000 }}{{ end }}{{ end }}{{ end }}",
        "{{ range loop 100000 }}{{ $x := regexMatch \"[a-z]{40}\" \"x\" }}{{ end }}",
        "{{ define \"a\" }}{{ range loop 9999 }}{{ template \"b\" }}{{ end }}{{ end }}{{ define \"b\" }}{{ range loop 9999 }}{{ end }}{{ end }}{{ template \"a\" }}",
    ] {
        let said = shown(endless);
        assert!(said.contains("the limit of one template"), "{endless}: {said}");
    }
    let long = format!(
        "{{{{ $x := `{}` }}}}{{{{ range loop 100000 }}}}{{{{ $y := toLower $x }}}}{{{{ end }}}}",
        "x".repeat(100_000)
    );
    assert!(shown(&long).contains("the limit of one template"));
}

#[test]
fn what_is_made_is_bounded() {
    let doubling = "{{ $x := \"xxxxxxxx\" }}{{ range loop 100 }}{{ $x = printf \"%s%s\" $x $x }}{{ end }}";
    for huge in [
        "{{ range loop 100000 }}aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa{{ end }}",
        "{{ loop 9223372036854775807 }}",
        "{{ loop -9223372036854775808 9223372036854775807 }}",
        doubling,
        "{{ $x := printf \"%9999d\" 1 }}{{ replaceAll \" \" $x $x }}",
        "{{ $x := printf \"%9999d\" 1 }}{{ regexReplaceAll \".*\" \"$0$0$0$0$0$0$0$0$0$0\" $x | replaceAll \" \" $x }}",
        "{{ $x := printf \"%9999d\" 1 }}{{ range loop 10000 }}{{ $y := split \"\" $x }}{{ end }}",
        "{{ $x := printf \"%9999d\" 1 }}{{ range loop 10000 }}{{ $y := join $x (split \"\" $x) }}{{ end }}",
        "{{ indent 9223372036854775807 \"x\" }}",
    ] {
        let said = shown(huge);
        assert!(said.contains("the limit of one template"), "{huge}: {said}");
    }
    let padded = format!("{{{{ printf `{}` }}}}", "%9999d".repeat(1_000));
    assert!(shown(&padded).len() < 5 << 20);
    let padded = format!("{{{{ printf `{}`{} }}}}", "%9999d".repeat(1_000), " 1".repeat(1_000));
    assert!(shown(&padded).contains("the limit of one template"));
    assert!(shown("{{ printf \"%99999d\" 1 }}").contains("pads to 10000 at most"));
}

#[test]
fn what_is_asked_for_is_bounded() {
    let many = "{{ range loop 100 }}{{ $x := nomadVarExists (printf \"a/%d\" .) }}{{ end }}";
    assert!(shown(many).contains("more than 64 variables and lists, the limit of one template"));
}
