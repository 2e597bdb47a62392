//! The readers' process: each has a connection of its own and waits for the next change of the job.

use std::{
    sync::Arc,
    time::{SystemTime, UNIX_EPOCH},
};

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    sync::{Barrier, mpsc},
};

use crate::{cluster::JOB, support::Outcome};

/// Connections that are opened at the same time, so that the server's queue does not overflow.
const OPENING_MAX: usize = 64;

/// Prints `ready` when all wait, and then p50, p99 and maximum of the microseconds until they were told; each round.
pub async fn run(address: &str, count: usize, rounds: usize) -> Outcome<()> {
    let (told, mut times) = mpsc::channel(count);
    let barrier = Arc::new(Barrier::new(count + 1));
    for chunk in (0..count).collect::<Vec<_>>().chunks(OPENING_MAX) {
        for _ in chunk {
            let stream = TcpStream::connect(address).await?;
            let (told, barrier) = (told.clone(), barrier.clone());
            tokio::spawn(async move {
                if let Err(error) = read(stream, rounds, &barrier, &told).await {
                    eprintln!("a reader failed: {error}");
                    std::process::exit(1);
                }
            });
        }
        tokio::task::yield_now().await;
    }
    for _ in 0..rounds {
        barrier.wait().await;
        println!("ready");
        let mut all = Vec::with_capacity(count);
        while all.len() < count {
            all.push(times.recv().await.ok_or("the readers ended")?);
        }
        all.sort_unstable();
        let part = |percent: usize| all[(all.len() - 1) * percent / 100];
        println!("{} {} {}", part(50), part(99), part(100));
    }
    Ok(())
}

async fn read(
    mut stream: TcpStream,
    rounds: usize,
    barrier: &Barrier,
    told: &mpsc::Sender<u64>,
) -> std::io::Result<()> {
    stream.set_nodelay(true)?;
    let mut answer = vec![0; 16 << 10];
    for round in 0..rounds {
        // The first version is at index 1, and each change adds one.
        let index = round + 1;
        let request = format!("GET /v1/job/{JOB}?index={index}&wait=5m HTTP/1.1\r\nHost: localhost\r\n\r\n");
        stream.write_all(request.as_bytes()).await?;
        barrier.wait().await;
        let made_at_ns = submit_time(&mut stream, &mut answer).await?;
        let now_ns = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos() as u64;
        let _ = told.send(now_ns.saturating_sub(made_at_ns) / 1000).await;
    }
    Ok(())
}

/// When the version in the answer was made.
async fn submit_time(stream: &mut TcpStream, answer: &mut [u8]) -> std::io::Result<u64> {
    let mut filled = 0;
    // The answer's only text with a brace at its end is its JSON, which is sent in one piece or a few.
    while filled == 0 || answer[filled - 1] != b'}' {
        let bytes = stream.read(&mut answer[filled..]).await?;
        if bytes == 0 {
            return Err(std::io::Error::other("the server has hung up"));
        }
        filled += bytes;
    }
    let key = b"\"SubmitTime\":";
    let at = answer[..filled].windows(key.len()).rposition(|window| window == key);
    let at = at.ok_or_else(|| std::io::Error::other("the answer has no SubmitTime"))? + key.len();
    let digits = answer[at..filled].iter().take_while(|byte| byte.is_ascii_digit());
    Ok(digits.fold(0, |number, digit| number * 10 + u64::from(digit - b'0')))
}
