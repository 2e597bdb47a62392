//! `berth node pool`: groups of nodes that jobs choose between.

use berth_api::http::NodePool;
use clap::{Args, Subcommand};

use crate::{
    ask::Ask,
    failure::{Exit, Failure},
    filter::{Filter, Pages},
    output::{self, Column, Fields, Layout, Table, View},
    remote::Remote,
    show::Show,
};

/// What can be done with node pools.
#[derive(Debug, Subcommand)]
pub enum Verb {
    /// List the node pools
    List(List),
    /// Show a node pool
    Info(Info),
    /// List the nodes of a node pool
    Nodes(Within),
    /// List the jobs that use a node pool
    Jobs(Within),
    /// Create a node pool, or change it; what is not named stays as it is
    Apply(Apply),
    /// Delete a node pool that no node is in and no job uses
    Delete(Delete),
}

/// Arguments of `node pool list`.
#[derive(Debug, Args)]
pub struct List {
    #[command(flatten)]
    filter: Filter,
    #[command(flatten)]
    pages: Pages,
    #[command(flatten)]
    show: Show,
}

/// Arguments of `node pool info`.
#[derive(Debug, Args)]
pub struct Info {
    /// The pool's name
    #[arg(value_name = "NAME")]
    name: String,
    #[command(flatten)]
    show: Show,
}

/// Arguments of `node pool nodes` and `node pool jobs`.
#[derive(Debug, Args)]
pub struct Within {
    /// The pool's name
    #[arg(value_name = "NAME")]
    name: String,
    #[command(flatten)]
    filter: Filter,
    #[command(flatten)]
    pages: Pages,
    #[command(flatten)]
    show: Show,
}

/// Arguments of `node pool apply`.
#[derive(Debug, Args)]
pub struct Apply {
    /// Letters, digits, dashes and underscores
    #[arg(value_name = "NAME")]
    name: String,
    /// For people
    #[arg(long, value_name = "TEXT")]
    description: Option<String>,
    /// A label of your own; all that there were are replaced
    #[arg(long, value_name = "KEY=VALUE", value_parser = label)]
    meta: Vec<(String, String)>,
}

impl Apply {
    /// Reads it if it is there, changes and writes it.
    async fn run(&self, remote: &Remote) -> Result<(), Failure> {
        let mut pool = match remote.node_pool(&self.name).await {
            Ok(pool) => pool,
            Err(failure) if failure.exit() == Exit::NotFound => {
                NodePool { name: self.name.clone(), ..NodePool::default() }
            }
            Err(failure) => return Err(failure),
        };
        if let Some(description) = &self.description {
            pool.description.clone_from(description);
        }
        if !self.meta.is_empty() {
            pool.meta = Some(self.meta.iter().cloned().collect());
        }
        remote.put_node_pool(&pool).await?;
        output::tell(&format!("node pool {} is described", self.name));
        Ok(())
    }
}

/// Arguments of `node pool delete`.
#[derive(Debug, Args)]
pub struct Delete {
    /// The pool's name
    #[arg(value_name = "NAME")]
    name: String,
    #[command(flatten)]
    ask: Ask,
}

impl Delete {
    async fn run(&self, remote: &Remote) -> Result<(), Failure> {
        self.ask.about("delete node pool", &self.name, &self.name)?;
        remote.delete_node_pool(&self.name).await?;
        output::tell(&format!("node pool {} is deleted", self.name));
        Ok(())
    }
}

fn label(text: &str) -> Result<(String, String), String> {
    let (key, value) = text.split_once('=').ok_or("write KEY=VALUE")?;
    Ok((key.to_owned(), value.to_owned()))
}

impl Verb {
    /// Runs the command.
    pub async fn run(&self, remote: &Remote) -> Result<(), Failure> {
        match self {
            Self::Apply(apply) => apply.run(remote).await,
            Self::Info(Info { name, show }) => {
                show.show(remote, async |remote| remote.node_pool(name).await).await
            }
            Self::Nodes(Within { name, filter, pages, show }) => {
                // Servers answer with an empty list for a pool that is not there.
                remote.node_pool(name).await?;
                let remote = pages.of(&filter.of(remote));
                show.show(&remote, async |remote| remote.nodes_of_pool(name).await).await
            }
            Self::Jobs(Within { name, filter, pages, show }) => {
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
