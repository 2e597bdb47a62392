//! One process to a data directory.

use std::{
    fs::{File, OpenOptions, TryLockError},
    io::{self, Read, Seek, Write},
    path::Path,
};

use tokio::sync::oneshot;

use super::real;
use crate::space::is_full;

/// Holds a directory for as long as it lives. The operating system lets go of it when the process ends in any way.
#[derive(Debug)]
pub(crate) struct DirLock {
    _file: File,
    /// Dropped after the file, as the order of fields says.
    _released: oneshot::Sender<()>,
}

/// Ends when a directory is held no more.
#[derive(Debug)]
pub(crate) struct Released(oneshot::Receiver<()>);

impl Released {
    /// Waits for that.
    pub async fn wait(self) {
        // Nothing is ever sent; the end of the sender is the message.
        self.0.await.ok();
    }
}

/// Why a directory is not held.
#[derive(Debug)]
pub(crate) enum LockError {
    /// Somebody else holds it: the process with this id, if it said so.
    Held(Option<u32>),
    /// It cannot be asked.
    Io(io::Error),
}

impl DirLock {
    /// Holds `dir` and writes this process's id where the next one will look for it.
    pub fn acquire(dir: &Path) -> Result<(Self, Released), LockError> {
        let mut options = OpenOptions::new();
        let options = options.read(true).write(true).create(true).truncate(false);
        let mut file = real::open_file(options, &dir.join("lock")).map_err(LockError::Io)?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Err(LockError::Held(holder(&mut file))),
            Err(TryLockError::Error(error)) => return Err(LockError::Io(error)),
        }
        // On a full disk the directory is held all the same; the next one learns only that it is.
        sign(&mut file).or_else(|error| if is_full(&error) { Ok(()) } else { Err(LockError::Io(error)) })?;
        let (sender, receiver) = oneshot::channel();
        Ok((Self { _file: file, _released: sender }, Released(receiver)))
    }
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
