//! Filters as clients write them, and the errors of invalid ones.

use expect_test::{Expect, expect};
use serde_json::{Value, json};

use super::{ANSWER_STEPS_MAX, Filter, ITEM_STEPS_MAX};

fn item() -> Value {
    json!({
        "ID": "web", "ParentID": "", "Priority": 50, "Stop": false, "Score": 0.5,
        "Datacenters": ["dc1", "dc2"], "ParameterizedJob": null, "Periodic": {"Spec": "@daily"},
        "Meta": {"owner": "ops", "a.b": "c"}, "TaskGroups": [{"Name": "app", "Count": 3}, {"Name": "db", "Count": 1}],
    })
}

fn shown(text: &str) -> String {
    match Filter::parse(text).and_then(|mut filter| filter.passes(&item())) {
        Ok(passes) => passes.to_string(),
        Err(failure) => failure.text,
    }
}

#[test]
fn what_holds_passes() {
    for text in [
        r#"ID == "web""#,
        "ID == web",
        "ID == `web`",
        r#"ID != "db""#,
        "Priority == 50",
        r#"Priority == "50""#,
        "Priority != 51",
        "Score == 0.5",
        "Stop == false and not Stop == true",
        "not not ID == web",
        r#""dc1" in Datacenters"#,
        "dc1 in Datacenters",
        r#""dc3" not in Datacenters"#,
        r#"Datacenters contains "dc2""#,
        "Datacenters not contains dc3",
        r#"ID contains "eb""#,
        "owner in Meta",
        r#"ID matches "^w.b$""#,
        r#"ID not matches "^x""#,
        "ParentID is empty and Meta is not empty",
        "ParameterizedJob is nil and Periodic is not nil",
        r#"ParentID == "" and ParameterizedJob is nil"#,
        "Meta.owner == ops",
        r#"Meta["a.b"] == "c""#,
        r#""/Meta/owner" == "ops""#,
        "Meta.nobody is nil",
        "Meta.nobody != ops",
        "ID == db or ID == web and Priority == 50",
        "(ID == db or ID == web) and Priority == 50",
        "any TaskGroups as g { g.Name == app and g.Count == 3 }",
        "all TaskGroups as at, g { g.Count != 2 and at != 7 }",
        "any Meta as key { key == owner }",
        "any Meta as key, value { value == ops }",
        "TaskGroups[1].Name == db",
        "TaskGroups.0.Name == app",
    ] {
        assert_eq!(shown(text), "true", "{text}");
    }
}

#[test]
fn what_does_not_hold_does_not_pass() {
    for text in [
        "ID == db",
        "Priority == 49",
        "ID == web and Stop == true",
        "not ID == web",
        "any TaskGroups as g { g.Name == x }",
        "all TaskGroups as g { g.Name == app }",
        "ParameterizedJob is not nil",
        "Meta.nobody == ops",
        "ID == db or ID == x and Priority == 50",
    ] {
        assert_eq!(shown(text), "false", "{text}");
    }
}

fn check(text: &str, expected: Expect) {
    expected.assert_eq(&shown(text));
}

#[test]
fn mistakes_point_at_their_column() {
    check(
        "ID",
        expect![[r#"
        query parameter filter, column 3: expected `==`, `!=`, `in`, `contains`, `matches`, `is empty` or `is nil`, found the end
          ID
            ^"#]],
    );
    check(
        "ID = web",
        expect![[r#"
        query parameter filter, column 4: `=` is no operator: equality is `==`
          ID = web
             ^"#]],
    );
    check(
        "ID ==",
        expect![[r#"
        query parameter filter, column 6: expected a value, as "running" or 50, found the end
          ID ==
               ^"#]],
    );
    check(
        "ID == \"web",
        expect![[r#"
        query parameter filter, column 7: this text has no closing quote
          ID == "web
                ^"#]],
    );
    check(
        "(ID == web",
        expect![[r#"
        query parameter filter, column 11: expected `)`, found the end
          (ID == web
                    ^"#]],
    );
    check(
        "ID == web Stop == true",
        expect![[r#"
        query parameter filter, column 11: expected `and`, `or` or the end, found `Stop`
          ID == web Stop == true
                    ^"#]],
    );
    check(
        "ID is big",
        expect![[r#"
        query parameter filter, column 7: expected `empty` or `nil`, found `big`
          ID is big
                ^"#]],
    );
    check(
        "ID matches \"(\"",
        expect![[r#"
        query parameter filter, column 12: this is no regular expression
          ID matches "("
                     ^"#]],
    );
    check(
        "ID == 'web'",
        expect![[r#"
        query parameter filter, column 7: texts stand in double quotes
          ID == 'web'
                ^"#]],
    );
    check(
        "Priority > 5",
        expect![[r#"
        query parameter filter, column 10: `>` is no operator: there is `==`, `!=`, `in`, `contains`, `matches`, `is empty`
          Priority > 5
                   ^"#]],
    );
    check(
        "any TaskGroups { g == 1 }",
        expect![[r#"
        query parameter filter, column 16: expected `as` and a name for each element, found `{`
          any TaskGroups { g == 1 }
                         ^"#]],
    );
    check(
        "é == web and Statsu == x",
        expect![[r#"
        query parameter filter, column 1: there is no member `é`
          é == web and Statsu == x
          ^"#]],
    );
    check(
        "Prioritty == 5",
        expect![[r#"
        query parameter filter, column 1: there is no member `Prioritty`, did you mean `Priority`?
          Prioritty == 5
          ^"#]],
    );
    check(
        "Priority == many",
        expect![[r#"
        query parameter filter, column 1: this is a number, and `many` is not
          Priority == many
          ^"#]],
    );
    check(
        "Datacenters == dc1",
        expect![[r#"
        query parameter filter, column 1: a list equals nothing: use `contains` or `is empty`
          Datacenters == dc1
          ^"#]],
    );
    check(
        "Priority matches \"5\"",
        expect![[r#"
        query parameter filter, column 1: `matches` needs a text, this is a number
          Priority matches "5"
          ^"#]],
    );
    check(
        "Priority is empty",
        expect![[r#"
        query parameter filter, column 1: a number cannot be empty
          Priority is empty
          ^"#]],
    );
}

#[test]
fn hostile_filters_are_refused() {
    assert!(shown(&format!("{}ID == web", "(".repeat(2000))).contains("nested more than 32 levels"));
    assert!(shown(&"x".repeat(5000)).contains("at most 4096 are read"));
    assert!(shown(r#"ID matches "(((a{99}){99}){99})""#).contains("too large"));
    assert_eq!(shown(&format!("{} ID == web", "not ".repeat(1000))), "true");
}

/// `all X as a { all X as b { ... } }` over a list of so many elements.
fn nested(depth: usize) -> String {
    let open: String = (0..depth).map(|level| format!("all List as l{level} {{ ")).collect();
    format!("{open}l0 != x{}", " }".repeat(depth))
}

#[test]
fn what_nested_quantifiers_cost_is_bounded_for_each_item_and_for_all() {
    let item = json!({ "List": vec!["e"; 100] });
    // 100, 10,000 and 100,000,000 elements.
    let passes = |depth| Filter::parse(&nested(depth)).expect("it is a filter").passes(&item);
    assert_eq!(passes(1), Ok(true));
    assert_eq!(passes(2), Ok(true));
    let refused = passes(4).expect_err("it takes too many steps");
    assert!(refused.text.contains("one item takes more than 200000 steps"), "{}", refused.text);

    let mut filter = Filter::parse(&nested(2)).expect("it is a filter");
    let mut items = 0_u64;
    let refused = loop {
        match filter.passes(&item) {
            Ok(passes) => assert!(passes),
            Err(refused) => break refused,
        }
        items += 1;
    };
    assert!(filter.is_spent() && filter.steps_taken() < ANSWER_STEPS_MAX + ITEM_STEPS_MAX);
    assert_eq!(items, ANSWER_STEPS_MAX / (filter.steps_taken() / items) + 1);
    assert!(refused.text.contains("20000000 steps: ask for less"), "{}", refused.text);
}

#[test]
fn a_long_text_costs_what_it_takes_to_read_it() {
    let item = json!({ "Name": "x".repeat(64 << 10) });
    let mut filter = Filter::parse("Name contains y").expect("it is a filter");
    assert_eq!(filter.passes(&item), Ok(false));
    assert_eq!(filter.steps_taken(), 1 + 1024 + 64, "to evaluate it, and to build it");
}
