//! The secrets of a task: the items of variables by the names of its `secret` blocks, and their redaction in texts.

use std::collections::BTreeMap;
use std::fmt;

/// A shorter text is not looked for in what people are shown: it may stand there by chance.
const HIDDEN_BYTES_MIN: usize = 4;
/// The same for what templates give: ports and words as `true` are often among that.
const HIDDEN_ENV_BYTES_MIN: usize = 8;

/// Items by their names, by the names of secrets.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Secrets {
    items: BTreeMap<String, BTreeMap<String, String>>,
    /// Variables of the environment that templates give.
    env: BTreeMap<String, String>,
}

/// The secrets of tasks that have none.
pub static NO_SECRETS: Secrets = Secrets { items: BTreeMap::new(), env: BTreeMap::new() };

/// Without what is secret.
impl fmt::Debug for Secrets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.items.keys()).entries(self.env.keys()).finish()
    }
}

impl FromIterator<(String, BTreeMap<String, String>)> for Secrets {
    fn from_iter<I: IntoIterator<Item = (String, BTreeMap<String, String>)>>(secrets: I) -> Self {
        Self { items: secrets.into_iter().collect(), env: BTreeMap::new() }
    }
}

impl Secrets {
    /// The items of a secret.
    pub(crate) fn items(&self, secret: &str) -> Option<&BTreeMap<String, String>> {
        self.items.get(secret)
    }

    /// What templates give the environment.
    pub(crate) fn env(&self) -> &BTreeMap<String, String> {
        &self.env
    }

    /// The same, with this given by templates.
    pub(crate) fn with_env(&self, env: BTreeMap<String, String>) -> Self {
        Self { items: self.items.clone(), env }
    }

    /// An item, as texts of a job name it after `secret.`: `NAME.ITEM`. No name of a secret has a dot.
    pub(crate) fn item(&self, name: &str) -> Option<&String> {
        let (secret, item) = name.split_once('.')?;
        self.items.get(secret)?.get(item)
    }

    /// What people are not to be shown.
    pub(crate) fn hidden(&self) -> impl Iterator<Item = Redaction<'_>> {
        let items =
            self.items.iter().flat_map(|(secret, items)| items.iter().map(move |item| (secret, item)));
        let items =
            items.map(|(secret, (item, value))| (format!("<secret.{secret}.{item}>"), value.as_str()));
        let env = self.env.iter().filter(|(_, value)| value.len() >= HIDDEN_ENV_BYTES_MIN);
        let env = env.map(|(name, value)| (format!("<env.{name}>"), value.as_str()));
        items.chain(env)
    }
}

/// What stands for a value that people are not to be shown, and the value.
pub(crate) type Redaction<'a> = (String, &'a str);

/// A text that people are shown, in which names stand for what is hidden.
pub(crate) fn hide<'a>(mut text: String, hidden: impl Iterator<Item = Redaction<'a>>) -> String {
    // Values of files often end with a line, and what quotes them does not.
    let hidden = hidden.map(|(name, value)| (name, value.trim()));
    let mut hidden: Vec<_> = hidden.filter(|(_, value)| value.len() >= HIDDEN_BYTES_MIN).collect();
    // One may be part of another.
    hidden.sort_by_key(|(_, value)| std::cmp::Reverse(value.len()));
    for (name, value) in hidden {
        if text.contains(value) {
            text = text.replace(value, &name);
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_stand_for_what_is_secret() {
        let items =
            [("user", "web"), ("password", "hunter22"), ("url", "db://hunter22@x"), ("a.b", "dots\n")];
        let items = items.map(|(item, value)| (item.to_owned(), value.to_owned()));
        let secrets = Secrets::from_iter([("db".to_owned(), items.into())]);
        assert_eq!(secrets.item("db.user").map(String::as_str), Some("web"));
        assert_eq!(secrets.item("db.a.b").map(String::as_str), Some("dots\n"));
        assert_eq!((secrets.item("db"), secrets.item("db.x"), secrets.item("x.user")), (None, None, None));
        let redacted = hide("web: db://hunter22@x refused hunter22, dots".to_owned(), secrets.hidden());
        assert_eq!(redacted, "web: <secret.db.url> refused <secret.db.password>, <secret.db.a.b>");
        assert!(!format!("{secrets:?}").contains("hunter22"));
    }
}
