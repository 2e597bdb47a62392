//! Digests of text, in hexadecimal.

use sha1::{Digest, Sha1};
use sha2::{Sha256, Sha512};

use super::{Arguments, Function, function};
use crate::hcl::value::Value;

pub(super) static TABLE: &[Function] = &[
    function("md5", 1..=1, digest::<md5::Md5>),
    function("sha1", 1..=1, digest::<Sha1>),
    function("sha256", 1..=1, digest::<Sha256>),
    function("sha512", 1..=1, digest::<Sha512>),
    function("uuidv5", 2..=2, uuid),
];

fn digest<D: Digest>(arguments: &Arguments<'_>) -> Result<Value, String> {
    Ok(Value::text(hexadecimal(&D::digest(arguments.text(0)?.as_bytes()))))
}

fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// A UUID made of a namespace and a name (RFC 9562, version 5).
fn uuid(arguments: &Arguments<'_>) -> Result<Value, String> {
    let (namespace, name) = (arguments.text(0)?, arguments.text(1)?);
    let namespace = match &*namespace {
        "dns" => "6ba7b810-9dad-11d1-80b4-00c04fd430c8",
        "url" => "6ba7b811-9dad-11d1-80b4-00c04fd430c8",
        "oid" => "6ba7b812-9dad-11d1-80b4-00c04fd430c8",
        "x500" => "6ba7b814-9dad-11d1-80b4-00c04fd430c8",
        other => other,
    };
    let id: berth_model::AllocId =
        namespace.parse().map_err(|_| "the namespace is dns, url, oid, x500 or a UUID")?;
    let mut bytes = Sha1::new().chain_update(id.to_bytes()).chain_update(name.as_bytes()).finalize();
    bytes[6] = bytes[6] & 0x0f | 0x50;
    bytes[8] = bytes[8] & 0x3f | 0x80;
    let id = berth_model::AllocId::from_slice(&bytes[..16]).unwrap_or_default();
    Ok(Value::text(id.to_string()))
}
