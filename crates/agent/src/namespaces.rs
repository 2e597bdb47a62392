//! Namespaces of a thread's own.

use rustix::io::{Errno, Result};
use rustix::thread::UnshareFlags;

/// Gives the calling thread, and what it starts from now on, namespaces of its own.
///
/// # Errors
/// Of the system; `EINVAL` for a table of open files of its own, in which other threads' files would be other ones.
#[expect(deprecated, reason = "what makes it unsafe is a table of open files alone, which is refused here")]
pub fn unshare(flags: UnshareFlags) -> Result<()> {
    if flags.contains(UnshareFlags::FILES) {
        return Err(Errno::INVAL);
    }
    rustix::thread::unshare(flags)
}
