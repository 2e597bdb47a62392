//! Fuzzing of damaged agent messages: the connection continues or is closed, and the server survives.

use berth_api::agent::{Hello, encode_frame};
use crossbeam_channel::unbounded;
use proptest::prelude::*;
use proptest::sample::Index;
use tokio::io::{duplex, split};

use super::{
    hostile::{Draw, message},
    *,
};
use crate::workload::tests::{NODE, SECRET, cluster};

const MESSAGES: usize = 60;
/// A connection that is never ended fails.
const ENDS_WITHIN: Duration = Duration::from_secs(60);

/// A hello and what an agent may say after it, as bytes.
fn conversation(seed: u64) -> BytesMut {
    let mut draw = Draw(seed);
    let hello = Hello {
        protocol_version: PROTOCOL_VERSION,
        node_id: NODE.to_bytes().to_vec(),
        secret: SECRET.to_vec(),
        ..Hello::default()
    };
    let mut bytes = BytesMut::new();
    let messages = (0..MESSAGES).map(|_| message(&mut draw));
    for messages in std::iter::once(Up::Hello(hello)).chain(messages) {
        encode_frame(&UpFrame { session: 0, message: Some(messages) }, &mut bytes);
    }
    bytes
}

async fn serve_to_its_end(message: &[u8]) {
    let engine = cluster();
    let (inputs_in, _inputs) = unbounded();
    let context = Arc::new(ListenContext::new(inputs_in).with_state(engine.state()));
    let (ours, theirs) = duplex(1 << 20);
    let served = tokio::spawn(async move {
        let (reader, writer) = split(theirs);
        serve(reader, writer, None, ([127, 0, 0, 1], 1).into(), &context).await
    });
    let (mut reader, mut writer) = split(ours);
    let received = tokio::spawn(async move { tokio::io::copy(&mut reader, &mut tokio::io::sink()).await });
    // It may be ended for what it said so far.
    let _ = writer.write_all(message).await;
    let _ = writer.shutdown().await;
    let ended = tokio::time::timeout(ENDS_WITHIN, served).await.expect("the connection is ended");
    let _ = ended.expect("it does not panic");
    received.abort();
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_damaged_conversation_ends_with_its_connection(
        seed in any::<u64>(),
        damage in prop::collection::vec((any::<Index>(), any::<u8>()), 1..12),
        cut in prop::option::weighted(0.2, any::<Index>()),
    ) {
        let mut message = conversation(seed).to_vec();
        for (at, byte) in damage {
            let at = at.index(message.len());
            message[at] = byte;
        }
        if let Some(cut) = cut {
            message.truncate(cut.index(message.len()));
        }
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        runtime.block_on(serve_to_its_end(&message));
    }
}
