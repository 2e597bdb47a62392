//! `berth node token`: a token with which one agent can join.

use berth_api::http::NodeToken;
use clap::Args;

use crate::{
    complete,
    failure::Failure,
    output::{Layout, View},
    remote::Remote,
    show::PrintArgs,
};

/// Arguments of `node token`.
#[derive(Debug, Args)]
pub struct NodeTokenArgs {
    /// Node that joins again, by id, prefix or name; by default a new node
    #[arg(long, value_name = "NODE", add = complete::nodes())]
    node: Option<String>,
    /// Validity of the token, e.g. 5m; defaults to 10 minutes, at most 24 hours
    #[arg(long, value_name = "DURATION")]
    ttl: Option<String>,
    #[command(flatten)]
    print: PrintArgs,
}

impl NodeTokenArgs {
    pub async fn run(&self, remote: &Remote) -> Result<(), Failure> {
        let (node, ttl) = (self.node.as_deref().unwrap_or_default(), self.ttl.as_deref().unwrap_or_default());
        let made = remote.node_token(node, ttl).await?;
        self.print.print(&made)
    }
}

impl View for NodeToken {
    fn text(&self, _: Layout) -> String {
        format!("{}\n", self.token)
    }

    fn names(&self) -> Vec<String> {
        vec![self.token.clone()]
    }
}
