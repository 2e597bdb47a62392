//! Hostile requests: each is refused with the reason, costs little memory, and the server keeps running.

mod e2e;

use std::{
    fs,
    io::{Read, Write},
    net::{Shutdown, TcpStream},
    time::Duration,
};

use e2e::{Daemon, berth, http_address};
use serde_json::{Value, json};
use tempfile::TempDir;

/// How deep hostile texts are nested.
const DEPTH: usize = 100_000;
/// Keys of a hostile object.
const KEYS: usize = 1_000_000;
/// As many of the shortest keys fit into the largest body that is read.
const KEYS_THAT_FIT: usize = 300_000;
/// A job file that is too large, though not by much.
const LARGE_BYTES: usize = 5 << 20;
/// A body that is announced.
const ANNOUNCED_BYTES: u64 = 1 << 30;
/// At most so much is sent of a body without an end.
const STREAMED_CHUNKS_MAX: usize = 1024;
const CHUNK_BYTES: usize = 64 << 10;
/// Connections that begin a request and fall silent.
const STALLED: usize = 200;
/// By how much the server may have grown after all of it.
const GROWTH_KIB_MAX: u64 = 64 << 10;
/// Until an answer is given up; no measure of how fast it should be.
const PATIENCE: Duration = Duration::from_secs(60);

#[test]
fn mistakes_are_named() {
    let server = Server::start();
    let hcl = |body: &str| format!("job \"x\" {{ group \"g\" {{\n{body}\n}} }}");
    server.refuses_file(
        &hcl("task \"t\" { drivr = \"mock_driver\" }"),
        400,
        "unknown attribute `drivr` in task",
    );
    server.refuses_file(&hcl("count = \"many\""), 400, "`count` must be a whole number, found text");
    server.refuses_file(&hcl("task \"t\" {}"), 400, "task has no driver");
    server.refuses_job(
        &job("x", json!({"Priority": "high"})),
        400,
        "`Priority` must be a whole number, found text",
    );
    for count in ["-1", "1000000", "1000000000000"] {
        let group = json!({"Name": "g", "Count": count.parse::<i64>().expect("a number")});
        let message = format!("`Count` is {count}, but must be 0 to");
        server.refuses_job(&job("x", json!({"TaskGroups": [group]})), 400, &message);
    }
    server.refuses_job(
        &job("x", json!({"TaskGroups": [{"Count": 1e300}]})),
        400,
        "`Count` must be a whole number",
    );
    server.is_well();
}

#[test]
fn deep_and_large_texts_are_refused() {
    let server = Server::start();
    for (start, open) in [("a = ", "["), ("", "a {\n"), ("a = ", "\"${")] {
        let deep = format!("{start}{}", open.repeat(DEPTH));
        server.refuses_file(&deep, 400, "nested more than 64 levels deep");
        server.refuses_to_validate(&deep, "nested more than 64 levels deep");
    }
    for deep in ["[", r#"{"Job":"#].map(|open| open.repeat(DEPTH)) {
        server.refuses("/v1/jobs", deep.as_bytes(), 400, "nested more than 64 levels deep");
    }
    server.refuses_to_validate(&r#"{"Job":"#.repeat(DEPTH), "nested more than 64 levels deep");
    let large = format!("# {}", "x".repeat(LARGE_BYTES));
    server.refuses_file(&large, 413, "larger than the 4194304 bytes");
    server.refuses_to_validate(&large, "job file has more than 4 MiB");
    server.is_well();
}

#[test]
fn many_keys_are_refused() {
    let server = Server::start();
    let object = |keys| {
        format!(
            r#"{{"Job":{{{}}}}}"#,
            (0..keys).map(|n| format!("\"{n:x}\":1")).collect::<Vec<_>>().join(",")
        )
    };
    server.refuses("/v1/jobs", object(KEYS).as_bytes(), 413, "larger than the 4194304 bytes");
    server.refuses("/v1/jobs", object(KEYS_THAT_FIT).as_bytes(), 400, "unknown key `0` in job");
    let file: String = (0..KEYS_THAT_FIT).map(|n| format!("k{n:x}=1\n")).collect();
    server.refuses_file(&file, 400, "unknown attribute `k0` in job file");
    server.is_well();
}

#[test]
fn endless_bodies_are_cut_off() {
    let server = Server::start();
    let head = server.head("/v1/jobs", &format!("Content-Length: {ANNOUNCED_BYTES}"));
    server.exchange(head, Vec::new()).is(413, "larger than the 4194304 bytes");
    let chunk = format!(
        "{CHUNK_BYTES:x}\r\n{}\r\n",
        "[1,".repeat(CHUNK_BYTES).get(..CHUNK_BYTES).expect("long enough")
    );
    for path in ["/v1/jobs", "/v1/jobs/parse", "/v1/validate/job"] {
        let head = server.head(path, "Transfer-Encoding: chunked");
        let chunks = vec![chunk.clone(); STREAMED_CHUNKS_MAX];
        server.exchange(head, chunks).is(413, "larger than the 4194304 bytes");
    }
    server.is_well();
}

#[test]
fn stalled_connections_are_closed() {
    let server = Server::start();
    let stalled: Vec<TcpStream> = (0..STALLED).map(|_| server.stall()).collect();
    server.is_well();
    for mut stream in stalled {
        let mut message = Vec::new();
        // Whether it is closed in peace or reset, it is not kept: only a time-out of ours would be a failure.
        let closed = stream.read_to_end(&mut message).map_err(|error| error.kind());
        assert!(
            !matches!(closed, Err(std::io::ErrorKind::WouldBlock | std::io::ErrorKind::TimedOut)),
            "is kept open"
        );
    }
    server.is_well();
}

/// A job that could run, but for these fields.
fn job(id: &str, fields: Value) -> Value {
    let task = json!({"Name": "t", "Driver": "mock_driver"});
    let mut job = json!({"ID": id, "Name": id, "TaskGroups": [{"Name": "g", "Count": 0, "Tasks": [task]}]});
    let Value::Object(fields) = fields else { panic!("fields of a job") };
    job.as_object_mut().expect("an object").extend(fields);
    job
}

/// A server, and how large it was before anybody asked it anything.
struct Server {
    address: String,
    daemon: Daemon,
    resident_kib: u64,
    dir: TempDir,
}

impl Server {
    fn start() -> Self {
        let dir = tempfile::tempdir().expect("a directory");
        let data = dir.path().join("data");
        let data = data.to_str().expect("plain");
        let args = ["--http-addr", "127.0.0.1:0", "--agent-addr", "127.0.0.1:0", "--log-level", "warn"];
        let args = [&["server", "--data-dir", data][..], &args].concat();
        let mut daemon = Daemon::start(&args, &dir.path().join("server.err"));
        let address = http_address(&daemon.ready_line());
        Self { resident_kib: resident_kib(daemon.pid()), address, daemon, dir }
    }

    /// It has not grown much, answers, and takes jobs.
    fn is_well(&self) {
        let grown = resident_kib(self.daemon.pid()).saturating_sub(self.resident_kib);
        assert!(grown <= GROWTH_KIB_MAX, "the server has grown by {grown} KiB");
        let head =
            format!("GET /v1/status/leader HTTP/1.1\r\nHost: {}\r\nConnection: close\r\n\r\n", self.address);
        self.exchange(head, Vec::new()).is(200, "\"");
        self.put("/v1/jobs", json!({"Job": job("well", json!({}))}).to_string().as_bytes()).is(200, "EvalID");
    }

    fn refuses_file(&self, file: &str, status: u16, message: &str) {
        self.refuses("/v1/jobs/parse", json!({"JobHCL": file}).to_string().as_bytes(), status, message);
    }

    fn refuses_job(&self, job: &Value, status: u16, message: &str) {
        self.refuses("/v1/jobs", json!({"Job": job}).to_string().as_bytes(), status, message);
    }

    fn refuses(&self, path: &str, body: &[u8], status: u16, message: &str) {
        self.put(path, body).is(status, message);
    }

    /// `berth job validate` says the same, and fails.
    fn refuses_to_validate(&self, file: &str, message: &str) {
        let path = self.dir.path().join("job");
        fs::write(&path, file).expect("a file");
        let output = berth(&["job", "validate", path.to_str().expect("plain")]).output().expect("berth runs");
        let text = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{text}");
        assert!(text.contains(message), "{text}");
    }

    fn put(&self, path: &str, body: &[u8]) -> Answer {
        let head = self.head(path, &format!("Content-Length: {}", body.len()));
        self.exchange(head, vec![String::from_utf8(body.to_vec()).expect("text")])
    }

    fn head(&self, path: &str, length: &str) -> String {
        let address = &self.address;
        format!("PUT {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n{length}\r\n\r\n")
    }

    /// Sends while it listens: who is refused early need not finish, and who must send all first hears nothing.
    fn exchange(&self, head: String, body: Vec<String>) -> Answer {
        let mut stream = self.connect();
        let mut sender = stream.try_clone().expect("a second handle");
        let sending = std::thread::spawn(move || {
            let pieces = std::iter::once(&head).chain(&body);
            // An error here means that the other side has had enough; what it says to that is read below.
            pieces.map(|piece| sender.write_all(piece.as_bytes())).find(Result::is_err)
        });
        let mut message = Vec::new();
        let _ = stream.read_to_end(&mut message);
        let _ = stream.shutdown(Shutdown::Both);
        sending.join().expect("sends");
        Answer(String::from_utf8_lossy(&message).into_owned())
    }

    /// Sends half of a head.
    fn stall(&self) -> TcpStream {
        let mut stream = self.connect();
        stream.write_all(b"PUT /v1/jobs HTTP/1.1\r\nHost: 127.0.0").expect("is accepted");
        stream
    }

    fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(&self.address).expect("the server listens");
        stream.set_read_timeout(Some(PATIENCE)).expect("may be set");
        stream
    }
}

/// All that came back.
struct Answer(String);

impl Answer {
    /// It has this status, and these words are in it.
    fn is(&self, status: u16, message: &str) {
        let Self(text) = self;
        let shown: String = text.chars().take(1_000).collect();
        assert!(
            text.starts_with(&format!("HTTP/1.1 {status} ")),
            "expected {status} and `{message}`: {shown}"
        );
        assert!(text.contains(message), "expected `{message}`: {shown}");
    }
}

/// The memory of a process that is in use.
fn resident_kib(pid: u32) -> u64 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).expect("it runs");
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).expect("linux says so");
    line.trim().trim_end_matches(" kB").parse().expect("a number")
}
