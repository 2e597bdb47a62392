//! `berth node meta`: the labels of a node that constraints see, and changing them while its agent runs.

use std::collections::BTreeMap;

use berth_api::http::{NodeMetaApply, NodeMetaRead};
use clap::{Args, Subcommand};

use crate::{
    complete,
    failure::{Exit, Failure},
    output::{self, Cell, Column, Layout, Table, View, short_id},
    remote::Remote,
    show::{PrintArgs, ShowArgs},
};

/// What can be done with the metadata of a node.
#[derive(Debug, Subcommand)]
pub enum NodeMetaCommand {
    /// Show a node's metadata, and where each key is from
    Read(NodeMetaReadArgs),
    /// Set and unset keys; the agent keeps them, also when it is started again
    Apply(NodeMetaApplyArgs),
}

impl NodeMetaCommand {
    pub async fn run(&self, remote: &Remote) -> Result<(), Failure> {
        match self {
            Self::Read(read) => read.run(remote).await,
            Self::Apply(apply) => apply.run(remote).await,
        }
    }
}

/// The node, by Nomad's flag.
#[derive(Debug, Args)]
struct NodeIdArg {
    /// Id, prefix or name of the node; optional if there is only one
    #[arg(long, value_name = "NODE", add = complete::nodes())]
    node_id: Option<String>,
}

impl NodeIdArg {
    async fn find(&self, remote: &Remote) -> Result<String, Failure> {
        if let Some(id) = &self.node_id {
            return remote.find_node(id).await;
        }
        match &remote.nodes().await?[..] {
            [node] => Ok(node.id.clone()),
            nodes => {
                let text = format!("of which node is not said, and there are {}", nodes.len());
                Err(Failure::new(Exit::Usage, text)
                    .help("name one with -node-id: `berth node status` lists them"))
            }
        }
    }
}

/// Arguments of `node meta read`.
#[derive(Debug, Args)]
pub struct NodeMetaReadArgs {
    #[command(flatten)]
    node: NodeIdArg,
    #[command(flatten)]
    show: ShowArgs,
}

impl NodeMetaReadArgs {
    async fn run(&self, remote: &Remote) -> Result<(), Failure> {
        let id = self.node.find(remote).await?;
        self.show.show(remote, async |remote| remote.node_meta(&id).await).await
    }
}

/// Arguments of `node meta apply`.
#[derive(Debug, Args)]
pub struct NodeMetaApplyArgs {
    /// Keys to set
    #[arg(value_name = "KEY=VALUE", required_unless_present = "unset", value_parser = pair)]
    set: Vec<(String, String)>,
    /// Keys to unset, those of the agent's settings included
    #[arg(long, value_name = "KEY", value_delimiter = ',')]
    unset: Vec<String>,
    #[command(flatten)]
    node: NodeIdArg,
    #[command(flatten)]
    print: PrintArgs,
}

impl NodeMetaApplyArgs {
    async fn run(&self, remote: &Remote) -> Result<(), Failure> {
        let meta = self.changes()?;
        let node_id = self.node.find(remote).await?;
        let applied = remote.apply_node_meta(&NodeMetaApply { node_id: node_id.clone(), meta }).await?;
        output::eprint_line(&format!("the metadata of node {} is changed", short_id(&node_id)));
        self.print.print(&applied)
    }

    fn changes(&self) -> Result<BTreeMap<String, Option<String>>, Failure> {
        let set = self.set.iter().map(|(key, value)| (key, Some(value.clone())));
        let unset = self.unset.iter().map(|key| (key, None));
        let mut changes = BTreeMap::new();
        for (key, value) in set.chain(unset) {
            if changes.insert(key.clone(), value).is_some() {
                let text = format!("key {key:?} of the metadata is given twice: give it once");
                return Err(Failure::new(Exit::Usage, text));
            }
        }
        Ok(changes)
    }
}

fn pair(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((key, value)) if !key.is_empty() => Ok((key.to_owned(), value.to_owned())),
        _ => Err("write KEY=VALUE, or -unset KEY".to_owned()),
    }
}

const COLUMNS: &[Column] = &[Column::id("key"), Column::text("value"), Column::text("from")];

impl View for NodeMetaRead {
    fn text(&self, layout: Layout) -> String {
        let mut table = Table::new(layout, COLUMNS);
        for (key, value) in &self.meta {
            let from = if self.dynamic.contains_key(key) { "dynamic" } else { "settings" };
            table.row([key.into(), value.into(), from.into()]);
        }
        for key in self.dynamic.iter().filter(|(_, value)| value.is_none()).map(|(key, _)| key) {
            table.row([key.into(), Cell::from(""), "unset".into()]);
        }
        if table.is_empty() {
            "no metadata: `berth node meta apply KEY=VALUE` sets it\n".into()
        } else {
            table.render()
        }
    }

    fn names(&self) -> Vec<String> {
        self.meta.keys().cloned().collect()
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;
    use expect_test::expect;

    use super::*;

    #[derive(Parser)]
    struct TestArgs {
        #[command(flatten)]
        apply: NodeMetaApplyArgs,
    }

    fn changes(words: &[&str]) -> Result<BTreeMap<String, Option<String>>, String> {
        let line =
            TestArgs::try_parse_from([&["apply"], words].concat()).map_err(|error| error.to_string())?;
        line.apply.changes().map_err(|failure| failure.to_string())
    }

    #[test]
    fn keys_are_set_and_unset() {
        let read = changes(&["a=1", "b=x=y", "c=", "--unset=d,e", "--unset", "f"]).unwrap();
        expect![[r#"{"a":"1","b":"x=y","c":"","d":null,"e":null,"f":null}"#]]
            .assert_eq(&serde_json::to_string(&read).unwrap());
        assert!(
            changes(&["a=1", "--unset=a"])
                .is_err_and(|error| error.contains("\"a\" of the metadata is given twice"))
        );
        assert!(changes(&["a"]).is_err_and(|error| error.contains("KEY=VALUE")));
        assert!(changes(&[]).is_err());
    }

    #[test]
    fn where_each_key_is_from_is_shown() {
        let text = |value: &str| value.to_owned();
        let meta = NodeMetaRead {
            meta: [(text("rack"), text("r2")), (text("zone"), text("a"))].into(),
            dynamic: [(text("rack"), Some(text("r2"))), (text("row"), None)].into(),
            configured: [(text("row"), text("7")), (text("zone"), text("a"))].into(),
        };
        expect![[r#"
            KEY   VALUE  FROM
            rack  r2     dynamic
            zone  a      settings
            row          unset
        "#]]
        .assert_eq(&meta.text(Layout::PLAIN));
    }
}
