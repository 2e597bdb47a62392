//! A server process is killed again and again while it writes to a real disk; what it said is kept must be there.

#[path = "support/mod.rs"]
mod support;

use std::{
    env,
    io::{BufRead, BufReader, Write},
    path::Path,
    process::{Child, Command, Stdio},
    sync::Arc,
    time::Duration,
};

use berth_replication::{Config, Replication};
use support::Recorder;

/// Names the data directory to the process that is to be killed.
const DIR_VARIABLE: &str = "BERTH_TEST_KILL_DIR";
/// How often it is killed.
const KILLS: u64 = 8;

async fn open(dir: &Path) -> (Replication, Arc<Recorder>) {
    let recorder = Arc::new(Recorder::default());
    let config = Config { snapshot_entries: 200, ..Config::new(dir, "kill") };
    let observer: Arc<Recorder> = Arc::clone(&recorder);
    (Replication::open(config, observer).await.unwrap(), recorder)
}

/// The process that is to be killed: writes, and says what was acknowledged. Does nothing in an ordinary run.
#[tokio::test(flavor = "multi_thread")]
async fn victim() {
    let Ok(dir) = env::var(DIR_VARIABLE) else { return };
    let (log, recorder) = open(Path::new(&dir)).await;
    let mut out = std::io::stdout();
    for first in (recorder.index() + 1..).step_by(16) {
        let mut pending = Vec::new();
        for index in first..first + 16 {
            pending.push(log.submit(log.term(), support::register(index)).await.unwrap());
        }
        for submitted in pending {
            let index = submitted.applied().await.unwrap().index;
            writeln!(out, "acknowledged {index}").unwrap();
        }
        out.flush().unwrap();
    }
}

fn start(dir: &Path) -> Child {
    let mut command = Command::new(env::current_exe().unwrap());
    command.args(["victim", "--exact", "--nocapture"]).env(DIR_VARIABLE, dir).stdout(Stdio::piped());
    command.spawn().unwrap()
}

/// Lets a server run for a while, kills it, and returns the last index that it had acknowledged.
fn run_and_kill(dir: &Path, round: u64) -> u64 {
    let mut server = start(dir);
    let stdout = BufReader::new(server.stdout.take().unwrap());
    let mut lines = stdout
        .lines()
        .map_while(Result::ok)
        .filter_map(|line| line.rsplit_once("acknowledged ")?.1.parse().ok());
    let first: u64 = lines.next().expect("the server acknowledges something");
    std::thread::sleep(Duration::from_millis(50 + 37 * round));
    server.kill().unwrap();
    let last = lines.last().unwrap_or(first);
    server.wait().unwrap();
    last
}

#[tokio::test(flavor = "multi_thread")]
async fn a_killed_server_keeps_what_it_acknowledged() {
    let dir = tempfile::tempdir().unwrap();
    for round in 0..KILLS {
        let acknowledged = run_and_kill(dir.path(), round);
        let (log, recorder) = open(dir.path()).await;
        let store = recorder.store.lock().unwrap().clone();
        assert!(store.index().0 >= acknowledged, "{} of {acknowledged} are left", store.index());
        assert_eq!(store.jobs().len() as u64, store.index().0);
        log.shutdown().await.unwrap();
    }
}
