//! The settings of a line: words of the form `key=value`, or `key` alone.

/// The settings of one line.
pub struct Settings<'a>(Vec<(&'a str, &'a str)>);

impl<'a> Settings<'a> {
    pub fn of(words: impl Iterator<Item = &'a str>) -> Self {
        Self(words.map(|word| word.split_once('=').unwrap_or((word, ""))).collect())
    }

    pub fn get(&self, key: &str) -> Option<&'a str> {
        self.all(key).next()
    }

    pub fn has(&self, key: &str) -> bool {
        self.get(key).is_some()
    }

    pub fn number(&self, key: &str, default: u32) -> u32 {
        self.get(key).map_or(default, |value| value.parse().unwrap())
    }

    pub fn all(&self, key: &str) -> impl Iterator<Item = &'a str> {
        self.0.iter().filter(move |(k, _)| *k == key).map(|(_, value)| *value)
    }

    /// What follows a prefix, with its value.
    pub fn prefixed(&self, prefix: &str) -> impl Iterator<Item = (&'a str, &'a str)> {
        self.0.iter().filter_map(move |(key, value)| Some((key.strip_prefix(prefix)?, *value)))
    }

    /// The first word, if there is one.
    pub fn any(&self) -> Option<&'a str> {
        self.0.first().map(|(key, _)| *key)
    }

    /// The first word.
    pub fn first(&self) -> &'a str {
        self.0[0].0
    }

    /// The settings between words that are `|` alone.
    pub fn parts(&self) -> Vec<Settings<'a>> {
        self.0.split(|(key, _)| *key == "|").map(|part| Settings(part.to_vec())).collect()
    }
}
