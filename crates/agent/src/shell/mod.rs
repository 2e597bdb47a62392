//! The agent itself: executes what [`crate::lifecycle`] decides, and keeps a server informed.

mod actions;
mod asking;
mod asks;
mod checks;
mod clock;
mod config;
mod connection;
mod credentials;
mod damaged;
mod data_dir;
#[cfg(test)]
mod destinations;
mod dial_log;
mod disk_limits;
mod disk_work;
mod enrolling;
mod environment;
mod execs;
mod fingerprint;
mod host_ports;
mod identities;
mod interpolate;
mod kept;
mod leaving;
mod looking;
mod meta;
mod mock;
mod opening;
mod prepare;
mod reads;
mod replace;
mod runner;
mod secret_files;
mod secrets;
mod servers;
mod setup;
mod socket_dir;
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

use self::asking::{Asked, Asker, Asking};
use self::asks::Asks;
use self::checks::Checks;
use self::clock::Clock;
pub use self::config::AgentConfig;
use self::connection::{Lines, Link};
use self::credentials::Credentials;
pub use self::credentials::{AgentTls, joined_dir};
use self::data_dir::DataDir;
pub(crate) use self::data_dir::ServersRecord;
pub(crate) use self::data_dir::make_dir;
#[cfg(test)]
pub(crate) use self::data_dir::{FenceRecord, NodeRecord};
use self::disk_limits::DiskLimits;
use self::disk_work::{DiskWork, Done};
use self::execs::Execs;
use self::fingerprint::Inventory;
pub use self::leaving::DrainOnShutdown;
use self::leaving::Leaving;
use self::looking::Looking;
use self::meta::Metadata;
use self::opening::{containers, guard_rules, networks, user_ids};
pub use self::prepare::Host;
use self::reads::Reads;
pub use self::runner::starting_max;
use self::runner::{Context, Providers, Runners};
pub use self::servers::Servers;
pub use self::setup::{SetupMoment, never_prepared, setup_steps};
use self::usage::Sampler;
use crate::alloc_dir;
use crate::artifacts::Artifacts;
use crate::failure::{Failure, PANICKED};
use crate::images::Images;
use crate::keeper::plan::StartRecord;
use crate::lifecycle::{Alloc, AllocRecord, Event, FoundTask, GroupCache, Node, events_of};

/// News of tasks that wait to be taken in.
const EVENTS_MAX: usize = 256;

/// How often it is written that a server was heard of, while anything has to end without one.
const HEARD_EVERY_NS: u64 = 5_000_000_000;

/// How long tasks are given to end when the agent stops and takes them along, and how much more than the longest kill timeout.
const STOP_TASKS_MAX: Duration = Duration::from_secs(60);
const STOP_TASKS_BEYOND: Duration = Duration::from_secs(30);

/// How long an agent that starts waits for what is on record as ended to be cleaned up: its servers have not heard of it for a
/// while, and take its node for lost soon.
const CLEAN_UP_MAX: Duration = Duration::from_secs(3);

/// How long a stopping agent waits for its last words to be sent.
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

/// An agent and what it listens to.
type Opened = (Agent, Inputs);

/// What an agent hears of besides its connection.
struct Inputs {
    /// News of tasks.
    events: mpsc::Receiver<Event>,
    /// What its disk has done.
    done: mpsc::UnboundedReceiver<Done>,
    /// What tasks need of a server.
    asked: mpsc::Receiver<Asked>,
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
    asks: Asks,
    execs: Execs,
    asking: Asking,
    checks: Checks,
    sampler: Sampler,
    disk_limits: DiskLimits,
    disk_look_at: Instant,
    looking: Looking,
    meta: Arc<Metadata>,
    up: Option<Lines>,
    /// Where the servers of the node's cluster take agents; on disk, and known to whoever dials.
    learned: watch::Sender<Vec<String>>,
    /// Which of them were revoked; on disk, too, and known to whoever shakes hands.
    revoked: RevokedServers,
    /// When it was last written that a server was heard of.
    heard_kept_ns: u64,
    /// How long tasks are given to end when it stops and takes them along.
    stop_tasks_ns_max: u64,
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
        let credentials = Credentials::open(config.tls.as_ref(), &config.data_dir, node, revoked)?;
        let renewing = credentials.clone().keep_fresh(config.servers.clone(), agent.learned.subscribe());
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
        // The agent's end of the connection is closed; what it said last may still be on its way.
        let abort = dialing.abort_handle();
        if !dialing.is_finished() {
            let _ = timeout(FLUSH_MAX, dialing).await;
        }
        abort.abort();
        Ok(())
    }

    fn open(config: &AgentConfig) -> Result<Opened, Failure> {
        let data = Arc::new(DataDir::open(&config.data_dir)?);
        let (identity, epoch) = data.identify()?;
        let clock = Clock::start();
        let images = Images::open(&config.images, &data.image_cache(), config.keeper_command.clone())?;
        let networks = networks(config, data.path());
        let user_ids = user_ids(config, data.path());
        let without = user_ids.as_ref().err().cloned();
        let inventory = Inventory::new(config, containers(config), networks.clone(), without);
        inventory.check_reserved()?;
        let (looking, mut equipment) = Looking::begin(inventory);
        let meta = Metadata::open(data.clone(), config.meta.clone())?;
        equipment.node.meta = meta.effective();
        let (sender, events) = mpsc::channel(EVENTS_MAX);
        let node_id = AllocId(identity.node_id).to_string();
        let keeper = config.keeper_command.clone();
        let artifacts = Artifacts::new(config.artifacts.clone(), keeper.clone());
        let providers = Providers { images, artifacts, networks, user_ids };
        let (asker, asked) = Asker::new();
        let context =
            Context::new(clock, node_id, equipment, providers, keeper, sender, asker, config.on_setup);
        let context = Arc::new(context);
        let kill_timeout_ms_max = u32::try_from(config.kill_timeout_max.as_millis()).unwrap_or(u32::MAX);
        let node = Node::new(u64::from_le_bytes(*identity.node_id.first_chunk().unwrap_or(&[0; 8])))
            .with_kill_timeout_max(kill_timeout_ms_max);
        let delay_ns = nanos(config.update_delay);
        let ServersRecord { addresses, revoked } = data.servers();
        let (learned, _) = watch::channel(addresses);
        let all_revoked = RevokedServers::default();
        servers::learn_revoked(&all_revoked, revoked);
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
            asks: Asks::default(),
            execs: Execs::default(),
            asking: Asking::default(),
            checks: Checks::default(),
            sampler: Sampler::default(),
            disk_limits: DiskLimits::default(),
            disk_look_at: Instant::now(),
            looking,
            meta,
            up: None,
            learned,
            revoked: all_revoked,
            heard_kept_ns: 0,
            stop_tasks_ns_max: nanos(
                STOP_TASKS_MAX.max(config.kill_timeout_max.saturating_add(STOP_TASKS_BEYOND)),
            ),
        };
        Ok((agent, Inputs { events, done, asked }))
    }

    async fn work(
        mut self,
        mut links: mpsc::Receiver<Link>,
        inputs: Inputs,
        shutdown: impl Future<Output = ()>,
        mode: ShutdownMode,
    ) -> Result<(), Failure> {
        let Inputs { mut events, mut done, mut asked } = inputs;
        let mut meta_changes = self.meta.changes();
        let ended = self.restore().await?;
        self.finish_cleaning_up(&ended, &mut events, &mut done).await;
        let mut shutdown = pin!(shutdown);
        let mut looks = tokio::time::interval_at(Instant::now() + looking::EVERY, looking::EVERY);
        looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let (mut stop_by_ns, mut leaving) = (None, None::<Leaving>);
        loop {
            if let Some(leaving) = &mut leaving {
                self.say_leaving(leaving);
            }
            self.speak();
            if leaving.as_mut().is_some_and(|leaving| self.has_left(leaving)) && self.disk_work.is_idle() {
                return Ok(());
            }
            let ended = self.node.allocs().all(|alloc| alloc.has_ended()) && self.disk_work.is_idle();
            if stop_by_ns.is_some() && ended {
                return Ok(());
            }
            let has_room = self.disk_work.has_room();
            tokio::select! {
                () = &mut shutdown, if stop_by_ns.is_none() && leaving.is_none() => {
                    let now_ns = self.clock.now_ns();
                    match mode {
                        ShutdownMode::LeaveTasks => return Ok(()),
                        ShutdownMode::StopTasks => {
                            stop_by_ns = Some(now_ns.saturating_add(self.stop_tasks_ns_max));
                            self.stop_all();
                        }
                        ShutdownMode::Drain(how) => leaving = Some(Leaving::begin(how, now_ns)),
                    }
                }
                // A stopping agent takes no more orders: for each task that ends the server would send another one.
                Some(link) = links.recv(), if stop_by_ns.is_none() && has_room => self.on_link(link),
                Some(event) = events.recv(), if has_room => self.handle(event),
                Some(done) = done.recv() => self.on_disk_done(done),
                Some(asked) = asked.recv() => self.on_asked(asked),
                () = self.clock.sleep_until(self.deadline()) => self.handle(Event::Tick),
                () = tokio::time::sleep_until(self.disk_look_at) => self.check_disk(),
                _ = looks.tick() => self.look_again(),
                () = self.clock.sleep_until(leaving.as_ref().and_then(Leaving::give_up_at)) => {
                    tracing::warn!("not all that runs here has ended, or is known to have; the agent stops all the same");
                    return Ok(());
                }
                () = self.clock.sleep_until(stop_by_ns) => {
                    tracing::warn!("some tasks did not end in time");
                    return Ok(());
                }
                Some(found) = self.looking.found() => self.on_found(found),
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
        self.node.restore_heard(self.data.heard_ns(), self.clock.now_ns());
        self.restore_networks()?;
        self.restore_user_ids();
        self.restore_cores();
        let living = self.node.allocs().filter(|alloc| !alloc.has_ended());
        alloc_dir::secrets::sweep(self.data.path(), living.map(|alloc| self.data.place(alloc.id())))?;
        self.perform(actions);
        self.handle(Event::Tick);
        Ok(ended)
    }

    /// What had ended was about to be cleaned up, and may be on record as ended: no server hears of that before it is.
    async fn finish_cleaning_up(
        &mut self,
        ended: &[AllocId],
        events: &mut mpsc::Receiver<Event>,
        done: &mut mpsc::UnboundedReceiver<Done>,
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
            let place = self.data.place(alloc.id());
            let started = |task: &TaskSpec| StartRecord::read(&place.keeper_dir(&task.name)).ok().flatten();
            let firsts = alloc.spec().group.tasks.iter().filter_map(started).map(|start| start.first_id);
            firsts.filter(|first| *first > 0).for_each(|first| ids.restore(alloc.id(), first));
        }
    }

    fn lives(&self, alloc: AllocId) -> bool {
        self.node.alloc(alloc).is_some_and(|alloc| !alloc.has_ended())
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
            self.keep_off_cores(of);
            self.look_at_disk_soon();
        }
    }

    fn on_link(&mut self, link: Link) {
        match link {
            Link::Up(up) => {
                let node = self.context.equipment().node.clone();
                let hello = self.session.hello(&self.identity, node, self.clock.now_ns());
                let _ = up.session.try_send(Up::Hello(hello));
                let (line, secret) = (up.replies.clone(), self.identity.secret.clone());
                self.context.task_apis.connected(line, secret);
                self.up = Some(up);
            }
            Link::Down => self.disconnect(),
            Link::Message(frame) => self.on_message(frame),
        }
    }

    /// Dropping the sender ends the connection.
    fn disconnect(&mut self) {
        self.up = None;
        self.session.disconnected();
        self.reads.cancel_all();
        self.execs.cancel_all();
        self.cancel_asking();
        self.context.task_apis.disconnected();
    }

    fn on_message(&mut self, frame: DownFrame) {
        let Some(message) = frame.message else { return };
        if AgentSession::is_answer(&message) {
            self.on_heard();
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
                    self.reads.open(read, self.data.place(alloc), status, up.replies.clone());
                }
            }
            Some(SessionAction::FileCredit(credit)) => self.reads.on_credit(credit.request, credit.bytes),
            Some(SessionAction::FileCancel(cancel)) => self.reads.on_cancel(cancel.request),
            Some(SessionAction::Ask(ask)) => self.on_ask(ask),
            Some(SessionAction::Exec(exec)) => self.on_exec(exec),
            Some(SessionAction::Signed(signed)) => self.on_signed(signed),
            Some(SessionAction::Secrets(read)) => self.on_secrets(read),
            Some(SessionAction::Watched(watched)) => self.on_watched(watched),
            Some(SessionAction::TaskApi(said)) => self.context.task_apis.on_said(said),
        }
    }

    fn on_heard(&mut self) {
        let now_ns = self.clock.now_ns();
        self.handle(Event::Heard);
        if self.node.minds_silence() && now_ns.saturating_sub(self.heard_kept_ns) >= HEARD_EVERY_NS {
            self.heard_kept_ns = now_ns;
            self.disk_work.keep_heard(now_ns);
        }
    }

    /// The servers are these from now on, unless nothing of what was said can be dialed; those that were revoked stay so.
    fn on_servers(&mut self, told: berth_api::agent::Servers) {
        let servers = servers::usable(told.addresses);
        let mut changed = servers::learn_revoked(&self.revoked, told.revoked);
        if !servers.is_empty() && *self.learned.borrow() != servers {
            self.learned.send_replace(servers);
            changed = true;
        }
        if changed {
            let revoked = self.revoked.all().into_iter();
            let revoked = revoked.map(|(name, at_secs)| RevokedServer { name, at_secs }).collect();
            self.disk_work.keep_servers(ServersRecord { addresses: self.learned.borrow().clone(), revoked });
        }
    }

    /// The node belongs to another cluster from now on, if that can be written down.
    fn on_joined(&mut self, before: Fence, kept: Result<(), Failure>) {
        self.disk_work.fence_is_kept();
        let cluster = self.session.fence().cluster;
        match kept {
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

    /// Says what there is to say. A connection that takes nothing any more is given up.
    fn speak(&mut self) {
        if self.session.is_deserted(self.clock.now_ns()) {
            if self.session.is_open() {
                tracing::warn!("the server takes everything in and answers nothing: dialing again");
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
