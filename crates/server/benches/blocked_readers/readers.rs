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

use crate::{Outcome, cluster::JOB};

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

/// When the version in the answer was made. An answer comes in one or few pieces; this is at its end.
async fn submit_time(stream: &mut TcpStream, answer: &mut [u8]) -> std::io::Result<u64> {
    let mut filled = 0;
    loop {
        let bytes = stream.read(&mut answer[filled..]).await?;
        if bytes == 0 {
            return Err(std::io::Error::other(String::from_utf8_lossy(&answer[..filled]).into_owned()));
        }
        filled += bytes;
        let text = String::from_utf8_lossy(&answer[..filled]);
        let is_whole = text.ends_with('}');
        let digits = text
            .split("\"SubmitTime\":")
            .nth(1)
            .map(|rest| rest.split([',', '}']).next().unwrap_or_default());
        if let (true, Some(digits)) = (is_whole, digits) {
            return digits.parse().map_err(std::io::Error::other);
        }
    }
}
