//! A command within a task that is run to its end, with the beginning of its output.

use std::{pin::pin, time::Duration};

use berth_api::agent::{Refusal, RefusalKind};
use tokio::{
    io::{AsyncRead, AsyncReadExt},
    time::timeout,
};

use super::ExecTarget;

/// How long is read on once a command has ended: what it wrote is there already. Counts against the time that the command has.
const REST_MAX: Duration = Duration::from_millis(100);

/// How a command ended, and the beginning of its output.
pub(in crate::shell) struct CommandOutput {
    pub(in crate::shell) code: i32,
    pub(in crate::shell) output: Vec<u8>,
    pub(in crate::shell) complaints: Vec<u8>,
}

impl ExecTarget<'_> {
    /// Runs a command to its end, and keeps so many bytes of each of its streams. Dropped, as a time-out does, it ends the command.
    pub(in crate::shell) async fn to_the_end(
        &self,
        command: &[String],
        bytes_max: usize,
    ) -> Result<CommandOutput, Refusal> {
        let mut helper = self.begin(command).await?;
        let no_pipes = || Refusal::new(RefusalKind::Failed, "its process has no pipes");
        let (stdin, stdout, stderr) = helper.pipes.take().ok_or_else(no_pipes)?;
        drop(stdin);
        let (mut output, mut complaints) = (Vec::new(), Vec::new());
        let ended = {
            let mut read = pin!(async {
                tokio::join!(
                    read_to_end(stdout, &mut output, bytes_max),
                    read_to_end(stderr, &mut complaints, bytes_max)
                )
            });
            tokio::select! {
                ended = helper.exited() => {
                    // What it wrote is in its pipes, which end with it, unless something that it left behind holds them open.
                    let _ = timeout(REST_MAX, &mut read).await;
                    ended
                }
                _ = &mut read => helper.exited().await,
            }
        };
        Ok(CommandOutput { code: ended?, output, complaints })
    }
}

/// Reads to the end, so that nobody who writes is held up, and keeps the beginning.
async fn read_to_end(mut from: impl AsyncRead + Unpin, output: &mut Vec<u8>, bytes_max: usize) {
    let mut buffer = [0; 1_024];
    while let Ok(read @ 1..) = from.read(&mut buffer).await {
        let left = bytes_max.saturating_sub(output.len());
        output.extend_from_slice(&buffer[..read.min(left)]);
    }
}
