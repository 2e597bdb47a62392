//! `berth node pool`: pools, the sets of nodes that jobs choose from.

use std::path::PathBuf;

use berth_api::http::NodePool;
use clap::{Args, Subcommand, ValueHint};

use crate::{
    confirm::ConfirmArgs,
    failure::{self, Failure},
    filter::{FilterArgs, PageArgs},
    output::{self, Column, Fields, Layout, Table, View},
    remote::Remote,
    show::ShowArgs,
    source,
};

/// What can be done with node pools.
#[derive(Debug, Subcommand)]
pub enum NodePoolCommand {
    /// List the node pools
    List(NodePoolListArgs),
    /// Show a node pool
    Info(NodePoolInfoArgs),
    /// List the nodes of a node pool
    Nodes(NodePoolMembersArgs),
    /// List the jobs that use a node pool
    Jobs(NodePoolMembersArgs),
    /// Create a node pool, or change it: by flags, which leave the rest as it is, or as a file describes it
    Apply(NodePoolApplyArgs),
    /// Write a file that describes a node pool, to start from
    Init(NodePoolInitArgs),
    /// Delete a node pool that no node is in and no job uses
    Delete(NodePoolDeleteArgs),
}

/// Arguments of `node pool list`.
#[derive(Debug, Args)]
pub struct NodePoolListArgs {
    #[command(flatten)]
    filter: FilterArgs,
    #[command(flatten)]
    pages: PageArgs,
    #[command(flatten)]
    show: ShowArgs,
}

/// Arguments of `node pool info`.
#[derive(Debug, Args)]
pub struct NodePoolInfoArgs {
    /// The pool's name
    #[arg(value_name = "NAME")]
    name: String,
    #[command(flatten)]
    show: ShowArgs,
}

/// Arguments of `node pool nodes` and `node pool jobs`.
#[derive(Debug, Args)]
pub struct NodePoolMembersArgs {
    /// The pool's name
    #[arg(value_name = "NAME")]
    name: String,
    #[command(flatten)]
    filter: FilterArgs,
    #[command(flatten)]
    pages: PageArgs,
    #[command(flatten)]
    show: ShowArgs,
}

/// Arguments of `node pool apply`.
#[derive(Debug, Args)]
pub struct NodePoolApplyArgs {
    /// Name (letters, digits, dashes and underscores), or a file that describes it, in HCL or JSON; `-` for standard input
    #[arg(value_name = "NAME|FILE")]
    named: String,
    /// Description
    #[arg(long, value_name = "TEXT")]
    description: Option<String>,
    /// Metadata; replaces all that is there
    #[arg(long, value_name = "KEY=VALUE", value_parser = label)]
    meta: Vec<(String, String)>,
}

impl NodePoolApplyArgs {
    /// Reads it if it is there, changes and writes it.
    async fn run(&self, remote: &Remote) -> Result<(), Failure> {
        let mut pool = if source::is_file(&self.named) {
            source::described(&self.named, berth_jobfile::parse_node_pool)?
        } else {
            let new = || NodePool { name: self.named.clone(), ..NodePool::default() };
            failure::found(remote.node_pool(&self.named).await)?.unwrap_or_else(new)
        };
        if let Some(description) = &self.description {
            pool.description.clone_from(description);
        }
        if !self.meta.is_empty() {
            pool.meta = Some(self.meta.iter().cloned().collect());
        }
        remote.put_node_pool(&pool).await?;
        output::eprint_line(&format!("node pool {} is described", pool.name));
        Ok(())
    }
}

/// Arguments of `node pool init`.
#[derive(Debug, Args)]
pub struct NodePoolInitArgs {
    /// File to write, which must not exist yet; defaults to `pool.nomad.hcl` or `pool.nomad.json`
    #[arg(value_name = "FILE", value_hint = ValueHint::FilePath)]
    file: Option<PathBuf>,
    /// Write JSON
    #[arg(long)]
    json: bool,
}

const HCL: &str = "node_pool \"example\" {\n  description = \"What is special about its nodes\"\n\n  \
                   meta {\n    owner = \"the team that looks after them\"\n  }\n}\n";
const JSON: &str = "{\n  \"Name\": \"example\",\n  \"Description\": \"What is special about its nodes\",\n  \
                    \"Meta\": {\n    \"owner\": \"the team that looks after them\"\n  }\n}\n";

impl NodePoolInitArgs {
    fn run(&self) -> Result<(), Failure> {
        let (text, path) = if self.json { (JSON, "pool.nomad.json") } else { (HCL, "pool.nomad.hcl") };
        let path = self.file.clone().unwrap_or_else(|| path.into());
        source::create(&path, 0o644, text)?;
        // A name without a dot or a slash would be a pool's.
        let named = path.display().to_string();
        let named = if source::is_file(&named) { named } else { format!("./{named}") };
        output::eprint_line(&format!("{} is written; next: berth node pool apply {named}", path.display()));
        Ok(())
    }
}

/// Arguments of `node pool delete`.
#[derive(Debug, Args)]
pub struct NodePoolDeleteArgs {
    /// The pool's name
    #[arg(value_name = "NAME")]
    name: String,
    #[command(flatten)]
    confirm: ConfirmArgs,
}

impl NodePoolDeleteArgs {
    async fn run(&self, remote: &Remote) -> Result<(), Failure> {
        self.confirm.on_terminal("delete node pool", &self.name, &self.name)?;
        remote.delete_node_pool(&self.name).await?;
        output::eprint_line(&format!("node pool {} is deleted", self.name));
        Ok(())
    }
}

fn label(text: &str) -> Result<(String, String), String> {
    let (key, value) = text.split_once('=').ok_or("write KEY=VALUE")?;
    Ok((key.to_owned(), value.to_owned()))
}

impl NodePoolCommand {
    pub async fn run(&self, remote: &Remote) -> Result<(), Failure> {
        match self {
            Self::Apply(apply) => apply.run(remote).await,
            Self::Init(init) => init.run(),
            Self::Info(NodePoolInfoArgs { name, show }) => {
                show.show(remote, async |remote| remote.node_pool(name).await).await
            }
            Self::Nodes(NodePoolMembersArgs { name, filter, pages, show }) => {
                // Servers answer with an empty list for a pool that is not there.
                remote.node_pool(name).await?;
                let remote = pages.of(&filter.of(remote));
                show.show(&remote, async |remote| remote.nodes_of_pool(name).await).await
            }
            Self::Jobs(NodePoolMembersArgs { name, filter, pages, show }) => {
                remote.node_pool(name).await?;
                let remote = pages.of(&filter.of(remote));
                show.show(&remote, async |remote| remote.jobs_of_pool(name).await).await
            }
            Self::Delete(delete) => delete.run(remote).await,
            Self::List(list) => {
                let remote = list.pages.of(&list.filter.of(remote));
                list.show.show(&remote, async |remote| remote.node_pools().await).await
            }
        }
    }
}

impl View for NodePool {
    fn text(&self, layout: Layout) -> String {
        let mut fields =
            Fields::new(layout).with("Name", &self.name).with_some("Description", &self.description);
        for (key, value) in self.meta.iter().flatten() {
            fields = fields.with("Meta", format!("{key}={value}"));
        }
        fields.render()
    }

    fn names(&self) -> Vec<String> {
        vec![self.name.clone()]
    }
}

impl View for Vec<NodePool> {
    fn text(&self, layout: Layout) -> String {
        let mut table = Table::new(layout, &[Column::id("name"), Column::text("description")]);
        for pool in self {
            table.row([(&pool.name).into(), (&pool.description).into()]);
        }
        table.render()
    }

    fn names(&self) -> Vec<String> {
        self.iter().map(|pool| pool.name.clone()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_forms_describe_the_same_pool() {
        let [hcl, json] = [HCL, JSON]
            .map(|text| berth_jobfile::parse_node_pool(text.as_bytes(), "file").expect("it is right"));
        assert_eq!(hcl, json);
        assert_eq!(hcl["Name"], "example");
    }
}
