//! Frames that wait to be sent. Each kind of work has a lane of its own, so that a snapshot never holds up a heartbeat.

use std::{
    collections::VecDeque,
    pin::pin,
    sync::{Mutex, MutexGuard, PoisonError},
};

use bytes::Bytes;
use tokio::sync::Notify;

use super::frame::Method;

/// Frames that wait in a lane. Whoever sends keeps fewer on their way; more are refused.
pub(crate) const LANE_FRAMES_MAX: usize = 4096;
/// Bytes that wait in a lane.
pub(crate) const LANE_BYTES_MAX: usize = 64 << 20;
/// After so many frames of the first lane that has any, one of the last that has any goes first: what is not urgent
/// goes on under any load.
const TURNS: u32 = 8;

/// The order in which frames go.
const LANES: usize = 5;

fn lane(method: Method) -> usize {
    match method {
        Method::Heartbeat | Method::Vote | Method::PreVote | Method::Transfer => 0,
        Method::Append => 1,
        Method::Request => 2,
        Method::Relay => 3,
        Method::SnapshotBegin | Method::SnapshotPiece | Method::SnapshotEnd => 4,
    }
}

/// The frames of one connection.
#[derive(Debug, Default)]
pub(crate) struct Lanes {
    waiting: Mutex<QueuedFrames>,
    came: Notify,
    /// A frame has left the lane of messages.
    left: Notify,
}

#[derive(Debug, Default)]
struct QueuedFrames {
    lanes: [Lane; LANES],
    turn: u32,
    closed: bool,
}

#[derive(Debug, Default)]
struct Lane {
    frames: VecDeque<Bytes>,
    bytes: usize,
}

impl Lanes {
    fn waiting(&self) -> MutexGuard<'_, QueuedFrames> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Puts a frame at the end of its lane; whether there was space.
    pub fn push(&self, method: Method, frame: Bytes) -> bool {
        let mut waiting = self.waiting();
        let closed = waiting.closed;
        let lane = &mut waiting.lanes[lane(method)];
        let full = lane.frames.len() >= LANE_FRAMES_MAX || lane.bytes + frame.len() > LANE_BYTES_MAX;
        if closed || full {
            return false;
        }
        lane.bytes += frame.len();
        lane.frames.push_back(frame);
        drop(waiting);
        self.came.notify_one();
        true
    }

    /// The next frame, if one waits.
    pub fn try_next(&self) -> Option<Bytes> {
        let mut waiting = self.waiting();
        waiting.turn = (waiting.turn + 1) % TURNS;
        let patient_first = waiting.turn == 0;
        let mut lanes = waiting.lanes.iter_mut().filter(|lane| !lane.frames.is_empty());
        let lane = if patient_first { lanes.next_back() } else { lanes.next() }?;
        let frame = lane.frames.pop_front()?;
        lane.bytes -= frame.len();
        drop(waiting);
        self.left.notify_waiters();
        Some(frame)
    }

    /// Waits until less than `bytes` wait in a lane, or the lanes are closed.
    pub async fn wait_for_capacity(&self, method: Method, bytes: usize) {
        loop {
            let mut left = pin!(self.left.notified());
            left.as_mut().enable();
            if self.has_room(method, bytes) {
                return;
            }
            left.await;
        }
    }

    fn has_room(&self, method: Method, bytes: usize) -> bool {
        let waiting = self.waiting();
        waiting.closed || waiting.lanes[lane(method)].bytes < bytes
    }

    /// The next frame; none once the lanes are closed.
    pub async fn next(&self) -> Option<Bytes> {
        loop {
            let came = self.came.notified();
            if let Some(frame) = self.try_next() {
                return Some(frame);
            }
            if self.waiting().closed {
                return None;
            }
            came.await;
        }
    }

    /// Nothing more is taken, and what waits is gone.
    pub fn close(&self) {
        let mut waiting = self.waiting();
        *waiting = QueuedFrames { closed: true, ..QueuedFrames::default() };
        drop(waiting);
        self.came.notify_one();
        self.left.notify_waiters();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(text: &'static str) -> Bytes {
        Bytes::from_static(text.as_bytes())
    }

    #[test]
    fn heartbeats_overtake_a_snapshot_and_never_starve_it() {
        let lanes = Lanes::default();
        for _ in 0..3 {
            assert!(lanes.push(Method::SnapshotPiece, frame("piece")));
        }
        for _ in 0..20 {
            assert!(lanes.push(Method::Heartbeat, frame("beat")));
        }
        let order: Vec<Bytes> = std::iter::from_fn(|| lanes.try_next()).collect();
        let pieces: Vec<usize> = (0..order.len()).filter(|at| order[*at] == "piece").collect();
        assert_eq!(pieces, [7, 15, 22]);
    }

    #[test]
    fn a_full_lane_refuses_and_the_others_do_not() {
        let lanes = Lanes::default();
        let large = Bytes::from(vec![0; LANE_BYTES_MAX]);
        assert!(lanes.push(Method::SnapshotPiece, large));
        assert!(!lanes.push(Method::SnapshotPiece, frame("more")));
        assert!(lanes.push(Method::Append, frame("entry")));
        lanes.close();
        assert!(!lanes.push(Method::Append, frame("entry")));
        assert_eq!(lanes.try_next(), None);
    }
}
