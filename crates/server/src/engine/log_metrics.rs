//! Metrics of the replicated log, its disk, and its servers.

use berth_replication::{Metrics, SYNC_BOUNDS_US, SyncTimes};

use crate::{
    histogram::HistogramValues,
    shared::{Measured, Metric, ServerStatus, Servers},
};

const MICROS_PER_SECOND: f64 = 1e6;

/// What the log has done.
pub(super) fn of_log(log: &Metrics) -> Vec<Metric> {
    let total = |name, help, value: u64| Metric::one(name, help, Measured::Counter(value as f64));
    let gauge = |name, help, value: u64| Metric::one(name, help, Measured::Gauge(value as f64));
    vec![
        total(
            "berth_log_records_total",
            "Records appended to the log, those of the consensus engine included.",
            log.log_entries,
        ),
        total("berth_log_bytes_total", "Bytes appended to the log.", log.appended_bytes),
        total("berth_log_fsyncs_total", "Fsyncs of the log.", log.fsyncs),
        Metric::one(
            "berth_log_fsync_duration_seconds",
            "Time of an fsync of the log.",
            Measured::Spread(spread(&log.fsync_times)),
        ),
        gauge(
            "berth_log_disk_slow",
            "1 while the log's disk is too slow for this server to lead.",
            log.fsync_slow.is_some().into(),
        ),
        total("berth_log_snapshots_total", "Snapshots written.", log.snapshots),
        total(
            "berth_log_replayed_total",
            "Log entries applied when this server started.",
            log.replayed_entries,
        ),
        gauge(
            "berth_log_snapshot_size_bytes",
            "Size of the latest snapshot; 0 before the first.",
            log.snapshot_bytes,
        ),
        gauge(
            "berth_log_since_snapshot_bytes",
            "Payload of the log entries since the last snapshot, which a start has to apply.",
            log.since_snapshot_bytes,
        ),
        gauge(
            "berth_log_disk_free_bytes",
            "Free space of the file system that holds the log.",
            log.disk_free_bytes,
        ),
        gauge("berth_log_disk_bytes", "Size of the file system that holds the log.", log.disk_total_bytes),
    ]
}

/// How the servers are, as this one knows them.
pub(super) fn of_servers(servers: &Servers) -> Vec<Metric> {
    let each = |name, help, value: &dyn Fn(&ServerStatus) -> Option<f64>| {
        let sample = |server: &ServerStatus| {
            let labels = vec![("server", server.id.to_string()), ("name", server.name.clone())];
            Some((labels, Measured::Gauge(value(server)?)))
        };
        Metric { name, help, samples: servers.all.iter().filter_map(sample).collect() }
    };
    let flag = |flag: bool| Some(f64::from(u8::from(flag)));
    vec![
        each("berth_server_leader", "1 for the leader.", &|server| flag(servers.leader == Some(server.id))),
        each("berth_server_voter", "1 for a voter, 0 for a learner.", &|server| flag(server.voter)),
        each("berth_server_lacks_key", "1 for a server that cannot decrypt all root keys.", &|server| {
            flag(server.lacks_key)
        }),
        each("berth_server_alive", "1 for a server that was in contact lately.", &|server| {
            flag(server.alive)
        }),
        each("berth_server_lag_records", "Log records that a server is behind the leader.", &|server| {
            Some(servers.lag(server)? as f64)
        }),
        each("berth_server_term", "The latest Raft term that a server knows.", &|server| {
            Some(server.term as f64).filter(|_| server.term > 0)
        }),
        each("berth_server_last_contact_seconds", "Time since the last contact with a server.", &|server| {
            Some(server.last_contact?.as_secs_f64())
        }),
        each(
            "berth_server_fsync_seconds",
            "Time of an fsync of a server's log, the mean of the latest ones.",
            &|server| Some(server.mean_sync?.as_secs_f64()),
        ),
    ]
}

fn spread(times: &SyncTimes) -> HistogramValues {
    let bounds = SYNC_BOUNDS_US.iter().map(|bound| *bound as f64 / MICROS_PER_SECOND);
    let mut below = 0;
    let buckets = bounds.chain([f64::INFINITY]).zip(times.counts).map(|(bound, count)| {
        below += count;
        (bound, below)
    });
    HistogramValues { buckets: buckets.collect(), sum: times.sum.as_secs_f64() }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn each_bound_counts_all_that_took_no_longer() {
        let mut times = SyncTimes { sum: Duration::from_millis(1500), ..SyncTimes::default() };
        (times.counts[0], times.counts[2], times.counts[SYNC_BOUNDS_US.len()]) = (3, 2, 1);
        let spread = spread(&times);
        assert_eq!(spread.buckets[..3], [(5e-5, 3), (1e-4, 3), (2.5e-4, 5)]);
        assert_eq!((spread.count(), spread.buckets.last().map(|last| last.0)), (6, Some(f64::INFINITY)));
        assert!((spread.sum - 1.5).abs() < 1e-9);
    }

    /// A measurement, and what moves it.
    type Move<T> = (&'static str, fn(&mut T));

    #[test]
    fn each_measurement_of_the_log_moves() {
        let moves: [Move<Metrics>; 11] = [
            ("berth_log_records_total", |log| log.log_entries = 1),
            ("berth_log_bytes_total", |log| log.appended_bytes = 1),
            ("berth_log_fsyncs_total", |log| log.fsyncs = 1),
            ("berth_log_fsync_duration_seconds", |log| log.fsync_times.counts[1] = 1),
            ("berth_log_disk_slow", |log| log.fsync_slow = Some(Duration::from_secs(1))),
            ("berth_log_snapshots_total", |log| log.snapshots = 1),
            ("berth_log_replayed_total", |log| log.replayed_entries = 1),
            ("berth_log_snapshot_size_bytes", |log| log.snapshot_bytes = 1),
            ("berth_log_since_snapshot_bytes", |log| log.since_snapshot_bytes = 1),
            ("berth_log_disk_free_bytes", |log| log.disk_free_bytes = 1),
            ("berth_log_disk_bytes", |log| log.disk_total_bytes = 1),
        ];
        let before = of_log(&Metrics::default());
        assert_eq!(before.len(), moves.len(), "each has its move here");
        for (name, make) in moves {
            let mut log = Metrics::default();
            make(&mut log);
            assert_eq!(Metric::moved(&before, &of_log(&log)), [name]);
        }
    }

    #[test]
    fn each_measurement_of_a_server_moves() {
        let moves: [Move<Servers>; 8] = [
            ("berth_server_leader", |servers| servers.leader = Some(2)),
            ("berth_server_voter", |servers| servers.all[1].voter = true),
            ("berth_server_lacks_key", |servers| servers.all[1].lacks_key = true),
            ("berth_server_alive", |servers| servers.all[1].alive = true),
            ("berth_server_lag_records", |servers| servers.all[0].log_index = 9),
            ("berth_server_term", |servers| servers.all[1].term = 3),
            ("berth_server_last_contact_seconds", |servers| {
                servers.all[1].last_contact = Some(Duration::from_secs(2));
            }),
            ("berth_server_fsync_seconds", |servers| {
                servers.all[1].mean_sync = Some(Duration::from_millis(2))
            }),
        ];
        let server = |id| ServerStatus { id, log_index: 7, ..ServerStatus::default() };
        let all = || Servers { all: vec![server(1), server(2)], ..Servers::default() };
        let before = of_servers(&all());
        assert_eq!(before.len(), moves.len(), "each has its move here");
        for (name, make) in moves {
            let mut servers = all();
            make(&mut servers);
            assert_eq!(Metric::moved(&before, &of_servers(&servers)), [name]);
        }
    }

    #[test]
    fn a_server_of_which_nothing_is_known_has_no_lag() {
        let server = |id, log_index| ServerStatus { id, log_index, ..ServerStatus::default() };
        let servers =
            Servers { all: vec![server(1, 100), server(2, 90), server(3, 0)], ..Servers::default() };
        let metrics = of_servers(&servers);
        let lag = metrics.iter().find(|metric| metric.name == "berth_server_lag_records").unwrap();
        let values: Vec<_> = lag.samples.iter().map(|(_, value)| value.clone()).collect();
        assert_eq!(values, [Measured::Gauge(0.0), Measured::Gauge(10.0)]);
    }
}
