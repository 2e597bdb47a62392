//! `berth operator root`: the root keys, which encrypt variables and sign identities.

use berth_api::http::KeyringKey;
use clap::{Args, Subcommand};

use crate::{
    confirm::ConfirmArgs,
    failure::{Exit, Failure},
    output::{self, Cell, Column, Layout, Table, View, age, now_ns},
    remote::Remote,
    show::ShowArgs,
};

/// Subcommands of `operator root`.
#[derive(Debug, Subcommand)]
pub enum RootCommand {
    /// The root keys
    #[command(subcommand)]
    Keyring(KeyringCommand),
}

/// What can be done with root keys.
#[derive(Debug, Subcommand)]
pub enum KeyringCommand {
    /// List the root keys
    List(KeyringListArgs),
    /// Make a new root key the active one; older ones still decrypt what they have encrypted
    Rotate(KeyringRotateArgs),
    /// Replace the key-encryption key on all servers, and delete the old one
    Rewrap(KeyringRewrapArgs),
    /// Delete a root key that nothing is encrypted with
    Remove(KeyringRemoveArgs),
}

impl RootCommand {
    pub async fn run(&self, remote: &Remote) -> Result<(), Failure> {
        match self {
            Self::Keyring(KeyringCommand::List(list)) => {
                list.show.show(remote, async |remote| remote.root_keys().await).await
            }
            Self::Keyring(KeyringCommand::Rotate(rotate)) => rotate.run(remote).await,
            Self::Keyring(KeyringCommand::Rewrap(rewrap)) => rewrap.run(remote).await,
            Self::Keyring(KeyringCommand::Remove(remove)) => remove.run(remote).await,
        }
    }
}

/// Arguments of `operator root keyring list`.
#[derive(Debug, Args)]
pub struct KeyringListArgs {
    #[command(flatten)]
    show: ShowArgs,
}

/// Arguments of `operator root keyring rotate`.
#[derive(Debug, Args)]
pub struct KeyringRotateArgs {
    /// Re-encrypt all variables with it, in the background; older keys can be removed then
    #[arg(long)]
    full: bool,
}

impl KeyringRotateArgs {
    async fn run(&self, remote: &Remote) -> Result<(), Failure> {
        let key = remote.rotate_root_key(self.full).await?.key;
        output::eprint_line(&format!("root key {} is active", key.key_id));
        if self.full {
            output::eprint_line(
                "variables are being encrypted with it: `berth operator root keyring list -watch` shows how far that is",
            );
        }
        Ok(output::print(&format!("{}\n", key.key_id))?)
    }
}

/// Arguments of `operator root keyring rewrap`.
#[derive(Debug, Args)]
pub struct KeyringRewrapArgs {
    #[command(flatten)]
    confirm: ConfirmArgs,
}

impl KeyringRewrapArgs {
    async fn run(&self, remote: &Remote) -> Result<(), Failure> {
        let keys = remote.root_keys().await?;
        let old: std::collections::BTreeSet<&str> = keys.iter().map(|key| &*key.key_encryption_key).collect();
        let old = old.into_iter().collect::<Vec<_>>().join(", ");
        output::eprint_line(
            "note: snapshots that were taken before need the old key: keep a copy of its file apart from them",
        );
        self.confirm.always("replace key-encryption key", &old, &old)?;
        let done = remote.rewrap_root_keys().await?;
        for replaced in &done.replaced {
            output::eprint_line(&format!(
                "key-encryption key {replaced} is no longer used and is being deleted"
            ));
        }
        output::eprint_line(&format!(
            "root key {} is active, and variables are being encrypted with it: `berth operator root keyring list -watch`",
            done.key.key_id
        ));
        output::eprint_line(
            "next: berth operator root keyring remove, for each root key that is inactive and has no variables",
        );
        Ok(output::print(&format!("{}\n", done.key.key_encryption_key))?)
    }
}

/// Arguments of `operator root keyring remove`.
#[derive(Debug, Args)]
pub struct KeyringRemoveArgs {
    /// The key's id
    #[arg(value_name = "KEY")]
    id: String,
    #[command(flatten)]
    confirm: ConfirmArgs,
}

impl KeyringRemoveArgs {
    async fn run(&self, remote: &Remote) -> Result<(), Failure> {
        let keys = remote.root_keys().await?;
        let mut like = keys.iter().filter(|key| key.key_id.starts_with(&self.id)).map(|key| &key.key_id);
        let id = match (like.next(), like.next()) {
            (Some(id), None) => id,
            (None, _) => {
                return Err(Failure::new(Exit::NotFound, format!("no root key is called {}", self.id)));
            }
            (Some(_), Some(_)) => {
                return Err(Failure::new(Exit::Usage, format!("several root keys begin with {}", self.id)));
            }
        };
        self.confirm.always("delete root key", id, &self.id)?;
        remote.remove_root_key(id).await?;
        output::eprint_line(&format!("root key {id} is deleted"));
        Ok(())
    }
}

const COLUMNS: &[Column] = &[
    Column::id("key"),
    Column::text("state"),
    Column::text("age"),
    Column::number("variables"),
    Column::text("readable"),
    Column::text("key-encryption key").wide(),
];

impl View for Vec<KeyringKey> {
    fn text(&self, layout: Layout) -> String {
        let mut table = Table::new(layout, COLUMNS);
        for key in self {
            table.row([
                (&key.key_id).into(),
                Cell::status(&key.state),
                age(key.create_time, now_ns()).into(),
                Cell::number(key.variables),
                if key.readable { "yes" } else { "no" }.into(),
                (&key.key_encryption_key).into(),
            ]);
        }
        table.render()
    }

    fn names(&self) -> Vec<String> {
        self.iter().map(|key| key.key_id.clone()).collect()
    }
}
