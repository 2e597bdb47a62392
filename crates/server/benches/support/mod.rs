//! What benchmarks of the HTTP side have in common.

mod engine;
mod process;

use std::sync::Arc;

use arc_swap::ArcSwap;
use berth_server::{
    EventHub, Watchers,
    state::{ServerInfo, State, View},
};

use engine::Silent;
pub use process::{Cpu, resident_kib};

pub type Outcome<T> = Result<T, Box<dyn std::error::Error>>;

/// A cluster as handlers see it, which only its benchmark changes.
pub fn state(view: &Arc<ArcSwap<View>>, watchers: &Arc<Watchers>, events: &Arc<EventHub>) -> State {
    State {
        view: view.clone(),
        watchers: watchers.clone(),
        events: events.clone(),
        engine: Arc::new(Silent),
        agents: Arc::new(Silent),
        server: Arc::new(ServerInfo::default()),
        keyring: Arc::default(),
    }
}
