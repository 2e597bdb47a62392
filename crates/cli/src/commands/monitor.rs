//! `berth monitor`: the log of a server or an agent, as it is written.

use clap::{Args, ValueEnum};

use crate::{
    complete,
    failure::{Exit, Failure},
    global::Global,
    output::{self, clean},
    remote::{LogRequest, block_on},
};

/// Arguments of `monitor`.
#[derive(Debug, Args)]
pub struct MonitorArgs {
    /// Lowest level of lines to show
    #[arg(long, value_enum, ignore_case = true, value_name = "LEVEL", default_value_t)]
    log_level: LogLevel,
    /// Print each line as a JSON object
    #[arg(long, alias = "log-json")]
    json: bool,
    /// Log of the agent of this node, by id, prefix or name
    #[arg(long, value_name = "NODE", add = complete::nodes())]
    node_id: Option<String>,
    /// Log of this server, by id, name or address, or of the `leader`, instead of that of the server at --address
    #[arg(long, value_name = "SERVER", conflicts_with = "node_id")]
    server_id: Option<String>,
}

/// How severe a line is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
enum LogLevel {
    Trace,
    Debug,
    #[default]
    Info,
    Warn,
    Error,
}

impl MonitorArgs {
    /// Follows until interrupted, or until the server ends the stream.
    pub fn run(&self, global: &Global) -> Result<(), Failure> {
        let level = self.log_level.to_possible_value();
        let remote = global.remote()?;
        block_on(async {
            let node = match &self.node_id {
                Some(node) => Some(remote.find_node(node).await?),
                None => None,
            };
            let request = LogRequest {
                level: level.as_ref().map_or("info", |level| level.get_name()).to_owned(),
                json: self.json,
                node,
                server: self.server_id.clone(),
            };
            let mut frames = remote.server_log(&request).await?;
            while let Some(frame) = frames.next().await? {
                if let Some(error) = frame.file_event.strip_prefix("error: ") {
                    return Err(Failure::new(Exit::Failed, clean(error)));
                }
                // What a message holds is shown by its letters, and does nothing to the terminal.
                for line in String::from_utf8_lossy(&frame.data).lines() {
                    output::print(&format!("{}\n", clean(line)))?;
                }
            }
            Err(Failure::new(
                Exit::Failed,
                "the stream has ended: nothing more is logged there, or the server stops",
            ))
        })
    }
}
