//! Looks at all tasks and the machine at once, and answers everybody who asks soon after the same.

use std::cell::LazyCell;
use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use berth_api::agent::{CpuUsage, NodeUsage, TaskUsage};
use nix::unistd::Pid;
use tokio::sync::Mutex;
use tokio::time::{Instant, sleep};

use super::cgroup::{Buffer, Counted, Counts, Throttled};
use super::machine::Machine;
use super::processes::{self, Tree};
use crate::failure::PANICKED;
use crate::keeper::plan::StartRecord;
use crate::lifecycle::TaskRef;
use crate::shell::runner::Context;

/// How old a sample may be that somebody is shown.
const AGE_MAX: Duration = Duration::from_secs(1);
/// Time spent is the difference of two looks: of one that is older nothing is reported now.
const BEFORE_MAX: Duration = Duration::from_secs(10);
/// How far apart two looks are where there is none to compare with.
const SPAN: Duration = Duration::from_millis(200);

/// A task that is to be measured.
#[derive(Debug, Clone)]
pub(super) struct Measured {
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

/// The last sample, and whoever makes the next one.
#[derive(Clone, Default)]
pub(crate) struct Sampler(Arc<Mutex<Option<Latest>>>);

struct Latest {
    looks: Looks,
    sample: Arc<Sample>,
}

/// One look at everything.
struct Looks {
    at: Instant,
    machine: Machine,
    /// None of those that could not be measured.
    tasks: HashMap<TaskRef, Option<Look>>,
}

/// What one look at a task finds.
struct Look {
    counts: Counts,
    standing: Arc<Standing>,
}

/// What of a start of a task is the same whenever it is looked at.
struct Standing {
    keeper: i32,
    main: i32,
    /// Of a container; of other tasks their processes are asked.
    counted: Option<Counted>,
}

type AllStanding = HashMap<TaskRef, Arc<Standing>>;

impl Sampler {
    /// A sample that is at most a second old and knows these tasks.
    pub(super) async fn latest(
        &self,
        tasks: Vec<Measured>,
        context: Arc<Context>,
        data_dir: PathBuf,
    ) -> Arc<Sample> {
        // Whoever comes while a sample is made waits for that one.
        let mut latest = self.0.lock().await;
        let is_fresh =
            |latest: &Latest| latest.looks.at.elapsed() < AGE_MAX && latest.looks.knows(&tasks, AGE_MAX);
        if let Some(latest) = latest.as_ref().filter(|latest| is_fresh(latest)) {
            return latest.sample.clone();
        }
        let last = latest.take().map(|latest| latest.looks);
        let known = last.as_ref().map(Looks::standing).unwrap_or_default();
        let before = match last.filter(|looks| looks.knows(&tasks, BEFORE_MAX)) {
            Some(before) => before,
            None => {
                let before = look(tasks.clone(), known).await;
                sleep(SPAN).await;
                before
            }
        };
        let looks = look(tasks, before.standing()).await;
        let compare = move || {
            let sample = Arc::new(looks.since(&before, &context, &data_dir));
            Latest { looks, sample }
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

/// Looks at all processes at most once, for all tasks; on a thread where that holds up nobody.
async fn look(tasks: Vec<Measured>, known: AllStanding) -> Looks {
    let looked = tokio::task::spawn_blocking(move || {
        let tree = LazyCell::new(Tree::read as fn() -> Tree);
        let measured = tasks.iter().filter(|task| !task.pretended);
        let mut buffer = Buffer::new();
        let mut look = |task: &Measured| look_at(task, known.get(&task.of), &tree, &mut buffer);
        let tasks = measured.map(|task| (task.of, look(task))).collect();
        Looks { at: Instant::now(), machine: Machine::look(), tasks }
    });
    looked.await.unwrap_or_else(|_| Looks {
        at: Instant::now(),
        machine: Machine::look(),
        tasks: HashMap::new(),
    })
}

fn look_at(
    task: &Measured,
    known: Option<&Arc<Standing>>,
    tree: &LazyCell<Tree, fn() -> Tree>,
    buffer: &mut Buffer,
) -> Option<Look> {
    let standing = known.cloned().or_else(|| Standing::find(task).map(Arc::new))?;
    let counts = match &standing.counted {
        Some(counted) => counted.look(buffer)?,
        None => {
            let processes = tree.of_task(standing.keeper, standing.main);
            let counts = || Counts {
                spent: tree.spent(&processes),
                throttled: None,
                memory: processes::memory(&processes),
            };
            (!processes.is_empty()).then(counts)?
        }
    };
    Some(Look { counts, standing })
}

impl Standing {
    fn find(task: &Measured) -> Option<Self> {
        let StartRecord { keeper_pid: keeper, pid: main, container, .. } =
            StartRecord::read(&task.keeper_dir).ok().flatten()?;
        // One that is only claimed has no process yet.
        let is_container = main > 0 && container.is_some();
        let counted = is_container.then(|| Counted::of(Pid::from_raw(main))).flatten();
        (main > 0).then_some(Self { keeper, main, counted })
    }
}

impl Looks {
    /// Whether it is young enough, and these were looked at.
    fn knows(&self, tasks: &[Measured], age_max: Duration) -> bool {
        self.at.elapsed() < age_max
            && tasks.iter().all(|task| task.pretended || self.tasks.contains_key(&task.of))
    }

    /// Of the tasks that could be measured.
    fn standing(&self) -> AllStanding {
        let of = |(of, look): (&TaskRef, &Option<Look>)| Some((*of, look.as_ref()?.standing.clone()));
        self.tasks.iter().filter_map(of).collect()
    }

    fn since(&self, before: &Self, context: &Context, data_dir: &std::path::Path) -> Sample {
        let core_mhz = core_mhz(context);
        let seconds = self.at.duration_since(before.at).as_secs_f64().max(0.001);
        let usage = |(of, after): (&TaskRef, &Option<Look>)| {
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

fn cpu(before: &Look, after: &Look, seconds: f64, core_mhz: f64) -> CpuUsage {
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
