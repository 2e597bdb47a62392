//! An interactive session: sends what is typed to the command, and prints its output.

use std::{
    io::{self, Read, Write},
    thread,
    time::Duration,
};

use berth_api::http::{
    ExecInputFrame, ExecOutputFrame, ExecPiece, ExecTerminalSize, SocketReceiver, SocketSender,
};
use tokio::{
    signal::unix::{SignalKind, signal},
    sync::mpsc,
    time::{Instant, interval_at, timeout},
};

use super::escape::EscapeDetector;
use crate::{
    failure::{Exit, Failure},
    output,
};

/// Read at once of what is typed.
const TYPED_BYTES_MAX: usize = 16 << 10;
/// Pieces of it that wait to be sent.
const TYPED_MAX: usize = 4;
/// Between two heartbeats to the server.
const HEARTBEAT: Duration = Duration::from_secs(10);
/// Without a byte from the server for so long, its machine is gone: it says every ten seconds that it lives.
const SILENCE_MAX: Duration = Duration::from_secs(60);
/// The exit code after a hang-up.
const HUNG_UP: i32 = 130;

/// The local end of the session.
pub struct LocalTerminal {
    /// Standard input is passed on.
    pub interactive: bool,
    /// The command has a terminal, which is as large as the one here.
    pub tty: bool,
    /// The way out.
    pub escape: EscapeDetector,
}

/// Carries messages both ways until the command has ended; answers with its exit code.
pub async fn carry(
    mut sender: SocketSender<ExecInputFrame>,
    mut receiver: SocketReceiver<ExecOutputFrame>,
    local: &LocalTerminal,
) -> Result<i32, Failure> {
    tokio::select! {
        ended = listen(&mut receiver) => ended,
        ended = speak(&mut sender, local) => ended,
        killed = killed() => killed,
    }
}

async fn listen(receiver: &mut SocketReceiver<ExecOutputFrame>) -> Result<i32, Failure> {
    let silent = |_| {
        let why = format!(
            "nothing came from the server for {} s: its machine, or the way there, is gone",
            SILENCE_MAX.as_secs()
        );
        Failure::new(Exit::Unreachable, why)
    };
    while let Some(frame) = timeout(SILENCE_MAX, receiver.next()).await.map_err(silent)?? {
        if let Some(chunk) = frame.stdout {
            output::print_bytes(&chunk.data)?;
        }
        if let Some(chunk) = frame.stderr {
            io::stderr().lock().write_all(&chunk.data)?;
        }
        if let Some(result) = frame.result.filter(|_| frame.exited) {
            return Ok(result.exit_code);
        }
    }
    Err(Failure::new(Exit::Failed, "the server hung up before the command ended"))
}

/// Runs until the user hangs up. Should the connection be gone, the other direction says why.
async fn speak(sender: &mut SocketSender<ExecInputFrame>, local: &LocalTerminal) -> Result<i32, Failure> {
    let mut typed = if local.interactive { Some(read_stdin()) } else { None };
    let mut resized = signal(SignalKind::window_change())?;
    let mut beat = interval_at(Instant::now() + HEARTBEAT, HEARTBEAT);
    let mut escape = local.escape;
    let mut frame = if local.tty { size() } else { ExecInputFrame::default() };
    if !local.interactive {
        send(sender, &stdin(Vec::new(), true)).await;
    }
    loop {
        send(sender, &frame).await;
        frame = tokio::select! {
            Some(()) = resized.recv(), if local.tty => size(),
            _ = beat.tick() => ExecInputFrame::default(),
            chunk = next(&mut typed) => match chunk {
                Some(chunk) => match escape.pass(&chunk) {
                    Some(passed) => stdin(passed, false),
                    None => {
                        output::eprint_line("\r\nhung up\r");
                        return Ok(HUNG_UP);
                    }
                },
                None => {
                    typed = None;
                    stdin(Vec::new(), true)
                }
            },
        };
    }
}

async fn send(sender: &mut SocketSender<ExecInputFrame>, frame: &ExecInputFrame) {
    if sender.send(frame).await.is_err() {
        std::future::pending().await
    }
}

async fn next(typed: &mut Option<mpsc::Receiver<Vec<u8>>>) -> Option<Vec<u8>> {
    match typed {
        Some(typed) => typed.recv().await,
        None => std::future::pending().await,
    }
}

fn stdin(data: Vec<u8>, close: bool) -> ExecInputFrame {
    ExecInputFrame { stdin: Some(ExecPiece { data, close }), ..ExecInputFrame::default() }
}

fn size() -> ExecInputFrame {
    let size = rustix::termios::tcgetwinsize(io::stdout()).ok();
    let tty_size = size.map(|size| ExecTerminalSize { height: size.ws_row, width: size.ws_col });
    ExecInputFrame { tty_size, ..ExecInputFrame::default() }
}

/// On a thread of its own, which ends with the process: nothing can take a read of a terminal back.
fn read_stdin() -> mpsc::Receiver<Vec<u8>> {
    let (sender, receiver) = mpsc::channel(TYPED_MAX);
    thread::spawn(move || {
        let mut buffer = vec![0; TYPED_BYTES_MAX];
        loop {
            match io::stdin().lock().read(&mut buffer) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Ok(0) | Err(_) => return,
                Ok(read) if sender.blocking_send(buffer[..read].to_vec()).is_err() => return,
                Ok(_) => {}
            }
        }
    });
    receiver
}

/// Completes at a signal to end: raw mode must be left before the process ends.
async fn killed() -> Result<i32, Failure> {
    let (mut terminate, mut hang_up) = (signal(SignalKind::terminate())?, signal(SignalKind::hangup())?);
    let mut interrupt = signal(SignalKind::interrupt())?;
    let number = tokio::select! {
        _ = terminate.recv() => SignalKind::terminate(),
        _ = hang_up.recv() => SignalKind::hangup(),
        _ = interrupt.recv() => SignalKind::interrupt(),
    };
    Ok(128 + number.as_raw_value())
}
