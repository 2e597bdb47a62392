//! Script checks: a command within a task; of its output, the beginning is kept.

use berth_api::agent::CheckState;

use super::{CheckReply, CheckRun};
use crate::lifecycle::OUTPUT_BYTES_MAX;
use crate::shell::execs::{CommandOutput, ExecTarget};

/// Exit code of a warning.
const WARNING: i32 = 1;

impl CheckRun {
    pub(super) async fn script(&self) -> Result<CheckReply, String> {
        let texts: Vec<&str> = self.spec.command.iter().map(String::as_str).collect();
        let command = self.replace(&texts)?;
        let within = ExecTarget { context: &self.context, run: &self.run, of: self.task, paths: &self.paths };
        let ended = within.to_the_end(&command, OUTPUT_BYTES_MAX).await;
        let CommandOutput { code, mut output, complaints } = ended.map_err(|refusal| refusal.text)?;
        let state = match code {
            0 => CheckState::Passing,
            WARNING => CheckState::Warning,
            _ => CheckState::Critical,
        };
        output.extend(complaints);
        Ok(CheckReply { state, code, output: String::from_utf8_lossy(&output).trim().to_owned() })
    }
}
