//! The header with the cluster that a request is meant for. An address may belong to another cluster by now: a request that names
//! the one that it means is refused there, and changes nothing.

use hyper::{
    HeaderMap, StatusCode,
    header::{HeaderName, HeaderValue},
};

use super::failure::Failure;

const CLUSTER: HeaderName = HeaderName::from_static("x-berth-cluster");

/// Refuses a request that names another cluster than the server's own, which is 0 as long as it belongs to none.
pub(crate) fn check(headers: &HeaderMap, own: impl FnOnce() -> u128) -> Result<(), Failure> {
    let Some(target) = headers.get(CLUSTER) else { return Ok(()) };
    let (own, target) = (own(), target.to_str().unwrap_or("unreadable"));
    if own != 0 && u128::from_str_radix(target, 16) == Ok(own) {
        return Ok(());
    }
    let whose = if own == 0 { "no cluster yet".to_owned() } else { format!("cluster {own:032x}") };
    let text = format!(
        "this server belongs to {whose}, and the request is for cluster `{target}`: check its address"
    );
    Err(Failure::new(StatusCode::MISDIRECTED_REQUEST, text))
}

/// Adds the header with the own cluster to a response.
pub(crate) fn stamp(headers: &mut HeaderMap, own: u128) {
    if own != 0 {
        let value = HeaderValue::from_str(&format!("{own:032x}")).expect("digits may be a header");
        headers.insert(CLUSTER, value);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(meant: &'static str, own: u128) -> Option<String> {
        let headers = HeaderMap::from_iter([(CLUSTER, HeaderValue::from_static(meant))]);
        check(&headers, || own).err().map(|failure| failure.text)
    }

    #[test]
    fn a_request_for_another_cluster_is_refused_by_name() {
        let mut answer = HeaderMap::new();
        stamp(&mut answer, 0xabc);
        assert!(check(&answer, || 0xabc).is_ok(), "what an answer says may be asked with");
        assert!(check(&HeaderMap::new(), || 0xabc).is_ok(), "nobody has to say it");
        let message = refusal("00000000000000000000000000000def", 0xabc).expect("it is another one");
        assert!(
            message.contains("cluster 00000000000000000000000000000abc") && message.contains("def`"),
            "{message}"
        );
        assert!(refusal("nonsense", 0xabc).is_some());
        assert!(refusal("0", 0).expect("it belongs to none").contains("no cluster yet"));
    }

    #[test]
    fn a_server_without_a_cluster_sends_no_cluster_header() {
        let mut answer = HeaderMap::new();
        stamp(&mut answer, 0);
        assert!(answer.is_empty());
    }
}
