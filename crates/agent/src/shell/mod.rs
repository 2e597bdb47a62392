//! The agent itself: executes what [`crate::lifecycle`] decides, and keeps a server informed.

mod actions;
mod checks;
mod clock;
mod config;
mod connection;
mod credentials;
mod damaged_records;
mod data_dir;
#[cfg(test)]
mod destinations;
mod dial_log;
mod disk_limits;
mod disk_work;
mod enrollment;
mod environment;
mod execs;
mod fingerprint;
mod host_ports;
mod identities;
mod interpolate;
mod meta;
mod mock;
mod node_watch;
mod prepare;
mod queries;
mod reads;
mod replace;
mod runner;
mod secret_files;
mod secrets;
mod server_requests;
mod servers;
mod setup;
mod shutdown_drain;
mod socket_dir;
mod startup;
mod supervise;
mod task_api;
mod templates;
mod usage;

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use berth_api::agent::{
    AgentIdentity, AgentSession, AllocId, ClusterId, DownFrame, Fence, RevokedServer, SessionAction,
    TaskSpec, Up,
};
use berth_tls::RevokedServers;
use futures_util::future::BoxFuture;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;
use tokio::time::{Instant, MissedTickBehavior, timeout};

use self::checks::Checks;
use self::clock::Clock;
pub use self::config::AgentConfig;
use self::connection::{ConnectionEvent, ConnectionSenders};
use self::credentials::AgentCredentials;
pub use self::credentials::{AgentTls, joined_dir};
use self::data_dir::DataDir;
pub(crate) use self::data_dir::ServersRecord;
#[cfg(test)]
pub(crate) use self::data_dir::{FenceRecord, NodeRecord};
pub(crate) use self::data_dir::{make_dir, random_number};
use self::disk_limits::DiskLimits;
use self::disk_work::{DiskDone, DiskWork};
use self::execs::Execs;
use self::fingerprint::Inventory;
use self::meta::Metadata;
use self::node_watch::NodeWatch;
pub use self::prepare::Host;
use self::queries::Queries;
use self::reads::Reads;
pub use self::runner::starting_max;
use self::runner::{Context, Providers, Runners};
use self::server_requests::{PendingRequests, ServerClient, ServerRequest};
pub use self::servers::Servers;
pub use self::setup::{SetupMoment, never_prepared, setup_steps};
pub use self::shutdown_drain::DrainOnShutdown;
use self::shutdown_drain::ShutdownDrain;
use self::startup::{containers, guard_rules, networks, user_ids};
use self::usage::Sampler;
use crate::alloc_dir;
use crate::artifacts::Artifacts;
use crate::failure::{Failure, PANICKED};
use crate::images::Images;
use crate::keeper::plan::StartRecord;
use crate::lifecycle::{Alloc, AllocRecord, Event, FoundTask, GroupCache, Node, events_of};

/// Events of tasks that wait to be handled.
const EVENTS_MAX: usize = 256;

/// How often the last contact with a server is written to disk, while anything has to end without one.
const CONTACT_WRITE_EVERY_NS: u64 = 5_000_000_000;

/// How long tasks are given to end when the agent stops and takes them along, at least, and how much more than their delays and kill
/// timeouts take.
const STOP_TASKS_MIN: Duration = Duration::from_secs(60);
const STOP_TASKS_BEYOND: Duration = Duration::from_secs(30);

/// How long an agent that starts waits for what is on record as ended to be cleaned up: its servers have not heard of it for a
/// while, and take its node for lost soon.
const CLEAN_UP_MAX: Duration = Duration::from_secs(3);

/// How long a stopping agent waits for its last messages to be sent.
const FLUSH_MAX: Duration = Duration::from_millis(500);

/// What becomes of the tasks when the agent stops.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ShutdownMode {
    /// They run on; the next agent takes them up.
    LeaveTasks,
    /// They are stopped first.
    StopTasks,
    /// The servers drain the node first.
    Drain(DrainOnShutdown),
}

/// An agent and its inputs.
type OpenedAgent = (Agent, AgentInputs);

/// What reaches the agent besides its connection.
struct AgentInputs {
    /// Events of tasks.
    events: mpsc::Receiver<Event>,
    /// Completions of writes to its disk.
    done: mpsc::UnboundedReceiver<DiskDone>,
    /// Requests of tasks to a server.
    requests: mpsc::Receiver<ServerRequest>,
}

/// The agent of a node.
pub struct Agent {
    data: Arc<DataDir>,
    disk_work: DiskWork,
    identity: AgentIdentity,
    clock: Clock,
    node: Node,
    session: AgentSession,
    groups: GroupCache,
    context: Arc<Context>,
    runners: Runners,
    reads: Reads,
    queries: Queries,
    execs: Execs,
    pending_requests: PendingRequests,
    checks: Checks,
    sampler: Sampler,
    disk_limits: DiskLimits,
    disk_check_at: Instant,
    node_watch: NodeWatch,
    meta: Arc<Metadata>,
    up: Option<ConnectionSenders>,
    /// Where the servers of the node's cluster take agents; on disk, and known to whoever dials.
    learned: watch::Sender<Vec<String>>,
    /// Which of them were revoked; on disk, too, and known to whoever shakes hands.
    revoked: RevokedServers,
    /// When the last contact with a server was last written to disk.
    contact_written_ns: u64,
}

impl Agent {
    /// Runs an agent until `shutdown` is done.
    ///
    /// # Errors
    /// When the data directory cannot be used, or what it holds cannot be read.
    pub fn run(
        config: AgentConfig,
        shutdown: impl Future<Output = ()> + Send + 'static,
        mode: ShutdownMode,
    ) -> BoxFuture<'static, Result<(), Failure>> {
        // Boxed, so that all that an agent does is compiled in this crate, for speed, and not in whichever runs it.
        Box::pin(Self::live(config, Box::pin(shutdown), mode))
    }

    async fn live(
        config: AgentConfig,
        shutdown: BoxFuture<'static, ()>,
        mode: ShutdownMode,
    ) -> Result<(), Failure> {
        let (links_sender, links) = connection::channel();
        let (agent, inputs) = Self::open(&config)?;
        let (node, revoked) =
            ((agent.identity.node_id, agent.identity.secret.clone()), agent.revoked.clone());
        let credentials = AgentCredentials::open(config.tls.as_ref(), &config.data_dir, node, revoked)?;
        let renewing = credentials.clone().keep_renewed(config.servers.clone(), agent.learned.subscribe());
        let renewing = tokio::spawn(renewing);
        let servers = Servers::new(config.servers, agent.learned.subscribe());
        let mut dialing = tokio::spawn(connection::keep_connected(servers, credentials, links_sender));
        let (context, allocs) = (agent.context.clone(), agent.data.path().join("allocs"));
        let tending = tokio::spawn(async move { context.providers.images.tend(allocs).await });
        let sweeping = tokio::spawn(crate::cgroups::remove_leftovers());
        let networks = agent.context.providers.networks.clone().ok();
        let guarding = tokio::spawn(guard_rules(networks.clone()));
        let worked = tokio::select! {
            worked = agent.work(links, inputs, shutdown, mode) => worked,
            // Tasks go on, and an agent that starts again takes them up; this one would never hear of a server again.
            Err(_) = &mut dialing => Err(Failure::other("speak with servers", PANICKED)),
        };
        [tending, sweeping, guarding, renewing].iter().for_each(JoinHandle::abort);
        if let Some(networks) = networks {
            let _ = tokio::task::spawn_blocking(move || networks.close()).await;
        }
        worked?;
        // The agent's end of the connection is closed; its last messages may still be on their way.
        let abort = dialing.abort_handle();
        if !dialing.is_finished() {
            let _ = timeout(FLUSH_MAX, dialing).await;
        }
        abort.abort();
        Ok(())
    }

    fn open(config: &AgentConfig) -> Result<OpenedAgent, Failure> {
        let data = Arc::new(DataDir::open(&config.data_dir)?);
        let (identity, epoch) = data.identify()?;
        let clock = Clock::start();
        let images = Images::open(&config.images, &data.image_cache(), config.keeper_command.clone())?;
        let networks = networks(config, data.path());
        let user_ids = user_ids(config, data.path());
        let without = user_ids.as_ref().err().cloned();
        let inventory = Inventory::new(config, containers(config), networks.clone(), without);
        inventory.check_reserved()?;
        let (node_watch, mut equipment) = NodeWatch::begin(inventory);
        let meta = Metadata::open(data.clone(), config.meta.clone())?;
        equipment.node.meta = meta.effective();
        let (sender, events) = mpsc::channel(EVENTS_MAX);
        let node_id = AllocId(identity.node_id).to_string();
        let keeper = config.keeper_command.clone();
        let artifacts = Artifacts::new(config.artifacts.clone(), keeper.clone());
        let providers = Providers { images, artifacts, networks, user_ids };
        let (server_client, requests) = ServerClient::new();
        let context = Context::new(
            clock,
            node_id,
            equipment,
            providers,
            keeper,
            sender,
            server_client,
            config.on_setup,
        );
        let context = Arc::new(context);
        let kill_timeout_ms_max = u32::try_from(config.kill_timeout_max.as_millis()).unwrap_or(u32::MAX);
        let node = Node::new(u64::from_le_bytes(*identity.node_id.first_chunk().unwrap_or(&[0; 8])))
            .with_kill_timeout_max(kill_timeout_ms_max);
        let delay_ns = nanos(config.update_delay);
        let ServersRecord { addresses, revoked } = data.servers();
        let (learned, _) = watch::channel(addresses);
        let all_revoked = RevokedServers::default();
        servers::add_revoked(&all_revoked, revoked);
        let (disk_work, done) = DiskWork::start(data.clone())?;
        let agent = Self {
            data,
            disk_work,
            clock,
            node,
            identity,
            session: AgentSession::new(epoch, delay_ns),
            groups: GroupCache::default(),
            runners: Runners::new(context.clone()),
            context,
            reads: Reads::new(config.log_feed.clone()),
            queries: Queries::default(),
            execs: Execs::default(),
            pending_requests: PendingRequests::default(),
            checks: Checks::default(),
            sampler: Sampler::default(),
            disk_limits: DiskLimits::default(),
            disk_check_at: Instant::now(),
            node_watch,
            meta,
            up: None,
            learned,
            revoked: all_revoked,
            contact_written_ns: 0,
        };
        Ok((agent, AgentInputs { events, done, requests }))
    }

    async fn work(
        mut self,
        mut links: mpsc::Receiver<ConnectionEvent>,
        inputs: AgentInputs,
        shutdown: impl Future<Output = ()>,
        mode: ShutdownMode,
    ) -> Result<(), Failure> {
        let AgentInputs { mut events, mut done, mut requests } = inputs;
        let mut meta_changes = self.meta.changes();
        let ended = self.restore().await?;
        self.finish_cleaning_up(&ended, &mut events, &mut done).await;
        let mut shutdown = pin!(shutdown);
        let mut scans = tokio::time::interval_at(Instant::now() + node_watch::EVERY, node_watch::EVERY);
        scans.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let (mut stop_by_ns, mut shutdown_drain) = (None, None::<ShutdownDrain>);
        loop {
            if let Some(shutdown_drain) = &mut shutdown_drain {
                self.request_drain(shutdown_drain);
            }
            self.send_session_messages();
            if shutdown_drain.as_mut().is_some_and(|shutdown_drain| self.has_left(shutdown_drain))
                && self.disk_work.is_idle()
            {
                return Ok(());
            }
            let ended = self.node.allocs().all(|alloc| alloc.has_ended()) && self.disk_work.is_idle();
            if stop_by_ns.is_some() && ended {
                return Ok(());
            }
            let accepts_work = self.disk_work.accepts_work();
            tokio::select! {
                () = &mut shutdown, if stop_by_ns.is_none() && shutdown_drain.is_none() => {
                    let now_ns = self.clock.now_ns();
                    match mode {
                        ShutdownMode::LeaveTasks => return Ok(()),
                        ShutdownMode::StopTasks => {
                            let most = self.ending_max().saturating_add(STOP_TASKS_BEYOND).max(STOP_TASKS_MIN);
                            stop_by_ns = Some(now_ns.saturating_add(nanos(most)));
                            self.stop_all();
                        }
                        ShutdownMode::Drain(how) => {
                            shutdown_drain = Some(ShutdownDrain::begin(how, now_ns));
                        }
                    }
                }
                // A stopping agent accepts no more desired state: for each task that ends the server would send another one.
                Some(link) = links.recv(), if stop_by_ns.is_none() && accepts_work => self.on_link(link),
                Some(event) = events.recv(), if accepts_work => self.handle(event),
                Some(done) = done.recv() => self.on_disk_done(done),
                Some(request) = requests.recv() => self.on_request(request),
                () = self.clock.sleep_until(self.deadline()) => self.handle(Event::Tick),
                () = tokio::time::sleep_until(self.disk_check_at) => self.check_disk(),
                _ = scans.tick() => self.scan_again(),
                () = self.clock.sleep_until(shutdown_drain.as_ref().and_then(ShutdownDrain::deadline_at)) => {
                    tracing::warn!("not all that runs here has ended, or is known to have; the agent stops all the same");
                    return Ok(());
                }
                () = self.clock.sleep_until(stop_by_ns) => {
                    tracing::warn!("some tasks did not end in time");
                    return Ok(());
                }
                Some(found) = self.node_watch.found() => self.on_found(found),
                Ok(()) = meta_changes.changed() => self.on_meta_changed(),
            }
        }
    }

    fn deadline(&self) -> Option<u64> {
        self.node.deadline().into_iter().chain(self.session.deadline()).min()
    }

    /// Takes up what an earlier run of the agent left. Returns what is on record as ended.
    async fn restore(&mut self) -> Result<Vec<AllocId>, Failure> {
        let (mut actions, mut ended) = (Vec::new(), Vec::new());
        let mut fence = self.data.fence()?;
        let (records, damaged) = self.data.read_all()?;
        self.end_damaged(damaged).await;
        for record in records {
            let id = AllocId::from_slice(&record.alloc_id);
            raise(&mut fence, &record);
            if let (Some(id), Some(status), false) = (id, &record.status, record.forgotten) {
                self.session.restore(id, record.revision(), status);
                ended.extend(status.status().is_terminal().then_some(id));
            }
            let restored = self.node.restore(record, &mut self.groups, &mut actions);
            restored.map_err(|error| Failure::other("take up an allocation", error))?;
        }
        self.session.restore_fence(fence);
        self.node.restore_last_contact(self.data.last_contact_ns(), self.clock.now_ns());
        // Before any task is started: the networks, ids and cores of those that run would be given away a second time.
        self.restore_networks()?;
        self.restore_user_ids();
        self.restore_cores();
        let living = self.node.allocs().filter(|alloc| !alloc.has_ended());
        alloc_dir::secrets::sweep(self.data.path(), living.map(|alloc| self.data.paths(alloc.id())))?;
        self.perform(actions);
        self.handle(Event::Tick);
        Ok(ended)
    }

    /// What had ended was about to be cleaned up, and may be on record as ended: no server hears of that before it is.
    async fn finish_cleaning_up(
        &mut self,
        ended: &[AllocId],
        events: &mut mpsc::Receiver<Event>,
        done: &mut mpsc::UnboundedReceiver<DiskDone>,
    ) {
        let deadline = Instant::now() + CLEAN_UP_MAX;
        while ended.iter().any(|id| self.node.alloc(*id).is_some_and(Alloc::is_cleaning_up)) {
            tokio::select! {
                Some(event) = events.recv() => self.handle(event),
                Some(done) = done.recv() => self.on_disk_done(done),
                () = tokio::time::sleep_until(deadline) => {
                    tracing::warn!("not all that has ended is cleaned up yet: the agent goes on meanwhile");
                    return;
                }
            }
        }
    }

    fn restore_networks(&self) -> Result<(), Failure> {
        let Ok(networks) = &self.context.providers.networks else { return Ok(()) };
        networks.restore(|alloc| self.lives(alloc))
    }

    /// What cannot be read is reported where its task is taken up.
    fn restore_user_ids(&self) {
        let Ok(ids) = &self.context.providers.user_ids else { return };
        // What is only to be cleaned up may have given its range back, which is another's by now.
        for alloc in self.node.allocs().filter(|alloc| !alloc.tasks_are_dead()) {
            let paths = self.data.paths(alloc.id());
            let started = |task: &TaskSpec| StartRecord::read(&paths.keeper_dir(&task.name)).ok().flatten();
            let firsts = alloc.spec().group.tasks.iter().filter_map(started).map(|start| start.first_id);
            firsts.filter(|first| *first > 0).for_each(|first| ids.restore(alloc.id(), first));
        }
    }

    fn lives(&self, alloc: AllocId) -> bool {
        self.node.alloc(alloc).is_some_and(|alloc| !alloc.has_ended())
    }

    /// How long what is here may take to end once it is stopped.
    fn ending_max(&self) -> Duration {
        let ends = self.node.allocs().filter(|alloc| !alloc.has_ended());
        Duration::from_millis(ends.map(|alloc| alloc.ending_ms_max()).max().unwrap_or_default())
    }

    fn stop_all(&mut self) {
        let all: Vec<_> = self.node.allocs().map(|alloc| alloc.id()).collect();
        for alloc in all {
            self.handle(Event::Stop { alloc, reason: "the agent stops".into() });
        }
    }

    fn handle(&mut self, event: Event) {
        if let Event::Exited(of, _) = &event {
            self.execs.on_task_end(*of);
            self.checks.on_task_end(*of);
        }
        let started = match &event {
            Event::Started { of, .. } | Event::Recovered(of, FoundTask::Running { .. }) => Some(*of),
            _ => None,
        };
        let mut actions = Vec::new();
        self.node.handle(event, self.clock.now_ns(), &mut actions);
        self.disk_limits.on_change();
        self.perform(actions);
        if let Some(of) = started {
            self.exclude_from_cores(of);
            self.check_disk_soon();
        }
    }

    fn on_link(&mut self, link: ConnectionEvent) {
        match link {
            ConnectionEvent::Up(up) => {
                let node = self.context.equipment().node.clone();
                let hello = self.session.hello(&self.identity, node, self.clock.now_ns());
                let _ = up.session.try_send(Up::Hello(hello));
                let (line, secret) = (up.replies.clone(), self.identity.secret.clone());
                self.context.task_apis.connected(line, secret);
                self.up = Some(up);
            }
            ConnectionEvent::Down => self.disconnect(),
            ConnectionEvent::Message(frame) => self.on_message(frame),
        }
    }

    /// Dropping the sender ends the connection.
    fn disconnect(&mut self) {
        self.up = None;
        self.session.disconnected();
        self.reads.cancel_all();
        self.execs.cancel_all();
        self.cancel_requests();
        self.context.task_apis.disconnected();
    }

    fn on_message(&mut self, frame: DownFrame) {
        let Some(message) = frame.message else { return };
        if AgentSession::is_answer(&message) {
            self.on_server_contact();
        }
        let before = self.session.fence();
        match self.session.on_down(message, self.clock.now_ns()) {
            None => {}
            // Nothing more is taken in until that is on disk.
            Some(SessionAction::Joined(fence)) => self.disk_work.keep_fence(fence, before),
            Some(SessionAction::Servers(addresses)) => self.on_servers(addresses),
            Some(SessionAction::Desired(change)) => match events_of(change, &mut self.groups) {
                Ok(events) => events.into_iter().for_each(|event| self.handle(event)),
                Err(error) => {
                    tracing::error!(%error, "the server breaks the protocol");
                    self.disconnect();
                }
            },
            Some(SessionAction::Broken(error)) => {
                tracing::error!(%error, "ended the session; tasks run on");
                self.disconnect();
            }
            // Whoever dials logs why, and tries again.
            Some(SessionAction::Refused(_)) => self.disconnect(),
            Some(SessionAction::FileRead(read)) => {
                if let (Some(alloc), Some(up)) = (AllocId::from_slice(&read.alloc_id), &self.up) {
                    let status = self.node.alloc(alloc).map(|alloc| alloc.status());
                    self.reads.open(read, self.data.paths(alloc), status, up.replies.clone());
                }
            }
            Some(SessionAction::FileCredit(credit)) => self.reads.on_credit(credit.request, credit.bytes),
            Some(SessionAction::FileCancel(cancel)) => self.reads.on_cancel(cancel.request),
            Some(SessionAction::Ask(ask)) => self.on_ask(ask),
            Some(SessionAction::Exec(exec)) => self.on_exec(exec),
            Some(SessionAction::Signed(signed)) => self.on_signed(signed),
            Some(SessionAction::Secrets(read)) => self.on_secrets(read),
            Some(SessionAction::Watched(watched)) => self.on_watched(watched),
            Some(SessionAction::TaskApi(message)) => self.context.task_apis.on_message(message),
        }
    }

    fn on_server_contact(&mut self) {
        let now_ns = self.clock.now_ns();
        self.handle(Event::ServerContact);
        if self.node.watches_silence()
            && now_ns.saturating_sub(self.contact_written_ns) >= CONTACT_WRITE_EVERY_NS
        {
            self.contact_written_ns = now_ns;
            self.disk_work.write_last_contact(now_ns);
        }
    }

    /// The servers are these from now on, unless none of them can be dialed; those that were revoked stay so.
    fn on_servers(&mut self, received: berth_api::agent::Servers) {
        let servers = servers::usable(received.addresses);
        let mut changed = servers::add_revoked(&self.revoked, received.revoked);
        if !servers.is_empty() && *self.learned.borrow() != servers {
            self.learned.send_replace(servers);
            changed = true;
        }
        if changed {
            let revoked = self.revoked.all().into_iter();
            let revoked = revoked.map(|(name, at_secs)| RevokedServer { name, at_secs }).collect();
            self.disk_work.write_servers(ServersRecord { addresses: self.learned.borrow().clone(), revoked });
        }
    }

    /// The node belongs to another cluster from now on, if that can be written down.
    fn on_joined(&mut self, before: Fence, result: Result<(), Failure>) {
        self.disk_work.fence_is_written();
        let cluster = self.session.fence().cluster;
        match result {
            Ok(()) => {
                let cluster = cluster.map(|cluster| cluster.to_string()).unwrap_or_default();
                tracing::info!(cluster, "the node belongs to this cluster from now on");
            }
            Err(failure) => {
                tracing::error!(%failure, "could not keep which cluster the node belongs to");
                self.session.restore_fence(before);
                self.disconnect();
            }
        }
    }

    /// Sends what the session has to send. A connection that accepts nothing any more is closed.
    fn send_session_messages(&mut self) {
        if self.session.is_deserted(self.clock.now_ns()) {
            if self.session.is_open() {
                tracing::warn!("the server accepts data but does not answer: reconnecting");
            }
            self.disconnect();
        }
        while let Some(up) = &self.up {
            let Ok(permit) = up.session.try_reserve() else {
                let due = self.session.deadline().is_some_and(|at_ns| at_ns <= self.clock.now_ns());
                return if due {
                    self.disconnect()
                };
            };
            match self.session.poll(self.clock.now_ns()) {
                Some(message) => permit.send(message),
                None => return,
            }
        }
    }
}

fn nanos(span: Duration) -> u64 {
    u64::try_from(span.as_nanos()).unwrap_or(u64::MAX)
}

/// A record knows a later position of the same cluster than the fence itself, which is not written at each change.
fn raise(fence: &mut Fence, record: &AllocRecord) {
    if ClusterId::from_slice(&record.cluster_id) == fence.cluster {
        fence.advance(record.term, record.index);
    }
}
