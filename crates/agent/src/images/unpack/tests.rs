//! Archives one by one: what is unpacked of them, and what is refused, with the reason.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use tar::Builder;

use super::*;
use crate::test_header::header;

struct Tar(Builder<Vec<u8>>);

impl Tar {
    fn new() -> Self {
        Self(Builder::new(Vec::new()))
    }

    /// Writes the path as it is: the builder would refuse what these tests are about.
    fn add(mut self, path: &str, kind: EntryType, link: &str, data: &str) -> Self {
        let own = rustix::process::getuid().as_raw().into();
        let header = header(path, kind, link, (0o6755, own), data.len() as u64);
        self.0.append(&header, data.as_bytes()).expect("appended");
        self
    }

    fn unpack(self) -> (tempfile::TempDir, Result<Vec<PathBuf>, String>) {
        let dir = tempfile::tempdir().expect("a directory");
        let bytes = self.0.into_inner().expect("finished");
        let unpacked = unpack(bytes.as_slice(), &dir.path().join("."), Content::Layer);
        (dir, unpacked.map(|unpacked| unpacked.opaque).map_err(|error| error.to_string()))
    }
}

#[test]
fn files_and_links_are_unpacked() {
    let (dir, unpacked) = Tar::new()
        .add("./usr/bin/", EntryType::Directory, "", "")
        .add("usr/bin/tool", EntryType::Regular, "", "old")
        .add("usr/bin/tool", EntryType::Regular, "", "new")
        .add("bin", EntryType::Symlink, "/usr/bin", "")
        .add("bin/same", EntryType::Link, "usr/bin/tool", "")
        .unpack();
    assert_eq!(unpacked, Ok(Vec::new()));
    let same = dir.path().join("usr/bin/same");
    assert_eq!(fs::read_to_string(&same).expect("a file"), "new");
    let mode = |path: &Path| path.metadata().expect("a file").permissions().mode() & 0o7777;
    assert_eq!((mode(&same), mode(&dir.path().join("usr/bin"))), (0o755, 0o2755));
}

#[test]
fn nothing_leads_out() {
    let regular = |path| Tar::new().add(path, EntryType::Regular, "", "x");
    for (hostile, why) in [
        (regular("../out"), "a path that leads out"),
        (regular("a/../../out"), "a path that leads out"),
        (Tar::new().add("hard", EntryType::Link, "../../etc/passwd", ""), "a path that leads out"),
        (Tar::new().add("/", EntryType::Regular, "", "x"), "the root is a directory"),
        (
            Tar::new().add("volume", EntryType::new(b'V'), "", ""),
            "only files, directories and links are unpacked",
        ),
    ] {
        let (_dir, unpacked) = hostile.unpack();
        let error = unpacked.expect_err("refused");
        assert!(error.ends_with(why), "{error}");
    }
}

/// Links to files that the layer does not have are reported, unless something else comes in their place.
#[test]
fn links_to_lower_layers_are_left_to_whoever_has_those() {
    let tar = || {
        Tar::new()
            .add("a/one", EntryType::Link, "/usr/lib/file", "")
            .add("a/two", EntryType::Link, "a/one", "")
            .add("a/.wh.one", EntryType::Regular, "", "")
            .add("a/three", EntryType::Link, "usr/lib/file", "")
            .add("a/three", EntryType::Regular, "", "x")
            .add("a/four", EntryType::Regular, "", "x")
            .add("a/four", EntryType::Link, "later", "")
            .add("later", EntryType::Regular, "", "x")
    };
    let (dir, bytes) = (tempfile::tempdir().expect("a directory"), tar().0.into_inner().expect("finished"));
    let links = unpack(bytes.as_slice(), dir.path(), Content::Layer).expect("unpacked").links;
    let link = |path: &str, target: &str| LowerLink { path: path.into(), target: target.into() };
    let expected = [("a/four", "later"), ("a/one", "usr/lib/file"), ("a/two", "usr/lib/file")];
    assert_eq!(links, expected.map(|(path, target)| link(path, target)));
    // Directories on the way to a file of another layer are that layer's.
    assert!(!dir.path().join("usr").exists() && !dir.path().join("a/four").exists());
    let bytes = Tar::new().add("hard", EntryType::Link, "usr/file", "").0.into_inner().expect("finished");
    let refusal = unpack(bytes.as_slice(), dir.path(), Content::Files).expect_err("refused");
    assert_eq!(
        refusal.to_string(),
        "hard: a hard link to usr/file, which the archive does not have before it: make the archive with the file itself"
    );
}

#[test]
fn a_layer_may_have_pipes_and_its_devices_are_left_out() {
    use std::os::unix::fs::FileTypeExt;
    let tar = || {
        Tar::new()
            .add("var/pipe", EntryType::Regular, "", "old")
            .add("var/pipe", EntryType::Fifo, "", "")
            .add("var/same", EntryType::Link, "var/pipe", "")
            .add("dev/null", EntryType::Char, "", "")
            .add("jail/dev/null", EntryType::Char, "", "")
            .add("jail/disk", EntryType::Block, "", "")
    };
    let (dir, bytes) = (tempfile::tempdir().expect("a directory"), tar().0.into_inner().expect("finished"));
    let unpacked = unpack(bytes.as_slice(), dir.path(), Content::Layer).expect("unpacked");
    assert_eq!(unpacked.devices, 2);
    for name in ["var/pipe", "var/same"] {
        let found = dir.path().join(name).symlink_metadata().expect("a pipe");
        assert!(found.file_type().is_fifo(), "{name}");
        assert_eq!(found.permissions().mode() & 0o7777, 0o755, "{name}");
    }
    assert!(!dir.path().join("jail").exists() && !dir.path().join("dev").exists());
    for kind in [EntryType::Fifo, EntryType::Char, EntryType::Block] {
        let bytes = Tar::new().add("a", kind, "", "").0.into_inner().expect("finished");
        let refusal = unpack(bytes.as_slice(), dir.path(), Content::Files).expect_err("refused");
        assert_eq!(refusal.to_string(), "a: only files, directories and links are unpacked");
    }
}

#[test]
fn a_layer_may_name_all_from_the_root_on() {
    let (dir, unpacked) = Tar::new()
        .add("/", EntryType::Directory, "", "")
        .add("/usr/bin/", EntryType::Directory, "", "")
        .add("/usr/bin/tool", EntryType::Regular, "", "tool")
        .add("//usr/bin/same", EntryType::Link, "/usr/bin/tool", "")
        .unpack();
    assert_eq!(unpacked, Ok(Vec::new()));
    assert_eq!(fs::read_to_string(dir.path().join("usr/bin/same")).expect("a file"), "tool");
    let absolute = Tar::new().add("/etc/out", EntryType::Regular, "", "x").0.into_inner().expect("finished");
    let files = unpack(absolute.as_slice(), dir.path(), Content::Files).expect_err("refused");
    assert!(files.to_string().ends_with("a path that leads out"), "{files}");
}

#[test]
fn what_extends_a_header_is_small() {
    let long = "d/".repeat(100) + "file";
    let pax = |record: &str| format!("{} {record}\n", record.len() + 4);
    let (dir, unpacked) = Tar::new()
        .add("././@LongLink", EntryType::GNULongName, "", &format!("{long}\0"))
        .add("d/cut", EntryType::Regular, "", "x")
        .add("pax", EntryType::XHeader, "", &pax("path=by-pax"))
        .add("cut", EntryType::Regular, "", "x")
        .unpack();
    assert_eq!(unpacked, Ok(Vec::new()));
    assert!(dir.path().join(&long).is_file() && dir.path().join("by-pax").is_file());
    let bomb = "x".repeat(2 << 20);
    for kind in [EntryType::GNULongName, EntryType::GNULongLink, EntryType::XHeader] {
        let (_dir, unpacked) = Tar::new().add("bomb", kind, "", &bomb).unpack();
        assert_eq!(unpacked, Err("a header of 2097152 bytes is over the limit of 1048576".to_owned()));
    }
}

#[test]
fn an_archive_is_not_read_for_ever() {
    let mut endless = LimitedReader {
        plain: io::repeat(0),
        left: 1 << 20,
        bytes: 0,
        packed: None,
        hasher: DigestHasher::default(),
    };
    let error = io::copy(&mut endless, &mut io::sink()).expect_err("refused");
    assert_eq!(error.to_string(), "the archive is too large");
}

#[test]
fn symlinks_are_followed_within_the_image_only() {
    let (dir, unpacked) = Tar::new()
        .add("up", EntryType::Symlink, "../../../../..", "")
        .add("up/inside", EntryType::Regular, "", "x")
        .add("etc", EntryType::Directory, "", "")
        .add("abs", EntryType::Symlink, "/etc", "")
        .add("abs/inside", EntryType::Regular, "", "x")
        .add("file", EntryType::Symlink, "/etc/elsewhere", "")
        .add("file", EntryType::Regular, "", "x")
        .unpack();
    assert_eq!(unpacked, Ok(Vec::new()));
    assert!(["inside", "etc/inside", "file"].iter().all(|path| dir.path().join(path).is_file()));
    assert!(!dir.path().join("etc/elsewhere").exists());
}

#[test]
fn what_a_layer_removes_becomes_what_overlayfs_understands() {
    use std::os::unix::fs::{FileTypeExt, MetadataExt};
    let (dir, unpacked) = Tar::new()
        .add("etc/.wh.gone", EntryType::Regular, "", "")
        .add("usr/.wh..wh..opq", EntryType::Regular, "", "")
        .add("usr/bin/new", EntryType::Regular, "", "x")
        .add("a/.wh.again", EntryType::Regular, "", "")
        .add("a/again/file", EntryType::Regular, "", "x")
        .add("b/.wh.same", EntryType::Regular, "", "")
        .add("b/same", EntryType::Regular, "", "x")
        .add(".wh..wh.plnk", EntryType::Regular, "", "")
        .unpack();
    if unpacked.as_ref().is_err_and(|error| error.contains("EPERM")) {
        eprintln!("skipped: this kernel lets only root make whiteouts");
        return;
    }
    let mut opaque = unpacked.expect("unpacked");
    opaque.sort();
    assert_eq!(opaque, [PathBuf::from("a/again"), PathBuf::from("usr")]);
    let gone = dir.path().join("etc/gone").symlink_metadata().expect("a whiteout");
    assert!(gone.file_type().is_char_device() && gone.rdev() == 0);
    assert!(dir.path().join("b/same").is_file() && dir.path().join("a/again/file").is_file());
    assert_eq!(dir.path().read_dir().expect("a directory").count(), 4);
    for hostile in ["a/.wh.", "a/.wh..", "a/.wh..."] {
        let (_dir, unpacked) = Tar::new().add(hostile, EntryType::Regular, "", "").unpack();
        assert!(unpacked.expect_err("refused").contains("removes no file"), "{hostile}");
    }
}

#[test]
fn the_digest_is_that_of_the_archive_without_its_compression() {
    let bytes = Tar::new().add("file", EntryType::Regular, "", "x").0.into_inner().expect("finished");
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    io::Write::write_all(&mut gzip, &bytes).expect("written");
    let dir = tempfile::tempdir().expect("a directory");
    let unpacked =
        unpack(gzip.finish().expect("written").as_slice(), dir.path(), Content::Layer).expect("unpacked");
    assert_eq!((unpacked.diff_id, unpacked.bytes), (Digest::of(&bytes), bytes.len() as u64));
}

#[test]
fn zstd_is_as_good_as_gzip() {
    use ruzstd::encoding::{CompressionLevel, compress_to_vec};
    let bytes = Tar::new().add("file", EntryType::Regular, "", &"x".repeat(300 << 10));
    let bytes = bytes.0.into_inner().expect("finished");
    // In two frames, as parallel compressors write them, with one between that says nothing.
    let skipped = [&[0x50, 0x2a, 0x4d, 0x18, 3, 0, 0, 0][..], b"toc"].concat();
    let (first, second) = bytes.split_at(bytes.len() / 2);
    let [first, second] = [first, second].map(|part| compress_to_vec(part, CompressionLevel::Fastest));
    let packed = [first.clone(), skipped.clone(), second].concat();
    let dir = tempfile::tempdir().expect("a directory");
    let unpacked = unpack(packed.as_slice(), dir.path(), Content::Layer).expect("unpacked");
    assert_eq!((unpacked.diff_id, unpacked.bytes), (Digest::of(&bytes), bytes.len() as u64));
    for damaged in [&packed[..packed.len() - 1], &packed[..first.len() + 5], &first[..9], &skipped[..9]] {
        let dir = tempfile::tempdir().expect("a directory");
        unpack(damaged, dir.path(), Content::Layer).expect_err("refused");
    }
}

#[test]
fn a_bomb_of_zstd_is_one_too() {
    use ruzstd::encoding::{CompressionLevel, compress_to_vec};
    check_bomb(&compress_to_vec(zeros(), CompressionLevel::Fastest));
}

/// An archive of nothing but zeros, larger than any that may be much smaller when it is packed.
fn zeros() -> impl Read {
    let bytes = FILES_FREE_BYTES * 2;
    let header = header("zeros", EntryType::Regular, "", (0o644, 0), bytes);
    io::Cursor::new(header.as_bytes().to_vec()).chain(io::repeat(0).take(bytes + 1024))
}

fn check_bomb(bomb: &[u8]) {
    let dir = tempfile::tempdir().expect("a directory");
    let refusal = unpack(bomb, dir.path(), Content::Files).expect_err("refused").to_string();
    assert!(refusal.contains("more than 200 times its own size"), "{refusal}");
}

#[test]
fn files_for_a_task_may_not_be_much_larger_than_their_archive() {
    let mut bomb = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
    io::copy(&mut zeros(), &mut bomb).expect("written");
    check_bomb(&bomb.finish().expect("written"));
}

#[test]
fn files_for_a_task_are_whose_process_unpacks_them() {
    let header = header(".wh.kept", EntryType::Regular, "", (0o4755, 12_345), 1);
    let mut archive = Builder::new(Vec::new());
    archive.append(&header, b"x".as_slice()).expect("appended");
    let bytes = archive.into_inner().expect("finished");
    let dir = tempfile::tempdir().expect("a directory");
    unpack(bytes.as_slice(), dir.path(), Content::Files).expect("unpacked");
    let found = dir.path().join(".wh.kept").metadata().expect("a file like any other");
    let own = rustix::process::geteuid().as_raw();
    assert_eq!(
        (std::os::unix::fs::MetadataExt::uid(&found), found.permissions().mode() & 0o7777),
        (own, 0o755)
    );
}
