//! Records on disk: a header with version, length and checksum, then a protobuf message. Written whole or not at all.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use prost::Message;

use crate::failure::{Doing, Failure};

const MAGIC: [u8; 4] = *b"BRTH";
const VERSION: u16 = 1;
const HEADER_BYTES: usize = 16;

/// The largest record that is read.
const RECORD_BYTES_MAX: u64 = 16 << 20;

fn encode(message: &impl Message) -> Vec<u8> {
    let body = message.encode_to_vec();
    let mut out = Vec::with_capacity(HEADER_BYTES + body.len());
    out.extend_from_slice(&MAGIC);
    out.extend_from_slice(&VERSION.to_be_bytes());
    out.extend_from_slice(&[0; 2]);
    out.extend_from_slice(&(body.len() as u32).to_be_bytes());
    out.extend_from_slice(&crc32c::crc32c(&body).to_be_bytes());
    out.extend_from_slice(&body);
    out
}

fn decode<M: Message + Default>(bytes: &[u8]) -> Result<M, &'static str> {
    let (header, body) = bytes.split_first_chunk::<HEADER_BYTES>().ok_or("shorter than its header")?;
    let number = |at: usize| u32::from_be_bytes([header[at], header[at + 1], header[at + 2], header[at + 3]]);
    if header[..4] != MAGIC {
        return Err("not a record of berth");
    }
    if header[4..6] != VERSION.to_be_bytes() {
        return Err("a version that this berth does not know");
    }
    if number(8) as usize != body.len() || number(12) != crc32c::crc32c(body) {
        return Err("damaged: the checksum does not match");
    }
    M::decode(body).map_err(|_| "damaged: not the message expected")
}

/// Writes a record so that a crash at any moment leaves the old one or the new one.
pub(crate) fn write(dir: &Path, name: &str, message: &impl Message) -> Result<(), Failure> {
    let doing = || format!("write {}", dir.join(name).display());
    let temp = dir.join(format!("{name}.new"));
    write_synced(&temp, &encode(message)).doing(doing)?;
    fs::rename(&temp, dir.join(name)).doing(doing)?;
    sync_dir(dir).doing(doing)
}

fn write_synced(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(path)?;
    file.write_all(bytes)?;
    file.sync_data()
}

pub(crate) fn sync_dir(dir: &Path) -> io::Result<()> {
    File::open(dir)?.sync_data()
}

/// Reads a record; none when there is no such file.
pub(crate) fn read<M: Message + Default>(dir: &Path, name: &str) -> Result<Option<M>, Failure> {
    let path = dir.join(name);
    let doing = || format!("read {}", path.display());
    match fs::metadata(&path) {
        Ok(found) if found.len() > RECORD_BYTES_MAX => {
            return Err(Failure::other(doing(), "too long for a record"));
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        other => other.doing(doing)?,
    };
    let bytes = fs::read(&path).doing(doing)?;
    decode(&bytes).map(Some).map_err(|cause| Failure::other(doing(), cause))
}

#[cfg(test)]
mod tests {
    use berth_api::agent::PortBinding;

    use super::*;

    #[test]
    fn a_record_is_read_as_written_and_damage_is_found() {
        let dir = tempfile::tempdir().expect("a directory");
        let message = PortBinding { label: "http".into(), host_port: 80, to: 0 };
        assert_eq!(read::<PortBinding>(dir.path(), "port").expect("no file"), None);
        write(dir.path(), "port", &message).expect("written");
        assert_eq!(read(dir.path(), "port").expect("a record"), Some(message));

        let path = dir.path().join("port");
        let good = fs::read(&path).expect("bytes");
        for at in (0..good.len()).filter(|at| !(6..8).contains(at)) {
            let mut bad = good.clone();
            bad[at] ^= 1;
            fs::write(&path, bad).expect("written");
            assert!(read::<PortBinding>(dir.path(), "port").is_err(), "a change at byte {at} went unseen");
        }
    }
}
