//! Tests that messages with secrets do not print them in `Debug` output, which may end in logs and panic messages.

/// Shows these fields of a type and no others, where a derived `Debug` would show all of them.
macro_rules! debug_shows {
    ($type:ident { $($field:ident),* }) => {
        /// Without what is secret.
        impl std::fmt::Debug for $type {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.debug_struct(stringify!($type))$(.field(stringify!($field), &self.$field))*.finish_non_exhaustive()
            }
        }
    };
}
pub(crate) use debug_shows;

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use crate::{
        agent::{
            AgentIdentity, Down, DownFrame, Enroll, Hello, JoinCode, Leaving, ReadSecrets, SecretItems,
            SecretsRead, SignTokens, SignedToken, SignedTokens, TaskApi, TaskApiData, TaskApiOpen,
            TaskApiPart, Up, UpFrame, VariableContent, VariableResult, VariablesWatched, WatchVariables,
        },
        http::{
            AclBootstrap, AclOneTimeExchanged, AclOneTimeMade, AclOneTimeToken, AclToken, NodeToken, Variable,
        },
    };

    const CANARY: &str = "canary-of-32-bytes-which-is-long";

    fn bytes() -> Vec<u8> {
        CANARY.as_bytes().to_vec()
    }

    /// Whatever an agent and a server send each other that holds a secret.
    fn frames() -> Vec<String> {
        let up = [
            Up::Hello(Hello { secret: bytes(), ..Hello::default() }),
            Up::Leaving(Leaving { secret: bytes(), ..Leaving::default() }),
            Up::Sign(SignTokens { secret: bytes(), ..SignTokens::default() }),
            Up::Secrets(ReadSecrets { secret: bytes(), ..ReadSecrets::default() }),
            Up::Watch(WatchVariables { secret: bytes(), ..WatchVariables::default() }),
            Up::TaskApi(TaskApi {
                connection: 1,
                part: Some(TaskApiPart::Open(TaskApiOpen { secret: bytes(), ..TaskApiOpen::default() })),
            }),
            Up::TaskApi(TaskApi {
                connection: 1,
                part: Some(TaskApiPart::Data(TaskApiData { data: bytes().into() })),
            }),
        ];
        let token = SignedToken { token: CANARY.to_owned(), ..SignedToken::default() };
        let items = BTreeMap::from([("key".to_owned(), CANARY.to_owned())]);
        let secret = SecretItems { items, ..SecretItems::default() };
        let items = BTreeMap::from([("key".to_owned(), CANARY.to_owned())]);
        let variables = vec![VariableContent { items, ..VariableContent::default() }];
        let found = vec![VariableResult { variables, ..VariableResult::default() }];
        let down = [
            Down::Watched(VariablesWatched { found, ..VariablesWatched::default() }),
            Down::Signed(SignedTokens { tokens: vec![token], ..SignedTokens::default() }),
            Down::Secrets(SecretsRead { secrets: vec![secret], ..SecretsRead::default() }),
        ];
        let up = up.map(|message| format!("{:?}", UpFrame { session: 1, message: Some(message) }));
        let down = down.map(|message| format!("{:?}", DownFrame { session: 1, message: Some(message) }));
        up.into_iter().chain(down).collect()
    }

    /// Whatever the HTTP API sends or receives that holds one.
    fn bodies() -> Vec<String> {
        let text = || CANARY.to_owned();
        let token = AclToken { secret_id: text(), ..AclToken::default() };
        let once = AclOneTimeToken { one_time_secret_id: text(), ..AclOneTimeToken::default() };
        let items = Some(BTreeMap::from([("key".to_owned(), text())]));
        vec![
            format!("{token:?}"),
            format!("{:?}", AclOneTimeExchanged { token, index: 1 }),
            format!("{once:?}"),
            format!("{:?}", AclOneTimeMade { one_time_token: once, index: 1 }),
            format!("{:?}", AclBootstrap { bootstrap_secret: text() }),
            format!("{:?}", NodeToken { token: text(), ..NodeToken::default() }),
            format!("{:?}", Variable { items, ..Variable::default() }),
        ]
    }

    #[test]
    fn what_holds_a_secret_does_not_show_it() {
        let identity =
            AgentIdentity { node_id: [1; 16], secret: bytes(), boot_id: String::new(), instance: [0; 16] };
        let enroll = Enroll { secret: bytes(), ..Enroll::default() };
        let code = JoinCode { authority: [1; 32], secret: bytes().try_into().expect("32 bytes") };
        let mut shown = [frames(), bodies()].concat();
        shown.extend([format!("{identity:?}"), format!("{enroll:?}"), format!("{code:?}")]);
        // Bytes are shown as numbers.
        let as_numbers = format!("{:?}", &CANARY.as_bytes()[..6]);
        let as_numbers = as_numbers.trim_matches(['[', ']']);
        for shown in shown {
            assert!(!shown.contains("canary") && !shown.contains(as_numbers), "{shown}");
        }
    }
}
