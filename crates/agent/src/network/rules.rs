//! The rules of the agent's table: what leads into networks, what leaves them, and what they reach of the host.

use std::fmt::Write;

use super::{NetworkConfig, Subnets};

/// A set of rules as `nft` reads it.
#[derive(Debug)]
pub(super) struct Rules(String);

impl Rules {
    pub(super) fn new(config: &NetworkConfig, subnets: &Subnets) -> Self {
        let ours = format!("\"{}-*\"", config.name);
        let mut masquerade = format!("oifname != {ours} ip saddr {subnets} masquerade");
        if let Some(v6) = subnets.v6() {
            let _ = write!(masquerade, "\n    oifname != {ours} ip6 saddr {v6} masquerade");
        }
        let ports = |verdict: &str, ports: &[u16]| match ports {
            [] => String::new(),
            ports => {
                let list: Vec<String> = ports.iter().map(u16::to_string).collect();
                format!("meta l4proto {{ tcp, udp }} th dport {{ {} }} {verdict}\n    ", list.join(", "))
            }
        };
        let (allowed, own) = (ports("accept", &config.host_ports), ports("reject", &config.own_ports));
        Self(format!(
            "\
  map v4 {{ type ipv4_addr . inet_service : ipv4_addr . inet_service; }}
  map v6 {{ type ipv6_addr . inet_service : ipv6_addr . inet_service; }}
  # Ports of allocations whose tasks live in the host's network.
  set host_v4 {{ type ipv4_addr . inet_service; }}
  set host_v6 {{ type ipv6_addr . inet_service; }}
  # The kernel takes packets for the loopback address from these interfaces, because what comes from it is sent there.
  chain early {{
    type filter hook prerouting priority -300; policy accept;
    iifname {ours} ip daddr 127.0.0.0/8 drop
  }}
  chain incoming {{
    type nat hook prerouting priority -100; policy accept;
    meta l4proto {{ tcp, udp }} dnat ip to ip daddr . th dport map @v4
    meta l4proto {{ tcp, udp }} dnat ip6 to ip6 daddr . th dport map @v6
  }}
  chain from_host {{
    type nat hook output priority -100; policy accept;
    meta l4proto {{ tcp, udp }} dnat ip to ip daddr . th dport map @v4
    meta l4proto {{ tcp, udp }} dnat ip6 to ip6 daddr . th dport map @v6
  }}
  chain outgoing {{
    type nat hook postrouting priority 100; policy accept;
    oifname {ours} ip saddr 127.0.0.0/8 masquerade
    iifname {ours} oifname {ours} ct status dnat masquerade
    {masquerade}
  }}
  # Into a network lead ports alone. A reset always arrives, while the kernel sends few messages of ICMP a second.
  chain forwarded {{
    type filter hook forward priority 0; policy accept;
    oifname != {ours} accept
    ct state established,related accept
    ct status dnat accept
    meta l4proto tcp reject with tcp reset
    reject
  }}
  # Of the host itself, its allocations' ports and what the operator names.
  chain to_host {{
    type filter hook input priority 0; policy accept;
    iifname != {ours} accept
    ct state established,related accept
    meta l4proto {{ icmp, ipv6-icmp }} accept
    {allowed}{own}meta l4proto {{ tcp, udp }} ip daddr . th dport @host_v4 accept
    meta l4proto {{ tcp, udp }} ip6 daddr . th dport @host_v6 accept
    meta l4proto tcp reject with tcp reset
    reject
  }}
"
        ))
    }

    /// All of them, in the place of what stands under this name.
    pub(super) fn install(&self, table: &str, elements: &str) -> String {
        let rules = &self.0;
        format!("table inet {table}\ndelete table inet {table}\ntable inet {table} {{\n{rules}}}\n{elements}")
    }
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::*;

    #[test]
    fn what_an_operator_says_is_in_the_rules() {
        let config =
            NetworkConfig { host_ports: vec![53, 8125], own_ports: vec![25_000], ..NetworkConfig::default() };
        let subnets = Subnets::find(&config, [127, 0, 0, 1].into()).expect("subnets");
        let rules = Rules::new(&config, &subnets).install("berth", "");
        let of_host = rules.split("chain to_host").nth(1).expect("a chain");
        expect![[r#"
             {
                type filter hook input priority 0; policy accept;
                iifname != "berth-*" accept
                ct state established,related accept
                meta l4proto { icmp, ipv6-icmp } accept
                meta l4proto { tcp, udp } th dport { 53, 8125 } accept
                meta l4proto { tcp, udp } th dport { 25000 } reject
                meta l4proto { tcp, udp } ip daddr . th dport @host_v4 accept
                meta l4proto { tcp, udp } ip6 daddr . th dport @host_v6 accept
                meta l4proto tcp reject with tcp reset
                reject
              }
            }
        "#]]
        .assert_eq(of_host);
        assert!(rules.contains("oifname != \"berth-*\" ip saddr 172.27.64.0/20 masquerade\n"), "{rules}");
    }
}
