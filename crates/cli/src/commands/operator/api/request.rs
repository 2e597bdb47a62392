//! The request: its server, path, parameters, headers and body.

use std::{
    fs::{self, File},
    io::{self, Read},
    os::{fd::AsFd, unix::fs::FileTypeExt},
};

use berth_api::http::{Address, RawRequest, Target};

use super::ApiArgs;
use crate::{
    failure::{Exit, Failure},
    global::Global,
};

/// The header of a token.
pub const TOKEN: &str = "x-nomad-token";
/// Bytes of a body, at most.
const BODY_BYTES_MAX: u64 = 1 << 30;
/// Methods of which no request has a body unless `-d` says so.
const WITHOUT_BODY: &[&str] = &["GET", "HEAD", "DELETE"];

/// A server and the path of a request to it.
#[derive(Debug, PartialEq, Eq)]
pub struct Destination {
    pub address: Address,
    /// The path with its parameters, as it is written.
    pub path: String,
}

impl Destination {
    /// The server that every command talks to, or the one that a URL names; without its scheme that is the same as of the former.
    pub fn of(text: &str, global: &Global) -> Result<Self, Failure> {
        if text.starts_with('/') {
            return Ok(Self { address: global.server()?, path: text.to_owned() });
        }
        let from = text.find("://").map_or(0, |at| at + 3);
        let end = text[from..].find(['/', '?']).map_or(text.len(), |at| from + at);
        let (host, path) = text.split_at(end);
        if path.is_empty() {
            let text = format!("`{text}` has no path: write one that begins with a slash, as /v1/jobs");
            return Err(Failure::new(Exit::Usage, text));
        }
        let host = match (from, global.server()?.is_encrypted()) {
            (0, true) => format!("https://{host}"),
            _ => host.to_owned(),
        };
        let address: Address = host.parse().map_err(|error| Failure::new(Exit::Usage, format!("{error}")))?;
        let slash = if path.starts_with('/') { "" } else { "/" };
        Ok(Self { address, path: format!("{slash}{path}") })
    }
}

/// Path and parameters; a namespace that is given counts unless the path names one.
pub fn target(destination: &Destination, filter: Option<&str>, global: &Global) -> Result<Target, Failure> {
    let mut target = Target::written(&destination.path);
    if let Some(filter) = filter {
        if target.has_param("filter") {
            return Err(Failure::new(
                Exit::Usage,
                "the path has a filter already: leave out -filter, or that one",
            ));
        }
        target = target.param("filter", filter);
    }
    if let Some(namespace) = global.given_namespace().filter(|_| !target.has_param("namespace")) {
        target = target.param("namespace", namespace);
    }
    Ok(target)
}

/// A header as `NAME: VALUE`.
pub fn header(text: &str) -> Result<(String, String), String> {
    let (name, value) = text.split_once(':').ok_or("write NAME: VALUE")?;
    if name.trim().is_empty() {
        Err("write NAME: VALUE".to_owned())
    } else {
        Ok((name.trim().to_owned(), value.trim().to_owned()))
    }
}

/// Where a body comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BodySource {
    /// It is written on the command line.
    Text(String),
    /// A file by its path.
    File(String),
    Stdin,
}

/// The body that `-d` gives, or that is piped to the command.
pub fn data(given: Option<&str>, method: Option<&str>) -> Result<Option<BodySource>, Failure> {
    Ok(match given {
        Some("-" | "@-") => Some(BodySource::Stdin),
        Some(text) => Some(match text.strip_prefix('@') {
            Some("") => return Err(Failure::new(Exit::Usage, "-d @ names no file: write -d @FILE")),
            Some(file) => BodySource::File(file.to_owned()),
            None => BodySource::Text(text.to_owned()),
        }),
        None if method.is_some_and(|method| WITHOUT_BODY.contains(&method)) => None,
        None => stdin_is_piped().then_some(BodySource::Stdin),
    })
}

/// Whether somebody has put something there: a terminal, `/dev/null` and what a service manager gives do not count.
fn stdin_is_piped() -> bool {
    let Ok(fd) = io::stdin().as_fd().try_clone_to_owned() else { return false };
    let Ok(kind) = File::from(fd).metadata().map(|of| of.file_type()) else { return false };
    kind.is_fifo() || kind.is_file()
}

impl BodySource {
    /// Reads the body.
    pub fn read(self) -> Result<Vec<u8>, Failure> {
        let unreadable = |what: &str, error: io::Error| {
            let exit = if error.kind() == io::ErrorKind::NotFound { Exit::NotFound } else { Exit::Failed };
            Failure::new(exit, format!("cannot read {what}: {error}"))
        };
        let mut body = Vec::new();
        match self {
            Self::Text(text) => return Ok(text.into_bytes()),
            Self::Stdin => io::stdin()
                .lock()
                .take(BODY_BYTES_MAX + 1)
                .read_to_end(&mut body)
                .map_err(|error| unreadable("standard input", error))?,
            Self::File(path) => fs::File::open(&path)
                .and_then(|file| file.take(BODY_BYTES_MAX + 1).read_to_end(&mut body))
                .map_err(|error| unreadable(&path, error))?,
        };
        if body.len() as u64 > BODY_BYTES_MAX {
            let text = format!("the body has more than {BODY_BYTES_MAX} bytes: no request takes that");
            return Err(Failure::new(Exit::Usage, text));
        }
        Ok(body)
    }
}

/// The method: with a body another one than without.
pub fn method(api: &ApiArgs, has_body: bool) -> String {
    let default = if has_body { "POST" } else { "GET" };
    api.method.clone().unwrap_or_else(|| default.to_owned())
}

/// Builds the request: method, headers and body as the flags give them.
pub fn exchange(api: &ApiArgs, target: Target, body: Vec<u8>) -> RawRequest {
    let method = method(api, !body.is_empty() || api.data.is_some());
    RawRequest { method, target, headers: api.header.clone(), body: body.into() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(text: &str, address: &str) -> Result<(String, String), String> {
        let words = ["berth", "-address", address].map(str::to_owned);
        let destination = Destination::of(text, &Global::of_words(words.into_iter()))
            .map_err(|failure| failure.to_string())?;
        Ok((destination.address.to_string(), destination.path))
    }

    #[test]
    fn a_path_is_of_the_server_and_a_url_of_its_own() {
        let check = |text: &str, address: &str, expected: (&str, &str)| {
            let (at, path) = of(text, address).expect(text);
            assert_eq!((at.as_str(), path.as_str()), expected, "{text}");
        };
        check("/v1/jobs?a=b", "http://h:1", ("http://h:1", "/v1/jobs?a=b"));
        check("http://o:2/v1/jobs", "https://h:1", ("http://o:2", "/v1/jobs"));
        check("o:2/v1/jobs", "http://h:1", ("http://o:2", "/v1/jobs"));
        check("o:2/v1/jobs", "https://h:1", ("https://o:2", "/v1/jobs"));
        check("https://o/v1/job/http://x", "http://h:1", ("https://o:4646", "/v1/job/http://x"));
        assert!(of("v1", "http://h:1").is_err_and(|text| text.contains("begins with a slash")));
        assert!(of("ftp://o/v1", "http://h:1").is_err());
    }

    #[test]
    fn a_body_is_text_a_file_or_standard_input() {
        let read = |given| data(Some(given), None);
        assert_eq!(read("{}").unwrap(), Some(BodySource::Text("{}".into())));
        assert_eq!(read("@job.json").unwrap(), Some(BodySource::File("job.json".into())));
        assert_eq!(read("-").unwrap(), Some(BodySource::Stdin));
        assert_eq!(read("@-").unwrap(), Some(BodySource::Stdin));
        assert!(read("@").is_err());
        assert_eq!(data(None, Some("GET")).unwrap(), None);
        assert_eq!(BodySource::File("/no/such".into()).read().unwrap_err().exit(), Exit::NotFound);
    }

    #[test]
    fn a_header_has_a_name_and_a_value() {
        assert_eq!(header("X-A:  b: c "), Ok(("X-A".into(), "b: c".into())));
        assert!(header("X-A").is_err() && header(": b").is_err());
    }
}
