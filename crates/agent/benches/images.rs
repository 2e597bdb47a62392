//! The time to get an image of 500 MB in layers from a registry on this machine, beside the time that the disk and the usual
//! unpacker take for the same layers.

#[path = "../tests/common/mod.rs"]
#[allow(dead_code)]
mod common;
#[path = "../tests/common/image_world.rs"]
#[allow(dead_code)]
mod image_world;
#[path = "../tests/common/images.rs"]
#[allow(dead_code)]
mod images;
#[path = "../tests/common/server.rs"]
#[allow(dead_code)]
mod server;

use std::fs::{self, File};
use std::io::Write;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use berth_api::agent::{AgentOutcome, AgentQuery, PullImage};
use image_world::World;
use images::{Fake, Image, Layer};
use serde_json::json;

const LAYERS: usize = 5;
/// Of each layer: small files, and as many bytes in a large one.
const FILES: usize = 800;
const FILE_BYTES: usize = 64 << 10;
const ROUNDS: usize = 3;

fn main() {
    let image = Image::new((0..LAYERS).map(layer).collect(), json!({"Cmd": ["/bin/sh"]}));
    let zipped: usize = image.layers.iter().map(|name| image.blobs[name].len()).sum();
    println!(
        "{LAYERS} layers, {} MB, {} MB as they come",
        2 * LAYERS * FILES * FILE_BYTES / 1_000_000,
        zipped / 1_000_000
    );
    let fake = Fake::with(&image, |_| None);
    for round in 0..ROUNDS {
        let Some(mut world) = World::new(&fake.host) else { return };
        let name = format!("{}/app:{round}", fake.host);
        let began = Instant::now();
        pull(&mut world, &name);
        let agent = began.elapsed();
        drop(world);
        let (unpacker, disk) = (unpacked(&image), written(2 * LAYERS * FILES * FILE_BYTES));
        let limit = unpacker.max(disk);
        println!(
            "the agent {agent:.2?}, tar alone {unpacker:.2?}, the disk alone {disk:.2?}: {:.0} % of the limit",
            limit.as_secs_f64() / agent.as_secs_f64() * 100.0
        );
    }
}

/// Half of it shrinks well and the other half not at all, as programs and what is packed already do.
fn layer(number: usize) -> Vec<u8> {
    let mut seed = 0x9e37_79b9_7f4a_7c15 ^ (number as u64 + 1);
    let mut piece = |len: usize| -> Vec<u8> {
        let mut bytes = Vec::with_capacity(len);
        while bytes.len() < len {
            seed ^= seed << 13;
            seed ^= seed >> 7;
            seed ^= seed << 17;
            let is_noise = bytes.len() / 4096 % 2 == 0;
            bytes.extend_from_slice(&if is_noise { seed } else { 0x2066_6f20_6568_7420 }.to_le_bytes());
        }
        bytes
    };
    let dir = format!("srv/{number}");
    let layer = (0..FILES).fold(Layer::new().dir(&format!("{dir}/"), 0o755, 0), |layer, file| {
        layer.file(&format!("{dir}/{file}"), piece(FILE_BYTES))
    });
    layer.file(&format!("{dir}/large"), piece(FILES * FILE_BYTES)).finish()
}

/// Until the agent says that it has the image.
fn pull(world: &mut World, name: &str) {
    loop {
        match world.server.ask(AgentQuery::PullImage(PullImage { name: name.into(), always: false })) {
            AgentOutcome::ImagePull(pull) if pull.image.is_some() => return,
            AgentOutcome::ImagePull(_) => {}
            other => panic!("{other:?}"),
        }
    }
}

/// What `tar` takes to unpack all layers beside each other, until they are on disk.
fn unpacked(image: &Image) -> Duration {
    let dir = tempfile::tempdir().expect("a directory");
    let archives: Vec<_> = (0..LAYERS).map(|number| dir.path().join(format!("{number}.tar.gz"))).collect();
    for (archive, name) in archives.iter().zip(&image.layers) {
        fs::write(archive, &image.blobs[name]).expect("written");
    }
    sync(dir.path());
    let began = Instant::now();
    let running = archives.iter().enumerate().map(|(number, archive)| {
        let into = dir.path().join(number.to_string());
        fs::create_dir(&into).expect("made");
        Command::new("tar").arg("-xzf").arg(archive).arg("-C").arg(into).spawn().expect("tar")
    });
    for mut one in running.collect::<Vec<_>>() {
        assert!(one.wait().expect("an end").success());
    }
    sync(dir.path());
    began.elapsed()
}

/// What the disk takes for so many bytes.
fn written(bytes: usize) -> Duration {
    let dir = tempfile::tempdir().expect("a directory");
    let mut file = File::create(dir.path().join("file")).expect("a file");
    let piece = vec![7; 1 << 20];
    let began = Instant::now();
    for _ in 0..bytes / piece.len() {
        file.write_all(&piece).expect("written");
    }
    file.sync_all().expect("synced");
    began.elapsed()
}

fn sync(dir: &Path) {
    let dir = File::open(dir).expect("opened");
    rustix::fs::syncfs(dir).expect("synced");
}
