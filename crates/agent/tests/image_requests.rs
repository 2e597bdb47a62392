//! Requests of users about a node's images: lists, pulls, archives that are sent in pieces, removals.

#[allow(dead_code)]
mod common;
#[allow(dead_code)]
#[path = "common/image_world.rs"]
mod image_world;
#[allow(dead_code)]
#[path = "common/images.rs"]
mod images;
#[path = "common/server.rs"]
#[allow(dead_code)]
mod server;

use berth_api::agent::{
    AgentOutcome, AgentQuery, ClientStatus, GetImages, GroupSpec, IMAGE_PIECE_BYTES_MAX, ImageInfo,
    ImageLoad, LoadImages, PullImage, PullProgress, Refusal, RefusalKind, RemoveImage, RestartSpec, RunAlloc,
    TaskSpec,
};
use bytes::Bytes;
use common::{alloc_id, eventually};
use image_world::{World, simple};
use images::{Answer, Fake, Image, Layer};
use prost::Message;
use serde_json::json;
use server::Run;

fn listed(world: &mut World) -> Vec<ImageInfo> {
    match world.server.ask(AgentQuery::Images(GetImages {})) {
        AgentOutcome::Images(found) => {
            assert!(found.disk_bytes > found.disk_free_bytes && found.left_off == 0);
            found.images
        }
        other => panic!("{other:?}"),
    }
}

fn remove(world: &mut World, name: &str) -> Result<(), Refusal> {
    match world.server.ask(AgentQuery::RemoveImage(RemoveImage { name: name.into() })) {
        AgentOutcome::Done(_) => Ok(()),
        AgentOutcome::Refused(refusal) => Err(refusal),
        other => panic!("{other:?}"),
    }
}

fn pull(world: &mut World, name: &str, always: bool) -> Result<PullProgress, Refusal> {
    match world.server.ask(AgentQuery::PullImage(PullImage { name: name.into(), always })) {
        AgentOutcome::ImagePull(pull) => Ok(pull),
        AgentOutcome::Refused(refusal) => Err(refusal),
        other => panic!("{other:?}"),
    }
}

fn send(world: &mut World, asked: LoadImages) -> Result<ImageLoad, Refusal> {
    match world.server.ask(AgentQuery::LoadImages(asked)) {
        AgentOutcome::ImageLoad(load) => Ok(load),
        AgentOutcome::Refused(refusal) => Err(refusal),
        other => panic!("{other:?}"),
    }
}

/// Sends all of an archive, and waits for its end.
fn load(world: &mut World, upload: u8, archive: &[u8], name: &str) -> Result<Vec<ImageInfo>, Refusal> {
    let upload = Bytes::from(vec![upload; 16]);
    let part = |offset: usize, data: &[u8], end| LoadImages {
        upload: upload.clone(),
        offset: offset as u64,
        data: Bytes::copy_from_slice(data),
        end,
        name: name.into(),
        cancel: false,
    };
    let mut offset = 0;
    for piece in archive.chunks(IMAGE_PIECE_BYTES_MAX / 2) {
        while send(world, part(offset, piece, false))?.offset as usize == offset {}
        offset += piece.len();
    }
    loop {
        let load = send(world, part(offset, b"", true))?;
        if load.done {
            return Ok(load.images);
        }
    }
}

/// What `docker save` writes of images, under these names.
fn saved(images: &[(&Image, &[&str])]) -> Vec<u8> {
    let mut archive = Layer::new();
    let mut manifest = Vec::new();
    for (number, (image, names)) in images.iter().enumerate() {
        let told: serde_json::Value = serde_json::from_slice(&image.manifest).expect("json");
        let config = told["config"]["digest"].as_str().expect("text");
        let (config_file, layers) = (format!("{number}.json"), &image.layers);
        archive = archive.file(&config_file, &image.blobs[config]);
        let mut files = Vec::new();
        for (layer, digest) in layers.iter().enumerate() {
            let file = format!("{number}-{layer}/layer.tar");
            archive = archive.file(&file, &image.blobs[digest]);
            files.push(file);
        }
        manifest.push(json!({"Config": config_file, "RepoTags": names, "Layers": files}));
    }
    archive.file("manifest.json", json!(manifest).to_string()).finish()
}

#[test]
fn images_in_use_are_marked_and_stay() {
    let image = Image::new(
        vec![Layer::busybox().finish()],
        json!({"Cmd": ["/bin/sh", "-c", "echo up; sleep 1000"], "Env": ["PATH=/bin"]}),
    );
    let fake = Fake::with(&image, |_| None);
    let Some(mut world) = World::new(&fake.host) else { return };
    let name = format!("{}/app", fake.host);
    assert_eq!(listed(&mut world), []);
    let pulled = pull(&mut world, &name, false).expect("pulled").image.expect("an image");
    let full = format!("{name}:latest");
    assert_eq!((&*pulled.name, pulled.layers, pulled.private), (&*full, 1, false));
    assert_eq!(fake.count("/manifests/"), 1);
    assert_eq!(
        pull(&mut world, &name, false).expect("here").image.map(|image| image.name),
        Some(full.clone())
    );
    assert_eq!(fake.count("/manifests/"), 1, "it is here");
    pull(&mut world, &name, true).expect("pulled");
    assert_eq!(fake.count("/manifests/"), 2, "there may be a newer one");
    world.run(1, &json!({"image": name, "pull_policy": "never"}));
    world.server.wait_for_status(1, ClientStatus::Running);
    let images = listed(&mut world);
    assert_eq!((images.len(), &images[0].alloc_ids), (1, &vec![alloc_id(1).to_vec()]));
    assert!(images[0].pulled_ns > 0 && images[0].used_ns >= images[0].pulled_ns && images[0].bytes > 0);
    let refusal = remove(&mut world, &name).expect_err("in use");
    assert!(
        refusal.kind() == RefusalKind::Invalid && refusal.text.contains("in use by allocation"),
        "{refusal:?}"
    );
    world.server.desire(Vec::new(), &[1], &[], &[]);
    world.server.wait_for_status(1, ClientStatus::Complete);
    eventually("the image to be free", || remove(&mut world, &name).ok());
    assert_eq!(listed(&mut world), []);
    assert_eq!(world.layers(), Vec::<String>::new());
    let refusal = remove(&mut world, &name).expect_err("gone");
    assert_eq!(refusal.kind(), RefusalKind::NotFound);
}

#[test]
fn an_image_is_in_use_between_two_starts_and_not_after_a_start_that_fails() {
    let image = Image::new(
        vec![Layer::busybox().finish()],
        json!({"Cmd": ["/bin/sh", "-c", "exit 3"], "Env": ["PATH=/bin"]}),
    );
    let fake = Fake::with(&image, |_| None);
    let Some(mut world) = World::new(&fake.host) else { return };
    let name = format!("{}/app", fake.host);
    let run = |number: u8, user: &str| {
        let hour_ms = 3_600_000;
        let task = TaskSpec {
            name: "t".into(),
            driver: "docker".into(),
            user: user.into(),
            config_json: json!({"image": name}).to_string(),
            memory_mb: 64,
            restart: RestartSpec { attempts: 9, interval_ms: hour_ms, delay_ms: hour_ms, mode: 0 },
            ..TaskSpec::default()
        };
        let group = GroupSpec { job_type: "service".into(), tasks: vec![task], ..GroupSpec::default() };
        let alloc = RunAlloc { alloc_id: alloc_id(number).to_vec(), ..RunAlloc::default() };
        Run { alloc, group: group.encode_to_vec().into() }
    };
    world.server.desire(vec![run(1, "")], &[], &[], &[]);
    let first = world.server.wait_for(1, |status| status.tasks[0].restarts == 1);
    assert_eq!(first.tasks[0].exit_code, 3, "{first:?}");
    let bundle = |number: u8| {
        let id = berth_api::agent::AllocId(alloc_id(number));
        world.data.path().join(format!("allocs/{id}/keepers/t/bundle"))
    };
    assert!(!bundle(1).exists());
    let failed = bundle(2);
    assert_eq!(listed(&mut world)[0].alloc_ids, [alloc_id(1).to_vec()]);
    let refusal = remove(&mut world, &name).expect_err("in use");
    assert!(refusal.text.contains("in use by allocation"), "{refusal:?}");
    world.server.desire(Vec::new(), &[1], &[], &[]);
    world.server.wait_for_status(1, ClientStatus::Complete);
    assert_eq!(listed(&mut world)[0].alloc_ids, Vec::<Vec<u8>>::new());
    // The keeper finds out that the image has no such user.
    world.server.desire(vec![run(2, "nobody-there")], &[], &[], &[]);
    world.server.wait_for(2, |status| status.tasks[0].restarts == 1);
    assert!(!failed.exists(), "its bundle is left");
    world.server.desire(Vec::new(), &[2], &[], &[]);
    world.server.wait_for(2, |status| status.status().is_terminal());
    remove(&mut world, &name).expect("removed");
    assert_eq!(world.layers(), Vec::<String>::new());
}

#[test]
fn a_pull_that_cannot_be_says_why() {
    let fake = Fake::start(|_| Answer::status(404));
    let Some(mut world) = World::new(&fake.host) else { return };
    for (name, why) in [
        ("Nginx", "capital letters"),
        ("/etc", "is a path of the node"),
        (&*format!("{}/x", fake.host), "has no such image"),
    ] {
        let refusal = pull(&mut world, name, false).expect_err("refused");
        assert!(refusal.text.contains(why), "{}", refusal.text);
    }
}

/// It goes on while it is asked about, and ends with the last who does.
#[test]
fn a_slow_pull_says_how_far_it_is() {
    let image = simple("slow");
    let (layer, blob) = (image.layers[0].clone(), image.blobs[&image.layers[0]].clone());
    let all = blob.len() as u64;
    let fake = Fake::with(&image, move |asked| {
        asked.path.ends_with(&layer).then(|| Answer::Held(blob.clone(), 100_000))
    });
    let Some(mut world) = World::new(&fake.host) else { return };
    let name = format!("{}/slow", fake.host);
    let told = eventually("a part of it", || {
        let told = pull(&mut world, &name, false).expect("under way");
        (told.done_bytes > 0).then_some(told)
    });
    assert_eq!((told.done_bytes, told.total_bytes, told.image), (100_000, all, None));
    assert_eq!(fake.held(), 1, "all who ask wait for one download");
    eventually("it to end with the last who asked", || (fake.held() == 0).then_some(()));
    world.assert_clean();
}

#[test]
fn archives_are_taken_in_by_pieces() {
    let (one, other) = (simple("one"), simple("other"));
    let Some(mut world) = World::new("127.0.0.1:1") else { return };
    let both = saved(&[(&one, &["acme/one:1", "acme/one:2"]), (&other, &["other"])]);
    let names: Vec<String> =
        load(&mut world, 1, &both, "").expect("loaded").into_iter().map(|image| image.name).collect();
    let expected = ["docker.io/acme/one:1", "docker.io/acme/one:2", "docker.io/library/other:latest"];
    assert_eq!(names, expected);
    assert_eq!(world.output(1, &json!({"image": "acme/one:2"})), "one\n");
    assert_eq!(world.output(2, &json!({"image": "other", "pull_policy": "never"})), "other\n");
    assert_eq!(listed(&mut world).len(), 3);
    // OCI's form says a tag alone.
    let layout = one.layout();
    let mut archive = tar::Builder::new(Vec::new());
    archive.append_dir_all(".", layout.path()).expect("packed");
    let archive = archive.into_inner().expect("packed");
    let refusal = load(&mut world, 2, &archive, "").expect_err("unnamed");
    assert!(refusal.text.contains("does not say what its image is called"), "{}", refusal.text);
    let named = load(&mut world, 3, &archive, "oci/one").expect("loaded");
    assert_eq!(named[0].name, "docker.io/oci/one:latest");
    assert_eq!(format!("sha256:{}", hex(&named[0].digest)), one.digest());
    assert_eq!(world.output(3, &json!({"image": "oci/one"})), "one\n");
    // A root file system says nothing at all.
    let root = Layer::busybox().finish();
    load(&mut world, 4, &root, "bare/root:1").expect("loaded");
    let bare = json!({"image": "bare/root:1", "command": "/bin/echo", "args": ["bare"]});
    assert_eq!(world.output(4, &bare), "bare\n");
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[test]
fn what_cannot_be_loaded_leaves_nothing() {
    let one = simple("one");
    let Some(mut world) = World::new("127.0.0.1:1") else { return };
    let twice = saved(&[(&one, &["a"]), (&one, &["b"])]);
    let half = &saved(&[(&one, &["a"])])[..100_000];
    let odd = saved(&[(&one, &["Not A Name"])]);
    let nameless = saved(&[(&one, &[])]);
    let told: serde_json::Value = serde_json::from_slice(&one.manifest).expect("json");
    let config = &one.blobs[told["config"]["digest"].as_str().expect("text")];
    let manifest = json!([{"Config": "c.json", "RepoTags": ["a"], "Layers": ["0-0/layer.tar"]}]).to_string();
    let listed_alone = || Layer::new().file("c.json", config).file("manifest.json", &manifest);
    let missing = listed_alone().finish();
    let other = listed_alone().file("0-0/layer.tar", Layer::new().file("other", "x").finish()).finish();
    for (number, (archive, name, why)) in [
        (&*twice, "c", "which one name cannot stand for"),
        (half, "", "load the archive: after 0-0/layer.tar: "),
        (&odd, "", "capital letters"),
        (&nameless, "", "-name"),
        (b"what is this", "c", "load the archive: it does not begin as a tar archive does: "),
        (&missing, "", "read its layer 0-0/layer.tar: No such file"),
        (&other, "", "names: its content is"),
        (&twice, "Nginx", "capital letters"),
    ]
    .into_iter()
    .enumerate()
    {
        let refusal = load(&mut world, number as u8, archive, name).expect_err("refused");
        assert!(refusal.text.contains(why), "{why}: {}", refusal.text);
        assert_eq!(refusal.kind(), RefusalKind::Invalid, "it is the archive's mistake: {}", refusal.text);
    }
    assert_eq!(listed(&mut world), []);
    world.assert_clean();
}

#[test]
fn pieces_come_in_their_order_and_few_archives_at_a_time() {
    let one = simple("one");
    let Some(mut world) = World::new("127.0.0.1:1") else { return };
    let archive = saved(&[(&one, &["a"])]);
    let part = |upload: u8, offset: u64, data: &[u8]| LoadImages {
        upload: vec![upload; 16].into(),
        offset,
        data: Bytes::copy_from_slice(data),
        ..LoadImages::default()
    };
    let refusal = send(&mut world, part(1, 5, b"x")).expect_err("nothing came before");
    assert!(refusal.text.contains("send it again"), "{}", refusal.text);
    assert_eq!(send(&mut world, part(1, 0, &archive[..1_000])).expect("taken").offset, 1_000);
    assert_eq!(send(&mut world, part(1, 0, &archive[..1_000])).expect("known").offset, 1_000, "sent again");
    assert_eq!(send(&mut world, part(1, 9_000, b"x")).expect("too early").offset, 1_000);
    let large = send(&mut world, part(1, 1_000, &vec![0; IMAGE_PIECE_BYTES_MAX + 1])).expect_err("too large");
    assert_eq!(large.kind(), RefusalKind::Invalid);
    send(&mut world, part(2, 0, &archive[..1_000])).expect("taken");
    assert_eq!(send(&mut world, part(3, 0, b"x")).expect_err("the third").kind(), RefusalKind::Busy);
    for upload in [1, 2] {
        send(&mut world, LoadImages { cancel: true, ..part(upload, 0, b"") }).expect("cancelled");
    }
    world.assert_clean();
    load(&mut world, 3, &archive, "").expect("there is room again");
    eventually("the archive itself to go", || (world.layers().len() == 1).then_some(()));
    // One of which no more comes gives its place back by itself.
    send(&mut world, part(4, 0, &archive[..1_000])).expect("taken");
    eventually("its folder to be there", || (world.layers().len() == 2).then_some(()));
    eventually("it to be dropped", || (world.layers().len() == 1).then_some(()));
}
