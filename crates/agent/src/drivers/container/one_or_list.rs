//! Settings that are one value or a list of such: a block of a job file is a list of one in JSON, and clients send either.
//!
//! An error is that of the value itself, with the name of its field: none of the two readings hides it.

use std::fmt;
use std::marker::PhantomData;

use serde::de::value::{MapAccessDeserializer, StrDeserializer};
use serde::de::{Error, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};

/// Any number of them.
pub(super) fn many<'de, D: Deserializer<'de>, T: Deserialize<'de>>(input: D) -> Result<Vec<T>, D::Error> {
    input.deserialize_any(OneOrList(PhantomData))
}

/// One at most.
pub(super) fn at_most_one<'de, D: Deserializer<'de>, T: Deserialize<'de>>(
    input: D,
) -> Result<Option<T>, D::Error> {
    let mut list: Vec<T> = many(input)?;
    if list.len() > 1 {
        return Err(D::Error::custom("there are several blocks where there is one at most"));
    }
    Ok(list.pop())
}

/// None where it is null: an empty list is another thing than no list.
pub(super) fn many_unless_null<'de, D: Deserializer<'de>, T: Deserialize<'de>>(
    input: D,
) -> Result<Option<Vec<T>>, D::Error> {
    struct List<T>(Vec<T>);
    impl<'de, T: Deserialize<'de>> Deserialize<'de> for List<T> {
        fn deserialize<D: Deserializer<'de>>(input: D) -> Result<Self, D::Error> {
            many(input).map(Self)
        }
    }
    Ok(Option::<List<T>>::deserialize(input)?.map(|list| list.0))
}

struct OneOrList<T>(PhantomData<T>);

impl<'de, T: Deserialize<'de>> Visitor<'de> for OneOrList<T> {
    type Value = Vec<T>;

    fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("one value or a list")
    }

    fn visit_unit<E: Error>(self) -> Result<Vec<T>, E> {
        Ok(Vec::new())
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Vec<T>, E> {
        T::deserialize(StrDeserializer::new(text)).map(|value| vec![value])
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Vec<T>, A::Error> {
        T::deserialize(MapAccessDeserializer::new(map)).map(|value| vec![value])
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Vec<T>, A::Error> {
        let mut list = Vec::new();
        while let Some(item) = items.next_element()? {
            list.push(item);
        }
        Ok(list)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, PartialEq, Deserialize)]
    #[serde(deny_unknown_fields, expecting = "a block")]
    struct Block {
        name: String,
    }

    #[derive(Debug, Deserialize)]
    struct Settings {
        #[serde(default, deserialize_with = "at_most_one")]
        one: Option<Block>,
        #[serde(default, deserialize_with = "many")]
        many: Vec<Block>,
        #[serde(default, deserialize_with = "many_unless_null")]
        words: Option<Vec<String>>,
    }

    fn read(text: &str) -> Result<Settings, String> {
        serde_json::from_value(serde_json::from_str(text).expect("JSON")).map_err(|error| error.to_string())
    }

    #[test]
    fn a_value_is_a_list_of_one() {
        let found = read(r#"{"one": [{"name": "a"}], "many": {"name": "b"}, "words": "c"}"#).expect("read");
        let block = |name: &str| Block { name: name.to_owned() };
        assert_eq!((found.one, found.many), (Some(block("a")), vec![block("b")]));
        assert_eq!(found.words, Some(vec!["c".to_owned()]));
    }

    #[test]
    fn null_is_nothing_and_no_words_are_none_that_are_said() {
        let found = read(r#"{"one": null, "many": null, "words": []}"#).expect("read");
        assert_eq!((found.one, found.many, found.words), (None, vec![], Some(vec![])));
        assert_eq!(read(r#"{"words": null}"#).expect("read").words, None);
    }

    #[test]
    fn errors_name_what_is_wrong_in_the_value() {
        for (text, error) in [
            (r#"{"one": {"nam": "a"}}"#, "unknown field `nam`, expected `name`"),
            (r#"{"one": "a"}"#, "invalid type: string \"a\", expected a block"),
            (
                r#"{"one": [{"name": "a"}, {"name": "b"}]}"#,
                "there are several blocks where there is one at most",
            ),
            (r#"{"many": [{"name": 5}]}"#, "invalid type: integer `5`, expected a string"),
            (r#"{"many": 5}"#, "invalid type: integer `5`, expected one value or a list"),
            (r#"{"words": [5]}"#, "invalid type: integer `5`, expected a string"),
        ] {
            assert_eq!(read(text).err().as_deref(), Some(error), "{text}");
        }
    }
}
