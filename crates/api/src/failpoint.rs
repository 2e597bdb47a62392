//! Where tests have a server, an agent or a keeper panic with a secret at hand, to see that it is shown nowhere. Release builds have
//! none of it.

/// `POINT=TEXT,POINT=TEXT`: at that point, once the data holds that text.
#[cfg(debug_assertions)]
const FAILPOINTS: &str = "BERTH_FAILPOINTS";

/// Panics, and says all of `data`, where a test has asked for that.
#[cfg(debug_assertions)]
pub fn failpoint(point: &str, data: &[u8]) {
    static FAIL: std::sync::LazyLock<String> =
        std::sync::LazyLock::new(|| std::env::var(FAILPOINTS).unwrap_or_default());
    let asked = FAIL.split(',').filter_map(|asked| asked.split_once('='));
    for (_, text) in asked.filter(|(of, text)| *of == point && !text.is_empty()) {
        let holds = data.windows(text.len()).any(|part| part == text.as_bytes());
        assert!(!holds, "failpoint {point}: {}", String::from_utf8_lossy(data));
    }
}

/// Nothing.
#[cfg(not(debug_assertions))]
pub fn failpoint(_: &str, _: &[u8]) {}
