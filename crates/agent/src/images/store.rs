//! What a node has of images: unpacked layers by their digests, and what names stand for.
//!
//! ```text
//! images/layers/DIGEST        a layer, whole: it got this name once all of it was on disk
//! images/layers/new.DIGEST.N  one that is being unpacked; what a crash leaves is removed at the next start
//! images/names/HASH           a record: what a name stood for when it was last pulled
//! ```

use std::collections::HashMap;
use std::fs::{self, File};
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::{Duration, SystemTime};

use nix::fcntl::{OFlag, OpenHow, ResolveFlag, openat2};
use rustix::fs::{XattrFlags, fsetxattr};

use super::digest::Digest;
use crate::dirs::remove_tree;
use crate::disk;
use crate::failure::{Doing, Failure};

const LAYERS_DIR: &str = "layers";
const NAMES_DIR: &str = "names";
/// Begins the names of directories that are to be removed.
const GONE: &str = "gone.";

/// Of the disk, what images leave to others: a twentieth, or 1 GiB of a large one.
const DISK_RESERVE_PART: u64 = 20;
const DISK_RESERVE_BYTES_MAX: u64 = 1 << 30;

/// Marks a directory that hides those of the same name below.
const OPAQUE_MARK: &str = "trusted.overlay.opaque";

/// What a name stands for.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub(crate) struct ImageRecord {
    /// The image's name, in full.
    #[prost(string, tag = "1")]
    pub(crate) name: String,
    /// The digest of its manifest.
    #[prost(bytes = "vec", tag = "2")]
    pub(crate) digest: Vec<u8>,
    /// Its config, as it came.
    #[prost(bytes = "vec", tag = "3")]
    pub(crate) config_json: Vec<u8>,
    /// The digests of its layers, the lowest first.
    #[prost(bytes = "vec", repeated, tag = "4")]
    pub(crate) layers: Vec<Vec<u8>>,
    /// Of its layers as they came.
    #[prost(uint64, tag = "5")]
    pub(crate) bytes: u64,
    /// Nanoseconds since the Unix epoch.
    #[prost(uint64, tag = "6")]
    pub(crate) pulled_ns: u64,
    /// Tells whose credentials it was pulled with, when a job brought some: others have to show theirs.
    #[prost(bytes = "vec", tag = "7")]
    pub(crate) credentials: Vec<u8>,
}

impl ImageRecord {
    /// The lowest first; none when the record is damaged.
    pub(crate) fn layers(&self) -> Option<Vec<Digest>> {
        self.layers.iter().map(|bytes| Digest::from_slice(bytes)).collect()
    }
}

/// The images of a node, on its disk.
#[derive(Debug)]
pub(crate) struct Store {
    dir: PathBuf,
    /// Layers in use, by how many.
    leases: Arc<Mutex<HashMap<Digest, usize>>>,
    /// Layers that are being fetched.
    fetching: Mutex<HashMap<Digest, Weak<tokio::sync::Mutex<()>>>>,
    numbers: AtomicU64,
}

/// Layers that are not removed while this lives.
#[derive(Debug)]
pub(crate) struct Lease {
    leases: Arc<Mutex<HashMap<Digest, usize>>>,
    layers: Vec<Digest>,
}

impl Drop for Lease {
    fn drop(&mut self) {
        let mut leases = self.leases.lock().unwrap_or_else(PoisonError::into_inner);
        for layer in &self.layers {
            if let Some(count) = leases.get_mut(layer) {
                *count -= 1;
                if *count == 0 {
                    leases.remove(layer);
                }
            }
        }
    }
}

/// A directory in which a layer is being unpacked; removed unless it is kept.
#[derive(Debug)]
pub(crate) struct Begun {
    pub(crate) path: PathBuf,
    digest: Digest,
    kept: bool,
}

impl Begun {
    /// It is this layer.
    pub(crate) fn named(mut self, digest: Digest) -> Self {
        self.digest = digest;
        self
    }
}

impl Drop for Begun {
    fn drop(&mut self) {
        if self.kept {
            return;
        }
        let path = self.path.clone();
        // It may be large, and whoever unpacks there may have yet to notice that it is over.
        std::thread::spawn(move || {
            for _ in 0..10 {
                if remove_tree(&path).is_ok() {
                    return;
                }
                std::thread::sleep(Duration::from_millis(100));
            }
            tracing::warn!(path = %path.display(), "could not remove a part of an image: the next start does");
        });
    }
}

impl Store {
    /// Takes up what is there, and removes what was not finished.
    pub(crate) fn open(dir: &Path) -> Result<Self, Failure> {
        for name in [LAYERS_DIR, NAMES_DIR] {
            crate::shell::make_dir(&dir.join(name), 0o700)?;
        }
        let (leases, fetching) = (Arc::default(), Mutex::default());
        let store = Self { dir: dir.to_owned(), leases, fetching, numbers: AtomicU64::new(0) };
        let layers = store.layers_dir();
        let unfinished: Vec<PathBuf> = entries(&layers)
            .filter(|name| name.starts_with("new.") || name.starts_with(GONE))
            .map(|name| layers.join(name))
            // What an older version had begun to unpack, and names that were being written.
            .chain(entries(dir).filter(|name| name.contains(".new.")).map(|name| dir.join(name)))
            .collect();
        let names = store.names_dir();
        for name in entries(&names).filter(|name| name.ends_with(".new")) {
            let _ = fs::remove_file(names.join(name));
        }
        std::thread::spawn(move || unfinished.iter().for_each(|path| remove_or_say(path)));
        Ok(store)
    }

    fn layers_dir(&self) -> PathBuf {
        self.dir.join(LAYERS_DIR)
    }

    fn names_dir(&self) -> PathBuf {
        self.dir.join(NAMES_DIR)
    }

    /// Where a layer is, or would be.
    pub(crate) fn layer(&self, digest: Digest) -> PathBuf {
        self.layers_dir().join(digest.hex())
    }

    pub(crate) fn has(&self, digest: Digest) -> bool {
        self.layer(digest).is_dir()
    }

    /// To be taken before it is looked whether they are there.
    pub(crate) fn lease(&self, layers: &[Digest]) -> Lease {
        let mut leases = self.leases.lock().unwrap_or_else(PoisonError::into_inner);
        layers.iter().for_each(|layer| *leases.entry(*layer).or_default() += 1);
        Lease { leases: self.leases.clone(), layers: layers.to_vec() }
    }

    /// Whether any of them may not be removed.
    pub(crate) fn is_leased(&self, layers: &[Digest]) -> bool {
        let leases = self.leases.lock().unwrap_or_else(PoisonError::into_inner);
        layers.iter().any(|layer| leases.contains_key(layer))
    }

    /// One fetches a layer, others wait for it.
    pub(crate) async fn turn(&self, digest: Digest) -> tokio::sync::OwnedMutexGuard<()> {
        let lock = {
            let mut fetching = self.fetching.lock().unwrap_or_else(PoisonError::into_inner);
            fetching.retain(|_, lock| lock.strong_count() > 0);
            match fetching.get(&digest).and_then(Weak::upgrade) {
                Some(lock) => lock,
                None => {
                    let lock = Arc::default();
                    fetching.insert(digest, Arc::downgrade(&lock));
                    lock
                }
            }
        };
        lock.lock_owned().await
    }

    /// An empty directory for what gets a name later, or none.
    pub(crate) fn begin_unnamed(&self) -> Result<Begun, Failure> {
        self.begin(Digest::of(b""))
    }

    /// An empty directory for a layer.
    pub(crate) fn begin(&self, digest: Digest) -> Result<Begun, Failure> {
        let number = self.numbers.fetch_add(1, Ordering::Relaxed);
        let path = self.layers_dir().join(format!("new.{}.{number}", digest.hex()));
        remove_tree(&path)?;
        crate::shell::make_dir(&path, 0o755)?;
        Ok(Begun { path, digest, kept: false })
    }

    /// Keeps a layer: it has its name only when all of it is on disk. Takes its time.
    pub(crate) fn keep(&self, mut begun: Begun, opaque: &[PathBuf]) -> Result<(), Failure> {
        let doing = || format!("keep the layer {}", begun.digest);
        let root = File::open(&begun.path).doing(doing)?;
        for dir in opaque {
            mark_opaque(&root, dir).doing(doing)?;
        }
        nix::unistd::syncfs(&root).doing(doing)?;
        let target = self.layer(begun.digest);
        fs::rename(&begun.path, &target).doing(doing)?;
        begun.kept = true;
        disk::sync_dir(&self.layers_dir()).doing(|| "keep a layer".into())
    }

    fn record_name(name: &str) -> String {
        Digest::of(name.as_bytes()).hex()
    }

    /// What a name stands for, if all of that is there; it counts as used now. A record that cannot be read is none.
    pub(crate) fn find(&self, name: &str) -> Option<ImageRecord> {
        let file = Self::record_name(name);
        let record: ImageRecord = disk::read(&self.names_dir(), &file).ok().flatten()?;
        let whole = record.name == name && record.layers()?.into_iter().all(|layer| self.has(layer));
        if whole && let Ok(file) = File::options().write(true).open(self.names_dir().join(file)) {
            let _ = file.set_modified(SystemTime::now());
        }
        whole.then_some(record)
    }

    /// An image that was last used then.
    #[cfg(test)]
    pub(crate) fn used_at(&self, name: &str, at: SystemTime) {
        let path = self.names_dir().join(Self::record_name(name));
        File::options().write(true).open(path).and_then(|file| file.set_modified(at)).expect("set");
    }

    pub(crate) fn write(&self, record: &ImageRecord) -> Result<(), Failure> {
        disk::write(&self.names_dir(), &Self::record_name(&record.name), record)
    }

    /// All images, and when each was last used.
    pub(crate) fn all(&self) -> Vec<(ImageRecord, SystemTime)> {
        let dir = self.names_dir();
        let read = |file: String| {
            let used = dir.join(&file).metadata().and_then(|found| found.modified()).ok()?;
            Some((disk::read::<ImageRecord>(&dir, &file).ok().flatten()?, used))
        };
        entries(&dir).filter(|file| !file.ends_with(".new")).filter_map(read).collect()
    }

    /// Forgets what a name stood for; its layers stay until [`Self::sweep`].
    pub(crate) fn forget(&self, name: &str) -> Result<(), Failure> {
        let path = self.names_dir().join(Self::record_name(name));
        match fs::remove_file(&path) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                Err(Failure::new(format!("remove the image {name}"), error))
            }
            _ => disk::sync_dir(&self.names_dir()).doing(|| format!("remove the image {name}")),
        }
    }

    /// Removes the layers that no name stands for any more, but for those in use: leased, or among `used`, which was
    /// found out before. Takes its time.
    pub(crate) fn sweep(&self, used: &std::collections::HashSet<Digest>) {
        let named: std::collections::HashSet<Digest> =
            self.all().iter().filter_map(|(record, _)| record.layers()).flatten().collect();
        let layers: Vec<Digest> = self.layers().collect();
        for layer in layers {
            if named.contains(&layer) || used.contains(&layer) {
                continue;
            }
            if let Some(path) = self.set_out(layer) {
                remove_or_say(&path);
            }
        }
    }

    /// The layers that are there.
    pub(crate) fn layers(&self) -> impl Iterator<Item = Digest> + use<> {
        entries(&self.layers_dir()).filter_map(|name| format!("sha256:{name}").parse().ok())
    }

    /// Takes a layer's name away, unless it is leased: whoever leases it afterwards finds nothing.
    fn set_out(&self, layer: Digest) -> Option<PathBuf> {
        let leases = self.leases.lock().unwrap_or_else(PoisonError::into_inner);
        if leases.contains_key(&layer) {
            return None;
        }
        let number = self.numbers.fetch_add(1, Ordering::Relaxed);
        let path = self.layers_dir().join(format!("{GONE}{}.{number}", layer.hex()));
        fs::rename(self.layer(layer), &path).ok()?;
        Some(path)
    }

    /// Whether the disk has more left than others need to go on.
    pub(crate) fn has_room(&self) -> bool {
        self.room().is_none_or(|(all, free)| free >= (all / DISK_RESERVE_PART).min(DISK_RESERVE_BYTES_MAX))
    }

    /// Bytes of the filesystem that images are on: in all, and free.
    pub(crate) fn room(&self) -> Option<(u64, u64)> {
        let found = nix::sys::statvfs::statvfs(&self.dir).ok()?;
        let unit = found.fragment_size();
        Some((found.blocks() * unit, found.blocks_available() * unit))
    }
}

fn remove_or_say(path: &Path) {
    if let Err(failure) = remove_tree(path) {
        tracing::warn!(%failure, "could not remove a part of an image: the next start tries again");
    }
}

fn entries(dir: &Path) -> impl Iterator<Item = String> + use<> {
    let entries = dir.read_dir().into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().into_string().ok())
}

/// Wherever links of the layer may lead, it is within the layer.
fn mark_opaque(root: &File, dir: &Path) -> std::io::Result<()> {
    let resolve = ResolveFlag::RESOLVE_IN_ROOT | ResolveFlag::RESOLVE_NO_MAGICLINKS;
    let flags = OFlag::O_RDONLY | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC;
    let dir = if dir.as_os_str().is_empty() { Path::new(".") } else { dir };
    let dir = openat2(root.as_fd(), dir, OpenHow::new().flags(flags).resolve(resolve))?;
    Ok(fsetxattr(dir, OPAQUE_MARK, b"y", XattrFlags::empty())?)
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    fn layer(store: &Store, text: &str) -> Digest {
        let digest = Digest::of(text.as_bytes());
        let begun = store.begin(digest).expect("begun");
        fs::write(begun.path.join("file"), text).expect("written");
        store.keep(begun, &[]).expect("kept");
        digest
    }

    fn record(name: &str, layers: &[Digest]) -> ImageRecord {
        let layers = layers.iter().map(|layer| layer.bytes().to_vec()).collect();
        ImageRecord { name: name.into(), layers, ..ImageRecord::default() }
    }

    #[test]
    fn what_was_not_finished_is_removed_at_the_start() {
        let dir = tempfile::tempdir().expect("a directory");
        drop(Store::open(dir.path()).expect("open"));
        let begun = ["layers/new.00.1/a", "0123abcd.new.7/a"].map(|name| dir.path().join(name));
        begun.iter().for_each(|path| fs::create_dir_all(path).expect("made"));
        let name = dir.path().join("names/web.new");
        fs::write(&name, "half").expect("written");
        let kept = dir.path().join("0123abcd");
        fs::create_dir(&kept).expect("made");
        drop(Store::open(dir.path()).expect("open"));
        while begun.iter().any(|path| path.parent().is_some_and(Path::exists)) {
            std::thread::sleep(Duration::from_millis(1));
        }
        assert!(!name.exists() && kept.exists(), "what an older version unpacked may be in use");
    }

    #[test]
    fn an_image_is_there_when_all_its_layers_are() {
        let dir = tempfile::tempdir().expect("a directory");
        let store = Store::open(dir.path()).expect("open");
        let (lower, upper) = (layer(&store, "lower"), Digest::of(b"upper"));
        let image = record("a", &[lower, upper]);
        store.write(&image).expect("written");
        assert_eq!(store.find("a"), None);
        layer(&store, "upper");
        assert_eq!(store.find("a"), Some(image));
        assert_eq!(store.find("b"), None);
    }

    #[test]
    fn what_is_used_stays() {
        let dir = tempfile::tempdir().expect("a directory");
        let store = Store::open(dir.path()).expect("open");
        let [named, leased, mounted, unused] = ["n", "l", "m", "u"].map(|text| layer(&store, text));
        store.write(&record("a", &[named])).expect("written");
        let lease = store.lease(&[leased]);
        let used = HashSet::from([mounted]);
        store.sweep(&used);
        assert!(!store.has(unused) && [named, leased, mounted].iter().all(|layer| store.has(*layer)));
        drop(lease);
        store.forget("a").expect("removed");
        store.sweep(&used);
        assert_eq!(store.layers().collect::<Vec<_>>(), [mounted]);
    }

    #[test]
    fn what_was_not_finished_is_removed_at_the_next_start() {
        let dir = tempfile::tempdir().expect("a directory");
        let store = Store::open(dir.path()).expect("open");
        let mut begun = store.begin(Digest::of(b"x")).expect("begun");
        // As a crash would leave it.
        begun.kept = true;
        drop(begun);
        drop(store);
        let store = Store::open(dir.path()).expect("open");
        for _ in 0..500 {
            if entries(&store.layers_dir()).count() == 0 {
                return;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        panic!("it is still there");
    }
}
