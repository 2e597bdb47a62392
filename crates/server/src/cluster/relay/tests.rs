//! A relay among servers that are slow, dead, replaced or not members.

use std::{collections::BTreeSet, time::Duration};

use berth_controller::{DownFrame, UpFrame, UpMessage};
use berth_model::{Index, NodeId};
use tokio::sync::Notify;

use super::*;

const SLOW: ServerId = ServerId(2);
const OTHER: ServerId = ServerId(3);

/// A cluster as a test wants it.
#[derive(Default)]
struct Fake {
    members: Mutex<BTreeSet<ServerId>>,
    /// Servers whose connections take nothing.
    stuck: Mutex<BTreeSet<ServerId>>,
    /// Servers that are not reached.
    dead: Mutex<BTreeSet<ServerId>>,
    changed: Notify,
    /// What was sent, to whom, by number.
    sent: Mutex<Vec<(ServerId, u64)>>,
    /// What the controller was told, and has not dealt with.
    delivered: Mutex<Vec<(ServerId, OwnedSemaphorePermit)>>,
    /// How often the controller was told that there is room again.
    roomy: AtomicUsize,
}

impl Fake {
    fn start() -> (Arc<Relay>, Arc<Self>) {
        let fake = Arc::new(Self::default());
        fake.members.lock().unwrap().extend([SLOW, OTHER]);
        let relay = Relay::new();
        relay.begin(fake.clone());
        (relay, fake)
    }

    /// Puts a server among these, or takes it out.
    fn set(&self, servers: &Mutex<BTreeSet<ServerId>>, server: ServerId, is_in: bool) {
        let mut servers = servers.lock().unwrap();
        if is_in {
            servers.insert(server)
        } else {
            servers.remove(&server)
        };
        self.changed.notify_waiters();
    }

    fn sent_to(&self, server: ServerId) -> Vec<u64> {
        let sent = self.sent.lock().unwrap();
        sent.iter().filter(|(to, _)| *to == server).map(|(_, number)| *number).collect()
    }

    /// Waits until it is so: large messages are encoded on threads of their own, which take as long as they take.
    async fn until(&self, is_so: impl Fn() -> bool) {
        for _ in 0..60_000 {
            if is_so() {
                return;
            }
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        panic!("it never comes to that");
    }

    /// Lets all that can be sent go; the tests' runtime has one thread, and nothing here waits for anything but a change.
    async fn settle(&self) {
        for _ in 0..10_000 {
            tokio::task::yield_now().await;
        }
    }
}

impl PeerTransport for Fake {
    fn address(&self, server: ServerId) -> Option<PeerAddress> {
        let members = self.members.lock().unwrap();
        members.contains(&server).then(|| PeerAddress(format!("127.0.0.{}:1", server.0)))
    }

    fn send<'a>(
        &'a self,
        server: ServerId,
        address: &'a PeerAddress,
        message: &'a [u8],
    ) -> BoxFuture<'a, Result<(), RequestError>> {
        assert_eq!(address.0, format!("127.0.0.{}:1", server.0));
        Box::pin(async move {
            loop {
                let changed = self.changed.notified();
                if !self.stuck.lock().unwrap().contains(&server) {
                    break;
                }
                changed.await;
            }
            if self.dead.lock().unwrap().contains(&server) {
                return Err(RequestError::NotSent("nobody is there".into()));
            }
            let number = match ServerMessage::decode(message).expect("it was encoded here") {
                ServerMessage::Up(frame) => frame.number,
                ServerMessage::Down(frame) => frame.number,
            };
            self.sent.lock().unwrap().push((server, number));
            Ok(())
        })
    }

    fn deliver(&self, from: ServerId, _: Box<ServerMessage>, share: OwnedSemaphorePermit) -> bool {
        self.delivered.lock().unwrap().push((from, share));
        true
    }

    fn has_room_again(&self) {
        self.roomy.fetch_add(1, Ordering::SeqCst);
    }
}

fn small(number: u64) -> ServerMessage {
    ServerMessage::Down(DownFrame { term: 1, attachment: 1, number, messages: Vec::new() })
}

/// A message of `nodes` times 16 bytes and some.
fn large(number: u64, nodes: usize) -> ServerMessage {
    let message = UpMessage::SignsOfLife(vec![NodeId(u128::MAX); nodes]);
    ServerMessage::Up(UpFrame { term: 1, attachment: 1, number, as_of: Index(0), messages: vec![message] })
}

fn encoded(message: &ServerMessage) -> Bytes {
    let mut bytes = Vec::new();
    message.encode(&mut bytes);
    bytes.into()
}

fn from(server: ServerId) -> PeerIdentity {
    PeerIdentity { server: server.0, cluster: 0 }
}

#[tokio::test]
async fn messages_arrive_in_order_and_no_server_delays_another() {
    let (relay, fake) = Fake::start();
    fake.set(&fake.stuck, SLOW, true);
    for number in 1..=100 {
        relay.send(SLOW, small(number));
        relay.send(OTHER, small(number));
    }
    fake.settle().await;
    let all: Vec<u64> = (1..=100).collect();
    assert_eq!((fake.sent_to(SLOW), fake.sent_to(OTHER)), (Vec::new(), all.clone()));
    fake.set(&fake.stuck, SLOW, false);
    fake.settle().await;
    assert_eq!(fake.sent_to(SLOW), all);
}

#[tokio::test]
async fn the_queue_to_a_slow_leader_is_bounded_and_has_room_again_once_it_reads() {
    let (relay, fake) = Fake::start();
    fake.set(&fake.stuck, SLOW, true);
    let frame_bytes = encoded(&large(0, 10_000)).len();
    let mut count = 0;
    while relay.has_room(SLOW) {
        count += 1;
        relay.send(SLOW, large(count, 10_000));
        assert!((count as usize - 1) * frame_bytes < OUTGOING_BYTES_MAX, "{count} frames are kept");
        tokio::task::yield_now().await;
    }
    assert!(count as usize * frame_bytes >= OUTGOING_BYTES_MAX, "{count} frames are all that it takes");
    assert!(relay.has_room(OTHER));
    fake.settle().await;
    assert_eq!(fake.roomy.load(Ordering::SeqCst), 0);
    fake.set(&fake.stuck, SLOW, false);
    fake.until(|| fake.sent_to(SLOW).len() as u64 == count).await;
    fake.settle().await;
    assert_eq!(fake.roomy.load(Ordering::SeqCst), 1, "who found no room is told, once");
    assert!(relay.has_room(SLOW));
    assert_eq!(fake.sent_to(SLOW), (1..=count).collect::<Vec<u64>>());
    assert_eq!(relay.queues.lock().unwrap()[&SLOW].waiting.bytes.load(Ordering::SeqCst), 0);
    relay.send(SLOW, small(count + 1));
    fake.settle().await;
    assert_eq!(fake.roomy.load(Ordering::SeqCst), 1, "nobody waits for room");
}

#[tokio::test]
async fn what_a_dead_server_misses_is_not_kept_and_what_follows_comes_in_order() {
    let (relay, fake) = Fake::start();
    relay.send(SLOW, small(1));
    fake.settle().await;
    fake.set(&fake.dead, SLOW, true);
    // More than would ever be kept for it.
    for number in 2..=10 {
        relay.send(SLOW, large(number, OUTGOING_BYTES_MAX / 16));
        // Nobody is there to wait for.
        fake.until(|| relay.has_room(SLOW)).await;
    }
    fake.set(&fake.dead, SLOW, false);
    for number in 11..=13 {
        relay.send(SLOW, small(number));
    }
    fake.settle().await;
    assert_eq!(fake.sent_to(SLOW), [1, 11, 12, 13], "nothing comes late or twice");
}

#[tokio::test]
async fn messages_reach_a_new_leader_while_the_old_one_is_stuck() {
    let (relay, fake) = Fake::start();
    fake.set(&fake.stuck, SLOW, true);
    let mut count = 0;
    while relay.has_room(SLOW) {
        count += 1;
        relay.send(SLOW, large(count, 10_000));
    }
    assert!(relay.has_room(OTHER));
    relay.send(OTHER, small(1000));
    fake.settle().await;
    assert_eq!((fake.sent_to(OTHER), fake.sent_to(SLOW)), (vec![1000], Vec::new()));
}

#[tokio::test]
async fn a_server_that_is_taken_out_has_room_when_it_is_back() {
    let (relay, fake) = Fake::start();
    fake.set(&fake.stuck, SLOW, true);
    let mut count = 0;
    while relay.has_room(SLOW) {
        count += 1;
        relay.send(SLOW, large(count, 10_000));
    }
    fake.settle().await;
    fake.set(&fake.members, SLOW, false);
    fake.set(&fake.stuck, SLOW, false);
    fake.until(|| relay.has_room(SLOW)).await;
    // One was under way; the others are dropped.
    assert_eq!(fake.sent_to(SLOW), [1]);
    fake.set(&fake.members, SLOW, true);
    relay.send(SLOW, small(count + 1));
    fake.settle().await;
    assert_eq!(fake.sent_to(SLOW), [1, count + 1]);
}

#[tokio::test]
async fn strangers_are_not_heard_and_what_is_not_understood_harms_nobody() {
    let (relay, fake) = Fake::start();
    let message = encoded(&small(1));
    relay.take(from(ServerId(9)), &message);
    relay.take(from(SLOW), &Bytes::from_static(b"\xff\xff"));
    relay.take(from(SLOW), &Bytes::new());
    assert_eq!(fake.delivered.lock().unwrap().len(), 0);
    assert_eq!(relay.incoming.available_permits(), INCOMING_BYTES_MAX, "what is refused takes no room");
    relay.take(from(SLOW), &message);
    assert_eq!(fake.delivered.lock().unwrap()[0].0, SLOW);
}

#[tokio::test]
async fn what_waits_to_be_dealt_with_is_bounded_by_its_bytes() {
    let (relay, fake) = Fake::start();
    let message = encoded(&large(1, 60_000));
    for _ in 0..INCOMING_BYTES_MAX / message.len() + 10 {
        relay.take(from(SLOW), &message);
    }
    let delivered = fake.delivered.lock().unwrap().len();
    assert_eq!(delivered, INCOMING_BYTES_MAX / message.len());
    // One is dealt with: there is room for one more.
    drop(fake.delivered.lock().unwrap().pop());
    relay.take(from(OTHER), &message);
    relay.take(from(OTHER), &message);
    assert_eq!(fake.delivered.lock().unwrap().len(), delivered);
}

#[tokio::test]
async fn before_the_log_is_open_no_message_is_sent_or_received() {
    let relay = Relay::new();
    relay.send(SLOW, small(1));
    relay.take(from(SLOW), &encoded(&small(1)));
    tokio::time::sleep(Duration::from_millis(1)).await;
    assert!(relay.has_room(SLOW) && relay.queues.lock().unwrap().is_empty());
}
