//! The config of an image: how it is to be run.

use std::collections::BTreeMap;

use serde::Deserialize;

use super::digest::Digest;
use super::manifest::{Platform, here};

/// The part of an image's config document that is acted upon.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct ImageConfig {
    /// Words that begin the command line.
    pub(crate) entrypoint: Vec<String>,
    /// Words that follow, unless a job says others.
    pub(crate) command: Vec<String>,
    /// The image's environment: `NAME=VALUE`.
    pub(crate) env: Vec<String>,
    /// A name or number, and perhaps a colon and those of a group; empty for root.
    pub(crate) user: String,
    /// The working directory; empty for `/`.
    pub(crate) work_dir: String,
    /// The signal that asks it to end, by name or number; empty where it says none.
    pub(crate) stop_signal: String,
    /// Directories that it writes into.
    pub(crate) volumes: Vec<String>,
    /// What it is made for; empty parts where it does not say.
    pub(crate) platform: Platform,
    /// The digests of its layers when they are unpacked, the lowest first.
    pub(crate) diff_ids: Vec<Digest>,
}

#[derive(Deserialize)]
struct WireImage {
    #[serde(default)]
    config: Option<WireConfig>,
    #[serde(default)]
    rootfs: WireRoot,
    #[serde(flatten)]
    platform: Platform,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
struct WireConfig {
    entrypoint: Option<Vec<String>>,
    cmd: Option<Vec<String>>,
    env: Option<Vec<String>>,
    user: Option<String>,
    working_dir: Option<String>,
    stop_signal: Option<String>,
    volumes: Option<BTreeMap<String, serde_json::Value>>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct WireRoot {
    diff_ids: Vec<Digest>,
}

impl ImageConfig {
    /// # Errors
    /// Why it cannot be used.
    pub(crate) fn parse(bytes: &[u8]) -> Result<Self, String> {
        let WireImage { config, rootfs, platform } =
            serde_json::from_slice(bytes).map_err(|error| format!("its config is not one: {error}"))?;
        let config = config.unwrap_or_default();
        let names = |map: Option<BTreeMap<String, _>>| map.unwrap_or_default().into_keys().collect();
        Ok(Self {
            entrypoint: config.entrypoint.unwrap_or_default(),
            command: config.cmd.unwrap_or_default(),
            env: config.env.unwrap_or_default(),
            user: config.user.unwrap_or_default(),
            work_dir: config.working_dir.unwrap_or_default(),
            stop_signal: config.stop_signal.unwrap_or_default(),
            volumes: names(config.volumes),
            platform,
            diff_ids: rootfs.diff_ids,
        })
    }
}

impl ImageConfig {
    /// # Errors
    /// When it is made for another kind of machine than this.
    pub(crate) fn check_runs_here(&self) -> Result<(), String> {
        self.platform.check_runs(&here())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_an_image_says_is_read_and_the_rest_is_left() {
        let text = r#"{"architecture": "amd64", "config": {"Env": ["A=1"], "Cmd": null, "Entrypoint": ["/e"],
            "ExposedPorts": {"80/tcp": {}}, "StopSignal": "SIGQUIT", "User": "app", "Labels": {"x": "y"}},
            "rootfs": {"type": "layers", "diff_ids": []}, "history": []}"#;
        let expected = ImageConfig {
            entrypoint: vec!["/e".into()],
            env: vec!["A=1".into()],
            user: "app".into(),
            stop_signal: "SIGQUIT".into(),
            platform: Platform { architecture: "amd64".into(), ..Platform::default() },
            ..ImageConfig::default()
        };
        assert_eq!(ImageConfig::parse(text.as_bytes()), Ok(expected));
        assert_eq!(ImageConfig::parse(b"{}"), Ok(ImageConfig::default()));
        assert!(ImageConfig::parse(br#"{"config": {"Env": "A=1"}}"#).is_err());
    }
}
