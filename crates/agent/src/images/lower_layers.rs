//! Layers that hold hard links to files of the layers below them. What such a layer has depends on those, so it is kept
//! under a name of its own for each image that it is part of, with the files themselves, which take disk space once.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::fs::{
    AtFlags, CWD, FileType, Mode, OFlags, ResolveFlags, Stat, linkat, openat, openat2, readlinkat, statat,
    unlinkat,
};
use rustix::io::Errno;

use super::digest::Digest;
use super::registry::error::PullError;
use super::store::{LayerDir, Store, is_opaque};
use super::unpack::LowerLink;
use crate::failure::PANICKED;
use crate::resolve::{SYMLINKS_MAX, joined, resolve};

/// Looks at directories of lower layers, for all links of a layer together: long paths, links on the way and many layers
/// multiply, and whoever made the image has chosen them.
const LOOKUPS_MAX: usize = 10_000_000;

/// A layer that is unpacked, but for its hard links to files of lower layers.
#[derive(Debug)]
pub(super) struct UnlinkedLayer {
    pub(super) layer_dir: LayerDir,
    pub(super) opaque: Vec<PathBuf>,
    pub(super) links: Vec<LowerLink>,
}

/// What became of a layer that was fetched.
#[derive(Debug)]
pub(super) enum FetchedLayer {
    /// It is in the store, under this name.
    Stored(Digest),
    /// It waits for those below it.
    Unlinked(UnlinkedLayer),
}

/// The name of the last of these layers, the lowest first, if it has links to files of the others.
pub(super) fn linked_name(layers: &[Digest]) -> Digest {
    let names: Vec<String> = layers.iter().map(Digest::to_string).collect();
    Digest::of(format!("hard links to lower layers\n{}", names.join("\n")).as_bytes())
}

/// For each of these layers the name that it may have instead of its own.
pub(super) fn linked_names(layers: &[Digest]) -> Vec<Digest> {
    (1..=layers.len()).map(|count| linked_name(&layers[..count])).collect()
}

impl FetchedLayer {
    /// The layer's name in the store, where it is from now on. `lower` are the names of those below it there, the lowest
    /// first, and `linked` is its own if it has links to their files.
    pub(super) async fn commit(
        self,
        store: &Arc<Store>,
        lower: &[Digest],
        linked: Digest,
    ) -> Result<Digest, PullError> {
        let unlinked = match self {
            Self::Stored(name) => return Ok(name),
            Self::Unlinked(unlinked) => unlinked,
        };
        let _turn = store.turn(linked).await;
        if store.has(linked) {
            return Ok(linked);
        }
        let lower: Vec<PathBuf> = lower.iter().rev().map(|name| store.layer(*name)).collect();
        let store = store.clone();
        let committed = tokio::task::spawn_blocking(move || {
            let UnlinkedLayer { layer_dir, opaque, links } = unlinked;
            link_all(&links, &lower, &layer_dir.path).map_err(PullError::permanent)?;
            store.commit(layer_dir.named(linked), &opaque).map_err(PullError::from)
        });
        committed.await.map_err(|_| PullError::temporary(PANICKED))??;
        Ok(linked)
    }

    /// The same of what has no layers below it.
    pub(super) fn alone(self) -> Result<Digest, PullError> {
        match self {
            Self::Stored(name) => Ok(name),
            Self::Unlinked(UnlinkedLayer { links, .. }) => {
                Err(PullError::permanent(links.first().map(LowerLink::refusal).unwrap_or_default()))
            }
        }
    }
}

/// Makes the links of the layer in `dir`. The layers below are in `lower`, the uppermost first.
fn link_all(links: &[LowerLink], lower: &[PathBuf], dir: &Path) -> Result<(), String> {
    let opened = |dir: &PathBuf| open_dir(CWD, dir.as_os_str());
    let lower: Vec<OwnedFd> =
        lower.iter().map(opened).collect::<Result<_, _>>().map_err(|errno| errno.to_string())?;
    let root = File::open(dir).map_err(|error| error.to_string())?;
    let mut lookups_left = LOOKUPS_MAX;
    for link in links {
        let found = find(&lower, &link.target, &mut lookups_left)
            .map_err(|why| format!("{}: {why}", link.refusal()))?;
        let found = found.ok_or_else(|| link.refusal())?;
        link_file(&found, &root, &link.path)
            .map_err(|errno| format!("{}: {}", link.path.display(), io::Error::from(errno)))?;
    }
    Ok(())
}

/// Makes `path` another name of a file. Wherever links of the layer may lead, it is within the layer.
fn link_file(found: &LayerFile, root: &File, path: &Path) -> rustix::io::Result<()> {
    let within = ResolveFlags::IN_ROOT | ResolveFlags::NO_MAGICLINKS;
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let parent = resolve(|| openat2(root, parent, flags, Mode::empty(), within))?;
    let name = path.file_name().ok_or(Errno::INVAL)?;
    let link = || linkat(&found.dir, &*found.name, &parent, name, AtFlags::empty());
    match link() {
        // The layer removes what was there, and has this in its place.
        Err(Errno::EXIST) if is_whiteout(&stat(&parent, name)?) => {
            unlinkat(&parent, name, AtFlags::empty())?;
            link()
        }
        linked => linked,
    }
}

/// A file of some layer, by the directory that it lies in and its name there.
struct LayerFile {
    dir: OwnedFd,
    name: OsString,
}

/// What is at `path` in the image that these layers make, the uppermost first. Symbolic links lead nowhere but to places
/// of that image.
fn find(layers: &[OwnedFd], path: &Path, lookups_left: &mut usize) -> Result<Option<LayerFile>, String> {
    let mut path = path.to_owned();
    for _ in 0..=SYMLINKS_MAX {
        match walk(layers, &path, lookups_left).map_err(|errno| io::Error::from(errno).to_string())? {
            WalkResult::File(found) => return Ok(Some(found)),
            WalkResult::Missing => return Ok(None),
            WalkResult::Directory => return Err("that is a directory".into()),
            WalkResult::Exhausted => {
                return Err(format!(
                    "the layer's hard links take more than {LOOKUPS_MAX} looks at lower layers"
                ));
            }
            WalkResult::Symlink(elsewhere) => path = elsewhere,
        }
    }
    Err(format!("more than {SYMLINKS_MAX} symbolic links on the way"))
}

enum WalkResult {
    File(LayerFile),
    Missing,
    Directory,
    /// No lookups are left.
    Exhausted,
    /// The path leads through a symbolic link: to this one.
    Symlink(PathBuf),
}

fn walk(layers: &[OwnedFd], path: &Path, lookups_left: &mut usize) -> rustix::io::Result<WalkResult> {
    let names: Vec<&OsStr> = path.iter().collect();
    let mut dirs: Vec<OwnedFd> = Vec::new();
    for (depth, name) in names.iter().enumerate() {
        let above = if depth == 0 { layers } else { &dirs };
        let is_last = depth + 1 == names.len();
        match lookups_left.checked_sub(above.len()) {
            Some(left) => *lookups_left = left,
            None => return Ok(WalkResult::Exhausted),
        }
        match step(above, name)? {
            LayerEntry::Missing => return Ok(WalkResult::Missing),
            LayerEntry::Directories(_) if is_last => return Ok(WalkResult::Directory),
            LayerEntry::Directories(next) => dirs = next,
            LayerEntry::File(dir, _) if is_last => {
                let dir = dir.try_clone().map_err(|_| Errno::MFILE)?;
                return Ok(WalkResult::File(LayerFile { dir, name: (*name).to_owned() }));
            }
            LayerEntry::File(dir, FileType::Symlink) => {
                let before: PathBuf = names[..depth].iter().collect();
                let rest: PathBuf = names[depth + 1..].iter().collect();
                let text =
                    PathBuf::from(OsString::from_vec(readlinkat(dir, *name, Vec::new())?.into_bytes()));
                return Ok(WalkResult::Symlink(joined(&before, &text).join(rest)));
            }
            // A file has nothing below it.
            LayerEntry::File(..) => return Ok(WalkResult::Missing),
        }
    }
    Ok(WalkResult::Directory)
}

enum LayerEntry<'a> {
    Missing,
    /// What overlayfs would merge, the uppermost first.
    Directories(Vec<OwnedFd>),
    File(&'a OwnedFd, FileType),
}

/// What overlayfs would show as `name` in these directories, which it merges.
fn step<'a>(dirs: &'a [OwnedFd], name: &OsStr) -> rustix::io::Result<LayerEntry<'a>> {
    let mut merged = Vec::new();
    for dir in dirs {
        let found = match stat(dir, name) {
            Err(Errno::NOENT) => continue,
            found => found?,
        };
        let kind = kind(&found);
        if kind != FileType::Directory {
            // A device stands for what is not there any more; layers are unpacked without others.
            let is_file =
                merged.is_empty() && kind != FileType::CharacterDevice && kind != FileType::BlockDevice;
            if is_file {
                return Ok(LayerEntry::File(dir, kind));
            }
            break;
        }
        let below = open_dir(dir, name)?;
        let hides = is_opaque(&below)?;
        merged.push(below);
        if hides {
            break;
        }
    }
    Ok(if merged.is_empty() { LayerEntry::Missing } else { LayerEntry::Directories(merged) })
}

fn stat(dir: &OwnedFd, name: &OsStr) -> rustix::io::Result<Stat> {
    statat(dir, name, AtFlags::SYMLINK_NOFOLLOW)
}

fn kind(found: &Stat) -> FileType {
    FileType::from_raw_mode(found.st_mode)
}

fn is_whiteout(found: &Stat) -> bool {
    kind(found) == FileType::CharacterDevice && found.st_rdev == 0
}

fn open_dir(dir: impl AsFd, name: &OsStr) -> rustix::io::Result<OwnedFd> {
    openat(dir, name, OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC, Mode::empty())
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::{MetadataExt, symlink};

    use rustix::fs::{makedev, mkfifoat, mknodat};

    use super::*;

    /// Three layers, and one that is to have links to their files.
    struct Layers(tempfile::TempDir);

    impl Layers {
        fn new() -> Self {
            let layers = Self(tempfile::tempdir().expect("a directory"));
            for dir in ["0/usr/bin", "0/srv", "1/usr/bin", "1/srv", "1/gone", "2/etc", "top/etc"] {
                fs::create_dir_all(layers.at(dir)).expect("made");
            }
            fs::write(layers.0.path().join("outside"), "outside").expect("written");
            for (path, text) in [
                ("0/usr/bin/tool", "old"),
                ("0/usr/bin/other", "other"),
                ("0/srv/hidden", "hidden"),
                ("0/file", ""),
            ] {
                fs::write(layers.at(path), text).expect("written");
            }
            fs::write(layers.at("1/usr/bin/tool"), "new").expect("written");
            layers
        }

        fn at(&self, path: &str) -> PathBuf {
            self.0.path().join(path)
        }

        fn link(&self, path: &str, target: &str) -> Result<(), String> {
            let lower = ["2", "1", "0"].map(|layer| self.at(layer));
            let link = LowerLink { path: path.into(), target: target.into() };
            link_all(&[link], &lower, &self.at("top"))
        }

        fn refusal(&self, target: &str) -> String {
            let refusal = self.link("etc/x", target).expect_err(target);
            assert!(self.at("top/etc/x").symlink_metadata().is_err(), "{target}");
            refusal
        }
    }

    fn is_root() -> bool {
        let is_root = rustix::process::geteuid().is_root();
        if !is_root {
            eprintln!("skipped: not root");
        }
        is_root
    }

    #[test]
    fn the_uppermost_file_is_linked() {
        let layers = Layers::new();
        for (path, target, text) in [("a", "usr/bin/tool", "new"), ("etc/b", "usr/bin/other", "other")] {
            layers.link(path, target).expect("linked");
            assert_eq!(fs::read_to_string(layers.at("top").join(path)).expect("a file"), text);
        }
        let inode = |path: &str| layers.at(path).metadata().expect("a file").ino();
        assert_eq!(inode("top/a"), inode("1/usr/bin/tool"));
        mkfifoat(CWD, layers.at("0/pipe"), Mode::RUSR).expect("made");
        layers.link("pipe", "pipe").expect("linked");
        // Nothing replaces a file of the layer.
        let refusal = layers.link("a", "file").expect_err("there is a file");
        assert!(refusal.starts_with("a: File exists"), "{refusal}");
    }

    #[test]
    fn what_a_layer_removes_is_not_found_below_it() {
        if !is_root() {
            return;
        }
        let layers = Layers::new();
        let whiteout = |path: &str| {
            mknodat(CWD, layers.at(path), FileType::CharacterDevice, Mode::empty(), 0).expect("made")
        };
        whiteout("2/file");
        whiteout("2/usr");
        super::super::store::mark_opaque(&File::open(layers.at("1")).expect("opened"), Path::new("srv"))
            .expect("marked");
        for target in ["file", "usr/bin/tool", "srv/hidden", "never/there", "gone/x"] {
            let expected = format!(
                "etc/x: a hard link to {target}, which is neither before it in its archive nor in a layer below: make \
                 the archive with the file itself"
            );
            assert_eq!(layers.refusal(target), expected);
        }
        // The layer removes a file, and has a link in its place.
        fs::write(layers.at("0/kept"), "kept").expect("written");
        whiteout("top/etc/kept");
        layers.link("etc/kept", "kept").expect("linked");
        assert_eq!(fs::read_to_string(layers.at("top/etc/kept")).expect("a file"), "kept");
    }

    #[test]
    fn links_are_followed_within_the_image_only() {
        let layers = Layers::new();
        symlink("/usr/bin", layers.at("2/bin")).expect("linked");
        symlink("../../../../usr", layers.at("1/up")).expect("linked");
        for (path, target, text) in [("a", "bin/tool", "new"), ("b", "up/bin/other", "other")] {
            layers.link(path, target).expect(target);
            assert_eq!(fs::read_to_string(layers.at("top").join(path)).expect("a file"), text);
        }
        let outside = layers.0.path().to_owned();
        symlink(&outside, layers.at("2/out")).expect("linked");
        symlink("..", layers.at("2/above")).expect("linked");
        symlink("/proc/self/cwd", layers.at("2/process")).expect("linked");
        for target in ["out/outside", "above/outside", "process/Cargo.toml", "file/x"] {
            assert!(layers.refusal(target).contains("which is neither before it"), "{target}");
        }
        symlink("round", layers.at("2/round")).expect("linked");
        assert!(layers.refusal("round/x").contains("more than 40 symbolic links on the way"));
        assert!(layers.refusal("usr").ends_with(": that is a directory"));
        // A link of the layer itself leads nowhere else, either.
        symlink(&outside, layers.at("top/out")).expect("linked");
        layers.link("out/planted", "file").expect_err("there is no such directory within");
        assert!(!outside.join("planted").exists());
        // A link to a symbolic link is one to that, not to what it leads to.
        symlink(outside.join("outside"), layers.at("2/leads-out")).expect("linked");
        layers.link("c", "leads-out").expect("linked");
        assert!(layers.at("top/c").symlink_metadata().expect("a link").is_symlink());
        assert_eq!(outside.join("outside").metadata().expect("a file").nlink(), 1);
    }

    #[test]
    fn looks_at_lower_layers_are_counted() {
        let layers = Layers::new();
        let lower = ["2", "1", "0"].map(|layer| open_dir(CWD, layers.at(layer).as_os_str()));
        let lower = lower.map(|dir| dir.expect("opened"));
        // Three layers at first, and two that have the directory; then its own.
        let (mut enough, mut too_few) = (7, 6);
        let target = Path::new("usr/bin/tool");
        assert!(find(&lower, target, &mut enough).expect("found").is_some());
        assert_eq!(enough, 0);
        let refusal = find(&lower, target, &mut too_few).map(drop).expect_err("refused");
        assert_eq!(refusal, "the layer's hard links take more than 10000000 looks at lower layers");
    }

    #[test]
    fn devices_are_not_linked() {
        if !is_root() {
            return;
        }
        let layers = Layers::new();
        let null = makedev(1, 3);
        mknodat(CWD, layers.at("0/null"), FileType::CharacterDevice, Mode::empty(), null).expect("made");
        assert!(layers.refusal("null").contains("which is neither before it"));
    }

    #[test]
    fn a_layer_has_a_name_for_each_image_that_it_is_part_of() {
        let [a, b, c] = ["a", "b", "c"].map(|text| Digest::of(text.as_bytes()));
        let names = linked_names(&[a, b, c]);
        assert_eq!(names, [linked_name(&[a]), linked_name(&[a, b]), linked_name(&[a, b, c])]);
        assert_ne!(linked_name(&[b, a, c]), names[2]);
        assert_ne!(linked_name(&[b, c]), names[2]);
    }
}
