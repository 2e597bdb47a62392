//! Parses volumes that an operator declares, `NAME=PATH`, and directories that containers may mount by path, each with an optional
//! `;read_only`.

use std::path::{Component, PathBuf};

use berth_agent::volumes::{HostVolume, HostVolumes, MountDir};

/// Longest name of a volume.
const NAME_BYTES_MAX: usize = 128;

/// Reads all of them.
pub fn read(texts: &[String]) -> Result<HostVolumes, String> {
    let mut volumes = HostVolumes::new();
    for text in texts {
        let (name, volume) = volume(text)?;
        if volumes.insert(name.clone(), volume).is_some() {
            return Err(format!("two volumes have the name `{name}`"));
        }
    }
    Ok(volumes)
}

fn volume(text: &str) -> Result<(String, HostVolume), String> {
    let not_a_volume = || format!("`{text}` is not NAME=PATH, perhaps with ;read_only after it");
    let (named, read_only) = access(text).ok_or_else(not_a_volume)?;
    let (name, path) = named.split_once('=').ok_or_else(not_a_volume)?;
    let odd = |c: char| !(c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.' | '[' | ']'));
    if name.is_empty() || name.len() > NAME_BYTES_MAX || name.contains(odd) {
        return Err(format!(
            "`{text}`: a volume's name is made of letters, digits and -_.[], at most {NAME_BYTES_MAX} of them"
        ));
    }
    let path = PathBuf::from(path);
    if !path.is_absolute() {
        return Err(format!("`{text}`: the path must be absolute"));
    }
    Ok((name.to_owned(), HostVolume { path, read_only }))
}

/// Reads all of them.
pub fn mount_dirs(texts: &[String]) -> Result<Vec<MountDir>, String> {
    texts.iter().map(|text| mount_dir(text)).collect()
}

fn mount_dir(text: &str) -> Result<MountDir, String> {
    let not_a_dir =
        || format!("`{text}` is not an absolute path without `..`, perhaps with ;read_only after it");
    let (path, read_only) = access(text).ok_or_else(not_a_dir)?;
    // As jobs' own paths, which it is compared to.
    let path: PathBuf = PathBuf::from(path).components().collect();
    if !path.is_absolute() || path.components().any(|part| part == Component::ParentDir) {
        return Err(not_a_dir());
    }
    Ok(MountDir { path, read_only })
}

/// What stands in front of the access, and whether nobody may write; none for another access.
fn access(text: &str) -> Option<(&str, bool)> {
    match text.split_once(';') {
        None => Some((text, false)),
        Some((named, "read_only")) => Some((named, true)),
        Some(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn volumes(texts: &[&str]) -> Result<HostVolumes, String> {
        read(&texts.iter().map(|&text| text.to_owned()).collect::<Vec<_>>())
    }

    #[test]
    fn a_volume_is_a_name_and_a_path() {
        let read = volumes(&["data=/srv/data", "certs=/etc/ssl;read_only"]).unwrap();
        assert_eq!(read["data"], HostVolume { path: "/srv/data".into(), read_only: false });
        assert!(read["certs"].read_only);
    }

    #[test]
    fn what_is_no_volume_is_refused() {
        for bad in ["data", "=/srv", "data=srv", "da ta=/srv", "data=/srv;rw", "data="] {
            assert!(volumes(&[bad]).unwrap_err().contains(bad), "{bad}");
        }
        assert!(volumes(&["a=/x", "a=/y"]).unwrap_err().contains("two volumes have the name `a`"));
    }
    #[test]
    fn a_directory_for_mounts_is_an_absolute_path() {
        let dir = |text: &str| mount_dir(text);
        assert_eq!(dir("/srv//www/./"), Ok(MountDir { path: "/srv/www".into(), read_only: false }));
        assert_eq!(dir("/etc/ssl;read_only"), Ok(MountDir { path: "/etc/ssl".into(), read_only: true }));
        for bad in ["srv", "", "/srv/../etc", "/srv;ro", ";read_only"] {
            assert!(dir(bad).unwrap_err().contains(bad), "{bad}");
        }
    }
}
