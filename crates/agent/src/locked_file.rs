//! Files that one process alone may use at a time.

use std::fs::File;

/// A file that is locked until this is dropped: at once, though a process that was just forked may have it open for a moment more.
#[derive(Debug)]
pub(crate) struct LockedFile(pub(crate) File);

impl Drop for LockedFile {
    fn drop(&mut self) {
        let _ = self.0.unlock();
    }
}
