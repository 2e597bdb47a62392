//! Images of nodes: listed, pulled, loaded and removed by command, and used by jobs.

/// What the agent's own tests unpack.
#[path = "../../agent/tests/common/corpus.rs"]
mod corpus;
mod e2e;

/// What the agent's own tests make images with.
#[allow(dead_code)]
#[path = "../../agent/tests/common/images.rs"]
mod images;

/// As those know it.
mod common {
    use std::time::{Duration, Instant};

    pub fn eventually<T>(what: &str, mut ask: impl FnMut() -> Option<T>) -> T {
        let deadline = Instant::now() + Duration::from_secs(30);
        loop {
            if let Some(answer) = ask() {
                return answer;
            }
            assert!(Instant::now() < deadline, "waited in vain for {what}");
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

use std::{
    fs,
    io::{Read, Write},
    net::TcpStream,
    os::unix::fs::{MetadataExt, PermissionsExt},
    process::Stdio,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use berth_api::http::Target;
use common::eventually;
use e2e::{berth, busybox::busybox_images, dev::Dev, free_port};
use images::{Fake, Image, Layer};
use serde_json::{Value, json};

/// One that waits until it is stopped.
fn waits() -> Image {
    let config = json!({"Cmd": ["/bin/sh", "-c", "echo up; exec sleep 1000"], "Env": ["PATH=/bin"]});
    Image::new(vec![Layer::busybox().finish()], config)
}

fn names(dev: &Dev) -> Vec<String> {
    dev.stdout_of(&["image", "list", "-o", "name"]).lines().map(str::to_owned).collect()
}

#[tokio::test]
async fn an_image_is_pulled_used_and_removed_by_command() {
    if busybox_images().is_none() {
        return;
    }
    let fake = Fake::with(&waits(), |_| None);
    let dev = Dev::start(&[&format!("--insecure-registries={}", fake.host)]);
    assert!(dev.stdout_of(&["image", "list"]).contains("no images: a node pulls what its tasks need"));
    let name = format!("{}/app:1", fake.host);
    assert!(dev.stdout_of(&["image", "pull", &name]).contains(&name));
    assert_eq!(names(&dev), [&*name]);
    let listed: Value = serde_json::from_str(&dev.stdout_of(&["image", "list", "--json"])).expect("JSON");
    assert_eq!(
        (&listed[0]["Name"], &listed[0]["Layers"], &listed[0]["Private"]),
        (&json!(name), &json!(1), &json!(false))
    );
    assert!(listed[0]["Digest"].as_str().is_some_and(|digest| digest.starts_with("sha256:")), "{listed}");
    assert!(listed[0]["NodeName"].is_string() && listed[0]["PulledAt"].as_u64() > Some(0), "{listed}");
    // What runs it keeps it.
    dev.stdout_of(&["run", "-detach", "-name", "app", &name]);
    let alloc = dev.allocs("app", 1, "running").await.remove(0);
    let listed: Value = serde_json::from_str(&dev.stdout_of(&["image", "list", "--json"])).expect("JSON");
    assert_eq!(listed[0]["Allocations"], json!([alloc]));
    let message = dev.complained(&["image", "rm", &name]);
    assert!(message.contains("in use by allocation") && message.contains(&alloc[..8]), "{message}");
    dev.stdout_of(&["job", "stop", "-yes", "app"]);
    eventually("the image to be free", || dev.berth(&["image", "rm", &name]).status.success().then_some(()));
    assert_eq!(names(&dev), [""; 0]);
    let gone = dev.berth(&["image", "rm", &name]);
    assert_eq!(gone.status.code(), Some(3), "{}", String::from_utf8_lossy(&gone.stderr));
    for (args, why) in [
        (&["image", "pull", "Nginx"][..], "capital letters"),
        (&["image", "pull", &format!("{}/../x", fake.host)], "image's name"),
        (&["image", "list", "-node", "elsewhere"], "elsewhere"),
    ] {
        let message = dev.complained(args);
        assert!(message.contains(why), "{args:?}: {message}");
    }
}

/// Serves a page on port 80; its layer is given once `go` is set.
fn serves(go: Arc<AtomicBool>) -> Fake {
    let config = json!({"Cmd": ["/bin/busybox", "httpd", "-f", "-p", "80", "-h", "/www"]});
    let layer = Layer::busybox().dir("www/", 0o755, 0).file("www/index.html", "hello\n");
    let image = Image::new(vec![layer.finish()], config);
    let name = image.layers[0].clone();
    Fake::with(&image, move |asked| {
        while asked.path.ends_with(&name) && !go.load(Ordering::Relaxed) {
            std::thread::sleep(Duration::from_millis(20));
        }
        None
    })
}

fn fetched(address: (&str, u16)) -> Option<String> {
    let mut stream = TcpStream::connect(address).ok()?;
    stream.write_all(b"GET / HTTP/1.0\r\n\r\n").ok()?;
    let mut text = String::new();
    stream.read_to_string(&mut text).ok()?;
    Some(text).filter(|text| text.contains("hello"))
}

#[tokio::test]
async fn a_pull_shows_its_progress_and_published_ports_are_reached() {
    if busybox_images().is_none() {
        return;
    }
    let go = Arc::new(AtomicBool::new(false));
    let fake = serves(go.clone());
    let dev = Dev::start(&[&format!("--insecure-registries={}", fake.host)]);
    let (name, port) = (format!("{}/web", fake.host), free_port());
    let mut run = berth(&["run", "-p", &format!("{port}:80"), "-name", "web", &name]);
    let run = run.env("BERTH_ADDR", &dev.address).stderr(Stdio::piped()).spawn().expect("it runs");
    let pulls = format!("Downloading image {name}");
    let alloc = dev.allocs("web", 1, "pending").await.remove(0);
    eventually("its events to tell of the pull", || {
        dev.stdout_of(&["alloc", "status", &alloc]).contains(&pulls).then_some(())
    });
    go.store(true, Ordering::Relaxed);
    let ended = run.wait_with_output().expect("it ends");
    let message = String::from_utf8_lossy(&ended.stderr).into_owned();
    assert!(ended.status.success() && message.contains(&pulls), "{message}");
    dev.allocs("web", 1, "running").await;
    let page = eventually("its page", || fetched(("127.0.0.1", port)));
    assert!(page.ends_with("hello\n"), "{page}");
    dev.stdout_of(&["job", "stop", "-yes", "web"]);
    eventually("its port to be closed", || TcpStream::connect(("127.0.0.1", port)).is_err().then_some(()));
}

/// A container's port leads in from the network of the node that its job names, and from no other.
#[tokio::test]
async fn a_port_of_a_container_is_taken_from_the_network_that_it_names() {
    if busybox_images().is_none() {
        return;
    }
    let fake = serves(Arc::new(AtomicBool::new(true)));
    let registry = format!("--insecure-registries={}", fake.host);
    let dev = Dev::start(&[&registry, "--host-networks", "lan=127.0.0.9"]);
    let group = json!({
        "Name": "g",
        "Networks": [{"DynamicPorts": [{"Label": "http", "To": 80, "HostNetwork": "lan"}]}],
        "Tasks": [{
            "Name": "t",
            "Driver": "docker",
            "Config": {"image": format!("{}/web", fake.host), "ports": ["http"]},
            "Resources": {"CPU": 1, "MemoryMB": 32},
        }],
    });
    dev.register(&json!({"ID": "web", "Name": "web", "Type": "service", "TaskGroups": [group]})).await;
    let id = dev.allocs("web", 1, "running").await.remove(0);
    let alloc: Value =
        dev.client().get(&Target::new("/v1/allocation").part(&id)).await.expect("it is there").value;
    let port = &alloc["AllocatedResources"]["Shared"]["Ports"][0];
    assert_eq!(port["HostIP"], "127.0.0.9", "{port}");
    let number = u16::try_from(port["Value"].as_u64().expect("a number")).expect("a port");
    eventually("its page", || fetched(("127.0.0.9", number)));
    assert!(TcpStream::connect(("127.0.0.1", number)).is_err(), "it is in the other network alone");
    dev.stdout_of(&["job", "stop", "-yes", "web"]);
}

#[tokio::test]
async fn a_layout_and_an_archive_are_loaded_by_command() {
    if busybox_images().is_none() {
        return;
    }
    let dev = Dev::start(&[]);
    let layout = waits().layout();
    let dir = layout.path().to_str().expect("plain");
    let message = dev.complained(&["image", "load", dir]);
    assert!(message.contains("give it a name (-name)"), "{message}");
    assert!(
        dev.stdout_of(&["image", "load", "-name", "acme/waits:1", dir]).contains("docker.io/acme/waits:1")
    );
    // The same as an archive, by standard input.
    let tar = dev.home.path().join("waits.tar");
    let mut archive = tar::Builder::new(fs::File::create(&tar).expect("a file"));
    archive.append_dir_all(".", layout.path()).expect("packed");
    archive.finish().expect("packed");
    let mut load = berth(&["image", "load", "-name", "acme/waits:2", "-"]);
    load.env("BERTH_ADDR", &dev.address).stdin(Stdio::from(fs::File::open(&tar).expect("a file")));
    let output = load.output().expect("it runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(names(&dev), ["docker.io/acme/waits:1", "docker.io/acme/waits:2"]);
    dev.stdout_of(&["run", "-detach", "-name", "waits", "acme/waits:2"]);
    let alloc = dev.allocs("waits", 1, "running").await.remove(0);
    dev.until_printed(&alloc, "up").await;
    // A file that is no archive, and one that there is not.
    fs::write(&tar, "what is this").expect("written");
    let message = dev.complained(&["image", "load", "-name", "x", tar.to_str().expect("plain")]);
    assert!(
        message.contains("waits.tar, node ") && message.contains("load the archive: it does not begin"),
        "{message}"
    );
    assert!(message.contains("docker save -o FILE IMAGE"), "{message}");
    let message = dev.complained(&["image", "load", "/nonexistent/image.tar"]);
    assert!(message.contains("/nonexistent/image.tar"), "{message}");
    dev.stdout_of(&["job", "stop", "-yes", "waits"]);
}

/// As root file systems, and as layers.
#[tokio::test]
async fn archives_whose_makers_mean_harm_are_loaded_nowhere() {
    if busybox_images().is_none() {
        return;
    }
    let outside = tempfile::tempdir().expect("a directory");
    fs::write(outside.path().join("kept"), "kept").expect("written");
    fs::set_permissions(outside.path(), fs::Permissions::from_mode(0o751)).expect("set");
    let path = outside.path().to_str().expect("plain");
    let up = format!("{}{}", "../".repeat(14), path.trim_start_matches('/'));
    let dev = Dev::start(&[]);
    let file = dev.home.path().join("image.tar");
    let load = |name: &str, tar: &[u8]| {
        fs::write(&file, tar).expect("written");
        let output = dev.berth(&["image", "load", "-name", name, file.to_str().expect("plain")]);
        assert!(output.status.code().is_some(), "{name}: {output:?}");
        output.status.success()
    };
    for (number, hostile) in corpus::all(path, &up).into_iter().enumerate() {
        let (name, refused) = (hostile.name, hostile.refused_as_layer());
        // By itself it would be a root file system.
        let is_loaded = load(&format!("root-{number}"), &hostile.tar);
        assert!(!(is_loaded && refused), "{name}: it is loaded");
        let image = Image::new(vec![hostile.tar], json!({"Cmd": ["/x"]}));
        let mut tar = tar::Builder::new(Vec::new());
        tar.append_dir_all(".", image.layout().path()).expect("packed");
        let is_loaded = load(&format!("layer-{number}"), &tar.into_inner().expect("packed"));
        assert!(!(is_loaded && refused), "{name}: it is loaded");
        let names: Vec<_> =
            fs::read_dir(outside.path()).expect("listed").flatten().map(|entry| entry.file_name()).collect();
        assert_eq!(names, ["kept"], "{name}");
        let kept = outside.path().join("kept");
        let found = (fs::read(&kept).expect("a file"), kept.metadata().expect("a file").nlink());
        assert_eq!(found, (b"kept".to_vec(), 1), "{name}");
        assert_eq!(outside.path().metadata().expect("a directory").mode() & 0o7777, 0o751, "{name}");
    }
}
