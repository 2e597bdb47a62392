//! Driver names that look misspelt: an error, unless a node has a driver of that name.

use std::collections::BTreeSet;

use berth_jobfile::{Diagnostics, Inputs};

use crate::access::CallerView;

/// Reads a job; once more with what the nodes have, if only they can report whether it has a mistake.
pub(super) fn read<T>(
    inputs: Inputs,
    latest: &impl Fn() -> CallerView,
    read: impl Fn(&Inputs) -> Result<T, Diagnostics>,
) -> Result<T, Diagnostics> {
    let diagnostics = match read(&inputs) {
        Err(diagnostics) if !diagnostics.unknown_drivers().is_empty() => diagnostics,
        other => return other,
    };
    let names: BTreeSet<&String> = diagnostics.unknown_drivers().iter().take(NAMES_MAX).collect();
    let view = latest();
    let known: Vec<String> = names.into_iter().filter(|name| view.has_driver(name)).cloned().collect();
    if known.is_empty() { Err(diagnostics) } else { read(&inputs.drivers(known)) }
}

/// How many names are looked for among all nodes.
const NAMES_MAX: usize = 8;
