//! GPUs of AMD and Intel, as far as the kernel reports them in /sys/class/drm: no library of theirs is needed.
//!
//! Programs compute by a GPU's render node, /dev/dri/renderDN. With AMD's, ROCm also opens /dev/kfd, which is for all of
//! them and admits a process to those whose render nodes it may open. A GPU of Intel that is part of the processor is left
//! out: it has no memory of its own, and whoever asks for any GPU does not mean it.

use std::fs;
use std::path::{Path, PathBuf};

use super::{Device, below};

const AMD: &str = "0x1002";
const INTEL: &str = "0x8086";

/// Where a GPU that is part of a processor of Intel is on its bus.
const INTEL_INTEGRATED: &str = "0000:00:02.0";

/// Used with any GPU of AMD.
const KFD: &str = "/dev/kfd";

/// GPUs found below `root`, by the numbers of their render nodes.
pub(super) fn find(root: &Path) -> Vec<Device> {
    let Ok(entries) = fs::read_dir(below(root, "/sys/class/drm")) else { return Vec::new() };
    let names = entries.flatten().filter_map(|entry| entry.file_name().into_string().ok());
    let mut nodes: Vec<String> = names.filter(|name| name.starts_with("renderD")).collect();
    nodes.sort();
    nodes.iter().filter_map(|node| device(root, node)).collect()
}

fn device(root: &Path, node: &str) -> Option<Device> {
    let dir = below(root, "/sys/class/drm").join(node).join("device");
    let uevent = fs::read_to_string(dir.join("uevent")).ok()?;
    let value = |name: &str| uevent.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix('='));
    let bus = value("PCI_SLOT_NAME")?;
    let vendor = match text(&dir.join("vendor"))?.as_str() {
        AMD => "amd",
        INTEL if bus != INTEL_INTEGRATED => "intel",
        _ => return None,
    };
    // Few have a name that the kernel knows; the others are known by the number of their model.
    let model = text(&dir.join("product_name")).or_else(|| text(&dir.join("device")))?;
    let memory = memory_bytes(&dir).map(|bytes| ("memory", format!("{} MiB", bytes >> 20)));
    let driver = value("DRIVER").map(|driver| ("driver", driver.to_owned()));
    let own = format!("/dev/dri/{node}");
    let shared = (vendor == "amd" && below(root, KFD).exists()).then(|| PathBuf::from(KFD));
    Some(Device {
        vendor: vendor.into(),
        kind: "gpu".into(),
        model,
        id: bus.into(),
        attributes: memory.into_iter().chain(driver).map(|(name, value)| (name.to_owned(), value)).collect(),
        unhealthy: !below(root, &own).exists(),
        files: shared.into_iter().chain([PathBuf::from(own)]).collect(),
    })
}

/// The GPU's own memory: as `amdgpu` reports it, or `xe` for each part of the GPU, or Intel's own `i915` on the card.
fn memory_bytes(dir: &Path) -> Option<u64> {
    let number = |path: PathBuf| text(&path)?.parse::<u64>().ok().filter(|bytes| *bytes > 0);
    let tiles = (0..).map_while(|tile| number(dir.join(format!("tile{tile}/physical_vram_size_bytes"))));
    let tiles = tiles.reduce(u64::saturating_add);
    let cards = || fs::read_dir(dir.join("drm")).into_iter().flatten().flatten();
    let of_card = || cards().find_map(|card| number(card.path().join("lmem_total_bytes")));
    number(dir.join("mem_info_vram_total")).or(tiles).or_else(of_card)
}

/// A line that says something.
fn text(path: &Path) -> Option<String> {
    let text = fs::read_to_string(path).ok()?;
    Some(text.trim().to_owned()).filter(|text| !text.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A root in which files of /sys/class/drm, and others, have these contents.
    fn tree(gpus: &[(&str, &[(&str, &str)])], others: &[&str]) -> tempfile::TempDir {
        let root = tempfile::tempdir().expect("a directory");
        let write = |path: PathBuf, text: &str| {
            fs::create_dir_all(path.parent().expect("a parent")).expect("made");
            fs::write(path, text).expect("written");
        };
        for (node, files) in gpus {
            for (name, text) in *files {
                write(below(root.path(), "/sys/class/drm").join(node).join("device").join(name), text);
            }
        }
        others.iter().for_each(|path| write(below(root.path(), path), ""));
        root
    }

    #[test]
    fn gpus_of_amd_and_intel_are_found() {
        let mi210: &[(&str, &str)] = &[
            ("vendor", "0x1002\n"),
            ("device", "0x740f\n"),
            ("product_name", "AMD Instinct MI210\n"),
            ("mem_info_vram_total", "68702699520\n"),
            ("uevent", "DRIVER=amdgpu\nPCI_CLASS=38000\nPCI_SLOT_NAME=0000:43:00.0\n"),
        ];
        let unnamed: &[(&str, &str)] = &[
            ("vendor", "0x1002\n"),
            ("device", "0x73bf\n"),
            ("product_name", "\n"),
            ("uevent", "DRIVER=amdgpu\nPCI_SLOT_NAME=0000:0a:00.0\n"),
        ];
        let arc: &[(&str, &str)] = &[
            ("vendor", "0x8086\n"),
            ("device", "0xe20b\n"),
            ("tile0/physical_vram_size_bytes", "12884901888\n"),
            ("tile1/physical_vram_size_bytes", "4294967296\n"),
            ("uevent", "DRIVER=xe\nPCI_SLOT_NAME=0000:03:00.0\n"),
        ];
        let flex: &[(&str, &str)] = &[
            ("vendor", "0x8086\n"),
            ("device", "0x56c0\n"),
            ("drm/card4/lmem_total_bytes", "17179869184\n"),
            ("uevent", "DRIVER=i915\nPCI_SLOT_NAME=0000:4d:00.0\n"),
        ];
        let gpus =
            [("renderD128", mi210), ("renderD129", unnamed), ("renderD130", arc), ("renderD131", flex)];
        let files = ["/dev/kfd", "/dev/dri/renderD128", "/dev/dri/renderD130", "/dev/dri/renderD131"];
        let root = tree(&gpus, &files);
        let found: Vec<String> = find(root.path())
            .into_iter()
            .map(|found| {
                let Device { vendor, kind, model, id, attributes, unhealthy, files } = found;
                format!("{vendor}/{kind}/{model} {id} {attributes:?} {unhealthy} {files:?}")
            })
            .collect();
        expect_test::expect![[r#"
            amd/gpu/AMD Instinct MI210 0000:43:00.0 {"driver": "amdgpu", "memory": "65520 MiB"} false ["/dev/kfd", "/dev/dri/renderD128"]
            amd/gpu/0x73bf 0000:0a:00.0 {"driver": "amdgpu"} true ["/dev/kfd", "/dev/dri/renderD129"]
            intel/gpu/0xe20b 0000:03:00.0 {"driver": "xe", "memory": "16384 MiB"} false ["/dev/dri/renderD130"]
            intel/gpu/0x56c0 0000:4d:00.0 {"driver": "i915", "memory": "16384 MiB"} false ["/dev/dri/renderD131"]"#]]
        .assert_eq(&found.join("\n"));
    }

    #[test]
    fn what_is_no_gpu_of_theirs_is_left_out() {
        let of = |vendor: &'static str, uevent: &'static str| {
            [("vendor", vendor), ("device", "0x1234\n"), ("uevent", uevent)]
        };
        let integrated = of("0x8086\n", "DRIVER=i915\nPCI_SLOT_NAME=0000:00:02.0\n");
        let nvidia = of("0x10de\n", "DRIVER=nvidia\nPCI_SLOT_NAME=0000:01:00.0\n");
        let of_no_bus = of("0x1002\n", "DRIVER=vgem\n");
        let card = of("0x1002\n", "DRIVER=amdgpu\nPCI_SLOT_NAME=0000:05:00.0\n");
        let gpus: [(&str, &[(&str, &str)]); 5] = [
            ("renderD128", &integrated),
            ("renderD129", &nvidia),
            ("renderD130", &of_no_bus),
            // Its render node is what counts.
            ("card0", &card),
            ("renderD131", &[("vendor", "0x1002\n")]),
        ];
        assert_eq!(find(tree(&gpus, &[]).path()), []);
        assert_eq!(find(tempfile::tempdir().expect("a directory").path()), []);
    }
}
