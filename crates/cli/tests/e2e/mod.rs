//! Real processes for tests: started, queried over HTTP, killed by their ids.
#![allow(dead_code, unused_imports, reason = "every test uses a part of it")]

pub mod busybox;
pub mod cluster;
pub mod dev;
pub mod faulty_disk;
pub mod home;
pub mod linear;
pub mod nodes;
pub mod preload;
pub mod proxy;
pub mod servers;
pub mod small_disk;
pub mod stepped_clock;
pub mod terminal;
pub mod writers;

use std::{
    fs::File,
    io::{BufRead, BufReader},
    net::TcpListener,
    os::{
        linux::net::SocketAddrExt as _,
        unix::net::{SocketAddr, UnixListener},
    },
    path::{Path, PathBuf},
    process::{Child, ChildStdout, Command, ExitStatus, Stdio},
    sync::{Mutex, mpsc},
    time::{Duration, Instant},
};

use berth_api::http::{ApiError, Client};
use rustix::process::{Pid, Signal, kill_process};

/// Until something that must happen is given up; no measure of how fast it should be.
const PATIENCE: Duration = Duration::from_secs(60);
/// Between two looks at something that must happen.
const LOOK_AGAIN: Duration = Duration::from_millis(50);
/// Lines of a process's log that are printed when its test fails.
const TOLD_LINES_MAX: usize = 40;

/// A `berth` process. It is killed when this is dropped.
pub struct Daemon {
    child: Child,
    log: PathBuf,
}

impl Daemon {
    /// Starts `berth` with these arguments; `log` is the file of its standard error.
    pub fn start(args: &[&str], log: &Path) -> Self {
        Self::spawn(berth(args), log)
    }

    /// Starts a command; `log` is the file of its standard error.
    pub fn spawn(mut command: Command, log: &Path) -> Self {
        let log_file = File::options().create(true).append(true).open(log).expect("a file for its log");
        let child = command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(log_file)
            .spawn()
            .expect("berth starts");
        Self { child, log: log.to_owned() }
    }

    /// The line in which it says that it is ready.
    pub fn ready_line(&mut self) -> String {
        self.try_ready_line().unwrap_or_else(|| panic!("berth never got ready:\n{}", self.log()))
    }

    /// The same; none where it ends before.
    pub fn try_ready_line(&mut self) -> Option<String> {
        first_line(self.child.stdout.take().expect("asked once"))
    }

    /// Whether it has ended by itself.
    pub fn has_ended(&mut self) -> bool {
        self.child.try_wait().expect("is our child").is_some()
    }

    /// Its process id.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Sends it a signal.
    pub fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).expect("it lives");
    }

    /// Waits for its end, however that comes.
    pub fn wait(&mut self) -> ExitStatus {
        self.child.wait().expect("is our child")
    }

    /// SIGTERM, and the wait for its end.
    pub fn stop(&mut self) {
        let _ = kill_process(Pid::from_child(&self.child), Signal::TERM);
        let _ = self.child.wait();
    }

    /// SIGKILL, and the wait for its end.
    pub fn kill(&mut self) {
        self.child.kill().expect("may be killed");
        self.child.wait().expect("is our child");
    }

    /// The last lines of its log.
    fn log(&self) -> String {
        let text = std::fs::read_to_string(&self.log).unwrap_or_default();
        let lines: Vec<&str> = text.lines().collect();
        lines[lines.len().saturating_sub(TOLD_LINES_MAX)..].join("\n")
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        if std::thread::panicking() {
            eprintln!("{}:\n{}", self.log.display(), self.log());
        }
    }
}

/// The first line of a process's output, within patience. The rest is read and dropped, so that it can go on telling.
fn first_line(stdout: ChildStdout) -> Option<String> {
    let (send, receive) = mpsc::channel();
    std::thread::spawn(move || {
        for line in BufReader::new(stdout).lines().map_while(Result::ok) {
            let _ = send.send(line);
        }
    });
    receive.recv_timeout(PATIENCE).ok()
}

/// The command, without the settings of who runs the tests.
pub fn berth(args: &[&str]) -> Command {
    berth_at(Path::new(env!("CARGO_BIN_EXE_berth")), args)
}

/// The same of another copy of the program.
pub fn berth_at(program: &Path, args: &[&str]) -> Command {
    let mut command = Command::new(program);
    for (name, _) in std::env::vars_os() {
        if name.to_str().is_some_and(|name| name.starts_with("BERTH_") || name.starts_with("NOMAD_")) {
            command.env_remove(name);
        }
    }
    // Nor with the tokens that they keep.
    command.env("XDG_CONFIG_HOME", "/nonexistent");
    // The rules of the host that runs the tests are its own.
    command.env("BERTH_BRIDGE", "false");
    command.args(args);
    command
}

/// The address after the first `http://` in a line.
pub fn http_address(ready_line: &str) -> String {
    let rest = ready_line.split("http://").nth(1).expect("names its address");
    let end = rest.find([',', ' ']).unwrap_or(rest.len());
    rest[..end].to_owned()
}

/// A client of the server at `HOST:PORT`.
pub fn client(address: &str) -> Client {
    Client::new(address.parse().expect("an address"))
}

/// A port on which nobody listens. It lies below those that the kernel gives to callers: whoever dials a dead server
/// there would, now and then, be given that very port, and connect to itself. Each call gives another one, also of
/// programs of tests that run beside this one: until this ends, it keeps a socket of an abstract name with the number.
pub fn free_port() -> u16 {
    static GIVEN: Mutex<Vec<UnixListener>> = Mutex::new(Vec::new());
    let ports = || 20_000..30_000_u16;
    let free = |port: &u16| {
        let name = SocketAddr::from_abstract_name(format!("berth-test-port-{port}")).expect("a name");
        let Ok(reserved) = UnixListener::bind_addr(&name) else { return false };
        GIVEN.lock().expect("nobody panics with it").push(reserved);
        TcpListener::bind(("127.0.0.1", *port)).is_ok()
    };
    let first = std::process::id() as usize * 7 % ports().len();
    ports().cycle().skip(first).take(ports().len()).find(free).expect("a free port")
}

/// Looks until there is an answer, and fails after a minute.
pub async fn eventually<T>(what: &str, mut look: impl AsyncFnMut() -> Option<T>) -> T {
    let deadline = Instant::now() + PATIENCE;
    loop {
        if let Some(answer) = look().await {
            return answer;
        }
        assert!(Instant::now() < deadline, "never happened: {what}");
        tokio::time::sleep(LOOK_AGAIN).await;
    }
}

/// Sends a request until it is accepted: again as long as nobody answers, or the server that does says that it cannot now.
pub async fn insist<F: Future<Output = Result<(), ApiError>>>(mut request: impl FnMut() -> F) {
    let deadline = Instant::now() + PATIENCE;
    while let Err(error) = request().await {
        assert!(error.status().is_none_or(|status| status >= 500), "{error}");
        assert!(Instant::now() < deadline, "no server accepts it: {error}");
        tokio::time::sleep(LOOK_AGAIN).await;
    }
}
