//! Malicious and damaged archives: whatever they say, nothing outside the target is changed, read or made.

#[path = "../../../tests/common/corpus.rs"]
mod archives;

use std::fs;
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};
use std::path::Path;

use proptest::prelude::*;

use self::archives::{Hostile, all};
use super::zip::tests::{Zip, stored};
use super::{Content, unpack, unpack_zip};

/// A place to unpack to, what lies beside it, and archives whose links lead there.
struct EscapeFixture {
    dir: tempfile::TempDir,
    corpus: Vec<Hostile>,
}

thread_local! {
    /// Archives of some MiB are made once a test.
    static FIXTURE: EscapeFixture = EscapeFixture::new();
}

impl EscapeFixture {
    fn new() -> Self {
        let dir = tempfile::tempdir().expect("a directory");
        let outside = dir.path().join("outside");
        let corpus = all(outside.to_str().expect("plain"), "../outside");
        fs::create_dir(&outside).expect("made");
        fs::set_permissions(&outside, fs::Permissions::from_mode(0o751)).expect("set");
        fs::write(outside.join("kept"), "kept").expect("written");
        Self { dir, corpus }
    }

    /// Nothing lies where it is unpacked to.
    fn clear(&self) {
        crate::dirs::remove_tree(&self.inside()).expect("removed");
        fs::create_dir(self.inside()).expect("made");
    }

    fn outside(&self) -> std::path::PathBuf {
        self.dir.path().join("outside")
    }

    fn inside(&self) -> std::path::PathBuf {
        self.dir.path().join("inside")
    }

    /// Everything but what lies where it is unpacked, and nothing there is another name of something outside.
    fn assert_untouched(&self, name: &str, content: Content) {
        let mut siblings: Vec<_> =
            fs::read_dir(self.dir.path()).expect("listed").flatten().map(|entry| entry.file_name()).collect();
        siblings.sort();
        assert_eq!(siblings, ["inside", "outside"], "{name}: something was made beside it");
        let kept = self.outside().join("kept");
        let files = fs::read_dir(self.outside()).expect("listed").count();
        assert_eq!((files, &*fs::read(&kept).expect("a file")), (1, &b"kept"[..]), "{name}");
        let (dir, file) = (self.outside().metadata().expect("a directory"), kept.metadata().expect("a file"));
        assert_eq!((dir.mode() & 0o7777, file.nlink()), (0o751, 1), "{name}");
        self.assert_harmless(&self.inside(), name, content);
    }

    fn assert_harmless(&self, dir: &Path, name: &str, content: Content) {
        for entry in fs::read_dir(dir).expect("listed").flatten() {
            let found = entry.path().symlink_metadata().expect("something");
            let kind = found.file_type();
            let is_whiteout = kind.is_char_device() && found.rdev() == 0;
            let is_pipe = content == Content::Layer && kind.is_fifo();
            let is_special = is_whiteout || is_pipe;
            assert!(kind.is_file() || kind.is_dir() || kind.is_symlink() || is_special, "{name}: {kind:?}");
            if kind.is_file() || kind.is_dir() {
                let is_shared = content == Content::Layer && kind.is_dir();
                let forbidden = if is_shared { 0o4000 } else { 0o6000 };
                assert_eq!(found.mode() & forbidden, 0, "{name}: it runs as its owner");
            }
            if kind.is_dir() {
                self.assert_harmless(&entry.path(), name, content);
            }
        }
    }
}

#[test]
fn hostile_archives_reach_nothing() {
    let fixture = EscapeFixture::new();
    assert!(fixture.corpus.len() >= 60, "{}", fixture.corpus.len());
    for content in [Content::Layer, Content::Files] {
        for hostile in &fixture.corpus {
            let Hostile { name, tar, refused } = hostile;
            let refused = if content == Content::Layer { hostile.refused_as_layer() } else { *refused };
            fixture.clear();
            let unpacked = unpack(tar.as_slice(), &fixture.inside(), content);
            // Files for a task have no owners, and nothing is removed by them.
            let layers_only = ["owner", "whiteout"].iter().any(|word| name.contains(word));
            // Whoever keeps a layer refuses links that lead to no file of the layers below it.
            let is_open = unpacked.as_ref().is_ok_and(|unpacked| !unpacked.links.is_empty());
            let is_refused =
                unpacked.is_err() || is_open || !refused || (content == Content::Files && layers_only);
            assert!(is_refused, "{content:?}, {name}: {unpacked:?}");
            fixture.assert_untouched(name, content);
        }
    }
}

/// What is changed of an archive.
fn damage() -> impl Strategy<Value = Vec<(prop::sample::Index, u8)>> {
    prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..12)
}

fn damaged(mut bytes: Vec<u8>, damage: &[(prop::sample::Index, u8)]) -> Vec<u8> {
    for (at, byte) in damage {
        let at = at.index(bytes.len());
        bytes[at] = *byte;
    }
    bytes
}

/// Sums of headers are right again, so that more than the sum is looked at.
fn summed(mut bytes: Vec<u8>) -> Vec<u8> {
    for header in bytes.chunks_exact_mut(512).filter(|header| header[257..262] == *b"ustar") {
        header[148..156].fill(b' ');
        let sum: u64 = header.iter().map(|&byte| u64::from(byte)).sum();
        header[148..155].copy_from_slice(format!("{sum:06o}\0").as_bytes());
    }
    bytes
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    fn a_damaged_archive_reaches_nothing(number in 0..60_usize, damage in damage(), repaired in any::<bool>()) {
        FIXTURE.with(|fixture| {
            fixture.clear();
            let Hostile { name, tar, .. } = &fixture.corpus[number];
            let bytes = damaged(tar.clone(), &damage);
            let bytes = if repaired { summed(bytes) } else { bytes };
            let _ = unpack(bytes.as_slice(), &fixture.inside(), Content::Files);
            fixture.assert_untouched(name, Content::Files);
        });
    }

    #[test]
    fn a_damaged_zip_reaches_nothing(damage in damage(), cut in any::<prop::sample::Index>(), is_cut in any::<bool>()) {
        let link = stored("out", b"../outside").with_mode(0o120_777);
        let zip = Zip::default().add(stored("a/file", b"x")).add(link).add(stored("out/x", b"x"));
        let mut bytes = damaged(zip.bytes(), &damage);
        if is_cut {
            bytes.truncate(cut.index(bytes.len()));
        }
        let path = tempfile::NamedTempFile::new().expect("a file");
        fs::write(path.path(), bytes).expect("written");
        FIXTURE.with(|fixture| {
            fixture.clear();
            let _ = unpack_zip(fs::File::open(path.path()).expect("a file"), &fixture.inside());
            fixture.assert_untouched("zip", Content::Files);
        });
    }

    #[test]
    fn what_is_no_archive_is_refused(bytes in prop::collection::vec(any::<u8>(), 1..4_096)) {
        FIXTURE.with(|fixture| {
            fixture.clear();
            for content in [Content::Layer, Content::Files] {
                let _ = unpack(bytes.as_slice(), &fixture.inside(), content);
            }
            fixture.assert_untouched("noise", Content::Layer);
        });
    }
}
