//! `berth node drain`: begins a drain, cancels it, or follows it.

mod monitor;

use std::{collections::BTreeMap, time::Duration};

use berth_api::http::{DrainSpec, NodeDrain};
use clap::Args;

use super::node_arg::NodeArg;
use crate::{
    failure::Failure,
    output::{self, short_id},
    remote::Remote,
};

/// How long a drain may take by default.
const DEADLINE: Duration = Duration::from_secs(60 * 60);

/// Arguments of `node drain`.
#[derive(Debug, Args)]
pub struct NodeDrainArgs {
    #[command(flatten)]
    node: NodeArg,
    /// Make the node ineligible, and migrate its allocations
    #[arg(long, required_unless_present_any = ["disable", "monitor"])]
    enable: bool,
    /// Cancel the drain; allocations that have not been migrated stay
    #[arg(long, conflicts_with = "enable")]
    disable: bool,
    /// Only follow the drain in progress
    #[arg(long, conflicts_with_all = ["enable", "disable"])]
    monitor: bool,
    /// Time after which remaining allocations are stopped; defaults to 1h
    #[arg(long, value_name = "DURATION", value_parser = berth_duration::parse_words, conflicts_with_all = ["force", "no_deadline"])]
    deadline: Option<Duration>,
    /// Stop all allocations at once
    #[arg(long, conflicts_with = "no_deadline")]
    force: bool,
    /// Drain without a deadline
    #[arg(long)]
    no_deadline: bool,
    /// Leave allocations of system jobs running
    #[arg(long)]
    ignore_system: bool,
    /// With -disable: leave the node ineligible
    #[arg(long, requires = "disable")]
    keep_ineligible: bool,
    /// Description
    #[arg(long, short, value_name = "TEXT")]
    message: Option<String>,
    /// Metadata of the drain, KEY=VALUE; repeatable
    #[arg(long, value_name = "KEY=VALUE", value_parser = pair)]
    meta: Vec<(String, String)>,
    /// Do not follow the drain
    #[arg(long)]
    detach: bool,
    /// For compatibility: nothing is asked
    #[arg(long, short, hide = true)]
    yes: bool,
}

impl NodeDrainArgs {
    pub async fn run(&self, remote: &Remote) -> Result<(), Failure> {
        let id = self.node.find(remote).await?;
        if self.monitor {
            return monitor::follow(remote, &id).await;
        }
        remote.drain_node(&id, &self.request(&id)).await?;
        let short = short_id(&id);
        if self.disable {
            let state = if self.keep_ineligible { "stays ineligible" } else { "is eligible" };
            output::eprint_line(&format!(
                "the drain of node {short} is cancelled; the node {state} for new work"
            ));
            return Ok(());
        }
        output::eprint_line(&format!("node {short} is drained: {}", self.until()));
        if self.detach {
            output::eprint_line(&format!(
                "next: berth node drain -monitor {short} follows it, -disable cancels it"
            ));
            return Ok(());
        }
        monitor::follow(remote, &id).await
    }

    fn request(&self, id: &str) -> NodeDrain {
        let deadline = match (self.force, self.no_deadline) {
            (true, _) => -1,
            (_, true) => 0,
            _ => i64::try_from(self.deadline.unwrap_or(DEADLINE).as_nanos()).unwrap_or(i64::MAX),
        };
        let spec = DrainSpec { deadline, ignore_system_jobs: self.ignore_system };
        let message = self.message.iter().map(|text| ("message".to_owned(), text.clone()));
        let meta: BTreeMap<_, _> = self.meta.iter().cloned().chain(message).collect();
        NodeDrain {
            node_id: id.to_owned(),
            drain_spec: self.enable.then_some(spec),
            mark_eligible: self.disable && !self.keep_ineligible,
            meta: Some(meta),
        }
    }

    fn until(&self) -> String {
        match (self.force, self.no_deadline) {
            (true, _) => "everything is stopped at once".to_owned(),
            (_, true) => "for as long as it takes".to_owned(),
            _ => {
                let deadline = berth_duration::exact(self.deadline.unwrap_or(DEADLINE));
                format!("what is left after {deadline} is stopped")
            }
        }
    }
}

fn pair(text: &str) -> Result<(String, String), String> {
    let (key, value) = text.split_once('=').ok_or("write KEY=VALUE")?;
    Ok((key.to_owned(), value.to_owned()))
}
