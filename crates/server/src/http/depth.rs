//! How deep a JSON text is nested and how many values it has, before anything that costs more looks at it.

use super::failure::Failure;

/// Values of a body; each takes hundreds of bytes once it is read.
const VALUES_MAX: usize = 400_000;

/// Refuses a body that is nested too deep or has too many values.
pub(crate) fn check(json: &[u8], depth_max: usize) -> Result<(), Failure> {
    if exceeds(json, depth_max) {
        return Err(Failure::bad_request(format!(
            "the request's body is nested more than {depth_max} levels deep"
        )));
    }
    if values(json) > VALUES_MAX {
        return Err(Failure::bad_request(format!(
            "the request's body has more than {VALUES_MAX} values: a job needs far fewer"
        )));
    }
    Ok(())
}

/// Whether more than `max` objects and lists stand inside one another. Text that is not JSON gives some answer.
fn exceeds(json: &[u8], max: usize) -> bool {
    let (mut depth, mut in_string, mut escaped) = (0_usize, false, false);
    for byte in json {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if in_string => escaped = true,
            b'"' => in_string = !in_string,
            _ if in_string => {}
            b'[' | b'{' => depth += 1,
            b']' | b'}' => depth = depth.saturating_sub(1),
            _ => {}
        }
        if depth > max {
            return true;
        }
    }
    false
}

/// About how many values there are: one more than there are commas and opening brackets outside of strings. Text that is
/// not JSON gives some answer.
fn values(json: &[u8]) -> usize {
    let (mut values, mut in_string, mut escaped) = (1, false, false);
    for byte in json {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if in_string => escaped = true,
            b'"' => in_string = !in_string,
            b',' | b'[' | b'{' if !in_string => values += 1,
            _ => {}
        }
    }
    values
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_stands_outside_strings_counts_as_values() {
        assert_eq!(values(br#"{"a":[1,2,{"b":",[\",{"}]}"#), 6);
        assert_eq!(values(br"[[[[1]]]]"), 5);
    }

    #[test]
    fn only_brackets_outside_strings_count() {
        assert!(!exceeds(br#"{"a":[1,{"b":[]}]}"#, 4));
        assert!(exceeds(br#"{"a":[1,{"b":[]}]}"#, 3));
        assert!(!exceeds(br#"{"a":"[[[[\"[[[[\\","b":[]}"#, 2));
        assert!(!exceeds(br"[][][][]", 1));
        assert!(exceeds("[".repeat(100_000).as_bytes(), 64));
    }
}
