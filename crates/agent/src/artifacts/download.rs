//! Downloads an artifact to a file, up to the size limit, and verifies its checksum.

use std::collections::BTreeMap;
use std::path::Path;

use hyper::body::{Body, Incoming};
use hyper::header::{HeaderName, HeaderValue};
use hyper::{StatusCode, Uri};
use tokio::fs::File;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::checksum::{Checksum, ChecksumHasher};
use crate::failure::{Failure, FailureContext};
use crate::images::registry::error::PullError;
use crate::images::registry::retry::Retries;
use crate::images::registry::transfer_rate::TransferRate;
use crate::images::registry::transport::{FetchRequest, Transport};
use crate::images::unpacking::Unpacking;
use crate::regular_file::kind_of;

const PIECE_BYTES: usize = 256 << 10;

/// The most bytes, and the expected checksum.
pub(super) type DownloadLimits = (u64, Option<Checksum>);

/// Asks again where that may help, each time from the beginning; `note` is sent the reason.
pub(super) async fn download(
    transport: &Transport,
    uri: &Uri,
    headers: &BTreeMap<String, String>,
    to: &Path,
    limits: DownloadLimits,
    note: &mut (dyn FnMut(String) + Send),
) -> Result<(), PullError> {
    let headers = own_headers(headers).map_err(PullError::permanent)?;
    let mut tries = Retries::default();
    loop {
        let Err(error) = once(transport, uri, &headers, to, &limits).await else { return Ok(()) };
        let reason = error.reason.clone();
        if tries.may_help(&error) {
            note(format!("Download interrupted, trying again: {reason}"));
        }
        tries.pause(error).await?;
    }
}

async fn once(
    transport: &Transport,
    uri: &Uri,
    headers: &[(HeaderName, HeaderValue)],
    to: &Path,
    limits: &DownloadLimits,
) -> Result<(), PullError> {
    let request = FetchRequest { headers: headers.to_vec(), ..FetchRequest::default() };
    let response = transport.send(uri, &request).await?;
    let status = response.status();
    if !status.is_success() {
        let message = format!("the server answers {status}");
        let may_change = status.is_server_error()
            || matches!(status, StatusCode::TOO_MANY_REQUESTS | StatusCode::REQUEST_TIMEOUT);
        return Err(if may_change { PullError::temporary(message) } else { PullError::permanent(message) });
    }
    if response.body().size_hint().lower() > limits.0 {
        return Err(too_large());
    }
    receive(response.into_body(), to, limits, TransferRate::default()).await
}

async fn receive(
    mut body: Incoming,
    to: &Path,
    limits: &DownloadLimits,
    mut rate: TransferRate,
) -> Result<(), PullError> {
    let mut download = DownloadFile::create(to, limits).await?;
    while let Some(bytes) = rate.piece(&mut body).await? {
        download.write(&bytes).await?;
    }
    download.finish().await
}

/// The same from a file of the node.
pub(super) async fn copy(mut file: File, to: &Path, limits: DownloadLimits) -> Result<(), PullError> {
    let doing = || "read it".to_owned();
    let kind = file.metadata().await.doing(doing)?.file_type();
    if !kind.is_file() {
        return Err(PullError::permanent(format!("it is {}, and no regular file", kind_of(kind))));
    }
    let mut download = DownloadFile::create(to, &limits).await?;
    let mut buffer = vec![0; PIECE_BYTES];
    loop {
        match file.read(&mut buffer).await.doing(doing)? {
            0 => return download.finish().await,
            read => download.write(&buffer[..read]).await?,
        }
    }
}

/// Gives all of a file to the process that unpacks it.
pub(super) async fn feed(file: &mut File, unpacking: &mut Unpacking) -> std::io::Result<()> {
    let mut buffer = vec![0; PIECE_BYTES];
    while !unpacking.has_failed() {
        match file.read(&mut buffer).await? {
            0 => return Ok(()),
            read => unpacking.feed(&buffer[..read]).await?,
        }
    }
    Ok(())
}

fn too_large() -> PullError {
    PullError::permanent("it is larger than this node allows (--artifact-mb-max)")
}

/// The file of a download in progress.
struct DownloadFile<'a> {
    file: File,
    path: &'a Path,
    left: u64,
    checksum: Option<(&'a Checksum, ChecksumHasher)>,
}

impl<'a> DownloadFile<'a> {
    async fn create(path: &'a Path, (bytes_max, checksum): &'a DownloadLimits) -> Result<Self, Failure> {
        let file = File::create(path).await.doing(|| format!("write {}", path.display()))?;
        let checksum = checksum.as_ref().map(|checksum| (checksum, checksum.hasher()));
        Ok(Self { file, path, left: *bytes_max, checksum })
    }

    async fn write(&mut self, bytes: &[u8]) -> Result<(), PullError> {
        self.left = self.left.checked_sub(bytes.len() as u64).ok_or_else(too_large)?;
        if let Some((_, hasher)) = &mut self.checksum {
            hasher.update(bytes);
        }
        Ok(self.file.write_all(bytes).await.doing(|| format!("write {}", self.path.display()))?)
    }

    async fn finish(mut self) -> Result<(), PullError> {
        self.file.flush().await.doing(|| format!("write {}", self.path.display()))?;
        match self.checksum {
            Some((checksum, hasher)) => checksum.check(hasher).map_err(PullError::permanent),
            None => Ok(()),
        }
    }
}

fn own_headers(headers: &BTreeMap<String, String>) -> Result<Vec<(HeaderName, HeaderValue)>, String> {
    let header = |(name, value): (&String, &String)| {
        let refused = || format!("{name:?} is no header of HTTP, or its value is none");
        let name: HeaderName = name.parse().map_err(|_| refused())?;
        Ok((name, value.parse().map_err(|_| refused())?))
    };
    headers.iter().map(header).collect()
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead, BufReader, Write};
    use std::net::TcpListener;
    use std::time::Duration;

    use super::*;
    use crate::images::registry::transport::NamedHosts;

    #[tokio::test]
    async fn a_server_that_sends_too_little_is_given_up() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let host = listener.local_addr().expect("an address").to_string();
        std::thread::spawn(move || {
            for mut stream in listener.incoming().flatten() {
                let head = BufReader::new(&stream).lines().map_while(Result::ok);
                head.take_while(|line| !line.is_empty()).for_each(drop);
                let answer = "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 5\r\n\r\nhello";
                stream.write_all(answer.as_bytes()).expect("sent");
            }
        });
        let transport = Transport::new(NamedHosts::of_artifacts([host.clone()].into())).expect("a transport");
        let uri: Uri = format!("http://{host}/tool").parse().expect("an address");
        let dir = tempfile::tempdir().expect("a directory");
        let to = dir.path().join("tool");
        let receive = async |rate| {
            let response = transport.send(&uri, &FetchRequest::default()).await.expect("an answer");
            receive(response.into_body(), &to, &(100, None), rate).await
        };
        receive(TransferRate::default()).await.expect("it has just begun");
        let mut slow = TransferRate::default();
        slow.add(Duration::from_secs(60), 1);
        let refusal = receive(slow).await.expect_err("given up").reason;
        assert!(refusal.contains("sends less than"), "{refusal}");
    }
}
