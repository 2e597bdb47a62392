//! Devices of a node as an operator names them: `VENDOR/TYPE/MODEL=ID`, one for each.

use berth_api::agent::{DeviceInstanceSpec, DeviceSpec};

/// Reads all of them; those of one model are kept together.
pub fn read(texts: &[String]) -> Result<Vec<DeviceSpec>, String> {
    let mut devices: Vec<DeviceSpec> = Vec::new();
    for text in texts {
        let not_a_device = || format!("`{text}` is not VENDOR/TYPE/MODEL=ID");
        let (name, id) = text.rsplit_once('=').filter(|(_, id)| !id.is_empty()).ok_or_else(not_a_device)?;
        let parts: Vec<&str> = name.splitn(3, '/').collect();
        let [vendor, kind, model] = parts[..] else { return Err(not_a_device()) };
        if [vendor, kind, model].contains(&"") {
            return Err(not_a_device());
        }
        if devices.iter().flat_map(|device| &device.instances).any(|instance| instance.id == id) {
            return Err(format!("two devices have the id `{id}`"));
        }
        let alike =
            |device: &DeviceSpec| (&*device.vendor, &*device.kind, &*device.model) == (vendor, kind, model);
        let at = devices.iter().position(alike).unwrap_or_else(|| {
            devices.push(DeviceSpec {
                vendor: vendor.to_owned(),
                kind: kind.to_owned(),
                model: model.to_owned(),
                ..DeviceSpec::default()
            });
            devices.len() - 1
        });
        devices[at].instances.push(DeviceInstanceSpec { id: id.to_owned(), unhealthy: false });
    }
    Ok(devices)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn devices(texts: &[&str]) -> Result<Vec<DeviceSpec>, String> {
        read(&texts.iter().map(|&text| text.to_owned()).collect::<Vec<_>>())
    }

    #[test]
    fn devices_of_one_model_are_kept_together() {
        let read = devices(&["nvidia/gpu/T4=GPU-1", "amd/gpu/MI300=0", "nvidia/gpu/T4=GPU-2"]).unwrap();
        let ids: Vec<Vec<&str>> =
            read.iter().map(|device| device.instances.iter().map(|one| one.id.as_str()).collect()).collect();
        assert_eq!(ids, [vec!["GPU-1", "GPU-2"], vec!["0"]]);
    }

    #[test]
    fn what_is_no_device_is_refused() {
        for bad in ["nvidia/gpu/T4", "gpu=1", "nvidia//T4=1", "nvidia/gpu/T4="] {
            assert!(devices(&[bad]).unwrap_err().contains(bad), "{bad}");
        }
        assert!(devices(&["a/gpu/b=1", "a/gpu/c=1"]).unwrap_err().contains("two devices"));
    }
}
