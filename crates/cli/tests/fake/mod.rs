//! A server that answers from the files of a directory: `GET /v1/jobs` is `v1/jobs.json`, `PUT /v1/jobs` is
//! `v1/jobs.put.json`. Of the parameters of a list it knows `prefix` alone.

use std::{
    io::{BufRead, BufReader, Write},
    net::{TcpListener, TcpStream},
    path::{Path, PathBuf},
    time::Duration,
};

use serde_json::Value;

const EVENTS: &str = "/v1/event/stream";
/// How long a stream stays open in which nothing more happens.
const STREAM_LASTS: Duration = Duration::from_secs(3);

/// It answers until the process ends.
pub struct Server {
    address: String,
}

impl Server {
    /// Begins to answer from the directory.
    pub fn start(answers: &str) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = format!("http://{}", listener.local_addr().expect("an address"));
        let answers = PathBuf::from(answers);
        std::thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let answers = answers.clone();
                std::thread::spawn(move || while answer(&stream, &answers).is_some() {});
            }
        });
        Self { address }
    }

    /// Where it answers.
    pub fn address(&self) -> &str {
        &self.address
    }
}

/// Answers one request; none when there is no further one.
fn answer(mut stream: &TcpStream, answers: &Path) -> Option<()> {
    let mut reader = BufReader::new(stream);
    let mut line = String::new();
    reader.read_line(&mut line).ok().filter(|bytes| *bytes > 0)?;
    let mut words = line.split(' ');
    let (method, target) = (words.next()?, words.next()?);
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    skip_rest(&mut reader)?;
    let suffix = if method == "GET" { String::new() } else { format!(".{}", method.to_lowercase()) };
    let file = answers.join(format!("{}{suffix}.json", path.trim_start_matches('/')));
    let (status, body) = match std::fs::read_to_string(&file) {
        Ok(body) => ("200 OK", beginning(body, query)),
        Err(_) => ("404 Not Found", format!("no answer in {}\n", file.display())),
    };
    if path == EVENTS {
        // A stream goes on for a while after what has happened.
        let head = format!("HTTP/1.1 {status}\r\nX-Nomad-Index: 7\r\nConnection: close\r\n\r\n{body}");
        stream.write_all(head.as_bytes()).ok()?;
        std::thread::sleep(STREAM_LASTS);
        return stream.shutdown(std::net::Shutdown::Both).is_err().then_some(());
    }
    let head = format!("HTTP/1.1 {status}\r\nX-Nomad-Index: 7\r\nContent-Length: {}\r\n\r\n", body.len());
    stream.write_all(head.as_bytes()).and_then(|()| stream.write_all(body.as_bytes())).ok()
}

/// Headers, and a body of the length that they tell.
fn skip_rest(reader: &mut impl BufRead) -> Option<()> {
    let mut length = 0;
    loop {
        let mut header = String::new();
        reader.read_line(&mut header).ok()?;
        match header.trim().split_once(": ") {
            Some((name, value)) if name.eq_ignore_ascii_case("content-length") => {
                length = value.parse().ok()?
            }
            Some(_) => {}
            None => break,
        }
    }
    reader.read_exact(&mut vec![0; length]).ok()
}

/// Of a list, what begins with the text that the query asks for.
fn beginning(body: String, query: &str) -> String {
    let prefix = query.split('&').find_map(|param| param.strip_prefix("prefix="));
    match (prefix, serde_json::from_str(&body)) {
        (Some(prefix), Ok(Value::Array(mut items))) => {
            items.retain(|item| item["ID"].as_str().is_some_and(|id| id.starts_with(prefix)));
            Value::Array(items).to_string()
        }
        _ => body,
    }
}
