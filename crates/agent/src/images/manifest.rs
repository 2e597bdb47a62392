//! Manifests of images and lists of manifests, in OCI's format and Docker's.

use std::fmt;

use serde::Deserialize;

use super::digest::Digest;

/// The largest manifest that is read.
pub(crate) const MANIFEST_BYTES_MAX: u64 = 4 << 20;
/// The largest image config that is read.
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
    /// The image's layers, the lowest first.
    pub(crate) layers: Vec<Descriptor>,
}

/// What a registry may answer.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Document {
    /// One image for several platforms.
    Index(Vec<Descriptor>),
    Manifest(Manifest),
}

/// Both kinds at once, and what marks the old format.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct WireDocument {
    schema_version: Option<u64>,
    manifests: Option<Vec<Descriptor>>,
    config: Option<Descriptor>,
    layers: Option<Vec<Descriptor>>,
}

impl Document {
    /// # Errors
    /// Why it cannot be used.
    pub(crate) fn parse(bytes: &[u8]) -> Result<Self, String> {
        let wire: WireDocument =
            serde_json::from_slice(bytes).map_err(|error| format!("its manifest is not one: {error}"))?;
        if wire.schema_version != Some(2) {
            return Err("its manifest is of another schema than 2: push it again with a current tool".into());
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
            let known = kind.is_empty()
                || kind.ends_with(".tar")
                || kind.ends_with(".tar+gzip")
                || kind.ends_with(".tar.gzip")
                || kind.ends_with(".tar+zstd")
                || kind.ends_with(".tar.zstd");
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
    let rank = |entry: &'a Descriptor| Some((entry.platform.as_ref()?.rank(wanted)?, entry));
    // Of those that are as good the first.
    let best =
        manifests.iter().filter_map(rank).reduce(|best, other| if other.0 > best.0 { other } else { best });
    if let Some((_, found)) = best {
        return Ok(found);
    }
    // A list of one that says nothing about itself.
    if let [only] = manifests
        && only.platform.is_none()
    {
        return Ok(only);
    }
    let known: Vec<String> = manifests
        .iter()
        .filter_map(|entry| entry.platform.as_ref())
        .filter(|platform| platform.os != "unknown")
        .take(16)
        .map(Platform::to_string)
        .collect();
    let known = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
    Err(format!("it is not made for {}; it is for: {known}", wanted.unversioned()))
}

impl Platform {
    /// How good what is made for this platform is on the machine `on`, which runs all older variants of its own; none where it
    /// does not run there.
    fn rank(&self, on: &Self) -> Option<u32> {
        let same = (&self.os, &self.architecture) == (&on.os, &on.architecture);
        self.level().filter(|level| same && *level <= on.level().unwrap_or(0))
    }

    /// Its variant as a number; where none is named, the one that the name stands for by convention.
    fn level(&self) -> Option<u32> {
        match (self.variant.strip_prefix('v'), self.architecture.as_str()) {
            (Some(number), _) => number.split('.').next()?.parse().ok(),
            (None, _) if !self.variant.is_empty() => None,
            (None, "amd64") => Some(1),
            (None, "arm") => Some(7),
            (None, "arm64") => Some(8),
            (None, _) => Some(0),
        }
    }

    /// Whether an image that says that it is made for this can run on the machine `on`. One that says nothing may.
    ///
    /// # Errors
    /// What it is made for, and what the machine is.
    pub(crate) fn check_runs(&self, on: &Self) -> Result<(), String> {
        let is_os = self.os.is_empty() || self.os == on.os;
        let is_architecture = match (self.architecture.as_str(), on.architecture.as_str()) {
            // These run what is made for their 32-bit predecessors.
            ("", _) | ("386", "amd64") | ("arm", "arm64") => true,
            (_, _) => Self { os: on.os.clone(), ..self.clone() }.rank(on).is_some(),
        };
        if is_os && is_architecture {
            return Ok(());
        }
        let os = if is_os { on.os.clone() } else { self.os.clone() };
        let made_for = Self { os, ..self.clone() };
        Err(format!("it is made for {made_for}, and this node is {}", on.unversioned()))
    }

    /// Without a variant that need not be named.
    fn unversioned(&self) -> String {
        let variant = if self.architecture == "amd64" { "" } else { &self.variant };
        Self { variant: variant.into(), ..self.clone() }.to_string()
    }
}

impl fmt::Display for Platform {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let parts = [&self.os, &self.architecture, &self.variant].map(String::as_str);
        f.write_str(&parts.into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join("/"))
    }
}

/// What this machine runs.
pub(crate) fn here() -> Platform {
    let (architecture, variant) = match std::env::consts::ARCH {
        "x86_64" => ("amd64", amd64_variant()),
        "aarch64" => ("arm64", "v8"),
        "arm" => ("arm", "v7"),
        "x86" => ("386", ""),
        other => (other, ""),
    };
    Platform { os: "linux".into(), architecture: architecture.into(), variant: variant.into() }
}

/// The level of the processor, as the psABI of x86-64 numbers them.
#[cfg(target_arch = "x86_64")]
fn amd64_variant() -> &'static str {
    let v2 = is_x86_feature_detected!("sse4.2")
        && is_x86_feature_detected!("popcnt")
        && is_x86_feature_detected!("ssse3")
        && is_x86_feature_detected!("cmpxchg16b");
    let v3 = v2
        && is_x86_feature_detected!("avx2")
        && is_x86_feature_detected!("bmi1")
        && is_x86_feature_detected!("bmi2")
        && is_x86_feature_detected!("f16c")
        && is_x86_feature_detected!("fma")
        && is_x86_feature_detected!("lzcnt")
        && is_x86_feature_detected!("movbe");
    let v4 = v3
        && is_x86_feature_detected!("avx512f")
        && is_x86_feature_detected!("avx512bw")
        && is_x86_feature_detected!("avx512cd")
        && is_x86_feature_detected!("avx512dq")
        && is_x86_feature_detected!("avx512vl");
    match (v2, v3, v4) {
        (_, _, true) => "v4",
        (_, true, _) => "v3",
        (true, ..) => "v2",
        _ => "v1",
    }
}

#[cfg(not(target_arch = "x86_64"))]
fn amd64_variant() -> &'static str {
    "v1"
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
    fn the_best_variant_that_runs_is_taken() {
        let platform = |text: &str| {
            let (architecture, variant) = text.split_once('/').unwrap_or((text, ""));
            Platform { os: "linux".into(), architecture: architecture.into(), variant: variant.into() }
        };
        let taken = |on: &str, of: &[&str]| {
            let entries = of.iter().map(|text| Descriptor {
                media_type: String::new(),
                digest: Digest::of(text.as_bytes()),
                size: 1,
                platform: Some(platform(text)),
                annotations: None,
            });
            let entries: Vec<_> = entries.collect();
            let found = for_platform(&entries, &platform(on)).ok()?;
            found.platform.as_ref().map(|found| format!("{}/{}", found.architecture, found.variant))
        };
        for (on, of, found) in [
            ("arm/v7", &["arm/v5", "arm/v6", "arm64/v8"][..], Some("arm/v6")),
            ("arm/v7", &["arm/v6", "arm/v7"], Some("arm/v7")),
            ("arm/v6", &["arm/v7", "arm"], None),
            ("arm64/v8", &["arm64", "arm/v7"], Some("arm64/")),
            ("amd64/v3", &["amd64", "amd64/v2", "amd64/v4"], Some("amd64/v2")),
            ("amd64/v1", &["amd64/v2", "amd64"], Some("amd64/")),
            ("amd64/v1", &["amd64/v2"], None),
            ("amd64/v4", &["amd64/odd"], None),
        ] {
            assert_eq!(taken(on, of).as_deref(), found, "{on} of {of:?}");
        }
        let runs = |image: &str, on: &str| platform(image).check_runs(&platform(on));
        assert_eq!(
            runs("arm64/v8", "amd64/v3"),
            Err("it is made for linux/arm64/v8, and this node is linux/amd64".to_owned())
        );
        let windows = Platform { os: "windows".into(), ..platform("amd64") };
        assert!(windows.check_runs(&platform("amd64/v1")).is_err_and(|why| why.contains("windows/amd64")));
        assert_eq!(
            (runs("386", "amd64/v1"), runs("", "amd64"), runs("amd64", "amd64/v3")),
            (Ok(()), Ok(()), Ok(()))
        );
        assert_eq!(Platform::default().check_runs(&here()), Ok(()));
    }

    #[test]
    fn what_is_not_understood_is_refused_by_name() {
        let blob = |kind: &str| json!({"mediaType": kind, "size": 1, "digest": Digest::of(b"x").to_string()});
        let image = |kind: &str| json!({"schemaVersion": 2, "config": blob("c"), "layers": [blob(kind)]});
        for good in [
            "application/vnd.oci.image.layer.v1.tar",
            "application/vnd.oci.image.layer.v1.tar+zstd",
            "application/vnd.docker.image.rootfs.diff.tar.gzip",
        ] {
            assert!(matches!(parse(&image(good)), Ok(Document::Manifest(_))), "{good}");
        }
        let mut both = image("x.tar");
        both["manifests"] = json!([]);
        let many: Vec<_> = (0..129).map(|_| blob("x.tar")).collect();
        for (bad, why) in [
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
