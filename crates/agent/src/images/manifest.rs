//! What registries say of images: manifests and lists of them, in OCI's form and Docker's.

use serde::Deserialize;

use super::digest::Digest;

/// Of one document.
pub(crate) const MANIFEST_BYTES_MAX: u64 = 4 << 20;
/// Of the document that says how an image wants to be run.
pub(crate) const CONFIG_BYTES_MAX: u64 = 8 << 20;
/// An overlay of more would be refused by the kernel or by its own tools.
const LAYERS_MAX: usize = 128;

/// What is asked for, the more wanted first.
pub(crate) const ACCEPTED: &str = "application/vnd.oci.image.index.v1+json, \
    application/vnd.docker.distribution.manifest.list.v2+json, \
    application/vnd.oci.image.manifest.v1+json, \
    application/vnd.docker.distribution.manifest.v2+json";

/// Names some content, and says how much it is.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Descriptor {
    #[serde(default)]
    pub(crate) media_type: String,
    pub(crate) digest: Digest,
    pub(crate) size: u64,
    #[serde(default)]
    pub(crate) platform: Option<Platform>,
    #[serde(default)]
    pub(crate) annotations: Option<std::collections::BTreeMap<String, String>>,
}

/// What an image is made for.
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Platform {
    pub(crate) os: String,
    pub(crate) architecture: String,
    pub(crate) variant: String,
}

/// One image for one platform.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Manifest {
    pub(crate) config: Descriptor,
    /// The lowest first.
    pub(crate) layers: Vec<Descriptor>,
}

/// What a registry may answer.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Document {
    /// One image for several platforms.
    Index(Vec<Descriptor>),
    Manifest(Manifest),
}

/// Both kinds at once, and what marks those of old.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Wire {
    schema_version: Option<u64>,
    manifests: Option<Vec<Descriptor>>,
    config: Option<Descriptor>,
    layers: Option<Vec<Descriptor>>,
}

impl Document {
    /// # Errors
    /// Why it cannot be used.
    pub(crate) fn parse(bytes: &[u8]) -> Result<Self, String> {
        let wire: Wire =
            serde_json::from_slice(bytes).map_err(|error| format!("its manifest is not one: {error}"))?;
        if wire.schema_version != Some(2) {
            return Err("its manifest is of another schema than 2: push it anew with a current tool".into());
        }
        match (wire.manifests, wire.config, wire.layers) {
            (Some(manifests), None, None) => Ok(Self::Index(manifests)),
            (None, Some(config), Some(layers)) => Manifest::new(config, layers).map(Self::Manifest),
            // Two readers could understand it in two ways.
            (Some(_), ..) => Err("its manifest is a list and an image at once".into()),
            _ => Err("its manifest has no config or no layers".into()),
        }
    }
}

impl Manifest {
    fn new(config: Descriptor, layers: Vec<Descriptor>) -> Result<Self, String> {
        if layers.len() > LAYERS_MAX {
            return Err(format!("it has {} layers, and {LAYERS_MAX} are the most", layers.len()));
        }
        if config.size > CONFIG_BYTES_MAX {
            return Err(format!("its config has {} bytes, and {CONFIG_BYTES_MAX} are the most", config.size));
        }
        for layer in &layers {
            let kind = layer.media_type.as_str();
            if kind.ends_with("zstd") {
                return Err(
                    "its layers are compressed with zstd, which is not supported: push it with gzip".into()
                );
            }
            let known = kind.is_empty()
                || kind.ends_with(".tar")
                || kind.ends_with(".tar+gzip")
                || kind.ends_with(".tar.gzip");
            if !known || kind.contains("encrypted") {
                let kind: String = kind.chars().take(128).collect();
                return Err(format!("a layer is {kind:?}, and not a tar archive: is it an image to run?"));
            }
        }
        Ok(Self { config, layers })
    }
}

/// The entry of a list that fits this machine.
///
/// # Errors
/// Which platforms there are, when none fits.
pub(crate) fn for_platform<'a>(
    manifests: &'a [Descriptor],
    wanted: &Platform,
) -> Result<&'a Descriptor, String> {
    let fits = |known: &Platform| {
        known.os == wanted.os
            && known.architecture == wanted.architecture
            && (known.variant.is_empty() || known.variant == wanted.variant)
    };
    let of = |entry: &&Descriptor| entry.platform.as_ref().is_some_and(fits);
    if let Some(found) = manifests.iter().find(of) {
        return Ok(found);
    }
    // A list of one that says nothing about itself.
    if let [only] = manifests
        && only.platform.is_none()
    {
        return Ok(only);
    }
    let name = |platform: &Platform| {
        let parts = [&platform.os, &platform.architecture, &platform.variant];
        parts.into_iter().filter(|part| !part.is_empty()).cloned().collect::<Vec<_>>().join("/")
    };
    let known: Vec<String> = manifests
        .iter()
        .filter_map(|entry| entry.platform.as_ref())
        .filter(|platform| platform.os != "unknown")
        .take(16)
        .map(name)
        .collect();
    let known = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
    Err(format!("it is not made for {}; it is for: {known}", name(wanted)))
}

/// What this machine runs.
pub(crate) fn here() -> Platform {
    let (architecture, variant) = match std::env::consts::ARCH {
        "x86_64" => ("amd64", ""),
        "aarch64" => ("arm64", "v8"),
        "arm" => ("arm", "v7"),
        other => (other, ""),
    };
    Platform { os: "linux".into(), architecture: architecture.into(), variant: variant.into() }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn entry(os: &str, architecture: &str, variant: &str) -> serde_json::Value {
        json!({"mediaType": "application/vnd.oci.image.manifest.v1+json", "size": 1,
               "digest": Digest::of(architecture.as_bytes()).to_string(),
               "platform": {"os": os, "architecture": architecture, "variant": variant}})
    }

    fn parse(value: &serde_json::Value) -> Result<Document, String> {
        Document::parse(value.to_string().as_bytes())
    }

    #[test]
    fn a_list_gives_the_image_of_a_platform() {
        let list = json!({"schemaVersion": 2, "manifests": [
            entry("unknown", "unknown", ""), entry("linux", "arm64", "v8"), entry("linux", "amd64", ""),
        ]});
        let Ok(Document::Index(entries)) = parse(&list) else { panic!("a list") };
        let platform = |architecture: &str, variant: &str| Platform {
            os: "linux".into(),
            architecture: architecture.into(),
            variant: variant.into(),
        };
        let found = for_platform(&entries, &platform("amd64", "")).expect("one");
        assert_eq!(found.digest, Digest::of(b"amd64"));
        assert_eq!(
            for_platform(&entries, &platform("arm64", "v8")).expect("one").digest,
            Digest::of(b"arm64")
        );
        assert_eq!(
            for_platform(&entries, &platform("riscv64", "")),
            Err("it is not made for linux/riscv64; it is for: linux/arm64/v8, linux/amd64".into())
        );
    }

    #[test]
    fn what_is_not_understood_is_refused_by_name() {
        let blob = |kind: &str| json!({"mediaType": kind, "size": 1, "digest": Digest::of(b"x").to_string()});
        let image = |kind: &str| json!({"schemaVersion": 2, "config": blob("c"), "layers": [blob(kind)]});
        for good in
            ["application/vnd.oci.image.layer.v1.tar", "application/vnd.docker.image.rootfs.diff.tar.gzip"]
        {
            assert!(matches!(parse(&image(good)), Ok(Document::Manifest(_))), "{good}");
        }
        let mut both = image("x.tar");
        both["manifests"] = json!([]);
        let many: Vec<_> = (0..129).map(|_| blob("x.tar")).collect();
        for (bad, why) in [
            (image("application/vnd.oci.image.layer.v1.tar+zstd"), "zstd"),
            (image("application/vnd.cncf.helm.chart.content.v1"), "is it an image to run?"),
            (json!({"schemaVersion": 1, "fsLayers": []}), "another schema than 2"),
            (both, "a list and an image at once"),
            (json!({"schemaVersion": 2}), "no config or no layers"),
            (json!({"schemaVersion": 2, "config": blob("c"), "layers": many}), "129 layers"),
            (json!([]), "is not one"),
        ] {
            let refusal = parse(&bad).expect_err("refused");
            assert!(refusal.contains(why), "{refusal}");
        }
    }
}
