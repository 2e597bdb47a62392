//! Artifacts that tasks download before they start, from well-behaved servers and from others.

#[path = "../../agent/tests/common/corpus.rs"]
mod corpus;
mod e2e;

use std::{
    fs,
    io::{BufRead, BufReader, Write},
    net::{TcpListener, TcpStream},
    os::unix::fs::{MetadataExt, PermissionsExt},
    path::{Path, PathBuf},
    process::{Command, Stdio},
    sync::mpsc,
    thread,
    time::Duration,
};

use base64::{Engine, engine::general_purpose::STANDARD};
use berth_api::http::Target;
use e2e::{
    dev::{Dev, task},
    eventually,
};
use serde_json::{Value, json};

/// What a server does with one request.
enum Reply {
    Whole(Vec<u8>),
    /// It promises more than it sends.
    Cut(Vec<u8>),
    /// A byte now and then, without end.
    Drip,
    Redirect(String),
    Status(u16),
}

/// A server on loopback. It tells the head of each request.
struct Web {
    host: String,
    asked: mpsc::Receiver<String>,
}

impl Web {
    /// `answer` gets a path, and how often anything was asked before.
    fn start(answer: impl Fn(&str, usize) -> Reply + Send + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let host = listener.local_addr().expect("an address").to_string();
        let (tell, asked) = mpsc::channel();
        thread::spawn(move || {
            for (number, stream) in listener.incoming().map_while(Result::ok).enumerate() {
                let lines = BufReader::new(&stream).lines().map_while(Result::ok);
                let head: Vec<String> = lines.take_while(|line| !line.is_empty()).collect();
                let path =
                    head.first().and_then(|line| line.split(' ').nth(1)).unwrap_or_default().to_owned();
                let _ = tell.send(head.join("\n"));
                let reply = answer(&path, number);
                thread::spawn(move || reply.send(stream));
            }
        });
        Self { host, asked }
    }

    fn url(&self, path: &str) -> String {
        format!("http://{}/{path}", self.host)
    }
}

impl Reply {
    /// Whoever asked may have gone.
    fn send(self, mut stream: TcpStream) {
        let head = |status: &str, more: &str| format!("HTTP/1.1 {status}\r\nConnection: close\r\n{more}\r\n");
        let length = |bytes: usize| format!("Content-Length: {bytes}\r\n");
        let mut send = |head: String, body: &[u8]| {
            let _ = stream.write_all(head.as_bytes()).and_then(|()| stream.write_all(body));
        };
        match self {
            Self::Whole(body) => send(head("200 OK", &length(body.len())), &body),
            Self::Cut(body) => send(head("200 OK", &length(body.len() + 1)), &body),
            Self::Redirect(to) => send(head("302 Found", &format!("Location: {to}\r\n{}", length(0))), b""),
            Self::Status(status) => send(head(&format!("{status} No"), &length(0)), b""),
            Self::Drip => {
                send(head("200 OK", &length(1 << 20)), b"");
                while stream.write_all(b".").is_ok() {
                    thread::sleep(Duration::from_millis(100));
                }
            }
        }
    }
}

/// A job with one task that runs a script once its artifacts are there.
fn job(id: &str, script: &str, artifacts: Value) -> Value {
    let mut task = task("t", script);
    task["Artifacts"] = artifacts;
    let group = json!({
        "Name": "g", "Tasks": [task], "EphemeralDisk": {"SizeMB": 10},
        "RestartPolicy": {"Attempts": 0, "Mode": "fail"}, "ReschedulePolicy": {"Attempts": 0},
    });
    json!({"ID": id, "Name": id, "Type": "service", "TaskGroups": [group]})
}

fn is_root() -> bool {
    let is_root = rustix::process::geteuid().is_root();
    if !is_root {
        eprintln!("skipped: unpacking archives needs root");
    }
    is_root
}

const SHA256_OF_TOOL: &str = "sha256:5891b5b522d5df086d0ff0b110fbd9d21bb4fc7163af34d08286a2e846f6be03";

/// `app/bin/zipped`, which is `echo from the zip`, as `zip` packs it.
const APP_ZIP: &str = "UEsDBAoAAAAAAAAAIVAAAAAAAAAAAAAAAAAEAAAAYXBwL1BLAwQKAAAAAAAAACFQAAAAAAAAAAAAAAAACAAAAGFwcC9iaW4vUEsD\
    BAoAAAAAAAAAIVDR/6NTEgAAABIAAAAOAAAAYXBwL2Jpbi96aXBwZWRlY2hvIGZyb20gdGhlIHppcApQSwECHgMKAAAAAAAAACFQ\
    AAAAAAAAAAAAAAAABAAAAAAAAAAAABAA7UEAAAAAYXBwL1BLAQIeAwoAAAAAAAAAIVAAAAAAAAAAAAAAAAAIAAAAAAAAAAAAEADt\
    QSIAAABhcHAvYmluL1BLAQIeAwoAAAAAAAAAIVDR/6NTEgAAABIAAAAOAAAAAAAAAAEAAACkgUgAAABhcHAvYmluL3ppcHBlZFBL\
    BQYAAAAAAwADAKQAAACGAAAAAAA=";

#[tokio::test]
async fn artifacts_are_checked_unpacked_and_put_in_their_place() {
    if !is_root() {
        return;
    }
    let local = tempfile::tempdir().expect("a directory");
    fs::create_dir_all(local.path().join("app/bin")).expect("made");
    fs::write(local.path().join("app/bin/run"), "echo from the archive\n").expect("written");
    let packed = local.path().join("app.tar.gz");
    let mut tar = Command::new("tar");
    let tar = tar.arg("-C").arg(local.path()).arg("-czf").arg(&packed).arg("app").status();
    assert!(tar.expect("tar runs").success());
    let zipped = local.path().join("app.zip");
    fs::write(&zipped, STANDARD.decode(APP_ZIP).expect("base64")).expect("written");
    let web = Web::start(|_, _| Reply::Whole(b"hello\n".to_vec()));
    let dir = local.path().display().to_string();
    let dev = Dev::start(&["--artifact-dirs", &dir, "--artifact-hosts", &web.host]);
    let tool = |checksum: &str| {
        json!({
            "GetterSource": web.url("tool?signed=yes"),
            "RelativeDest": "local/in",
            "GetterOptions": {"checksum": checksum},
            "GetterHeaders": {"X-Job": "${NOMAD_JOB_ID}"},
        })
    };
    let app = json!({"GetterSource": packed.display().to_string(), "RelativeDest": "${NOMAD_TASK_DIR}"});
    let zip = json!({"GetterSource": zipped.display().to_string(), "RelativeDest": "${NOMAD_TASK_DIR}/zip"});
    let script =
        "sh local/app/bin/run; sh local/zip/app/bin/zipped; cat local/in/tool; echo ready; exec sleep 1000";
    dev.register(&job("gets", script, json!([app, zip, tool(SHA256_OF_TOOL)]))).await;
    let alloc = dev.allocs("gets", 1, "running").await.remove(0);
    dev.until_printed(&alloc, "ready").await;
    assert_eq!(dev.stdout_of(&["alloc", "logs", &alloc]), "from the archive\nfrom the zip\nhello\nready\n");
    let asked = web.asked.recv().expect("it was asked").to_lowercase();
    assert!(asked.starts_with("get /tool?signed=yes ") && asked.contains("x-job: gets"), "{asked}");
    let message = dev.stdout_of(&["alloc", "status", &alloc]);
    assert!(message.contains("Downloading Artifacts") && !message.contains("signed"), "{message}");
    for (id, artifact, why) in [
        ("other", tool(&SHA256_OF_TOOL.replace(":5", ":6")), "its checksum is 5891"),
        (
            "passwd",
            json!({"GetterSource": "/etc/passwd"}),
            "it is in none of the directories that this node allows",
        ),
        ("self", json!({"GetterSource": "http://127.0.0.1:1/x"}), "is an address of this very node"),
    ] {
        refused(&dev, id, artifact, why).await;
    }
}

/// The job fails, and says why.
async fn refused(dev: &Dev, id: &str, artifact: Value, why: &str) {
    dev.register(&job(id, "exec sleep 1000", json!([artifact]))).await;
    let alloc = dev.failed(id).await;
    let message = dev.stdout_of(&["alloc", "status", "-o", "json", &alloc]);
    assert!(message.contains(why), "{id}: {message}");
}

#[tokio::test]
async fn servers_that_fail_are_asked_again_and_those_that_cheat_are_not() {
    let web = Web::start(|path, number| match path {
        "/flaky" if number == 0 => Reply::Status(503),
        "/flaky" if number == 1 => Reply::Cut(b"hel".to_vec()),
        "/round" => Reply::Redirect("/round".to_owned()),
        "/drip" => Reply::Drip,
        "/large" => Reply::Whole(vec![b'x'; 3 << 20]),
        "/gone" => Reply::Status(404),
        "/inside" => Reply::Redirect("http://169.254.169.254/latest".to_owned()),
        _ => Reply::Whole(b"hello\n".to_vec()),
    });
    let limits = ["--artifact-hosts", &web.host, "--artifact-mb-max", "2", "--artifact-timeout", "10s"];
    let dev = Dev::start(&limits);
    let get = |path: &str| json!({"GetterSource": web.url(path), "RelativeDest": "local/"});
    dev.register(&job("flaky", "cat local/flaky; echo ready; exec sleep 1000", json!([get("flaky")]))).await;
    let alloc = dev.allocs("flaky", 1, "running").await.remove(0);
    dev.until_printed(&alloc, "ready").await;
    assert_eq!(dev.stdout_of(&["alloc", "logs", &alloc]), "hello\nready\n");
    let message = dev.stdout_of(&["alloc", "status", "-o", "json", &alloc]);
    for why in ["trying again: the server answers 503", "trying again: the server broke off"] {
        assert!(message.contains(why), "{why}: {message}");
    }
    for (path, why) in [
        ("round", "it is redirected more than 5 times"),
        ("drip", "it is not here after 10 s"),
        ("large", "it is larger than this node allows"),
        ("gone", "the server answers 404"),
        ("inside", "is an address of this very node"),
    ] {
        refused(&dev, path, get(path), why).await;
    }
}

/// An entry of an archive, as nobody's tar would write it.
fn entry(name: &str, kind: u8, link: &str, body: &[u8]) -> Vec<u8> {
    let mut header = [0_u8; 512];
    let mut put = |at: usize, text: &str| header[at..at + text.len()].copy_from_slice(text.as_bytes());
    put(0, name);
    put(100, "0000644");
    put(108, "0000000");
    put(116, "0000000");
    put(124, &format!("{:011o}", body.len()));
    put(136, "00000000000");
    put(148, "        ");
    put(157, link);
    put(257, "ustar\x0000");
    header[156] = kind;
    let sum: u32 = header.iter().map(|&byte| u32::from(byte)).sum();
    header[148..155].copy_from_slice(format!("{sum:06o}\0").as_bytes());
    let mut bytes = header.to_vec();
    bytes.extend_from_slice(body);
    bytes.resize(bytes.len().next_multiple_of(512), 0);
    bytes
}

/// 300 MiB of zeros, in 300 KiB.
fn bomb() -> Vec<u8> {
    let mut header = entry("zeros", b'0', "", b"");
    header.truncate(512);
    let (_, size) = header.split_at_mut(124);
    size[..11].copy_from_slice(format!("{:011o}", 300_u64 << 20).as_bytes());
    header[148..156].copy_from_slice(b"        ");
    let sum: u32 = header.iter().map(|&byte| u32::from(byte)).sum();
    header[148..155].copy_from_slice(format!("{sum:06o}\0").as_bytes());
    let mut gzip =
        Command::new("gzip").stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("gzip is there");
    let mut input = gzip.stdin.take().expect("piped");
    let feeding = thread::spawn(move || {
        input.write_all(&header).expect("fed");
        for _ in 0..300 {
            input.write_all(&[0; 1 << 20]).expect("fed");
        }
    });
    let packed = gzip.wait_with_output().expect("packed").stdout;
    feeding.join().expect("fed");
    packed
}

#[tokio::test]
async fn hostile_archives_put_nothing_anywhere() {
    if !is_root() {
        return;
    }
    let outside = tempfile::tempdir().expect("a directory");
    let target = outside.path().display().to_string();
    let link = |to: &str| entry("out", b'2', to, b"");
    let through = |to: &str| [link(to), entry("out/file", b'0', "", b"x")].concat();
    let archives = [
        ("bomb.tar.gz", bomb(), Some("more than 200 times its own size")),
        ("up.tar", entry("../../../out", b'0', "", b"x"), Some("a path that leads out")),
        ("hard.tar", entry("hard", b'1', "../../../../etc/passwd", b""), Some("a path that leads out")),
        ("device.tar", entry("mem", b'3', "", b""), Some("only files, directories and links")),
        ("damaged.tar", vec![b'x'; 2048], Some("unpack it")),
        ("damaged.zip", vec![b'x'; 2048], Some("unpack it")),
        ("through.tar", through(&target), Some("unpack it: out/file")),
        // Within the archive this link leads to its top, and no further.
        ("within.tar", through("../../../../.."), None),
        // It is the task's to follow.
        ("link.tar", link(&target), None),
    ];
    let served: Vec<_> =
        archives.iter().map(|(name, bytes, _)| (format!("/{name}"), bytes.clone())).collect();
    let web = Web::start(move |path, _| {
        let found = served.iter().find(|(name, _)| name == path);
        Reply::Whole(found.map_or(Vec::new(), |(_, bytes)| bytes.clone()))
    });
    let dev = Dev::apart(&["--containers=false", "--artifact-hosts", &web.host]);
    for (name, _, why) in &archives {
        let artifact = json!({"GetterSource": web.url(name), "RelativeDest": "local/app"});
        let alloc = match why {
            Some(why) => {
                refused(&dev, name, artifact, why).await;
                dev.failed(name).await
            }
            None => {
                dev.register(&job(name, "exec sleep 1000", json!([artifact]))).await;
                dev.allocs(name, 1, "running").await.remove(0)
            }
        };
        until_nothing_is_staged(&dev.alloc_dir(&alloc)).await;
        assert_eq!(dev.alloc_dir(&alloc).join("tasks/t/local/app").exists(), why.is_none(), "{name}");
    }
    assert_eq!(outside.path().read_dir().expect("a directory").count(), 0);
    assert!(
        !dev.home.path().join("agent/agent/out").exists()
            && !dev.home.path().join("agent/agent/allocs/out").exists()
    );
}

/// Nothing in it but what was there, which has no other name.
fn assert_untouched(outside: &Path, after: &str) {
    let names: Vec<_> =
        fs::read_dir(outside).expect("listed").flatten().map(|entry| entry.file_name()).collect();
    assert_eq!(names, ["kept"], "{after}");
    let kept = outside.join("kept");
    let found = (fs::read(&kept).expect("a file"), kept.metadata().expect("a file").nlink());
    assert_eq!(found, (b"kept".to_vec(), 1), "{after}");
    assert_eq!(outside.metadata().expect("a directory").mode() & 0o7777, 0o751, "{after}");
}

/// All that the agent's own tests know of: each is refused, or what it puts anywhere is the task's own.
#[tokio::test]
async fn archives_whose_makers_mean_harm_reach_nothing() {
    if !is_root() {
        return;
    }
    let outside = tempfile::tempdir().expect("a directory");
    fs::write(outside.path().join("kept"), "kept").expect("written");
    fs::set_permissions(outside.path(), fs::Permissions::from_mode(0o751)).expect("set");
    let path = outside.path().to_str().expect("plain");
    // From wherever it is unpacked.
    let up = format!("{}{}", "../".repeat(14), path.trim_start_matches('/'));
    let all = corpus::all(path, &up);
    let served: Vec<Vec<u8>> = all.iter().map(|hostile| hostile.tar.clone()).collect();
    let web = Web::start(move |path, _| {
        let number = path.trim_matches(|c: char| !c.is_ascii_digit()).parse::<usize>();
        Reply::Whole(number.ok().and_then(|number| served.get(number).cloned()).unwrap_or_default())
    });
    let dev = Dev::apart(&["--containers=false", "--artifact-hosts", &web.host]);
    let beside = || {
        let names = fs::read_dir(dev.home.path().join("agent/agent")).expect("listed").flatten();
        let mut names: Vec<_> = names.map(|entry| entry.file_name()).collect();
        names.sort();
        names
    };
    // All that an agent makes for itself is there.
    dev.register(&job("honest", "exec sleep 1000", json!([]))).await;
    dev.allocs("honest", 1, "running").await;
    let before = beside();
    let id = |number: usize| format!("hostile-{number}");
    for number in 0..all.len() {
        let artifact =
            json!({"GetterSource": web.url(&format!("{number}.tar")), "RelativeDest": "local/app"});
        dev.register(&job(&id(number), "exec sleep 1000", json!([artifact]))).await;
    }
    for (number, hostile) in all.iter().enumerate() {
        let alloc = eventually(&format!("an end of {}", hostile.name), async || {
            let target = Target::new("/v1/job").part(&id(number)).part("allocations");
            let allocs: Vec<Value> = dev.client().get(&target).await.ok()?.value;
            allocs.into_iter().find(|alloc| alloc["ClientStatus"] != "pending")
        })
        .await;
        // Files for a task have no owners, and nothing is removed by them.
        let is_of_layers = ["owner", "whiteout"].iter().any(|word| hostile.name.contains(word));
        let status = &alloc["ClientStatus"];
        assert!(
            *status == "failed" || (*status == "running" && (!hostile.refused || is_of_layers)),
            "{}: {status}",
            hostile.name
        );
        let alloc = dev.alloc_dir(alloc["ID"].as_str().expect("an id"));
        until_nothing_is_staged(&alloc).await;
        assert_eq!(alloc.join("tasks/t/local/app").exists(), *status == "running", "{}", hostile.name);
        assert_untouched(outside.path(), hostile.name);
    }
    assert_eq!(beside(), before, "nothing was made beside what the agent has");
}

/// Directories in which artifacts of the task are staged.
fn staged(alloc_dir: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(alloc_dir.join("keepers/t")).into_iter().flatten().flatten();
    entries
        .filter(|entry| entry.file_name().to_string_lossy().starts_with("artifact."))
        .map(|entry| entry.path())
        .collect()
}

async fn until_nothing_is_staged(alloc_dir: &Path) {
    eventually("what was fetched is gone", async || staged(alloc_dir).is_empty().then_some(())).await;
}

/// Processes that unpack into that directory.
fn unpackers(dir: &Path) -> Vec<PathBuf> {
    let dir = dir.to_str().expect("plain");
    let all = fs::read_dir("/proc").expect("processes").flatten().map(|entry| entry.path());
    all.filter(|process| {
        let command = fs::read(process.join("cmdline")).unwrap_or_default();
        let command = String::from_utf8_lossy(&command);
        command.contains("unpack-files") && command.contains(dir)
    })
    .collect()
}

#[tokio::test]
async fn an_agent_that_dies_while_it_downloads_starts_over() {
    let web =
        Web::start(|_, number| if number == 0 { Reply::Drip } else { Reply::Whole(b"hello\n".to_vec()) });
    let mut dev = Dev::apart(&["--containers=false", "--artifact-hosts", &web.host]);
    let artifact = json!({"GetterSource": web.url("tool"), "RelativeDest": "local/"});
    dev.register(&job("gets", "cat local/tool; echo ready; exec sleep 1000", json!([artifact]))).await;
    web.asked.recv().expect("it downloads");
    let alloc = dev.allocs("gets", 1, "pending").await.remove(0);
    let alloc_dir = dev.alloc_dir(&alloc);
    let has_some = |dir: &PathBuf| fs::metadata(dir.join("file")).is_ok_and(|found| found.len() > 0);
    eventually("some of it is there", async || staged(&alloc_dir).iter().any(has_some).then_some(())).await;
    dev.kill_agent();
    dev.start_agent();
    assert_eq!(dev.allocs("gets", 1, "running").await.remove(0), alloc);
    dev.until_printed(&alloc, "ready").await;
    assert_eq!(dev.stdout_of(&["alloc", "logs", &alloc]), "hello\nready\n");
    until_nothing_is_staged(&alloc_dir).await;
    assert_eq!(unpackers(dev.home.path()), [""; 0].map(PathBuf::from));
}

#[tokio::test]
async fn who_is_stopped_while_it_downloads_waits_no_longer() {
    let web = Web::start(|_, _| Reply::Drip);
    let dev = Dev::apart(&["--containers=false", "--artifact-hosts", &web.host]);
    let artifact = json!({"GetterSource": web.url("tool"), "RelativeDest": "local/"});
    dev.register(&job("gets", "exec sleep 1000", json!([artifact]))).await;
    web.asked.recv().expect("it downloads");
    let alloc = dev.allocs("gets", 1, "pending").await.remove(0);
    dev.stdout_of(&["job", "stop", "-yes", "gets"]);
    eventually("it has ended", async || {
        let message = dev.stdout_of(&["alloc", "status", "-o", "json", &alloc]);
        (message.contains("\"complete\"") || message.contains("\"failed\"")).then_some(())
    })
    .await;
    until_nothing_is_staged(&dev.alloc_dir(&alloc)).await;
}
