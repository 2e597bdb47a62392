//! Shared code of the benchmarks of the HTTP API.

mod engine;
mod process;

use std::sync::Arc;

use arc_swap::ArcSwap;
use berth_server::{
    EventHub, Watchers,
    shared::{State, View},
};

use engine::Silent;
pub use process::{Cpu, resident_kib};

pub type Outcome<T> = Result<T, Box<dyn std::error::Error>>;

/// A cluster as handlers see it, which only its benchmark changes.
pub fn state(view: &Arc<ArcSwap<View>>, watchers: &Arc<Watchers>, events: &Arc<EventHub>) -> State {
    let silent = Arc::new(Silent);
    State::open(view.clone(), watchers.clone(), events.clone(), silent.clone(), silent)
}
