//! How deep a JSON text is nested, before anything recursive looks at it.

/// Whether more than `max` objects and lists stand inside one another. Text that is not JSON gives some answer.
pub(super) fn exceeds(json: &[u8], max: usize) -> bool {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_brackets_outside_strings_count() {
        assert!(!exceeds(br#"{"a":[1,{"b":[]}]}"#, 4));
        assert!(exceeds(br#"{"a":[1,{"b":[]}]}"#, 3));
        assert!(!exceeds(br#"{"a":"[[[[\"[[[[\\","b":[]}"#, 2));
        assert!(!exceeds(br"[][][][]", 1));
        assert!(exceeds("[".repeat(100_000).as_bytes(), 64));
    }
}
