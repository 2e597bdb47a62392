//! The tokens that tasks hold, for as long as their allocations live: a task that restarts gets those that are good for a
//! while.

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use berth_api::agent::{AllocId, IdentitySpec, SignedToken};

use super::variable;
use crate::lifecycle::TaskRef;
use crate::secrets::Redaction;

/// A token and when it must be renewed. Times are nanoseconds since the Unix epoch, by the agent's clock.
#[derive(Clone, PartialEq, Eq)]
pub(in crate::shell) struct HeldToken {
    pub(super) token: String,
    pub(super) renew_ns: u64,
    pub(super) expires_ns: u64,
}

/// Without what is secret.
impl fmt::Debug for HeldToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HeldToken").field("expires_ns", &self.expires_ns).finish_non_exhaustive()
    }
}

impl HeldToken {
    /// One that was signed just now: it is renewed once a half to two thirds of its life are over, at `random`, so that what
    /// started together does not ask together forever.
    pub(super) fn new(signed: SignedToken, now_ns: u64, random: u64) -> Self {
        let life_ns = signed.life_ms.saturating_mul(1_000_000);
        let part = random as f64 / u64::MAX as f64;
        let renew_ns = now_ns.saturating_add(life_ns / 2 + (life_ns as f64 / 6.0 * part) as u64);
        Self { token: signed.token, renew_ns, expires_ns: now_ns.saturating_add(life_ns) }
    }
}

/// The tokens of one task, by the names of its identities.
pub(in crate::shell) type TaskTokens = BTreeMap<String, HeldToken>;

/// The tokens of all tasks that have any.
#[derive(Debug, Default)]
pub(in crate::shell) struct HeldTokens(Mutex<HashMap<(AllocId, u16), Arc<TaskTokens>>>);

impl HeldTokens {
    /// The tokens of a task.
    pub(in crate::shell) fn of(&self, of: TaskRef) -> Arc<TaskTokens> {
        self.all().get(&(of.alloc, of.task)).cloned().unwrap_or_default()
    }

    /// A task holds these besides those that it held.
    pub(super) fn add(&self, of: TaskRef, tokens: TaskTokens) -> Arc<TaskTokens> {
        let mut all = self.all();
        let tokens_of_task = all.entry((of.alloc, of.task)).or_default();
        Arc::make_mut(tokens_of_task).extend(tokens);
        tokens_of_task.clone()
    }

    /// An allocation has ended.
    pub(in crate::shell) fn end(&self, alloc: AllocId) {
        let mut all = self.all();
        if !all.is_empty() {
            all.retain(|(of, _), _| *of != alloc);
        }
    }

    fn all(&self) -> MutexGuard<'_, HashMap<(AllocId, u16), Arc<TaskTokens>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What people are not to be shown.
pub(in crate::shell) fn hidden(tokens: &TaskTokens) -> impl Iterator<Item = Redaction<'_>> {
    tokens.iter().map(|(name, held)| (format!("<identity.{name}>"), held.token.as_str()))
}

/// What a task that starts finds in its environment.
pub(in crate::shell) fn environment(
    identities: &[IdentitySpec],
    tokens: &TaskTokens,
) -> BTreeMap<String, String> {
    let in_env = identities.iter().filter(|identity| identity.env);
    in_env
        .filter_map(|identity| Some((variable(&identity.name), tokens.get(&identity.name)?.token.clone())))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn signed(life_ms: u64) -> SignedToken {
        SignedToken { identity: "default".into(), token: "a.b.c".into(), life_ms }
    }

    #[test]
    fn a_token_is_renewed_between_a_half_and_two_thirds_of_its_life() {
        for random in [0, 1, u64::MAX / 2, u64::MAX] {
            let held = HeldToken::new(signed(6_000), 1_000, random);
            assert_eq!(held.expires_ns, 6_000_001_000);
            assert!((3_000_001_000..=4_000_001_001).contains(&held.renew_ns), "{held:?}");
        }
        assert_eq!(HeldToken::new(signed(u64::MAX), 5, 0).expires_ns, u64::MAX);
        assert!(!format!("{:?}", HeldToken::new(signed(1), 0, 0)).contains("a.b.c"));
    }

    #[test]
    fn what_an_allocation_held_goes_with_it() {
        let (held, task) =
            (HeldTokens::default(), |alloc| TaskRef { alloc: AllocId([alloc; 16]), task: 0, attempt: 1 });
        for alloc in [1, 2] {
            let token = HeldToken::new(signed(9), 0, 0);
            held.add(task(alloc), [("default".to_owned(), token)].into());
        }
        held.end(AllocId([1; 16]));
        assert!(held.of(task(1)).is_empty() && held.of(task(2)).len() == 1);
    }

    #[test]
    fn only_what_is_meant_for_it_is_in_the_environment() {
        let identity = |name: &str, env| IdentitySpec { name: name.into(), env, ..IdentitySpec::default() };
        let token = HeldToken::new(signed(9), 0, 0);
        let tokens: TaskTokens =
            ["default", "aws", "file"].map(|name| (name.to_owned(), token.clone())).into();
        let env = environment(
            &[identity("default", true), identity("aws", true), identity("file", false)],
            &tokens,
        );
        assert_eq!(env.keys().collect::<Vec<_>>(), ["NOMAD_TOKEN", "NOMAD_TOKEN_aws"]);
    }
}
