//! Parses the devices that an operator declares: `VENDOR/TYPE/MODEL=ID`, then, each after a semicolon, `file=PATH` for a device file
//! and `ATTRIBUTE=VALUE` for attributes.

use std::{collections::BTreeMap, path::PathBuf};

use berth_agent::devices::Device;

/// Reads all of them.
pub fn read(texts: &[String]) -> Result<Vec<Device>, String> {
    let devices = texts.iter().map(|text| device(text)).collect::<Result<Vec<Device>, _>>()?;
    for (at, device) in devices.iter().enumerate() {
        for before in &devices[..at] {
            agree(before, device)?;
        }
    }
    Ok(devices)
}

fn device(text: &str) -> Result<Device, String> {
    let mut parts = text.split(';');
    let not_a_device = || format!("`{text}` is not VENDOR/TYPE/MODEL=ID, perhaps with ;KEY=VALUE after it");
    let (name, id) = parts.next().unwrap_or_default().rsplit_once('=').ok_or_else(not_a_device)?;
    let names: Vec<&str> = name.splitn(3, '/').collect();
    let [vendor, kind, model] = names[..] else { return Err(not_a_device()) };
    if [vendor, kind, model, id].contains(&"") {
        return Err(not_a_device());
    }
    let (mut files, mut attributes) = (Vec::new(), BTreeMap::new());
    for part in parts {
        let (key, value) = part.split_once('=').ok_or_else(not_a_device)?;
        let (key, value) = (key.trim(), value.trim());
        if key.is_empty() || value.is_empty() {
            return Err(not_a_device());
        }
        if key != "file" {
            attributes.insert(key.to_owned(), value.to_owned());
        } else if value.starts_with("/dev/") && !value.contains("..") {
            files.push(PathBuf::from(value));
        } else {
            return Err(format!("`{text}`: the file `{value}` is not one below /dev"));
        }
    }
    let [vendor, kind, model, id] = [vendor, kind, model, id].map(str::to_owned);
    Ok(Device { vendor, kind, model, id, attributes, unhealthy: false, files })
}

/// Whether two devices can be on one node.
fn agree(one: &Device, other: &Device) -> Result<(), String> {
    if one.id == other.id {
        return Err(format!("two devices have the id `{}`", one.id));
    }
    let name = |device: &Device| format!("{}/{}/{}", device.vendor, device.kind, device.model);
    if name(one) == name(other) && one.attributes != other.attributes {
        return Err(format!(
            "the devices `{}` and `{}` are both {} and have other attributes: give them the same, or call one \
             model something else",
            one.id,
            other.id,
            name(one)
        ));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn devices(texts: &[&str]) -> Result<Vec<Device>, String> {
        read(&texts.iter().map(|&text| text.to_owned()).collect::<Vec<_>>())
    }

    #[test]
    fn a_device_is_a_name_an_id_and_options() {
        let read =
            devices(&["nvidia/gpu/T4=GPU-1", "acme/fpga/A1=0;file=/dev/a0;memory=8 GiB;file=/dev/ctl"]);
        let read = read.unwrap();
        assert_eq!((&*read[0].model, &*read[0].id, read[0].files.len()), ("T4", "GPU-1", 0));
        assert_eq!((&*read[1].kind, &*read[1].attributes["memory"]), ("fpga", "8 GiB"));
        assert_eq!(read[1].files, [PathBuf::from("/dev/a0"), PathBuf::from("/dev/ctl")]);
    }

    #[test]
    fn what_is_no_device_is_refused() {
        for bad in [
            "nvidia/gpu/T4",
            "gpu=1",
            "nvidia//T4=1",
            "nvidia/gpu/T4=",
            "a/b/c=1;",
            "a/b/c=1;x",
            "a/b/c=1;x=",
        ] {
            assert!(devices(&[bad]).unwrap_err().contains(bad), "{bad}");
        }
        let refused = |texts| devices(texts).unwrap_err();
        assert!(refused(&["a/gpu/b=1;file=/etc/passwd"]).contains("not one below /dev"));
        assert!(refused(&["a/gpu/b=1;file=/dev/../etc/passwd"]).contains("not one below /dev"));
        assert!(refused(&["a/gpu/b=1", "a/gpu/c=1"]).contains("two devices have the id"));
        assert!(refused(&["a/gpu/b=1;x=1", "a/gpu/b=2;x=2"]).contains("have other attributes"));
    }
}
