//! The disk fails, or the power does.

use std::sync::atomic::Ordering;

use super::{Server, propose, support};
use crate::{OpenError, ProposeError, UnknownOutcome};

#[tokio::test]
async fn after_one_failed_sync_nothing_is_acknowledged() {
    let server = Server::new();
    let (log, recorder) = server.open().await.unwrap();
    propose(&log, 1..20).await;
    server.disk.faults().no_sync.store(true, Ordering::SeqCst);
    let failed = log.propose(support::register(20)).await;
    assert!(
        matches!(&failed, Err(ProposeError::Unknown(UnknownOutcome::Stopped(why))) if why.contains("input/output error")),
        "{failed:?}"
    );
    server.disk.faults().no_sync.store(false, Ordering::SeqCst);
    for index in 21..25 {
        let refused = log.propose(support::register(index)).await;
        assert!(matches!(refused, Err(ProposeError::Unknown(UnknownOutcome::Stopped(_)))), "{refused:?}");
    }
    assert_eq!(recorder.index(), 19, "applied without being durable");
    let fatal = recorder.fatal.lock().unwrap().clone();
    assert_eq!(fatal, ["write log: input/output error"]);
    let (next, after) = server.after_power_cut().open().await.unwrap();
    assert_eq!(after.index(), 19);
    next.shutdown().await.unwrap();
    log.shutdown().await.ok();
}

/// What chance makes of each sector and name that was not synced.
fn chance(seed: usize) -> impl FnMut() -> bool {
    let mut state = seed as u64;
    move || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        state >> 63 == 1
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_power_cut_at_any_step_loses_nothing_acknowledged() {
    ends_at_every_step(chance).await;
}

/// What a killed process has written is there, synced or not.
#[tokio::test(flavor = "multi_thread")]
async fn a_kill_at_any_step_loses_nothing_acknowledged() {
    ends_at_every_step(|_| || true).await;
}

/// Ends a server at every step that changes the disk, in turn: of its log, its snapshots, and its small files. `found` says
/// what is there afterwards of what was not synced.
async fn ends_at_every_step<F: FnMut() -> bool>(found: impl Fn(usize) -> F) {
    let mut survived = 0;
    for step in 1.. {
        let mut server = Server::new();
        server.config.snapshot_entries = 10;
        server.disk.faults().power_off_after.store(step, Ordering::SeqCst);
        let acknowledged = run_until_cut(&server).await;
        let found = server.disk.after_power_cut(found(step));
        let (log, after) =
            server.with(&found).open().await.unwrap_or_else(|error| panic!("step {step}: {error}"));
        let last_index = after.index();
        assert!(
            last_index >= acknowledged && last_index <= acknowledged + 4,
            "step {step}: {last_index} of {acknowledged}"
        );
        propose(&log, last_index + 1..last_index + 3).await;
        log.shutdown().await.unwrap();
        if acknowledged == RUN - 1 && !server.disk.faults().no_power.load(Ordering::SeqCst) {
            break;
        }
        survived += 1;
    }
    assert!(survived > 100, "only {survived} steps");
}

/// Entries of a run.
const RUN: u64 = 120;

/// Proposes four at a time until it fails or is done, and returns the last index that was acknowledged.
async fn run_until_cut(server: &Server) -> u64 {
    let Ok((log, _)) = server.open().await else { return 0 };
    let mut acknowledged = 0;
    'run: for first in (1..RUN).step_by(4) {
        let mut pending = Vec::new();
        for index in first..(first + 4).min(RUN) {
            match log.submit(log.term(), support::register(index)).await {
                Ok(submitted) => pending.push(submitted),
                Err(_) => break 'run,
            }
        }
        for submitted in pending {
            match submitted.applied().await {
                Ok(applied) => acknowledged = applied.index.0,
                Err(_) => break 'run,
            }
        }
    }
    log.shutdown().await.ok();
    acknowledged
}

#[tokio::test]
async fn a_directory_has_one_server() {
    let server = Server::new();
    let (log, _) = server.open().await.unwrap();
    let second = server.open().await.map(|_| ()).unwrap_err();
    let us = std::process::id();
    assert!(matches!(&second, OpenError::InUse { pid: Some(pid), .. } if *pid == us), "{second}");
    assert!(second.to_string().contains(&server.dir.path().display().to_string()), "{second}");
    log.shutdown().await.unwrap();
}

#[tokio::test]
async fn a_directory_belongs_to_one_server_of_one_cluster() {
    let mut server = Server::new();
    server.open().await.unwrap().0.shutdown().await.unwrap();
    server.config.server_id = 2;
    let refused = server.open().await.map(|_| ()).unwrap_err().to_string();
    assert!(refused.contains("belongs to server 1 of cluster `test`"), "{refused}");
    assert!(refused.contains("this is server 2"), "{refused}");
}
