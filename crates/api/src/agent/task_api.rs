//! The HTTP API for tasks. A task connects to a socket in its directory of secrets; its agent carries the connection's bytes, both
//! ways, on the session that it has, and the server at the other end serves HTTP on them. Each direction has a window: whoever
//! sends, sends no more bytes than were allowed, so that a fast writer and a slow reader hold a bounded number between them.

use std::io;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, split};
use tokio::sync::{Notify, Semaphore};
use tokio::time::{Instant, sleep, sleep_until};

use super::Inbox;
use crate::secrets::debug_shows;

/// The bytes of one direction that may be on their way.
pub const TASK_API_WINDOW_BYTES: usize = 64 << 10;
/// The most that one message carries, in bytes.
pub const TASK_API_PIECE_BYTES_MAX: usize = 16 << 10;
/// Connections of the tasks of one agent at a time.
pub const TASK_API_CONNECTIONS_MAX: usize = 256;
/// A connection on which nothing has moved for so long ends: longer than any reader may block.
pub const TASK_API_IDLE_MAX: Duration = Duration::from_secs(900);
/// How long what has come may take to be handed on once the other side has ended a connection.
const LINGER_MAX: Duration = if cfg!(test) { Duration::from_millis(50) } else { Duration::from_secs(10) };

/// About one connection of a task.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct TaskApi {
    /// Chosen by the agent; unique among the session's connections.
    #[prost(uint64, tag = "1")]
    pub connection: u64,
    /// The message.
    #[prost(oneof = "TaskApiPart", tags = "2, 3, 4, 5")]
    pub part: Option<TaskApiPart>,
}

/// A message about a connection.
#[derive(Clone, PartialEq, Eq, prost::Oneof)]
pub enum TaskApiPart {
    /// A task has connected. Only agents say so.
    #[prost(message, tag = "2")]
    Open(TaskApiOpen),
    /// What was sent on it.
    #[prost(message, tag = "3")]
    Data(TaskApiData),
    /// So many bytes more may be sent.
    #[prost(uint64, tag = "4")]
    Credit(u64),
    /// Nothing follows, in either direction.
    #[prost(message, tag = "5")]
    Close(TaskApiClose),
}

/// A task has connected.
#[derive(Clone, PartialEq, Eq, prost::Message)]
#[prost(skip_debug)]
pub struct TaskApiOpen {
    /// That of the node: a session says who it is before it has proved that.
    #[prost(bytes = "vec", tag = "1")]
    pub secret: Vec<u8>,
    /// 16 bytes.
    #[prost(bytes = "vec", tag = "2")]
    pub alloc_id: Vec<u8>,
    /// The task's name.
    #[prost(string, tag = "3")]
    pub task: String,
}

debug_shows!(TaskApiOpen { alloc_id, task });

/// What was sent on a connection, in which tokens stand.
#[derive(Clone, PartialEq, Eq, prost::Message)]
#[prost(skip_debug)]
pub struct TaskApiData {
    /// The bytes.
    #[prost(bytes = "bytes", tag = "1")]
    pub data: Bytes,
}

/// Without what is secret.
impl std::fmt::Debug for TaskApiData {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TaskApiData").field("bytes", &self.data.len()).finish()
    }
}

/// A connection is over.
#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub struct TaskApiClose {}

/// The answer to a connection that is not carried, in HTTP and before anything was asked; `status` is 429 or 503.
pub fn task_api_refusal(status: u16, text: &str) -> String {
    let reason = if status == 429 { "Too Many Requests" } else { "Service Unavailable" };
    format!(
        "HTTP/1.1 {status} {reason}\r\ncontent-type: text/plain; charset=utf-8\r\ncontent-length: {}\r\nconnection: close\r\n\
         retry-after: 1\r\n\r\n{text}",
        text.len()
    )
}

/// One side's end of a connection that is carried.
#[derive(Debug)]
pub struct TaskApiEnd {
    came: Mutex<ReceivedBytes>,
    comes: Notify,
    closed: Notify,
    /// Bytes that may be sent.
    credit: Semaphore,
    /// Bytes that were sent, and for which nothing was allowed yet.
    sent: AtomicUsize,
}

#[derive(Debug)]
struct ReceivedBytes {
    inbox: Inbox,
    closed: bool,
}

impl Default for TaskApiEnd {
    fn default() -> Self {
        let inbox = Inbox::new(TASK_API_WINDOW_BYTES);
        Self {
            came: Mutex::new(ReceivedBytes { inbox, closed: false }),
            comes: Notify::new(),
            closed: Notify::new(),
            credit: Semaphore::new(TASK_API_WINDOW_BYTES),
            sent: AtomicUsize::new(0),
        }
    }
}

impl TaskApiEnd {
    /// The other side says something. What breaks the rules ends the connection.
    pub fn on_part(&self, part: TaskApiPart) {
        match part {
            TaskApiPart::Open(_) => {}
            TaskApiPart::Data(TaskApiData { data }) => {
                let overrun = self.came().inbox.push(&data).is_err();
                if overrun {
                    return self.close();
                }
                self.comes.notify_one();
            }
            TaskApiPart::Credit(bytes) => {
                let bytes = usize::try_from(bytes).unwrap_or(usize::MAX);
                let less = |sent: usize| sent.checked_sub(bytes);
                match self.sent.fetch_update(Ordering::Relaxed, Ordering::Relaxed, less) {
                    Ok(_) => self.credit.add_permits(bytes),
                    Err(_) => self.close(),
                }
            }
            TaskApiPart::Close(_) => self.close(),
        }
    }

    /// Nothing follows: what has come is still handed on.
    pub fn close(&self) {
        self.came().closed = true;
        self.comes.notify_one();
        self.closed.notify_one();
    }

    /// Carries the bytes of a stream until either side ends it, or nothing has moved for `idle_max`. `send` sends the other side
    /// something, and says whether that was possible. The caller reports the end.
    pub async fn carry<T, F>(
        &self,
        stream: impl AsyncRead + AsyncWrite,
        idle_max: Duration,
        send: T,
    ) -> io::Result<()>
    where
        T: Fn(TaskApiPart) -> F,
        F: Future<Output = bool>,
    {
        let (mut reader, mut writer) = split(stream);
        let moved = Mutex::new(Instant::now());
        let moves = || *moved.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now();
        let gone = || io::Error::from(io::ErrorKind::BrokenPipe);
        let outward = async {
            let mut buffer = vec![0; TASK_API_PIECE_BYTES_MAX];
            loop {
                let allowed = self.allowed().await;
                let read = reader.read(&mut buffer[..allowed]).await?;
                self.credit.add_permits(allowed - read);
                self.sent.fetch_add(read, Ordering::Relaxed);
                if read == 0 {
                    return Ok(());
                }
                moves();
                let data = Bytes::copy_from_slice(&buffer[..read]);
                if !send(TaskApiPart::Data(TaskApiData { data })).await {
                    return Err(gone());
                }
            }
        };
        let inward = async {
            while let Some(piece) = self.next().await {
                writer.write_all(&piece).await?;
                moves();
                self.came().inbox.allow(piece.len());
                if !send(TaskApiPart::Credit(piece.len() as u64)).await {
                    return Err(gone());
                }
            }
            writer.shutdown().await
        };
        let idle = async {
            loop {
                let ends = *moved.lock().unwrap_or_else(PoisonError::into_inner) + idle_max;
                if ends <= Instant::now() {
                    return;
                }
                sleep_until(ends).await;
            }
        };
        // Whoever has ended it does not wait for one who reads nothing.
        let closed = async {
            self.closed.notified().await;
            sleep(LINGER_MAX).await;
        };
        tokio::select! {
            ended = outward => ended,
            ended = inward => ended,
            () = closed => Err(gone()),
            () = idle => Err(io::ErrorKind::TimedOut.into()),
        }
    }

    /// Waits until some bytes may be sent, and takes as many as one message holds.
    async fn allowed(&self) -> usize {
        let one = self.credit.acquire().await.expect("nobody closes it");
        one.forget();
        let more = self.credit.available_permits().min(TASK_API_PIECE_BYTES_MAX - 1);
        let more = u32::try_from(more).ok().and_then(|more| self.credit.try_acquire_many(more).ok());
        1 + more.map_or(0, |more| {
            let bytes = more.num_permits();
            more.forget();
            bytes
        })
    }

    /// What has come; none once nothing follows.
    async fn next(&self) -> Option<Bytes> {
        loop {
            {
                let mut came = self.came();
                if let Some(piece) = came.inbox.take(TASK_API_PIECE_BYTES_MAX) {
                    return Some(piece);
                }
                if came.closed {
                    return None;
                }
            }
            self.comes.notified().await;
        }
    }

    fn came(&self) -> MutexGuard<'_, ReceivedBytes> {
        self.came.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use tokio::io::duplex;
    use tokio::sync::mpsc;

    use super::*;

    /// Two ends that hear each other, and the streams that they carry.
    fn pair(idle_max: Duration) -> [(tokio::io::DuplexStream, tokio::task::JoinHandle<io::Result<()>>); 2] {
        let ends = [0, 1].map(|_| Arc::new(TaskApiEnd::default()));
        [0, 1].map(|own| {
            let (end, other) = (ends[own].clone(), ends[1 - own].clone());
            let (ours, theirs) = duplex(1 << 10);
            let carried = tokio::spawn(async move {
                let response = other.clone();
                let carried = end
                    .carry(theirs, idle_max, move |part| {
                        response.on_part(part);
                        std::future::ready(true)
                    })
                    .await;
                other.close();
                carried
            });
            (ours, carried)
        })
    }

    #[tokio::test]
    async fn bytes_come_as_they_were_sent_however_slowly_they_are_read() {
        let [(mut one, _), (mut other, carried)] = pair(TASK_API_IDLE_MAX);
        let sent: Vec<u8> = (0..500_000_u32).map(|n| (n % 251) as u8).collect();
        let expected = sent.clone();
        let writing = tokio::spawn(async move {
            one.write_all(&sent).await.expect("it is read");
            let mut answer = [0; 2];
            one.read_exact(&mut answer).await.expect("it comes");
            answer
        });
        let mut came = vec![0; expected.len()];
        other.read_exact(&mut came).await.expect("it comes");
        assert_eq!(came, expected);
        other.write_all(b"ok").await.expect("it is read");
        assert_eq!(&writing.await.expect("it ends"), b"ok");
        carried.await.expect("it ends").expect("it ends well");
    }

    #[tokio::test]
    async fn who_sends_more_than_is_allowed_or_allows_too_much_is_cut_off() {
        for wrong in [
            TaskApiPart::Data(TaskApiData { data: vec![0; TASK_API_WINDOW_BYTES + 1].into() }),
            TaskApiPart::Credit(1),
            TaskApiPart::Credit(u64::MAX),
        ] {
            let end = TaskApiEnd::default();
            end.on_part(wrong);
            assert!(end.came().closed);
            assert_eq!(end.next().await, None);
        }
    }

    #[tokio::test]
    async fn no_more_is_allowed_than_was_sent_also_while_something_is_read() {
        let end = TaskApiEnd::default();
        let (_ours, theirs) = duplex(1 << 10);
        let carrying = end.carry(theirs, TASK_API_IDLE_MAX, |_| std::future::ready(true));
        tokio::select! {
            biased;
            _ = carrying => panic!("it goes on"),
            () = tokio::task::yield_now() => {}
        }
        assert!(end.credit.available_permits() < TASK_API_WINDOW_BYTES, "some are taken for what is read");
        end.on_part(TaskApiPart::Credit(1));
        assert!(end.came().closed);
    }

    #[tokio::test]
    async fn nothing_is_sent_beyond_the_window() {
        let end = TaskApiEnd::default();
        let (mut ours, theirs) = duplex(1 << 20);
        ours.write_all(&vec![0; 2 * TASK_API_WINDOW_BYTES]).await.expect("there is room");
        let (response, mut tells) = mpsc::unbounded_channel();
        let carrying = end.carry(theirs, TASK_API_IDLE_MAX, |part| {
            let _ = response.send(part);
            std::future::ready(true)
        });
        tokio::select! {
            biased;
            _ = carrying => panic!("it goes on"),
            () = tokio::task::yield_now() => {}
        }
        let mut bytes = 0;
        while let Ok(TaskApiPart::Data(TaskApiData { data })) = tells.try_recv() {
            assert!(data.len() <= TASK_API_PIECE_BYTES_MAX);
            bytes += data.len();
        }
        assert!(bytes <= TASK_API_WINDOW_BYTES);
    }

    #[tokio::test]
    async fn one_that_was_ended_ends_also_where_nobody_reads() {
        let [(mut one, sending), (_other, carried)] = pair(TASK_API_IDLE_MAX);
        let writing = tokio::spawn(async move { one.write_all(&vec![0; 10 << 10]).await });
        writing.await.expect("it ends").expect("there is room");
        sending.await.expect("it ends").expect("the writer has left");
        carried.await.expect("it ends").expect_err("nobody reads");
    }

    #[tokio::test]
    async fn who_says_nothing_for_long_is_cut_off() {
        let [(_one, carried), (_other, other)] = pair(Duration::from_millis(20));
        // Whichever is the first ends the other.
        let ended = [carried.await.expect("it ends"), other.await.expect("it ends")];
        let timed_out = |ended: &io::Result<()>| {
            ended.as_ref().is_err_and(|error| error.kind() == io::ErrorKind::TimedOut)
        };
        assert!(ended.iter().any(timed_out), "{ended:?}");
    }
}
