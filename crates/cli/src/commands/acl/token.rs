//! `berth acl token`: the tokens that callers authenticate with.

use berth_api::http::{AclLink, AclToken, AclTtl, Time};
use clap::{Args, Subcommand};

use crate::{
    confirm::ConfirmArgs,
    failure::Failure,
    filter::FilterArgs,
    output::{self, Column, Fields, Layout, Table, View},
    remote::Remote,
    show::{PrintArgs, ShowArgs},
};

/// What can be done with tokens.
#[derive(Debug, Subcommand)]
pub enum TokenCommand {
    /// List the tokens, without their secrets
    List(TokenListArgs),
    /// Show one token, without its secret
    Info(TokenInfoArgs),
    /// Show the token that is shown to the server
    #[command(name = "self")]
    Own(TokenSelfArgs),
    /// Make a token; its secret is shown once
    Create(TokenCreateArgs),
    /// Change a token's name, policies and roles; what is not named is taken away
    Update(TokenUpdateArgs),
    /// Revoke a token: what it allowed ends within a second
    Delete(TokenDeleteArgs),
}

impl TokenCommand {
    pub async fn run(&self, remote: &Remote) -> Result<(), Failure> {
        match self {
            Self::List(list) => {
                list.show.show(&list.filter.of(remote), async |remote| remote.acl_tokens().await).await
            }
            Self::Info(info) => {
                info.show.show(remote, async |remote| remote.acl_token(&info.accessor).await).await
            }
            Self::Own(own) => own.show.show(remote, async |remote| remote.acl_own_token().await).await,
            Self::Create(create) => create.run(remote).await,
            Self::Update(update) => update.run(remote).await,
            Self::Delete(delete) => delete.run(remote).await,
        }
    }
}

/// Arguments of `acl token self`.
#[derive(Debug, Args)]
pub struct TokenSelfArgs {
    #[command(flatten)]
    show: ShowArgs,
}

/// Arguments of `acl token list`.
#[derive(Debug, Args)]
pub struct TokenListArgs {
    #[command(flatten)]
    filter: FilterArgs,
    #[command(flatten)]
    show: ShowArgs,
}

/// Arguments of `acl token info`.
#[derive(Debug, Args)]
pub struct TokenInfoArgs {
    /// The token's accessor, which is no secret
    #[arg(value_name = "ACCESSOR")]
    accessor: String,
    #[command(flatten)]
    show: ShowArgs,
}

/// What a token may do.
#[derive(Debug, Args)]
struct TokenGrants {
    /// Description
    #[arg(long, value_name = "TEXT", default_value = "", hide_default_value = true)]
    name: String,
    /// Policy of it; repeatable
    #[arg(long = "policy", value_name = "NAME")]
    policies: Vec<String>,
    /// Role of it; repeatable
    #[arg(long = "role", visible_alias = "role-name", value_name = "NAME")]
    roles: Vec<String>,
    /// Role, by id; repeatable
    #[arg(long = "role-id", value_name = "ID")]
    role_ids: Vec<String>,
}

impl TokenGrants {
    fn token(&self) -> AclToken {
        let named = self.roles.iter().map(|name| AclLink::named(name));
        let by_id = self.role_ids.iter().map(|id| AclLink { id: id.clone(), ..AclLink::default() });
        AclToken {
            name: self.name.clone(),
            policies: Some(self.policies.clone()),
            roles: Some(named.chain(by_id).collect()),
            ..AclToken::default()
        }
    }
}

/// Arguments of `acl token create`.
#[derive(Debug, Args)]
pub struct TokenCreateArgs {
    #[command(flatten)]
    grants: TokenGrants,
    /// `client`, with the rights of its policies, or `management`, with all rights
    #[arg(long = "type", value_name = "TYPE", default_value = "client")]
    token_type: String,
    /// Time to live, e.g. 8h or 30m; by default it does not expire
    #[arg(long, value_name = "DURATION")]
    ttl: Option<String>,
    /// Valid in all regions
    #[arg(long)]
    global: bool,
    #[command(flatten)]
    print: PrintArgs,
}

impl TokenCreateArgs {
    async fn run(&self, remote: &Remote) -> Result<(), Failure> {
        let token = AclToken {
            token_type: self.token_type.clone(),
            expiration_ttl: self.ttl.clone().map(AclTtl::Text),
            global: self.global,
            ..self.grants.token()
        };
        self.print.print(&remote.put_acl_token(&token).await?)
    }
}

/// Arguments of `acl token update`.
#[derive(Debug, Args)]
pub struct TokenUpdateArgs {
    /// The token's accessor
    #[arg(value_name = "ACCESSOR")]
    accessor: String,
    #[command(flatten)]
    grants: TokenGrants,
    #[command(flatten)]
    print: PrintArgs,
}

impl TokenUpdateArgs {
    async fn run(&self, remote: &Remote) -> Result<(), Failure> {
        let old = remote.acl_token(&self.accessor).await?;
        let token = AclToken { accessor_id: old.accessor_id, global: old.global, ..self.grants.token() };
        self.print.print(&remote.put_acl_token(&token).await?)
    }
}

/// Arguments of `acl token delete`.
#[derive(Debug, Args)]
pub struct TokenDeleteArgs {
    /// The token's accessor
    #[arg(value_name = "ACCESSOR")]
    accessor: String,
    #[command(flatten)]
    confirm: ConfirmArgs,
}

impl TokenDeleteArgs {
    async fn run(&self, remote: &Remote) -> Result<(), Failure> {
        self.confirm.on_terminal("revoke token", &self.accessor, &self.accessor)?;
        remote.delete_acl_token(&self.accessor).await?;
        output::eprint_line(&format!("token {} is revoked", self.accessor));
        Ok(())
    }
}

fn roles(token: &AclToken) -> String {
    token.roles.iter().flatten().map(|link| &*link.name).collect::<Vec<_>>().join(", ")
}

fn end(token: &AclToken) -> String {
    let end = token.expiration_time.filter(|end| *end != Time(0));
    end.map_or_else(|| "never".to_owned(), |end| end.to_string())
}

impl View for Vec<AclToken> {
    fn text(&self, layout: Layout) -> String {
        let columns = [
            Column::id("accessor"),
            Column::text("name"),
            Column::text("type"),
            Column::text("policies"),
            Column::text("roles"),
            Column::text("expires"),
        ];
        let mut table = Table::new(layout, &columns);
        for token in self {
            table.row([
                layout.id(&token.accessor_id).into(),
                (&token.name).into(),
                (&token.token_type).into(),
                token.policies.iter().flatten().map(|name| &**name).collect::<Vec<_>>().join(", ").into(),
                roles(token).into(),
                end(token).into(),
            ]);
        }
        table.render()
    }

    fn names(&self) -> Vec<String> {
        self.iter().map(|token| token.accessor_id.clone()).collect()
    }
}

impl View for AclToken {
    fn text(&self, layout: Layout) -> String {
        let policies = self.policies.iter().flatten().map(|name| &**name).collect::<Vec<_>>().join(", ");
        Fields::new(layout)
            .with("Accessor", &self.accessor_id)
            .with_some("Secret", &self.secret_id)
            .with_some("Name", &self.name)
            .with("Type", &self.token_type)
            .with_some("Policies", policies)
            .with_some("Roles", roles(self))
            .with("Expires", end(self))
            .render()
    }

    fn names(&self) -> Vec<String> {
        vec![self.accessor_id.clone()]
    }
}
