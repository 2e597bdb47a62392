//! Links to files.

use std::path::Path;

use regex::Regex;

/// The links of a page to files that are not there. Those to other sites are not followed.
pub fn broken(page: &Path, text: &str) -> Vec<String> {
    let link = Regex::new(r"\]\(([^)#\s]+)(#[^)]*)?\)").expect("a pattern");
    let here = page.parent().expect("it is in a directory");
    let targets = link.captures_iter(text).map(|found| found[1].to_owned());
    targets.filter(|target| !target.contains("://") && !here.join(target).exists()).collect()
}
