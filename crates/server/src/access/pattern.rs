//! Patterns of names, in which `*` stands for any text.

use std::cmp::Reverse;

/// A pattern. Patterns are ordered by how much of a name they say, those that say most first; then by their text.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Pattern {
    letters: Reverse<usize>,
    text: String,
}

impl From<&str> for Pattern {
    fn from(text: &str) -> Self {
        let letters = text.chars().filter(|c| *c != '*').count();
        Self { letters: Reverse(letters), text: text.to_owned() }
    }
}

impl Pattern {
    /// Whether a text is a pattern, and not just a name.
    pub fn is_one(text: &str) -> bool {
        text.contains('*')
    }

    /// Whether it fits every name.
    pub fn fits_all(&self) -> bool {
        self.letters.0 == 0 && !self.text.is_empty()
    }

    /// Whether it fits a name. Takes steps in proportion to both lengths multiplied, at most.
    pub fn fits(&self, name: &str) -> bool {
        let Some((first, rest)) = self.text.split_once('*') else { return self.text == name };
        let Some(mut name) = name.strip_prefix(first) else { return false };
        let mut parts: Vec<&str> = rest.split('*').collect();
        let last = parts.pop().unwrap_or_default();
        // Each part where it comes first leaves most for those that follow.
        for part in parts {
            let Some(at) = name.find(part) else { return false };
            name = &name[at + part.len()..];
        }
        name.ends_with(last)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As slow as can be, and as plain.
    fn fits(pattern: &[u8], name: &[u8]) -> bool {
        match pattern.split_first() {
            None => name.is_empty(),
            Some((b'*', rest)) => (0..=name.len()).any(|at| fits(rest, &name[at..])),
            Some((letter, rest)) => {
                name.split_first().is_some_and(|(first, name)| first == letter && fits(rest, name))
            }
        }
    }

    #[test]
    fn a_pattern_fits_what_the_plain_definition_fits() {
        let texts = |letters: &[u8], longest: u32| -> Vec<String> {
            let of_length = |length: u32| {
                (0..letters.len().pow(length)).map(move |number| {
                    let letter =
                        |at: u32| char::from(letters[number / letters.len().pow(at) % letters.len()]);
                    (0..length).map(letter).collect::<String>()
                })
            };
            (0..=longest).flat_map(of_length).collect()
        };
        let names = texts(b"ab", 6);
        let mut fitting = 0;
        for pattern in texts(b"ab*", 5) {
            for name in &names {
                let expected = fits(pattern.as_bytes(), name.as_bytes());
                assert_eq!(Pattern::from(&*pattern).fits(name), expected, "{pattern} {name}");
                fitting += usize::from(expected);
            }
        }
        assert!(fitting > 1000, "{fitting}");
    }

    #[test]
    fn those_that_say_most_come_first() {
        let mut patterns = ["*", "prod-*", "*-api", "prod-*-api", "*prod*"].map(Pattern::from);
        patterns.sort();
        let texts = patterns.map(|pattern| pattern.text);
        assert_eq!(texts, ["prod-*-api", "prod-*", "*-api", "*prod*", "*"]);
        assert!(Pattern::from("**").fits_all() && !Pattern::from("").fits_all());
    }
}
