//! Search, as completion and command palettes use it.

mod fuzzy;
mod prefix;

pub(super) use fuzzy::fuzzy;
pub(super) use prefix::prefix;

use crate::http::failure::Failure;

/// Matches told of one context.
const MATCHES_MAX: usize = 20;
/// Stands for every context.
const ALL: &str = "all";
/// Contexts that other servers have: nothing is ever found there.
const EMPTY_CONTEXTS: &[&str] =
    &["deployment", "plugins", "quotas", "recommendations", "scaling_policy", "vars", "volumes"];

/// The contexts that are asked for.
fn asked<'c>(context: &str, known: &[&'c str]) -> Result<Vec<&'c str>, Failure> {
    if context.is_empty() || context == ALL {
        return Ok(known.to_vec());
    }
    if EMPTY_CONTEXTS.contains(&context) {
        return Ok(Vec::new());
    }
    let found = known.iter().find(|known| **known == context);
    found.map(|context| vec![*context]).ok_or_else(|| {
        let cut: String = context.chars().take(64).collect();
        Failure::bad_request(format!("Context: `{cut}` is not one of {ALL}, {}", known.join(", ")))
    })
}
