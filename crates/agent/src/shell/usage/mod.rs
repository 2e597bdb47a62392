//! What tasks and the machine use: measured when somebody asks, over a short span.

mod cgroup;
mod machine;
mod processes;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use berth_api::agent::{
    AllocUsage, AskAllocUsage, CpuUsage, MemoryUsage, Outcome, Refusal, RefusalKind, TaskUsage,
};
use nix::unistd::Pid;
use tokio::time::{Instant, sleep};

use self::machine::Machine;
use self::processes::{Spent, Tree};
use super::Agent;
use super::runner::Context;
use crate::keeper::plan::StartRecord;

/// How far apart the two looks are from which time spent is found out.
const SPAN: Duration = Duration::from_millis(200);

/// A task that is to be measured.
struct Measured {
    name: String,
    keeper_dir: PathBuf,
    /// Nothing can be measured of tasks that are only pretended.
    pretended: bool,
}

/// What one look at a task finds.
struct Look {
    spent: Spent,
    memory: MemoryUsage,
    main: Pid,
}

impl Agent {
    /// What will be known of the usage of an allocation's tasks.
    pub(super) fn alloc_usage(
        &self,
        asked: &AskAllocUsage,
    ) -> Result<impl Future<Output = Result<Outcome, Refusal>> + Send + 'static, Refusal> {
        let running = self.node.running(&asked.alloc_id, &asked.task)?;
        let measured = running.into_iter().filter_map(|of| {
            let spec = &self.node.alloc(of.alloc)?.spec().group.tasks[usize::from(of.task)];
            let keeper_dir = self.data.place(of.alloc).keeper_dir(&spec.name);
            Some(Measured { name: spec.name.clone(), keeper_dir, pretended: spec.driver == "mock_driver" })
        });
        let (measured, context) = (measured.collect(), self.context.clone());
        Ok(async { Ok(Outcome::AllocUsage(measure(measured, context).await)) })
    }

    /// What will be known of the usage of the machine.
    pub(super) fn node_usage(&self) -> impl Future<Output = Result<Outcome, Refusal>> + Send + 'static {
        let (context, data_dir) = (self.context.clone(), self.data.path().to_owned());
        async move {
            let before = Machine::look();
            sleep(SPAN).await;
            let usage = tokio::task::spawn_blocking(move || {
                let now_ns = context.clock.now_ns();
                Machine::look().since(&before, core_mhz(&context), &data_dir, now_ns)
            });
            let failed = |error: tokio::task::JoinError| {
                Refusal::new(RefusalKind::Failed, format!("measure the machine: {error}"))
            };
            Ok(Outcome::NodeUsage(usage.await.map_err(failed)?))
        }
    }
}

/// MHz of one core, as the node was fingerprinted.
fn core_mhz(context: &Context) -> f64 {
    context.node.attributes.get("cpu.frequency").and_then(|mhz| mhz.parse().ok()).unwrap_or_default()
}

async fn measure(tasks: Vec<Measured>, context: Arc<Context>) -> AllocUsage {
    let (tasks, before) = look(tasks).await;
    let begun = Instant::now();
    sleep(SPAN).await;
    let (tasks, after) = look(tasks).await;
    let seconds = begun.elapsed().as_secs_f64();
    let usages = tasks.into_iter().zip(before.into_iter().zip(after));
    let tasks = usages.map(|(task, looks)| match looks {
        (Some(before), Some(after)) => TaskUsage {
            name: task.name,
            cpu: Some(cpu(&before, &after, seconds, core_mhz(&context))),
            memory: Some(after.memory),
        },
        _ => TaskUsage { name: task.name, ..TaskUsage::default() },
    });
    AllocUsage { tasks: tasks.collect(), at_ns: context.clock.now_ns() }
}

fn cpu(before: &Look, after: &Look, seconds: f64, core_mhz: f64) -> CpuUsage {
    let percent = |before: f64, after: f64| ((after - before) / seconds * 100.0).max(0.0);
    let user_percent = percent(before.spent.user_s, after.spent.user_s);
    let system_percent = percent(before.spent.system_s, after.spent.system_s);
    let throttled = cgroup::throttled(after.main);
    CpuUsage {
        user_percent,
        system_percent,
        mhz: (user_percent + system_percent) / 100.0 * core_mhz,
        throttled_periods: throttled.map(|throttled| throttled.periods),
        throttled_ns: throttled.map(|throttled| throttled.ns),
    }
}

/// Looks at all processes once, for all tasks; on a thread where that holds up nobody.
async fn look(tasks: Vec<Measured>) -> (Vec<Measured>, Vec<Option<Look>>) {
    let looked = tokio::task::spawn_blocking(move || {
        let tree = Tree::read();
        let looks = tasks.iter().map(|task| look_at(task, &tree)).collect();
        (tasks, looks)
    });
    looked.await.unwrap_or_default()
}

fn look_at(task: &Measured, tree: &Tree) -> Option<Look> {
    if task.pretended {
        return None;
    }
    let start = StartRecord::read(&task.keeper_dir).ok().flatten()?;
    let main = Pid::from_raw(start.pid);
    let processes = tree.of_task(start.keeper_pid, start.pid);
    let own = processes::memory(&processes);
    // A container's limits count more than what its processes call their own.
    let memory = if start.container.is_some() { cgroup::memory(main, own) } else { own };
    (!processes.is_empty()).then(|| Look { spent: tree.spent(&processes), memory, main })
}
