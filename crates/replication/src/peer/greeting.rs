//! How servers introduce themselves: the first frame in either direction. A server of another cluster, one that speaks
//! another version, or one that is not whom the other meant is refused by name before anything else is said.

use std::{
    fmt,
    sync::{
        Arc, Mutex, PoisonError, Weak,
        atomic::{AtomicU8, AtomicU64, Ordering},
    },
};

use minicbor::{Decode, Encode};

use crate::observer::Alarm;

/// Before anything else, in every version.
const MAGIC: &str = "berth-peer";
/// The version of everything that servers say to each other, this one and the oldest that is understood.
pub(crate) const WIRE_VERSION: u32 = 1;
const WIRE_VERSION_MIN: u32 = 1;
/// Version of this Berth.
pub(crate) const OUR_VERSION: &str = env!("CARGO_PKG_VERSION");

/// The cluster that a server belongs to, as it learns it.
#[derive(Debug, Clone, Default)]
pub(crate) struct OwnCluster(Arc<ClusterState>);

#[derive(Debug, Default)]
struct ClusterState {
    /// The halves of its id; 0 until it is known.
    id: [AtomicU64; 2],
    /// See [`crate::era`].
    era: AtomicU64,
    /// Of the newest entry that was applied.
    entries: AtomicU8,
    /// Raised when the cluster was recovered without this server.
    alarm: Mutex<Weak<Alarm>>,
}

impl OwnCluster {
    /// Its id; 0 for none yet.
    pub fn id(&self) -> u128 {
        let [high, low] = [0, 1].map(|half: usize| self.0.id[half].load(Ordering::Acquire));
        u128::from(high) << 64 | u128::from(low)
    }

    /// Learns it. It is set once, and is the same ever after.
    pub fn learn(&self, id: u128) {
        // The low half says that there is one, and is therefore the last: an id is drawn at random, and never has 0 there
        // but by a chance of one in 2^64.
        self.0.id[0].store((id >> 64) as u64, Ordering::Release);
        self.0.id[1].store(id as u64, Ordering::Release);
    }

    /// The version of the newest entry that was applied: whoever does not know it cannot take part.
    pub fn entries(&self) -> u8 {
        self.0.entries.load(Ordering::Acquire)
    }

    /// An entry of this version was applied.
    pub fn learn_entries(&self, version: u8) {
        self.0.entries.fetch_max(version, Ordering::AcqRel);
    }

    /// The era.
    pub fn era(&self) -> u64 {
        self.0.era.load(Ordering::Acquire)
    }

    /// This server has voted, or followed somebody, in this era. It never goes back.
    pub fn enter_era(&self, era: u64) {
        self.0.era.fetch_max(era, Ordering::AcqRel);
    }

    /// Who is informed when it turns out that the cluster was recovered without this server.
    pub fn set_alarm(&self, alarm: &Arc<Alarm>) {
        *self.0.alarm.lock().unwrap_or_else(PoisonError::into_inner) = Arc::downgrade(alarm);
    }

    fn raise(&self, why: &str) {
        let alarm = self.0.alarm.lock().unwrap_or_else(PoisonError::into_inner).upgrade();
        if let Some(alarm) = alarm {
            alarm.raise(why);
        }
    }
}

/// Who a server is. Fields 0 to 3 are the same in every version.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub(crate) struct Greeting {
    #[n(0)]
    magic: String,
    /// The newest version of the wire that it speaks.
    #[n(1)]
    pub wire: u32,
    /// The oldest version of the wire that it speaks.
    #[n(2)]
    pub wire_min: u32,
    /// Its version of Berth.
    #[n(3)]
    pub version: String,
    /// Its cluster's id, most significant byte first; zeros when it has none yet.
    #[n(4)]
    #[cbor(with = "minicbor::bytes")]
    cluster: [u8; 16],
    /// Its own id.
    #[n(5)]
    pub server: u64,
    /// Whom it means; 0 for whoever answers.
    #[n(6)]
    pub meant: u64,
    /// The newest entries of the log that it can apply.
    #[n(7)]
    pub entries: u8,
    /// Why the other is not talked to, in an answer.
    #[n(8)]
    pub refusal: Option<String>,
    /// Of its cluster; none for the first.
    #[n(9)]
    era: Option<u64>,
}

impl Greeting {
    /// This server's own, to `meant`, or to anybody when that is 0.
    pub fn ours(cluster: &OwnCluster, server: u64, meant: u64) -> Self {
        Self {
            magic: MAGIC.to_owned(),
            wire: WIRE_VERSION,
            wire_min: WIRE_VERSION_MIN,
            version: OUR_VERSION.to_owned(),
            cluster: cluster.id().to_be_bytes(),
            server,
            meant,
            entries: berth_model::command::ENTRY_VERSION,
            refusal: None,
            era: Some(cluster.era()).filter(|era| *era > 0),
        }
    }

    /// Its cluster; 0 when it has none yet.
    pub fn cluster(&self) -> u128 {
        u128::from_be_bytes(self.cluster)
    }

    pub fn encode(&self) -> Vec<u8> {
        minicbor::to_vec(self).expect("encoding to memory does not fail")
    }

    /// # Errors
    /// When it is not a greeting.
    pub fn decode(bytes: &[u8]) -> Result<Self, String> {
        let found: Result<Self, _> = minicbor::decode(bytes);
        found.ok().filter(|greeting| greeting.magic == MAGIC).ok_or_else(|| {
            "the other side does not speak the protocol between servers of Berth: is that the address for servers?"
                .to_owned()
        })
    }

    /// Whether the other belongs to the same cluster after a recovery that left this server out: why it must not go on.
    pub fn left_behind(&self, other: &Self) -> Option<String> {
        let same = self.cluster() != 0 && self.cluster() == other.cluster();
        (same && self.era < other.era).then(|| {
            format!(
                "the cluster was recovered without this server: {other} belongs to what it is now, and what this server has \
                 is from before. It takes no part any more; let it join again with `berth server rejoin`"
            )
        })
    }

    /// The same, and informs whoever watches over this server.
    fn check_era(&self, other: &Self, cluster: &OwnCluster) -> Result<(), String> {
        let Some(why) = self.left_behind(other) else { return Ok(()) };
        cluster.raise(&why);
        Err(why)
    }

    /// Whether the other may be talked to by this server, of `cluster`.
    ///
    /// # Errors
    /// Why not, for the users on both sides.
    pub fn admit(&self, other: &Self, cluster: &OwnCluster) -> Result<(), String> {
        self.check_era(other, cluster)?;
        self.check(other)?;
        let (known, written) = (other.entries, cluster.entries());
        if known < written {
            return Err(format!(
                "{other} knows entries of the log up to version {known}, and the cluster has written version {written}: \
                 start it with the newer Berth again"
            ));
        }
        Ok(())
    }

    /// Whether the other belongs to another cluster, as far as both know theirs: for the users on this side. Ids are not enough
    /// to distinguish the two: whoever founds a cluster alone has the id 1.
    pub fn other_cluster(&self, other: &Self) -> Option<String> {
        let (ours, theirs) = (self.cluster(), other.cluster());
        let differ = ours != 0 && theirs != 0 && ours != theirs;
        differ
            .then(|| format!("{other} belongs to cluster {theirs:032x}, this server to cluster {ours:032x}"))
    }

    /// Whether the other is of the same cluster, knows newer entries of the log than this server, and refuses it: it was
    /// started with an older version than the cluster has come to.
    pub fn is_outgrown_by(&self, other: &Self) -> bool {
        let same = self.cluster() != 0 && self.cluster() == other.cluster() && self.era >= other.era;
        same && other.refusal.is_some() && other.entries > self.entries
    }

    /// Whether the other may be talked to.
    ///
    /// # Errors
    /// Why not, for the users on both sides.
    fn check(&self, other: &Self) -> Result<(), String> {
        if other.wire < self.wire_min || other.wire_min > self.wire {
            return Err(format!(
                "{other} speaks versions {} to {} of the protocol between servers, {self} versions {} to {}: upgrade the older one",
                other.wire_min, other.wire, self.wire_min, self.wire
            ));
        }
        // What both sides can see is said as it looks from here, rather than as the other has put it.
        if let Some(why) = self.other_cluster(other) {
            return Err(why);
        }
        if let Some(why) = &other.refusal {
            return Err(format!("{other} refuses: {why}"));
        }
        if let Some(why) = other.left_behind(self) {
            return Err(format!("{other} was left out when the cluster was recovered: {why}"));
        }
        if other.meant != 0 && other.meant != self.server {
            return Err(format!("this is {self}, not server {}, which was meant", other.meant));
        }
        if self.meant != 0 && self.meant != other.server {
            return Err(format!("{other} answers where server {} was expected", self.meant));
        }
        if self.server == other.server {
            return Err(format!(
                "{other} has the same id as this server: one of the two data directories is a copy"
            ));
        }
        Ok(())
    }
}

impl fmt::Display for Greeting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "server {} (Berth {})", self.server, self.version)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn server(id: u64, cluster: u128) -> Greeting {
        let known = OwnCluster::default();
        known.learn(cluster);
        Greeting { version: "1.2.3".to_owned(), entries: 9, ..Greeting::ours(&known, id, 0) }
    }

    #[test]
    fn strangers_are_refused_by_name() {
        let ours = server(1, 7);
        let refused = |other: Greeting| ours.check(&other).unwrap_err();
        assert_eq!(ours.check(&server(2, 7)), Ok(()));
        assert_eq!(ours.check(&server(2, 0)), Ok(()));
        let stranger = refused(Greeting { refusal: Some("go away".to_owned()), ..server(1, 8) });
        let clusters = "server 1 (Berth 1.2.3) belongs to cluster 00000000000000000000000000000008, \
                        this server to cluster 00000000000000000000000000000007";
        assert_eq!(stranger, clusters, "both have the id 1, and only one of them is this server");
        let recovered = Greeting { era: Some(5), ..server(2, 7) };
        assert!(ours.left_behind(&recovered).unwrap().contains("recovered without this server: server 2"));
        assert!(recovered.check(&ours).unwrap_err().contains("was left out when the cluster was recovered"));
        assert_eq!(recovered.check(&Greeting { era: Some(5), ..server(3, 7) }), Ok(()));
        assert_eq!(recovered.check(&server(3, 0)), Ok(()), "a new server is of no era yet");
        assert!(refused(server(1, 7)).contains("same id"));
        assert!(refused(Greeting { meant: 3, ..server(2, 7) }).contains("not server 3"));
        let newer = Greeting { wire: 9, wire_min: 8, ..server(2, 7) };
        assert!(refused(newer).contains("versions 8 to 9"), "both versions are named");
        let refuses = Greeting { refusal: Some("no room".to_owned()), ..server(2, 7) };
        assert!(refused(refuses).contains("no room"));
        assert!(Greeting::decode(b"GET / HTTP/1.1").unwrap_err().contains("address for servers"));
    }

    #[test]
    fn a_server_that_does_not_know_what_was_written_is_refused_with_both_versions() {
        let cluster = OwnCluster::default();
        cluster.learn(7);
        let (ours, older) = (Greeting::ours(&cluster, 1, 0), Greeting { entries: 3, ..server(2, 7) });
        cluster.learn_entries(3);
        assert_eq!(ours.admit(&older, &cluster), Ok(()));
        cluster.learn_entries(4);
        let refused = ours.admit(&older, &cluster).unwrap_err();
        assert!(refused.contains("up to version 3") && refused.contains("written version 4"), "{refused}");
        let answer = Greeting { refusal: Some(refused), ..ours.clone() };
        assert!(older.is_outgrown_by(&Greeting { entries: 4, ..answer.clone() }));
        assert!(!older.is_outgrown_by(&ours), "it is not refused");
        assert!(!older.is_outgrown_by(&Greeting { entries: 3, ..answer.clone() }), "for another reason");
        assert!(!server(2, 8).is_outgrown_by(&answer), "by another cluster");
    }

    /// What version 1 says: later versions must still be able to read it, and refuse by these fields.
    #[test]
    fn golden_greeting() {
        let hex: String = server(2, 7).encode().iter().map(|byte| format!("{byte:02x}")).collect();
        let golden = concat!(
            "886a62657274682d70656572010165312e322e3350",
            "00000000000000000000000000000007",
            "020009"
        );
        assert_eq!(hex, golden);
        assert_eq!(Greeting::decode(&server(2, 7).encode()), Ok(server(2, 7)));
        let later = Greeting { era: Some(3), ..server(2, 7) };
        assert_eq!(Greeting::decode(&later.encode()), Ok(later));
    }
}
