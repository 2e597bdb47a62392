//! `berth acl role`: roles, which combine policies under one name.

use berth_api::http::{AclLink, AclRole};
use clap::{Args, Subcommand};

use crate::{
    confirm::ConfirmArgs,
    failure::{Exit, Failure},
    filter::FilterArgs,
    output::{self, Column, Fields, Layout, Table, View},
    remote::Remote,
    show::ShowArgs,
};

/// What can be done with roles.
#[derive(Debug, Subcommand)]
pub enum RoleCommand {
    /// List the roles
    List(RoleListArgs),
    /// Show one role
    Info(RoleInfoArgs),
    /// Create a role, or change its policies
    Apply(RoleApplyArgs),
    /// Delete a role: tokens lose its rights at once
    Delete(RoleDeleteArgs),
}

impl RoleCommand {
    pub async fn run(&self, remote: &Remote) -> Result<(), Failure> {
        match self {
            Self::List(list) => {
                list.show.show(&list.filter.of(remote), async |remote| remote.acl_roles().await).await
            }
            Self::Info(info) => info.show.show(remote, async |remote| info.read(remote).await).await,
            Self::Apply(apply) => apply.run(remote).await,
            Self::Delete(delete) => delete.run(remote).await,
        }
    }
}

/// Arguments of `acl role list`.
#[derive(Debug, Args)]
pub struct RoleListArgs {
    #[command(flatten)]
    filter: FilterArgs,
    #[command(flatten)]
    show: ShowArgs,
}

/// Arguments of `acl role info`.
#[derive(Debug, Args)]
pub struct RoleInfoArgs {
    /// Name or id of the role
    #[arg(value_name = "NAME|ID")]
    name: String,
    /// Take it as a name
    #[arg(long)]
    by_name: bool,
    #[command(flatten)]
    show: ShowArgs,
}

impl RoleInfoArgs {
    async fn read(&self, remote: &Remote) -> Result<AclRole, Failure> {
        match remote.acl_role_named(&self.name).await {
            Err(failure) if failure.exit() == Exit::NotFound && !self.by_name => {
                // Of two errors, the one about the name is the more useful.
                remote.acl_role(&self.name).await.map_err(|_| failure)
            }
            role => role,
        }
    }
}

/// Arguments of `acl role apply`.
#[derive(Debug, Args)]
pub struct RoleApplyArgs {
    /// Name: letters, digits, dashes and underscores
    #[arg(value_name = "NAME")]
    name: String,
    /// Policy of it; repeatable
    #[arg(long = "policy", value_name = "NAME", required = true)]
    policies: Vec<String>,
    /// Description
    #[arg(long, value_name = "TEXT", default_value = "", hide_default_value = true)]
    description: String,
}

impl RoleApplyArgs {
    async fn run(&self, remote: &Remote) -> Result<(), Failure> {
        let id = match remote.acl_role_named(&self.name).await {
            Ok(role) => role.id,
            Err(failure) if failure.exit() == Exit::NotFound => String::new(),
            Err(failure) => return Err(failure),
        };
        let role = AclRole {
            id,
            name: self.name.clone(),
            description: self.description.clone(),
            policies: self.policies.iter().map(|name| AclLink::named(name)).collect(),
            ..AclRole::default()
        };
        remote.put_acl_role(&role).await?;
        output::eprint_line(&format!("role {} is written", self.name));
        Ok(())
    }
}

/// Arguments of `acl role delete`.
#[derive(Debug, Args)]
pub struct RoleDeleteArgs {
    /// The role's name
    #[arg(value_name = "NAME")]
    name: String,
    #[command(flatten)]
    confirm: ConfirmArgs,
}

impl RoleDeleteArgs {
    async fn run(&self, remote: &Remote) -> Result<(), Failure> {
        let role = remote.acl_role_named(&self.name).await?;
        self.confirm.on_terminal("delete role", &self.name, &self.name)?;
        remote.delete_acl_role(&role.id).await?;
        output::eprint_line(&format!("role {} is deleted", self.name));
        Ok(())
    }
}

fn policies(role: &AclRole) -> String {
    role.policies.iter().map(|link| &*link.name).collect::<Vec<_>>().join(", ")
}

impl View for Vec<AclRole> {
    fn text(&self, layout: Layout) -> String {
        if self.is_empty() {
            return "no roles: `berth acl role apply` makes one\n".into();
        }
        let columns = [Column::id("name"), Column::text("policies"), Column::text("description")];
        let mut table = Table::new(layout, &columns);
        for role in self {
            table.row([(&role.name).into(), policies(role).into(), (&role.description).into()]);
        }
        table.render()
    }

    fn names(&self) -> Vec<String> {
        self.iter().map(|role| role.name.clone()).collect()
    }
}

impl View for AclRole {
    fn text(&self, layout: Layout) -> String {
        let fields = Fields::new(layout).with("Name", &self.name).with("ID", &self.id);
        fields.with_some("Description", &self.description).with("Policies", policies(self)).render()
    }

    fn names(&self) -> Vec<String> {
        vec![self.name.clone()]
    }
}
