//! Tokens that say who a task is: asked of the server when the task is prepared, given to it, and renewed before they expire.

mod held_tokens;
mod renew;

pub(super) use held_tokens::{HeldTokens, hidden};
pub(super) use renew::{alongside, obtain};

/// The variable that holds the token of an identity.
fn variable(identity: &str) -> String {
    if identity == DEFAULT { "NOMAD_TOKEN".to_owned() } else { format!("NOMAD_TOKEN_{identity}") }
}

/// The name of the identity that is given without one.
const DEFAULT: &str = "default";
