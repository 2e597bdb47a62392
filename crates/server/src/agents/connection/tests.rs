//! The limits of one connection: sessions, descriptions of nodes, reports.

use berth_api::agent::{
    AllocStatus, DownFrame, FRAME_BYTES_MAX, HELLO_BYTES_MAX, Hello, NodeSpec, TASK_API_CONNECTIONS_MAX,
    TaskApiOpen, TaskApiPart, decode_frame, encode_frame,
};
use bytes::Bytes;
use crossbeam_channel::{Receiver, unbounded};
use tokio::{
    io::{AsyncReadExt, DuplexStream, ReadHalf, WriteHalf, duplex, split},
    sync::mpsc,
    task::JoinHandle,
};

use super::*;
use crate::workload::tests::{ALLOC, NODE, SECRET, cluster};

/// The agent's end of a connection, and what the controller is sent.
struct Agent {
    reader: ReadHalf<DuplexStream>,
    writer: WriteHalf<DuplexStream>,
    read: BytesMut,
    inputs: Receiver<EngineInput>,
    served: JoinHandle<io::Result<()>>,
}

impl Agent {
    fn connect() -> Self {
        Self::connect_to(|context| context)
    }

    fn connect_to(with: impl FnOnce(ListenContext) -> ListenContext) -> Self {
        let (inputs_in, inputs) = unbounded();
        let context = Arc::new(with(ListenContext::new(inputs_in)));
        let (ours, theirs) = duplex(64 << 10);
        let served = tokio::spawn(async move {
            let (reader, writer) = split(theirs);
            serve(reader, writer, None, ([127, 0, 0, 1], 1).into(), &context).await
        });
        let (reader, writer) = split(ours);
        Self { reader, writer, read: BytesMut::new(), inputs, served }
    }

    async fn say(&mut self, session: u32, message: Up) {
        let mut frame = BytesMut::new();
        encode_frame(&UpFrame { session, message: Some(message) }, &mut frame);
        // It may have been ended for what it said so far.
        let _ = self.writer.write_all(&frame).await;
    }

    /// Why a session was refused.
    async fn refused(&mut self) -> (u32, String) {
        loop {
            let frame = decode_frame(&mut self.read, FRAME_BYTES_MAX).expect("the server keeps the protocol");
            match frame {
                Some(DownFrame { session, message: Some(Down::Refused(refused)) }) => {
                    return (session, refused.reason);
                }
                Some(other) => panic!("{other:?}"),
                None => assert_ne!(self.reader.read_buf(&mut self.read).await.expect("it is open"), 0),
            }
        }
    }

    /// What the controller is sent next.
    async fn next_input(&self) -> EngineInput {
        loop {
            match self.inputs.try_recv() {
                Ok(input) => return input,
                Err(_) => tokio::task::yield_now().await,
            }
        }
    }

    async fn opened(&self) -> NodeId {
        match self.next_input().await {
            EngineInput::Open { hello, .. } => hello.node_id(),
            _ => panic!("no session was opened"),
        }
    }

    /// Why the server ended the connection.
    async fn ended(self) -> String {
        let ended = self.served.await.expect("it does not panic");
        ended.expect_err("the connection was ended").to_string()
    }
}

/// A hello of so many bytes; of as few as can be where that is less.
fn hello(bytes: usize) -> Hello {
    let mut hello = Hello {
        protocol_version: PROTOCOL_VERSION,
        node_id: 7_u128.to_be_bytes().to_vec(),
        secret: vec![1; 32],
        node: NodeSpec::default(),
        ..Hello::default()
    };
    hello.node.meta.insert("text".to_owned(), "x".repeat(bytes));
    let excess = hello.encoded_len().saturating_sub(bytes).min(bytes);
    hello.node.meta.insert("text".to_owned(), "x".repeat(bytes - excess));
    hello
}

#[tokio::test]
async fn a_connection_carries_so_many_sessions_and_no_more() {
    let mut agent = Agent::connect();
    for number in 0..SESSIONS_MAX as u32 {
        agent.say(number, Up::Hello(hello(0))).await;
        agent.opened().await;
    }
    agent.say(SESSIONS_MAX as u32, Up::Hello(hello(0))).await;
    let refused = (SESSIONS_MAX as u32, "65536 sessions are open on this connection".to_owned());
    assert_eq!(agent.refused().await, refused);

    agent.say(5, Up::Hello(hello(0))).await;
    assert!(
        matches!(agent.next_input().await, EngineInput::Event(Event::SessionClosed(_), _)),
        "one begins again"
    );
    assert_eq!(agent.opened().await, NodeId(7));
}

#[tokio::test]
async fn a_later_hello_is_no_larger_than_the_first_may_be() {
    let mut agent = Agent::connect();
    agent.say(1, Up::Hello(hello(HELLO_BYTES_MAX / 2))).await;
    agent.opened().await;

    // Frames may be larger now; descriptions of nodes may not.
    let most = hello(HELLO_BYTES_MAX);
    assert_eq!(most.encoded_len(), HELLO_BYTES_MAX);
    agent.say(2, Up::Hello(most)).await;
    assert_eq!(agent.opened().await, NodeId(7));

    let more = hello(HELLO_BYTES_MAX + 1);
    let bytes = more.encoded_len();
    assert_eq!(bytes, HELLO_BYTES_MAX + 1);
    agent.say(3, Up::Hello(more)).await;
    let (session, reason) = agent.refused().await;
    let expected = format!(
        "the node is described in {bytes} bytes; it may have {HELLO_BYTES_MAX}: give it less metadata"
    );
    assert_eq!((session, reason), (3, expected));

    agent.say(2, Up::Heartbeat(Heartbeat::default())).await;
    assert!(
        matches!(agent.next_input().await, EngineInput::Event(Event::Heartbeat(..), _)),
        "the others go on"
    );
}

fn update(allocs: usize) -> Update {
    let status = AllocStatus { alloc_id: 9_u128.to_be_bytes().to_vec(), ..AllocStatus::default() };
    let allocs = vec![Bytes::from(status.encode_to_vec()); allocs];
    Update { seq: 1, allocs, ..Update::default() }
}

#[tokio::test]
async fn a_report_of_too_many_allocations_is_refused() {
    let mut agent = Agent::connect();
    agent.say(1, Up::Hello(hello(0))).await;
    agent.opened().await;
    agent.say(1, Up::Update(update(UPDATE_ALLOCS_MAX))).await;
    match agent.next_input().await {
        EngineInput::Event(Event::Observed { allocs, .. }, _) => assert_eq!(allocs.len(), UPDATE_ALLOCS_MAX),
        _ => panic!("nothing was observed"),
    }
    agent.say(1, Up::Update(update(UPDATE_ALLOCS_MAX + 1))).await;
    assert_eq!(agent.ended().await, "an update of 4097 allocations is over the limit of 4096");
}

/// A task connects, by that number.
fn task_connects(connection: u64) -> Up {
    let (secret, alloc_id) = (SECRET.to_vec(), ALLOC.to_bytes().to_vec());
    let open = TaskApiOpen { secret, alloc_id, task: "server".to_owned() };
    Up::TaskApi(TaskApi { connection, part: Some(TaskApiPart::Open(open)) })
}

impl Agent {
    /// What the task is answered whose connection is not carried.
    async fn answered(&mut self, number: u64) -> String {
        let mut answer = String::new();
        loop {
            let frame = decode_frame(&mut self.read, FRAME_BYTES_MAX).expect("the server keeps the protocol");
            let Some(DownFrame { message, .. }) = frame else {
                assert_ne!(self.reader.read_buf(&mut self.read).await.expect("it is open"), 0);
                continue;
            };
            match message {
                Some(Down::TaskApi(TaskApi { connection, part })) if connection == number => match part {
                    Some(TaskApiPart::Data(data)) => answer += &String::from_utf8_lossy(&data.data),
                    Some(TaskApiPart::Close(_)) => return answer,
                    other => panic!("{other:?}"),
                },
                other => panic!("{other:?}"),
            }
        }
    }
}

#[tokio::test]
async fn a_task_whose_connection_is_not_carried_is_answered_why() {
    let of_node = Hello { node_id: NODE.to_bytes().to_vec(), secret: SECRET.to_vec(), ..hello(0) };
    let mut starting = Agent::connect();
    starting.say(1, Up::Hello(of_node.clone())).await;
    starting.say(1, task_connects(1)).await;
    let answer = starting.answered(1).await;
    assert!(
        answer.starts_with("HTTP/1.1 503 ") && answer.ends_with("starts or stops; try again"),
        "{answer}"
    );

    let (engine, (sender, mut of_tasks)) = (cluster(), mpsc::channel(1_000));
    let mut agent =
        Agent::connect_to(|context| context.with_state(engine.state()).with_task_api_sender(sender));
    agent.say(1, Up::Hello(of_node)).await;
    for connection in 0..TASK_API_CONNECTIONS_MAX as u64 {
        agent.say(1, task_connects(connection)).await;
    }
    // They last as long as somebody serves them.
    let mut served = Vec::new();
    while served.len() < TASK_API_CONNECTIONS_MAX {
        served.push(of_tasks.recv().await.expect("it is carried"));
    }
    agent.say(1, task_connects(1_000)).await;
    let answer = agent.answered(1_000).await;
    assert!(answer.starts_with("HTTP/1.1 429 ") && answer.contains("retry-after: 1"), "{answer}");
    assert!(
        answer.ends_with("the tasks of this node have too many connections to the API: try again"),
        "{answer}"
    );
    // Who says a number again that he has said is answered nothing that the task with that number would read.
    agent.say(1, task_connects(7)).await;
    assert_eq!(agent.answered(7).await, "");
}
