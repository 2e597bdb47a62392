//! `berth login` and `berth logout`: a token that is stored for a server, so that commands need not be given it.

use std::io::{self, BufRead, IsTerminal, Read};

use clap::Args;

use crate::{
    failure::{Exit, Failure},
    global::Global,
    output::{self, clean, rfc3339},
    raw_mode::RawMode,
    remote::block_on,
    tokens::TokenFile,
};

/// Longest token that is read.
const TOKEN_BYTES_MAX: u64 = 4096;
/// Keys, as a terminal sends them.
const INTERRUPT: u8 = 0x03;
const END: u8 = 0x04;
const ERASE: [u8; 2] = [0x08, 0x7f];
const ENTER: [u8; 2] = [b'\r', b'\n'];

/// Arguments of `login`.
#[derive(Debug, Args)]
#[command(
    after_help = "The token is asked for, and not shown; or it is read from standard input, or from --token. It is checked \
    before it is kept, in ~/.config/berth/tokens.json, which nobody else may read."
)]
pub struct LoginArgs {}

/// Arguments of `logout`.
#[derive(Debug, Args)]
pub struct LogoutArgs {
    /// Delete the tokens of all servers
    #[arg(long)]
    all: bool,
}

impl LoginArgs {
    /// Asks for the token, checks it, and keeps it.
    pub fn run(&self, global: &Global) -> Result<(), Failure> {
        let tokens = tokens()?;
        let address = global.server()?;
        let secret = match global.given_token() {
            Some(secret) => secret,
            None => prompt_token(&address.to_string())?,
        };
        if secret.is_empty() {
            return Err(Failure::new(Exit::Usage, "no token was given: nothing is kept"));
        }
        let remote = global.remote_with(&secret)?;
        let token = block_on(remote.acl_own_token())?;
        tokens.store(&address, &secret)?;
        let name = if token.name.is_empty() { String::new() } else { format!(" ({})", clean(&token.name)) };
        let end = token.expiration_time.map_or_else(String::new, |at| format!(", until {}", rfc3339(at.0)));
        output::eprint_line(&format!("logged in to {address} with token {}{name}{end}", token.accessor_id));
        output::eprint_line(&format!("it is kept in {}; `berth logout` forgets it", tokens.path().display()));
        Ok(())
    }
}

impl LogoutArgs {
    /// Deletes the stored token; the server does not revoke it.
    pub fn run(&self, global: &Global) -> Result<(), Failure> {
        let address = global.server()?;
        let removed = tokens()?.remove(Some(&address).filter(|_| !self.all))?;
        match (removed, self.all) {
            (0, true) => Err(Failure::new(Exit::NotFound, "no token is kept")),
            (0, false) => Err(Failure::new(Exit::NotFound, format!("no token is kept for {address}"))),
            (_, true) => {
                output::eprint_line(&format!(
                    "deleted {}; they are not revoked",
                    output::count(removed, "token")
                ));
                Ok(())
            }
            (_, false) => {
                output::eprint_line(&format!("deleted the token for {address}; it is not revoked"));
                Ok(())
            }
        }
    }
}

fn tokens() -> Result<TokenFile, Failure> {
    TokenFile::of_user().ok_or_else(|| {
        Failure::new(Exit::Usage, "there is nowhere to keep a token: neither XDG_CONFIG_HOME nor HOME is set")
    })
}

/// What is typed, or comes by standard input.
fn prompt_token(address: &str) -> Result<String, Failure> {
    let secret = if io::stdin().is_terminal() {
        eprint!("token for {address}: ");
        let typed = typed();
        eprintln!();
        typed?
    } else {
        let mut line = String::new();
        io::stdin().lock().take(TOKEN_BYTES_MAX).read_line(&mut line)?;
        line
    };
    Ok(secret.trim().to_owned())
}

/// A line from the terminal, of which nothing is shown.
fn typed() -> Result<String, Failure> {
    let _raw = RawMode::enter()?;
    let mut line = Vec::new();
    for key in io::stdin().lock().take(TOKEN_BYTES_MAX).bytes() {
        match key? {
            INTERRUPT => return Err(Failure::new(Exit::Failed, "nothing is kept")),
            END => break,
            key if ENTER.contains(&key) => break,
            key if ERASE.contains(&key) => {
                line.pop();
            }
            key => line.push(key),
        }
    }
    String::from_utf8(line).map_err(|_| Failure::new(Exit::Usage, "the token is not text"))
}
