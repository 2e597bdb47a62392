//! State that the nodes of one connection share.

use std::{collections::HashMap, sync::Arc};

use berth_agent::{
    drivers::{ContainerConfig, Driver, DriverSwitches, Drivers, mock::MockSettings},
    lifecycle::{Action, GroupCache},
};
use berth_api::agent::{Up, UpFrame, encode_frame};
use bytes::BytesMut;

use super::{NodesConfig, TaskChange, connections::SharedConnections, timers::Timers};

/// Different settings of tasks that are kept understood.
const SETTINGS_MAX: usize = 4096;

/// All but the nodes themselves.
pub(super) struct FleetContext {
    pub config: Arc<NodesConfig>,
    pub timers: Timers,
    /// Frames that wait to be written.
    pub out: BytesMut,
    pub groups: GroupCache,
    pub drivers: Vec<Arc<dyn Driver>>,
    /// Empty between events; reused for its allocated memory.
    pub actions: Vec<Action>,
    settings: HashMap<String, Arc<MockSettings>>,
    /// The position of the server that was dialed last.
    pub server: usize,
    shared_connections: Arc<SharedConnections>,
    refusal_logged: bool,
}

impl FleetContext {
    pub fn new(config: Arc<NodesConfig>, shared_connections: Arc<SharedConnections>) -> Self {
        let switches = DriverSwitches { mock_driver: true, ..DriverSwitches::default() };
        Self {
            config,
            timers: Timers::default(),
            out: BytesMut::new(),
            groups: GroupCache::default(),
            drivers: Drivers::new(switches, ContainerConfig::default()).find().drivers,
            actions: Vec::new(),
            settings: HashMap::new(),
            server: 0,
            shared_connections,
            refusal_logged: false,
        }
    }

    /// Queues a message of the node at `position`.
    pub fn send(&mut self, position: u32, message: Up) {
        encode_frame(&UpFrame { session: position, message: Some(message) }, &mut self.out);
    }

    /// Settings that were understood before.
    pub fn settings(&self, config_json: &str) -> Option<Arc<MockSettings>> {
        self.settings.get(config_json).cloned()
    }

    /// Keeps settings that depend on nothing but their text.
    pub fn cache_settings(&mut self, config_json: String, settings: Arc<MockSettings>) {
        if self.settings.len() >= SETTINGS_MAX {
            self.settings.clear();
        }
        self.settings.insert(config_json, settings);
    }

    /// A node was refused. One of them stands for all: a server that refuses thousands has one reason.
    pub fn refused(&mut self, node: u32, reason: &str) {
        if std::mem::replace(&mut self.refusal_logged, true) {
            tracing::debug!(node, reason, "the server refuses a node");
        } else {
            tracing::warn!(node, reason, "the server refuses a node; further refusals are not logged");
        }
    }

    /// A node's session is open now.
    pub fn opened(&self) {
        let count = self.config.count;
        if self.shared_connections.open(self.server) == count {
            tracing::info!(count, "all nodes are connected");
        }
    }

    /// A node's session is open no more.
    pub fn closed(&self) {
        self.shared_connections.close(self.server);
    }

    /// Counts bytes that were written to a server.
    pub fn sent(&self, bytes: usize) {
        self.shared_connections.sent(bytes as u64);
    }

    /// A task has started or ended.
    pub fn counts(&self, change: TaskChange) {
        self.shared_connections.task(change);
    }
}
