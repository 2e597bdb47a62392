//! docs/how-to/three-machines.md, from nothing to a cluster of three machines: its blocks run in the shells of three machines, which
//! are network namespaces with nothing in common but a network.

#[path = "docs/block.rs"]
mod block;
#[path = "three_machines/machines.rs"]
mod machines;

use block::{Block, Kind};
use machines::{Machines, can_be_made};

const PAGE: &str = include_str!("../../../docs/how-to/three-machines.md");
/// Of `berth`, on the whole page.
const COMMANDS_MAX: usize = 8;
/// Stands on the page for the token that was printed last.
const TOKEN: &str = "--join TOKEN";
/// What the test does beyond the page: a job with an allocation on each node.
const JOB: &str = r#"cat >pair.nomad.hcl <<'END'
job "pair" {
  group "one" {
    count = 2
    constraint { distinct_hosts = true }
    task "sleep" {
      driver = "exec"
      config {
        command = "/bin/sleep"
        args    = ["600"]
      }
    }
  }
}
END
berth job run pair.nomad.hcl"#;

#[test]
fn a_newcomer_has_a_server_and_two_agents_after_eight_commands() {
    if !can_be_made() {
        return;
    }
    let blocks = Block::all(PAGE).expect("the page's blocks");
    let commands = blocks.iter().flat_map(|block| block.text.lines());
    let commands = commands.filter(|line| line.starts_with("berth ") || line.contains("$(berth ")).count();
    assert!(commands <= COMMANDS_MAX, "{commands} commands");

    let mut machines = Machines::start(&["server", "node-1", "node-2"]);
    let mut printed = String::new();
    for block in blocks {
        let Kind::On(machine) = &block.kind else { panic!("line {}: on which machine?", block.line) };
        let token = printed.lines().last().unwrap_or_default();
        let output_text = machines.run(machine, &block.text.replace(TOKEN, &format!("--join {token}")));
        if machine == "server" {
            printed = output_text;
        }
    }

    machines.until("server", "berth node status", |nodes| nodes.matches(" ready").count() == 2);
    machines.run("server", JOB);
    machines.until("server", "berth job status pair", |status| status.matches(" running ").count() >= 2);
    let stranger = machines.run("node-1", "berth job status --address https://10.20.0.1:4646 2>&1 || true");
    assert!(stranger.contains("certificate"), "who does not know the authority is told so: {stranger}");
    machines.run("server", "cp berth/tls/ca.pem ../ca.pem");
    let stranger = machines
        .run("node-1", "berth job status --address https://10.20.0.1:4646 --ca-cert ../ca.pem 2>&1 || true");
    assert!(stranger.contains("token"), "who has no token is told so: {stranger}");
    machines.run("server", "berth job stop -purge -yes pair");
}
