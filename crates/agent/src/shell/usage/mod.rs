//! Usage of tasks and of the machine. All of it is sampled at once, at most once a second, and only on request:
//! requests within that second share the sample.

mod cgroup;
mod machine;
mod processes;
mod sampler;

use berth_api::agent::{
    AgentOutcome, AllocUsage, AllocUsageEntry, GetAllocUsage, NodeAllocUsage, Refusal, TaskUsage,
};

pub(super) use self::cgroup::CpuTime;
pub(super) use self::processes::ProcessTree;
pub(super) use self::sampler::Sampler;
use self::sampler::{Sample, SampledTask};
use super::Agent;
use crate::lifecycle::TaskRef;

impl Agent {
    /// What will be known of the usage of an allocation's tasks.
    pub(super) fn alloc_usage(
        &self,
        asked: &GetAllocUsage,
    ) -> Result<impl Future<Output = Result<AgentOutcome, Refusal>> + Send + 'static, Refusal> {
        let running = self.measured(self.node.running(&asked.alloc_id, &asked.task)?);
        let sampling = self.sampling();
        Ok(async move {
            let sample = sampling.await;
            Ok(AgentOutcome::AllocUsage(of_tasks(&sample, &running)))
        })
    }

    /// What will be known of the usage of all allocations.
    pub(super) fn all_usage(&self) -> impl Future<Output = Result<AgentOutcome, Refusal>> + Send + 'static {
        let mut allocs: Vec<(Vec<u8>, Vec<SampledTask>)> = Vec::new();
        for task in self.all_measured() {
            let id = task.of.alloc.0.to_vec();
            match allocs.last_mut() {
                Some((last, tasks)) if *last == id => tasks.push(task),
                _ => allocs.push((id, vec![task])),
            }
        }
        let sampling = self.sampling();
        async move {
            let sample = sampling.await;
            let of = |(alloc_id, tasks): (Vec<u8>, Vec<SampledTask>)| AllocUsageEntry {
                alloc_id,
                usage: of_tasks(&sample, &tasks),
            };
            Ok(AgentOutcome::NodeAllocUsage(NodeAllocUsage { allocs: allocs.into_iter().map(of).collect() }))
        }
    }

    /// What will be known of the usage of the machine.
    pub(super) fn node_usage(&self) -> impl Future<Output = Result<AgentOutcome, Refusal>> + Send + 'static {
        let sampling = self.sampling();
        async move { Ok(AgentOutcome::NodeUsage(sampling.await.node.clone())) }
    }

    fn sampling(&self) -> impl Future<Output = std::sync::Arc<Sample>> + Send + 'static {
        let (sampler, tasks) = (self.sampler.clone(), self.all_measured());
        let (context, data_dir) = (self.context.clone(), self.data.path().to_owned());
        async move { sampler.latest(tasks, context, data_dir).await }
    }

    /// All tasks that run, by allocation.
    fn all_measured(&self) -> Vec<SampledTask> {
        let running = self.node.allocs().flat_map(|alloc| {
            let id = alloc.id();
            // None of one that has ended.
            self.node.running(&id.0, "").unwrap_or_default()
        });
        self.measured(running)
    }

    fn measured(&self, tasks: impl IntoIterator<Item = TaskRef>) -> Vec<SampledTask> {
        let measured = |of: TaskRef| {
            let spec = &self.node.alloc(of.alloc)?.spec().group.tasks[usize::from(of.task)];
            let keeper_dir = self.data.paths(of.alloc).keeper_dir(&spec.name);
            let pretended = spec.driver == "mock_driver";
            Some(SampledTask { of, name: spec.name.clone(), keeper_dir, pretended })
        };
        tasks.into_iter().filter_map(measured).collect()
    }
}

fn of_tasks(sample: &Sample, tasks: &[SampledTask]) -> AllocUsage {
    let of = |task: &SampledTask| {
        let known = sample.tasks.get(&task.of).cloned().unwrap_or_default();
        TaskUsage { name: task.name.clone(), ..known }
    };
    AllocUsage { tasks: tasks.iter().map(of).collect(), at_ns: sample.node.at_ns }
}
