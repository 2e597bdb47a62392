//! Artifacts: what a task has downloaded before it starts. Bytes go to a file that no task can touch, are verified there,
//! unpacked by an unprivileged process if they are an archive, and only then moved to where the task finds them.

mod checksum;
mod destination;
mod download;
mod local;
mod source;

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::time::Duration;

use berth_api::agent::ArtifactSpec;
use tokio::sync::{Semaphore, SemaphorePermit};
use tokio::time::timeout;

use self::checksum::Checksum;
use self::source::{ArchiveFormat, ArtifactSource, SourceKind};
use crate::dirs::{remove_in_background, remove_tree};
use crate::drivers::RootFs;
use crate::failure::{Failure, FailureContext, PANICKED};
use crate::images::registry::error::PullError;
use crate::images::registry::transport::{NamedHosts, Transport};
use crate::images::unpacking::Unpacking;
use crate::lifecycle::StartFailure;
use crate::paths::AllocPaths;
use crate::proc::boot_id;
use crate::shell::random_number;

/// Artifacts that are fetched at a time, of all tasks.
const FETCHES_MAX: usize = 4;
/// How long one may take, and how large it may be, where nobody says.
const TIMEOUT_DEFAULT: Duration = Duration::from_secs(30 * 60);
const BYTES_MAX_DEFAULT: u64 = 8 << 30;
/// The file in a task's keeper directory that says that the artifacts are in place, by the boot in which they were put there. None
/// is waited for until it is on disk: after a power cut they may be anything.
const DONE_FILE: &str = "artifacts";
/// Begins the names of directories there in which artifacts are staged.
const STAGING: &str = "artifact";

/// The directory that a destination means, and what of it lies below that.
#[cfg(test)]
pub(crate) fn lands(
    destination: &str,
    root_fs: RootFs,
    task_dir: &Path,
    shared_dir: &Path,
) -> Result<(PathBuf, PathBuf), String> {
    destination::Destination::find(destination, root_fs, task_dir, shared_dir)
        .map(destination::Destination::into_parts)
}

/// What an operator says of artifacts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ArtifactConfig {
    /// Directories whose files may be artifacts.
    pub dirs: Vec<PathBuf>,
    /// Hosts on this node or its own network that may be asked, as HOST or HOST:PORT.
    pub hosts: BTreeSet<String>,
    /// Bytes of one artifact.
    pub bytes_max: u64,
    /// How long one may take.
    pub timeout: Duration,
}

impl Default for ArtifactConfig {
    fn default() -> Self {
        let (dirs, hosts) = (Vec::new(), BTreeSet::new());
        Self { dirs, hosts, bytes_max: BYTES_MAX_DEFAULT, timeout: TIMEOUT_DEFAULT }
    }
}

/// Fetches artifacts for the tasks of a node.
pub(crate) struct Artifacts {
    config: ArtifactConfig,
    /// Made when the first one is fetched: it holds all of the host's root certificates.
    transport: OnceLock<Transport>,
    unpack_command: Vec<String>,
    fetch_slots: Semaphore,
    /// Tells the directories of this agent from those that a killed one has left.
    number: u64,
}

/// For which task artifacts are fetched.
pub(crate) struct Recipient<'a> {
    pub(crate) paths: &'a AllocPaths,
    pub(crate) task: &'a str,
    pub(crate) root_fs: RootFs,
    /// The user of a task of the host; empty for the agent's.
    pub(crate) user: &'a str,
}

impl Artifacts {
    pub(crate) fn new(config: ArtifactConfig, unpack_command: Vec<String>) -> Self {
        let (transport, fetch_slots) = (OnceLock::new(), Semaphore::new(FETCHES_MAX));
        Self { config, transport, unpack_command, fetch_slots, number: random_number() }
    }

    /// Fetches all of them, unless that has been done since the machine was started. `note` is sent what people who wait may want
    /// to know. The task's directories are there. Should this be dropped, what has begun ends, and is begun again the next time.
    pub(crate) async fn fetch(
        &self,
        all: &[ArtifactSpec],
        to: &Recipient<'_>,
        note: &mut (dyn FnMut(String) + Send),
    ) -> Result<(), StartFailure> {
        let keeper_dir = to.paths.keeper_dir(to.task);
        let done = keeper_dir.join(DONE_FILE);
        let boot_id = boot_id();
        if all.is_empty() || fs::read(&done).is_ok_and(|of| of == boot_id.as_bytes()) {
            return Ok(());
        }
        for spec in all {
            let _slot = self.fetch_slot(note).await;
            let source =
                ArtifactSource::parse(spec).map_err(|why| failed(spec, &PullError::permanent(why)))?;
            note(format!("Downloading {}", source.display()));
            let work = timeout(self.config.timeout, self.fetch_one(spec, &source, to, note));
            let late =
                |_| PullError::temporary(format!("it is not here after {} s", self.config.timeout.as_secs()));
            work.await.map_err(late).flatten().map_err(|error| failed(spec, &error))?;
        }
        let written = fs::write(&done, boot_id).doing(|| format!("write {}", done.display()));
        written.map_err(|failure| failed(&all[0], &failure.into()))
    }

    /// One of the places for fetches, of which all may be taken by other tasks.
    async fn fetch_slot(&self, note: &mut (dyn FnMut(String) + Send)) -> Option<SemaphorePermit<'_>> {
        if let Ok(slot) = self.fetch_slots.try_acquire() {
            return Some(slot);
        }
        note(format!("Waiting for other tasks of this node, which download {FETCHES_MAX} artifacts"));
        self.fetch_slots.acquire().await.ok()
    }

    async fn fetch_one(
        &self,
        spec: &ArtifactSpec,
        source: &ArtifactSource,
        to: &Recipient<'_>,
        note: &mut (dyn FnMut(String) + Send),
    ) -> Result<(), PullError> {
        let checksum = spec.options.get("checksum").map(|text| Checksum::parse(text)).transpose();
        let checksum = checksum.map_err(PullError::permanent)?;
        let (keeper_dir, agent) = (to.paths.keeper_dir(to.task), self.number);
        let made = tokio::task::spawn_blocking(move || Staging::make(&keeper_dir, agent)).await;
        let staging = made.map_err(|_| PullError::permanent(PANICKED))??;
        let file = staging.file();
        match &source.kind {
            SourceKind::Http(uri) => {
                let limits = (self.config.bytes_max, checksum);
                download::download(self.transport()?, uri, &spec.headers, &file, limits, note).await?;
            }
            SourceKind::Local(path) => {
                let from = local::open(path, &self.config.dirs)?;
                download::copy(from.into(), &file, (self.config.bytes_max, checksum)).await?;
            }
        }
        let owner = destination::FileOwner::of(spec, to).map_err(PullError::permanent)?;
        let (spec, root_fs) = (spec.clone(), to.root_fs);
        let (task_dir, shared_dir) = (to.paths.task_dir(to.task), to.paths.shared_dir());
        let name = source.name.clone();
        let unpacked = match source.archive {
            Some(archive) => Some(self.unpack(&staging, archive).await?),
            None => None,
        };
        let put = move || {
            let _staging = &staging;
            let target = destination::Destination::find(&spec.destination, root_fs, &task_dir, &shared_dir)?;
            match unpacked {
                Some(dir) => target.put_all(&dir, owner),
                None => target.put_file(&file, &name, spec.mode == "file", owner),
            }
        };
        let put = tokio::task::spawn_blocking(put).await;
        put.map_err(|_| PullError::permanent(PANICKED))?.map_err(PullError::permanent)
    }

    /// Unpacks what was fetched into a directory of its own.
    async fn unpack(&self, staging: &Staging, archive: ArchiveFormat) -> Result<PathBuf, PullError> {
        let dir = staging.dir();
        fs::create_dir(&dir).doing(|| format!("make {}", dir.display()))?;
        let path = staging.file();
        let doing = || format!("read {}", path.display());
        let file = fs::File::open(&path).doing(doing)?;
        let failed = |error| PullError::permanent(format!("unpack it: {error}"));
        let unpacking = match archive {
            ArchiveFormat::Tar => {
                let mut unpacking = Unpacking::start_files(&self.unpack_command, &dir).map_err(failed)?;
                download::feed(&mut file.into(), &mut unpacking).await.doing(doing)?;
                unpacking
            }
            ArchiveFormat::Zip => Unpacking::start_zip(&self.unpack_command, &dir, file).map_err(failed)?,
        };
        unpacking.finish().await.map_err(|why| PullError::permanent(format!("unpack it: {why}")))?;
        Ok(dir)
    }

    fn transport(&self) -> Result<&Transport, PullError> {
        if let Some(transport) = self.transport.get() {
            return Ok(transport);
        }
        let made = Transport::new(NamedHosts::of_artifacts(self.config.hosts.clone()))?;
        Ok(self.transport.get_or_init(|| made))
    }
}

/// The directory in which an artifact is staged before it is moved to the task. Removed when this is dropped. No other ever has its
/// name: what a fetch that was given up still does there touches none of the next one.
#[derive(Debug)]
struct Staging(PathBuf);

impl Staging {
    /// Whatever a killed agent has left there goes first. Blocks.
    fn make(keeper_dir: &Path, agent: u64) -> Result<Self, Failure> {
        let own = format!("{STAGING}.{agent:016x}.");
        remove_left(keeper_dir, &own);
        let dir = keeper_dir.join(format!("{own}{:016x}", random_number()));
        fs::create_dir(&dir).doing(|| format!("make {}", dir.display()))?;
        Ok(Self(dir))
    }

    fn file(&self) -> PathBuf {
        self.0.join("file")
    }

    fn dir(&self) -> PathBuf {
        self.0.join("dir")
    }
}

impl Drop for Staging {
    fn drop(&mut self) {
        remove_in_background(self.0.clone(), "an artifact's files stay until its allocation goes");
    }
}

/// Removes directories of artifacts but for those whose names begin with `own`.
fn remove_left(keeper_dir: &Path, own: &str) {
    for entry in keeper_dir.read_dir().into_iter().flatten().flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        // An older version had one without a number.
        let is_staging = name == STAGING || name.starts_with(&format!("{STAGING}."));
        if is_staging
            && !name.starts_with(own)
            && let Err(failure) = remove_tree(&entry.path())
        {
            tracing::warn!(%failure, "files of an artifact that a killed agent left stay until their allocation goes");
        }
    }
}

fn failed(spec: &ArtifactSpec, error: &PullError) -> StartFailure {
    let display: String = source::without_secrets(&spec.source).chars().take(256).collect();
    let message = format!("get the artifact {display}: {}", error.reason);
    StartFailure { message, ..error.failure("") }
}

#[cfg(test)]
mod tests {
    use std::task::{Context, Waker};

    use berth_api::agent::AllocId;

    use super::*;

    /// A node that has one artifact, a file of its own, and a task for it.
    struct World {
        dir: tempfile::TempDir,
        paths: AllocPaths,
        artifacts: Artifacts,
    }

    impl World {
        fn new() -> Self {
            let dir = tempfile::tempdir().expect("a directory");
            let paths = AllocPaths::new(dir.path(), AllocId([1; 16]));
            for dir in [paths.keeper_dir("t"), paths.task_dir("t"), paths.shared_dir()] {
                fs::create_dir_all(dir).expect("made");
            }
            let config = ArtifactConfig { dirs: vec![dir.path().to_owned()], ..ArtifactConfig::default() };
            Self { dir, paths, artifacts: Artifacts::new(config, Vec::new()) }
        }

        fn write_source(&self, text: &str) {
            fs::write(self.dir.path().join("tool"), text).expect("written");
        }

        /// Fetches it: what the task has then.
        async fn fetched(&self, notes: &mut Vec<String>) -> String {
            let source = self.dir.path().join("tool").to_string_lossy().into_owned();
            let spec = ArtifactSpec { source, destination: "local".into(), ..ArtifactSpec::default() };
            let to = Recipient { paths: &self.paths, task: "t", root_fs: RootFs::Host, user: "" };
            let done = self.artifacts.fetch(&[spec], &to, &mut |note| notes.push(note)).await;
            done.expect("fetched");
            fs::read_to_string(self.paths.task_dir("t").join("local/tool")).expect("in place")
        }
    }

    #[tokio::test]
    async fn artifacts_are_fetched_again_once_the_machine_was_started_again() {
        let world = World::new();
        let fetched = async || world.fetched(&mut Vec::new()).await;
        world.write_source("first");
        assert_eq!(fetched().await, "first");
        world.write_source("second");
        assert_eq!(fetched().await, "first", "they are in place");
        fs::write(world.paths.keeper_dir("t").join(DONE_FILE), "another boot").expect("written");
        assert_eq!(fetched().await, "second");
    }

    #[tokio::test]
    async fn who_waits_for_the_artifacts_of_others_is_told() {
        let world = World::new();
        world.write_source("x");
        let taken = world.artifacts.fetch_slots.acquire_many(FETCHES_MAX as u32).await.expect("free");
        let mut notes = Vec::new();
        {
            let mut fetched = Box::pin(world.fetched(&mut notes));
            let polled = fetched.as_mut().poll(&mut Context::from_waker(Waker::noop()));
            assert!(polled.is_pending());
            drop(taken);
            fetched.await;
        }
        assert_eq!(notes.len(), 2, "{notes:?}");
        assert!(notes[0].starts_with("Waiting for ") && notes[1].starts_with("Downloading "), "{notes:?}");
    }

    #[test]
    fn what_was_given_up_removes_nothing_of_the_next_fetch() {
        let dir = tempfile::tempdir().expect("a directory");
        for left in ["artifact/dir", "artifact.0000000000000001.1/dir", "artifacts-of-another/dir"] {
            fs::create_dir_all(dir.path().join(left)).expect("made");
        }
        let given_up = Staging::make(dir.path(), 2).expect("made");
        let next = Staging::make(dir.path(), 2).expect("made");
        assert!(given_up.0.exists(), "it may still be in use");
        fs::write(next.file(), "x").expect("written");
        let path = given_up.0.clone();
        drop(given_up);
        while path.exists() {
            std::thread::sleep(Duration::from_millis(1));
        }
        assert!(next.file().exists());
        let mut names: Vec<_> =
            dir.path().read_dir().expect("listed").flatten().map(|entry| entry.path()).collect();
        names.sort_unstable();
        assert_eq!(names, [next.0.clone(), dir.path().join("artifacts-of-another")], "what others left goes");
    }
}
