//! "Did you mean": the known word nearest to a misspelt one.

/// Longer words are not misspellings of ours.
const WORD_CHARS_MAX: usize = 40;

/// The candidate with the fewest edits, if they are few for the length of the word.
pub(crate) fn nearest<'a>(
    word: &str,
    candidates: impl IntoIterator<Item = &'a str> + Clone,
) -> Option<&'a str> {
    if word.len() > WORD_CHARS_MAX {
        return None;
    }
    let edits_max = (word.chars().count() / 3).max(1);
    let in_full = candidates.clone();
    candidates
        .into_iter()
        .map(|candidate| (edits(&word.to_lowercase(), &candidate.to_lowercase()), candidate))
        .filter(|(edits, _)| *edits <= edits_max)
        .min_by_key(|(edits, _)| *edits)
        .map(|(_, candidate)| candidate)
        .or_else(|| beginning(word, in_full))
}

/// The candidate that the word spells out too far, as `environment` does with `env`.
fn beginning<'a>(word: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    candidates.into_iter().find(|candidate| candidate.len() >= 3 && word.starts_with(candidate))
}

/// Insertions, deletions, replacements and swaps of neighbours that turn one word into the other (the optimal string
/// alignment distance).
fn edits(from: &str, to: &str) -> usize {
    let (from, to): (Vec<char>, Vec<char>) = (from.chars().collect(), to.chars().collect());
    let mut rows = vec![(0..=to.len()).collect::<Vec<_>>()];
    for i in 1..=from.len() {
        let mut row = vec![i];
        for j in 1..=to.len() {
            let replaced = rows[i - 1][j - 1] + usize::from(from[i - 1] != to[j - 1]);
            let mut best = replaced.min(rows[i - 1][j] + 1).min(row[j - 1] + 1);
            if i > 1 && j > 1 && from[i - 1] == to[j - 2] && from[i - 2] == to[j - 1] {
                best = best.min(rows[i - 2][j - 2] + 1);
            }
            row.push(best);
        }
        rows.push(row);
    }
    rows[from.len()][to.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slip_of_the_finger_finds_its_word() {
        let known = ["count", "constraint", "restart", "reschedule", "task"];
        for (word, expected) in [
            ("cuont", Some("count")),
            ("Count", Some("count")),
            ("constrain", Some("constraint")),
            ("tsak", Some("task")),
            ("tasks_of_mine", Some("task")),
            ("zebra", None),
            ("", None),
        ] {
            assert_eq!(nearest(word, known), expected, "{word}");
        }
    }
}
