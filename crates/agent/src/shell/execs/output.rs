//! A command within a task that is run to its end, with the beginning of its output.

use std::{pin::pin, time::Duration};

use berth_api::agent::{Refusal, RefusalKind};
use tokio::{
    io::{AsyncRead, AsyncReadExt},
    time::timeout,
};

use super::{ExecTarget, helper::Helper};

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
        outcome(self.begin(command).await?, bytes_max).await
    }
}

async fn outcome(mut helper: Helper, bytes_max: usize) -> Result<CommandOutput, Refusal> {
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
        // Awaited to its end whichever comes first: what it has read of the report would be lost with it.
        let mut exited = pin!(helper.exited());
        tokio::select! {
            ended = &mut exited => {
                // What it wrote is in its pipes, which end with it, unless something that it left behind holds them open.
                let _ = timeout(REST_MAX, &mut read).await;
                ended
            }
            _ = &mut read => exited.await,
        }
    };
    Ok(CommandOutput { code: ended?, output, complaints })
}

/// Reads to the end, so that nobody who writes is held up, and keeps the beginning.
async fn read_to_end(mut from: impl AsyncRead + Unpin, output: &mut Vec<u8>, bytes_max: usize) {
    let mut buffer = [0; 1_024];
    while let Ok(read @ 1..) = from.read(&mut buffer).await {
        let left = bytes_max.saturating_sub(output.len());
        output.extend_from_slice(&buffer[..read.min(left)]);
    }
}

#[cfg(test)]
mod tests {
    use std::process::Stdio;

    use prost::Message;
    use tokio::{io::AsyncWriteExt, net::UnixStream, process::Command};

    use super::*;
    use crate::keeper::exec::plan::{ExecReport, ExecStage};

    #[tokio::test]
    async fn a_report_that_arrives_in_parts_around_the_end_of_the_output_is_read_whole() {
        let mut child = Command::new("/bin/sh")
            .args(["-c", "read line; echo $line"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("a shell");
        let mut stdin = child.stdin.take().expect("its input");
        let (stdout, stderr) =
            (child.stdout.take().expect("its output"), child.stderr.take().expect("errors"));
        let (control, mut process) = UnixStream::pair().expect("a socket");
        let pipes = Command::new("/bin/true").stdin(Stdio::piped()).spawn().expect("a process").stdin.take();
        let helper = Helper::of(control, (pipes.expect("an input"), stdout, stderr));
        let report = ExecReport::new(ExecStage::Exited(7)).encode_length_delimited_to_vec();
        let said = async {
            process.write_all(&report[..1]).await.expect("the first byte");
            tokio::time::sleep(Duration::from_millis(20)).await;
            stdin.write_all(b"done\n").await.expect("a line");
            child.wait().await.expect("its end");
            tokio::time::sleep(Duration::from_millis(20)).await;
            process.write_all(&report[1..]).await.expect("the rest");
        };
        let (outcome, ()) = tokio::join!(outcome(helper, 100), said);
        let outcome = outcome.expect("an exit code");
        assert_eq!((outcome.code, &*outcome.output), (7, &b"done\n"[..]));
    }
}
