//! Which of an allocation's files are shown, and which are not, while its tasks put links and other things in their place.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use berth_api::agent::{AllocId, FILES_MAX, FileRead};

use super::*;

/// How often what races with a reader is tried, for each operation.
const RACES: usize = 10_000;
const SECRET: &str = "not to be seen";

struct World {
    temp: tempfile::TempDir,
    paths: AllocPaths,
}

impl World {
    fn new() -> Self {
        let temp = tempfile::tempdir().expect("a directory");
        let paths = AllocPaths::new(temp.path(), AllocId([7; 16]));
        for dir in ["alloc/data", "logs", "keepers/web", "tasks/web/local", "tasks/web/secrets"] {
            fs::create_dir_all(paths.root().join(dir)).expect("made");
        }
        let write = |path: PathBuf, text: &str| fs::write(path, text).expect("written");
        write(temp.path().join("outside"), SECRET);
        write(paths.root().join("tasks/web/secrets/token"), SECRET);
        write(paths.root().join("keepers/web/record"), SECRET);
        write(paths.root().join("tasks/web/local/page"), "hello\n");
        write(paths.root().join("logs/web.stdout.0"), "started\n");
        Self { temp, paths }
    }

    fn local(&self, name: &str) -> PathBuf {
        self.paths.task_dir("web").join("local").join(name)
    }

    fn names(&self, path: &str) -> Result<Vec<String>, String> {
        let files = inspect(&self.paths, path, true).map_err(|error| error.to_string())?.files;
        Ok(files.into_iter().map(|file| file.name).collect())
    }

    fn read(&self, path: &str) -> Result<String, String> {
        let request = FileRead { path: path.to_owned(), ..FileRead::default() };
        let mut reader = FileReader::open(&self.paths, &request).map_err(|error| error.to_string())?;
        let mut text = String::new();
        while let Some(piece) = reader.next_piece(4).map_err(|error| error.to_string())? {
            text += &String::from_utf8_lossy(&piece.data);
        }
        Ok(text)
    }
}

#[test]
fn an_allocation_looks_as_jobs_know_it() {
    let world = World::new();
    assert_eq!(world.names("/").unwrap(), ["alloc", "web"]);
    assert_eq!(world.names("alloc").unwrap(), ["data", "logs"]);
    assert_eq!(world.names("web/").unwrap(), ["local", "secrets"]);
    assert_eq!(world.names("./web//local").unwrap(), ["page"]);
    assert_eq!(world.read("alloc/logs/web.stdout.0").unwrap(), "started\n");
    assert_eq!(world.read("/web/local/page").unwrap(), "hello\n");
    let page = inspect(&world.paths, "web/local/page", false).unwrap().files.remove(0);
    assert!(page.is_regular() && page.modified_ns > 0);
    assert_eq!((page.size, page.content_type.as_str()), (6, "text/plain; charset=utf-8"));
    assert!(inspect(&world.paths, "", false).unwrap().files[0].is_dir());
}

#[test]
fn what_is_no_tasks_business_to_show_is_refused() {
    let world = World::new();
    symlink("../secrets", world.local("secrets")).unwrap();
    symlink("../secrets/token", world.local("token")).unwrap();
    symlink(world.temp.path().join("outside"), world.local("outside")).unwrap();
    symlink("../../keepers/web/record", world.paths.shared_dir().join("record")).unwrap();
    symlink("secrets", world.paths.task_dir("web").join("open")).unwrap();
    symlink("page", world.local("same")).unwrap();
    assert_eq!(world.read("web/local/same").unwrap(), "hello\n");
    for path in [
        "web/secrets",
        "web/secrets/token",
        "web/local/secrets/token",
        "web/local/token",
        "web/local/outside",
        "web/open/token",
        "alloc/record",
        "alloc/../tasks/web/secrets/token",
        "keepers/web/record",
    ] {
        assert!(world.read(path).is_err(), "{path} was read");
        assert!(world.names(path).is_err(), "{path} was listed");
        assert!(inspect(&world.paths, path, false).is_err(), "{path} was looked at");
    }
    let refusal = world.read("web/local/token").unwrap_err();
    assert!(refusal.starts_with("invalid: web/local/token leads out of its directory"), "{refusal}");
    assert!(world.read("web/local/none").unwrap_err().starts_with("not found: "));
    assert_eq!(world.read("web/local").unwrap_err(), "invalid: web/local is a directory");
}

#[test]
fn nobody_waits_at_a_pipe() {
    let world = World::new();
    rustix::fs::mkfifoat(rustix::fs::CWD, world.local("pipe"), rustix::fs::Mode::RWXU).unwrap();
    assert_eq!(world.read("web/local/pipe").unwrap_err(), "invalid: web/local/pipe is no regular file");
}

/// A task that puts something else at a path again and again.
fn race(world: &World, swap: impl Fn(&Path) + Sync, read: impl Fn() -> bool) {
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                swap(&world.local("x"));
            }
        });
        let seen = (0..RACES).filter(|_| read()).count();
        done.store(true, Ordering::Relaxed);
        assert_eq!(seen, 0, "what lies elsewhere was shown");
    });
}

/// Puts a link where a file or directory was, and back: renamed into place, so that there is always one of the two.
fn swap_with(target: &'static str, honest: impl Fn(&Path) + Sync) -> impl Fn(&Path) + Sync {
    move |path| {
        let other = path.with_extension("new");
        symlink(target, &other).unwrap();
        let _ = fs::remove_dir(path);
        fs::rename(&other, path).unwrap();
        fs::remove_file(path).unwrap();
        honest(&other);
        fs::rename(&other, path).unwrap();
    }
}

#[test]
fn no_race_with_a_link_shows_what_lies_elsewhere() {
    let world = World::new();
    let file = |path: &Path| fs::write(path, "mine").unwrap();
    let dir = |path: &Path| fs::create_dir(path).unwrap();
    for target in ["../secrets/token", "../../../../../outside"] {
        race(&world, swap_with(target, file), || world.read("web/local/x").is_ok_and(|text| text == SECRET));
        let is_secret = |size| size == SECRET.len() as u64;
        race(&world, swap_with(target, file), || {
            inspect(&world.paths, "web/local/x", false).is_ok_and(|found| is_secret(found.files[0].size))
        });
        fs::remove_file(world.local("x")).unwrap();
    }
    race(&world, swap_with("../secrets", dir), || {
        world.names("web/local/x").is_ok_and(|names| names.iter().any(|name| name == "token"))
    });
    race(&world, swap_with("../secrets", dir), || world.read("web/local/x/token").is_ok());
}

#[test]
fn a_directory_of_too_many_files_is_refused_by_name() {
    let world = World::new();
    (0..=FILES_MAX).for_each(|number| drop(fs::File::create(world.local(&number.to_string())).unwrap()));
    let refusal = world.names("web/local").unwrap_err();
    assert!(refusal.starts_with("invalid: web/local holds more than 10000 files"), "{refusal}");
}

#[test]
fn a_reader_learns_what_happens_to_the_file_that_it_follows() {
    let world = World::new();
    let request = FileRead { path: "web/local/page".into(), offset: 2, follow: true, ..FileRead::default() };
    let mut reader = FileReader::open(&world.paths, &request).unwrap();
    let mut next = || reader.next_piece(99).unwrap().map(|piece| (piece.offset, piece.data, piece.event));
    assert_eq!(next(), Some((2, b"llo\n".to_vec(), "")));
    assert_eq!(next(), None);
    fs::OpenOptions::new().write(true).truncate(true).open(world.local("page")).unwrap();
    assert_eq!(next(), Some((0, Vec::new(), "file truncated")));
    fs::write(world.local("page"), "new").unwrap();
    assert_eq!(next(), Some((0, b"new".to_vec(), "")));
    fs::remove_file(world.local("page")).unwrap();
    assert_eq!(next(), Some((3, Vec::new(), "file deleted")));
    assert_eq!(next(), None);
    assert!(reader.has_ended());
}

#[test]
fn a_part_of_a_file_is_what_was_asked_for() {
    let world = World::new();
    let read = |offset, from_end, limit| {
        let path = "web/local/page".to_owned();
        let request = FileRead { path, offset, from_end, limit, ..FileRead::default() };
        let piece = FileReader::open(&world.paths, &request).unwrap().next_piece(99).unwrap();
        piece.map(|piece| String::from_utf8(piece.data).unwrap())
    };
    assert_eq!(read(1, false, 3).as_deref(), Some("ell"));
    assert_eq!(read(3, true, 0).as_deref(), Some("lo\n"));
    assert_eq!(read(99, true, 0).as_deref(), Some("hello\n"));
    assert_eq!(read(99, false, 0), None);
}
