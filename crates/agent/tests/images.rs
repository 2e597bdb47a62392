//! What becomes of images: their layers, their settings, and those that do harm. How they are pulled: `pull`.

#[allow(dead_code)]
mod common;
#[path = "common/image_world.rs"]
mod image_world;
#[allow(dead_code)]
#[path = "common/images.rs"]
mod images;
#[path = "images/pull.rs"]
mod pull;
#[path = "common/server.rs"]
#[allow(dead_code)]
mod server;

use std::fs;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};

use berth_api::agent::{AllocStatus, ClientStatus, PortBinding};
use common::{agent_program, eventually};
use image_world::{World, events, simple};
use images::{Answer, Fake, Image, Layer, RecordedRequest, Registry, digest};
use serde_json::{Value, json};
use tempfile::TempDir;

/// `user` with the password `secret`, as htpasswd writes it.
const USERS: &str = "user:$2b$04$1yaJY5S3vGpqkePWu5alrecnqtzLYoAa2XnGMZfGlLk.POjohBbJW\n";

/// Three layers: the second removes a file and all of a directory, the third adds.
fn layered() -> Image {
    let layers = vec![
        Layer::busybox().file("etc/gone", "x").file("etc/kept", "x").file("srv/old", "x").finish(),
        Layer::new().file("etc/.wh.gone", "").file("srv/.wh..wh..opq", "").file("srv/new", "x").finish(),
        Layer::new()
            .file("etc/passwd", "root:x:0:0::/root:\napp:x:7:8::/home/app:\n")
            .dir("data/", 0o700, 7)
            .finish(),
    ];
    let config = json!({"Entrypoint": ["/bin/sh", "-c"], "Cmd": ["ls /etc /srv; id -u; pwd; echo $A $PATH $HOME"],
        "Env": ["A=image", "PATH=/bin"], "User": "app", "WorkingDir": "/app/deep", "Volumes": {"/vol": {}}});
    Image::new(layers, config)
}

#[test]
fn what_an_image_says_holds_unless_the_job_says_otherwise() {
    let Some(registry) = Registry::start(None) else { return };
    let Some(mut world) = World::new(&registry.host) else { return };
    let name = registry.push(&layered(), "acme/layered:1", "oci", None);
    let expected = "/etc:\nhostname\nhosts\nkept\npasswd\nresolv.conf\n\n/srv:\nnew\n7\n/app/deep\nimage /bin /home/app\n";
    assert_eq!(world.output(1, &json!({"image": name})), expected);
    let docker = registry.push(&layered(), "acme/docker", "v2s2", None);
    assert_eq!(world.output(2, &json!({"image": docker})), expected);
    let said = json!({"image": name, "command": "pwd; stat -c %a:%u /data /vol", "work_dir": "/tmp"});
    assert_eq!(world.output(3, &said), "/tmp\n700:7\n755:0\n");
    let other = json!({"image": name, "entrypoint": "/bin/echo", "args": ["mine"]});
    assert_eq!(world.output(4, &other), "mine\n");
    let bare = json!({"image": name, "entrypoint": ["/bin/echo"]});
    assert_eq!(world.output(5, &bare), "\n");
    let read_only = json!({"image": name, "command": "touch /tmp/x 2>/dev/null || echo fixed; touch /local/x && echo open",
        "readonly_rootfs": true, "cap_drop": ["all"], "hostname": "web"});
    assert_eq!(world.output(6, &read_only), "fixed\nopen\n");
}

/// What an image says that it writes to can be written to, and its own files cannot.
#[test]
fn volumes_of_an_image_are_writable_though_its_root_is_not() {
    let layers = vec![
        Layer::busybox()
            .dir("vol/", 0o755, 7)
            .file("vol/of-image", "x")
            .file("etc/passwd", "app:x:7:7::/:\n")
            .finish(),
    ];
    let script = "cat /vol/of-image; echo; echo mine > /vol/mine && cat /vol/mine; echo x 2>/dev/null > /made/x || echo no; \
                  echo x 2>/dev/null > /etc/x || echo no; stat -c %u /vol/mine";
    let config = json!({"Cmd": ["/bin/sh", "-c", script], "Env": ["PATH=/bin"], "User": "app",
                        "Volumes": {"/vol": {}, "made": {}, "/": {}, "/bin/sh": {}}});
    let image = Image::new(layers, config);
    let fake = Fake::with(&image, |_| None);
    let Some(mut world) = World::new(&fake.host) else { return };
    let name = format!("{}/acme/volumes", fake.host);
    // What is made for a volume is root's, as with Docker.
    assert_eq!(world.output(1, &json!({"image": name, "readonly_rootfs": true})), "x\nmine\nno\nno\n7\n");
}

/// As kaniko writes layers: all from the root on, which has an entry of its own.
#[test]
fn a_layer_that_names_all_from_the_root_on_runs() {
    let busybox = fs::read("/bin/busybox").expect("busybox");
    let layer = Layer::new()
        .named("/", tar::EntryType::Directory, "", b"")
        .named("/bin/", tar::EntryType::Directory, "", b"")
        .named("/bin/busybox", tar::EntryType::Regular, "", &busybox)
        .named("/bin/echo", tar::EntryType::Link, "/bin/busybox", b"");
    let image = Image::new(vec![layer.finish()], json!({"Cmd": ["/bin/echo", "from the root"]}));
    let fake = Fake::with(&image, |_| None);
    let Some(mut world) = World::new(&fake.host) else { return };
    let name = format!("{}/acme/kaniko", fake.host);
    assert_eq!(world.output(1, &json!({"image": name})), "from the root\n");
}

/// Two layers of hard links to files of the lowest, one of which is part of an image of another base, too.
fn linked() -> [Image; 2] {
    let base = |text: &str| Layer::busybox().file("srv/text", text).finish();
    let link = tar::EntryType::Link;
    let links = Layer::new().named("srv/same", link, "/srv/text", b"").finish();
    let over = Layer::new()
        .file("srv/.wh.text", "")
        .named("srv/again", link, "srv/same", b"")
        .named("srv/once", link, "srv/again", b"")
        .finish();
    let script = "cat /srv/same /srv/again /srv/once; ls /srv; stat -c %h:%a:%u /srv/same; echo x >> /srv/again; \
                  cat /srv/again /srv/same";
    let config = json!({"Cmd": ["/bin/sh", "-c", script], "Env": ["PATH=/bin"]});
    let image = |text: &str| Image::new(vec![base(text), links.clone(), over.clone()], config.clone());
    [image("one\n"), image("two\n")]
}

#[test]
fn hard_links_lead_to_files_of_lower_layers() {
    let Some(registry) = Registry::start(None) else { return };
    let layout = linked()[0].layout();
    let env = [("AGENT_REGISTRIES", &*registry.host)];
    let Some(mut world) = World::with_images(&env, layout.path()) else { return };
    let saved = world.output(9, &json!({"image": layout.path()}));
    for (image, text, number) in linked().iter().zip(["one", "two"]).zip(1..).map(|((a, b), c)| (a, b, c)) {
        let name = registry.push(image, &format!("acme/{text}:1"), "oci", None);
        let output = world.output(number, &json!({"image": name}));
        let [head, tail] = [format!("{text}\n").repeat(3), format!("{text}\nx\n{text}\n")];
        assert!(output.starts_with(&format!("{head}again\nonce\nsame\n")), "{output}");
        // A file that is written to has one name.
        assert!(output.ends_with(&tail), "{output}");
        assert!(text == "two" || output == saved, "{saved}");
        assert_eq!(world.output(number + 2, &json!({"image": name})), output, "as it was");
    }
    // The base, and each layer of links once for each base.
    assert_eq!(world.layers().len(), 6, "{:?}", world.layers());
}

/// A link of a layer to a file that none below it has.
#[test]
fn hard_links_to_nothing_are_refused_by_name() {
    let layer = Layer::new().named("srv/same", tar::EntryType::Link, "etc/shadow", b"");
    let image = Image::new(vec![Layer::busybox().finish(), layer.finish()], json!({"Cmd": ["/bin/true"]}));
    let fake = Fake::with(&image, |_| None);
    let Some(mut world) = World::new(&fake.host) else { return };
    let refusal = world.refusal(1, &json!({"image": format!("{}/acme/nothing", fake.host)}));
    let expected =
        "srv/same: a hard link to etc/shadow, which is neither before it in its archive nor in a layer below";
    assert!(refusal.contains(expected), "{refusal}");
    eventually("the part of the image to go", || (world.layers().len() == 1).then_some(()));
}

/// A list whose only entry does not say what it is for, and an image by itself.
#[test]
fn an_image_for_another_machine_is_refused_by_name() {
    let image = simple("elsewhere");
    let other = image.made_for("linux", "s390x");
    let fake = Fake::with(&other, |_| None);
    let Some(mut world) = World::new(&fake.host) else { return };
    let told = world.refusal(1, &json!({"image": format!("{}/acme/other", fake.host)}));
    assert!(told.contains("it is made for linux/s390x, and this node is linux/"), "{told}");
    assert_eq!(fake.count(&other.layers[0]), 0, "no layer is fetched");
}

/// The same image with layers that are compressed with zstd.
fn with_zstd(mut image: Image) -> Image {
    use ruzstd::encoding::{CompressionLevel, compress_to_vec};
    let mut manifest: Value = serde_json::from_slice(&image.manifest).expect("json");
    image.layers.clear();
    for layer in manifest["layers"].as_array_mut().expect("layers") {
        let gzip = image.blobs.remove(layer["digest"].as_str().expect("text")).expect("a layer");
        let zstd = compress_to_vec(flate2::read::GzDecoder::new(gzip.as_slice()), CompressionLevel::Fastest);
        *layer = json!({"mediaType": "application/vnd.oci.image.layer.v1.tar+zstd", "digest": digest(&zstd),
                        "size": zstd.len()});
        image.layers.push(digest(&zstd));
        image.blobs.insert(digest(&zstd), zstd);
    }
    Image { manifest: manifest.to_string().into_bytes(), ..image }
}

#[test]
fn layers_may_be_compressed_with_zstd() {
    let image = with_zstd(simple("by zstd"));
    let fake = Fake::with(&image, |_| None);
    let Some(mut world) = World::new(&fake.host) else { return };
    assert_eq!(world.output(1, &json!({"image": format!("{}/acme/zstd", fake.host)})), "by zstd\n");
}

/// The distribution's nginx, with the libraries that it needs.
fn nginx() -> Image {
    let needed = Command::new("ldd").arg(NGINX).output().expect("ldd").stdout;
    let needed = String::from_utf8(needed).expect("text");
    let paths = needed.split_whitespace().filter(|word| word.starts_with('/'));
    let libraries =
        paths.fold(Layer::busybox(), |layer, path| layer.program(path.trim_start_matches('/'), path));
    let conf = "user www-data;\nworker_processes 1;\nerror_log /dev/stderr;\nevents {}\nhttp {\n  access_log /dev/stdout;\n  \
                server { listen 80; root /srv; }\n}\n";
    let site = Layer::new()
        .program("usr/sbin/nginx", NGINX)
        .file("etc/passwd", "root:x:0:0::/root:/bin/sh\nwww-data:x:33:33::/var/www:/bin/false\n")
        .file("etc/group", "root:x:0:\nwww-data:x:33:\n")
        .file("etc/nginx/nginx.conf", conf)
        .file("srv/index.html", "it works\n")
        .dir("var/lib/nginx/", 0o755, 0)
        .dir("var/log/nginx/", 0o755, 33)
        .dir("run/", 0o755, 0);
    let config = json!({"Cmd": ["nginx", "-g", "daemon off;"], "Env": ["PATH=/usr/sbin:/bin"], "StopSignal": "SIGQUIT",
        "ExposedPorts": {"80/tcp": {}}});
    Image::new(vec![libraries.finish(), site.finish()], config)
}

const NGINX: &str = "/usr/sbin/nginx";

/// It begins as root, makes directories for another user, opens port 80, and drops its rights.
#[test]
fn nginx_runs_as_it_comes() {
    if !Path::new(NGINX).exists() {
        return eprintln!("skipped: {NGINX} is missing");
    }
    let Some(registry) = Registry::start(None) else { return };
    let Some(mut world) = World::new(&registry.host) else { return };
    let name = registry.push(&nginx(), "nginx", "oci", None);
    let port =
        TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr()).expect("a port").port();
    let ports =
        vec![PortBinding { label: "http".into(), host_port: port.into(), to: 80, ..PortBinding::default() }];
    let config = json!({"image": name, "ports": ["http"]});
    world.run_with_ports(1, &config, ports.clone());
    world.server.wait_for_status(1, ClientStatus::Running);
    let page = eventually("a page", || {
        let mut stream = TcpStream::connect(("127.0.0.1", port)).ok()?;
        stream.write_all(b"GET / HTTP/1.0\r\n\r\n").ok()?;
        let mut page = String::new();
        stream.read_to_string(&mut page).ok()?;
        page.contains("200 OK").then_some(page)
    });
    assert!(page.ends_with("it works\n"), "{page}");
    let owners: Vec<String> = fs::read_dir("/proc")
        .expect("listed")
        .flatten()
        .filter(|entry| {
            fs::read_to_string(entry.path().join("cmdline"))
                .is_ok_and(|line| line.starts_with("nginx: worker"))
        })
        .filter_map(|entry| fs::read_to_string(entry.path().join("status")).ok())
        .filter_map(|status| status.lines().find(|line| line.starts_with("Uid:")).map(str::to_owned))
        .collect();
    // Its user is 33, which is another number on the host: that of the first allocation there.
    let www = 0x7000_0000 + 33;
    assert!(owners.contains(&format!("Uid:\t{www}\t{www}\t{www}\t{www}")), "{owners:?}");
    // The port is in use: whoever wants it as well is told so, and does not run.
    world.run_with_ports(2, &config, ports);
    let told = events(&world.server.wait_for_status(2, ClientStatus::Failed));
    assert!(told.contains(&format!("127.0.0.1:{port}")) && told.contains("in use"), "{told}");
    world.server.desire(Vec::new(), &[1], &[], &[]);
    let status = world.server.wait_for_status(1, ClientStatus::Complete);
    assert_eq!(
        (status.tasks[0].exit_code, status.tasks[0].signal),
        (0, 0),
        "asked as its image wants it, it ends well"
    );
}

/// A disk in memory; gone with this.
struct Disk(TempDir);

impl Disk {
    fn of_mib(size: u32) -> Option<Self> {
        let dir = tempfile::tempdir().expect("a directory");
        let mut command = Command::new("mount");
        command.args(["-t", "tmpfs", "-o", &format!("size={size}m"), "tmpfs"]).arg(dir.path());
        command.status().is_ok_and(|status| status.success()).then(|| Self(dir))
    }

    fn free_mib(&self) -> u64 {
        let found = rustix::fs::statvfs(self.0.path()).expect("a disk");
        (found.f_bavail * found.f_frsize) >> 20
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(self.0.path()).status();
    }
}

/// A layer that unpacks to a thousand times its size is stopped before the disk is full, and the disk is given back.
#[test]
fn a_bomb_does_not_fill_the_disk() {
    let zeros = vec![0; 400 << 20];
    let image = Image::new(vec![Layer::new().file("zeros", &zeros).finish()], json!({"Cmd": ["/zeros"]}));
    drop(zeros);
    let fake = Fake::with(&image, |_| None);
    let Some(disk) = Disk::of_mib(128) else { return eprintln!("skipped: nothing can be mounted") };
    let data = tempfile::tempdir_in(disk.0.path()).expect("a directory");
    let Some(mut world) = World::at(data, &[("AGENT_REGISTRIES", &fake.host)], Path::new("/nonexistent"))
    else {
        return;
    };
    let told = world.refusal(1, &json!({"image": format!("{}/bomb", fake.host)}));
    assert!(told.contains("nearly full") || told.contains("No space left"), "{told}");
    eventually("the disk to be given back", || (disk.free_mib() >= 120).then_some(()));
    world.assert_clean();
}

/// As other tools save it, and as it comes from a registry, an image is the same.
#[test]
fn what_is_no_file_is_refused_by_name_and_waited_for_by_nobody() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = |name: &str| dir.path().join(name);
    rustix::fs::mkfifoat(rustix::fs::CWD, path("pipe"), rustix::fs::Mode::RWXU).expect("a pipe");
    let _socket = std::os::unix::net::UnixListener::bind(path("socket")).expect("a socket");
    let Some(mut world) = World::with_images(&[], dir.path()) else { return };
    for (number, name, what) in [(1, "pipe", "a named pipe"), (2, "socket", "a socket")] {
        let why = world.refusal(number, &json!({"image": path(name)}));
        assert!(why.contains(what) && why.contains(name), "{why}");
    }
}

#[test]
fn saved_images_run_as_they_are() {
    if !Path::new(images::SKOPEO).exists() {
        return eprintln!("skipped: {} is missing", images::SKOPEO);
    }
    let dir = tempfile::tempdir().expect("a directory");
    let Some(mut world) = World::with_images(&[], dir.path()) else { return };
    let layout = layered().layout();
    let save = |kind: &str, name: &str| {
        let path = dir.path().join(name);
        let mut command = Command::new(images::SKOPEO);
        command.args([
            "copy",
            "--quiet",
            "--insecure-policy",
            &format!("oci:{}:it", layout.path().display()),
        ]);
        assert!(command.arg(format!("{kind}:{}:it", path.display())).status().expect("skopeo").success());
        path
    };
    let saved = [save("docker-archive", "docker.tar"), save("oci-archive", "oci.tar"), save("oci", "oci")];
    for (path, number) in saved.iter().zip(1..) {
        let output = world.output(number, &json!({"image": path}));
        assert!(output.contains("/srv:\nnew\n7\n/app/deep\nimage /bin /home/app\n"), "{output}");
    }
    // The same again, from what is here.
    assert!(world.output(4, &json!({"image": saved[0]})).contains("/srv:\nnew\n"));
    // A layer that is not what it is called.
    let bad = simple("bad");
    let bad_layout = bad.layout();
    let blob = bad_layout.path().join("blobs/sha256").join(bad.layers[0].trim_start_matches("sha256:"));
    fs::write(&blob, Layer::busybox().file("etc/more", "x").finish()).expect("written");
    let moved = dir.path().join("bad");
    assert!(Command::new("cp").arg("-r").arg(bad_layout.path()).arg(&moved).status().expect("cp").success());
    let told = world.refusal(5, &json!({"image": moved}));
    assert!(told.contains("a layer is sha256:") && told.contains("should be sha256:"), "{told}");
}

/// As many as Docker allows: the kernel is told of all of them in a page.
#[test]
fn an_image_may_have_more_than_a_hundred_layers() {
    let first = Layer::busybox().finish();
    let others = (0..126).map(|number| Layer::new().file(&format!("srv/{number}"), "x").finish());
    let config = json!({"Cmd": ["/bin/sh", "-c", "set -- /srv/*; echo $#"], "Env": ["PATH=/bin"]});
    let image = Image::new(std::iter::once(first).chain(others).collect(), config);
    let fake = Fake::with(&image, |_| None);
    let Some(mut world) = World::new(&fake.host) else { return };
    assert_eq!(
        world.output(1, &json!({"image": format!("{}/many", fake.host)})),
        "126
"
    );
}

/// Killed while a layer is being unpacked, an agent goes on from nothing, and leaves nothing.
#[test]
fn an_agent_that_is_killed_meanwhile_pulls_again() {
    static HOLD: AtomicUsize = AtomicUsize::new(1);
    let image = simple("again");
    let (layer, blob) = (image.layers[0].clone(), image.blobs[&image.layers[0]].clone());
    let fake = Fake::with(&image, move |asked| {
        let hold = asked.path.ends_with(&layer) && HOLD.swap(0, Ordering::SeqCst) == 1;
        hold.then(|| Answer::Held(blob.clone(), 100_000))
    });
    let Some(mut world) = World::new(&fake.host) else { return };
    let number = 1;
    world.run(number, &json!({"image": format!("{}/x", fake.host)}));
    eventually("the download", || (fake.held() == 1).then_some(()));
    eventually("a part", || world.layers().iter().any(|name| name.starts_with("new.")).then_some(()));
    world.agent.kill().expect("killed");
    world.agent.wait().expect("an end");
    world.server.disconnect();
    let mut command = Command::new(agent_program());
    command.arg("run").arg(world.data.path()).arg(world.server.address()).arg("/usr/bin/crun");
    world.agent = command.env("AGENT_REGISTRIES", &fake.host).stdin(Stdio::null()).spawn().expect("an agent");
    world.server.accept();
    world.server.wait_for_status(number, ClientStatus::Complete);
    assert_eq!(world.server.read_log(number, "t", 0, false).as_deref(), Ok("again\n"));
    eventually("the part to go", || (world.layers().len() == 1).then_some(()));
}
