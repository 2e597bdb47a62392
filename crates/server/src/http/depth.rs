//! Bounds the nesting and the number of values of a JSON text before it is parsed.

use super::failure::Failure;

/// Values of a body; each takes hundreds of bytes once it is read.
const VALUES_MAX: usize = 400_000;

/// Refuses a body that is nested too deep or has too many values.
pub(crate) fn check(json: &[u8], depth_max: usize) -> Result<(), Failure> {
    let (depth, values) = measure(json, depth_max);
    if depth > depth_max {
        return Err(Failure::bad_request(format!(
            "the request's body is nested more than {depth_max} levels deep"
        )));
    }
    if values > VALUES_MAX {
        return Err(Failure::bad_request(format!(
            "the request's body has more than {VALUES_MAX} values: a job needs far fewer"
        )));
    }
    Ok(())
}

/// How many objects and lists stand inside one another, as far as `max` and one more; and about how many values there are:
/// one more than there are commas and opening brackets. Text that is not JSON gives some answer.
fn measure(json: &[u8], max: usize) -> (usize, usize) {
    let (mut depth, mut deepest, mut values) = (0_usize, 0, 1);
    for byte in outside_strings(json) {
        match byte {
            b'[' | b'{' => {
                (depth, values) = (depth + 1, values + 1);
                deepest = deepest.max(depth);
                if deepest > max {
                    break;
                }
            }
            b']' | b'}' => depth = depth.saturating_sub(1),
            b',' => values += 1,
            _ => {}
        }
    }
    (deepest, values)
}

fn outside_strings(json: &[u8]) -> impl Iterator<Item = u8> {
    let mut rest = json;
    std::iter::from_fn(move || {
        let mut first = rest.split_off_first()?;
        while *first == b'"' {
            rest = after_string(rest);
            first = rest.split_off_first()?;
        }
        Some(*first)
    })
}

/// What stands behind the string that has begun.
fn after_string(mut text: &[u8]) -> &[u8] {
    while let Some(at) = text.iter().position(|byte| matches!(byte, b'"' | b'\\')) {
        // What is escaped ends nothing.
        let is_end = text[at] == b'"';
        text = text.get(at + if is_end { 1 } else { 2 }..).unwrap_or_default();
        if is_end {
            return text;
        }
    }
    &[]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_stands_outside_strings_counts_as_values() {
        let values = |json: &[u8]| measure(json, 64).1;
        assert_eq!(values(br#"{"a":[1,2,{"b":",[\",{"}]}"#), 6);
        assert_eq!(values(br"[[[[1]]]]"), 5);
        assert_eq!(values(br#"[1,"not ended, and escaped at its end: \"#), 3);
    }

    #[test]
    fn only_brackets_outside_strings_count() {
        let exceeds = |json: &[u8], max: usize| measure(json, max).0 > max;
        assert!(!exceeds(br#"{"a":[1,{"b":[]}]}"#, 4));
        assert!(exceeds(br#"{"a":[1,{"b":[]}]}"#, 3));
        assert!(!exceeds(br#"{"a":"[[[[\"[[[[\\","b":[]}"#, 2));
        assert!(!exceeds(br"[][][][]", 1));
        assert!(exceeds("[".repeat(100_000).as_bytes(), 64));
    }
}
