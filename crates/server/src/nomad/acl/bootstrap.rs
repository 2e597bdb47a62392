//! The bootstrap token: created once.

use std::{fs::File, io::Read, path::Path};

use berth_api::http::AclBootstrap;
use berth_model::{
    AclTokenId, Index,
    acl::{AclToken, TokenType},
    command::Refusal,
};

use super::{check_on, tokens};
use crate::{
    access::hash,
    clock,
    http::{
        call::{Call, Reply},
        failure::Failure,
    },
};

/// An operator who has lost all tokens writes the index that the refusal names into this file in the server's data
/// directory: who can do that has the cluster anyway.
const RESET_FILE: &str = "acl-bootstrap-reset";
/// What is read of it.
const RESET_BYTES_MAX: u64 = 64;
/// Fewer characters could be guessed.
const SECRET_CHARS_MIN: usize = 32;
const SECRET_CHARS_MAX: usize = 256;

/// `PUT /v1/acl/bootstrap`
pub(in crate::nomad) async fn bootstrap(mut call: Call) -> Reply {
    check_on(&call)?;
    let request: AclBootstrap = call.json_or_default().await?;
    let secret = match request.bootstrap_secret.trim() {
        "" => tokens::new_secret()?,
        given => checked(given)?,
    };
    let id = AclTokenId(call.mint_id());
    let token = AclToken {
        id,
        secret: hash(&secret),
        name: "Bootstrap Token".to_owned(),
        token_type: TokenType::Management,
        policies: Vec::new(),
        roles: Vec::new(),
        global: true,
        created_at: clock::now(),
        expires_at: None,
        create_index: Index(0),
        modify_index: Index(0),
    };
    let reset_file = call.server().data_dir.join(RESET_FILE);
    let read = reset_file.clone();
    let again = call.api.heavy.run(move || reset_index(&read)).await;
    // Anybody may ask: what is known to be refused writes nothing to the replicated log.
    let made_at = call.view().bootstrapped_at();
    if made_at != Index(0) && again != Some(made_at) {
        return Err(Refusal::AclBootstrapped(made_at).into());
    }
    let reply = tokens::write_first(&call, token, again, secret).await?;
    tracing::info!(token = %id, "the first token was made");
    if again.is_some() {
        // It names an index that is past: it cannot be used twice, and only stays to confuse.
        call.api.heavy.run(move || drop(std::fs::remove_file(reset_file))).await;
    }
    Ok(reply)
}

fn checked(secret: &str) -> Result<String, Failure> {
    let length = SECRET_CHARS_MIN..=SECRET_CHARS_MAX;
    if !length.contains(&secret.len()) || !secret.bytes().all(|byte| byte.is_ascii_graphic()) {
        let text = format!(
            "BootstrapSecret needs {SECRET_CHARS_MIN} to {SECRET_CHARS_MAX} printable ASCII characters without spaces"
        );
        return Err(Failure::bad_request(text));
    }
    Ok(secret.to_owned())
}

/// The index that an operator wrote down to be given a first token again. Touches the disk.
fn reset_index(file: &Path) -> Option<Index> {
    let mut text = String::new();
    // Whatever lies there, an index is short.
    File::open(file).ok()?.take(RESET_BYTES_MAX).read_to_string(&mut text).ok()?;
    text.trim().parse().ok().map(Index)
}
