//! `berth server recovery`: how much a new leader knows of what runs, and which silent nodes it does not declare lost.

use std::time::Duration;

use berth_api::http::{HeldNode, RecoveryStatus};
use clap::Args;

use crate::{
    failure::Failure,
    output::{self, Column, Layout, Redraw, Table, Tone, View, lasting, sections},
    remote::Remote,
    show::ShowArgs,
};

/// Between two polls while it is waited for.
const POLL_EVERY: Duration = Duration::from_millis(500);

/// Arguments of `server recovery`.
#[derive(Debug, Args)]
pub struct ServerRecoveryArgs {
    /// Wait until all nodes have confirmed their allocations, and none is held back from being marked down
    #[arg(long)]
    wait: bool,
    #[command(flatten)]
    show: ShowArgs,
}

impl ServerRecoveryArgs {
    /// Prints it; with `-wait` once there is nothing left to recover.
    pub async fn run(&self, remote: &Remote) -> Result<(), Failure> {
        if self.wait {
            until_done(remote).await?;
        }
        self.show.show_live(remote, POLL_EVERY, Remote::recovery).await
    }
}

/// Shows on standard error how it goes on.
async fn until_done(remote: &Remote) -> Result<(), Failure> {
    let (mut screen, mut printed) = (Redraw::default(), String::new());
    loop {
        let status = remote.recovery().await?;
        match Layout::stderr() {
            Some(layout) => screen.draw(&[head(&status, layout)]),
            None if head(&status, Layout::PLAIN) == printed => {}
            None => {
                printed = head(&status, Layout::PLAIN);
                output::eprint_line(&printed);
            }
        }
        if status.done {
            return Ok(());
        }
        tokio::time::sleep(POLL_EVERY).await;
    }
}

/// A line: a bar, and how many of how many. Where not all of it fits, the bar is left out.
fn head(status: &RecoveryStatus, layout: Layout) -> String {
    let words = words(status);
    let done = usize::try_from(status.confirmed).unwrap_or(usize::MAX);
    let all = usize::try_from(status.nodes).unwrap_or(usize::MAX);
    let tone = if status.done { Tone::Good } else { Tone::Waiting };
    let bar = layout.bar(done, all, tone);
    let fits = layout.columns.is_none_or(|columns| words.chars().count() + output::BAR_CHARS < columns);
    if fits { format!("{bar} {words}") } else { layout.fit(&words) }
}

fn words(status: &RecoveryStatus) -> String {
    let RecoveryStatus { nodes, confirmed, unheard, grace_left, held, .. } = status;
    if !status.known_leader {
        return "no server leads: berth server members".to_owned();
    }
    let unheard = match (*unheard, *grace_left) {
        (0, _) => String::new(),
        (unheard, 0) => format!(", {unheard} not heard"),
        (unheard, left) => format!(", {unheard} not heard: not lost for another {}", lasting(left)),
    };
    let held = if *held == 0 { String::new() } else { format!(", {held} silent and held") };
    format!("{confirmed} of {nodes} nodes have confirmed what they run{unheard}{held}")
}

impl View for RecoveryStatus {
    fn text(&self, layout: Layout) -> String {
        let head = format!("{}\n", head(self, layout));
        if self.held == 0 {
            return head;
        }
        let mut table = Table::new(layout, &[Column::id("held"), Column::text("name")]);
        for HeldNode { id, name } in &self.held_nodes {
            table.row([layout.id(id).into(), name.into()]);
        }
        let why = format!(
            "Held nodes are silent, and not declared lost: no more than {} % of all may be lost at a time, so that a broken \
             switch does not\nhave the work of half a cluster started again. Once they are back this ends by itself; if \
             they are gone:\n    berth operator scheduler set -lost-nodes-max 100\n",
            self.lost_nodes_max_percent
        );
        sections([head, table.render(), why])
    }

    /// The names of the nodes that are held.
    fn names(&self) -> Vec<String> {
        self.held_nodes.iter().map(|node| node.id.clone()).collect()
    }
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::*;

    #[test]
    fn awaited_nodes_are_shown() {
        let mut status = RecoveryStatus {
            known_leader: true,
            nodes: 40,
            confirmed: 30,
            unconfirmed: 10,
            unheard: 4,
            grace_left: 12_000_000_000,
            lost_nodes_max_percent: 40,
            ..RecoveryStatus::default()
        };
        expect![[r#"
            ━━━━━━━━━━━━━━━───── 30 of 40 nodes have confirmed what they run, 4 not heard: not lost for another 12s
        "#]]
        .assert_eq(&status.text(Layout::PLAIN));
        (status.unheard, status.held) = (0, 20);
        status.held_nodes = vec![HeldNode { id: "6f3a0000-0000".into(), name: "n7".into() }];
        expect![[r#"
            ━━━━━━━━━━━━━━━───── 30 of 40 nodes have confirmed what they run, 20 silent and held

            HELD      NAME
            6f3a0000  n7

            Held nodes are silent, and not declared lost: no more than 40 % of all may be lost at a time, so that a broken switch does not
            have the work of half a cluster started again. Once they are back this ends by itself; if they are gone:
                berth operator scheduler set -lost-nodes-max 100
        "#]].assert_eq(&status.text(Layout::PLAIN));
        let narrow = Layout { columns: Some(30), ..Layout::PLAIN };
        assert!(!head(&status, narrow).contains('━'), "the bar goes first");
    }
}
