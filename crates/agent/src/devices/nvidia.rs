//! GPUs of Nvidia, as far as the kernel reports them: no library of Nvidia is needed.
//!
//! The driver has a directory for each below /proc/driver/nvidia/gpus, named by its place on the bus, and a file
//! /dev/nvidiaN for each, where N is its minor number. Other files in /dev are for all of them.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use super::{Device, below};

/// Used with any GPU.
const SHARED_FILES: [&str; 3] = ["/dev/nvidiactl", "/dev/nvidia-uvm", "/dev/nvidia-uvm-tools"];

/// GPUs found below `root`, by their place on the bus.
pub(super) fn find(root: &Path) -> Vec<Device> {
    let Ok(entries) = fs::read_dir(below(root, "/proc/driver/nvidia/gpus")) else { return Vec::new() };
    let mut dirs: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
    dirs.sort();
    let version = fs::read_to_string(below(root, "/proc/driver/nvidia/version")).unwrap_or_default();
    let attributes: BTreeMap<String, String> =
        driver_version(&version).map(|version| ("driver_version".to_owned(), version)).into_iter().collect();
    let texts = dirs.iter().filter_map(|dir| fs::read_to_string(dir.join("information")).ok());
    texts.filter_map(|text| device(root, &text, &attributes)).collect()
}

fn device(root: &Path, information: &str, attributes: &BTreeMap<String, String>) -> Option<Device> {
    let minor = value(information, "Device Minor")?;
    let own = format!("/dev/nvidia{minor}");
    // The id is not known before the driver has woken the GPU up; its tools take the number as well.
    let id = value(information, "GPU UUID").filter(|uuid| !uuid.contains('?')).unwrap_or(minor);
    let is_there = below(root, &own).exists();
    let shared = SHARED_FILES.into_iter().filter(|file| below(root, file).exists());
    Some(Device {
        vendor: "nvidia".into(),
        kind: "gpu".into(),
        model: value(information, "Model")?.into(),
        id: id.into(),
        attributes: attributes.clone(),
        unhealthy: !is_there || value(information, "GPU Excluded") == Some("Yes"),
        files: shared.map(PathBuf::from).chain([PathBuf::from(&own)]).collect(),
    })
}

/// What follows a name and a colon.
fn value<'a>(information: &'a str, name: &str) -> Option<&'a str> {
    let line = information.lines().find_map(|line| line.strip_prefix(name)?.trim_start().strip_prefix(':'));
    line.map(str::trim).filter(|value| !value.is_empty())
}

/// The first number with dots, of a line that begins `NVRM version:`.
fn driver_version(text: &str) -> Option<String> {
    let line = text.lines().find(|line| line.starts_with("NVRM version:"))?;
    let is_version = |word: &&str| word.contains('.') && word.chars().all(|c| c.is_ascii_digit() || c == '.');
    line.split_whitespace().find(is_version).map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A root with two GPUs, the second of which has no file and an id that is not known yet.
    fn tree() -> tempfile::TempDir {
        let root = tempfile::tempdir().expect("a directory");
        let write = |path: &str, text: &str| {
            let path = below(root.path(), path);
            fs::create_dir_all(path.parent().expect("a parent")).expect("made");
            fs::write(path, text).expect("written");
        };
        let gpu = |uuid: &str, minor: u8| {
            format!(
                "Model: \t\t Tesla T4\nIRQ:   \t\t 24\nGPU UUID: \t {uuid}\nBus Type: \t PCIe\n\
                 Device Minor: \t {minor}\nGPU Excluded:\t No\n"
            )
        };
        write("/proc/driver/nvidia/gpus/0000:00:1e.0/information", &gpu("GPU-4c1f8c5e", 0));
        write("/proc/driver/nvidia/gpus/0000:00:1f.0/information", &gpu("GPU-????????", 1));
        write(
            "/proc/driver/nvidia/version",
            "NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.104.05  Sat Aug 19\nGCC version: 12.2.0\n",
        );
        ["/dev/nvidia0", "/dev/nvidiactl", "/dev/nvidia-uvm"].iter().for_each(|file| write(file, ""));
        root
    }

    #[test]
    fn gpus_are_found_by_the_kernels_files() {
        let found = find(tree().path());
        let files = |device: &Device| -> Vec<String> {
            device.files.iter().map(|file| file.display().to_string()).collect()
        };
        assert_eq!(
            found.iter().map(|device| (&*device.id, device.unhealthy)).collect::<Vec<_>>(),
            [("GPU-4c1f8c5e", false), ("1", true)]
        );
        assert_eq!(files(&found[0]), ["/dev/nvidiactl", "/dev/nvidia-uvm", "/dev/nvidia0"]);
        assert_eq!(found[0].model, "Tesla T4");
        assert_eq!(found[0].attributes["driver_version"], "535.104.05");
    }

    #[test]
    fn a_node_without_the_driver_has_none() {
        assert_eq!(find(tempfile::tempdir().expect("a directory").path()), []);
    }
}
