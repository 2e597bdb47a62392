//! An engine that commits all proposals at once.

use std::{
    collections::VecDeque,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering},
    },
    time::Duration,
};

use arc_swap::ArcSwap;
use async_trait::async_trait;
use berth_model::{
    AllocId, EvalId, Index, Timestamp,
    command::{Command, Entry},
    event::StateChange,
    observed::ObservedAlloc,
};

use super::fake_agents::FakeAgents;
use crate::{
    Change, EventHub, Kek, Keyring, WatchKey, Watchers,
    access::{self, Access, CallerView, Capability, NamespaceFrom},
    engine::{of_state, woken_by},
    shared::{
        Committed, Contact, Engine, LogPosition, Measured, Metric, PlanTrace, ProposeError, ServerChange,
        ServerInfo, Servers, State, View,
    },
};

/// The time of the first entry: 2023-11-14T22:13:20Z.
const EPOCH_NS: u64 = 1_700_000_000_000_000_000;

#[derive(Default)]
pub struct FakeEngine {
    pub view: Arc<ArcSwap<View>>,
    pub watchers: Arc<Watchers>,
    pub events: Arc<EventHub>,
    minted: AtomicU64,
    /// There is nothing to be read.
    pub has_no_state: AtomicBool,
    /// It hears of no other server.
    pub is_cut_off: AtomicBool,
    /// What the next proposal fails with.
    pub failure: Mutex<Option<ProposeError>>,
    /// So many proposals are committed before that one.
    pub commits_before_failure: AtomicU32,
    /// Another server leads before this part of a snapshot is proposed, and abandons those before it; 0 for never.
    pub deposed_at_part: AtomicU32,
    /// This part of a snapshot is proposed, and nobody says what became of it; 0 for none.
    pub unknown_at_part: AtomicU32,
    /// What it commits it has not applied by the time that it answers.
    pub is_behind: AtomicBool,
    /// Its disk takes nothing more.
    pub disk_is_full: AtomicBool,
    /// What somebody else writes before the next proposal.
    pub preceded_by: Mutex<Vec<Command>>,
    /// What somebody else has written by the time that the next proposals are answered, for each of them.
    pub overtaken_by: Mutex<VecDeque<Vec<Command>>>,
    pub agents: Arc<FakeAgents>,
    /// What is known of the latest plans.
    pub plans: Mutex<Vec<PlanTrace>>,
    pub keyring: Arc<Keyring>,
    /// Other servers take no key-encryption keys.
    pub shares_no_keks: AtomicBool,
    /// All servers, and the leader them; empty for one that is alone.
    pub servers: Mutex<Servers>,
}

impl FakeEngine {
    /// The state as a caller sees it who may do this everywhere.
    pub fn seen_with(&self, capability: Capability) -> CallerView {
        let access =
            Access::check(access::open(), capability, NamespaceFrom::Items, "").expect("all is granted");
        let contact = self.contact();
        CallerView::new(self.view.load_full(), access.into(), contact)
    }

    pub fn state(self: &Arc<Self>) -> State {
        let server = ServerInfo {
            name: "s1".into(),
            region: "global".into(),
            datacenter: "dc1".into(),
            http_addr: "127.0.0.1:4646".into(),
            agent_addr: "127.0.0.1:4647".into(),
            version: "0.1.0".into(),
            settings: vec![("data_dir".into(), "/var/lib/berth".into())],
            ..ServerInfo::default()
        };
        State {
            view: self.view.clone(),
            watchers: self.watchers.clone(),
            events: self.events.clone(),
            engine: self.clone(),
            agents: self.agents.clone(),
            server: Arc::new(server),
            keyring: self.keyring.clone(),
            policy: access::policy(false),
        }
    }

    /// Applies commands as the entry after the last change.
    pub fn apply(&self, commands: Vec<Command>) -> Committed {
        let mut view = View::clone(&self.view.load());
        let index = Index(view.index.0 + 1);
        let at = Timestamp(EPOCH_NS + index.0 * 1_000_000_000);
        let applied = view.store.apply(Entry::new(index, at, commands));
        view.index = index;
        for event in &applied.events {
            if let StateChange::AllocEnded(slot) = event {
                let row = view.store.allocs().row(*slot).expect("it is there");
                view.observed.end(*slot, row.id, row.job, row.group);
            }
        }
        if !self.is_behind.load(Ordering::Relaxed) {
            self.publish(view, applied.events.into_iter().map(Change::Logged).collect());
        }
        Committed { index, outcomes: applied.outcomes }
    }

    /// Takes an observation in.
    pub fn observe(&self, alloc: ObservedAlloc) {
        let mut view = View::clone(&self.view.load());
        let id = alloc.id;
        let (slot, row) = view.store.alloc(id).map(|(slot, row)| (slot, *row)).expect("it was placed");
        view.index = Index(view.index.0 + 1);
        view.observed.record(slot, row.job, row.group, Arc::new(alloc), view.index);
        self.publish(view, vec![Change::Observed(slot, id)]);
    }

    fn failure_of_next(&self) -> Option<ProposeError> {
        let mut failure = self.failure.lock().expect("no test panics here");
        let before = self.commits_before_failure.load(Ordering::Relaxed);
        if failure.is_none() || before == 0 {
            return failure.take();
        }
        self.commits_before_failure.store(before - 1, Ordering::Relaxed);
        None
    }

    fn publish(&self, view: View, changes: Vec<Change>) {
        let view = Arc::new(view);
        let before = self.view.swap(view.clone());
        let keys: Vec<WatchKey> = changes.iter().flat_map(|change| woken_by(&view, change)).collect();
        self.events.publish(&before, &view, view.index, changes);
        self.watchers.wake(keys);
    }
}

#[async_trait]
impl Engine for FakeEngine {
    async fn propose(&self, commands: Vec<Command>) -> Result<Committed, ProposeError> {
        match self.failure_of_next() {
            Some(error) => Err(error),
            None => {
                let before = std::mem::take(&mut *self.preceded_by.lock().expect("no test panics here"));
                if !before.is_empty() {
                    self.apply(before);
                }
                let part = match &commands[..] {
                    [Command::RestorePart(part)] => part.number,
                    _ => 0,
                };
                if part > 0 && part == self.deposed_at_part.load(Ordering::Relaxed) {
                    self.apply(vec![Command::AbandonRestore]);
                }
                if part > 0 && part == self.unknown_at_part.load(Ordering::Relaxed) {
                    return Err(ProposeError::Unknown("no answer".to_owned()));
                }
                let committed = self.apply(commands);
                let others = self.overtaken_by.lock().expect("no test panics here").pop_front();
                if let Some(others) = others {
                    self.apply(others);
                }
                Ok(committed)
            }
        }
    }

    fn servers(&self) -> Servers {
        self.servers.lock().expect("no test panics here").clone()
    }

    async fn change_servers(&self, change: ServerChange) -> Result<(), String> {
        let mut servers = self.servers.lock().expect("no test panics here");
        let ServerChange::Transfer(to) = change else { return Err("it changes no others".to_owned()) };
        let other = servers.all.iter().map(|server| server.id).find(|id| Some(*id) != servers.leader);
        servers.leader = to.or(other);
        servers.leader.map(drop).ok_or_else(|| "this server has no others".to_owned())
    }

    async fn share_kek(&self, _: &Kek) -> Result<(), String> {
        if self.shares_no_keks.load(Ordering::Relaxed) {
            return Err("too few servers have taken the new key-encryption key".to_owned());
        }
        Ok(())
    }

    fn mint_id(&self) -> u128 {
        AllocId(0xe0 << 120 | u128::from(self.minted.fetch_add(1, Ordering::Relaxed))).0
    }

    fn has_state(&self) -> bool {
        !self.has_no_state.load(Ordering::Relaxed)
    }

    fn disk(&self) -> Result<(), String> {
        if self.disk_is_full.load(Ordering::Relaxed) { Err("disk full".to_owned()) } else { Ok(()) }
    }

    fn contact(&self) -> Contact {
        let last_contact = Duration::from_secs(if self.is_cut_off.load(Ordering::Relaxed) { 60 } else { 0 });
        Contact { known_leader: true, last_contact }
    }

    async fn fresh(&self) -> Result<(), String> {
        if self.is_cut_off.load(Ordering::Relaxed) { Err("no server leads".to_owned()) } else { Ok(()) }
    }

    fn log_position(&self) -> LogPosition {
        LogPosition { term: 2, index: 9 }
    }

    fn metrics(&self) -> Vec<Metric> {
        let written = Measured::Counter(512.0);
        let view = self.view.load();
        let mut all = of_state(&view, view.store.at());
        all.push(Metric::one("berth_log_bytes_total", "Bytes written to the log.", written));
        all
    }

    fn plans(&self, eval: Option<EvalId>) -> Vec<PlanTrace> {
        let plans = self.plans.lock().expect("no test panics here");
        plans.iter().filter(|plan| eval.is_none_or(|eval| plan.eval == eval)).cloned().collect()
    }
}
