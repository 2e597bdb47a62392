//! `berth server recover`: a way out when most servers are lost for good.

use std::path::PathBuf;

use clap::Args;

use crate::{
    ask::Ask,
    failure::{Exit, Failure},
    output,
};

/// Arguments of `server recover`.
#[derive(Debug, Args)]
pub struct Recover {
    /// The data directory of a server that does not run
    #[arg(long, value_name = "DIR", default_value = "/var/lib/berth")]
    data_dir: PathBuf,
    #[command(flatten)]
    ask: Ask,
}

impl Recover {
    /// Makes it the only server.
    pub async fn run(&self) -> Result<(), Failure> {
        let dir = self.data_dir.display().to_string();
        self.ask.about("make the only one of its cluster the server in", &dir, &dir)?;
        let others = berth_server::recover(&self.data_dir).await;
        let others = others.map_err(|error| Failure::new(Exit::Failed, format!("recover {dir}: {error}")))?;
        let ids: Vec<String> = others.iter().map(u64::to_string).collect();
        let left_out =
            if ids.is_empty() { "nobody".to_owned() } else { format!("servers {}", ids.join(", ")) };
        output::tell(&format!(
            "the server in {dir} is the only one of its cluster now; left out: {left_out}. Start it without --join; the \
             others need empty data directories and --join before they start again"
        ));
        Ok(())
    }
}
