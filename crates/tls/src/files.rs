//! Files of certificates and keys: read with errors that name them, written so that a crash leaves the old or the new.

use std::{
    fs::{self, File, OpenOptions},
    io::{self, Write},
    os::unix::fs::OpenOptionsExt,
    path::{Path, PathBuf},
};

use tokio_rustls::rustls::pki_types::{
    CertificateDer, PrivateKeyDer,
    pem::{self, PemObject},
};

use crate::TlsError;

/// Only its owner reads a key.
const KEY_MODE: u32 = 0o600;
/// Larger files are none of certificates.
const FILE_BYTES_MAX: u64 = 1 << 20;
/// Files of a directory of certificates.
const DIR_FILES_MAX: usize = 1024;

/// Where a process finds what it needs for TLS.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TlsFiles {
    /// The authorities that it believes, one or more.
    pub ca: PathBuf,
    /// Its own certificate, and those between it and an authority.
    pub cert: PathBuf,
    /// The key of that.
    pub key: PathBuf,
}

impl TlsFiles {
    /// As `berth server init` and `berth server cert` name them in a directory; `name` is that of the process's role.
    pub fn in_dir(dir: &Path, name: &str) -> Self {
        let file = |file: &str| dir.join(file);
        Self { ca: file("ca.pem"), cert: file(&format!("{name}.pem")), key: file(&format!("{name}-key.pem")) }
    }
}

/// The certificates of a file; at least one.
///
/// # Errors
/// When it cannot be read or holds none.
pub fn read_certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let text = read(path)?;
    let certificates = CertificateDer::pem_slice_iter(&text).collect::<Result<Vec<_>, _>>();
    let certificates = certificates.map_err(|error| wrong(path, &describe(&error)))?;
    if certificates.is_empty() {
        return Err(wrong(path, "it holds no certificate in PEM"));
    }
    Ok(certificates)
}

/// The certificates of all files of a directory; at least one. What is below it in turn is left alone.
///
/// # Errors
/// When it cannot be read, has more files than [`DIR_FILES_MAX`], or one of them holds no certificate.
pub fn read_certificates_of_dir(dir: &Path) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let failed = |source| TlsError::Read { path: dir.to_owned(), source };
    let mut files = Vec::new();
    for entry in fs::read_dir(dir).map_err(failed)? {
        let path = entry.map_err(failed)?.path();
        // What a link leads to counts: secrets are mounted as links, beside links to directories.
        let about = fs::metadata(&path).map_err(|source| TlsError::Read { path: path.clone(), source })?;
        if about.is_dir() {
            continue;
        }
        // Reading a pipe would wait for whoever writes.
        if !about.is_file() {
            return Err(wrong(&path, "it is not a file"));
        }
        if files.len() == DIR_FILES_MAX {
            return Err(wrong(dir, &format!("it has more than {DIR_FILES_MAX} files")));
        }
        files.push(path);
    }
    if files.is_empty() {
        return Err(wrong(dir, "there is no file of certificates in it"));
    }
    files.sort();
    let read = files.iter().map(|file| read_certificates(file)).collect::<Result<Vec<_>, _>>()?;
    Ok(read.into_iter().flatten().collect())
}

/// The key of a file.
pub(crate) fn read_key(path: &Path) -> Result<PrivateKeyDer<'static>, TlsError> {
    PrivateKeyDer::from_pem_slice(&read(path)?).map_err(|error| match error {
        pem::Error::NoItemsFound => wrong(path, "it holds no private key in PEM"),
        error => wrong(path, &describe(&error)),
    })
}

fn describe(error: &pem::Error) -> String {
    format!("it is not PEM: {error}")
}

pub(crate) fn wrong(path: &Path, why: &str) -> TlsError {
    TlsError::File { path: path.to_owned(), why: why.to_owned() }
}

fn read(path: &Path) -> Result<Vec<u8>, TlsError> {
    let failed = |source| TlsError::Read { path: path.to_owned(), source };
    if fs::metadata(path).map_err(failed)?.len() > FILE_BYTES_MAX {
        return Err(wrong(path, "it is too large for certificates"));
    }
    fs::read(path).map_err(failed)
}

/// Writes a file that nobody but its owner reads, and that must not be there yet.
///
/// # Errors
/// When it is there, or cannot be written.
pub fn write_new(path: &Path, text: &str) -> Result<(), TlsError> {
    let write = || {
        let temporary = temporary(path);
        write_synced(&temporary, text)?;
        // Unlike a rename, a link fails where there is a file already.
        let linked = fs::hard_link(&temporary, path);
        fs::remove_file(&temporary)?;
        linked.and_then(|()| sync_parent(path))
    };
    write().map_err(|source| TlsError::Write { path: path.to_owned(), source })
}

/// Writes a file that nobody but its owner reads in the place of the one that is there.
///
/// # Errors
/// When it cannot be written.
pub fn replace_file(path: &Path, text: &str) -> Result<(), TlsError> {
    let write = || {
        let temporary = temporary(path);
        write_synced(&temporary, text)?;
        fs::rename(&temporary, path)?;
        sync_parent(path)
    };
    write().map_err(|source| TlsError::Write { path: path.to_owned(), source })
}

fn temporary(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(format!(".{}.new", std::process::id()));
    name.into()
}

fn write_synced(path: &Path, text: &str) -> io::Result<()> {
    // What a crash left under this name may be open to others.
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let mut file = OpenOptions::new().write(true).create_new(true).mode(KEY_MODE).open(path)?;
    file.write_all(text.as_bytes())?;
    file.sync_all()
}

fn sync_parent(path: &Path) -> io::Result<()> {
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
    File::open(parent.unwrap_or(Path::new(".")))?.sync_all()
}
