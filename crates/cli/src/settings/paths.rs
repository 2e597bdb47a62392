//! Checks the paths in an agent's settings before anything starts.

use std::{
    fs::{Metadata, metadata},
    os::unix::fs::PermissionsExt,
    path::Path,
};

use super::NodeSettings;
use crate::failure::{Exit, Failure};

impl NodeSettings {
    /// # Errors
    /// When a directory that is named is not there or is none, or the runtime of containers is no program.
    pub fn check_paths(&self) -> Result<(), Failure> {
        let is_dir = |found: &Metadata| if found.is_dir() { Ok(()) } else { Err("it is not a directory") };
        let is_program = |found: &Metadata| match (found.is_file(), found.permissions().mode() & 0o111) {
            (false, _) => Err("it is not a file"),
            (_, 0) => Err("nobody may execute it"),
            _ => Ok(()),
        };
        let exists = |_: &Metadata| Ok(());
        let runtime = Path::new(&self.container_runtime);
        // One that is not there may be installed later: the node takes containers from then on.
        let runtime = Some(runtime).filter(|runtime| runtime.exists());
        runtime.into_iter().try_for_each(|path| check("container-runtime", path, is_program))?;
        self.images.dirs.iter().try_for_each(|path| check("image-dirs", path, is_dir))?;
        self.mount_dirs.iter().try_for_each(|dir| check("mount-dirs", &dir.path, is_dir))?;
        self.artifacts.dirs.iter().try_for_each(|dir| check("artifact-dirs", dir, is_dir))?;
        let is_file = |found: &Metadata| if found.is_file() { Ok(()) } else { Err("it is not a file") };
        let credentials = self.images.registries.auth_file.iter();
        credentials.into_iter().try_for_each(|file| check("registry-auth-file", file, is_file))?;
        self.exec_paths.iter().try_for_each(|path| check("exec-paths", path, exists))
    }
}

fn check(
    setting: &str,
    path: &Path,
    suits: impl FnOnce(&Metadata) -> Result<(), &'static str>,
) -> Result<(), Failure> {
    let found = metadata(path).map_err(|error| error.to_string());
    let checked = found.and_then(|found| suits(&found).map_err(str::to_owned));
    checked.map_err(|why| Failure::new(Exit::Usage, format!("--{setting}: {}: {why}", path.display())))
}
