//! Hostile templates end soon, in bounded memory, and say which limit they ran into.

use berth_template::limits::{ACTIONS_MAX, NESTING_MAX, TEXT_BYTES_MAX, VARIABLES_MAX};
use berth_template::{Delimiters, ParsedTemplate};

use super::world::{outcome, parse};

/// On a thread with less room than those that serve requests and prepare tasks have.
fn on_a_small_stack(template: String) -> String {
    let thread = std::thread::Builder::new().stack_size(1 << 20);
    thread.spawn(move || outcome(&template)).expect("a thread").join().expect("no overflow")
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
        let text = outcome(endless);
        assert!(text.contains("the limit of one template"), "{endless}: {text}");
    }
    let long = format!(
        "{{{{ $x := `{}` }}}}{{{{ range loop 100000 }}}}{{{{ $y := toLower $x }}}}{{{{ end }}}}",
        "x".repeat(100_000)
    );
    assert!(outcome(&long).contains("the limit of one template"));
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
        "{{ $x := printf \"%09999d\" 1 }}{{ range loop 10000 }}{{ $y := split \"\" $x }}{{ end }}",
        "{{ $x := printf \"%09999d\" 1 }}{{ range loop 10000 }}{{ $y := join $x (split \"\" $x) }}{{ end }}",
        "{{ indent 9223372036854775807 \"x\" }}",
    ] {
        let text = outcome(huge);
        assert!(text.contains("the limit of one template"), "{huge}: {text}");
    }
    let later = format!("first\n{{{{ range loop 100000 }}}}{}{{{{ end }}}}", "a".repeat(100));
    assert!(outcome(&later).starts_with("error: line 2, column 24: "), "{}", outcome(&later));
    let padded = format!("{{{{ printf `{}` }}}}", "%9999d".repeat(1_000));
    assert!(outcome(&padded).len() < 5 << 20);
    let padded = format!("{{{{ printf `{}`{} }}}}", "%9999d".repeat(1_000), " 1".repeat(1_000));
    assert!(outcome(&padded).contains("the limit of one template"));
    assert!(outcome("{{ printf \"%99999d\" 1 }}").contains("pads to 10000 at most"));
}

#[test]
fn what_is_asked_for_is_bounded() {
    let many = "{{ range loop 100 }}{{ $x := nomadVarExists (printf \"a/%d\" .) }}{{ end }}";
    assert!(outcome(many).contains("more than 64 variables and lists, the limit of one template"));
}

/// What would not end otherwise: looked at again after each space, a mebibyte of them takes minutes.
#[test]
fn white_space_is_read_once() {
    let most = TEXT_BYTES_MAX - 16;
    for (before, after, comes_to) in [
        ("{{", "}}", "error: line 1, column 1048563: a value is missing here"),
        ("{{ 1", "-}} x", "1x"),
        ("{{ 1", "- }}", "error: line 1, column 1048565: '-' has no meaning here"),
        ("{{", "", "error: line 1, column 1: the action has no end \"}}\""),
        ("{{- /* c */", "-}} x", "x"),
    ] {
        let spaces = " ".repeat(most);
        assert_eq!(outcome(&format!("{before}{spaces}{after}")), comes_to, "{before} {after}");
    }
    // The same where each is an action's.
    assert_eq!(outcome(&"{{ \t\n 1  \t }}".repeat(20_000)), "1".repeat(20_000));
}

#[test]
fn delimiters_are_bounded() {
    for (left, right, why) in [
        (" {{", "}}", "may not begin with white space"),
        ("{{", "\n}}", "may not begin with white space"),
        ("{{", &*"}".repeat(65), "may have 64 bytes"),
    ] {
        let delimiters = Delimiters { left: left.to_owned(), right: right.to_owned() };
        let error = ParsedTemplate::parse("x", &delimiters).expect_err("refused");
        assert!(error.message.ends_with(why), "{error}");
    }
}

#[test]
fn declared_variables_are_bounded() {
    let declared =
        |count: usize| (0..count).map(|at| format!("{{{{ $v{at} := {at} }}}}")).collect::<String>();
    let last = format!("{}{{{{ $v999 }}}}", declared(VARIABLES_MAX));
    assert_eq!(outcome(&last), "999");
    let many = declared(VARIABLES_MAX + 1);
    assert!(outcome(&many).ends_with("more than 1000 variables are declared here, the limit of a template"));
    // What is declared in a block is so only there.
    let blocks = "{{ if true }}{{ $x := 1 }}{{ $x }}{{ end }}".repeat(VARIABLES_MAX + 1);
    assert_eq!(outcome(&blocks).len(), VARIABLES_MAX + 1);
}

/// Each of them does more work for each step than others, unless that is counted.
#[test]
fn work_is_counted_and_not_only_calls() {
    let operands =
        format!("{{{{ range loop 1000 }}}}{{{{ $x := print{} }}}}{{{{ end }}}}", " true".repeat(1_001));
    let long = format!("{{{{ $x := `{}` }}}}", "x".repeat(100_000));
    for heavy in [
        "{{ $l := loop 2000 }}{{ $l | containsAny (loop 5000 7000) }}".to_owned(),
        "{{ $l := loop 2000 }}{{ $l | containsAll $l }}".to_owned(),
        "{{ $l := loop 2000 }}{{ $l | containsNone (loop 5000 7000) }}".to_owned(),
        "{{ $l := loop 2000 }}{{ $l | containsNotAll (loop 5000 7000) }}".to_owned(),
        "{{ $l := loop 10000 }}{{ range loop 200 }}{{ $x := in $l -1 }}{{ end }}".to_owned(),
        operands,
        // Copies of all that a variable has.
        "{{ range loop 2000 }}{{ $x := (nomadVar \"large\").Keys }}{{ end }}".to_owned(),
        "{{ $v := nomadVar \"large\" }}{{ range loop 2000 }}{{ $x := $v.Keys }}{{ end }}".to_owned(),
        "{{ $v := nomadVar \"large\" }}{{ range loop 2000 }}{{ $x := $v.Values }}{{ end }}".to_owned(),
        "{{ $v := nomadVar \"large\" }}{{ range loop 2000 }}{{ $x := $v.Tuples }}{{ end }}".to_owned(),
        "{{ range loop 99999 }}{{ $x := nomadVarExists \"large\" }}{{ end }}".to_owned(),
        format!("{long}{{{{ trim $x $x }}}}"),
        format!("{long}{{{{ range loop 200 }}}}{{{{ $y := regexMatch \"b\" $x }}}}{{{{ end }}}}"),
    ] {
        let text = outcome(&heavy);
        assert!(text.contains("the limit of one template"), "{}: {text}", &heavy[..heavy.len().min(90)]);
    }
    // A round costs what it does, however much is left that it could go over.
    let broken =
        "{{ $v := nomadVar \"large\" }}{{ range loop 50000 }}{{ range $v }}{{ break }}{{ end }}{{ end }}";
    assert_eq!(outcome(broken), "");
}
