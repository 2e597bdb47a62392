//! Opens a log: holds the directory, checks whose it is, recovers the log and the snapshot, and starts consensus.

use std::{collections::BTreeMap, path::Path, sync::Arc};

use openraft::SnapshotPolicy;

use crate::{
    ClusterConfig, Config, Observer, OpenError, Replication, Start,
    disk::{DirLock, Disk, Released},
    error::Damage,
    leadership,
    log::{self, OpenLog},
    machine::{Machine, SnapshotDemand},
    metrics::Counters,
    observer::{Alarm, ClusterLearner},
    peer::consensus::{Network, Serve},
    runtime::Runtime,
    server_file,
    snapshot::{self, Snapshots},
    space::Space,
    types::{Peer, Raft},
};

/// Milliseconds between a leader's signs of life.
const HEARTBEAT_MS: u64 = 100;
/// Milliseconds that are added to the longer of these, drawn at random, until a server that has heard nothing stands for
/// election. The longer is also the leader's lease: for so long after a majority was heard, no other can be elected.
pub(crate) const ELECTION_MS: std::ops::Range<u64> = 400..800;
/// Log records that a snapshot has covered and that are kept for servers that are a little behind.
const BEHIND_ENTRIES_MAX: u64 = 1000;

/// Records after which the state machine is asked for a snapshot again: how many bytes they have, only it knows.
const SNAPSHOT_ASK_ENTRIES: u64 = 64;

/// See [`Replication::open_on`].
pub(crate) async fn open<R: Runtime>(
    config: Config,
    observer: Arc<dyn Observer>,
    disk: Arc<dyn Disk>,
    segment_bytes: u64,
    cluster: ClusterConfig<R>,
) -> Result<Replication<R>, OpenError> {
    let ClusterConfig { peers, own, start } = cluster;
    let observer: Arc<dyn Observer> = Arc::new(ClusterLearner::new(observer, peers.cluster().clone()));
    let counters = Arc::new(Counters::default());
    let alarm = Arc::new(Alarm::new(Arc::clone(&observer)));
    let engine_config = engine_config(&config)?;
    let (lock, released) = hold(&*disk, &config.data_dir)?;
    let own_disk = Arc::clone(&disk);
    let blocking = {
        let (config, observer, counters) = (config.clone(), Arc::clone(&observer), Arc::clone(&counters));
        let alarm = Arc::clone(&alarm);
        move || recover::<R>(&config, lock, observer, disk, segment_bytes, counters, alarm)
    };
    let failed = |error: &dyn std::fmt::Display| OpenError::Consensus(error.to_string());
    let recovered = R::blocking(blocking).await.map_err(|error| failed(&error)).flatten();
    let RecoveredServer { mut log, machine, demand, space, snapshots } = match recovered {
        Ok(recovered) => recovered,
        Err(error) => {
            // The log's writer may have begun; whoever tries again finds the directory free.
            released.wait().await;
            return Err(error);
        }
    };
    log.store.follow_era(peers.cluster().clone());
    peers.cluster().set_alarm(&alarm);
    if let Err(left_behind) = peers.check_era(&machine.members()).await {
        drop((log, machine, snapshots));
        released.wait().await;
        return Err(OpenError::LeftBehind(left_behind));
    }
    let departed = machine.departed().clone();
    let network = Network::new(peers.clone(), own_disk, demand.clone());
    let promised = log.store.promised();
    let raft = Raft::<R>::new(config.server_id, Arc::new(engine_config), network, log.store, machine).await;
    let raft = raft.map_err(|error| failed(&error))?;
    leadership::follow(&raft, observer, alarm);
    peers.serve_consensus(Arc::new(Serve::new(raft.clone(), snapshots, departed.clone())));
    let alone = lead(&raft, config.server_id, &own, start).await?;
    let replication = Replication::new(
        raft,
        (peers, own),
        departed,
        counters,
        demand,
        Arc::clone(&space),
        (log.tail, promised),
        (log.writer, released),
    );
    if alone {
        replication.linearize().await.map_err(|error| failed(&error))?;
    }
    space.set_waits(true);
    Ok(replication)
}

fn engine_config(config: &Config) -> Result<openraft::Config, OpenError> {
    if config.snapshot_entries == 0 {
        return Err(OpenError::Config("snapshot_entries must be at least 1".to_owned()));
    }
    let engine = openraft::Config {
        cluster_name: config.cluster_name.clone(),
        heartbeat_interval: HEARTBEAT_MS,
        election_timeout_min: ELECTION_MS.start,
        election_timeout_max: ELECTION_MS.end,
        snapshot_policy: SnapshotPolicy::LogsSinceLast(config.snapshot_entries.min(SNAPSHOT_ASK_ENTRIES)),
        max_in_snapshot_log_to_keep: config.snapshot_entries.min(BEHIND_ENTRIES_MAX),
        enable_pre_vote: Some(true),
        // A term never outlives the process that led in it: what was planned before a restart is distinguished from what is
        // planned after it.
        enable_leader_restore: Some(false),
        ..openraft::Config::default()
    };
    engine.validate().map_err(|error| OpenError::Config(error.to_string()))
}

/// A server's past, read from its disk.
pub(crate) struct RecoveredServer<R: Runtime> {
    pub log: OpenLog<R>,
    pub machine: Machine,
    pub demand: SnapshotDemand,
    pub space: Arc<Space>,
    pub snapshots: Arc<Snapshots>,
}

/// Everything that reads the disk; `lock` holds the data directory.
pub(crate) fn recover<R: Runtime>(
    config: &Config,
    lock: DirLock,
    observer: Arc<dyn Observer>,
    disk: Arc<dyn Disk>,
    segment_bytes: u64,
    counters: Arc<Counters>,
    alarm: Arc<Alarm>,
) -> Result<RecoveredServer<R>, OpenError> {
    let dir = &config.data_dir;
    let lock = Arc::new(lock);
    disk.create_dir(dir).map_err(OpenError::write(dir))?;
    let space = Arc::new(Space::new(Arc::clone(&disk), dir, segment_bytes));
    let is_known = server_file::check(&*disk, config)?;
    let log = log::open(
        Arc::clone(&disk),
        Arc::clone(&space),
        dir.join("log"),
        is_known,
        segment_bytes,
        Arc::clone(&counters),
        Arc::clone(&alarm),
        Arc::clone(&lock),
    )?;
    if !is_known && log.ends.1.is_some() {
        return Err(Damage::new(&dir.join("server"), "it is missing, and there is a log").into());
    }
    space.write(|| server_file::claim(&*disk, config)).map_err(OpenError::write(&dir.join("server")))?;
    let snapshot_dir = dir.join("snapshots");
    let loaded = snapshot::load(&*disk, &snapshot_dir, log.ends)?;
    let (version, known) = (loaded.store.version(), config.entries);
    if version > known {
        return Err(OpenError::NewerState { dir: snapshot_dir, version, known });
    }
    let keep_from = Arc::clone(&log.keep_from);
    let snapshots = Arc::new(Snapshots::new(
        disk,
        snapshot_dir,
        &loaded,
        keep_from,
        Arc::clone(&counters),
        Arc::clone(&space),
        lock,
    ));
    let demand = SnapshotDemand::default();
    let mut machine = Machine::new(
        loaded,
        Arc::clone(&snapshots),
        (config.snapshot_entries, config.entries),
        demand.clone(),
        observer,
        alarm,
    );
    counters.on_replayed(machine.replay(&log.store).map_err(OpenError::read(&dir.join("log")))?);
    Ok(RecoveredServer { log, machine, demand, space, snapshots })
}

/// Makes the data directory, and holds it.
pub(crate) fn hold(disk: &dyn Disk, dir: &Path) -> Result<(DirLock, Released), OpenError> {
    disk.create_dir(dir).map_err(OpenError::write(dir))?;
    let held = disk.hold(dir).map_err(OpenError::write(&dir.join("lock")))?;
    held.map(DirLock::new).map_err(|held| OpenError::InUse { dir: dir.to_owned(), pid: held.by })
}

/// A server that is the only one that votes becomes the leader, and founds its cluster if need be: whether this is one.
/// Any other waits for what the others do.
async fn lead<R: Runtime>(raft: &Raft<R>, id: u64, own: &Peer, start: Start) -> Result<bool, OpenError> {
    let failed = |error: &dyn std::fmt::Display| OpenError::Consensus(error.to_string());
    if raft.is_initialized().await.map_err(|error| failed(&error))? {
        let voters =
            raft.with_raft_state(|state| state.membership_state.effective().voter_ids().collect::<Vec<_>>());
        if voters.await.map_err(|error| failed(&error))? != [id] {
            return Ok(false);
        }
        raft.trigger().elect(false).await.map_err(|error| failed(&error))?;
    } else if start == Start::Found {
        let alone = BTreeMap::from([(id, own.clone())]);
        raft.initialize(alone).await.map_err(|error| failed(&error))?;
    } else {
        return Ok(false);
    }
    let elected = raft.wait(None).current_leader(id, "become leader").await;
    elected.map(|_| true).map_err(|error| failed(&error))
}
