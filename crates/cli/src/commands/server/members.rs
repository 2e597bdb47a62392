//! `berth server members`: the servers, which of them leads, and how far each has replicated the log.

use berth_api::http::AgentMember;
use clap::Args;
use serde::Serialize;

use crate::{
    failure::Failure,
    output::{Cell, Column, Layout, Table, View},
    remote::Remote,
    show::ShowArgs,
};

/// Arguments of `server members`.
#[derive(Debug, Args)]
pub struct ServerMembersArgs {
    /// The same as -verbose
    #[arg(long, hide = true)]
    detailed: bool,
    #[command(flatten)]
    show: ShowArgs,
}

/// A server, and whether it leads.
#[derive(Debug, Serialize)]
#[serde(rename_all = "PascalCase")]
struct Member {
    #[serde(flatten)]
    member: AgentMember,
    leader: bool,
}

impl ServerMembersArgs {
    pub async fn run(&self, remote: &Remote) -> Result<(), Failure> {
        let read = async |remote: &Remote| {
            // Without a leader the servers are all the more looked for.
            let (answer, leader) = tokio::join!(remote.members(), remote.leader());
            let (answer, leader) = (answer?, leader.unwrap_or_default());
            let leads = |member: &AgentMember| leader == format!("{}:{}", member.addr, member.port);
            let members = answer.members.into_iter();
            Ok(members.map(|member| Member { leader: leads(&member), member }).collect::<Vec<_>>())
        };
        self.show.verbose(self.detailed).show(remote, read).await
    }
}

/// What a server does among the others.
fn role(member: &AgentMember, leads: bool) -> &'static str {
    match member.tags.get("voter").map(String::as_str) {
        _ if leads => "leader",
        Some("false") => "learner",
        _ => "voter",
    }
}

/// How it is; one that cannot open all root keys says so, and one whose certificate was revoked.
fn status(member: &AgentMember) -> Cell {
    let tag = |name: &str| member.tags.get(name).map(String::as_str);
    let keyring = tag("keyring").filter(|keyring| *keyring != "ok");
    let revoked = tag("certificate").filter(|certificate| *certificate == "revoked");
    match [revoked, keyring].into_iter().flatten().collect::<Vec<_>>().as_slice() {
        [] => Cell::status(&member.status),
        otherwise => Cell::from(format!("{}, {}", member.status, otherwise.join(", "))),
    }
}

impl View for Vec<Member> {
    fn text(&self, layout: Layout) -> String {
        let columns = ["name", "address", "role", "status", "lag", "term", "contact", "disk", "version"];
        let [name, rest @ ..] = columns;
        let columns: Vec<_> = [Column::id(name)].into_iter().chain(rest.map(Column::text)).collect();
        let mut table = Table::new(layout, &columns);
        for Member { member, leader } in self {
            let tag = |name: &str| Cell::from(member.tags.get(name).map_or("", String::as_str));
            table.row([
                (&member.name).into(),
                format!("{}:{}", member.addr, member.port).into(),
                role(member, *leader).into(),
                status(member),
                tag("lag"),
                tag("term"),
                tag("last_contact"),
                tag("disk"),
                tag("build"),
            ]);
        }
        table.render()
    }

    fn names(&self) -> Vec<String> {
        self.iter().map(|server| server.member.name.clone()).collect()
    }
}
