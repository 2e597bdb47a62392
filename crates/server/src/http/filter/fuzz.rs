//! Filters made of fragments of others: each is refused with a message that has the position, or is evaluated, and none panics.

use proptest::prelude::*;
use serde_json::json;

use super::Filter;

const WHOLE: [&str; 6] = [
    r#"(ID == "web" or Priority >= 50) and not Stop == true"#,
    r#""dc1" in Datacenters and Datacenters not contains `dc3`"#,
    r#"any TaskGroups as at, g { g.Name == app and all Meta as k, v { v != "ops" } }"#,
    r#"Meta["a.b"] matches "^w.b$" or "/Meta/owner" is not empty"#,
    "ParameterizedJob is nil and TaskGroups[1].Name == db",
    "naïve.größe == \"日本\" and Score == 0.5",
];

const SCRAPS: [&str; 32] = [
    " ", "(", ")", "{", "}", "[", "]", ".", ",", "\"", "`", "'", "==", "!=", "=", "!", "and", "or", "not",
    "in", "is", "nil", "empty", "contains", "matches", "any", "all", "as", "\\", "ß", "\u{202e}", "-1e999",
];

/// A filter with a few parts cut out or replaced.
fn mutated() -> impl Strategy<Value = String> {
    let scraps = prop::collection::vec(prop::sample::select(&SCRAPS[..]), 0..4);
    let edits = prop::collection::vec((any::<prop::sample::Index>(), 0..12_usize, scraps), 0..6);
    (prop::sample::select(&WHOLE[..]), edits).prop_map(|(whole, edits)| {
        edits.into_iter().fold(whole.to_owned(), |text, (at, length, scraps)| {
            let start = text.floor_char_boundary(at.index(text.len() + 1));
            let end = text.floor_char_boundary((start + length).min(text.len())).max(start);
            format!("{}{}{}", &text[..start], scraps.concat(), &text[end..])
        })
    })
}

proptest! {
    #![proptest_config(ProptestConfig {
        failure_persistence: None,
        cases: ProptestConfig::default().cases * 8,
        ..ProptestConfig::default()
    })]

    #[test]
    fn no_filter_panics(text in prop_oneof![4 => mutated(), 1 => any::<String>()]) {
        let items = [
            json!({
                "ID": "web", "Priority": 50, "Stop": false, "Score": 0.5, "Datacenters": ["dc1", "日本"],
                "ParameterizedJob": null, "Meta": {"owner": "ops", "a.b": "c"}, "naïve": {"größe": "日本"},
                "TaskGroups": [{"Name": "app", "Meta": {}}, {"Name": "db", "Meta": null}],
            }),
            json!([1, "two", null]),
            json!(null),
        ];
        let answers = Filter::parse(&text).map(|mut filter| items.each_ref().map(|item| filter.passes(item)));
        let refusals = match answers {
            Ok(answers) => answers.into_iter().filter_map(Result::err).collect(),
            Err(refusal) => vec![refusal],
        };
        for refusal in refusals {
            prop_assert!(refusal.text.starts_with("query parameter filter"), "{}", refusal.text);
        }
    }
}
