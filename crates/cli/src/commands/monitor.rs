//! `berth monitor`: the log of a server, as it is written.

use clap::{Args, ValueEnum};

use crate::{
    failure::{Exit, Failure},
    global::Global,
    output::{self, clean},
    remote::{LogAsk, block_on},
};

/// Arguments of `monitor`.
#[derive(Debug, Args)]
pub struct Monitor {
    /// Lines of this level, and more severe ones
    #[arg(long, value_enum, ignore_case = true, value_name = "LEVEL", default_value_t)]
    log_level: LogLevel,
    /// Print each line as a JSON object
    #[arg(long, alias = "log-json")]
    json: bool,
    /// Refused with what to do instead: the log of an agent is read on its node
    #[arg(long, value_name = "NODE")]
    node_id: Option<String>,
    /// The server that is meant, by id, name or address, or `leader`: refused unless it is the one that is asked
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

impl Monitor {
    /// Follows until interrupted, or until the server ends the stream.
    pub fn run(&self, global: &Global) -> Result<(), Failure> {
        let level = self.log_level.to_possible_value();
        let ask = LogAsk {
            level: level.as_ref().map_or("info", |level| level.get_name()).to_owned(),
            json: self.json,
            node: self.node_id.clone(),
            server: self.server_id.clone(),
        };
        let remote = global.remote()?;
        block_on(async {
            let mut frames = remote.server_log(&ask).await?;
            while let Some(frame) = frames.next().await? {
                // What a message holds is shown by its letters, and does nothing to the terminal.
                for line in String::from_utf8_lossy(&frame.data).lines() {
                    output::print(&format!("{}\n", clean(line)))?;
                }
            }
            Err(Failure::new(Exit::Failed, "the server ended the stream"))
        })
    }
}
