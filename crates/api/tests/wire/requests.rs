//! What a server asks of an agent on behalf of people, and what the agent says to that: one of each kind.

use berth_api::agent::{
    AgentOutcome, AgentQuery, AgentRequest, AgentResponse, AllocChecks, AllocFiles, AllocUsage,
    AllocUsageEntry, ChangeNodeMeta, CheckState, CheckStatus, CoreUsage, CpuUsage, DiskUsage, Done, Down,
    DownFrame, DynamicMeta, ExecCancel, ExecControl, ExecCredit, ExecDown, ExecEvent, ExecExited, ExecInput,
    ExecOutput, ExecStart, ExecStream, ExecUp, FileCancel, FileChunk, FileCredit, FileRead, FileSpec,
    GetAllocChecks, GetAllocUsage, GetFiles, GetImages, GetNodeAllocUsage, GetNodeMeta, GetNodeUsage,
    ImageInfo, ImageList, ImageLoad, LoadImages, MemoryUsage, NodeAllocUsage, NodeMemoryUsage, NodeMeta,
    NodeUsage, PullImage, PullProgress, Refusal, RefusalKind, RemoveImage, RestartTasks, SignalTasks,
    TaskUsage, TerminalSize, Up, UpFrame,
};
use expect_test::expect_file;

use super::{down, up};

const ALLOC: [u8; 16] = [8; 16];

fn questions() -> Vec<AgentQuery> {
    let alloc_id = || ALLOC.to_vec();
    let name = || "registry.example/app:1".to_owned();
    vec![
        AgentQuery::Restart(RestartTasks { alloc_id: alloc_id(), task: "web".into(), all: true }),
        AgentQuery::Signal(SignalTasks { alloc_id: alloc_id(), task: "web".into(), signal: "SIGHUP".into() }),
        AgentQuery::AllocUsage(GetAllocUsage { alloc_id: alloc_id(), task: "web".into() }),
        AgentQuery::NodeUsage(GetNodeUsage {}),
        AgentQuery::AllocChecks(GetAllocChecks { alloc_id: alloc_id() }),
        AgentQuery::Files(GetFiles { alloc_id: alloc_id(), path: "alloc/logs".into(), list: true }),
        AgentQuery::NodeAllocUsage(GetNodeAllocUsage {}),
        AgentQuery::Images(GetImages {}),
        AgentQuery::PullImage(PullImage { name: name(), always: true }),
        AgentQuery::LoadImages(LoadImages {
            upload: vec![1; 16].into(),
            offset: 4_096,
            data: "tar".into(),
            end: true,
            name: name(),
            cancel: true,
        }),
        AgentQuery::RemoveImage(RemoveImage { name: name() }),
        AgentQuery::NodeMeta(GetNodeMeta {}),
        AgentQuery::ChangeNodeMeta(ChangeNodeMeta { changes: dynamic_meta() }),
    ]
}

fn dynamic_meta() -> Vec<DynamicMeta> {
    let dynamic =
        |key: &str, value: Option<&str>| DynamicMeta { key: key.into(), value: value.map(Into::into) };
    vec![dynamic("rack", Some("r2")), dynamic("row", None)]
}

fn alloc_usage() -> AllocUsage {
    let cpu = CpuUsage {
        user_percent: 1.5,
        system_percent: 0.5,
        mhz: 60.25,
        throttled_periods: Some(3),
        throttled_ns: Some(4_000),
    };
    let memory = MemoryUsage { rss: 1, cache: Some(2), swap: 3, usage: Some(4), usage_max: Some(5) };
    let task = TaskUsage { name: "web".into(), cpu: Some(cpu), memory: Some(memory) };
    AllocUsage { tasks: vec![task], at_ns: 7 }
}

fn node_usage() -> NodeUsage {
    let core = CoreUsage { name: "cpu0".into(), user_percent: 1.0, system_percent: 2.0, idle_percent: 97.0 };
    let disk = DiskUsage {
        device: "/dev/vda".into(),
        mountpoint: "/".into(),
        size: 10,
        used: 4,
        available: 6,
        inodes_used_percent: 0.5,
    };
    let memory = NodeMemoryUsage { total: 30, available: 20, free: 10 };
    NodeUsage { at_ns: 1, uptime_s: 2, memory, cores: vec![core], mhz: 90.0, disk }
}

fn image() -> ImageInfo {
    ImageInfo {
        name: "registry.example/app:1".into(),
        digest: vec![5; 32],
        bytes: 1_000,
        layers: 2,
        pulled_ns: 3,
        used_ns: 4,
        alloc_ids: vec![ALLOC.to_vec()],
        private: true,
    }
}

fn outcomes() -> Vec<AgentOutcome> {
    let check = CheckStatus {
        service: "web".into(),
        name: "alive".into(),
        task: "web".into(),
        state: CheckState::Critical.into(),
        code: 503,
        output: "no".into(),
        at_ns: 1,
        ignored: true,
    };
    let file = FileSpec {
        name: "web.stdout.0".into(),
        size: 9,
        mode: 0o100_644,
        modified_ns: 2,
        content_type: "text/plain".into(),
    };
    let of_alloc = AllocUsageEntry { alloc_id: ALLOC.to_vec(), usage: alloc_usage() };
    vec![
        AgentOutcome::Refused(Refusal::new(RefusalKind::NotFound, "no such task")),
        AgentOutcome::Done(Done {}),
        AgentOutcome::AllocUsage(alloc_usage()),
        AgentOutcome::NodeUsage(node_usage()),
        AgentOutcome::AllocChecks(AllocChecks { checks: vec![check], group: "g".into() }),
        AgentOutcome::Files(AllocFiles { files: vec![file] }),
        AgentOutcome::NodeAllocUsage(NodeAllocUsage { allocs: vec![of_alloc] }),
        AgentOutcome::Images(ImageList {
            images: vec![image()],
            disk_bytes: 10,
            disk_free_bytes: 5,
            left_off: 1,
        }),
        AgentOutcome::ImagePull(PullProgress { done_bytes: 1, total_bytes: 2, image: Some(image()) }),
        AgentOutcome::ImageLoad(ImageLoad { offset: 4_096, done: true, images: vec![image()] }),
        AgentOutcome::NodeMeta(NodeMeta {
            configured: [("rack".to_owned(), "r1".to_owned())].into(),
            dynamic: dynamic_meta(),
            effective: [("rack".to_owned(), "r2".to_owned())].into(),
        }),
    ]
}

fn controls() -> Vec<ExecControl> {
    vec![
        ExecControl::Start(ExecStart {
            alloc_id: ALLOC.to_vec(),
            task: "web".into(),
            command: vec!["sh".into(), "-c".into()],
            tty: true,
            credit_bytes: 65_536,
        }),
        ExecControl::Input(ExecInput { data: "ls\n".into(), close: true }),
        ExecControl::Resize(TerminalSize { rows: 24, columns: 80 }),
        ExecControl::Credit(ExecCredit { stream: ExecStream::Stderr.into(), bytes: 512 }),
        ExecControl::Cancel(ExecCancel {}),
    ]
}

fn events() -> Vec<ExecEvent> {
    vec![
        ExecEvent::Output(ExecOutput { stream: ExecStream::Stderr.into(), data: "no\n".into() }),
        ExecEvent::Credit(ExecCredit { stream: ExecStream::Stdin.into(), bytes: 512 }),
        ExecEvent::Exited(ExecExited { exit_code: 3 }),
        ExecEvent::Refused(Refusal::new(RefusalKind::Busy, "too many")),
    ]
}

#[test]
fn what_an_agent_is_asked_and_answers() {
    let ask = |(at, query)| Down::Ask(AgentRequest { request: at, query: Some(query) });
    down(&(1..).zip(questions()).map(ask).collect::<Vec<_>>(), &expect_file!["golden/ask.hex"]);
    let answer = |(at, outcome)| Up::Answer(AgentResponse { request: at, outcome: Some(outcome) });
    up(&(1..).zip(outcomes()).map(answer).collect::<Vec<_>>(), &expect_file!["golden/answer.hex"]);
}

#[test]
fn what_is_said_of_a_command_within_a_task() {
    let control = |(at, control)| Down::Exec(ExecDown { request: at, control: Some(control) });
    down(&(1..).zip(controls()).map(control).collect::<Vec<_>>(), &expect_file!["golden/exec_control.hex"]);
    let event_of = |(at, event)| Up::Exec(ExecUp { request: at, event: Some(event) });
    up(&(1..).zip(events()).map(event_of).collect::<Vec<_>>(), &expect_file!["golden/exec_event.hex"]);
}

#[test]
fn what_is_said_of_a_file_that_is_read() {
    let read = FileRead {
        request: 1,
        alloc_id: ALLOC.to_vec(),
        task: "web".into(),
        stream: "stdout".into(),
        offset: 2,
        from_end: true,
        follow: true,
        credit_bytes: 3,
        path: "alloc/data".into(),
        limit: 4,
        agent_log: None,
    };
    let requests = [
        Down::FileRead(read),
        Down::FileCredit(FileCredit { request: 1, bytes: 5 }),
        Down::FileCancel(FileCancel { request: 1 }),
    ];
    down(&requests, &expect_file!["golden/file_read.hex"]);
    let chunk = FileChunk {
        request: 1,
        offset: 2,
        data: "text".into(),
        done: true,
        error: "it is gone".into(),
        file: "web.stdout.0".into(),
        event: "truncated".into(),
    };
    up(&[Up::FileChunk(chunk)], &expect_file!["golden/file_chunk.hex"]);
}

/// Whoever adds a message adds its sample: a tag that is known and has none is found here.
#[test]
fn every_message_that_is_known_has_a_sample() {
    use prost::Message;

    // A message of each tag, with nothing in it.
    fn known<M: Message + Default>(is_known: impl Fn(&M) -> bool) -> usize {
        let tags = (1_u32..=64).filter(|tag| {
            let mut bytes = Vec::new();
            prost::encoding::encode_varint(u64::from(tag << 3 | 2), &mut bytes);
            bytes.push(0);
            M::decode(&bytes[..]).is_ok_and(|message| is_known(&message))
        });
        tags.count()
    }
    assert_eq!(known(|ask: &AgentRequest| ask.query.is_some()), questions().len());
    assert_eq!(known(|answer: &AgentResponse| answer.outcome.is_some()), outcomes().len());
    assert_eq!(known(|exec: &ExecDown| exec.control.is_some()), controls().len());
    assert_eq!(known(|exec: &ExecUp| exec.event.is_some()), events().len());
    // Those of `what_an_agent_says` and `what_a_server_says`, tokens, secrets, variables of templates, the API for tasks, a renewed certificate, and
    // what carries the above.
    assert_eq!(known(|frame: &UpFrame| frame.message.is_some()), 9 + 4);
    assert_eq!(known(|frame: &DownFrame| frame.message.is_some()), 9 + 6);
}
