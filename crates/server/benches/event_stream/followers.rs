//! The process of the followers: each reads the whole stream, and looks only for the ends of lines.

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    sync::mpsc,
};

use crate::support::Outcome;

/// Prints `ready` when all follow, and then how many bytes came to all of them with so many lines each, again and again.
pub async fn run(address: &str, count: usize, lines: usize) -> Outcome<()> {
    let (sender, mut rounds) = mpsc::channel(count);
    for _ in 0..count {
        let mut stream = TcpStream::connect(address).await?;
        stream.write_all(b"GET /v1/event/stream?recent=false HTTP/1.1\r\nHost: localhost\r\n\r\n").await?;
        // A heartbeat comes at once: from then on nothing is missed.
        let mut begun = Vec::new();
        while !begun.ends_with(b"{}\n\r\n") {
            begun.push(stream.read_u8().await?);
        }
        tokio::spawn(follow(stream, lines, sender.clone()));
    }
    println!("ready");
    loop {
        let mut bytes = 0;
        for _ in 0..count {
            bytes += rounds.recv().await.ok_or("the followers ended")?;
        }
        println!("{bytes}");
    }
}

/// Tells the bytes of each so many lines.
async fn follow(mut stream: TcpStream, lines: usize, sender: mpsc::Sender<usize>) {
    let mut buffer = vec![0; 256 << 10];
    let (mut bytes, mut ends) = (0, 0);
    while let Ok(filled @ 1..) = stream.read(&mut buffer).await {
        bytes += filled;
        // Pieces of a body end with a line, but for the one in which the transport marks its length.
        ends += buffer[..filled].windows(2).filter(|pair| pair == b"}\n").count();
        if ends == lines {
            let _ = sender.send(bytes).await;
            (bytes, ends) = (0, 0);
        }
    }
}
