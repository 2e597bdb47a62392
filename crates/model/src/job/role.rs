//! When a task of a group runs, and within which bounds a group or task may be scaled.

use std::collections::BTreeMap;

use minicbor::{Decode, Encode};

use crate::value::Value;

/// When a task runs that is not one of the group's main tasks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
#[cbor(index_only)]
pub enum Hook {
    /// Before the main tasks, which wait for its end, or as a sidecar for its start.
    #[n(0)]
    Prestart,
    /// Once the main tasks run.
    #[n(1)]
    Poststart,
    /// Once the main tasks have ended.
    #[n(2)]
    Poststop,
}

/// The hook of a task.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
pub struct Lifecycle {
    /// The phase of the allocation in which the task runs.
    #[n(0)]
    pub hook: Hook,
    /// It lives as long as the main tasks do.
    #[n(1)]
    pub sidecar: bool,
}

impl Lifecycle {
    /// Whether it lives on beside the main tasks; what runs after them cannot.
    pub fn is_sidecar(self) -> bool {
        self.sidecar && self.hook != Hook::Poststop
    }

    /// When a task runs that has this lifecycle, or none.
    pub fn phases(lifecycle: Option<Self>) -> &'static [TaskPhase] {
        match lifecycle.map(|lifecycle| (lifecycle.hook, lifecycle.sidecar)) {
            Some((Hook::Prestart, true)) => &[TaskPhase::Before, TaskPhase::During],
            Some((Hook::Prestart, false)) => &[TaskPhase::Before],
            Some((Hook::Poststop, _)) => &[TaskPhase::After],
            Some((Hook::Poststart, _)) | None => &[TaskPhase::During],
        }
    }
}

/// A part of an allocation's life; what runs in none of the same never runs at the same time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TaskPhase {
    /// Until the main tasks begin.
    Before,
    /// While they run.
    During,
    /// Once they and all that lives beside them have ended.
    After,
}

impl TaskPhase {
    /// In the order in which they follow each other.
    pub const ALL: [Self; 3] = [Self::Before, Self::During, Self::After];
}

impl Default for Lifecycle {
    fn default() -> Self {
        Self { hook: Hook::Prestart, sidecar: false }
    }
}

/// Bounds for those who scale a group, and what an autoscaler needs to know.
#[derive(Debug, Clone, PartialEq, Encode, Decode)]
pub struct Scaling {
    /// `horizontal` for a group's count; `vertical_cpu` and `vertical_mem` for a task.
    #[n(0)]
    pub kind: String,
    /// Whether autoscalers may act.
    #[n(1)]
    pub enabled: bool,
    /// The least count that scaling may set.
    #[n(2)]
    pub min: u32,
    /// The largest count that scaling may set.
    #[n(3)]
    pub max: u32,
    /// What only the autoscaler understands.
    #[n(4)]
    pub policy: BTreeMap<String, Value>,
}

impl Default for Scaling {
    fn default() -> Self {
        Self { kind: String::new(), enabled: true, min: 0, max: 0, policy: BTreeMap::new() }
    }
}
