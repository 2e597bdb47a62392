//! Traces of the latest plans, in a bounded buffer.

use std::{
    collections::VecDeque,
    sync::{Mutex, PoisonError},
};

use berth_model::{EvalId, Index, JobKey, NodeId, Timestamp};

use crate::shared::PlanTrace;

/// Plans kept; the oldest goes first.
const KEPT_MAX: usize = 1 << 15;
/// Plans of one chunk.
const CHUNK_PLANS: usize = 512;

/// The latest plans, in the order in which the applier judged them.
#[derive(Debug, Default)]
pub(crate) struct PlanTraces(Mutex<TraceChunks>);

#[derive(Debug, Default)]
struct TraceChunks {
    /// Oldest first; all but the last are full.
    chunks: VecDeque<TraceChunk>,
    /// So many traces at the front of the oldest chunk are no longer shown.
    skipped: usize,
}

/// Some traces, with names and nodes packed into shared buffers: separate allocations of a few bytes, which live long after their job
/// is gone, would keep whole pages of memory in use.
#[derive(Debug)]
struct TraceChunk {
    plans: Vec<PackedTrace>,
    /// Namespaces and ids of their jobs, one behind the other.
    names: String,
    /// The nodes of placements that were refused, one behind the other.
    nodes: Vec<NodeId>,
}

/// A plan, without what has no fixed length.
#[derive(Debug, Clone, Copy)]
struct PackedTrace {
    eval: EvalId,
    planner: u16,
    snapshot_index: Index,
    begun_at: Timestamp,
    ended_at: Timestamp,
    overtaken: usize,
    committed: usize,
    refused: usize,
    /// Where its namespace, the id of its job and its nodes end in those of the chunk.
    ends: [usize; 3],
}

impl PlanTraces {
    pub fn insert(&self, trace: PlanTrace) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(trace);
    }

    /// Those of an evaluation, or all.
    pub fn read(&self, eval: Option<EvalId>) -> Vec<PlanTrace> {
        let stored = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let all = stored.chunks.iter().flat_map(|chunk| (0..chunk.plans.len()).map(move |at| (chunk, at)));
        let matches =
            |(chunk, at): &(&TraceChunk, usize)| eval.is_none_or(|eval| chunk.plans[*at].eval == eval);
        all.skip(stored.skipped).filter(matches).map(|(chunk, at)| chunk.read(at)).collect()
    }
}

impl TraceChunks {
    fn push(&mut self, trace: PlanTrace) {
        match self.chunks.back_mut() {
            Some(last) if last.plans.len() < CHUNK_PLANS => last.push(trace),
            _ => {
                let mut next = TraceChunk::default();
                next.push(trace);
                self.chunks.push_back(next);
            }
        }
        let last = self.chunks.back().map_or(0, |chunk| chunk.plans.len());
        let count = (self.chunks.len() - 1) * CHUNK_PLANS + last;
        self.skipped = count.saturating_sub(KEPT_MAX);
        if self.skipped == CHUNK_PLANS {
            self.chunks.pop_front();
            self.skipped = 0;
        }
    }
}

impl Default for TraceChunk {
    fn default() -> Self {
        Self { plans: Vec::with_capacity(CHUNK_PLANS), names: String::new(), nodes: Vec::new() }
    }
}

impl TraceChunk {
    fn push(&mut self, trace: PlanTrace) {
        let PlanTrace {
            eval,
            job,
            planner,
            snapshot_index,
            begun_at,
            ended_at,
            overtaken,
            committed,
            refused,
            refused_nodes,
        } = trace;
        self.names.push_str(&job.namespace);
        let namespace_end = self.names.len();
        self.names.push_str(&job.id);
        self.nodes.extend(refused_nodes);
        let ends = [namespace_end, self.names.len(), self.nodes.len()];
        self.plans.push(PackedTrace {
            eval,
            planner,
            snapshot_index,
            begun_at,
            ended_at,
            overtaken,
            committed,
            refused,
            ends,
        });
    }

    fn read(&self, at: usize) -> PlanTrace {
        let PackedTrace {
            eval,
            planner,
            snapshot_index,
            begun_at,
            ended_at,
            overtaken,
            committed,
            refused,
            ends,
        } = self.plans[at];
        let [_, name_begin, nodes_begin] = at.checked_sub(1).map_or([0; 3], |before| self.plans[before].ends);
        let [namespace_end, name_end, nodes_end] = ends;
        PlanTrace {
            eval,
            job: JobKey::new(&self.names[name_begin..namespace_end], &self.names[namespace_end..name_end]),
            planner,
            snapshot_index,
            begun_at,
            ended_at,
            overtaken,
            committed,
            refused,
            refused_nodes: self.nodes[nodes_begin..nodes_end].to_vec(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn trace(number: usize) -> PlanTrace {
        PlanTrace {
            eval: EvalId(number as u128),
            job: JobKey::new("default", &format!("web-{number}")),
            planner: 0,
            snapshot_index: Index(1),
            begun_at: Timestamp(1),
            ended_at: Timestamp(2),
            overtaken: 0,
            committed: 1,
            refused: number % 3,
            refused_nodes: (0..number % 3).map(|node| NodeId((number + node) as u128)).collect(),
        }
    }

    #[test]
    fn the_latest_are_kept_and_found_by_their_evaluation() {
        let traces = PlanTraces::default();
        (0..KEPT_MAX + 10).for_each(|number| traces.insert(trace(number)));
        let all = traces.read(None);
        assert_eq!((all.len(), all[0].eval), (KEPT_MAX, EvalId(10)));
        assert_eq!((traces.read(Some(EvalId(10))).len(), traces.read(Some(EvalId(9))).len()), (1, 0));
    }

    #[test]
    fn each_is_read_as_it_was_kept() {
        let traces = PlanTraces::default();
        let numbers = KEPT_MAX + 2 * CHUNK_PLANS + 7;
        (0..numbers).for_each(|number| traces.insert(trace(number)));
        let summary = |trace: &PlanTrace| (trace.eval, trace.job.clone(), trace.refused_nodes.clone());
        let stored: Vec<_> = traces.read(None).iter().map(summary).collect();
        let expected: Vec<_> = (numbers - KEPT_MAX..numbers).map(|number| summary(&trace(number))).collect();
        assert!(stored == expected, "the first is {:?}", stored.first());
    }
}
