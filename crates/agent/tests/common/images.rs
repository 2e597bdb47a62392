//! Images made for tests, and registries to pull them from: Debian's package, and one that misbehaves on request.

use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};

use flate2::Compression;
use flate2::write::GzEncoder;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use tempfile::TempDir;

#[path = "header.rs"]
mod header;

use self::header::header;
use crate::common::eventually;

pub const REGISTRY: &str = "/usr/bin/docker-registry";
pub const SKOPEO: &str = "/usr/bin/skopeo";

pub fn digest(bytes: &[u8]) -> String {
    let hash = Sha256::digest(bytes);
    format!("sha256:{}", hash.iter().map(|byte| format!("{byte:02x}")).collect::<String>())
}

/// A layer, built entry by entry.
pub struct Layer(tar::Builder<Vec<u8>>);

impl Layer {
    pub fn new() -> Self {
        Self(tar::Builder::new(Vec::new()))
    }

    fn entry(&mut self, path: &str, kind: tar::EntryType, mode: u32, owner: u64, link: &str, bytes: &[u8]) {
        let mut header = tar::Header::new_gnu();
        header.set_entry_type(kind);
        header.set_mode(mode);
        header.set_uid(owner);
        header.set_gid(owner);
        header.set_mtime(1_000_000_000);
        header.set_size(bytes.len() as u64);
        if link.is_empty() {
            self.0.append_data(&mut header, path, bytes).expect("appended");
        } else {
            self.0.append_link(&mut header, path, link).expect("appended");
        }
    }

    /// An entry whose name and target stand there as they are.
    pub fn named(mut self, path: &str, kind: tar::EntryType, link: &str, bytes: &[u8]) -> Self {
        let header = header(path, kind, link, (0o755, 0), bytes.len() as u64);
        self.0.append(&header, bytes).expect("appended");
        self
    }

    pub fn file(mut self, path: &str, text: impl AsRef<[u8]>) -> Self {
        self.entry(path, tar::EntryType::Regular, 0o644, 0, "", text.as_ref());
        self
    }

    pub fn dir(mut self, path: &str, mode: u32, owner: u64) -> Self {
        self.entry(path, tar::EntryType::Directory, mode, owner, "", b"");
        self
    }

    pub fn symlink(mut self, path: &str, target: &str) -> Self {
        self.entry(path, tar::EntryType::Symlink, 0o777, 0, target, b"");
        self
    }

    /// A file of this host that can be run.
    pub fn program(mut self, path: &str, source: &str) -> Self {
        let bytes = fs::read(source).expect("a program");
        self.entry(path, tar::EntryType::Regular, 0o755, 0, "", &bytes);
        self
    }

    pub fn busybox() -> Self {
        let applets =
            ["sh", "ls", "cat", "id", "env", "pwd", "sleep", "echo", "stat", "mkdir", "chown", "touch"];
        let layer = Self::new().program("bin/busybox", "/bin/busybox").dir("tmp/", 0o1777, 0);
        applets.into_iter().fold(layer, |layer, applet| layer.symlink(&format!("bin/{applet}"), "busybox"))
    }

    pub fn finish(self) -> Vec<u8> {
        self.0.into_inner().expect("finished")
    }
}

/// An image as a registry keeps it: its manifest, and blobs by digest.
#[derive(Clone)]
pub struct Image {
    pub manifest: Vec<u8>,
    pub blobs: BTreeMap<String, Vec<u8>>,
    /// Of its layers, the lowest first.
    pub layers: Vec<String>,
}

impl Image {
    /// `config` as in an image's `config` member.
    pub fn new(layers: Vec<Vec<u8>>, config: Value) -> Self {
        let mut blobs = BTreeMap::new();
        let diff_ids: Vec<String> = layers.iter().map(|layer| digest(layer)).collect();
        let mut add = |kind: &str, bytes: Vec<u8>| {
            let (name, size) = (digest(&bytes), bytes.len());
            blobs.insert(name.clone(), bytes);
            json!({"mediaType": kind, "digest": name, "size": size})
        };
        let zipped = |layer: Vec<u8>| {
            let mut gzip = GzEncoder::new(Vec::new(), Compression::fast());
            gzip.write_all(&layer).expect("written");
            gzip.finish().expect("written")
        };
        let layers: Vec<Value> = layers
            .into_iter()
            .map(|layer| add("application/vnd.oci.image.layer.v1.tar+gzip", zipped(layer)))
            .collect();
        let document = json!({"architecture": architecture(), "os": "linux", "config": config,
                              "rootfs": {"type": "layers", "diff_ids": diff_ids}});
        let config = add("application/vnd.oci.image.config.v1+json", document.to_string().into_bytes());
        let manifest = json!({"schemaVersion": 2, "mediaType": "application/vnd.oci.image.manifest.v1+json",
                              "config": config, "layers": layers});
        let names = layers.iter().map(|layer| layer["digest"].as_str().expect("text").to_owned()).collect();
        Self { manifest: manifest.to_string().into_bytes(), blobs, layers: names }
    }

    pub fn digest(&self) -> String {
        digest(&self.manifest)
    }

    /// The same with another config.
    #[allow(dead_code)]
    pub fn made_for(&self, os: &str, architecture: &str) -> Self {
        let mut manifest: Value = serde_json::from_slice(&self.manifest).expect("json");
        let old = manifest["config"]["digest"].as_str().expect("text").to_owned();
        let mut image = self.clone();
        let config = image.blobs.remove(&old).expect("a config");
        let mut config: Value = serde_json::from_slice(&config).expect("json");
        (config["os"], config["architecture"]) = (os.into(), architecture.into());
        let config = config.to_string().into_bytes();
        manifest["config"]["digest"] = digest(&config).into();
        manifest["config"]["size"] = config.len().into();
        image.blobs.insert(digest(&config), config);
        Self { manifest: manifest.to_string().into_bytes(), ..image }
    }

    /// As a directory that skopeo understands.
    pub fn layout(&self) -> TempDir {
        let dir = tempfile::tempdir().expect("a directory");
        let blobs = dir.path().join("blobs/sha256");
        fs::create_dir_all(&blobs).expect("made");
        let put = |name: &str, bytes: &[u8]| {
            fs::write(blobs.join(name.trim_start_matches("sha256:")), bytes).expect("written");
        };
        self.blobs.iter().for_each(|(name, bytes)| put(name, bytes));
        put(&self.digest(), &self.manifest);
        let entry = json!({"mediaType": "application/vnd.oci.image.manifest.v1+json", "digest": self.digest(),
                           "size": self.manifest.len(), "annotations": {"org.opencontainers.image.ref.name": "it"}});
        let index = json!({"schemaVersion": 2, "manifests": [entry]});
        fs::write(dir.path().join("index.json"), index.to_string()).expect("written");
        fs::write(dir.path().join("oci-layout"), r#"{"imageLayoutVersion": "1.0.0"}"#).expect("written");
        dir
    }
}

pub fn architecture() -> &'static str {
    match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    }
}

/// Debian's registry, with an empty directory.
pub struct Registry {
    process: Child,
    pub host: String,
    _dir: TempDir,
}

impl Registry {
    /// None, with the reason printed, where it or skopeo is missing. `users` as htpasswd writes them.
    pub fn start(users: Option<&str>) -> Option<Self> {
        if let Some(missing) = [REGISTRY, SKOPEO].into_iter().find(|path| !Path::new(path).exists()) {
            eprintln!("skipped: {missing} is missing");
            return None;
        }
        let dir = tempfile::tempdir().expect("a directory");
        let port = TcpListener::bind("127.0.0.1:0")
            .and_then(|listener| listener.local_addr())
            .expect("a port")
            .port();
        let host = format!("127.0.0.1:{port}");
        let (files, root) = (dir.path().join("users"), dir.path().join("data"));
        let mut config = json!({"version": "0.1", "log": {"level": "error"}, "http": {"addr": host},
            "storage": {"filesystem": {"rootdirectory": root}}});
        if let Some(users) = users {
            fs::write(&files, users).expect("written");
            config["auth"] = json!({"htpasswd": {"realm": "test", "path": files}});
        }
        let file = dir.path().join("config.yml");
        fs::write(&file, config.to_string()).expect("written");
        let mut command = Command::new(REGISTRY);
        command.arg("serve").arg(&file).stdout(Stdio::null()).stderr(Stdio::null());
        let process = command.spawn().expect("a registry");
        eventually("the registry", || TcpStream::connect(&host).ok());
        Some(Self { process, host, _dir: dir })
    }

    /// Its full name there.
    pub fn push(&self, image: &Image, name: &str, format: &str, user: Option<&str>) -> String {
        let layout = image.layout();
        let full = format!("{}/{name}", self.host);
        let mut command = Command::new(SKOPEO);
        command.args(["copy", "--quiet", "--insecure-policy", "--dest-tls-verify=false", "--format", format]);
        command.args(user.map(|user| format!("--dest-creds={user}")));
        command.arg(format!("oci:{}:it", layout.path().display())).arg(format!("docker://{full}"));
        assert!(command.status().expect("skopeo").success());
        full
    }
}

impl Drop for Registry {
    fn drop(&mut self) {
        self.process.kill().ok();
        self.process.wait().ok();
    }
}

/// What somebody asked of a [`Fake`].
#[derive(Debug, Clone)]
pub struct RecordedRequest {
    pub path: String,
    pub headers: BTreeMap<String, String>,
}

impl RecordedRequest {
    /// The byte that a range begins with; 0 without one.
    pub fn from(&self) -> usize {
        let range =
            self.headers.get("range").and_then(|range| range.strip_prefix("bytes=")?.split('-').next());
        range.map_or(0, |from| from.parse().expect("a number"))
    }
}

/// What it answers.
pub enum Answer {
    /// Status, headers, body.
    Whole(u16, Vec<(&'static str, String)>, Vec<u8>),
    /// A body that ends before it should.
    Cut(Vec<u8>, usize),
    /// A body that begins, and goes on when the test says so, or never.
    Held(Vec<u8>, usize),
    /// More and more.
    Endless,
}

impl Answer {
    pub fn ok(body: impl Into<Vec<u8>>) -> Self {
        Self::Whole(200, Vec::new(), body.into())
    }

    pub fn status(status: u16) -> Self {
        Self::Whole(status, Vec::new(), br#"{"errors": [{"message": "as \u001b[31mtold"}]}"#.to_vec())
    }
}

/// A registry that answers as a test says, and remembers what it was asked.
#[derive(Clone)]
pub struct Fake {
    pub host: String,
    requests: Arc<Mutex<Vec<RecordedRequest>>>,
    /// Connections on which a body is held back.
    held: Arc<Mutex<usize>>,
}

impl Fake {
    pub fn start(answer: impl Fn(&RecordedRequest) -> Answer + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let host = listener.local_addr().expect("an address").to_string();
        let fake = Self { host, requests: Arc::default(), held: Arc::default() };
        let (answer, mine) = (Arc::new(answer), fake.clone());
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let (answer, mine) = (answer.clone(), mine.clone());
                std::thread::spawn(move || mine.serve(stream, &*answer));
            }
        });
        fake
    }

    /// One that has an image under every name, but for what `other` answers.
    pub fn with(
        image: &Image,
        other: impl Fn(&RecordedRequest) -> Option<Answer> + Send + Sync + 'static,
    ) -> Self {
        let image = image.clone();
        Self::start(move |asked| other(asked).unwrap_or_else(|| serve(&image, asked)))
    }

    pub fn requests(&self) -> Vec<RecordedRequest> {
        self.requests.lock().expect("asked").clone()
    }

    pub fn count(&self, part: &str) -> usize {
        self.requests().iter().filter(|asked| asked.path.contains(part)).count()
    }

    pub fn held(&self) -> usize {
        *self.held.lock().expect("held")
    }

    fn serve(&self, mut stream: TcpStream, answer: &(dyn Fn(&RecordedRequest) -> Answer + Send + Sync)) {
        let Some(asked) = read(&stream) else { return };
        self.requests.lock().expect("asked").push(asked.clone());
        let begin = |stream: &mut TcpStream, status: u16, headers: &[(&str, String)], len: usize| {
            let mut head = format!("HTTP/1.1 {status} X\r\nConnection: close\r\nContent-Length: {len}\r\n");
            headers.iter().for_each(|(name, value)| head.push_str(&format!("{name}: {value}\r\n")));
            stream.write_all(format!("{head}\r\n").as_bytes())
        };
        let _ = match answer(&asked) {
            Answer::Whole(status, headers, body) => {
                begin(&mut stream, status, &headers, body.len()).and_then(|()| stream.write_all(&body))
            }
            Answer::Cut(body, at) => {
                begin(&mut stream, 200, &[], body.len()).and_then(|()| stream.write_all(&body[..at]))
            }
            Answer::Held(body, at) => {
                begin(&mut stream, 200, &[], body.len()).expect("written");
                stream.write_all(&body[..at]).expect("written");
                *self.held.lock().expect("held") += 1;
                // Until the other end closes.
                let ended = stream.read(&mut [0; 1]).map(drop);
                *self.held.lock().expect("held") -= 1;
                ended
            }
            Answer::Endless => {
                let _ = stream.write_all(b"HTTP/1.1 200 X\r\nConnection: close\r\n\r\n");
                let piece = vec![b' '; 64 << 10];
                while stream.write_all(&piece).is_ok() {}
                Ok(())
            }
        };
    }
}

/// What an honest registry answers.
pub fn serve(image: &Image, asked: &RecordedRequest) -> Answer {
    let name = asked.path.rsplit('/').next().unwrap_or_default();
    match image.blobs.get(name) {
        _ if asked.path.contains("/manifests/") => Answer::ok(image.manifest.clone()),
        Some(blob) if asked.from() > 0 => Answer::Whole(206, Vec::new(), blob[asked.from()..].to_vec()),
        Some(blob) => Answer::ok(blob.clone()),
        None => Answer::status(404),
    }
}

fn read(stream: &TcpStream) -> Option<RecordedRequest> {
    let mut lines = BufReader::new(stream).lines();
    let path = lines.next()?.ok()?.split(' ').nth(1)?.to_owned();
    let headers = lines.map_while(|line| line.ok().filter(|line| !line.is_empty()));
    let pair = |line: String| {
        let (name, value) = line.split_once(':')?;
        Some((name.to_ascii_lowercase(), value.trim().to_owned()))
    };
    Some(RecordedRequest { path, headers: headers.filter_map(pair).collect() })
}
