//! The agent's side of the unprivileged process that unpacks an archive.

use std::ffi::OsString;
use std::fs::File;
use std::io;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use prost::Message;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::process::{Child, ChildStdin, Command};

use super::digest::Digest;
use super::registry::error::plain;
use super::unpack::LowerLink;
use crate::keeper::unpack::{ReportedLink, UnpackReport};

/// The largest report: it holds names of directories, whose number the process limits itself.
const REPORT_BYTES_MAX: u64 = 160 << 20;
const COMPLAINT_BYTES_MAX: u64 = 4 << 10;

/// What came of an archive.
#[derive(Debug)]
pub(crate) struct UnpackedLayer {
    /// The digest of the archive without its compression.
    pub(crate) diff_id: Digest,
    pub(crate) opaque: Vec<PathBuf>,
    /// Hard links to files that the archive does not have.
    pub(crate) links: Vec<LowerLink>,
    /// Device nodes that were left out.
    pub(crate) devices: u64,
}

/// An archive that is being unpacked. Should this be dropped, that ends.
pub(crate) struct Unpacking {
    child: Child,
    input: Option<ChildStdin>,
}

impl Unpacking {
    /// A layer of an image, into an empty directory.
    pub(crate) fn start(command: &[String], target: &Path) -> io::Result<Self> {
        Self::spawn(command, "unpack", target, Stdio::piped())
    }

    /// Files for a task, into an empty directory.
    pub(crate) fn start_files(command: &[String], target: &Path) -> io::Result<Self> {
        Self::spawn(command, "unpack-files", target, Stdio::piped())
    }

    /// Files for a task, of a zip archive, into an empty directory. Nothing is fed to it.
    pub(crate) fn start_zip(command: &[String], target: &Path, archive: File) -> io::Result<Self> {
        Self::spawn(command, "unpack-zip", target, archive.into())
    }

    fn spawn(command: &[String], verb: &str, target: &Path, input: Stdio) -> io::Result<Self> {
        let (program, args) = command.split_first().ok_or_else(|| io::Error::other("no command"))?;
        let mut command = Command::new(program);
        command.args(args).arg(verb).arg(target).env_clear().kill_on_drop(true);
        command.stdin(input).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn()?;
        let input = child.stdin.take();
        Ok(Self { child, input })
    }

    /// Gives it the next piece. One that has stopped reading says why at the end.
    pub(crate) async fn feed(&mut self, piece: &[u8]) -> io::Result<()> {
        let Some(input) = &mut self.input else { return Ok(()) };
        match input.write_all(piece).await {
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => {
                self.input = None;
                Ok(())
            }
            other => other,
        }
    }

    /// Whether it has given up.
    pub(crate) fn has_failed(&self) -> bool {
        self.input.is_none()
    }

    /// There is no more to come.
    ///
    /// # Errors
    /// Why it could not be unpacked, in words.
    pub(crate) async fn finish(mut self) -> Result<UnpackedLayer, String> {
        drop(self.input.take());
        let (mut report, mut complaint) = (Vec::new(), Vec::new());
        if let (Some(stdout), Some(stderr)) = (self.child.stdout.take(), self.child.stderr.take()) {
            let report = &mut report;
            let read = async move {
                stdout.take(REPORT_BYTES_MAX).read_to_end(report).await?;
                stderr.take(COMPLAINT_BYTES_MAX).read_to_end(&mut complaint).await?;
                Ok::<_, io::Error>(complaint)
            };
            complaint = read.await.map_err(|error| error.to_string())?;
        }
        let status = self.child.wait().await.map_err(|error| error.to_string())?;
        if !status.success() {
            let complaint = plain(&String::from_utf8_lossy(&complaint));
            return Err(if complaint.is_empty() {
                format!("its process ended with {status}")
            } else {
                complaint
            });
        }
        let report = UnpackReport::decode(report.as_slice()).map_err(|error| error.to_string())?;
        if !report.error.is_empty() && report.links.is_empty() {
            return Err(plain(&report.error));
        }
        let diff_id = Digest::from_slice(&report.diff_id).ok_or("its process does not tell the digest")?;
        let path = |bytes| PathBuf::from(OsString::from_vec(bytes));
        let opaque = report.opaque.into_iter().map(path).collect();
        let link = |link: ReportedLink| LowerLink { path: path(link.path), target: path(link.target) };
        let links = report.links.into_iter().map(link).collect();
        Ok(UnpackedLayer { diff_id, opaque, links, devices: report.devices })
    }
}
