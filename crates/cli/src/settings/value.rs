//! Parses the value of a setting, from a flag, a variable or a file.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Display,
    net::{IpAddr, SocketAddr, ToSocketAddrs},
    ops::RangeInclusive,
    path::PathBuf,
    str::FromStr,
    time::Duration,
};

use berth_agent::{DrainOnShutdown, HostNetworks};
use berth_agent::{
    drivers::extra_capability,
    volumes::{HostVolumes, MountDir},
};
use berth_api::agent::JoinCode;
use berth_server::{HostState, shared::MetricsNames};
use tracing::level_filters::LevelFilter;

use super::{Role, tls::TlsSettings, volumes};
use crate::daemon::LogFormat;

/// What was given for one setting: one string, or several for lists and maps.
pub struct SettingValue<'a>(pub &'a [String]);

impl SettingValue<'_> {
    /// A single text that is not empty.
    pub fn text(&self) -> Result<String, String> {
        match self.0 {
            [text] if !text.is_empty() => Ok(text.clone()),
            [_] => Err("the value is empty".into()),
            _ => Err("takes one value".into()),
        }
    }

    pub fn path(&self) -> Result<PathBuf, String> {
        self.text().map(PathBuf::from)
    }

    pub fn paths(&self) -> Result<Vec<PathBuf>, String> {
        self.each(|setting| setting.path())
    }

    pub fn ports(&self) -> Result<Vec<u16>, String> {
        self.each(|setting| setting.parsed("a port"))
    }

    /// An address without a port.
    pub fn ip(&self) -> Result<IpAddr, String> {
        self.parsed("an IP address")
    }

    /// A whole number of at least zero.
    pub fn number(&self) -> Result<u32, String> {
        self.parsed("a whole number from 0 on")
    }

    /// A whole number of at most `max`.
    pub fn number_up_to(&self, max: u32) -> Result<u32, String> {
        let number = self.number()?;
        if number <= max { Ok(number) } else { Err(format!("`{number}` is more than {max}")) }
    }

    /// A whole number within bounds.
    pub fn number_of<N>(&self, among: RangeInclusive<N>) -> Result<N, String>
    where
        N: TryFrom<u32> + PartialOrd + Display,
    {
        let number = self.number()?;
        let (min, max) = (among.start(), among.end());
        let found = N::try_from(number).ok().filter(|number| among.contains(number));
        found.ok_or_else(|| format!("`{number}` is not one of {min} to {max}"))
    }

    /// Whether all reads are recorded, and not only those that reveal secrets.
    pub fn audit_reads(&self) -> Result<bool, String> {
        match &*self.text()? {
            "guarded" => Ok(false),
            "all" => Ok(true),
            other => Err(format!("`{other}` is neither guarded nor all")),
        }
    }

    /// A span of time, as `90s` or `1m30s`.
    pub fn duration(&self) -> Result<Duration, String> {
        let text = self.text()?;
        berth_duration::parse_words(&text).map_err(|error| format!("`{text}` is {error}"))
    }

    /// A span of time that is not too short.
    pub fn duration_of_at_least(&self, min: Duration) -> Result<Duration, String> {
        let span = self.duration()?;
        let min_text = berth_duration::exact(min);
        if span < min { Err(format!("`{}` is less than {min_text}", self.text()?)) } else { Ok(span) }
    }

    /// Hosts of registries.
    pub fn registries(&self) -> Result<BTreeSet<String>, String> {
        self.0.iter().map(|host| berth_agent::check_registry(host).map(|()| host.clone())).collect()
    }

    /// Mirrors to try before a registry, in their order.
    pub fn mirrors(&self) -> Result<BTreeMap<String, Vec<String>>, String> {
        let mut mirrors: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for text in self.0 {
            let (registry, host) = pair(text)?;
            berth_agent::check_registry(&registry).and_then(|()| berth_agent::check_registry(&host))?;
            mirrors.entry(registry).or_default().push(host);
        }
        Ok(mirrors)
    }

    /// Networks of a node.
    pub fn host_networks(&self) -> Result<HostNetworks, String> {
        let mut networks = HostNetworks::new();
        for text in self.0 {
            let (name, network) = pair(text)?;
            let is_word = name.chars().all(|c| c.is_ascii_alphanumeric() || "-_".contains(c));
            if !is_word || name == "default" {
                return Err(format!(
                    "`{name}` cannot name a network: use letters, digits, - and _, and not `default`"
                ));
            }
            if networks.insert(name.clone(), network.parse()?).is_some() {
                return Err(format!("two networks have the name `{name}`"));
            }
        }
        Ok(networks)
    }

    /// Volumes of a node.
    pub fn volumes(&self) -> Result<HostVolumes, String> {
        volumes::read(self.0)
    }

    /// The first and the last of a range of ids.
    pub fn id_range(&self) -> Result<(u32, u32), String> {
        let text = self.text()?;
        let range =
            text.split_once('-').and_then(|(first, last)| Some((first.parse().ok()?, last.parse().ok()?)));
        range.ok_or_else(|| format!("`{text}` is no range of ids such as 1879048192-2147352575"))
    }

    /// Capabilities that containers may add.
    pub fn extra_capabilities(&self) -> Result<Vec<&'static str>, String> {
        self.0.iter().map(|name| extra_capability(name)).collect()
    }

    /// Directories of which containers may mount what they name.
    pub fn mount_dirs(&self) -> Result<Vec<MountDir>, String> {
        volumes::mount_dirs(self.0)
    }

    /// How planners keep up with what nodes hold.
    pub fn host_state(&self) -> Result<HostState, String> {
        self.parsed("one of incremental, cached and reread")
    }

    /// Under which names measurements are read.
    pub fn metrics_names(&self) -> Result<MetricsNames, String> {
        self.parsed("one of berth and nomad")
    }

    /// On or off.
    pub fn switch(&self) -> Result<bool, String> {
        self.parsed("`true` or `false`")
    }

    /// How much is logged.
    pub fn level(&self) -> Result<LevelFilter, String> {
        self.parsed("one of error, warn, info, debug and trace")
    }

    /// How lines of the log are written.
    pub fn log_format(&self) -> Result<LogFormat, String> {
        self.parsed("one of text and json")
    }

    /// HOST:PORT where to listen. What is open to everybody listens where only this machine reaches it; whether a server is,
    /// it says itself.
    pub fn listen_address(&self, role: Role) -> Result<SocketAddr, String> {
        let text = self.host_and_port()?;
        let address = resolve(&text)?;
        if role == Role::Dev && !address.ip().is_loopback() {
            Err(beyond_loopback(&text))
        } else {
            Ok(address)
        }
    }

    /// The address of who signs: without a slash at its end, since what others ask for begins with one.
    pub fn issuer(&self) -> Result<String, String> {
        let text = self.text()?;
        let host = text.strip_prefix("https://").or_else(|| text.strip_prefix("http://"));
        let plain = |c: char| c.is_ascii_graphic() && !matches!(c, '?' | '#' | '"' | '\\');
        match host {
            Some(host) if !host.is_empty() && host.chars().all(plain) && !host.ends_with('/') => Ok(text),
            _ => {
                Err("expected an address like https://berth.example.com, without a slash at its end"
                    .to_owned())
            }
        }
    }

    /// The token with which an agent joins.
    pub fn join_code(&self) -> Result<JoinCode, String> {
        self.text()?.parse()
    }

    /// Certificates, as Nomad's `tls` block has them.
    pub fn tls(&self) -> Result<TlsSettings, String> {
        TlsSettings::read(self.pairs()?)
    }

    /// HOST:PORT, wherever that is.
    pub fn address(&self) -> Result<String, String> {
        self.host_and_port()
    }

    /// One or more HOST:PORT. Names are resolved at each attempt to connect, so here only their form is checked.
    pub fn addresses(&self) -> Result<Vec<String>, String> {
        if self.0.is_empty() {
            return Err("names no server".into());
        }
        self.each(|setting| setting.host_and_port())
    }

    /// `KEY=VALUE` pairs.
    pub fn pairs(&self) -> Result<BTreeMap<String, String>, String> {
        self.0.iter().map(|text| pair(text)).collect()
    }

    /// How a node is drained before its agent stops; none where it is not set.
    pub fn drain(&self) -> Result<Option<DrainOnShutdown>, String> {
        let mut drain = DrainOnShutdown::default();
        for (key, text) in self.pairs()? {
            let given = [text];
            let value = SettingValue(&given);
            match key.replace('_', "-").as_str() {
                "deadline" => drain.deadline = Some(value.duration()?).filter(|span| !span.is_zero()),
                "force" => drain.force = value.switch()?,
                "ignore-system-jobs" => drain.ignore_system = value.switch()?,
                _ => return Err(format!("`{key}` is none of deadline, force and ignore-system-jobs")),
            }
        }
        Ok((!self.0.is_empty()).then_some(drain))
    }

    fn host_and_port(&self) -> Result<String, String> {
        let text = self.text()?;
        let not_an_address = || format!("`{text}` is not HOST:PORT");
        if text.contains('/') {
            return Err(format!("`{text}` is not HOST:PORT: leave out the scheme and the path"));
        }
        let (host, port) = text.rsplit_once(':').ok_or_else(not_an_address)?;
        if host.is_empty() || port.parse::<u16>().is_err() { Err(not_an_address()) } else { Ok(text) }
    }

    fn each<T>(&self, read: impl Fn(&SettingValue<'_>) -> Result<T, String>) -> Result<Vec<T>, String> {
        self.0.iter().map(|text| read(&SettingValue(std::slice::from_ref(text)))).collect()
    }

    fn parsed<T: FromStr>(&self, expected: &str) -> Result<T, String> {
        let text = self.text()?;
        text.parse().map_err(|_| format!("`{text}` is not {expected}"))
    }
}

fn pair(text: &str) -> Result<(String, String), String> {
    let (key, value) = text.split_once('=').ok_or_else(|| format!("`{text}` is not KEY=VALUE"))?;
    if key.is_empty() { Err(format!("`{text}` has no key")) } else { Ok((key.into(), value.into())) }
}

fn resolve(text: &str) -> Result<SocketAddr, String> {
    let mut addresses =
        text.to_socket_addrs().map_err(|error| format!("`{text}` cannot be resolved: {error}"))?;
    addresses.next().ok_or_else(|| format!("`{text}` has no address"))
}

fn beyond_loopback(text: &str) -> String {
    format!(
        "`{text}` can be reached from other machines, and `berth dev` is open to everybody who reaches it: \
         use an address like 127.0.0.1, or `berth server`"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(text: &str) -> Result<SocketAddr, String> {
        SettingValue(&[text.to_owned()]).listen_address(Role::Dev)
    }

    fn pairs(texts: &[&str]) -> Result<BTreeMap<String, String>, String> {
        SettingValue(&texts.iter().map(|&text| text.to_owned()).collect::<Vec<_>>()).pairs()
    }

    #[test]
    fn only_loopback_addresses_are_taken() {
        for good in ["127.0.0.1:4646", "[::1]:0", "127.9.9.9:1"] {
            assert_eq!(address(good), Ok(good.parse().unwrap()));
        }
        for (bad, why) in [
            ("0.0.0.0:4646", "`berth dev` is open"),
            ("[::]:4646", "`berth dev` is open"),
            ("4646", "is not HOST:PORT"),
            (":4646", "is not HOST:PORT"),
            ("127.0.0.1:65536", "is not HOST:PORT"),
            ("", "empty"),
        ] {
            let error = address(bad).unwrap_err();
            assert!(error.contains(why), "{bad}: {error}");
        }
    }

    #[test]
    fn a_drain_says_how_long_and_of_what() {
        let read = |texts: &[&str]| {
            SettingValue(&texts.iter().map(|&text| text.to_owned()).collect::<Vec<_>>()).drain()
        };
        assert_eq!(read(&[]), Ok(None));
        let short = read(&["deadline=30s", "ignore_system_jobs=true"]).unwrap().unwrap();
        assert_eq!((short.deadline, short.ignore_system), (Some(Duration::from_secs(30)), true));
        let endless = read(&["deadline=0s"]).unwrap().unwrap();
        assert_eq!((endless.deadline, endless.force), (None, false));
        assert!(read(&["dead=1h"]).unwrap_err().contains("none of deadline"));
        assert!(read(&["force=maybe"]).is_err());
    }

    #[test]
    fn pairs_need_a_key() {
        let read = pairs(&["rack=r1", "note=a=b", "empty="]).unwrap();
        assert_eq!(read["note"], "a=b");
        assert_eq!(read["empty"], "");
        assert!(pairs(&["rack"]).is_err());
        assert!(pairs(&["=x"]).is_err());
    }
}
