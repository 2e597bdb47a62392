//! Files of allocations.

use axum::body::Body;
use berth_api::agent::{AgentOutcome, AgentQuery, AllocFiles, FileSpec, GetFiles};
use bytes::Bytes;
use expect_test::expect;
use http_body_util::BodyExt;

use super::{
    exchange::{api, get, request, send},
    fake_agents::held,
    world::{NODE_1, RUNNING, world},
};
use crate::shared::{AgentError, ReadPiece, ReadSource};

fn piece(offset: u64, data: &'static str, event: &str) -> Result<ReadPiece, AgentError> {
    let file = "server/local/page".into();
    Ok(ReadPiece { offset, data: Bytes::from_static(data.as_bytes()), file, event: event.into() })
}

#[tokio::test]
async fn directories_are_listed_and_files_described() {
    let world = world();
    let dir = FileSpec { name: "local".into(), mode: 0o040_755, size: 4096, ..FileSpec::default() };
    let file = FileSpec {
        name: "page".into(),
        mode: 0o100_644,
        size: 6,
        modified_ns: 1_700_000_000_000_000_000,
        content_type: "text/plain; charset=utf-8".into(),
    };
    *held(&world.agents.outcome) =
        Some(Ok(AgentOutcome::Files(AllocFiles { files: vec![dir, file.clone()] })));
    let listed = get(&api(&world), "/v1/client/fs/ls/aaaaaaaa?path=server").await;
    expect![[r#"[{"Name":"local","IsDir":true,"Size":4096,"FileMode":"drwxr-xr-x","ModTime":"0001-01-01T00:00:00Z"},{"Name":"page","IsDir":false,"Size":6,"FileMode":"-rw-r--r--","ModTime":"2023-11-14T22:13:20Z","ContentType":"text/plain; charset=utf-8"}]"#]]
        .assert_eq(&listed.body);
    let request = GetFiles { alloc_id: RUNNING.to_bytes().to_vec(), path: "server".into(), list: true };
    assert_eq!(held(&world.agents.requested).take(), Some((NODE_1, AgentQuery::Files(request))));
    *held(&world.agents.outcome) = Some(Ok(AgentOutcome::Files(AllocFiles { files: vec![file] })));
    let response = get(&api(&world), "/v1/client/fs/stat/aaaaaaaa?path=server/page").await.json();
    assert_eq!((response["Name"].as_str(), response["Size"].as_u64()), (Some("page"), Some(6)));
}

#[tokio::test]
async fn a_file_comes_as_it_is_or_in_frames() {
    let world = world();
    let pieces = vec![piece(0, "hel", ""), piece(3, "lo\n", ""), piece(0, "", "file truncated")];
    *held(&world.agents.log) = (pieces, false);
    expect![[r#"
        200 OK
        content-type: application/octet-stream
        x-nomad-knownleader: true
        x-nomad-lastcontact: 0

        hello
    "#]]
    .assert_eq(&get(&api(&world), "/v1/client/fs/cat/aaaaaaaa?path=server/local/page").await.show());
    let read = held(&world.agents.read_request).take().expect("it was asked");
    assert_eq!(read.source, ReadSource::File { path: "server/local/page".into(), limit: 0 });
    assert!(!read.follow);
    let part = "/v1/client/fs/readat/aaaaaaaa?path=server/local/page&offset=3&limit=2";
    get(&api(&world), part).await;
    let read = held(&world.agents.read_request).take().expect("it was asked");
    assert_eq!(read.offset, 3);
    assert_eq!(read.source, ReadSource::File { path: "server/local/page".into(), limit: 2 });
    let followed = get(&api(&world), "/v1/client/fs/stream/aaaaaaaa?path=server/local/page&origin=end").await;
    expect![[r#"
        {"Data":"aGVs","File":"server/local/page"}
        {"Offset":3,"Data":"bG8K","File":"server/local/page"}
        {"File":"server/local/page","FileEvent":"file truncated"}
    "#]]
    .assert_eq(&followed.body);
    let read = held(&world.agents.read_request).take().expect("it was asked");
    assert!(read.follow && read.from_end);
}

#[tokio::test]
async fn what_is_not_there_or_not_whole_is_no_file() {
    let world = world();
    let answer = async |pieces, target: &str| {
        *held(&world.agents.log) = (pieces, false);
        let answer = get(&api(&world), target).await;
        format!("{} {}", answer.status.as_u16(), answer.body.trim_end())
    };
    let cat = "/v1/client/fs/cat/aaaaaaaa?path=server/local/page";
    let gone = || vec![Err(AgentError::NotFound("no such file".into()))];
    assert_eq!(answer(gone(), cat).await, "404 no such file");
    let secret = || vec![Err(AgentError::Invalid("secrets are shown to nobody".into()))];
    assert_eq!(answer(secret(), cat).await, "400 secrets are shown to nobody");
    let nameless = answer(gone(), "/v1/client/fs/cat/aaaaaaaa").await;
    assert_eq!(nameless, "400 query parameter path must name a file");
    let nothing = answer(gone(), "/v1/client/fs/readat/aaaaaaaa?path=a&limit=0").await;
    assert!(nothing.starts_with("400 query parameter limit"), "{nothing}");

    // Nobody takes the beginning of a file for the whole.
    *held(&world.agents.log) =
        (vec![piece(0, "hel", ""), Err(AgentError::Failed("disk is gone".into()))], false);
    let mut body = send(&api(&world), request("GET", cat, Body::empty())).await.into_body();
    assert_eq!(body.frame().await.expect("a piece").expect("whole").into_data().expect("data"), "hel");
    let broken = body.frame().await.expect("an end").expect_err("the connection is cut");
    assert_eq!(broken.to_string(), "disk is gone");
}
