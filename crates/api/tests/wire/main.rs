//! The agent protocol's bytes, as files: what a version writes, every later one that says so must read.
//!
//! A file changes only together with the protocol's version, or where a new field is added with a new tag. A file whose
//! name ends in `v1` was written by version 1: its hello is still read, so that it is refused by name.

mod requests;

use std::fmt::Write;

use berth_api::agent::{
    Ack, AllocStatus, ClientStatus, Desired, Down, DownFrame, Enroll, Enrolled, FRAME_BYTES_MAX, GroupSpec,
    Heartbeat, HeartbeatEvery, Hello, Leaving, NodeChanged, NodeSpec, PROTOCOL_VERSION, PortBinding,
    ReadSecrets, Renewed, RevokedServer, RunAlloc, SecretItems, SecretsRead, Servers, SessionRefused,
    SignTokens, SignedToken, SignedTokens, StopAlloc, TaskApi, TaskApiClose, TaskApiData, TaskApiOpen,
    TaskApiPart, Up, UpFrame, Update, VariableContent, VariableQuery, VariableResult, VariablesWatched,
    WatchVariables, Welcome, WelcomeMode, decode_frame, encode_frame,
};
use bytes::{BufMut, BytesMut};
use expect_test::{ExpectFile, expect_file};
use prost::Message;

/// The frames have these bytes, one after the other, before their checksums, and they are read as these frames with and without: peers
/// from before there were checksums send none.
fn check<M: Message + Default + PartialEq + std::fmt::Debug>(
    frames: impl Iterator<Item = M>,
    expected: &ExpectFile,
) {
    let mut hex = String::new();
    for frame in frames {
        let mut bytes = BytesMut::new();
        bytes.put_u32(u32::try_from(frame.encoded_len()).expect("it is short"));
        bytes.extend_from_slice(&frame.encode_to_vec());
        for line in bytes.chunks(32) {
            line.iter().for_each(|byte| write!(hex, "{byte:02x}").expect("written"));
            hex.push('\n');
        }
        let read = decode_frame::<M>(&mut bytes, FRAME_BYTES_MAX).expect("a frame");
        assert_eq!(read.as_ref(), Some(&frame));
        encode_frame(&frame, &mut bytes);
        let read = decode_frame::<M>(&mut bytes, FRAME_BYTES_MAX).expect("a frame with a checksum");
        assert_eq!(read.as_ref(), Some(&frame));
    }
    expected.assert_eq(&hex);
}

fn up(messages: &[Up], expected: &ExpectFile) {
    check(messages.iter().map(|up| UpFrame { session: 1, message: Some(up.clone()) }), expected);
}

fn down(messages: &[Down], expected: &ExpectFile) {
    check(messages.iter().map(|down| DownFrame { session: 1, message: Some(down.clone()) }), expected);
}

fn hello() -> Hello {
    Hello {
        protocol_version: PROTOCOL_VERSION,
        node_id: vec![1; 16],
        secret: vec![2; 32],
        epoch: 3,
        seq: 3 << 32,
        desired_digest: vec![4; 16],
        observed_digest: vec![5; 16],
        boot_id: "boot".into(),
        node: NodeSpec { name: "n1".into(), cpu_mhz: 8_000, memory_mb: 16_384, ..NodeSpec::default() },
        cluster_id: vec![6; 16],
        instance: vec![7; 16],
        dial: 8,
        index: 9,
    }
}

#[test]
fn what_an_agent_says() {
    up(&[Up::Hello(hello())], &expect_file!["golden/hello.hex"]);
    let status = AllocStatus {
        alloc_id: vec![8; 16],
        status: ClientStatus::Running.into(),
        description: "Tasks are running".into(),
        ..AllocStatus::default()
    };
    let allocs = vec![status.encode_to_vec().into()];
    let update = Update { seq: 9, allocs, resync_done: true, desired_seq: 2 };
    up(&[Up::Update(update)], &expect_file!["golden/update.hex"]);
    let heartbeat =
        Heartbeat { seq: 9, desired_seq: 2, desired_digest: vec![4; 16], observed_digest: vec![5; 16] };
    up(&[Up::Heartbeat(heartbeat)], &expect_file!["golden/heartbeat.hex"]);
    let leaving = Leaving { secret: vec![2; 16], deadline_ms: 3_600_000, force: true, ignore_system: true };
    up(&[Up::Leaving(leaving)], &expect_file!["golden/leaving.hex"]);
    let changed = NodeChanged { node: NodeSpec { name: "n1".into(), disk_mb: 4_096, ..NodeSpec::default() } };
    up(&[Up::Changed(changed)], &expect_file!["golden/changed.hex"]);
}

#[test]
fn what_a_server_says() {
    let welcome = Welcome {
        mode: WelcomeMode::FromSeq.into(),
        observed_seq: 9,
        heartbeat_ms: 5_000,
        cluster_id: vec![6; 16],
        restored: true,
    };
    down(&[Down::Welcome(welcome)], &expect_file!["golden/welcome.hex"]);
    let refused = SessionRefused { reason: "not now".into(), retry: true };
    down(&[Down::Refused(refused)], &expect_file!["golden/refused.hex"]);
    let mut desired = Desired { term: 1, index: 2, full: true, seq: 3, more: true, ..Desired::default() };
    let spec = GroupSpec { job_id: "j".into(), group: "g".into(), ..GroupSpec::default() };
    let group_ref = desired.group_ref(&spec.encode_to_vec().into());
    let ports =
        vec![PortBinding { label: "http".into(), host_port: 20_000, to: 80, ..PortBinding::default() }];
    desired.run.push(RunAlloc {
        alloc_id: vec![8; 16],
        name_index: 1,
        ports,
        after: vec![vec![9; 16]],
        job_version: 4,
        previous: vec![9; 16],
        devices: Vec::new(),
        group_ref,
        health: None,
        revision: 0,
    });
    desired.stop.push(StopAlloc { alloc_id: vec![9; 16], reason: "replaced".into() });
    desired.forget.push(vec![10; 16]);
    desired.purge.push(vec![11; 16]);
    down(&[Down::Desired(desired)], &expect_file!["golden/desired.hex"]);
    down(&[Down::Ack(Ack { seq: 9, delay_ms: 0 })], &expect_file!["golden/ack.hex"]);
    let every = HeartbeatEvery { heartbeat_ms: 10_000 };
    down(&[Down::HeartbeatEvery(every)], &expect_file!["golden/heartbeat_every.hex"]);
    let revoked = vec![RevokedServer { name: "s1".into(), at_secs: 9 }];
    let servers = Servers { addresses: vec!["127.0.0.1:4647".into(), "127.0.0.2:4647".into()], revoked };
    down(&[Down::Servers(servers)], &expect_file!["golden/servers.hex"]);
}

#[test]
fn tokens_that_say_who_a_task_is() {
    let request = SignTokens {
        request: 7,
        secret: vec![2; 16],
        alloc_id: vec![8; 16],
        task: "web".into(),
        identities: vec!["default".into(), "aws".into()],
    };
    up(&[Up::Sign(request)], &expect_file!["golden/sign_tokens.hex"]);
    let token = SignedToken { identity: "aws".into(), token: "a.b.c".into(), life_ms: 3_600_000 };
    let signed = SignedTokens { request: 7, tokens: vec![token], refused: String::new(), retry: false };
    let refused = SignedTokens {
        request: 8,
        tokens: Vec::new(),
        refused: "no server can sign at the moment".into(),
        retry: true,
    };
    down(&[Down::Signed(signed), Down::Signed(refused)], &expect_file!["golden/signed_tokens.hex"]);
}

#[test]
fn what_a_task_is_given_of_variables() {
    let request = ReadSecrets { request: 7, secret: vec![2; 16], alloc_id: vec![8; 16], task: "web".into() };
    up(&[Up::Secrets(request)], &expect_file!["golden/read_secrets.hex"]);
    let items = [("password".to_owned(), "hunter22".to_owned())].into();
    let read = SecretsRead {
        request: 7,
        secrets: vec![SecretItems { name: "db".into(), items }],
        ..SecretsRead::default()
    };
    assert!(!format!("{read:?}").contains("hunter22"));
    let refused = SecretsRead {
        request: 8,
        refused: "there is no variable".into(),
        retry: true,
        taken: true,
        ..SecretsRead::default()
    };
    down(&[Down::Secrets(read), Down::Secrets(refused)], &expect_file!["golden/secrets_read.hex"]);
}

#[test]
fn what_templates_show_of_variables() {
    let query = VariableQuery { namespace: "team".into(), path: "app/db".into(), is_list: true };
    let watch = WatchVariables {
        request: 7,
        secret: vec![2; 16],
        alloc_id: vec![8; 16],
        task: "web".into(),
        queries: vec![query],
        seen: vec![3; 4],
        index: 9,
    };
    up(&[Up::Watch(watch)], &expect_file!["golden/watch_variables.hex"]);
    let content = VariableContent {
        namespace: "team".into(),
        path: "app/db".into(),
        create_index: 1,
        modify_index: 2,
        create_time: 3,
        modify_time: 4,
        items: [("password".to_owned(), "hunter22".to_owned())].into(),
    };
    assert!(!format!("{content:?}").contains("hunter22"));
    let watched = VariablesWatched {
        request: 7,
        found: vec![
            VariableResult { variables: vec![content], ..VariableResult::default() },
            VariableResult { denied: "not for it".into(), ..VariableResult::default() },
        ],
        seen: vec![3; 4],
        index: 9,
        ..VariablesWatched::default()
    };
    let unchanged = VariablesWatched { request: 8, unchanged: true, ..VariablesWatched::default() };
    let refused =
        VariablesWatched { request: 9, refused: "no".into(), retry: true, ..VariablesWatched::default() };
    let text = [watched, unchanged, refused].map(Down::Watched);
    down(&text, &expect_file!["golden/variables_watched.hex"]);
}

#[test]
fn what_tasks_say_to_the_api_and_hear() {
    let about = |part| TaskApi { connection: 7, part: Some(part) };
    let data = || TaskApiData { data: b"GET / HTTP/1.1".as_slice().into() };
    let open = TaskApiOpen { secret: vec![2; 16], alloc_id: vec![8; 16], task: "web".into() };
    let message = [
        TaskApiPart::Open(open),
        TaskApiPart::Data(data()),
        TaskApiPart::Credit(3),
        TaskApiPart::Close(TaskApiClose {}),
    ];
    assert!(!format!("{:?}", data()).contains("GET"));
    up(&message.map(|part| Up::TaskApi(about(part))), &expect_file!["golden/task_api_up.hex"]);
    let received = [TaskApiPart::Data(data()), TaskApiPart::Credit(3), TaskApiPart::Close(TaskApiClose {})];
    down(&received.map(|part| Down::TaskApi(about(part))), &expect_file!["golden/task_api_down.hex"]);
}

#[test]
fn a_certificate_that_was_renewed() {
    let renewed = Renewed { chain: vec![vec![6; 40], vec![8; 30]] };
    up(&[Up::Renewed(renewed)], &expect_file!["golden/renewed.hex"]);
}

#[test]
fn who_asks_for_a_certificate_and_the_answer() {
    let renews = Enroll {
        node_id: vec![7; 16],
        public_key: vec![4; 65],
        signature: vec![5; 70],
        node_secret: vec![2; 16],
        ..Enroll::default()
    };
    let joins = Enroll { secret: vec![1; 32], node_secret: Vec::new(), ..renews.clone() };
    let answer = Enrolled {
        certificate: vec![6; 40],
        authorities: vec![vec![8; 30], vec![9; 20]],
        refused: "the join token has expired".into(),
    };
    check([joins].into_iter(), &expect_file!["golden/enroll.hex"]);
    check([renews].into_iter(), &expect_file!["golden/enroll_renewal.hex"]);
    check([answer].into_iter(), &expect_file!["golden/enrolled.hex"]);
}

#[test]
fn a_hello_of_version_1_is_still_read() {
    let old = Hello {
        protocol_version: 1,
        cluster_id: Vec::new(),
        instance: Vec::new(),
        dial: 0,
        index: 0,
        ..hello()
    };
    up(&[Up::Hello(old)], &expect_file!["golden/hello.v1.hex"]);
}
