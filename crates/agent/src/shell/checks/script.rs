//! Script checks: a command within a task, of whose output little is kept.

use berth_api::agent::CheckState;
use tokio::io::{AsyncRead, AsyncReadExt};

use super::{Question, Said};
use crate::lifecycle::OUTPUT_BYTES_MAX;
use crate::shell::execs::Plain;

/// Exit code of a warning.
const WARNING: i32 = 1;

impl Question {
    pub(super) async fn script(&self) -> Result<Said, String> {
        let texts: Vec<&str> = self.spec.command.iter().map(String::as_str).collect();
        let command = self.replace(&texts)?;
        let within = Plain { context: &self.context, run: &self.run, of: self.task, place: &self.place };
        // Dropping the helper, as a time-out does, ends the command.
        let mut helper = within.begin(&command).await.map_err(|refusal| refusal.text)?;
        let (stdin, stdout, stderr) = helper.pipes.take().ok_or("its process has no pipes")?;
        drop(stdin);
        let (mut output, mut complaints) = (Vec::new(), Vec::new());
        let ended = {
            // Something that it leaves behind may hold its output open: its end is what counts.
            let read = async { tokio::join!(keep(stdout, &mut output), keep(stderr, &mut complaints)) };
            tokio::select! {
                ended = helper.exited() => ended,
                (_, _) = read => helper.exited().await,
            }
        };
        let code = ended.map_err(|refusal| refusal.text)?;
        let state = match code {
            0 => CheckState::Passing,
            WARNING => CheckState::Warning,
            _ => CheckState::Critical,
        };
        output.extend(complaints);
        Ok(Said { state, code, output: String::from_utf8_lossy(&output).trim().to_owned() })
    }
}

/// Reads to the end, so that nobody who writes is held up, and keeps the beginning.
async fn keep(mut from: impl AsyncRead + Unpin, kept: &mut Vec<u8>) {
    let mut buffer = [0; 1_024];
    while let Ok(read @ 1..) = from.read(&mut buffer).await {
        let room = OUTPUT_BYTES_MAX.saturating_sub(kept.len());
        kept.extend_from_slice(&buffer[..read.min(room)]);
    }
}
