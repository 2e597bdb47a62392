//! Tests a hostile agent that has a valid certificate of its own and sends messages about another node, over TLS.

use std::path::PathBuf;

use berth_api::agent::{
    AgentResponse, DownFrame, ExecUp, FRAME_BYTES_MAX, FileChunk, Hello, Leaving, TaskApiData, TaskApiOpen,
    TaskApiPart, VariableQuery, WatchVariables, decode_frame, encode_frame,
};
use berth_model::job::IDENTITIES_MAX;
use berth_tls::{
    Acceptor, Authority, CertificateRequest, Connector, ExpectedPeer, PortKind, RevokedServers, Role,
    TlsCredentials, TlsFiles, Validity, now_secs, write_new,
};
use bytes::Bytes;
use crossbeam_channel::unbounded;
use tokio::{
    io::{AsyncReadExt, split},
    net::{TcpListener, TcpStream},
    sync::mpsc,
};

use super::*;
use crate::workload::tests::{ALLOC, NODE, SECRET, cluster, put};

const MESSAGES: usize = 10_000;
const REGION: &str = "global";
/// That of the node for which the certificate speaks, and its secret.
const OWN: NodeId = NodeId(8);
const OWN_SECRET: &[u8] = b"another secret..";

/// What a certificate for a role needs on disk.
fn held(authority: &Authority, dir: &std::path::Path, name: &str, role: Role) -> TlsCredentials {
    let validity = Validity { not_before: now_secs() - 60, not_after: now_secs() + 3_600 };
    let request = CertificateRequest { role, region: REGION.into(), hosts: Vec::new(), validity };
    let certified = authority.certify(&request).expect("it is signed");
    let path = |name: String| -> PathBuf { dir.join(name) };
    let files = TlsFiles {
        ca: path("ca.pem".into()),
        cert: path(format!("{name}.pem")),
        key: path(format!("{name}-key.pem")),
    };
    write_new(&files.cert, &certified.certificate).expect("it is written");
    write_new(&files.key, &certified.key).expect("it is written");
    TlsCredentials::load(&files).expect("it is good")
}

/// Numbers that are the same in each run (splitmix64).
pub(super) struct Draw(pub u64);

impl Draw {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    fn below(&mut self, end: usize) -> usize {
        (self.next() % end as u64) as usize
    }

    fn one_of<T: Clone>(&mut self, all: &[T]) -> T {
        all[self.below(all.len())].clone()
    }
}

/// One message about another's node, its allocation or nothing at all.
pub(super) fn message(draw: &mut Draw) -> Up {
    let noise = [draw.next().to_le_bytes(), draw.next().to_le_bytes()].concat();
    let secret = draw.one_of(&[OWN_SECRET.to_vec(), noise.clone(), Vec::new(), SECRET[..15].to_vec()]);
    let of_other = ALLOC.to_bytes().to_vec();
    let alloc_id = draw.one_of(&[of_other.clone(), of_other, noise.clone(), vec![9]]);
    let task = draw.one_of(&["server", "plain", "greedy", "", "../server"]).to_owned();
    let request = draw.next() % 8;
    match draw.below(14) {
        0 => Up::Hello(Hello {
            protocol_version: PROTOCOL_VERSION,
            node_id: NODE.to_bytes().to_vec(),
            secret,
            ..Hello::default()
        }),
        1 => {
            let identities = vec!["default".to_owned(); draw.below(IDENTITIES_MAX + 2)];
            Up::Sign(SignTokens { request, secret, alloc_id, task, identities })
        }
        2 => Up::Secrets(ReadSecrets { request, secret, alloc_id, task }),
        3 => {
            let open = TaskApiOpen { secret, alloc_id, task };
            Up::TaskApi(TaskApi { connection: request, part: Some(TaskApiPart::Open(open)) })
        }
        4 => {
            let data = TaskApiData { data: noise.into() };
            Up::TaskApi(TaskApi { connection: request, part: Some(TaskApiPart::Data(data)) })
        }
        5 => {
            let part = Some(TaskApiPart::Credit(draw.next()));
            Up::TaskApi(TaskApi { connection: request, part })
        }
        6 => Up::Leaving(Leaving { secret: noise, deadline_ms: 1, force: true, ignore_system: false }),
        7 => {
            let status = AllocStatus { alloc_id: ALLOC.to_bytes().to_vec(), ..AllocStatus::default() };
            let allocs = vec![Bytes::from(status.encode_to_vec())];
            Up::Update(Update { seq: draw.next(), allocs, ..Update::default() })
        }
        8 => Up::Heartbeat(Heartbeat::default()),
        9 => Up::Answer(AgentResponse { request, outcome: None }),
        10 => Up::Exec(ExecUp { request, ..ExecUp::default() }),
        12 => {
            let path = draw.one_of(&["nomad/jobs/web", "nomad/jobs/other", ""]).to_owned();
            let queries =
                vec![VariableQuery { path, is_list: draw.below(2) == 0, ..VariableQuery::default() }];
            Up::Watch(WatchVariables {
                request,
                secret,
                alloc_id,
                task,
                queries,
                ..WatchVariables::default()
            })
        }
        11 => Up::Renewed(Renewed { chain: vec![noise; draw.below(10)] }),
        _ => Up::FileChunk(FileChunk { request, data: noise.into(), ..FileChunk::default() }),
    }
}

#[tokio::test]
async fn an_agent_gets_nothing_of_another_node_however_often_it_asks() {
    let dir = tempfile::tempdir().expect("a directory");
    let validity = Validity { not_before: now_secs() - 60, not_after: now_secs() + 3_600 };
    let (authority, _) = Authority::make(REGION, validity).expect("it is made");
    write_new(&dir.path().join("ca.pem"), &authority.pem()).expect("it is written");
    let server = held(&authority, dir.path(), "server", Role::Server(None));
    let agent = held(&authority, dir.path(), "agent", Role::Agent(Some(OWN.to_string())));
    let revoked = RevokedServers::default();
    let acceptor = Acceptor::new(&server, REGION, &revoked).expect("it is made");
    let connector =
        Connector::new(&agent, ExpectedPeer::Server(REGION.into()), &revoked).expect("it is made");

    let engine = cluster();
    put(&engine, "nomad/jobs/web/app/plain", "mine");
    put(&engine, "nomad/jobs/other", "theirs");
    let (inputs_in, inputs) = unbounded();
    let (sender, mut of_tasks) = mpsc::channel(16);
    let context = ListenContext::new(inputs_in).with_state(engine.state()).with_task_api_sender(sender);
    let context = Arc::new(context);
    let before = engine.state().view().store.index();

    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port is free");
    let address = listener.local_addr().expect("it listens");
    let served = tokio::spawn(async move {
        let (stream, peer) = listener.accept().await.expect("somebody comes");
        let accepted = acceptor.accept(PortKind::Agents, stream).await.map_err(|refused| refused.error)?;
        let (reader, writer) = split(accepted.stream);
        assert!(accepted.peer.is_some(), "it has shown who it is");
        serve(reader, writer, accepted.peer, peer, &context).await
    });
    let stream = TcpStream::connect(address).await.expect("connected");
    let stream = connector.connect(stream, &address.to_string()).await.expect("it is taken in");
    let (mut reader, mut writer) = split(stream);

    let saying = tokio::spawn(async move {
        let mut draw = Draw(14);
        let own = Hello {
            protocol_version: PROTOCOL_VERSION,
            node_id: OWN.to_bytes().to_vec(),
            secret: OWN_SECRET.to_vec(),
            ..Hello::default()
        };
        let first = (0, Up::Hello(own));
        let others = (0..MESSAGES).map(|_| {
            let session = draw.below(3) as u32;
            // Its own session stays.
            match message(&mut draw) {
                Up::Hello(hello) => (1 + session, Up::Hello(hello)),
                text => (session, text),
            }
        });
        for (session, text) in std::iter::once(first).chain(others) {
            let mut frame = BytesMut::new();
            encode_frame(&UpFrame { session, message: Some(text) }, &mut frame);
            writer.write_all(&frame).await.expect("it is read");
        }
        writer.flush().await.expect("it is read");
        // Whoever asks for what is his own is answered to the end.
        let last = ReadSecrets { request: 77, secret: OWN_SECRET.to_vec(), ..ReadSecrets::default() };
        let mut frame = BytesMut::new();
        encode_frame(&UpFrame { session: 0, message: Some(Up::Secrets(last)) }, &mut frame);
        writer.write_all(&frame).await.expect("it is read");
        writer.flush().await.expect("it is read");
        writer
    });

    let (mut read, mut received) = (BytesMut::new(), [0_usize; 5]);
    'hears: loop {
        while let Some(frame) =
            decode_frame::<DownFrame>(&mut read, FRAME_BYTES_MAX).expect("the server keeps the protocol")
        {
            match frame.message.expect("it is known") {
                Down::Refused(refused) => {
                    let why = refused.reason;
                    let known = ["does not speak for node", "secret is shorter"];
                    assert!(known.iter().any(|known| why.contains(known)), "{why}");
                    received[0] += 1;
                }
                Down::Signed(signed) => {
                    assert!(signed.tokens.is_empty() && !signed.refused.is_empty(), "{signed:?}");
                    received[1] += 1;
                }
                Down::Secrets(response) => {
                    assert!(response.secrets.is_empty() && !response.refused.is_empty());
                    if response.request == 77 {
                        break 'hears;
                    }
                    received[2] += 1;
                }
                Down::Watched(response) => {
                    assert!(response.found.is_empty() && !response.refused.is_empty());
                    received[4] += 1;
                }
                Down::TaskApi(TaskApi { part: Some(TaskApiPart::Close(_)), .. }) => received[3] += 1,
                Down::TaskApi(TaskApi { part: Some(TaskApiPart::Data(TaskApiData { data })), .. }) => {
                    assert!(data.starts_with(b"HTTP/1.1 503 "), "{data:?}");
                }
                other => panic!("it is told {other:?}"),
            }
        }
        assert_ne!(reader.read_buf(&mut read).await.expect("it goes on"), 0, "the connection goes on");
    }
    assert!(received.iter().all(|count| *count > 100), "{received:?}");
    drop(saying.await.expect("it says all"));
    assert!(of_tasks.try_recv().is_err(), "nothing of another's tasks comes in");
    assert_eq!(engine.state().view().store.index(), before, "nothing has changed");
    drop(reader);
    let _ = served.await.expect("it does not panic");
    for input in inputs.try_iter() {
        if let EngineInput::Open { hello, .. } = input {
            assert_eq!(hello.node_id(), OWN, "no session is another's");
        }
    }
}
