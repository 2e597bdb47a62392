//! resolv.conf of a network: the job's own, or the host's, as far as it works from there.

use std::fs;
use std::net::IpAddr;

use berth_api::agent::DnsSpec;

/// The host's, and where systemd-resolved keeps what is behind the loopback address that it listens on.
const SOURCES: [&str; 2] = ["/etc/resolv.conf", "/run/systemd/resolve/resolv.conf"];

/// What a network's resolv.conf says.
pub(crate) fn resolv_conf(dns: Option<&DnsSpec>) -> String {
    let hosts = SOURCES.iter().map(|path| fs::read_to_string(path).unwrap_or_default());
    of(dns, hosts)
}

fn of(dns: Option<&DnsSpec>, mut hosts: impl Iterator<Item = String>) -> String {
    let Some(dns) = dns.filter(|dns| **dns != DnsSpec::default()) else {
        let texts: Vec<String> = hosts.by_ref().map(|text| reachable(&text)).collect();
        let has_server = |text: &&String| text.lines().any(|line| line.starts_with("nameserver"));
        return texts.iter().find(has_server).or(texts.first()).cloned().unwrap_or_default();
    };
    let servers = if dns.servers.is_empty() {
        let texts = hosts.map(|text| reachable(&text));
        let lines: Vec<String> =
            texts.map(|text| only_servers(&text)).filter(|text| !text.is_empty()).collect();
        lines.into_iter().next().unwrap_or_default()
    } else {
        let servers = dns.servers.iter().filter_map(|server| server.parse::<IpAddr>().ok());
        servers.map(|server| format!("nameserver {server}\n")).collect()
    };
    // Servers see to it that each is one word; an older one may not have.
    let is_word = |text: &&String| text.chars().all(|c| c.is_ascii_graphic());
    let line = |word: &str, values: &[String]| {
        let words: Vec<&str> = values.iter().filter(is_word).map(String::as_str).collect();
        if words.is_empty() { String::new() } else { format!("{word} {}\n", words.join(" ")) }
    };
    format!("{}{servers}{}", line("search", &dns.searches), line("options", &dns.options))
}

fn only_servers(text: &str) -> String {
    text.lines().filter(|line| line.starts_with("nameserver")).map(|line| format!("{line}\n")).collect()
}

/// Without servers on the host's loopback address, which is another one in a network.
fn reachable(text: &str) -> String {
    let is_kept = |line: &&str| {
        let mut words = line.split_whitespace();
        match (words.next(), words.next()) {
            (Some("nameserver"), Some(server)) => {
                let server = server.split('%').next().unwrap_or_default();
                server.parse::<IpAddr>().is_ok_and(|server| !server.is_loopback() && !server.is_unspecified())
            }
            (Some(word), _) => !word.starts_with(['#', ';']),
            (None, _) => false,
        }
    };
    text.lines().map(str::trim).filter(is_kept).map(|line| format!("{line}\n")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const STUB: &str = "# managed\nnameserver 127.0.0.53\noptions edns0\nsearch lan\n";
    const BEHIND: &str = "nameserver 10.0.0.2\nnameserver 1.1.1.1\nsearch lan\n";

    fn check(dns: Option<DnsSpec>, hosts: &[&str], expected: &str) {
        assert_eq!(of(dns.as_ref(), hosts.iter().map(|text| (*text).to_owned())), expected);
    }

    #[test]
    fn the_hosts_servers_are_taken_where_they_can_be_reached() {
        check(None, &["nameserver 10.0.0.2\n", BEHIND], "nameserver 10.0.0.2\n");
        check(None, &[STUB, BEHIND], BEHIND);
        check(None, &[STUB, ""], "options edns0\nsearch lan\n");
        check(Some(DnsSpec::default()), &[BEHIND], BEHIND);
    }

    #[test]
    fn a_jobs_own_word_holds() {
        let dns = |servers: &[&str], searches: &[&str]| DnsSpec {
            servers: servers.iter().map(|text| (*text).to_owned()).collect(),
            searches: searches.iter().map(|text| (*text).to_owned()).collect(),
            options: vec!["ndots:2".into()],
        };
        check(
            Some(dns(&["9.9.9.9"], &["a", "b"])),
            &[BEHIND],
            "search a b\nnameserver 9.9.9.9\noptions ndots:2\n",
        );
        check(
            Some(dns(&["x\nnameserver 6.6.6.6"], &["a\nnameserver 6.6.6.6", "b"])),
            &[],
            "search b\noptions ndots:2\n",
        );
        check(
            Some(dns(&[], &["a"])),
            &[STUB, BEHIND],
            "search a\nnameserver 10.0.0.2\nnameserver 1.1.1.1\noptions ndots:2\n",
        );
    }
}
