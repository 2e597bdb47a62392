//! One process to a data directory.

use std::{
    fs::{File, OpenOptions, TryLockError},
    io::{self, Read, Seek, Write},
    path::Path,
    thread,
    time::{Duration, Instant},
};

use tokio::sync::oneshot;

use super::real;
use crate::space::is_full;

/// A server that was killed holds its directory until the system has taken it apart, which whoever starts the next one at once
/// need not know.
const WAIT_MAX: Duration = Duration::from_secs(2);
const LOOK_AGAIN: Duration = Duration::from_millis(20);

/// Keeps others from a directory until it is dropped.
pub type LockHold = Box<dyn Send + Sync>;

/// Somebody else holds a directory.
#[derive(Debug)]
pub struct InUse {
    /// The process with this id, if it said so.
    pub by: Option<u32>,
}

/// Holds a directory for as long as it lives.
pub(crate) struct DirLock {
    _hold: LockHold,
    /// Dropped after the hold, as the order of fields says.
    _released: oneshot::Sender<()>,
}

/// Ends when a directory is held no more.
#[derive(Debug)]
pub(crate) struct Released(oneshot::Receiver<()>);

impl Released {
    /// Waits until the directory is released.
    pub async fn wait(self) {
        // Nothing is ever sent; the end of the sender is the message.
        self.0.await.ok();
    }
}

impl DirLock {
    /// Tells of the end of a hold.
    pub fn new(hold: LockHold) -> (Self, Released) {
        let (sender, receiver) = oneshot::channel();
        (Self { _hold: hold, _released: sender }, Released(receiver))
    }
}

/// Holds `dir` and writes this process's id where the next one will look for it. The operating system lets go of it when
/// the process ends in any way.
pub(super) fn hold(dir: &Path) -> io::Result<Result<LockHold, InUse>> {
    let mut options = OpenOptions::new();
    let options = options.read(true).write(true).create(true).truncate(false);
    let mut file = real::open_file(options, &dir.join("lock"))?;
    let began = Instant::now();
    loop {
        match file.try_lock() {
            Ok(()) => break,
            Err(TryLockError::WouldBlock) if began.elapsed() < WAIT_MAX => thread::sleep(LOOK_AGAIN),
            Err(TryLockError::WouldBlock) => return Ok(Err(InUse { by: holder(&mut file) })),
            Err(TryLockError::Error(error)) => return Err(error),
        }
    }
    // On a full disk the directory is held all the same; the next one learns only that it is.
    sign(&mut file).or_else(|error| if is_full(&error) { Ok(()) } else { Err(error) })?;
    Ok(Ok(Box::new(file)))
}

fn holder(file: &mut File) -> Option<u32> {
    let mut text = String::new();
    file.read_to_string(&mut text).ok()?;
    text.trim().parse().ok()
}

fn sign(file: &mut File) -> io::Result<()> {
    file.set_len(0)?;
    file.rewind()?;
    writeln!(file, "{}", std::process::id())
}
