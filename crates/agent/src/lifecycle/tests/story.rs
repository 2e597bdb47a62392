//! Runs a story through a node and writes down its actions and reports.
//!
//! One event a line:
//!
//! - desired state: `run 1 batch web db:leader after=2 max=60` (tasks also `:prestart`, `:poststart`, `:poststop`, `:sidecar`; again with
//!   `revision=2` it updates what runs), `stop 1`, `forget 1`, `purge 1`
//! - tasks: `noted 1.0 half way`, `started 1.0`, `exited 1.0 code=1 signal=9 oom`, `failed 1.0 setup`, `found 1.0 running|nothing|rebooted`
//! - servers and time: `heard` (of a server; `silence=8` after `run` is for how long there may be none), `wait 10s` (with ticks at each
//!   deadline)
//! - the agent: `restart` (from what it wrote last; `set-back 100s` before it sets the clock back)
//! - from `hold-setup` on, preparing and cleaning up are answered by `prepared 1`, `unprepared 1 setup` and `cleaned 1 it stays`
//! - checks: `answer 30s passing|warning|critical` (all checks that run within that time)
//! - users: `ask-restart 1 web`, `ask-restart 1 all`, `ask-signal 1 web SIGHUP` (`-` for no task)
//! - to print: `events 1.0`, `checks 1`

use std::collections::BTreeMap;
use std::sync::Arc;

use berth_api::agent::{
    AllocHealth, AllocId, CheckNeed, CheckRestartSpec, CheckSpec, CheckState, GroupSpec, HealthSpec,
    HookSpec, LogSpec, RestartModeSpec, RestartSpec, RestartTasks, SignalTasks, TaskEventKind, TaskPhase,
    TaskSpec,
};
use expect_test::Expect;

use crate::lifecycle::*;

const SECOND: u64 = 1_000_000_000;

pub fn check(story: &str, expected: &Expect) {
    let mut runner = Story::default();
    story.lines().map(str::trim).filter(|line| !line.is_empty()).for_each(|line| runner.run_line(line));
    expected.assert_eq(&runner.out);
}

pub struct Story {
    node: Node,
    now_ns: u64,
    disk: BTreeMap<AllocId, AllocRecord>,
    out: String,
    /// Whether what is prepared and cleaned up is answered at once.
    sets_up: bool,
    /// Questions of checks without an answer.
    asked: Vec<CheckRef>,
    /// How they are answered; none for not at all.
    answers: Option<CheckState>,
}

impl Default for Story {
    fn default() -> Self {
        Self {
            node: Node::new(1),
            now_ns: SECOND,
            disk: BTreeMap::new(),
            out: String::new(),
            sets_up: true,
            asked: Vec::new(),
            answers: None,
        }
    }
}

/// Lets something happen on a node where all can be prepared and cleaned up at once.
pub fn happens(node: &mut Node, event: Event, now_ns: u64, actions: &mut Vec<Action>) {
    let before = actions.len();
    node.handle(event, now_ns, actions);
    let new = actions[before..].to_vec();
    for action in new {
        match action {
            Action::Prepare(alloc) => happens(node, Event::Prepared(alloc), now_ns, actions),
            Action::CleanUp(alloc) => happens(node, Event::CleanedUp { alloc, left: None }, now_ns, actions),
            _ => {}
        }
    }
}

pub fn id(number: u8) -> AllocId {
    AllocId([number; 16])
}

/// A task's settings: the name, then options after colons.
fn task(text: &str) -> TaskSpec {
    let mut options = text.split(':');
    let mut spec = TaskSpec {
        name: options.next().unwrap_or_default().into(),
        driver: "mock_driver".into(),
        restart: RestartSpec { attempts: 2, interval_ms: 60_000, delay_ms: 10_000, mode: 0 },
        kill_timeout_ms: 5_000,
        logs: LogSpec::default(),
        ..TaskSpec::default()
    };
    for option in options {
        match option {
            "leader" => spec.leader = true,
            "prestart" => spec.hook = HookSpec::Prestart as i32,
            "poststart" => spec.hook = HookSpec::Poststart as i32,
            "poststop" => spec.hook = HookSpec::Poststop as i32,
            "sidecar" => spec.sidecar = true,
            "delay-mode" => spec.restart.mode = RestartModeSpec::Delay as i32,
            "once" => spec.restart.attempts = 0,
            "kill0" => spec.kill_timeout_ms = 0,
            "kill1" => spec.kill_timeout_ms = 1_000,
            "attempts5" => spec.restart.attempts = 5,
            "kill99" => spec.kill_timeout_ms = 99_000,
            "shutdown3" => spec.shutdown_delay_ms = 3_000,
            other => panic!("unknown option {other}"),
        }
    }
    spec
}

pub fn run(words: &[&str]) -> RunSpec {
    let (job_type, group_delay) = words[1].split_once('+').unwrap_or((words[1], "0"));
    let (after, rest): (Vec<&str>, Vec<&str>) =
        words[2..].iter().partition(|word| word.starts_with("after="));
    let (checks, rest): (Vec<&str>, Vec<&str>) =
        rest.into_iter().partition(|word| word.starts_with("check="));
    let (healthy, rest): (Vec<&str>, Vec<&str>) =
        rest.into_iter().partition(|word| word.starts_with("healthy="));
    let (silence, rest): (Vec<&str>, Vec<&str>) =
        rest.into_iter().partition(|word| word.starts_with("silence="));
    let (revision, rest): (Vec<&str>, Vec<&str>) =
        rest.into_iter().partition(|word| word.starts_with("revision="));
    let (max, tasks): (Vec<&str>, Vec<&str>) = rest.into_iter().partition(|word| word.starts_with("max="));
    let seconds = |text: &str| text.parse::<u64>().expect("seconds");
    let revision = revision.first().map_or(0, |word| seconds(&word["revision=".len()..]));
    let group = GroupSpec {
        job_type: job_type.into(),
        tasks: tasks.into_iter().map(task).collect(),
        checks: checks.into_iter().map(check_spec).collect(),
        health: healthy.first().map(|word| HealthSpec {
            min_healthy_ms: word["healthy=".len()..].parse::<u64>().expect("seconds") * 1_000,
            deadline_ms: 60_000,
            checks: true,
        }),
        max_run_ms: max.first().map_or(0, |word| seconds(&word["max=".len()..]) * 1_000),
        shutdown_delay_ms: seconds(group_delay) * 1_000,
        stop_after_silence_ms: silence.first().map_or(0, |word| seconds(&word["silence=".len()..]) * 1_000),
        ..GroupSpec::default()
    };
    let numbers = after.iter().flat_map(|word| word["after=".len()..].split(','));
    RunSpec {
        alloc: id(number(words[0])),
        name_index: 0,
        group: Arc::new(group),
        ports: Box::default(),
        devices: Box::default(),
        after: numbers.map(|text| id(number(text))).collect(),
        job_version: revision,
        health: None,
        previous: Box::default(),
        updated: revision > 0,
    }
}

/// `check=`, the task or nothing, and options after colons; it is asked every 10 s.
fn check_spec(text: &str) -> CheckSpec {
    let mut options = text["check=".len()..].split(':');
    let mut spec = CheckSpec {
        service: "shop".into(),
        name: "alive".into(),
        task: options.next().unwrap_or_default().into(),
        interval_ms: 10_000,
        timeout_ms: 2_000,
        ..CheckSpec::default()
    };
    for option in options {
        match option {
            "limit2" => {
                let restart = CheckRestartSpec { limit: 2, grace_ms: 15_000, ignore_warnings: false };
                spec.restart = Some(restart);
            }
            "ready" => spec.name = "ready".into(),
            "ignored" => spec.need = CheckNeed::Nothing as i32,
            "warns" => spec.need = CheckNeed::Warning as i32,
            other => panic!("unknown option {other}"),
        }
    }
    spec
}

fn number(text: &str) -> u8 {
    text.parse().expect("a number")
}

impl Story {
    fn run_line(&mut self, line: &str) {
        let words: Vec<&str> = line.split_whitespace().collect();
        match words[0] {
            "wait" => return self.wait(words[1]),
            "set-back" => return self.set_back(words[1]),
            "restart" => return self.restart(),
            "hold-setup" => return self.sets_up = false,
            "events" => return self.events(words[1]),
            "checks" => return self.checks(words[1]),
            "answer" => return self.answer(words[1], words[2]),
            "ask-restart" | "ask-signal" => return self.ask(line, &words),
            _ => self.out += &format!("> {line}\n"),
        }
        let event = self.event(words[0], &words[1..]);
        self.handle(event);
    }

    fn event(&self, verb: &str, words: &[&str]) -> Event {
        let alloc = || id(number(words[0]));
        match verb {
            "run" => Event::Run(run(words)),
            "stop" => Event::Stop { alloc: alloc(), reason: String::new() },
            "heard" => Event::ServerContact,
            "overran" => {
                let cleaning_up = words.contains(&"cleaning-up");
                Event::Overran { alloc: alloc(), cleaning_up, why: "It takes too much".into() }
            }
            "forget" => Event::Forget(alloc()),
            "purge" => Event::Purge(alloc()),
            "noted" => Event::Noted {
                of: self.task_ref(words[0]),
                kind: TaskEventKind::Driver,
                at_ns: self.now_ns,
                message: words[1..].join(" "),
            },
            "prepared" => Event::Prepared(alloc()),
            "unprepared" => Event::PrepareFailed(alloc(), failure(words[1])),
            "cleaned" => {
                let left = words[1..].join(" ");
                Event::CleanedUp { alloc: alloc(), left: Some(left).filter(|left| !left.is_empty()) }
            }
            "started" => Event::Started { of: self.task_ref(words[0]), at_ns: self.now_ns },
            "exited" => Event::Exited(self.task_ref(words[0]), self.exit(&words[1..])),
            "renewed" => Event::RestartRequested { of: self.task_ref(words[0]), why: "renewed".into() },
            "broke" => Event::TaskFailed { of: self.task_ref(words[0]), why: "Its script failed".into() },
            "failed" => Event::StartFailed(self.task_ref(words[0]), failure(words[1])),
            "found" => Event::Recovered(self.task_ref(words[0]), found(words[1])),
            other => panic!("unknown event {other}"),
        }
    }

    /// All questions that come within so long are answered in the same way, at once.
    fn answer(&mut self, span: &str, how: &str) {
        self.out += &format!("> answer {span} {how}\n");
        let until_ns = self.now_ns + span.trim_end_matches('s').parse::<u64>().expect("seconds") * SECOND;
        self.answers = match how {
            "passing" => Some(CheckState::Passing),
            "warning" => Some(CheckState::Warning),
            _ => Some(CheckState::Critical),
        };
        self.tick_until(until_ns);
        self.answers = None;
    }

    fn checks(&mut self, alloc: &str) {
        for check in self.node.alloc(id(number(alloc))).expect("a known alloc").checks().checks {
            self.out += &format!("   {} {:?} {:?}\n", check.name, check.state(), check.output);
        }
    }

    fn ask(&mut self, line: &str, words: &[&str]) {
        self.out += &format!("> {line}\n");
        let alloc_id = id(number(words[1])).0.to_vec();
        let task = Some(words[2]).filter(|name| !matches!(*name, "-" | "all")).unwrap_or_default().to_owned();
        let mut actions = Vec::new();
        let asked = if words[0] == "ask-restart" {
            let asked = RestartTasks { alloc_id, task, all: words.contains(&"all") };
            self.node.restart(&asked, self.now_ns, &mut actions)
        } else {
            let asked = SignalTasks { alloc_id, task, signal: words[3].into() };
            let signaled = self.node.signal(&asked, self.now_ns, &mut actions);
            signaled.map(|(signal, tasks)| {
                let names: Vec<String> = tasks.iter().map(name).collect();
                self.out += &format!("          signal {signal} to {}\n", names.join(", "));
            })
        };
        if let Err(refusal) = asked {
            self.out += &format!("          {:?}: {}\n", refusal.kind(), refusal.text);
        }
        self.perform(&actions);
    }

    /// `1.0` is the latest attempt of the first task, `1.0#3` its third.
    fn task_ref(&self, text: &str) -> TaskRef {
        let (name, attempt) =
            text.split_once('#').map_or((text, None), |(name, attempt)| (name, Some(attempt)));
        let (alloc, task) = name.split_once('.').expect("alloc.task");
        let latest = self.node.alloc(id(number(alloc))).expect("a known alloc").task_ref(number(task).into());
        TaskRef { attempt: attempt.map_or(latest.attempt, |text| number(text).into()), ..latest }
    }

    fn exit(&self, words: &[&str]) -> Exit {
        let mut exit = Exit { at_ns: self.now_ns, ..Exit::default() };
        for word in words {
            match word.split_once('=') {
                Some(("code", code)) => exit.exit_code = code.parse().expect("a code"),
                Some(("signal", signal)) => exit.signal = signal.parse().expect("a signal"),
                Some(("message", message)) => exit.message = message.into(),
                _ => exit.oom_killed = true,
            }
        }
        exit
    }

    fn handle(&mut self, event: Event) {
        let mut actions = Vec::new();
        self.node.handle(event, self.now_ns, &mut actions);
        let earliest = self.node.allocs().filter_map(Alloc::deadline).min();
        assert_eq!(self.node.deadline(), earliest, "the node and its allocations disagree about time");
        self.perform(&actions);
    }

    fn perform(&mut self, actions: &[Action]) {
        let mut answers = Vec::new();
        for action in actions {
            let line = match action {
                Action::Persist(alloc) => {
                    self.node.record(*alloc).and_then(|record| self.disk.insert(*alloc, record));
                    format!("persist {}", alloc.0[0])
                }
                Action::RemoveDir(alloc) => {
                    self.disk.remove(alloc);
                    format!("remove {}", alloc.0[0])
                }
                Action::Prepare(alloc) => {
                    answers.push(Event::Prepared(*alloc));
                    format!("prepare {}", alloc.0[0])
                }
                Action::CleanUp(alloc) => {
                    answers.push(Event::CleanedUp { alloc: *alloc, left: None });
                    format!("clean up {}", alloc.0[0])
                }
                Action::StartTask(of) => format!("start {}", name(of)),
                Action::Recover(of) => format!("recover {}", name(of)),
                Action::SignalTask(of) => format!("signal {}", name(of)),
                Action::CancelStart(of) => format!("cancel {}", name(of)),
                Action::KillTask(of) => format!("kill {}", name(of)),
                Action::Check(of) => {
                    self.asked.push(*of);
                    format!("check {}.{} question {}", of.alloc.0[0], of.check, of.number)
                }
                Action::Report { alloc, urgent } => self.report(*alloc, *urgent),
            };
            self.out += &format!("{:6.1} {line}\n", self.now_ns as f64 / 1e9);
        }
        if self.sets_up {
            answers.into_iter().for_each(|event| self.handle(event));
        }
    }

    fn report(&self, alloc: AllocId, urgent: bool) -> String {
        let status = self.node.alloc(alloc).expect("a known alloc").status();
        let tasks = status.tasks.iter().map(|task| {
            let state = if task.failed { "Failed".into() } else { format!("{:?}", task.state()) };
            let last = task.events.last().map_or("-", |event| event.kind().as_str());
            format!("{} {state} ({last})", task.name)
        });
        let urgent = if urgent { "!" } else { "" };
        let health = match status.health() {
            AllocHealth::Unknown => String::new(),
            AllocHealth::Healthy => " healthy".to_owned(),
            AllocHealth::Unhealthy => format!(" unhealthy: {}", status.health_message),
        };
        format!(
            "report {} {:?}{urgent}{health} [{}]",
            alloc.0[0],
            status.status(),
            tasks.collect::<Vec<_>>().join(", ")
        )
    }

    fn wait(&mut self, span: &str) {
        self.out += &format!("> wait {span}\n");
        let until_ns = self.now_ns + span.trim_end_matches('s').parse::<u64>().expect("seconds") * SECOND;
        self.tick_until(until_ns);
    }

    /// The machine's clock; no agent lives meanwhile.
    fn set_back(&mut self, span: &str) {
        self.out += &format!("> set-back {span}\n");
        self.now_ns -= span.trim_end_matches('s').parse::<u64>().expect("seconds") * SECOND;
    }

    fn tick_until(&mut self, until_ns: u64) {
        while let Some(at_ns) = self.node.deadline().filter(|at_ns| *at_ns <= until_ns) {
            self.now_ns = self.now_ns.max(at_ns);
            self.handle(Event::Tick);
            for of in std::mem::take(&mut self.asked) {
                if let Some(state) = self.answers {
                    let answer = CheckResult { state, code: 0, output: "said".into(), at_ns: self.now_ns };
                    self.handle(Event::Checked(of, answer));
                }
            }
        }
        self.now_ns = until_ns;
    }

    fn restart(&mut self) {
        self.out += "> restart\n";
        self.node = Node::new(1);
        let (mut actions, mut groups) = (Vec::new(), GroupCache::default());
        for record in self.disk.values() {
            self.node.restore(record.clone(), &mut groups, &mut actions).expect("a good record");
        }
        self.node.handle(Event::Tick, self.now_ns, &mut actions);
        self.perform(&actions);
    }

    fn events(&mut self, of: &str) {
        let of = self.task_ref(of);
        let status = &self.node.alloc(of.alloc).expect("a known alloc").status().tasks[usize::from(of.task)];
        for event in &status.events {
            let failed = if event.fails_task { " (fails the task)" } else { "" };
            let told = format!("{}: {}{failed}", event.kind().as_str(), event.message);
            let extra = match event.kind() {
                TaskEventKind::Terminated => {
                    format!(" code={} signal={} oom={}", event.exit_code, event.signal, event.oom_killed)
                }
                TaskEventKind::Restarting => format!(" in {:.1}s", event.delay_ns as f64 / 1e9),
                _ => String::new(),
            };
            self.out += &format!("   {:6.1} {told}{extra}\n", event.at_ns as f64 / 1e9);
        }
        let (state, restarts) = (TaskPhase::try_from(status.state).expect("a state"), status.restarts);
        self.out += &format!("   = {state:?} failed={} restarts={restarts}\n", status.failed);
    }
}

fn name(of: &TaskRef) -> String {
    format!("{}.{}#{}", of.alloc.0[0], of.task, of.attempt)
}

fn failure(kind: &str) -> StartFailure {
    let kind = match kind {
        "setup" => StartFailureKind::Setup,
        "driver" => StartFailureKind::Driver,
        _ => StartFailureKind::Recoverable,
    };
    StartFailure { kind, message: "it cannot start".into() }
}

fn found(what: &str) -> FoundTask {
    match what {
        "running" => FoundTask::Running { started_ns: SECOND },
        "nothing" => FoundTask::Nothing,
        _ => FoundTask::Rebooted,
    }
}
