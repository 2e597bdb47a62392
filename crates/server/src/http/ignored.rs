//! Collects query parameters and body members that have no effect. The response names them, so that misspelt ones are noticed.

use std::{
    collections::BTreeMap,
    fmt::{self, Write},
    sync::{Arc, Mutex, PoisonError},
};

use serde::{
    Deserialize, Deserializer,
    de::{DeserializeOwned, IgnoredAny, MapAccess, SeqAccess, Visitor},
};

use serde_ignored::Path;

use super::query::Query;

/// Names that an answer repeats of the query, and as many of the body, and characters of each.
pub(super) const NAMES_MAX: usize = 8;
const CHARS_MAX: usize = 64;

/// The names in a request that have no effect; clones share them.
#[derive(Debug, Clone, Default)]
pub(crate) struct Ignored {
    query: Vec<String>,
    body: Arc<Mutex<Vec<String>>>,
    /// The member of the body that is read by itself; empty for none. A body without it is that member itself.
    apart: &'static str,
}

impl Ignored {
    /// What is ignored of a query, before a body is read.
    pub fn of(query: &Query) -> Self {
        Self { query: query.ignored().collect(), ..Self::default() }
    }

    /// The same, for a body of which this member is read by itself.
    pub fn apart_from(self, apart: &'static str) -> Self {
        Self { apart, ..self }
    }

    /// All names, as a header can hold them; none where there are none.
    pub fn names(&self) -> Option<String> {
        let body = self.body.lock().unwrap_or_else(PoisonError::into_inner);
        let names: Vec<&str> = self.query.iter().chain(&*body).map(String::as_str).collect();
        (!names.is_empty()).then(|| names.join(", "))
    }

    /// Reads JSON, and notes the members that are ignored.
    pub fn read<T: DeserializeOwned>(&self, text: &[u8]) -> Result<T, serde_json::Error> {
        let mut json = serde_json::Deserializer::from_slice(text);
        let (mut paths, mut is_other) = (Vec::new(), !self.apart.is_empty());
        let value = serde_ignored::deserialize(&mut json, |path| {
            if is_member(&path, self.apart) {
                is_other = false;
            } else if paths.len() < NAMES_MAX + EMPTY_MAX {
                paths.push(path_prefix(&path));
            }
        })?;
        json.end()?;
        if !paths.is_empty() && !is_other {
            let empty = empty_members(text);
            let nonempty = paths.iter().filter(|path| !empty.contains(path));
            let names = nonempty.map(|path| plain(&format!("body.{path}"))).take(NAMES_MAX);
            self.body.lock().unwrap_or_else(PoisonError::into_inner).extend(names);
        }
        Ok(value)
    }
}

/// Whether a path is that of a member of the whole.
fn is_member(path: &Path<'_>, name: &str) -> bool {
    matches!(path, Path::Map { parent: Path::Root, key } if key == name)
}

/// The first characters of a path: each name in it may be as long as the body, and be part of many paths.
fn path_prefix(path: &Path<'_>) -> String {
    let mut prefix = TextPrefix(String::new());
    // The error only says that the prefix is long enough.
    let _ = write!(prefix, "{path}");
    // serde_ignored writes `?` for an `Option`, which is no member of the JSON.
    prefix.0.replace(".?", "")
}

/// The first characters of a text, more than are shown in the end.
struct TextPrefix(String);

impl Write for TextPrefix {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let remaining = (4 * CHARS_MAX).saturating_sub(self.0.len());
        self.0.extend(text.chars().take(remaining));
        if remaining > 0 { Ok(()) } else { Err(fmt::Error) }
    }
}

/// Members beyond the names that are looked at: those that ask for nothing, such as the empty `Region` that clients in Go send
/// with every change, are not named.
const EMPTY_MAX: usize = 32;

/// The members of the object that the text is whose value is that of something never set.
fn empty_members(text: &[u8]) -> Vec<String> {
    let members = serde_json::from_slice::<BTreeMap<String, HasContent>>(text).unwrap_or_default();
    members.into_iter().filter(|(_, HasContent(says))| !says).map(|(name, _)| name).collect()
}

/// Whether a value is not the zero value of Go, which means that it was never set.
struct HasContent(bool);

impl<'de> Deserialize<'de> for HasContent {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(HasContentVisitor).map(Self)
    }
}

struct HasContentVisitor;

impl<'de> Visitor<'de> for HasContentVisitor {
    type Value = bool;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a value")
    }

    fn visit_unit<E>(self) -> Result<bool, E> {
        Ok(false)
    }

    fn visit_bool<E>(self, value: bool) -> Result<bool, E> {
        Ok(value)
    }

    fn visit_u64<E>(self, value: u64) -> Result<bool, E> {
        Ok(value != 0)
    }

    fn visit_i64<E>(self, value: i64) -> Result<bool, E> {
        Ok(value != 0)
    }

    fn visit_f64<E>(self, value: f64) -> Result<bool, E> {
        Ok(value != 0.0)
    }

    fn visit_str<E>(self, value: &str) -> Result<bool, E> {
        Ok(!value.is_empty())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<bool, A::Error> {
        let mut any = false;
        while items.next_element::<IgnoredAny>()?.is_some() {
            any = true;
        }
        Ok(any)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<bool, A::Error> {
        let mut any = false;
        while members.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {
            any = true;
        }
        Ok(any)
    }
}

/// A name without what cannot stand in a list in a header.
pub(super) fn plain(name: &str) -> String {
    let plain = |c: char| if c.is_ascii_alphanumeric() || "-_.".contains(c) { c } else { '?' };
    name.chars().take(CHARS_MAX).map(plain).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, Default, Deserialize)]
    #[serde(default)]
    struct Body {
        #[serde(alias = "other")]
        name: String,
        inner: Vec<Body>,
        outer: Option<Box<Body>>,
    }

    #[derive(Debug, Default, Deserialize)]
    #[serde(default)]
    struct WithMap {
        any: BTreeMap<String, Body>,
    }

    fn check(text: &str, expected: &str) {
        let ignored = Ignored::default();
        let read: Result<Body, _> = ignored.read(text.as_bytes());
        read.map(drop).expect("JSON");
        assert_eq!(ignored.names().unwrap_or_default(), expected, "{text}");
    }

    #[test]
    fn members_that_nothing_is_made_of_are_named_with_their_path() {
        check(r#"{"name":"a","other_":1}"#, "body.other_");
        check(r#"{"other":"a","inner":[{},{"x":{"y":1}}],"z":{"name":1}}"#, "body.inner.1.x, body.z");
        check(r#"{"outer":{"w":1}}"#, "body.outer.w");
        check(r#"{"a\nb":1,"\u00e4, c":true}"#, "body.a?b, body.???c");
    }

    #[test]
    fn what_is_read_by_itself_is_not_named_nor_is_anything_where_that_is_the_body() {
        for (text, expected) in
            [(r#"{"Job":{"x":1},"name":"","y":2}"#, Some("body.y")), (r#"{"name":"","y":2}"#, None)]
        {
            let ignored = Ignored::default().apart_from("Job");
            ignored.read::<Body>(text.as_bytes()).map(drop).expect("JSON");
            assert_eq!(ignored.names().as_deref(), expected, "{text}");
        }
    }

    #[test]
    fn members_that_ask_for_nothing_are_not_named() {
        check(r#"{"Region":"","a":0,"b":false,"c":[],"d":{},"e":null,"f":0.0,"g":"x"}"#, "body.g");
    }

    #[test]
    fn names_are_few_and_short() {
        let members: Vec<String> = (0..1_000).map(|at| format!("\"k{at}{}\":1", "x".repeat(100))).collect();
        let ignored = Ignored::default();
        ignored.read::<Body>(format!("{{{}}}", members.join(",")).as_bytes()).map(drop).expect("JSON");
        let names = ignored.names().expect("names");
        assert_eq!(names.split(", ").count(), NAMES_MAX);
        assert!(names.split(", ").all(|name| name.len() == CHARS_MAX), "{names}");
    }

    /// A long name is part of the path of all that is below it: to repeat it for each would take as long as their product.
    #[test]
    fn only_the_shown_prefix_of_a_path_is_formatted() {
        let below = (0..100_000).map(|at| format!("\"{at}\":1")).collect::<Vec<_>>().join(",");
        let text = format!(r#"{{"any":{{"{}":{{{below}}}}}}}"#, "x".repeat(1 << 20));
        let ignored = Ignored::default();
        ignored.read::<WithMap>(text.as_bytes()).map(drop).expect("JSON");
        let names = ignored.names().expect("names");
        assert_eq!(names.split(", ").count(), NAMES_MAX);
        assert!(names.split(", ").all(|name| name.starts_with("body.any.xxx")), "{names}");
    }

    #[test]
    fn what_follows_the_value_is_still_a_mistake() {
        let ignored = Ignored::default();
        assert!(ignored.read::<Body>(b"{} {}").is_err());
        assert!(ignored.read::<Body>(b"{\"name\":1}").is_err());
    }
}
