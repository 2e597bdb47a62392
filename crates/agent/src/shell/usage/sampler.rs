//! Samples the usage of all tasks and of the machine at once; requests shortly after share the sample.

use std::cell::LazyCell;
use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use berth_api::agent::{CpuUsage, NodeUsage, TaskUsage};
use tokio::sync::Mutex;
use tokio::time::{Instant, sleep};

use super::cgroup::{Buffer, CgroupCounters, CgroupUsage, Throttled};
use super::machine::MachineTimes;
use super::processes::{self, ProcessTree};
use crate::failure::PANICKED;
use crate::keeper::plan::StartRecord;
use crate::lifecycle::TaskRef;
use crate::proc;
use crate::shell::runner::Context;

/// How old a sample may be that somebody is shown.
const AGE_MAX: Duration = Duration::from_secs(1);
/// Processor time is the difference of two readings: an older one is of no use.
const BEFORE_MAX: Duration = Duration::from_secs(10);
/// The interval between two readings where there is none to compare with.
const SPAN: Duration = Duration::from_millis(200);

/// A task that is to be measured.
#[derive(Debug, Clone)]
pub(super) struct SampledTask {
    pub(super) of: TaskRef,
    pub(super) name: String,
    pub(super) keeper_dir: PathBuf,
    /// Nothing can be measured of tasks that are only pretended.
    pub(super) pretended: bool,
}

/// What was used up to a moment.
pub(super) struct Sample {
    pub(super) node: NodeUsage,
    /// Without their names; of those that could be measured.
    pub(super) tasks: HashMap<TaskRef, TaskUsage>,
}

/// The last sample; its lock is held while the next one is made.
#[derive(Clone, Default)]
pub(crate) struct Sampler(Arc<Mutex<Option<Latest>>>);

struct Latest {
    reading: UsageReading,
    sample: Arc<Sample>,
}

/// One reading of all counters.
struct UsageReading {
    at: Instant,
    machine: MachineTimes,
    /// None of those that could not be measured.
    tasks: HashMap<TaskRef, Option<TaskReading>>,
}

/// One reading of a task's counters.
struct TaskReading {
    counts: CgroupUsage,
    counters: Arc<TaskCounters>,
}

/// Where the counters of one start of a task are; the same at each reading.
struct TaskCounters {
    keeper: i32,
    main: i32,
    /// The counters of a container; for other tasks their processes are read.
    cgroup: Option<CgroupCounters>,
}

type KnownCounters = HashMap<TaskRef, Arc<TaskCounters>>;

impl Sampler {
    /// A sample that is at most a second old and knows these tasks.
    pub(super) async fn latest(
        &self,
        tasks: Vec<SampledTask>,
        context: Arc<Context>,
        data_dir: PathBuf,
    ) -> Arc<Sample> {
        // Whoever comes while a sample is made waits for that one.
        let mut latest = self.0.lock().await;
        let is_fresh =
            |latest: &Latest| latest.reading.at.elapsed() < AGE_MAX && latest.reading.knows(&tasks, AGE_MAX);
        if let Some(latest) = latest.as_ref().filter(|latest| is_fresh(latest)) {
            return latest.sample.clone();
        }
        let last = latest.take().map(|latest| latest.reading);
        let known = last.as_ref().map(UsageReading::counters).unwrap_or_default();
        let before = match last.filter(|reading| reading.knows(&tasks, BEFORE_MAX)) {
            Some(before) => before,
            None => {
                let before = read(tasks.clone(), known).await;
                sleep(SPAN).await;
                before
            }
        };
        let reading = read(tasks, before.counters()).await;
        let compare = move || {
            let sample = Arc::new(reading.since(&before, &context, &data_dir));
            Latest { reading, sample }
        };
        match tokio::task::spawn_blocking(compare).await {
            Ok(made) => latest.insert(made).sample.clone(),
            Err(_) => {
                tracing::error!(error = PANICKED, "could not measure what is used");
                Arc::new(Sample { node: NodeUsage::default(), tasks: HashMap::new() })
            }
        }
    }
}

/// Reads all processes at most once, for all tasks; on a thread where that blocks nothing else.
async fn read(tasks: Vec<SampledTask>, known: KnownCounters) -> UsageReading {
    let reading = tokio::task::spawn_blocking(move || {
        let tree = LazyCell::new(ProcessTree::read as fn() -> ProcessTree);
        let measured = tasks.iter().filter(|task| !task.pretended);
        let mut buffer = Buffer::new();
        let mut read = |task: &SampledTask| read_task(task, known.get(&task.of), &tree, &mut buffer);
        let tasks = measured.map(|task| (task.of, read(task))).collect();
        UsageReading { at: Instant::now(), machine: MachineTimes::read(), tasks }
    });
    reading.await.unwrap_or_else(|_| UsageReading {
        at: Instant::now(),
        machine: MachineTimes::read(),
        tasks: HashMap::new(),
    })
}

fn read_task(
    task: &SampledTask,
    known: Option<&Arc<TaskCounters>>,
    tree: &LazyCell<ProcessTree, fn() -> ProcessTree>,
    buffer: &mut Buffer,
) -> Option<TaskReading> {
    let counters = known.cloned().or_else(|| TaskCounters::find(task).map(Arc::new))?;
    let counts = match &counters.cgroup {
        Some(cgroup) => cgroup.read(buffer)?,
        None => {
            let processes = tree.of_task(counters.keeper, counters.main);
            let counts = || CgroupUsage {
                spent: tree.spent(&processes),
                throttled: None,
                memory: processes::memory(&processes),
            };
            (!processes.is_empty()).then(counts)?
        }
    };
    Some(TaskReading { counts, counters })
}

impl TaskCounters {
    fn find(task: &SampledTask) -> Option<Self> {
        let StartRecord { keeper_pid: keeper, pid: main, container, .. } =
            StartRecord::read(&task.keeper_dir).ok().flatten()?;
        // One that is only claimed has no process yet.
        let is_container = main > 0 && container.is_some();
        let cgroup = proc::pid(main).filter(|_| is_container).and_then(CgroupCounters::of);
        (main > 0).then_some(Self { keeper, main, cgroup })
    }
}

impl UsageReading {
    /// Whether it is young enough, and includes these tasks.
    fn knows(&self, tasks: &[SampledTask], age_max: Duration) -> bool {
        self.at.elapsed() < age_max
            && tasks.iter().all(|task| task.pretended || self.tasks.contains_key(&task.of))
    }

    /// The counters of the tasks that could be measured.
    fn counters(&self) -> KnownCounters {
        let of = |(of, read): (&TaskRef, &Option<TaskReading>)| Some((*of, read.as_ref()?.counters.clone()));
        self.tasks.iter().filter_map(of).collect()
    }

    fn since(&self, before: &Self, context: &Context, data_dir: &std::path::Path) -> Sample {
        let core_mhz = core_mhz(context);
        let seconds = self.at.duration_since(before.at).as_secs_f64().max(0.001);
        let usage = |(of, after): (&TaskRef, &Option<TaskReading>)| {
            let (before, after) = (before.tasks.get(of).and_then(Option::as_ref), after.as_ref()?);
            let cpu = before.map(|before| cpu(before, after, seconds, core_mhz));
            Some((*of, TaskUsage { cpu, memory: Some(after.counts.memory), ..TaskUsage::default() }))
        };
        let node = self.machine.since(&before.machine, core_mhz, data_dir, context.clock.now_ns());
        Sample { node, tasks: self.tasks.iter().filter_map(usage).collect() }
    }
}

/// MHz of one core, as the node was fingerprinted.
fn core_mhz(context: &Context) -> f64 {
    let equipment = context.equipment();
    equipment.node.attributes.get("cpu.frequency").and_then(|mhz| mhz.parse().ok()).unwrap_or_default()
}

fn cpu(before: &TaskReading, after: &TaskReading, seconds: f64, core_mhz: f64) -> CpuUsage {
    let percent = |before: f64, after: f64| ((after - before) / seconds * 100.0).max(0.0);
    let user_percent = percent(before.counts.spent.user_s, after.counts.spent.user_s);
    let system_percent = percent(before.counts.spent.system_s, after.counts.spent.system_s);
    let throttled: Option<Throttled> = after.counts.throttled;
    CpuUsage {
        user_percent,
        system_percent,
        mhz: (user_percent + system_percent) / 100.0 * core_mhz,
        throttled_periods: throttled.map(|throttled| throttled.periods),
        throttled_ns: throttled.map(|throttled| throttled.ns),
    }
}
