//! The images on a node's disk: unpacked layers by their digests, and records of what names stand for.
//!
//! ```text
//! images/layers/DIGEST        a layer, whole: it got this name once all of it was on disk
//! images/layers/new.DIGEST.N  one that is being unpacked; what a crash leaves is removed at the next start
//! images/names/HASH           a record: what a name stood for when it was last pulled
//! ```

use std::collections::{HashMap, HashSet};
use std::fs::{self, File};
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::SystemTime;

use rustix::fs::{Mode, OFlags, ResolveFlags, XattrFlags, fgetxattr, fsetxattr, openat2, statvfs, syncfs};
use rustix::io::Errno;

use super::digest::Digest;
use crate::dirs::{remove_in_background, remove_tree};
use crate::disk;
use crate::failure::{Failure, FailureContext};
use crate::resolve::resolve;
use crate::shell::random_number;

const LAYERS_DIR: &str = "layers";
const NAMES_DIR: &str = "names";
/// Begins the names of directories that are to be removed.
const GONE: &str = "gone.";

/// The part of the disk that images leave free: a twentieth, at most 1 GiB.
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
    /// The bytes of its layers as they were downloaded.
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
    leases: Arc<Mutex<Leases>>,
    /// Held by whoever writes or removes a record. Locked before `leases`, where both are.
    names: Mutex<()>,
    /// Layers that are being fetched.
    fetching: Mutex<HashMap<Digest, Weak<tokio::sync::Mutex<()>>>>,
    /// Begins anywhere: no directory has the name of one that an earlier agent left, which is still being removed.
    numbers: AtomicU64,
}

/// The layers that are leased.
#[derive(Debug, Default)]
struct Leases {
    /// How many leases each layer has.
    counts: HashMap<Digest, usize>,
    /// What was leased at any time since a scan of what is in use began, by the number of the scan.
    scans: HashMap<u64, HashSet<Digest>>,
}

impl Leases {
    fn take(&mut self, layers: &[Digest]) {
        for layer in layers {
            *self.counts.entry(*layer).or_default() += 1;
            self.scans.values_mut().for_each(|leased| _ = leased.insert(*layer));
        }
    }

    fn release(&mut self, layers: &[Digest]) {
        for layer in layers {
            if let Some(count) = self.counts.get_mut(layer) {
                *count -= 1;
                if *count == 0 {
                    self.counts.remove(layer);
                }
            }
        }
    }
}

/// Layers that are not removed while this lives.
#[derive(Debug)]
pub(crate) struct Lease {
    leases: Arc<Mutex<Leases>>,
    layers: Vec<Digest>,
}

impl Drop for Lease {
    fn drop(&mut self) {
        lock(&self.leases).release(&self.layers);
    }
}

/// What is in use, true of each later moment too: what the links of allocations named at one time, and whatever was leased
/// since before that. A start leases its layers before it makes links to them, so that it is in one of the two.
#[derive(Debug)]
pub(crate) struct InUse<'a> {
    store: &'a Store,
    scan: u64,
    linked: HashSet<Digest>,
}

impl InUse<'_> {
    /// Whether an image of these layers is in use: all of them are, as whoever uses an image leases or links each. One
    /// that shares only some with another image can be removed without harm to that one.
    pub(crate) fn has_image(&self, layers: &[Digest]) -> bool {
        self.holds_image(&lock(&self.store.leases), layers)
    }

    fn holds_image(&self, leases: &Leases, layers: &[Digest]) -> bool {
        !layers.is_empty() && layers.iter().all(|layer| self.holds(leases, layer))
    }

    fn holds(&self, leases: &Leases, layer: &Digest) -> bool {
        let leased = leases.scans.get(&self.scan);
        self.linked.contains(layer) || leased.is_some_and(|leased| leased.contains(layer))
    }
}

impl Drop for InUse<'_> {
    fn drop(&mut self) {
        lock(&self.store.leases).scans.remove(&self.scan);
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A directory in which a layer is being unpacked; removed unless it is kept.
#[derive(Debug)]
pub(crate) struct LayerDir {
    pub(crate) path: PathBuf,
    digest: Digest,
    kept: bool,
}

impl LayerDir {
    /// The same directory for a layer of another name.
    pub(crate) fn named(mut self, digest: Digest) -> Self {
        self.digest = digest;
        self
    }
}

impl Drop for LayerDir {
    fn drop(&mut self) {
        if !self.kept {
            remove_in_background(
                self.path.clone(),
                "could not remove a part of an image: the next start does",
            );
        }
    }
}

impl Store {
    /// Takes up what is there, and removes what was not finished.
    pub(crate) fn open(dir: &Path) -> Result<Self, Failure> {
        for name in [LAYERS_DIR, NAMES_DIR] {
            crate::shell::make_dir(&dir.join(name), 0o700)?;
        }
        let (leases, names, fetching) = (Arc::default(), Mutex::default(), Mutex::default());
        let numbers = AtomicU64::new(random_number());
        let store = Self { dir: dir.to_owned(), leases, names, fetching, numbers };
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
        std::thread::spawn(move || unfinished.iter().for_each(|path| remove_or_warn(path)));
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

    /// The first of a layer's names under which it is here.
    pub(crate) fn first_of(&self, names: [Digest; 2]) -> Option<Digest> {
        names.into_iter().find(|name| self.has(*name))
    }

    /// To be taken before it is looked whether they are there.
    pub(crate) fn lease(&self, layers: &[Digest]) -> Lease {
        lock(&self.leases).take(layers);
        Lease { leases: self.leases.clone(), layers: layers.to_vec() }
    }

    /// Finds out what is in use. `linked` reads the links of allocations, which may take long.
    pub(crate) fn in_use(&self, linked: impl FnOnce() -> HashSet<Digest>) -> InUse<'_> {
        let scan = self.numbers.fetch_add(1, Ordering::Relaxed);
        {
            let mut leases = lock(&self.leases);
            let leased = leases.counts.keys().copied().collect();
            leases.scans.insert(scan, leased);
        }
        let mut found = InUse { store: self, scan, linked: HashSet::new() };
        found.linked = linked();
        found
    }

    /// One fetches a layer, others wait for it.
    pub(crate) async fn turn(&self, digest: Digest) -> tokio::sync::OwnedMutexGuard<()> {
        let lock = {
            let mut fetching = lock(&self.fetching);
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
    pub(crate) fn create_unnamed_layer_dir(&self) -> Result<LayerDir, Failure> {
        self.create_layer_dir(Digest::of(b""))
    }

    /// An empty directory for a layer.
    pub(crate) fn create_layer_dir(&self, digest: Digest) -> Result<LayerDir, Failure> {
        let number = self.numbers.fetch_add(1, Ordering::Relaxed);
        let path = self.layers_dir().join(format!("new.{}.{number}", digest.hex()));
        remove_tree(&path)?;
        crate::shell::make_dir(&path, 0o755)?;
        Ok(LayerDir { path, digest, kept: false })
    }

    /// Keeps a layer: it has its name only when all of it is on disk. Blocks.
    pub(crate) fn commit(&self, mut layer_dir: LayerDir, opaque: &[PathBuf]) -> Result<(), Failure> {
        let doing = || format!("keep the layer {}", layer_dir.digest);
        let root = File::open(&layer_dir.path).doing(doing)?;
        for dir in opaque {
            mark_opaque(&root, dir).doing(doing)?;
        }
        syncfs(&root).doing(doing)?;
        let target = self.layer(layer_dir.digest);
        fs::rename(&layer_dir.path, &target).doing(doing)?;
        layer_dir.kept = true;
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
        let _names = lock(&self.names);
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
        let _names = lock(&self.names);
        self.unname(name)?;
        self.sync_names(name)
    }

    /// The same, unless the image is in use or the name stands for something else by now. Answers whether it did.
    pub(crate) fn forget_unused(&self, record: &ImageRecord, in_use: &InUse<'_>) -> Result<bool, Failure> {
        let name = &record.name;
        let _names = lock(&self.names);
        let known = disk::read::<ImageRecord>(&self.names_dir(), &Self::record_name(name)).ok().flatten();
        if known.as_ref() != Some(record) {
            return Ok(false);
        }
        {
            // Whoever leases its layers from here on finds that it has no name any more.
            let leases = lock(&self.leases);
            if in_use.holds_image(&leases, &record.layers().unwrap_or_default()) {
                return Ok(false);
            }
            self.unname(name)?;
        }
        self.sync_names(name)?;
        Ok(true)
    }

    fn unname(&self, name: &str) -> Result<(), Failure> {
        match fs::remove_file(self.names_dir().join(Self::record_name(name))) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                Err(Failure::new(format!("remove the image {name}"), error))
            }
            _ => Ok(()),
        }
    }

    fn sync_names(&self, name: &str) -> Result<(), Failure> {
        disk::sync_dir(&self.names_dir()).doing(|| format!("remove the image {name}"))
    }

    /// Removes the layers that no name stands for any more, but for those in use. Blocks.
    pub(crate) fn sweep(&self, in_use: &InUse<'_>) {
        let named: HashSet<Digest> =
            self.all().iter().filter_map(|(record, _)| record.layers()).flatten().collect();
        let layers: Vec<Digest> = self.layers().collect();
        for layer in layers.into_iter().filter(|layer| !named.contains(layer)) {
            if let Some(path) = self.set_out(layer, in_use) {
                remove_or_warn(&path);
            }
        }
    }

    /// The layers that are there.
    pub(crate) fn layers(&self) -> impl Iterator<Item = Digest> + use<> {
        entries(&self.layers_dir()).filter_map(|name| format!("sha256:{name}").parse().ok())
    }

    /// Takes a layer's name away, unless it is in use: whoever leases it afterwards finds nothing.
    fn set_out(&self, layer: Digest, in_use: &InUse<'_>) -> Option<PathBuf> {
        let leases = lock(&self.leases);
        if in_use.holds(&leases, &layer) {
            return None;
        }
        let number = self.numbers.fetch_add(1, Ordering::Relaxed);
        let path = self.layers_dir().join(format!("{GONE}{}.{number}", layer.hex()));
        fs::rename(self.layer(layer), &path).ok()?;
        Some(path)
    }

    /// Whether the disk has more left than others need to go on.
    pub(crate) fn has_disk_space(&self) -> bool {
        self.disk_space()
            .is_none_or(|(all, free)| free >= (all / DISK_RESERVE_PART).min(DISK_RESERVE_BYTES_MAX))
    }

    /// Bytes of the filesystem that images are on: in all, and free. As with `df`, what it reserves for root is in neither:
    /// it would count as used on a disk that has room.
    pub(crate) fn disk_space(&self) -> Option<(u64, u64)> {
        let found = statvfs(&self.dir).ok()?;
        let unit = found.f_frsize;
        let (used, free) = (found.f_blocks.saturating_sub(found.f_bfree), found.f_bavail);
        Some(((used + free) * unit, free * unit))
    }
}

fn remove_or_warn(path: &Path) {
    if let Err(failure) = remove_tree(path) {
        tracing::warn!(%failure, "could not remove a part of an image: the next start tries again");
    }
}

fn entries(dir: &Path) -> impl Iterator<Item = String> + use<> {
    let entries = dir.read_dir().into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().into_string().ok())
}

/// Whether a directory of a layer hides those of the same name below.
pub(super) fn is_opaque(dir: impl AsFd) -> rustix::io::Result<bool> {
    let mut value = [0; 1];
    match fgetxattr(dir, OPAQUE_MARK, &mut value) {
        Ok(read) => Ok(value[..read] == *b"y"),
        Err(Errno::NODATA | Errno::OPNOTSUPP) => Ok(false),
        Err(errno) => Err(errno),
    }
}

/// Wherever links of the layer may lead, it is within the layer.
pub(super) fn mark_opaque(root: &File, dir: &Path) -> std::io::Result<()> {
    let links = ResolveFlags::IN_ROOT | ResolveFlags::NO_MAGICLINKS;
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let dir = if dir.as_os_str().is_empty() { Path::new(".") } else { dir };
    let dir = resolve(|| openat2(root, dir, flags, Mode::empty(), links))?;
    Ok(fsetxattr(dir, OPAQUE_MARK, b"y", XattrFlags::empty())?)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn layer(store: &Store, text: &str) -> Digest {
        let digest = Digest::of(text.as_bytes());
        let layer_dir = store.create_layer_dir(digest).expect("begun");
        fs::write(layer_dir.path.join("file"), text).expect("written");
        store.commit(layer_dir, &[]).expect("kept");
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
        let layer_dir = ["layers/new.00.1/a", "0123abcd.new.7/a"].map(|name| dir.path().join(name));
        layer_dir.iter().for_each(|path| fs::create_dir_all(path).expect("made"));
        let name = dir.path().join("names/web.new");
        fs::write(&name, "half").expect("written");
        let kept = dir.path().join("0123abcd");
        fs::create_dir(&kept).expect("made");
        drop(Store::open(dir.path()).expect("open"));
        while layer_dir.iter().any(|path| path.parent().is_some_and(Path::exists)) {
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
        let used = || store.in_use(|| HashSet::from([mounted]));
        store.sweep(&used());
        assert!(!store.has(unused) && [named, leased, mounted].iter().all(|layer| store.has(*layer)));
        drop(lease);
        store.forget("a").expect("removed");
        store.sweep(&used());
        assert_eq!(store.layers().collect::<Vec<_>>(), [mounted]);
    }

    #[test]
    fn what_came_into_use_since_it_was_looked_stays() {
        let dir = tempfile::tempdir().expect("a directory");
        let store = Store::open(dir.path()).expect("open");
        let [before, during, since, idle] = ["b", "d", "s", "i"].map(|text| layer(&store, text));
        let images = [("b", before), ("d", during), ("s", since), ("i", idle)]
            .map(|(name, layer)| record(name, &[layer]));
        images.iter().for_each(|image| store.write(image).expect("written"));
        // Each ends its lease before anything is removed: its links were made after they had been read.
        let ends_soon = store.lease(&[before]);
        let used = store.in_use(|| {
            drop(store.lease(&[during]));
            HashSet::new()
        });
        drop(ends_soon);
        drop(store.lease(&[since]));
        let forgotten = images.each_ref().map(|image| store.forget_unused(image, &used).expect("decided"));
        assert_eq!(forgotten, [false, false, false, true]);
        ["b", "d", "s"].iter().for_each(|name| store.forget(name).expect("removed"));
        store.sweep(&used);
        assert!([before, during, since].iter().all(|layer| store.has(*layer)) && !store.has(idle));
        drop(used);
        assert!(lock(&store.leases).scans.is_empty());
        store.sweep(&store.in_use(HashSet::new));
        assert_eq!(store.layers().count(), 0);
    }

    #[test]
    fn a_name_that_stands_for_something_else_by_now_stays() {
        let dir = tempfile::tempdir().expect("a directory");
        let store = Store::open(dir.path()).expect("open");
        let [old, new] = ["old", "new"].map(|text| layer(&store, text));
        store.write(&record("a", &[old])).expect("written");
        let used = store.in_use(HashSet::new);
        store.write(&record("a", &[new])).expect("written");
        assert!(!store.forget_unused(&record("a", &[old]), &used).expect("decided"));
        assert_eq!(store.find("a"), Some(record("a", &[new])));
    }

    #[test]
    fn a_layer_that_is_begun_again_is_not_where_an_earlier_start_left_it() {
        let dir = tempfile::tempdir().expect("a directory");
        let begun = [(); 2].map(|()| {
            let mut layer_dir =
                Store::open(dir.path()).and_then(|store| store.create_layer_dir(Digest::of(b"x")))?;
            // As a crash would leave it.
            layer_dir.kept = true;
            Ok::<_, Failure>(layer_dir.path.clone())
        });
        let [first, second] = begun.map(|path| path.expect("begun"));
        assert_ne!(first, second, "what removes the first would remove the second");
    }

    #[test]
    fn what_was_not_finished_is_removed_at_the_next_start() {
        let dir = tempfile::tempdir().expect("a directory");
        let store = Store::open(dir.path()).expect("open");
        let mut layer_dir = store.create_layer_dir(Digest::of(b"x")).expect("begun");
        // As a crash would leave it.
        layer_dir.kept = true;
        drop(layer_dir);
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
