//! The process of the readers: one thread that waits on all connections at once, and reads of a response only when the change was
//! made, so that the measured latency is that of the server and the kernel.

use std::{
    collections::HashMap,
    io::{Read, Write},
    net::TcpStream,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use rustix::{
    buffer::spare_capacity,
    event::epoll::{self, CreateFlags, EventData, EventFlags},
};

use crate::{
    cluster::JOB,
    support::{Cpu, Outcome},
};

/// Connections that are looked after between two questions to the kernel.
const EVENTS_MAX: usize = 256;
const ANSWER_BYTES_MAX: usize = 16 << 10;
/// Connections that are opened between two pauses.
const BURST: usize = 64;
/// Lets the server accept a burst: the kernel leaves who finds its queue full waiting for a second.
const PAUSE: Duration = Duration::from_millis(5);

/// Prints `ready` when all have asked, and when all have been informed p50, p99 and maximum of the microseconds until then,
/// and the milliseconds that this process took in its own code and in the kernel; each round. Ends with its input.
pub fn run(address: &str, count: usize, rounds: usize) -> Outcome<()> {
    let mut readers = Readers::connect(address, count)?;
    for round in 0..rounds {
        // The first version is at index 1, and each change adds one.
        if round > 0 {
            readers.ask(round + 1)?;
        }
        println!("ready");
        let before = Cpu::now()?;
        let mut times_us = readers.wake_times_us()?;
        let Cpu { user_ms, sys_ms } = Cpu::now()? - before;
        times_us.sort_unstable();
        let part = |percent: usize| times_us[(times_us.len() - 1) * percent / 100];
        println!("{} {} {} {user_ms} {sys_ms}", part(50), part(99), part(100));
    }
    std::io::stdin().read_to_end(&mut Vec::new())?;
    Ok(())
}

struct Readers {
    epoll: std::os::fd::OwnedFd,
    streams: Vec<TcpStream>,
}

impl Readers {
    /// Connects each, and lets it ask at once: servers have no patience with connections on which nothing is asked.
    fn connect(address: &str, count: usize) -> Outcome<Self> {
        let epoll = epoll::create(CreateFlags::CLOEXEC)?;
        let mut streams = Vec::with_capacity(count);
        for number in 0..count {
            if number % BURST == 0 {
                std::thread::sleep(PAUSE);
            }
            let mut stream = TcpStream::connect(address)?;
            stream.set_nodelay(true)?;
            stream.write_all(request(1).as_bytes())?;
            stream.set_nonblocking(true)?;
            epoll::add(&epoll, &stream, EventData::new_u64(number as u64), EventFlags::IN)?;
            streams.push(stream);
        }
        Ok(Self { epoll, streams })
    }

    /// Asks for the version after that index, on each connection.
    fn ask(&mut self, index: usize) -> Outcome<()> {
        let request = request(index);
        Ok(self.streams.iter_mut().try_for_each(|stream| stream.write_all(request.as_bytes()))?)
    }

    /// How many microseconds after the change each of them was informed.
    fn wake_times_us(&mut self) -> Outcome<Vec<u64>> {
        let mut times_us = Vec::with_capacity(self.streams.len());
        let mut begun: HashMap<usize, Vec<u8>> = HashMap::new();
        let mut events = Vec::with_capacity(EVENTS_MAX);
        let mut piece = vec![0; ANSWER_BYTES_MAX];
        while times_us.len() < self.streams.len() {
            events.clear();
            epoll::wait(&self.epoll, spare_capacity(&mut events), None)?;
            for event in &events {
                let number = usize::try_from(event.data.u64())?;
                let bytes = self.streams[number].read(&mut piece)?;
                if bytes == 0 {
                    return Err("the server has hung up".into());
                }
                // The answer's only text with a brace at its end is its JSON, and most come in one piece.
                let before = begun.remove(&number).unwrap_or_default();
                let answer = [&before[..], &piece[..bytes]].concat();
                if answer.ends_with(b"}") {
                    times_us.push(now_ns().saturating_sub(submit_time(&answer)?) / 1000);
                } else {
                    begun.insert(number, answer);
                }
            }
        }
        Ok(times_us)
    }
}

fn request(index: usize) -> String {
    format!("GET /v1/job/{JOB}?index={index}&wait=5m HTTP/1.1\r\nHost: localhost\r\n\r\n")
}

fn now_ns() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
}

/// When the version in the answer was made.
fn submit_time(answer: &[u8]) -> Outcome<u64> {
    let key = b"\"SubmitTime\":";
    let at = answer.windows(key.len()).rposition(|window| window == key);
    let at = at.ok_or("the answer has no SubmitTime")? + key.len();
    let digits = answer[at..].iter().take_while(|byte| byte.is_ascii_digit());
    Ok(digits.fold(0, |number, digit| number * 10 + u64::from(digit - b'0')))
}
