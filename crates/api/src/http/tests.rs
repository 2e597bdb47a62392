//! What crosses the wire, and how addresses and targets read.

use std::time::Duration;

use expect_test::{Expect, expect};
use serde::{Serialize, de::DeserializeOwned};

use super::*;

/// The JSON of a value, which must read back to the same value.
fn check<T: Serialize + DeserializeOwned + PartialEq + std::fmt::Debug>(value: &T, json: Expect) {
    let text = serde_json::to_string(value).expect("it can be written");
    json.assert_eq(&text);
    assert_eq!(&serde_json::from_str::<T>(&text).expect("it can be read"), value);
}

#[test]
fn a_heartbeat_is_the_empty_object() {
    check(&StreamFrame::default(), expect!["{}"]);
    check(&EventFrame::<serde_json::Value>::default(), expect!["{}"]);
}

#[test]
fn log_frames_carry_base64() {
    let frame =
        StreamFrame { offset: 5, data: b"hi\n".to_vec(), file: "web.stdout.0".into(), ..Default::default() };
    check(&frame, expect![[r#"{"Offset":5,"Data":"aGkK","File":"web.stdout.0"}"#]]);
}

#[test]
fn times_are_written_as_go_writes_them() {
    check(&Time(0), expect![[r#""0001-01-01T00:00:00Z""#]]);
    check(&Time(1_700_000_000_000_000_000), expect![[r#""2023-11-14T22:13:20Z""#]]);
    check(&Time(1_700_000_000_123_456_789), expect![[r#""2023-11-14T22:13:20.123456789Z""#]]);
    assert!(serde_json::from_str::<Time>("\"1969-12-31T23:59:59Z\"").is_err());
}

#[test]
fn unknown_and_absent_fields_do_not_matter() {
    let stub: JobStub = serde_json::from_str(r#"{"ID":"web","Multiregion":null}"#).expect("it can be read");
    assert_eq!(stub, JobStub { id: "web".into(), ..Default::default() });
}

#[test]
fn addresses_are_read() {
    let read = |text: &str| match text.parse::<Address>() {
        Ok(address) => address.to_string(),
        Err(error) => error.to_string(),
    };
    expect!["http://127.0.0.1:4646"].assert_eq(&read("http://127.0.0.1:4646"));
    expect!["http://[::1]:7000"].assert_eq(&read("http://[::1]:7000/"));
    expect!["http://berth.example:4646"].assert_eq(&read("berth.example"));
    expect!["https://h:1"].assert_eq(&read("https://h:1"));
    expect!["https://[::1]:4646"].assert_eq(&read("https://[::1]"));
    expect!["`http://h:1/v1/jobs` is not the address of a server: it has a path, expected http://HOST:PORT or https://HOST:PORT"]
    .assert_eq(&read("http://h:1/v1/jobs"));
    expect!["`h:bar` is not the address of a server: its port is no number from 1 to 65535, expected http://HOST:PORT or https://HOST:PORT"]
    .assert_eq(&read("h:bar"));
    expect!["`https://[::1]:99999` is not the address of a server: its port is no number from 1 to 65535, expected http://HOST:PORT or https://HOST:PORT"]
    .assert_eq(&read("https://[::1]:99999"));
    expect![
        "`` is not the address of a server: it cannot be read, expected http://HOST:PORT or https://HOST:PORT"
    ]
    .assert_eq(&read(""));
}

#[test]
fn parts_and_parameters_may_hold_any_character() {
    let target = Target::new("/v1/job").part("a/b c").part("versions").param("namespace", "*");
    assert_eq!(target.path_and_query(), "/v1/job/a%2Fb%20c/versions?namespace=%2A");
    let target = Target::new("/v1/jobs").after(7, Duration::from_secs(3600));
    assert_eq!(target.path_and_query(), "/v1/jobs?index=7&wait=300000ms");
}
