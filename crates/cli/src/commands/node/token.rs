//! `berth node token`: lets one agent join.

use berth_api::http::NodeToken;
use clap::Args;

use crate::{
    complete,
    failure::Failure,
    output::{Layout, View},
    remote::Remote,
    show::Print,
};

/// Arguments of `node token`.
#[derive(Debug, Args)]
pub struct Token {
    /// The node that joins again, by its id, the beginning of that or its name; else one that is not there yet
    #[arg(long, value_name = "NODE", add = complete::nodes())]
    node: Option<String>,
    /// How long it is to last, as 5m; 10 minutes unless given, 24 hours at most
    #[arg(long, value_name = "DURATION")]
    ttl: Option<String>,
    #[command(flatten)]
    print: Print,
}

impl Token {
    /// Makes it.
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
