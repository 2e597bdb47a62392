//! What a task was given of variables: items by the names of secrets.

use std::collections::BTreeMap;
use std::fmt;

/// A shorter text is not looked for in what people are shown: it may stand there by chance.
const HIDDEN_BYTES_MIN: usize = 4;

/// Items by their names, by the names of secrets.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Secrets(BTreeMap<String, BTreeMap<String, String>>);

/// For tasks that have none.
pub static NO_SECRETS: Secrets = Secrets(BTreeMap::new());

/// Without what is secret.
impl fmt::Debug for Secrets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.0.keys()).finish()
    }
}

impl FromIterator<(String, BTreeMap<String, String>)> for Secrets {
    fn from_iter<I: IntoIterator<Item = (String, BTreeMap<String, String>)>>(secrets: I) -> Self {
        Self(secrets.into_iter().collect())
    }
}

impl Secrets {
    /// The items of a secret.
    pub(crate) fn items(&self, secret: &str) -> Option<&BTreeMap<String, String>> {
        self.0.get(secret)
    }

    /// An item, as texts of a job name it after `secret.`: `NAME.ITEM`. No name of a secret has a dot.
    pub(crate) fn item(&self, name: &str) -> Option<&String> {
        let (secret, item) = name.split_once('.')?;
        self.0.get(secret)?.get(item)
    }

    /// A text that people are shown, in which names stand for what is secret.
    pub(crate) fn hidden_in(&self, mut text: String) -> String {
        let items = self.0.iter().flat_map(|(secret, items)| items.iter().map(move |item| (secret, item)));
        let mut items: Vec<_> = items.filter(|(_, (_, value))| value.len() >= HIDDEN_BYTES_MIN).collect();
        // One may be part of another.
        items.sort_by_key(|(_, (_, value))| std::cmp::Reverse(value.len()));
        for (secret, (item, value)) in items {
            if text.contains(value.as_str()) {
                text = text.replace(value.as_str(), &format!("<secret.{secret}.{item}>"));
            }
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_stand_for_what_is_secret() {
        let items = [("user", "web"), ("password", "hunter22"), ("url", "db://hunter22@x"), ("a.b", "dots")];
        let items = items.map(|(item, value)| (item.to_owned(), value.to_owned()));
        let secrets = Secrets::from_iter([("db".to_owned(), items.into())]);
        assert_eq!(secrets.item("db.user").map(String::as_str), Some("web"));
        assert_eq!(secrets.item("db.a.b").map(String::as_str), Some("dots"));
        assert_eq!((secrets.item("db"), secrets.item("db.x"), secrets.item("x.user")), (None, None, None));
        let told = secrets.hidden_in("web: db://hunter22@x refused hunter22".to_owned());
        assert_eq!(told, "web: <secret.db.url> refused <secret.db.password>");
        assert!(!format!("{secrets:?}").contains("hunter22"));
    }
}
