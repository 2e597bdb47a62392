//! What a server asks of an agent on behalf of people, and what the agent says to that: one of each kind.

use berth_api::agent::{
    AllocChecks, AllocFiles, AllocUsage, AllocUsageOf, Answer, Ask, AskAllocChecks, AskAllocUsage, AskFiles,
    AskImages, AskNodeAllocUsage, AskNodeMeta, AskNodeUsage, ChangeNodeMeta, CheckState, CheckStatus,
    CoreUsage, CpuUsage, DiskUsage, Done, Down, DownFrame, DynamicMeta, ExecCancel, ExecCredit, ExecDown,
    ExecExited, ExecInput, ExecNews, ExecOrder, ExecOutput, ExecStart, ExecStream, ExecUp, FileCancel,
    FileChunk, FileCredit, FileRead, FileSpec, ImageLoad, ImagePull, LoadImages, MemoryUsage, NodeAllocUsage,
    NodeImage, NodeImages, NodeMemoryUsage, NodeMeta, NodeUsage, Outcome, PullImage, Question, Refusal,
    RefusalKind, RemoveImage, RestartTasks, SignalTasks, TaskUsage, TerminalSize, Up, UpFrame,
};
use expect_test::expect_file;

use super::{down, up};

const ALLOC: [u8; 16] = [8; 16];

fn questions() -> Vec<Question> {
    let alloc_id = || ALLOC.to_vec();
    let name = || "registry.example/app:1".to_owned();
    vec![
        Question::Restart(RestartTasks { alloc_id: alloc_id(), task: "web".into(), all: true }),
        Question::Signal(SignalTasks { alloc_id: alloc_id(), task: "web".into(), signal: "SIGHUP".into() }),
        Question::AllocUsage(AskAllocUsage { alloc_id: alloc_id(), task: "web".into() }),
        Question::NodeUsage(AskNodeUsage {}),
        Question::AllocChecks(AskAllocChecks { alloc_id: alloc_id() }),
        Question::Files(AskFiles { alloc_id: alloc_id(), path: "alloc/logs".into(), list: true }),
        Question::NodeAllocUsage(AskNodeAllocUsage {}),
        Question::Images(AskImages {}),
        Question::PullImage(PullImage { name: name(), always: true }),
        Question::LoadImages(LoadImages {
            upload: vec![1; 16].into(),
            offset: 4_096,
            data: "tar".into(),
            end: true,
            name: name(),
            cancel: true,
        }),
        Question::RemoveImage(RemoveImage { name: name() }),
        Question::NodeMeta(AskNodeMeta {}),
        Question::ChangeNodeMeta(ChangeNodeMeta { changes: dynamic_meta() }),
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

fn image() -> NodeImage {
    NodeImage {
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

fn outcomes() -> Vec<Outcome> {
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
    let of_alloc = AllocUsageOf { alloc_id: ALLOC.to_vec(), usage: alloc_usage() };
    vec![
        Outcome::Refused(Refusal::new(RefusalKind::NotFound, "no such task")),
        Outcome::Done(Done {}),
        Outcome::AllocUsage(alloc_usage()),
        Outcome::NodeUsage(node_usage()),
        Outcome::AllocChecks(AllocChecks { checks: vec![check], group: "g".into() }),
        Outcome::Files(AllocFiles { files: vec![file] }),
        Outcome::NodeAllocUsage(NodeAllocUsage { allocs: vec![of_alloc] }),
        Outcome::Images(NodeImages {
            images: vec![image()],
            disk_bytes: 10,
            disk_free_bytes: 5,
            left_off: 1,
        }),
        Outcome::ImagePull(ImagePull { done_bytes: 1, total_bytes: 2, image: Some(image()) }),
        Outcome::ImageLoad(ImageLoad { offset: 4_096, done: true, images: vec![image()] }),
        Outcome::NodeMeta(NodeMeta {
            configured: [("rack".to_owned(), "r1".to_owned())].into(),
            dynamic: dynamic_meta(),
            effective: [("rack".to_owned(), "r2".to_owned())].into(),
        }),
    ]
}

fn orders() -> Vec<ExecOrder> {
    vec![
        ExecOrder::Start(ExecStart {
            alloc_id: ALLOC.to_vec(),
            task: "web".into(),
            command: vec!["sh".into(), "-c".into()],
            tty: true,
            credit_bytes: 65_536,
        }),
        ExecOrder::Input(ExecInput { data: "ls\n".into(), close: true }),
        ExecOrder::Resize(TerminalSize { rows: 24, columns: 80 }),
        ExecOrder::Credit(ExecCredit { stream: ExecStream::Stderr.into(), bytes: 512 }),
        ExecOrder::Cancel(ExecCancel {}),
    ]
}

fn news() -> Vec<ExecNews> {
    vec![
        ExecNews::Output(ExecOutput { stream: ExecStream::Stderr.into(), data: "no\n".into() }),
        ExecNews::Credit(ExecCredit { stream: ExecStream::Stdin.into(), bytes: 512 }),
        ExecNews::Exited(ExecExited { exit_code: 3 }),
        ExecNews::Refused(Refusal::new(RefusalKind::Busy, "too many")),
    ]
}

#[test]
fn what_an_agent_is_asked_and_answers() {
    let ask = |(at, question)| Down::Ask(Ask { request: at, question: Some(question) });
    down(&(1..).zip(questions()).map(ask).collect::<Vec<_>>(), &expect_file!["golden/ask.hex"]);
    let answer = |(at, outcome)| Up::Answer(Answer { request: at, outcome: Some(outcome) });
    up(&(1..).zip(outcomes()).map(answer).collect::<Vec<_>>(), &expect_file!["golden/answer.hex"]);
}

#[test]
fn what_is_said_of_a_command_within_a_task() {
    let order = |(at, order)| Down::Exec(ExecDown { request: at, order: Some(order) });
    down(&(1..).zip(orders()).map(order).collect::<Vec<_>>(), &expect_file!["golden/exec_order.hex"]);
    let news_of = |(at, news)| Up::Exec(ExecUp { request: at, news: Some(news) });
    up(&(1..).zip(news()).map(news_of).collect::<Vec<_>>(), &expect_file!["golden/exec_news.hex"]);
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
    let asked = [
        Down::FileRead(read),
        Down::FileCredit(FileCredit { request: 1, bytes: 5 }),
        Down::FileCancel(FileCancel { request: 1 }),
    ];
    down(&asked, &expect_file!["golden/file_read.hex"]);
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
    assert_eq!(known(|ask: &Ask| ask.question.is_some()), questions().len());
    assert_eq!(known(|answer: &Answer| answer.outcome.is_some()), outcomes().len());
    assert_eq!(known(|exec: &ExecDown| exec.order.is_some()), orders().len());
    assert_eq!(known(|exec: &ExecUp| exec.news.is_some()), news().len());
    // Those of `what_an_agent_says` and `what_a_server_says`, tokens, secrets, variables of templates, the API for tasks, a renewed certificate, and
    // what carries the above.
    assert_eq!(known(|frame: &UpFrame| frame.message.is_some()), 9 + 4);
    assert_eq!(known(|frame: &DownFrame| frame.message.is_some()), 9 + 6);
}
