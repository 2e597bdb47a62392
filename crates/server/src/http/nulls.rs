//! Removes members of JSON objects that are null: clients in Go write them for fields that were never set.

use std::borrow::Cow;

const NULL: &[u8] = b"null";

/// The text with spaces in place of every member of an object that is null, so that whatever an error says of a byte's position
/// still holds. Text that is not JSON stays text that is not JSON for the most part; nothing else is promised of it.
pub(crate) fn blanked(json: &[u8]) -> Cow<'_, [u8]> {
    if !json.windows(NULL.len()).any(|part| part == NULL) {
        return Cow::Borrowed(json);
    }
    let mut text = json.to_vec();
    let (mut at, mut key) = (0, None);
    while let Some(byte) = text.get(at) {
        match byte {
            b'"' => {
                key = Some(at);
                at = after_string(&text, at + 1);
            }
            b':' => {
                let value = after_spaces(&text, at + 1);
                at = if let Some(key) = key.take().filter(|_| text[value..].starts_with(NULL)) {
                    blank_member(&mut text, key, value + NULL.len())
                } else {
                    value
                };
            }
            _ => at += 1,
        }
    }
    Cow::Owned(text)
}

/// Blanks a member and the comma next to it; returns the position where reading goes on.
fn blank_member(text: &mut [u8], key: usize, end: usize) -> usize {
    let next = after_spaces(text, end);
    let (first, last) = match text.get(next) {
        Some(b',') => (key, next + 1),
        Some(b'}') => {
            let before = text[..key].iter().rposition(|byte| !byte.is_ascii_whitespace());
            (before.filter(|before| text[*before] == b',').unwrap_or(key), end)
        }
        // `nullable`, or the end: whoever reads it says what is wrong.
        _ => return next,
    };
    text[first..last].fill(b' ');
    last
}

fn after_spaces(text: &[u8], from: usize) -> usize {
    let spaces = text[from..].iter().take_while(|byte| byte.is_ascii_whitespace()).count();
    from + spaces
}

/// Where the string ends that has begun before `from`.
fn after_string(text: &[u8], from: usize) -> usize {
    let mut at = from;
    loop {
        match text.get(at) {
            None => return text.len(),
            Some(b'"') => return at + 1,
            // What is escaped ends nothing.
            Some(b'\\') => at = (at + 2).min(text.len()),
            Some(_) => at += 1,
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;

    fn check(json: &str, expected: &str) {
        let blanked = blanked(json.as_bytes());
        assert_eq!(std::str::from_utf8(&blanked).expect("text"), expected);
        assert_eq!(blanked.len(), json.len());
    }

    #[test]
    fn a_member_that_is_null_is_gone_with_its_comma() {
        check(r#"{"a":null,"b":1}"#, r#"{         "b":1}"#);
        check(r#"{"b":1, "a" : null }"#, r#"{"b":1             }"#);
        check(r#"{"a":null,"b":null}"#, r#"{                 }"#);
        check(r#"{"o":{"a":null}}"#, r#"{"o":{        }}"#);
    }

    #[test]
    fn what_is_no_member_stays() {
        for json in [
            r#"["a",null]"#,
            r#"{"a":"null","b":"\":null,"}"#,
            r#"{"a":nullable}"#,
            r#"{"a":null"#,
            r#"{"a\"#,
            "null",
            ":null}",
        ] {
            check(json, json);
        }
    }

    /// The value without members that are null.
    fn without_nulls(value: Value) -> Value {
        match value {
            Value::Array(items) => items.into_iter().map(without_nulls).collect(),
            Value::Object(members) => {
                let set = members.into_iter().filter(|(_, value)| !value.is_null());
                set.map(|(key, value)| (key, without_nulls(value))).collect()
            }
            other => other,
        }
    }

    /// JSON, and text that is none, from a seed.
    struct RandomJson(u64);

    impl RandomJson {
        fn below(&mut self, max: u64) -> u64 {
            self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (self.0 >> 33) % max
        }

        fn text(&mut self, parts: u64) -> String {
            const PARTS: [&str; 12] = ["\"", "\\", ":", ",", "{", "}", "[", "]", " ", "null", "nul", "a"];
            let length = self.below(parts);
            (0..length).map(|_| PARTS[usize::try_from(self.below(12)).expect("it fits")]).collect()
        }

        fn value(&mut self, depth: u64) -> Value {
            match self.below(if depth == 0 { 4 } else { 7 }) {
                0 | 1 => Value::Null,
                2 => self.text(5).into(),
                3 => self.below(100).into(),
                4 => (0..self.below(5)).map(|_| self.value(depth - 1)).collect(),
                _ => (0..self.below(6)).map(|_| (self.text(4), self.value(depth - 1))).collect(),
            }
        }
    }

    #[test]
    fn any_json_is_what_it_was_but_for_these_members() {
        for seed in 0..2_000 {
            let value = RandomJson(seed).value(4);
            for text in [value.to_string(), format!("{value:#}")] {
                let read: Value = serde_json::from_slice(&blanked(text.as_bytes())).expect("JSON");
                assert_eq!(read, without_nulls(value.clone()), "{seed}: {text}");
            }
        }
    }

    #[test]
    fn no_text_is_too_odd() {
        for seed in 0..20_000 {
            let text = RandomJson(seed).text(12);
            assert_eq!(blanked(text.as_bytes()).len(), text.len(), "{seed}: {text}");
        }
    }
}
