//! The devices of the node: those that its operator declares, and the GPUs that the agent finds itself.

mod drm;
mod nvidia;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use berth_api::agent::{DeviceGrantSpec, DeviceInstanceSpec, DeviceSpec};

use crate::failure::Failure;

/// One device, as a GPU.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Device {
    /// The vendor, as `nvidia`.
    pub vendor: String,
    /// The type, as `gpu`.
    pub kind: String,
    /// The model, as `Tesla T4`.
    pub model: String,
    /// Unique among the node's devices; what its driver knows it by.
    pub id: String,
    /// What jobs may ask of it, as `memory` → `16 GiB`; the same for all devices of a model.
    pub attributes: BTreeMap<String, String>,
    /// Whether it must not be used.
    pub unhealthy: bool,
    /// The device files through which it is used, as `/dev/nvidia0`.
    pub files: Vec<PathBuf>,
}

/// The device files of each device, by its id.
pub type DeviceFiles = BTreeMap<String, Vec<PathBuf>>;

/// All devices of the node whose files are below `root`. What is declared goes before what is found by the same id, or with
/// the same file of its own: it is one device.
pub(crate) fn all(declared: &[Device], root: &Path) -> Vec<Device> {
    let is_declared = |found: &Device| {
        let own = found.files.last();
        declared
            .iter()
            .any(|device| device.id == found.id || own.is_some_and(|own| device.files.contains(own)))
    };
    let found = nvidia::find(root).into_iter().chain(drm::find(root)).filter(|found| !is_declared(found));
    declared.iter().cloned().chain(found).collect()
}

/// The absolute path `path` where `root` is the root.
fn below(root: &Path, path: &str) -> PathBuf {
    root.join(path.trim_start_matches('/'))
}

/// The devices as they are reported to servers, grouped by model.
pub(crate) fn specs(devices: &[Device]) -> Vec<DeviceSpec> {
    let mut specs: Vec<DeviceSpec> = Vec::new();
    for Device { vendor, kind, model, id, attributes, unhealthy, .. } in devices {
        let is_alike = |spec: &DeviceSpec| (&spec.vendor, &spec.kind, &spec.model) == (vendor, kind, model);
        let at = specs.iter().position(is_alike).unwrap_or_else(|| {
            specs.push(DeviceSpec {
                vendor: vendor.clone(),
                kind: kind.clone(),
                model: model.clone(),
                attributes: attributes.clone(),
                instances: Vec::new(),
            });
            specs.len() - 1
        });
        specs[at].instances.push(DeviceInstanceSpec { id: id.clone(), unhealthy: *unhealthy });
    }
    specs
}

/// The device files of each device.
pub(crate) fn files(devices: &[Device]) -> DeviceFiles {
    devices.iter().map(|device| (device.id.clone(), device.files.clone())).collect()
}

/// The files of the devices that a task was given, each once: devices of one driver may share some.
///
/// # Errors
/// When the node has a device no more.
pub(crate) fn files_of(
    grants: &[DeviceGrantSpec],
    known: &[DeviceSpec],
    files: &DeviceFiles,
) -> Result<Vec<PathBuf>, Failure> {
    let mut of_task = Vec::new();
    for id in grants.iter().flat_map(|grant| &grant.ids) {
        if !known.iter().flat_map(|spec| &spec.instances).any(|instance| instance.id == *id) {
            let why = "this node has it no more: replace the allocation, or give the node the device back";
            return Err(Failure::other(format!("find device {id}"), why));
        }
        let new = files.get(id).into_iter().flatten().filter(|file| !of_task.contains(*file));
        let new: Vec<PathBuf> = new.cloned().collect();
        of_task.extend(new);
    }
    Ok(of_task)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn device(model: &str, id: &str, files: &[&str]) -> Device {
        Device {
            vendor: "nvidia".into(),
            kind: "gpu".into(),
            model: model.into(),
            id: id.into(),
            files: files.iter().map(PathBuf::from).collect(),
            ..Device::default()
        }
    }

    #[test]
    fn what_is_declared_is_not_found_again() {
        let root = tempfile::tempdir().expect("a directory");
        for (node, bus) in [("renderD128", "0000:43:00.0"), ("renderD129", "0000:44:00.0")] {
            let dir = root.path().join("sys/class/drm").join(node).join("device");
            std::fs::create_dir_all(&dir).expect("made");
            let uevent = format!("PCI_SLOT_NAME={bus}\n");
            for (name, text) in [("vendor", "0x1002"), ("device", "0x740f"), ("uevent", &uevent)] {
                std::fs::write(dir.join(name), text).expect("written");
            }
        }
        let ids = |declared: &[Device]| -> Vec<String> {
            all(declared, root.path()).into_iter().map(|device| device.id).collect()
        };
        let both = ["0000:43:00.0", "0000:44:00.0"];
        assert_eq!(ids(&[]), both);
        assert_eq!(ids(&[device("MI210", "0000:43:00.0", &[])]), both);
        assert_eq!(ids(&[device("MI210", "gpu0", &["/dev/dri/renderD129"])]), ["gpu0", "0000:43:00.0"]);
        assert_eq!(ids(&[device("MI210", "gpu0", &["/dev/kfd"])]).len(), 3, "what all share is of none");
    }

    #[test]
    fn devices_of_one_model_are_reported_together() {
        let specs = specs(&[device("T4", "a", &[]), device("A100", "b", &[]), device("T4", "c", &[])]);
        let found: Vec<(&str, Vec<&str>)> = specs
            .iter()
            .map(|spec| (&*spec.model, spec.instances.iter().map(|one| &*one.id).collect()))
            .collect();
        assert_eq!(found, [("T4", vec!["a", "c"]), ("A100", vec!["b"])]);
    }

    #[test]
    fn a_task_gets_the_files_of_its_devices_and_no_others() {
        let devices =
            [device("T4", "a", &["/dev/ctl", "/dev/a"]), device("T4", "b", &["/dev/ctl", "/dev/b"])];
        let grant = |ids: &[&str]| DeviceGrantSpec {
            device: "nvidia/gpu/T4".into(),
            ids: ids.iter().map(|id| (*id).to_owned()).collect(),
            milli_each: 1000,
        };
        let given = |ids| files_of(&[grant(ids)], &specs(&devices), &files(&devices));
        assert_eq!(given(&["b"]).unwrap(), [Path::new("/dev/ctl"), Path::new("/dev/b")]);
        assert_eq!(given(&["b", "a"]).unwrap().len(), 3);
        let refused = given(&["x"]).unwrap_err().to_string();
        assert!(refused.starts_with("find device x: this node has it no more"), "{refused}");
    }
}
