//! Samples the progress of a load and the usage of each process while it runs.

use crate::{
    record::{ProcessSeries, Series},
    run::{
        cluster::{Cluster, Usage, usage},
        progress::TaskCounts,
    },
};

/// Samples kept of each; when there are more, every other one is dropped.
const SAMPLES_MAX: usize = 600;

/// What the server had used before and after.
#[derive(Debug, Clone, Copy)]
pub(super) struct ServerUsage {
    /// Usage before the first request.
    pub before: Usage,
    /// Usage at the last sample.
    pub after: Usage,
}

/// Samples progress, and the usage of each process.
pub(super) struct UsageSampler {
    /// The server's comes first; the client's own last.
    pids: Vec<u32>,
    series: Series,
    server_before: Option<Usage>,
    /// Calls so far, and at which of them a sample is taken: every so many.
    calls: u64,
    every: u64,
}

impl UsageSampler {
    /// Begins to watch the cluster's processes and this one.
    pub fn begin(cluster: &Cluster) -> Self {
        let children = cluster.children.iter().map(|child| (child.pid(), child.name.clone()));
        let (pids, names): (Vec<_>, Vec<_>) =
            children.chain([(std::process::id(), "lab".to_owned())]).unzip();
        let processes = names.into_iter().map(|name| ProcessSeries { name, ..ProcessSeries::default() });
        let series = Series { processes: processes.collect(), ..Series::default() };
        let server_before = cluster.children.first().and_then(|server| usage(server.pid()));
        Self { pids, series, server_before, calls: 0, every: 1 }
    }

    /// Takes a sample, unless there have been many.
    pub fn sample(&mut self, at_s: f64, counts: TaskCounts) {
        self.calls += 1;
        if !self.calls.is_multiple_of(self.every) {
            return;
        }
        let Series { progress, processes, .. } = &mut self.series;
        progress.at_s.push(at_s);
        progress.created.push(counts.created);
        progress.placed.push(counts.placed);
        progress.running.push(counts.running);
        for (pid, process) in self.pids.iter().zip(processes) {
            let Some(used) = usage(*pid) else { continue };
            process.at_s.push(at_s);
            process.cpu_s.push(used.cpu_s);
            process.rss_bytes.push(used.rss_bytes);
            process.written_bytes.push(used.written_bytes);
        }
        if self.series.progress.at_s.len() > SAMPLES_MAX {
            self.every *= 2;
            thin_out(&mut self.series);
        }
    }

    /// What the server has used so far; none for one that was there already.
    pub fn server_used(&self) -> Option<ServerUsage> {
        Some(ServerUsage { before: self.server_before?, after: usage(*self.pids.first()?)? })
    }

    /// The samples taken, as series against time.
    pub fn into_series(self) -> Series {
        self.series
    }
}

fn thin_out(series: &mut Series) {
    let progress = &mut series.progress;
    every_other(&mut progress.at_s);
    every_other(&mut progress.created);
    every_other(&mut progress.placed);
    every_other(&mut progress.running);
    for process in &mut series.processes {
        every_other(&mut process.at_s);
        every_other(&mut process.cpu_s);
        every_other(&mut process.rss_bytes);
        every_other(&mut process.written_bytes);
    }
}

fn every_other<T>(values: &mut Vec<T>) {
    let mut keep = false;
    values.retain(|_| {
        keep = !keep;
        keep
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_stay_few_and_reach_from_the_start_to_the_end() {
        let process = ProcessSeries { name: "lab".to_owned(), ..ProcessSeries::default() };
        let series = Series { processes: vec![process], ..Series::default() };
        let pids = vec![std::process::id()];
        let mut sampler = UsageSampler { pids, series, server_before: None, calls: 0, every: 1 };
        for number in 0..5_000_u32 {
            sampler.sample(f64::from(number), TaskCounts { running: number.into(), ..TaskCounts::default() });
        }
        let series = sampler.into_series();
        let (at_s, running) = (&series.progress.at_s, &series.progress.running);
        assert!((SAMPLES_MAX / 2..=SAMPLES_MAX).contains(&at_s.len()), "{}", at_s.len());
        assert!(at_s[0] < 10.0 && *at_s.last().unwrap() > 4_980.0);
        assert!(at_s.iter().zip(running).all(|(at_s, running)| *at_s == *running as f64));
        assert_eq!(series.processes[0].at_s, *at_s);
    }
}
