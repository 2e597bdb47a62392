//! A log whose server is killed, whose disk is full, and whose files are changed.

pub(super) mod deaths;

use std::{
    fs::{self, File, OpenOptions},
    io::Write,
    os::unix::fs::FileExt,
    path::{Path, PathBuf},
    process::Command,
    time::Duration,
};

use super::{
    trail::{HEAD, Trail, name},
    *,
};

fn config(dir: &Path) -> AuditConfig {
    AuditConfig {
        dir: dir.to_owned(),
        file_bytes_max: 64 << 20,
        files_max: 4,
        keep: Duration::ZERO,
        all_reads: false,
    }
}

fn record(number: usize) -> Vec<u8> {
    format!(r#""kind":"request","number":{number}"#).into_bytes()
}

/// A log of so many records, in files of so few bytes.
fn write_log(dir: &Path, records: usize, file_bytes_max: u64) -> VerifiedLog {
    write_log_of("s1", dir, records, file_bytes_max)
}

/// The same of another server, whose log says who it is.
fn write_log_of(server: &str, dir: &Path, records: usize, file_bytes_max: u64) -> VerifiedLog {
    let config = AuditConfig { file_bytes_max, files_max: 100, ..config(dir) };
    let mut trail = Trail::open(&config, server).expect("it begins");
    for number in 0..records {
        trail.push(&record(number));
        trail.flush(true).expect("it is written");
        if trail.is_full() {
            trail.rotate(1 << 20).expect("there is room");
        }
    }
    drop(trail);
    verify(dir, None).expect("it is as it was written")
}

fn only(dir: &Path) -> PathBuf {
    dir.join(name(1))
}

fn lines(path: &Path) -> Vec<String> {
    fs::read_to_string(path).expect("text").lines().map(str::to_owned).collect()
}

fn first_problem(dir: &Path) -> LogProblem {
    verify(dir, None).expect_err("it is not as it was written")
}

#[test]
fn a_log_goes_on_over_files_and_starts_and_the_oldest_go() {
    let dir = tempfile::tempdir().expect("a directory");
    let all = write_log(dir.path(), 50, 1000);
    assert!(all.files > 5 && all.notes.is_empty(), "{all:?}");
    assert_eq!((all.first, all.last), (1, all.records));
    drop(
        Trail::open(&AuditConfig { files_max: 3, file_bytes_max: 1, ..config(dir.path()) }, "s1")
            .expect("it goes on"),
    );
    let again = verify(dir.path(), Some(all.hash)).expect("it is as it was written");
    assert_eq!(again.last, all.last + 1, "it says that it was started");
    let mut trail =
        Trail::open(&AuditConfig { files_max: 3, ..config(dir.path()) }, "s1").expect("it goes on");
    trail.rotate(1 << 20).expect("there is room");
    drop(trail);
    let few = verify(dir.path(), None).expect("it is as it was written");
    assert_eq!(few.files, 3);
    assert!(few.first > 1 && few.notes[0].contains("those before are gone"), "{few:?}");
}

#[test]
fn files_are_kept_for_as_long_as_they_should_be_and_one_that_goes_young_is_counted() {
    let dir = tempfile::tempdir().expect("a directory");
    let config = AuditConfig { files_max: 2, keep: Duration::from_secs(3_600), ..config(dir.path()) };
    let mut trail = Trail::open(&config, "s1").expect("it begins");
    for _ in 0..5 {
        trail.rotate(1 << 20).expect("there is room");
    }
    assert_eq!((super::trail::numbers(dir.path()).expect("files").len(), trail.removed_young()), (6, 0));
    let old = File::options().write(true).open(only(dir.path())).expect("it is there");
    old.set_modified(std::time::SystemTime::now() - Duration::from_secs(3_601)).expect("it is set");
    trail.rotate(1 << 20).expect("there is room");
    assert_eq!(super::trail::numbers(dir.path()).expect("files"), [2, 3, 4, 5, 6, 7]);
    assert_eq!(trail.removed_young(), 1, "it was not a day old");
}

#[test]
fn every_bit_that_is_flipped_is_found_in_its_line() {
    let dir = tempfile::tempdir().expect("a directory");
    write_log(dir.path(), 3, 64 << 20);
    let whole = fs::read(only(dir.path())).expect("it is there");
    let file = OpenOptions::new().write(true).open(only(dir.path())).expect("it is there");
    let (mut line, mut flipped) = (1, 0);
    for (at, byte) in whole.iter().enumerate() {
        for bit in 0..8 {
            file.write_all_at(&[byte ^ (1 << bit)], at as u64).expect("it is written");
            let problem = first_problem(dir.path());
            assert_eq!(problem.line, line, "bit {bit} of byte {at}: {problem}");
            flipped += 1;
        }
        file.write_all_at(&[*byte], at as u64).expect("it is written");
        line += u64::from(*byte == b'\n');
    }
    assert!(flipped > 5000, "{flipped}");
    verify(dir.path(), None).expect("all is as it was");
}

#[test]
fn lines_that_are_taken_out_or_moved_are_named() {
    let dir = tempfile::tempdir().expect("a directory");
    let all = write_log(dir.path(), 6, 64 << 20);
    let path = only(dir.path());
    let whole = lines(&path);
    let put = |lines: &[String]| {
        fs::write(&path, lines.iter().map(|line| format!("{line}\n")).collect::<String>()).expect("written");
        first_problem(dir.path())
    };
    for at in 0..whole.len() {
        let mut lines = whole.clone();
        lines.remove(at);
        let problem = put(&lines);
        assert!(matches!(problem.wrong, LineFault::Missing { .. }), "line {at}: {problem}");
        assert_eq!(problem.line, at as u64 + 1, "{problem}");
        for other in at + 1..whole.len() {
            let mut lines = whole.clone();
            lines.swap(at, other);
            let problem = put(&lines);
            let found = matches!(problem.wrong, LineFault::Moved { .. }) || at == 0;
            assert!(found && problem.line == at as u64 + 1, "lines {at} and {other}: {problem}");
        }
        let mut lines = whole.clone();
        lines.insert(at, whole[at].clone());
        assert!(matches!(put(&lines).wrong, LineFault::Moved { .. } | LineFault::Changed { .. }));
    }
    let problem = put(&whole[..3]);
    assert_eq!(problem.wrong, LineFault::Missing { from: 4, to: all.last }, "the note of its end tells");
    // Whoever takes lines off the end takes the note away too: a hash that was kept tells.
    let head = fs::read(dir.path().join(HEAD)).expect("it is there");
    fs::remove_file(dir.path().join(HEAD)).expect("it was there");
    assert_eq!(first_problem(dir.path()).wrong, LineFault::NoHead);
    fs::write(&path, whole.iter().map(|line| format!("{line}\n")).collect::<String>()).expect("written");
    let known = verify(dir.path(), Some(all.hash)).expect("it is all there");
    assert!(known.notes[0].contains("head"), "{known:?}");
    fs::write(&path, whole[..3].iter().map(|line| format!("{line}\n")).collect::<String>()).expect("written");
    drop(Trail::open(&config(dir.path()), "s1").expect("it goes on"));
    let problem = first_problem(dir.path());
    assert_eq!((problem.wrong, problem.line), (LineFault::NoHead, 4), "the server that went on has said so");
    assert_ne!(fs::read(dir.path().join(HEAD)).expect("there is a new one"), head);
    let problem = verify(dir.path(), Some(all.hash)).expect_err("it is not there");
    assert_eq!(problem.wrong, LineFault::NotThere(all.hash));
}

#[test]
fn a_file_that_is_taken_away_from_a_server_that_writes_it_is_missed_at_once() {
    let dir = tempfile::tempdir().expect("a directory");
    let mut trail = Trail::open(&config(dir.path()), "s1").expect("it begins");
    let aside = dir.path().join("aside");
    fs::rename(only(dir.path()), &aside).expect("it is there");
    trail.push(&record(1));
    let gone = trail.flush(true).expect_err("nobody finds what is written there").to_string();
    assert!(gone.contains("was removed or replaced") && gone.contains("audit-00000001.jsonl"), "{gone}");
    fs::rename(&aside, only(dir.path())).expect("it is there");
    trail.flush(true).expect("it is back");
    drop(trail);
    verify(dir.path(), None).expect("nothing was lost");
}

#[test]
fn a_file_that_is_gone_or_from_elsewhere_is_named() {
    let dir = tempfile::tempdir().expect("a directory");
    let all = write_log(dir.path(), 40, 1000);
    assert!(all.files > 4);
    let third = dir.path().join(name(3));
    let third_bytes = fs::read(&third).expect("it is there");
    fs::remove_file(&third).expect("it is there");
    let problem = first_problem(dir.path());
    assert!(
        matches!(problem.wrong, LineFault::Missing { .. }) && problem.file.ends_with(&name(4)),
        "{problem}"
    );
    let other = tempfile::tempdir().expect("a directory");
    let _ = write_log_of("s2", other.path(), 40, 1000);
    fs::copy(other.path().join(name(3)), &third).expect("it is copied");
    assert!(first_problem(dir.path()).file.ends_with(&name(3)));
    fs::write(&third, third_bytes).expect("it is written");
    assert!(verify(dir.path(), None).is_ok());
    let one = verify(&third, None).expect("one file by itself");
    assert!(one.first > 1 && one.last > one.first, "{one:?}");
}

#[test]
fn a_torn_line_is_cut_off_and_reported_and_a_damaged_one_stays() {
    let dir = tempfile::tempdir().expect("a directory");
    let all = write_log(dir.path(), 3, 64 << 20);
    let path = only(dir.path());
    let mut file = OpenOptions::new().append(true).open(&path).expect("it is there");
    file.write_all(br#"{"sequence":6,"kind":"requ"#).expect("it is written");
    let torn = verify(dir.path(), None).expect("nobody was answered");
    assert!(torn.notes[0].contains("26 bytes"), "{torn:?}");
    drop(Trail::open(&config(dir.path()), "s1").expect("it goes on"));
    let on = verify(dir.path(), None).expect("it is as it was written");
    assert_eq!(on.last, all.last + 1);
    assert!(lines(&path).last().expect("a line").contains(r#""cut_bytes":26"#));

    let mut damaged = lines(&path);
    damaged[2] = damaged[2].replace("number", "xumber");
    let text: String = damaged.iter().map(|line| format!("{line}\n")).collect();
    fs::write(&path, &text).expect("it is written");
    let mut trail = Trail::open(&config(dir.path()), "s1").expect("it goes on");
    trail.push(&record(9));
    trail.flush(true).expect("it is written");
    drop(trail);
    assert_eq!(fs::read_to_string(&path).expect("text"), text, "the damaged file is left as it is");
    let second = lines(&dir.path().join(name(2)));
    assert!(second[1].contains("audit-00000001.jsonl:3"), "{second:?}");
    assert_eq!(first_problem(dir.path()).line, 3);
    verify(&dir.path().join(name(2)), None).expect("what came after is whole");
}

#[test]
fn lines_that_are_gone_from_the_end_leave_a_gap_in_the_numbers() {
    let dir = tempfile::tempdir().expect("a directory");
    let all = write_log(dir.path(), 9, 64 << 20);
    let path = only(dir.path());
    let first_lines: String = lines(&path)[..4].iter().map(|line| format!("{line}\n")).collect();
    fs::write(&path, first_lines).expect("it is written");
    drop(Trail::open(&config(dir.path()), "s1").expect("it goes on"));
    assert_eq!(first_problem(dir.path()).wrong, LineFault::Missing { from: 5, to: all.last });
}

#[test]
fn an_empty_newest_file_is_removed() {
    let dir = tempfile::tempdir().expect("a directory");
    let all = write_log(dir.path(), 3, 64 << 20);
    fs::write(dir.path().join(name(2)), "").expect("it is written");
    drop(Trail::open(&config(dir.path()), "s1").expect("it goes on"));
    let on = verify(dir.path(), None).expect("it is as it was written");
    assert_eq!((on.files, on.last), (1, all.last + 1));
    assert!(!dir.path().join(name(2)).exists());
}

#[test]
fn a_log_is_written_by_one_server_at_a_time() {
    let dir = tempfile::tempdir().expect("a directory");
    let trail = Trail::open(&config(dir.path()), "s1").expect("it begins");
    let error = Trail::open(&config(dir.path()), "s2").expect_err("it is taken");
    assert!(error.to_string().contains("another server"), "{error}");
    drop(trail);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_records_at_once_are_all_written_in_few_syncs() {
    let dir = tempfile::tempdir().expect("a directory");
    let log =
        AuditLog::open(AuditConfig { file_bytes_max: 100_000, files_max: 100, ..config(dir.path()) }, "s1");
    let log = log.expect("it begins");
    let mut all = tokio::task::JoinSet::new();
    for number in 0..3_000 {
        let log = log.clone();
        all.spawn(async move {
            let line = log.reserve().await.expect("there is room");
            if number % 3 == 0 {
                // A reservation that is dropped is released.
                drop(line);
            } else {
                line.record_synced(record(number)).await.expect("it is written");
            }
        });
    }
    while let Some(outcome) = all.join_next().await {
        outcome.expect("none panics");
    }
    log.close();
    let verified = verify(dir.path(), None).expect("it is as it was written");
    let started_stopped_and_begun = 2 + verified.files;
    assert_eq!(verified.records, 2_000 + started_stopped_and_begun);
    let syncs = metric(&log, "berth_audit_fsync_seconds");
    println!("{syncs} syncs of 2,000 records");
    assert!(log.reserve().await.is_err(), "it has ended");
}

fn metric(log: &AuditLog, name: &str) -> u64 {
    let all = log.metrics();
    let metric = all.iter().find(|metric| metric.name == name).expect("it is measured");
    match &metric.samples[0].1 {
        crate::shared::Measured::Counter(value) | crate::shared::Measured::Gauge(value) => *value as u64,
        crate::shared::Measured::Spread(spread) => spread.count(),
        crate::shared::Measured::Summary { count, .. } => *count,
    }
}

/// A file system of a megabyte or two; none where nobody may mount one, which is printed.
struct SmallDisk(tempfile::TempDir);

impl SmallDisk {
    fn mount() -> Option<Self> {
        let dir = tempfile::tempdir().expect("a directory");
        let mounted =
            Command::new("mount").args(["-t", "tmpfs", "-o", "size=2m", "tmpfs"]).arg(dir.path()).status();
        if mounted.is_ok_and(|status| status.success()) {
            return Some(Self(dir));
        }
        println!("skipped: no file system can be mounted here");
        None
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(self.0.path()).status();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_full_disk_refuses_reservations_and_loses_no_acknowledged_record() {
    let Some(disk) = SmallDisk::mount() else { return };
    let dir = disk.0.path().join("audit");
    let log = AuditLog::open(config(&dir), "s1").expect("it begins");
    let filler = disk.0.path().join("filler");
    let fill = || {
        let mut file = File::create(&filler).expect("it is made");
        while file.write_all(&[1; 4096]).is_ok() {}
    };
    fill();
    let mut written = 0;
    for round in 0..2 {
        let refused = loop {
            match log.reserve().await {
                Ok(line) => {
                    line.record_synced(record(written)).await.expect("its room was reserved");
                    written += 1;
                }
                // It may have found some room since, for as long as nobody takes that.
                Err(refused) if metric(&log, "berth_audit_failing") == 1 => break refused.to_string(),
                Err(_) => {}
            }
        };
        assert!(refused.contains("No space left on device") && refused.contains("make room"), "{refused}");
        fs::remove_file(&filler).expect("it is there");
        let line = loop {
            match log.reserve().await {
                Ok(line) => break line,
                Err(_) => tokio::time::sleep(std::time::Duration::from_millis(50)).await,
            }
        };
        line.record_synced(record(written)).await.expect("there is room");
        written += 1;
        if round == 0 {
            fill();
        }
    }
    log.close();
    let verified = verify(&dir, None).expect("it is as it was written");
    assert_eq!(verified.records, written as u64 + 3);
    assert!(written > 500, "what was reserved ahead was used: {written}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_starts_with_a_full_disk_refuses_what_must_be_recorded_and_goes_on_once_there_is_room() {
    let Some(disk) = SmallDisk::mount() else { return };
    let dir = disk.0.path().join("audit");
    let before = write_log(&dir, 3, 64 << 20);
    // What was reserved is given back when it starts again, which would be room enough.
    let log = File::options().write(true).open(only(&dir)).expect("it is there");
    log.set_len(log.metadata().expect("a file").len()).expect("it is cut");
    let filler = disk.0.path().join("filler");
    let mut file = File::create(&filler).expect("it is made");
    while file.write_all(&[1; 512]).is_ok() {}
    let log = AuditLog::open(config(&dir), "s1").expect("it starts all the same");
    let refused = log.reserve().await.expect_err("there is no room").to_string();
    assert!(refused.contains("No space left on device"), "{refused}");
    fs::remove_file(&filler).expect("it is there");
    let line = loop {
        match log.reserve().await {
            Ok(line) => break line,
            Err(_) => tokio::time::sleep(Duration::from_millis(50)).await,
        }
    };
    line.record_synced(record(1)).await.expect("there is room");
    log.close();
    let verified = verify(&dir, None).expect("it is as it was written");
    assert_eq!(verified.last, before.last + 3, "it says that it was started, too");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_disk_that_hangs_holds_nobody_for_long_and_no_end_of_the_server() {
    let dir = tempfile::tempdir().expect("a directory");
    let log = AuditLog::open(config(dir.path()), "s1")
        .expect("it begins")
        .with_stall_max(Duration::from_millis(200));
    let line = log.reserve().await.expect("there is room");
    let hung = log.hang();
    line.record(record(1));
    // What is free already is given out until it is known that the disk hangs.
    let refused = loop {
        match log.reserve().await {
            Ok(line) => drop(line),
            Err(refused) => break refused.to_string(),
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    };
    assert!(refused.contains("has done nothing"), "{refused}");
    log.close();
    drop(hung);
    log.close();
}

#[tokio::test]
async fn a_cancelled_reservation_requests_no_space() {
    let dir = tempfile::tempdir().expect("a directory");
    let log = AuditLog::open(config(dir.path()), "s1").expect("it begins");
    let hung = log.hang();
    let all = log.reserve_all();
    for _ in 0..100 {
        assert!(tokio::time::timeout(Duration::from_millis(1), log.reserve()).await.is_err(), "it waits");
    }
    assert_eq!(log.wanted(), 0);
    drop((hung, all));
    log.close();
}
