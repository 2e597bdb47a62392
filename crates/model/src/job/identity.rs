//! Identities of tasks: tokens that servers sign and that a task presents to others.

use std::time::Duration;

use minicbor::{Decode, Encode};

use super::seconds;

/// The name of the identity that is given without one.
pub const IDENTITY_DEFAULT: &str = "default";
/// Who the default identity is meant for, unless it says: the servers themselves, by Nomad's name for them.
pub const IDENTITY_AUDIENCE: &str = "nomadproject.io";
/// Identities that one task may have.
pub const IDENTITIES_MAX: usize = 16;
/// Longest name of an identity, in bytes.
pub const IDENTITY_NAME_MAX: usize = 128;
/// Audiences that one token may have.
pub const IDENTITY_AUDIENCES_MAX: usize = 16;
/// Longest name of an audience, in bytes.
pub const IDENTITY_AUDIENCE_BYTES_MAX: usize = 256;
/// Longest path of a token's file below the directory of secrets, in bytes.
pub const IDENTITY_PATH_BYTES_MAX: usize = 256;
/// Shortest life of a token that a job can ask for.
pub const IDENTITY_TTL_MIN: Duration = seconds(5);
/// Longest life of a token: a key that signs no more is kept for that long, to verify what it signed.
pub const IDENTITY_TTL_MAX: Duration = seconds(24 * 60 * 60);
/// The life of a token where the job says nothing.
const IDENTITY_TTL: Duration = seconds(60 * 60);

/// The task's own directory of secrets, with a slash behind it.
pub const SECRETS_DIR: &str = "secrets/";

/// A signed statement of who a task or service is.
#[derive(Debug, Clone, PartialEq, Eq, Default, Encode, Decode)]
pub struct Identity {
    /// `default` for the one that is given without a name.
    #[n(0)]
    pub name: String,
    /// Who it is meant for.
    #[n(1)]
    pub audience: Vec<String>,
    /// What happens to the task when it is renewed: `noop`, `restart` or `signal`; empty for nothing.
    #[n(2)]
    pub change_mode: String,
    /// The signal to send when `change_mode` is `signal`.
    #[n(3)]
    pub change_signal: String,
    /// The task has it in its environment.
    #[n(4)]
    pub env: bool,
    /// The task has it in a file.
    #[n(5)]
    pub file: bool,
    /// The file's path, below the task's directory; empty for the usual one: [`Self::file_path`].
    #[n(6)]
    pub filepath: String,
    /// The service that it speaks for; empty for the task.
    #[n(7)]
    pub service_name: String,
    /// Until it expires; zero for as long as is usual: [`Self::life`].
    #[n(8)]
    #[cbor(with = "crate::codec::duration")]
    pub ttl: Duration,
    /// Further statements, as `key=value`.
    #[n(9)]
    pub extra_claims: Vec<String>,
}

impl Identity {
    /// How long a token lives. What was registered before there were limits keeps to them too.
    pub fn life(&self) -> Duration {
        if self.ttl.is_zero() { IDENTITY_TTL } else { self.ttl.clamp(IDENTITY_TTL_MIN, IDENTITY_TTL_MAX) }
    }

    /// Who a token is meant for.
    pub fn audiences(&self) -> Vec<&str> {
        if self.audience.is_empty() && self.name == IDENTITY_DEFAULT {
            return vec![IDENTITY_AUDIENCE];
        }
        self.audience.iter().map(String::as_str).take(IDENTITY_AUDIENCES_MAX).collect()
    }

    /// The path of its file, below the task's directory.
    pub fn file_path(&self) -> String {
        match (&*self.filepath, &*self.name) {
            ("", IDENTITY_DEFAULT) => format!("{SECRETS_DIR}nomad_token"),
            ("", name) => format!("{SECRETS_DIR}nomad_{name}.jwt"),
            (path, _) => path.to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_an_identity_does_not_say_is_usual() {
        let default = Identity { name: IDENTITY_DEFAULT.to_owned(), ..Identity::default() };
        assert_eq!((default.life(), default.audiences()), (seconds(3_600), vec!["nomadproject.io"]));
        assert_eq!(default.file_path(), "secrets/nomad_token");
        let named = Identity { name: "aws".to_owned(), ..Identity::default() };
        assert_eq!((named.audiences(), &*named.file_path()), (vec![], "secrets/nomad_aws.jwt"));
    }

    #[test]
    fn no_life_is_beyond_its_limits() {
        let life = |ttl| Identity { ttl, ..Identity::default() }.life();
        assert_eq!(life(Duration::from_nanos(1)), IDENTITY_TTL_MIN);
        assert_eq!(life(seconds(7)), seconds(7));
        assert_eq!(life(Duration::MAX), IDENTITY_TTL_MAX);
    }
}
