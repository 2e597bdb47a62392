//! Failpoints: tests make a server, an agent or a keeper panic while it holds a secret, and check that the secret is printed
//! nowhere. Release builds contain none.

/// `POINT=TEXT,POINT=TEXT`: at that point, once the data holds that text.
#[cfg(debug_assertions)]
const FAILPOINTS: &str = "BERTH_FAILPOINTS";

/// Panics, and says all of `data`, where a test has asked for that.
#[cfg(debug_assertions)]
pub fn failpoint(point: &str, data: &[u8]) {
    static FAIL: std::sync::LazyLock<String> =
        std::sync::LazyLock::new(|| std::env::var(FAILPOINTS).unwrap_or_default());
    let points = FAIL.split(',').filter_map(|points| points.split_once('='));
    for (_, text) in points.filter(|(of, text)| *of == point && !text.is_empty()) {
        let holds = data.windows(text.len()).any(|part| part == text.as_bytes());
        assert!(!holds, "failpoint {point}: {}", String::from_utf8_lossy(data));
    }
}

/// Does nothing in release builds.
#[cfg(not(debug_assertions))]
pub fn failpoint(_: &str, _: &[u8]) {}
