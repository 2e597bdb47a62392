//! Where the blocks of a page run: an empty directory, and a `berth dev`.

use std::{
    fs,
    path::Path,
    process::{Command, Stdio},
    sync::atomic::{AtomicU32, Ordering},
    time::{Duration, Instant},
};

use regex::Regex;
use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

use super::e2e::{self, Daemon};

/// Until what a page shows must be there; no measure of how fast it should be.
const PATIENCE: Duration = Duration::from_secs(20);
/// Seconds until a script that does not end is killed: it would hold up all others forever.
const SCRIPT_ENDS_WITHIN_S: &str = "120";
/// Between two looks.
const LOOK_AGAIN: Duration = Duration::from_millis(100);
/// Commands that only look: what they show may take its time.
const LOOKS: &[&str] =
    &["berth logs", "berth ps", "berth job status", "berth alloc", "berth eval", "berth node status"];

/// The loopback addresses that pages name.
const LOOPBACK: &str = "127.0.0.";

/// A directory and a server.
pub struct Shell {
    dir: TempDir,
    address: String,
    server: Daemon,
    /// Loopback addresses that no other run of the tests uses, so that pages may name ports.
    loopback: String,
}

/// What a command did.
struct Ran {
    printed: String,
    code: i32,
}

/// The first three bytes of addresses that no other page has, of this run or of one beside it.
fn own_loopback() -> String {
    static GIVEN: AtomicU32 = AtomicU32::new(0);
    let pages_at_most = 256;
    let number = std::process::id() * pages_at_most + GIVEN.fetch_add(1, Ordering::Relaxed) % pages_at_most;
    let [_, _, high, low] = number.to_be_bytes();
    format!("127.{}.{low}.", high % 254 + 1)
}

impl Shell {
    /// Starts the server.
    pub fn start() -> Self {
        let dir = TempDir::new().expect("a directory");
        let bin = dir.path().join(".bin");
        fs::create_dir(&bin).expect("a directory");
        std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_berth"), bin.join("berth")).expect("a link");
        let mut command = e2e::berth(&["dev", "--http-addr", "127.0.0.1:0"]);
        command.env("TMPDIR", dir.path());
        let mut server = Daemon::spawn(command, &dir.path().join(".told"));
        let address = e2e::http_address(&server.ready_line());
        let loopback = own_loopback();
        Self { dir, address: format!("http://{address}"), server, loopback }
    }

    /// What a page says, with the addresses of this run.
    fn own(&self, text: &str) -> String {
        text.replace(LOOPBACK, &self.loopback)
    }

    /// Writes a file.
    pub fn file(&self, name: &str, text: &str) -> Result<(), String> {
        fs::write(self.dir.path().join(name), self.own(text)).map_err(|error| format!("{name}: {error}"))
    }

    /// Runs a script; every command must succeed.
    pub fn script(&self, text: &str) -> Result<(), String> {
        let text = self.own(text);
        let ran = self.run(&format!("set -eu\n{text}"));
        if ran.code == 0 {
            Ok(())
        } else {
            Err(format!("it ends with {}:\n{}\n{}", ran.code, ran.printed, self.logs()))
        }
    }

    /// The ends of what was logged into files.
    fn logs(&self) -> String {
        self.run("tail -n 20 *.log 2>&1").printed
    }

    /// Runs the commands of a session, and compares what they print with what is shown.
    pub fn console(&self, text: &str) -> Result<(), String> {
        let steps = steps(&self.own(text));
        let mut code = 0;
        for (at, (command, shown)) in steps.iter().enumerate() {
            let code_is_shown = steps.get(at + 1).is_some_and(|(next, _)| next == "echo $?");
            let ran = self.until_shown(command, code, shown)?;
            if ran.code != 0 && !code_is_shown {
                return Err(format!("`{command}` ends with {}:\n{}", ran.code, ran.printed));
            }
            code = ran.code;
        }
        Ok(())
    }

    /// Runs a command after one that ended with `code`; again as long as it only looks and does not show enough.
    fn until_shown(&self, command: &str, code: i32, shown: &[String]) -> Result<Ran, String> {
        let since = Instant::now();
        loop {
            let ran = self.run(&format!("(exit {code})\n{command}"));
            let Some(missing) = missing(shown, &ran.printed) else { return Ok(ran) };
            if !LOOKS.iter().any(|look| command.starts_with(look)) || since.elapsed() > PATIENCE {
                return Err(format!("`{command}` does not print\n  {missing}\nbut\n{}", ran.printed));
            }
            std::thread::sleep(LOOK_AGAIN);
        }
    }

    fn run(&self, script: &str) -> Ran {
        let path = format!("{}:{}", self.dir.path().join(".bin").display(), env!("PATH"));
        let mut command = Command::new("timeout");
        for (name, _) in std::env::vars_os() {
            if name.to_str().is_some_and(|name| name.starts_with("BERTH_") || name.starts_with("NOMAD_")) {
                command.env_remove(name);
            }
        }
        let output = command
            .args([SCRIPT_ENDS_WITHIN_S, "sh", "-c", &format!("exec 2>&1\n{script}")])
            .current_dir(self.dir.path())
            .env("PATH", path)
            .env("BERTH_ADDR", &self.address)
            .env("NOMAD_ADDR", &self.address)
            .env("LC_ALL", "C.UTF-8")
            .stdin(Stdio::null())
            .output()
            .expect("there is a shell");
        Ran {
            printed: String::from_utf8_lossy(&output.stdout).into_owned(),
            code: output.status.code().unwrap_or(-1),
        }
    }
}

impl Drop for Shell {
    /// However a page ends, none of its tasks stays, and nothing that its scripts have started.
    fn drop(&mut self) {
        self.server.stop();
        for pid in working_in(self.dir.path()) {
            let _ = kill_process(pid, Signal::KILL);
        }
    }
}

/// The processes whose working directory is this one, or lies in it.
fn working_in(dir: &Path) -> Vec<Pid> {
    let dir = dir.canonicalize().expect("it is there");
    let processes = fs::read_dir("/proc").expect("it is mounted").filter_map(Result::ok);
    let works_here = |process: &fs::DirEntry| {
        fs::read_link(process.path().join("cwd")).is_ok_and(|works_in| works_in.starts_with(&dir))
    };
    let pid = |process: fs::DirEntry| Pid::from_raw(process.file_name().to_str()?.parse().ok()?);
    processes.filter(works_here).filter_map(pid).collect()
}

/// Each command, and the lines shown below it.
fn steps(text: &str) -> Vec<(String, Vec<String>)> {
    let mut steps: Vec<(String, Vec<String>)> = Vec::new();
    for line in text.lines() {
        match (line.strip_prefix("$ "), steps.last_mut()) {
            (Some(command), _) => steps.push((command.to_owned(), Vec::new())),
            (None, Some((_, shown))) => shown.push(line.to_owned()),
            (None, None) => panic!("a session begins with a command, not with {line:?}"),
        }
    }
    steps
}

/// The first line that is shown and was not printed, details aside. In what is shown, `…` stands for anything.
fn missing(shown: &[String], printed: &str) -> Option<String> {
    let printed: Vec<String> = printed.lines().map(without_details).collect();
    let is_printed = |line: &&String| {
        let line = regex::escape(&without_details(line)).replace('…', ".*");
        let line = Regex::new(&format!("^{line}$")).expect("a pattern");
        printed.iter().any(|printed| line.is_match(printed))
    };
    shown.iter().find(|line| !is_printed(line)).cloned()
}

/// A line without what differs from run to run: ids, dates, spans of time, ports, the host's name, room between columns.
fn without_details(line: &str) -> String {
    let details = [
        (r"\b[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}\b", "ID"),
        (r"\b[0-9a-f]{8}\b", "ID"),
        (r"\d{4}-\d\d-\d\dT[0-9:]+Z", "DATE"),
        (r"\b(\d+[dhms])+ ago", "AGE"),
        (r"\d+\.\d+ s\b", "SPAN"),
        (r"\[\d+\]", "[N]"),
        (r"\s+", " "),
    ];
    let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
    let line = Regex::new(&format!(r"\b({}|vm)\b", regex::escape(&host)))
        .expect("a pattern")
        .replace_all(line, "HOST");
    details.iter().fold(line.into_owned(), |line, (pattern, word)| {
        Regex::new(pattern).expect("a pattern").replace_all(&line, *word).trim().to_owned()
    })
}

#[test]
fn details_are_left_out_and_nothing_else() {
    let read = without_details;
    assert_eq!(
        read("a1e386b7  hello.greeters[1]  vm  running  3s ago"),
        read("00000000  hello.greeters[0] vm running  1m2s ago")
    );
    assert_ne!(read("2 allocations: 2 running after 0.02 s"), read("2 allocations: 1 running after 0.02 s"));
}

#[test]
fn a_page_that_fails_leaves_no_process_behind() {
    let shell = Shell::start();
    let dir = shell.dir.path().to_owned();
    let failed = shell.script(
        "berth server --data-dir s1 --http-addr 127.0.0.1:14646 --agent-addr 127.0.0.1:14647 \\
             --server-addr 127.0.0.1:14648 2>s1.log >s1.out &
         until grep -q ready s1.out; do sleep 0.2; done
         false",
    );
    assert!(failed.is_err_and(|error| error.starts_with("it ends with 1:")));
    let left = working_in(&dir);
    assert!(!left.is_empty(), "the server runs");
    drop(shell);
    let ended = |pid: &Pid| {
        let state = fs::read_to_string(format!("/proc/{}/stat", pid.as_raw_nonzero())).unwrap_or_default();
        !state.contains(") R") && !state.contains(") S")
    };
    let since = Instant::now();
    while !left.iter().all(ended) {
        assert!(since.elapsed() < PATIENCE, "{left:?} are left");
        std::thread::sleep(LOOK_AGAIN);
    }
}
