//! The transcript of a node's messages, one a line, without what differs from run to run: times, ids, jitter.

use std::collections::BTreeMap;

use berth_api::agent::{AllocStatus, Hello, TaskEventEntry, TaskEventKind, TaskStatus, Up, Update};
use prost::Message;

/// The lines so far.
#[derive(Clone, Default)]
pub struct Transcript {
    lines: Vec<String>,
    epoch: u64,
}

impl Transcript {
    pub fn text(self) -> String {
        self.lines.join("\n") + "\n"
    }

    /// What was reported of each allocation, without which of it came in one update, and without what was reported again as it
    /// was: an agent writes allocations down at the same time, and tells of each when its own is on disk.
    pub fn by_alloc(&mut self) {
        let mut told: BTreeMap<String, Vec<String>> = BTreeMap::new();
        let mut alloc = String::new();
        for line in self.lines.drain(..).filter(|line| !line.starts_with("update ")) {
            let is_task = line.starts_with("    ");
            if !is_task {
                let status = line.strip_prefix("  ").and_then(|status| status.split_whitespace().next());
                alloc = status.unwrap_or_default().to_owned();
            }
            let blocks = told.entry(alloc.clone()).or_default();
            match blocks.last_mut().filter(|_| is_task) {
                Some(block) => *block += &format!("\n{line}"),
                None => blocks.push(line),
            }
        }
        told.values_mut().for_each(Vec::dedup);
        self.lines = told.into_values().flatten().collect();
    }

    pub fn note(&mut self, what: &str) {
        self.lines.push(format!("> {what}"));
    }

    /// Where the next line would stand.
    pub fn place(&self) -> usize {
        self.lines.len()
    }

    /// What belongs to an earlier place, whenever it came.
    pub fn note_at(&mut self, place: usize, what: &str) {
        self.lines.insert(place, format!("> {what}"));
    }

    pub fn hello(&mut self, hello: &Hello, desired_equal: bool, observed_equal: bool) {
        self.epoch = hello.epoch;
        let digest = |equal| if equal { "equal" } else { "differs" };
        self.lines.push(format!(
            "hello version={} cluster={} epoch={} seq={} desired={} observed={}",
            hello.protocol_version,
            hello.cluster_id.first().map_or("none".to_owned(), u8::to_string),
            hello.epoch,
            self.since_start(hello.seq),
            digest(desired_equal),
            digest(observed_equal)
        ));
    }

    pub fn said(&mut self, message: &Up) {
        match message {
            Up::Update(update) => self.update(update),
            Up::Heartbeat(heartbeat) => {
                let line = format!(
                    "heartbeat seq={} desired_seq={}",
                    self.since_start(heartbeat.seq),
                    heartbeat.desired_seq
                );
                // How many there are is a matter of time.
                if self.lines.last() != Some(&line) {
                    self.lines.push(line);
                }
            }
            other => self.lines.push(format!("{other:?}")),
        }
    }

    fn update(&mut self, update: &Update) {
        let done = if update.resync_done { " resync_done" } else { "" };
        self.lines.push(format!("update seq={}{done}", self.since_start(update.seq)));
        for bytes in &update.allocs {
            let status = AllocStatus::decode(bytes.clone()).expect("a status");
            self.lines.push(format!(
                "  {} {:?}: {}{}",
                status.alloc_id[0],
                status.status(),
                status.description,
                set("modified", status.modified_ns)
            ));
            self.lines.extend(status.tasks.iter().map(task));
        }
    }

    /// Sequence numbers begin again with each start of the agent.
    fn since_start(&self, seq: u64) -> u64 {
        seq.wrapping_sub(self.epoch << 32)
    }
}

fn task(task: &TaskStatus) -> String {
    let failed = if task.failed { " failed" } else { "" };
    let times = [
        set("started", task.started_ns),
        set("restarted", task.last_restart_ns),
        set("finished", task.finished_ns),
    ];
    let events: Vec<_> = task.events.iter().map(event).collect();
    format!(
        "    {} {:?}{failed} restarts={} exit={}/{}/{}{} [{}]",
        task.name,
        task.state(),
        task.restarts,
        task.exit_code,
        task.signal,
        task.oom_killed,
        times.concat(),
        events.join("; ")
    )
}

fn event(event: &TaskEventEntry) -> String {
    let mut out = event.kind().as_str().to_owned();
    if !event.message.is_empty() {
        out += &format!(" {:?}", event.message);
    }
    if event.kind() == TaskEventKind::Terminated {
        out += &format!(" {}/{}/{}", event.exit_code, event.signal, event.oom_killed);
    }
    assert!(event.at_ns > 0, "an event without a time: {event:?}");
    out + &set("delayed", event.delay_ns) + if event.fails_task { " fails" } else { "" }
}

fn set(what: &str, value: u64) -> String {
    if value == 0 { String::new() } else { format!(" {what}") }
}
