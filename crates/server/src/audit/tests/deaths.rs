//! A log whose process dies, or whose machine loses power, before each change of a file: while it writes, rotates and removes
//! files, and while it recovers from such a death.

use std::{
    cell::Cell,
    collections::BTreeSet,
    fs::{self, File},
    os::unix::fs::FileExt,
    panic::{AssertUnwindSafe, catch_unwind, resume_unwind},
    path::{Path, PathBuf},
};

use super::{
    super::{
        AuditConfig,
        trail::{HEAD, Trail, name, numbers},
        verify,
    },
    config, record,
};

/// Records of a life: enough for several files.
const RECORDS: usize = 16;
const FILE_BYTES_MAX: u64 = 600;

thread_local! {
    /// Steps that this thread has yet to live.
    static STEPS_LEFT: Cell<Option<u32>> = const { Cell::new(None) };
}

/// How a process ends here: nothing that it would have done comes after it.
struct Death;

/// A step of a log.
pub(in crate::audit) fn step() {
    let Some(left) = STEPS_LEFT.get() else { return };
    STEPS_LEFT.set(left.checked_sub(1));
    if left == 0 {
        resume_unwind(Box::new(Death));
    }
}

/// Whether it lived to its end, within so many steps.
fn lives(steps: u32, life: impl FnOnce()) -> bool {
    STEPS_LEFT.set(Some(steps));
    let ended = catch_unwind(AssertUnwindSafe(life));
    STEPS_LEFT.set(None);
    ended.map_err(|why| if why.is::<Death>() { Death } else { resume_unwind(why) }).is_ok()
}

/// What of the disk a loss of power may take.
#[derive(Debug, Clone, Copy)]
enum Loss {
    /// Nothing: only the process died.
    Nothing,
    /// All that was not synced.
    Unsynced,
    /// Half of it.
    Half,
    /// It is there, and zeros.
    Zeros,
}

const LOSSES: [Loss; 4] = [Loss::Nothing, Loss::Unsynced, Loss::Half, Loss::Zeros];

/// Where nothing waits for a disk, if there is such a place: what a loss of power takes is said here, not by the disk.
fn directory() -> tempfile::TempDir {
    tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).expect("a directory")
}

/// A copy of a log, as it may be found after its end. The note of where it ended is never synced: it may be as old as `head`.
fn after(dir: &Path, safe: &(PathBuf, u64), loss: Loss, head: Option<&[u8]>) -> tempfile::TempDir {
    let copy = directory();
    for entry in fs::read_dir(dir).expect("it is there").flatten() {
        fs::copy(entry.path(), copy.path().join(entry.file_name())).expect("it is copied");
    }
    let (newest, synced) = safe;
    let path = copy.path().join(newest.file_name().expect("a name"));
    let file = File::options().write(true).open(&path).expect("it is there");
    let length = file.metadata().expect("it is there").len();
    let unsynced = length.checked_sub(*synced).expect("what was synced is there");
    match loss {
        Loss::Nothing => {}
        Loss::Unsynced => file.set_len(*synced).expect("it is cut"),
        Loss::Half => file.set_len(synced + unsynced / 2).expect("it is cut"),
        Loss::Zeros => {
            let zeros = vec![0; usize::try_from(unsynced).expect("few")];
            file.write_all_at(&zeros, *synced).expect("it is written");
        }
    }
    if let Some(head) = head {
        fs::write(copy.path().join(HEAD), head).expect("it is written");
    }
    copy
}

/// The numbers of the records that a log has, in its order.
fn records(dir: &Path) -> Vec<usize> {
    let files = numbers(dir).expect("it is there").into_iter().map(|number| dir.join(name(number)));
    let text: String = files.map(|path| fs::read_to_string(path).expect("text")).collect();
    let number = |line: &str| {
        let line: serde_json::Value = serde_json::from_str(line).expect("JSON");
        line["number"].as_u64().map(|number| usize::try_from(number).expect("small"))
    };
    text.lines().filter_map(number).collect()
}

/// Writes, and says of which records it was informed that they are on disk.
fn write(trail: &mut Trail, acknowledged: &Cell<usize>) {
    for number in 0..RECORDS {
        trail.push(&record(number));
        // Of some nobody waits to hear that they are on disk.
        let sync = number % 3 != 1;
        trail.flush(sync).expect("it is written");
        if sync {
            acknowledged.set(number + 1);
        }
        if trail.is_full() {
            trail.flush(true).expect("it is written");
            acknowledged.set(number + 1);
            trail.rotate(1 << 16).expect("there is room");
        }
    }
}

/// What a log must be that is gone on with: nothing that was acknowledged is missing but what went with old files, nothing stands there
/// twice, and the chain holds over all files.
fn check(what: &str, config: &AuditConfig, acknowledged: usize) {
    let mut trail = Trail::open(config, "s1").expect("it goes on");
    assert!(trail.take_failure().is_none(), "{what}");
    trail.push(&record(RECORDS));
    trail.flush(true).expect("it is written");
    drop(trail);
    let verified = verify(&config.dir, None).unwrap_or_else(|problem| panic!("{what}: {problem}"));
    let found = records(&config.dir);
    let once: BTreeSet<usize> = found.iter().copied().collect();
    assert_eq!(found, Vec::from_iter(once.iter().copied()), "{what}: each once, in order");
    assert!(once.contains(&RECORDS), "{what}: what comes after is there");
    let first = if verified.first == 1 { 0 } else { found[0] };
    let missing: Vec<usize> = (first..acknowledged).filter(|number| !once.contains(number)).collect();
    assert!(missing.is_empty(), "{what}: {acknowledged} acknowledged, missing {missing:?} of {found:?}");
    if config.files_max > RECORDS {
        assert_eq!(verified.first, 1, "{what}: none was removed");
    }
}

/// Dies before each step of writing, with each loss. `again` says whether it also dies before each step of going on.
fn die_at_each_step(files_max: usize, again: bool) {
    let mut deaths = 0;
    for steps in 0.. {
        let dir = directory();
        let config = AuditConfig { files_max, file_bytes_max: FILE_BYTES_MAX, ..config(dir.path()) };
        let mut trail = Trail::open(&config, "s1").expect("it begins");
        let first_head = fs::read(dir.path().join(HEAD)).expect("it is there");
        let acknowledged = Cell::new(0);
        let lived = lives(steps, || write(&mut trail, &acknowledged));
        let (safe, acknowledged) = (trail.safe(), acknowledged.get());
        drop(trail);
        for loss in LOSSES {
            for head in [None, Some(&*first_head)] {
                let copy = after(dir.path(), &safe, loss, head);
                let config = AuditConfig { dir: copy.path().to_owned(), ..config.clone() };
                let what = format!("step {steps}, {loss:?}, {} head", head.map_or("new", |_| "old"));
                for further in 0.. {
                    if !again || lives(further, || drop(Trail::open(&config, "s1"))) {
                        break;
                    }
                    deaths += 1;
                }
                check(&what, &config, acknowledged);
            }
        }
        if lived {
            assert_eq!(acknowledged, RECORDS);
            assert!(numbers(dir.path()).expect("it is there").last() > Some(&4), "it has rotated");
            break;
        }
        deaths += 1;
    }
    println!("died {deaths} times");
}

#[test]
fn a_death_before_any_step_loses_nothing_acknowledged_and_writes_nothing_twice() {
    die_at_each_step(100, false);
}

#[test]
fn a_death_while_old_files_go_and_again_while_the_end_is_looked_for_loses_no_more() {
    die_at_each_step(2, true);
}
