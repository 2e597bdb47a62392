//! Files of the operating system. Only their owner may read them: jobs carry passwords.

use std::{
    fs::{self, DirBuilder, File, FileType, OpenOptions, Permissions},
    io::{self, Read},
    os::unix::fs::{DirBuilderExt, FileExt, FileTypeExt, MetadataExt, OpenOptionsExt, PermissionsExt},
    path::Path,
    time::Duration,
};

use rustix::{
    fs::{FallocateFlags, OFlags, fallocate, statvfs},
    io::Errno,
};

use super::{Disk, DiskFile, DiskSpace, InUse, LockHold, PreparedFile, lock};

/// Of a directory: nobody else may enter it.
const DIR_MODE: u32 = 0o700;
/// Of a file: nobody else may read it.
const FILE_MODE: u32 = 0o600;
/// How often a write that finds no space is tried again.
const RETRY: Duration = Duration::from_millis(200);

/// The disk that is there.
#[derive(Debug)]
pub struct RealDisk;

impl Disk for RealDisk {
    fn create_dir(&self, dir: &Path) -> io::Result<()> {
        make_private_dir(dir)?;
        dir.parent()
            .filter(|parent| !parent.as_os_str().is_empty())
            .map_or(Ok(()), |parent| self.sync_dir(parent))
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<String>> {
        fs::read_dir(dir)?.map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned())).collect()
    }

    fn len(&self, path: &Path) -> io::Result<u64> {
        Ok(fs::metadata(path)?.len())
    }

    fn read(&self, path: &Path) -> io::Result<Vec<u8>> {
        let mut file = open_file(OpenOptions::new().read(true), path)?;
        let mut bytes = Vec::with_capacity(usize::try_from(file.metadata()?.len()).unwrap_or(0));
        file.read_to_end(&mut bytes)?;
        Ok(bytes)
    }

    fn read_at(&self, path: &Path, offset: u64, bytes: usize) -> io::Result<Vec<u8>> {
        let mut buffer = vec![0; bytes];
        open_file(OpenOptions::new().read(true), path)?.read_exact_at(&mut buffer, offset)?;
        Ok(buffer)
    }

    fn stream(&self, path: &Path) -> io::Result<Box<dyn Read + Send>> {
        Ok(Box::new(open_file(OpenOptions::new().read(true), path)?))
    }

    fn create(&self, path: &Path) -> io::Result<Box<dyn DiskFile>> {
        Ok(Box::new(open_file(OpenOptions::new().write(true).create(true).truncate(true), path)?))
    }

    fn allocate(&self, path: &Path, bytes: u64) -> io::Result<()> {
        let mut file = open_file(OpenOptions::new().write(true).create(true).truncate(true), path)?;
        match fallocate(&file, FallocateFlags::empty(), 0, bytes) {
            Err(Errno::OPNOTSUPP) => super::write_zeros(&mut file, 0, bytes),
            result => Ok(result?),
        }
    }

    fn set_len(&self, path: &Path, bytes: u64) -> io::Result<()> {
        open_file(OpenOptions::new().write(true), path)?.set_len(bytes)
    }

    fn open(&self, path: &Path) -> io::Result<Box<dyn DiskFile>> {
        Ok(Box::new(open_file(OpenOptions::new().write(true), path)?))
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        fs::rename(from, to)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        fs::remove_file(path)
    }

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        File::open(dir)?.sync_all()
    }

    fn space(&self, dir: &Path) -> io::Result<DiskSpace> {
        let found = statvfs(dir)?;
        let bytes = |blocks: u64| blocks.saturating_mul(found.f_frsize);
        Ok(DiskSpace { free: bytes(found.f_bavail), total: bytes(found.f_blocks) })
    }

    fn hold(&self, dir: &Path) -> io::Result<Result<LockHold, InUse>> {
        lock::hold(dir)
    }

    fn begin(&self, work: PreparedFile) -> Option<PreparedFile> {
        let thread = std::thread::Builder::new().name("log-spare".to_owned()).spawn(work).ok()?;
        Some(Box::new(|| thread.join().unwrap_or_else(|_| Err(io::Error::other("it has panicked")))))
    }

    fn wait_for_room(&self) {
        std::thread::sleep(RETRY);
    }
}

impl DiskFile for File {
    fn write_at(&mut self, bytes: &[u8], offset: u64) -> io::Result<()> {
        self.write_all_at(bytes, offset)
    }

    fn sync(&mut self) -> io::Result<()> {
        self.sync_data()
    }
}

/// Opens a file, made as a private one if the options say so. What is no file is an error rather than something to wait
/// for: a pipe would block until somebody comes to the other end.
pub(super) fn open_file(options: &mut OpenOptions, path: &Path) -> io::Result<File> {
    if let Ok(found) = fs::metadata(path) {
        check_is_file(path, found.file_type())?;
    }
    let file = options.mode(FILE_MODE).custom_flags(OFlags::NONBLOCK.bits().cast_signed()).open(path)?;
    // Again, because it may be another one than a moment ago.
    check_is_file(path, file.metadata()?.file_type())?;
    Ok(file)
}

fn check_is_file(path: &Path, found: FileType) -> io::Result<()> {
    let what = match found {
        found if found.is_file() => return Ok(()),
        found if found.is_dir() => "a directory",
        found if found.is_fifo() => "a named pipe",
        found if found.is_socket() => "a socket",
        _ => "a device",
    };
    Err(io::Error::other(format!("{} is {what} where a file should be: move it away", path.display())))
}

/// Makes a directory that only its owner may enter, and those above it as usual. If it is there, it and the files in it
/// are closed to others.
fn make_private_dir(dir: &Path) -> io::Result<()> {
    if let Some(parent) = dir.parent() {
        fs::create_dir_all(parent)?;
    }
    match DirBuilder::new().mode(DIR_MODE).create(dir) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists && dir.is_dir() => {}
        made => return made,
    }
    close_to_others(dir, DIR_MODE)?;
    for entry in fs::read_dir(dir)? {
        let path = entry?.path();
        if path.symlink_metadata()?.is_file() {
            close_to_others(&path, FILE_MODE)?;
        }
    }
    Ok(())
}

fn close_to_others(path: &Path, mode: u32) -> io::Result<()> {
    const OTHERS: u32 = 0o077;
    if fs::metadata(path)?.mode() & OTHERS == 0 {
        return Ok(());
    }
    tracing::warn!(path = %path.display(), "others could read it, now they cannot");
    fs::set_permissions(path, Permissions::from_mode(mode))
}

#[cfg(test)]
mod tests {
    use rustix::fs::{CWD, FileType, Mode, mknodat};

    use super::*;

    fn mode(path: &Path) -> u32 {
        fs::metadata(path).unwrap().mode() & 0o777
    }

    #[test]
    fn only_the_owner_may_read() {
        let dir = tempfile::tempdir().unwrap();
        let (parent, private) = (dir.path().join("var"), dir.path().join("var/server"));
        RealDisk.create_dir(&private).unwrap();
        RealDisk.create(&private.join("file")).unwrap();
        assert_eq!((mode(&private), mode(&private.join("file"))), (0o700, 0o600));
        assert_ne!(mode(&parent), 0o700, "a directory that others may use was closed");
        for (path, open) in [(private.clone(), 0o755), (private.join("file"), 0o644)] {
            fs::set_permissions(path, Permissions::from_mode(open)).unwrap();
        }
        RealDisk.create_dir(&private).unwrap();
        assert_eq!((mode(&private), mode(&private.join("file"))), (0o700, 0o600));
    }

    #[test]
    fn what_is_no_file_is_named_and_not_waited_for() {
        let dir = tempfile::tempdir().unwrap();
        let (pipe, socket) = (dir.path().join("pipe"), dir.path().join("socket"));
        mknodat(CWD, &pipe, FileType::Fifo, Mode::RWXU, 0).unwrap();
        let _listener = std::os::unix::net::UnixListener::bind(&socket).unwrap();
        for (path, what) in
            [(&pipe, "named pipe"), (&socket, "socket"), (&dir.path().to_owned(), "directory")]
        {
            let refused = [
                RealDisk.read(path).map(drop),
                RealDisk.read_at(path, 0, 1).map(drop),
                RealDisk.stream(path).map(drop),
                RealDisk.create(path).map(drop),
                RealDisk.open(path).map(drop),
            ];
            for refused in refused {
                assert!(refused.as_ref().is_err_and(|error| error.to_string().contains(what)), "{refused:?}");
            }
        }
    }
}
