//! One thread, a clock of its own, and tasks that are polled in an order drawn from the seed.
//!
//! Every task belongs to an [`Owner`], which is one run of one program: what it spawns belongs to it too. A crash drops
//! all that an owner has, a pause leaves it unpolled. The executor is found through the thread that it runs on, because
//! the consensus engine spawns and sleeps without naming one.

mod runtime;
mod time;

use std::{
    cell::RefCell,
    collections::{BTreeMap, BTreeSet},
    future::Future,
    pin::Pin,
    sync::{Arc, Mutex, PoisonError},
    task::{Context, Poll, Wake, Waker},
};

use crate::random::Random;
pub use runtime::Simulated;
pub use time::{now_ns, sleep_ns, sleep_until_ns};

/// One run of one program, of which a crash leaves nothing in memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct Owner(pub u64);

/// Whoever watches: never crashes, never pauses.
pub const WORLD: Owner = Owner(0);

type Work = Pin<Box<dyn Future<Output = ()>>>;

struct Task {
    owner: Owner,
    /// None while it is polled.
    work: Option<Work>,
    waker: Waker,
}

/// How long a disk takes for one piece of work, in nanoseconds.
#[derive(Debug, Clone, Copy)]
pub struct DiskPace {
    /// At least.
    pub min_ns: u64,
    /// Less than.
    pub max_ns: u64,
}

/// A disk without troubles.
pub const PACE: DiskPace = DiskPace { min_ns: 50_000, max_ns: 2_000_000 };

/// All tasks and timers of a simulation.
struct Executor {
    now_ns: u64,
    random: Random,
    tasks: BTreeMap<u64, Task>,
    tasks_begun: u64,
    ready: BTreeSet<u64>,
    /// What was woken since the last step. In whichever order: sets have their own.
    woken: Arc<Mutex<Vec<u64>>>,
    timers: BTreeMap<(u64, u64), Waker>,
    timers_set: u64,
    current: Owner,
    paused: BTreeMap<Owner, BTreeSet<u64>>,
    ended: BTreeSet<Owner>,
    paces: BTreeMap<Owner, DiskPace>,
    polls: u64,
}

thread_local! {
    static EXECUTOR: RefCell<Option<Executor>> = const { RefCell::new(None) };
}

/// Nothing may be polled or dropped within `look`: that would look for the executor again.
fn with<T>(look: impl FnOnce(&mut Executor) -> T) -> T {
    EXECUTOR.with_borrow_mut(|executor| look(executor.as_mut().expect("a simulation runs on this thread")))
}

struct WakeTask {
    id: u64,
    woken: Arc<Mutex<Vec<u64>>>,
}

impl Wake for WakeTask {
    fn wake(self: Arc<Self>) {
        self.woken.lock().unwrap_or_else(PoisonError::into_inner).push(self.id);
    }
}

/// Begins a simulation on this thread; its end is the guard's.
pub fn begin(random: Random) -> Running {
    let executor = Executor {
        now_ns: 0,
        random,
        tasks: BTreeMap::new(),
        tasks_begun: 0,
        ready: BTreeSet::new(),
        woken: Arc::default(),
        timers: BTreeMap::new(),
        timers_set: 0,
        current: WORLD,
        paused: BTreeMap::new(),
        ended: BTreeSet::new(),
        paces: BTreeMap::new(),
        polls: 0,
    };
    EXECUTOR.set(Some(executor));
    Running(())
}

/// Ends the simulation of this thread when it is dropped.
pub struct Running(());

impl Drop for Running {
    fn drop(&mut self) {
        // Tasks look for the executor while they are dropped.
        let tasks = with(|executor| std::mem::take(&mut executor.tasks));
        drop(tasks);
        let executor = EXECUTOR.take();
        drop(executor);
    }
}

/// Begins a task of whoever is polled now.
pub fn spawn(work: impl Future<Output = ()> + 'static) {
    let owner = with(|executor| executor.current);
    spawn_for(owner, work);
}

/// Begins a task of an owner; nothing if that has ended.
pub fn spawn_for(owner: Owner, work: impl Future<Output = ()> + 'static) {
    let work: Work = Box::pin(work);
    let refused = with(|executor| {
        if executor.ended.contains(&owner) {
            return Some(work);
        }
        executor.tasks_begun += 1;
        let id = executor.tasks_begun;
        let waker = Waker::from(Arc::new(WakeTask { id, woken: executor.woken.clone() }));
        executor.tasks.insert(id, Task { owner, work: Some(work), waker });
        executor.ready.insert(id);
        None
    });
    drop(refused);
}

/// Drops all tasks of an owner, and all that it will ever begin: what a crash leaves of it.
pub fn end(owner: Owner) {
    let tasks: Vec<Task> = with(|executor| {
        executor.ended.insert(owner);
        executor.paused.remove(&owner);
        let ids: Vec<u64> =
            executor.tasks.iter().filter(|(_, task)| task.owner == owner).map(|(id, _)| *id).collect();
        ids.iter().filter_map(|id| executor.tasks.remove(id)).collect()
    });
    drop(tasks);
}

/// Leaves the tasks of an owner unpolled until [`resume`].
pub fn pause(owner: Owner) {
    with(|executor| {
        executor.paused.entry(owner).or_default();
    });
}

/// Goes on with a paused owner.
pub fn resume(owner: Owner) {
    with(|executor| {
        let waiting = executor.paused.remove(&owner).unwrap_or_default();
        executor.ready.extend(waiting);
    });
}

/// Sets how long an owner's disk takes.
pub fn set_pace(owner: Owner, pace: DiskPace) {
    with(|executor| {
        executor.paces.insert(owner, pace);
    });
}

/// Draws how long the disk of whoever is polled now takes for the next piece of work.
fn disk_time_ns() -> u64 {
    with(|executor| {
        let pace = executor.paces.get(&executor.current).copied().unwrap_or(PACE);
        executor.random.within(pace.min_ns..pace.max_ns)
    })
}

/// A random number for whoever is polled now.
pub fn random_u64() -> u64 {
    with(|executor| executor.random.next_u64())
}

/// How often tasks were polled.
pub fn polls() -> u64 {
    with(|executor| executor.polls)
}

/// Polls one task that is ready, or lets time pass to the next timer, not beyond `until_ns`. False when that is reached.
pub fn step(until_ns: u64) -> bool {
    match next() {
        Some((id, owner, work, waker)) => {
            poll(id, owner, work, &waker);
            true
        }
        None => pass(until_ns),
    }
}

fn next() -> Option<(u64, Owner, Work, Waker)> {
    with(|executor| {
        executor.take_woken();
        loop {
            let count = executor.ready.len() as u64;
            if count == 0 {
                return None;
            }
            let nth = executor.random.below(count) as usize;
            let id = *executor.ready.iter().nth(nth)?;
            executor.ready.remove(&id);
            let Some(task) = executor.tasks.get_mut(&id) else { continue };
            let (owner, waker) = (task.owner, task.waker.clone());
            if let Some(waiting) = executor.paused.get_mut(&owner) {
                waiting.insert(id);
                continue;
            }
            let Some(work) = task.work.take() else { continue };
            executor.current = owner;
            executor.polls += 1;
            return Some((id, owner, work, waker));
        }
    })
}

fn poll(id: u64, owner: Owner, mut work: Work, waker: &Waker) {
    let done = work.as_mut().poll(&mut Context::from_waker(waker)) == Poll::Ready(());
    let rest = with(|executor| {
        if done || executor.ended.contains(&owner) {
            return (executor.tasks.remove(&id), Some(work));
        }
        if let Some(task) = executor.tasks.get_mut(&id) {
            task.work = Some(work);
            return (None, None);
        }
        (None, Some(work))
    });
    // Still in its owner's name: destructors may spawn.
    drop(rest);
    with(|executor| executor.current = WORLD);
}

fn pass(until_ns: u64) -> bool {
    let due = with(|executor| {
        let at_ns = executor.timers.first_key_value().map_or(u64::MAX, |((at_ns, _), _)| *at_ns);
        if at_ns > until_ns {
            executor.now_ns = executor.now_ns.max(until_ns);
            return None;
        }
        executor.now_ns = executor.now_ns.max(at_ns);
        let later = executor.timers.split_off(&(executor.now_ns + 1, 0));
        Some(std::mem::replace(&mut executor.timers, later))
    });
    let Some(due) = due else { return false };
    due.into_values().for_each(Waker::wake);
    true
}

impl Executor {
    fn take_woken(&mut self) {
        let woken = std::mem::take(&mut *self.woken.lock().unwrap_or_else(PoisonError::into_inner));
        self.ready.extend(woken.into_iter().filter(|id| self.tasks.contains_key(id)));
    }
}
