//! For fuzz tests: documents about images, and a layout of one image, to be damaged.

use std::fs;
use std::path::Path;

use super::config::ImageConfig;
use super::digest::Digest;
use super::layout;
use super::manifest::{Document, for_platform, here};
use super::reference::Reference;
use super::registry::challenge;

/// Documents as registries send them.
pub(crate) const DOCUMENTS: [&str; 4] = [
    r#"{"schemaVersion": 2, "mediaType": "application/vnd.oci.image.index.v1+json", "manifests": [
        {"mediaType": "application/vnd.oci.image.manifest.v1+json", "size": 7, "digest":
        "sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef", "platform": {"architecture": "amd64", "os": "linux"}}]}"#,
    r#"{"schemaVersion": 2, "config": {"mediaType": "application/vnd.oci.image.config.v1+json", "size": 9, "digest":
        "sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"}, "layers": [
        {"mediaType": "application/vnd.oci.image.layer.v1.tar+gzip", "size": 18446744073709551615, "digest":
        "sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"}]}"#,
    r#"{"architecture": "amd64", "os": "linux", "config": {"Env": ["A=1"], "Cmd": ["/bin/sh"], "Entrypoint": null, "User": "1:2",
        "ExposedPorts": {"80/tcp": {}}, "Volumes": {"/v": {}}, "StopSignal": "9"}, "rootfs": {"type": "layers", "diff_ids": [
        "sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"]}}"#,
    r#"Bearer realm="https://example.com/token",service="it",scope="repository:a/b:pull""#,
];

/// Reads bytes and a text as all that they could be.
pub(crate) fn texts(bytes: &[u8], text: &str) {
    if let Ok(Document::Index(entries)) = Document::parse(bytes) {
        let _ = for_platform(&entries, &here());
    }
    let _ = ImageConfig::parse(bytes);
    let lossy = String::from_utf8_lossy(bytes);
    for text in [&*lossy, text] {
        let _ = challenge::parse([text].into_iter());
        let _ = text.parse::<Reference>().map(|reference| reference.pointer());
        let _ = text.parse::<Digest>();
        let _ = super::registry::error::plain(text);
    }
}

/// Makes a layout of one image in `dir`, of which one document is changed, and reads it.
pub(crate) fn layout(dir: &Path, which: usize, change: impl Fn(Vec<u8>) -> Vec<u8>) -> Result<usize, String> {
    let changed = |number: usize, text: String| {
        if number == which { change(text.into_bytes()) } else { text.into_bytes() }
    };
    let put = |name: &str, bytes: &[u8]| {
        let path = dir.join(name);
        fs::create_dir_all(path.parent().expect("a directory")).expect("made");
        fs::write(path, bytes).expect("written");
    };
    let blob = |bytes: &[u8]| {
        let digest = Digest::of(bytes);
        put(&format!("blobs/sha256/{}", digest.hex()), bytes);
        format!(r#""digest": "sha256:{}", "size": {}"#, digest.hex(), bytes.len())
    };
    let layer = blob(b"a layer");
    let diff_id = Digest::of(b"a layer").hex();
    let config =
        changed(0, format!(r#"{{"rootfs": {{"type": "layers", "diff_ids": ["sha256:{diff_id}"]}}}}"#));
    let config = blob(&config);
    let kind = "application/vnd.oci.image.layer.v1.tar";
    let manifest = format!(
        r#"{{"schemaVersion": 2, "config": {{{config}}}, "layers": [{{"mediaType": "{kind}", {layer}}}]}}"#
    );
    let manifest = blob(&changed(1, manifest));
    let index = format!(r#"{{"schemaVersion": 2, "manifests": [{{{manifest}}}]}}"#);
    put("index.json", &changed(2, index));
    put("oci-layout", br#"{"imageLayoutVersion": "1.0.0"}"#);
    Ok(layout::read(dir)?.map_or(0, |images| images.len()))
}
