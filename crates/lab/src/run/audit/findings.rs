//! The findings of an audit, as many as are printed.

/// Findings that are described; the rest is only counted.
const DESCRIBED_MAX: usize = 50;

#[derive(Debug, Default)]
pub(super) struct Findings {
    described: Vec<String>,
    more: usize,
}

impl Findings {
    pub fn add(&mut self, finding: String) {
        if self.described.len() < DESCRIBED_MAX {
            self.described.push(finding);
        } else {
            self.more += 1;
        }
    }

    /// A line each.
    pub fn lines(mut self) -> Vec<String> {
        if self.more > 0 {
            self.described.push(format!("… and {} more of these", self.more));
        }
        self.described
    }
}
