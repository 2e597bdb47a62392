//! Archives and directories that hold images as tools save them: OCI's layout, and what `docker save` writes.
//!
//! Whoever made them is not trusted: files are opened with the directory as their root, read up to a limit, and what a
//! digest names is checked by it.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::fs::{Mode, OFlags, ResolveFlags, openat2};
use serde::Deserialize;

use super::config::ImageConfig;
use super::digest::Digest;
use super::manifest::{CONFIG_BYTES_MAX, Descriptor, Document, MANIFEST_BYTES_MAX, for_platform, here};
use crate::resolve::resolve;

const OCI_MARK: &str = "oci-layout";
const OCI_INDEX: &str = "index.json";
const DOCKER_INDEX: &str = "manifest.json";

/// How deep lists of images may refer to further lists.
const INDEXES_MAX: usize = 3;
const LAYERS_MAX: usize = 128;

/// Images that one archive or directory may hold.
const IMAGES_MAX: usize = 64;

/// What tools write beside an image of OCI's layout: its name in full, and what may be a tag alone.
const FULL_NAME: &str = "io.containerd.image.name";
const REF_NAME: &str = "org.opencontainers.image.ref.name";

/// An image in a directory.
#[derive(Debug)]
pub(super) struct Saved {
    root: Arc<File>,
    /// What it is called there; not checked.
    pub(super) names: Vec<String>,
    /// The digest of its manifest, or of its config where there is none.
    pub(super) digest: Digest,
    pub(super) config_json: Vec<u8>,
    /// Its layers, the lowest first.
    pub(super) layers: Vec<SavedLayer>,
}

/// A layer, in a file of that directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct SavedLayer {
    pub(super) path: PathBuf,
    /// The digest of the file, where the image names it.
    pub(super) digest: Option<Digest>,
    /// The digest of the layer without its compression.
    pub(super) diff_id: Digest,
}

/// An image of `docker save`.
#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct DockerImage {
    config: PathBuf,
    #[serde(default)]
    repo_tags: Option<Vec<String>>,
    layers: Vec<PathBuf>,
}

/// The one image that a directory holds; none when it is a root file system.
///
/// # Errors
/// Why it cannot be used.
pub(super) fn read_one(dir: &Path) -> Result<Option<Saved>, String> {
    let Some(mut all) = read(dir)? else { return Ok(None) };
    match (all.pop(), all.len()) {
        (Some(one), 0) => Ok(Some(one)),
        (_, others) => Err(format!("it holds {} images: save one by itself", others + 1)),
    }
}

/// The images that a directory holds, at least one; none when it is a root file system.
///
/// # Errors
/// Why they cannot be used.
pub(super) fn read(dir: &Path) -> Result<Option<Vec<Saved>>, String> {
    let root = Arc::new(File::open(dir).map_err(|error| error.to_string())?);
    let is_file = |name: &str| dir.join(name).symlink_metadata().is_ok_and(|found| found.is_file());
    if is_file(OCI_MARK) && is_file(OCI_INDEX) {
        return read_oci(root).map(Some);
    }
    // A root file system may well have a file of that name.
    if is_file(DOCKER_INDEX) && !dir.join("bin").exists() && !dir.join("usr").exists() {
        return read_docker(root).map(Some);
    }
    Ok(None)
}

fn read_oci(root: Arc<File>) -> Result<Vec<Saved>, String> {
    let bytes = text(&root, Path::new(OCI_INDEX), MANIFEST_BYTES_MAX)?;
    let Document::Index(entries) = Document::parse(&bytes)? else {
        return Err("its index.json is no list of images".into());
    };
    let mut by_name: BTreeMap<Option<String>, Vec<Descriptor>> = BTreeMap::new();
    for entry in entries {
        by_name.entry(name_of(&entry)).or_default().push(entry);
    }
    check_number(by_name.len())?;
    by_name.into_iter().map(|(name, entries)| read_oci_image(&root, name, entries)).collect()
}

/// One image, perhaps for several platforms.
fn read_oci_image(
    root: &Arc<File>,
    name: Option<String>,
    mut entries: Vec<Descriptor>,
) -> Result<Saved, String> {
    for _ in 0..=INDEXES_MAX {
        if entries.len() > 1 && entries.iter().all(|entry| entry.platform.is_none()) {
            return Err(format!(
                "it holds {} images and names them alike: save one by itself",
                entries.len()
            ));
        }
        let entry = for_platform(&entries, &here())?.clone();
        match Document::parse(&blob(root, &entry, MANIFEST_BYTES_MAX)?)? {
            Document::Index(nested) => entries = nested,
            Document::Manifest(manifest) => {
                let config_json = blob(root, &manifest.config, CONFIG_BYTES_MAX)?;
                let files = manifest.layers.iter().map(|layer| (blob_path(layer.digest), Some(layer.digest)));
                let names = name.into_iter().collect();
                return Saved::new(root.clone(), names, entry.digest, config_json, files.collect());
            }
        }
    }
    Err("its list of images leads to lists of lists".into())
}

/// Some tools write a tag alone, which names nothing.
fn name_of(entry: &Descriptor) -> Option<String> {
    let annotations = entry.annotations.as_ref()?;
    let short = || annotations.get(REF_NAME).filter(|name| name.contains([':', '/']));
    annotations.get(FULL_NAME).or_else(short).cloned()
}

fn check_number(images: usize) -> Result<(), String> {
    match images {
        0 => Err("it holds no image".into()),
        1..=IMAGES_MAX => Ok(()),
        _ => Err(format!("it holds {images} images, and {IMAGES_MAX} are the most")),
    }
}

fn read_docker(root: Arc<File>) -> Result<Vec<Saved>, String> {
    let bytes = text(&root, Path::new(DOCKER_INDEX), MANIFEST_BYTES_MAX)?;
    let images: Vec<DockerImage> =
        serde_json::from_slice(&bytes).map_err(|error| format!("its manifest.json is not one: {error}"))?;
    check_number(images.len())?;
    let saved = |image: DockerImage| {
        let config_json = text(&root, &image.config, CONFIG_BYTES_MAX)?;
        let (names, digest) = (image.repo_tags.unwrap_or_default(), Digest::of(&config_json));
        let files = image.layers.into_iter().map(|path| (path, None)).collect();
        Saved::new(root.clone(), names, digest, config_json, files)
    };
    images.into_iter().map(saved).collect()
}

impl Saved {
    fn new(
        root: Arc<File>,
        names: Vec<String>,
        digest: Digest,
        config_json: Vec<u8>,
        files: Vec<(PathBuf, Option<Digest>)>,
    ) -> Result<Self, String> {
        let config = ImageConfig::parse(&config_json)?;
        config.check_runs_here()?;
        let diff_ids = config.diff_ids;
        if files.len() != diff_ids.len() || files.len() > LAYERS_MAX {
            return Err(format!(
                "it has {} layers, its config has {}, and {LAYERS_MAX} are the most",
                files.len(),
                diff_ids.len()
            ));
        }
        let layers = files.into_iter().zip(diff_ids);
        let layers = layers.map(|((path, digest), diff_id)| SavedLayer { path, digest, diff_id }).collect();
        Ok(Self { root, names, digest, config_json, layers })
    }

    /// Opens a layer's file.
    pub(super) fn open(&self, layer: &SavedLayer) -> io::Result<File> {
        open(&self.root, &layer.path)
    }
}

fn blob_path(digest: Digest) -> PathBuf {
    Path::new("blobs/sha256").join(digest.hex())
}

fn blob(root: &File, descriptor: &Descriptor, bytes_max: u64) -> Result<Vec<u8>, String> {
    let bytes = text(root, &blob_path(descriptor.digest), bytes_max)?;
    let found = Digest::of(&bytes);
    if found == descriptor.digest {
        Ok(bytes)
    } else {
        Err(format!("its blob {} is {found}", descriptor.digest))
    }
}

fn text(root: &File, path: &Path, bytes_max: u64) -> Result<Vec<u8>, String> {
    let failed = |error: io::Error| format!("its file {}: {error}", path.display());
    let file = open(root, path).map_err(failed)?;
    if file.metadata().map_err(failed)?.len() > bytes_max {
        return Err(format!("its file {} has more than {bytes_max} bytes", path.display()));
    }
    let mut bytes = Vec::new();
    file.take(bytes_max).read_to_end(&mut bytes).map_err(failed)?;
    Ok(bytes)
}

/// Wherever links may lead, it is within the directory.
fn open(root: &File, path: &Path) -> io::Result<File> {
    let links = ResolveFlags::IN_ROOT | ResolveFlags::NO_MAGICLINKS;
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOCTTY;
    let file = File::from(resolve(|| openat2(root, path, flags, Mode::empty(), links))?);
    if file.metadata()?.is_file() { Ok(file) } else { Err(io::Error::other("it is not a file")) }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use serde_json::json;

    use super::*;

    #[test]
    fn what_docker_saves_is_one_image() {
        let dir = tempfile::tempdir().expect("a directory");
        let put = |name: &str, text: &str| fs::write(dir.path().join(name), text).expect("written");
        assert!(read_one(dir.path()).expect("a directory").is_none());
        let diff_id = Digest::of(b"layer");
        put("c.json", &json!({"rootfs": {"diff_ids": [diff_id.to_string()]}}).to_string());
        put("l.tar", "layer");
        put("manifest.json", r#"[{"Config": "c.json", "RepoTags": null, "Layers": ["l.tar"]}]"#);
        let saved = read_one(dir.path()).expect("read").expect("an image");
        assert_eq!(saved.layers, [SavedLayer { path: "l.tar".into(), digest: None, diff_id }]);
        for (hostile, why) in [
            (r#"[{"Config": "/etc/passwd", "Layers": []}]"#, "its file /etc/passwd"),
            (r#"[{"Config": "../c.json", "Layers": ["l.tar", "l.tar"]}]"#, "it has 2 layers"),
            (r#"[]"#, "it holds no image"),
            ("{}", "its manifest.json is not one"),
            (
                r#"[{"Config": "c.json", "Layers": ["l.tar"]}, {"Config": "c.json", "Layers": ["l.tar"]}]"#,
                "it holds 2 images",
            ),
        ] {
            put("manifest.json", hostile);
            let refusal = read_one(dir.path()).expect_err("refused");
            assert!(refusal.contains(why), "{refusal}");
        }
        symlink("/etc/hostname", dir.path().join("link")).expect("linked");
        assert!(open(&saved.root, Path::new("link")).is_err(), "there is no such file in the directory");
        fs::create_dir(dir.path().join("bin")).expect("made");
        assert!(read_one(dir.path()).expect("a directory").is_none(), "it is a root file system");
    }

    #[test]
    fn a_layout_names_its_images() {
        let dir = tempfile::tempdir().expect("a directory");
        fs::create_dir_all(dir.path().join("blobs/sha256")).expect("made");
        fs::write(dir.path().join("oci-layout"), r#"{"imageLayoutVersion": "1.0.0"}"#).expect("written");
        let put = |text: String| {
            let digest = Digest::of(text.as_bytes());
            fs::write(dir.path().join(blob_path(digest)), &text).expect("written");
            json!({"mediaType": "x", "digest": digest.to_string(), "size": text.len()})
        };
        let image = |label: &str, annotations: serde_json::Value| {
            let config =
                put(json!({"config": {"Labels": {"l": label}}, "rootfs": {"diff_ids": []}}).to_string());
            let mut entry = put(json!({"schemaVersion": 2, "config": config, "layers": []}).to_string());
            entry["annotations"] = annotations;
            entry
        };
        let index = |entries: &[serde_json::Value]| {
            let text = json!({"schemaVersion": 2, "manifests": entries}).to_string();
            fs::write(dir.path().join("index.json"), text).expect("written");
            read(dir.path())
        };
        let full = image("a", json!({FULL_NAME: "docker.io/library/a:1", REF_NAME: "1"}));
        let short = image("b", json!({REF_NAME: "b:2"}));
        let tag = image("c", json!({REF_NAME: "latest"}));
        let saved = index(&[full, short, tag.clone()]).expect("read").expect("images");
        let names: Vec<_> = saved.iter().map(|image| image.names.join(" ")).collect();
        assert_eq!(names, ["", "b:2", "docker.io/library/a:1"]);
        let refusal = index(&[tag, image("d", json!({}))]).expect_err("refused");
        assert!(refusal.contains("2 images and names them alike"), "{refusal}");
        let refusal = index(&[]).expect_err("refused");
        assert!(refusal.contains("holds no image"), "{refusal}");
    }
}
