//! Capabilities: those that containers and commands of the host have, those that they can add, and what an operator allows beyond.

/// The rights of root in a container: those that Docker's have, without those to forge packets and to make devices.
const USUAL: [&str; 12] = [
    "CAP_AUDIT_WRITE",
    "CAP_CHOWN",
    "CAP_DAC_OVERRIDE",
    "CAP_FOWNER",
    "CAP_FSETID",
    "CAP_KILL",
    "CAP_NET_BIND_SERVICE",
    "CAP_SETFCAP",
    "CAP_SETGID",
    "CAP_SETPCAP",
    "CAP_SETUID",
    "CAP_SYS_CHROOT",
];

/// Those that an operator may let containers add. They act within the container's own namespaces; the others have no effect there,
/// reach the host, or open parts of the kernel by which many a container has become its host.
pub(super) const EXTRA: [&str; 2] = ["CAP_NET_RAW", "CAP_SYS_PTRACE"];

/// Those that a command of the host may have. The others would open the host's files to it, whoever owns them: ids of files
/// are the same in a container's user namespace.
const OF_HOST: [&str; 4] = ["CAP_AUDIT_WRITE", "CAP_KILL", "CAP_NET_BIND_SERVICE", "CAP_SYS_CHROOT"];

/// The capability that an operator allows by this name, as `net_raw`.
///
/// # Errors
/// That it is none of those that can be allowed, with their names.
pub fn extra_capability(name: &str) -> Result<&'static str, String> {
    let full = full(name);
    EXTRA
        .into_iter()
        .find(|known| *known == full)
        .ok_or_else(|| format!("`{name}` is none of the capabilities that can be allowed: {}", short(&EXTRA)))
}

/// What some kind of task may have.
#[derive(Debug)]
pub(super) struct Rights<'e> {
    usual: &'static [&'static str],
    /// What it can add on this node.
    extra: &'e [&'static str],
    /// What it could add if this node's operator allowed it.
    allowable: &'static [&'static str],
    whom: &'static str,
}

impl<'e> Rights<'e> {
    /// The rights of containers, on a node that lets them add `extra`.
    pub(super) fn of_containers(extra: &'e [&'static str]) -> Self {
        Self { usual: &USUAL, extra, allowable: &EXTRA, whom: "container" }
    }

    /// The rights of isolated commands of the host.
    pub(super) fn of_host() -> Self {
        Self { usual: &OF_HOST, extra: &[], allowable: &[], whom: "command of the host" }
    }

    /// What a task has that adds and drops these. What it adds it has, even where it drops all.
    ///
    /// # Errors
    /// What it adds that no such task may have.
    pub(super) fn granted(&self, added: &[String], dropped: &[String]) -> Result<Vec<&'static str>, String> {
        let added: Vec<String> = added.iter().map(|name| full(name)).collect();
        let dropped: Vec<String> = dropped.iter().map(|name| full(name)).collect();
        let may_have = |name: &str| self.usual.contains(&name) || self.extra.contains(&name);
        if let Some(odd) = added.iter().find(|name| *name != "ALL" && !may_have(name)) {
            return Err(self.refusal(odd));
        }
        let names = |list: &[String], name: &str| list.iter().any(|listed| listed == "ALL" || listed == name);
        let usual = self.usual.iter().filter(|name| !names(&dropped, name) || names(&added, name));
        Ok(usual.chain(self.extra.iter().filter(|name| names(&added, name))).copied().collect())
    }

    fn refusal(&self, name: &str) -> String {
        let may_have = [self.usual, self.extra].concat().join(", ");
        let way_out = match self.allowable.contains(&name) {
            true => format!("; its operator allows it with --extra-capabilities {}", short(&[name])),
            false => String::new(),
        };
        format!(
            "cap_add names {name:?}, which this node gives to no {}: it may have {may_have}{way_out}",
            self.whom
        )
    }
}

/// `net_raw` and `CAP_NET_RAW` are the same.
fn full(name: &str) -> String {
    let capitals = name.to_uppercase();
    if capitals == "ALL" || capitals.starts_with("CAP_") { capitals } else { format!("CAP_{capitals}") }
}

/// As people write them.
fn short(names: &[&str]) -> String {
    names.join(", ").replace("CAP_", "").to_lowercase()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Vec<String> {
        text.split_whitespace().map(str::to_owned).collect()
    }

    #[test]
    fn who_adds_what_the_operator_allows_has_it_and_nobody_else() {
        let allowed =
            [extra_capability("net_raw").expect("one"), extra_capability("CAP_SYS_PTRACE").expect("one")];
        let rights = Rights::of_containers(&allowed);
        assert_eq!(rights.granted(&[], &[]), Ok(USUAL.to_vec()));
        assert_eq!(
            rights.granted(&words("net_raw chown"), &words("all")),
            Ok(vec!["CAP_CHOWN", "CAP_NET_RAW"])
        );
        let all = rights.granted(&words("ALL"), &words("kill")).expect("granted");
        assert_eq!(all, [&USUAL[..], &["CAP_NET_RAW", "CAP_SYS_PTRACE"]].concat());
    }

    #[test]
    fn what_is_not_allowed_is_refused_by_name_with_the_way_out() {
        let refused = Rights::of_containers(&[]).granted(&words("net_raw"), &[]).expect_err("refused");
        assert!(
            refused.contains("\"CAP_NET_RAW\"") && refused.ends_with("--extra-capabilities net_raw"),
            "{refused}"
        );
        let refused = Rights::of_containers(&EXTRA).granted(&words("sys_admin"), &[]).expect_err("refused");
        assert!(refused.contains("CAP_SYS_PTRACE") && !refused.contains("--extra"), "{refused}");
        let refused = Rights::of_host().granted(&words("net_raw"), &[]).expect_err("refused");
        assert!(refused.contains("command of the host") && !refused.contains("--extra"), "{refused}");
        assert!(extra_capability("sys_admin").expect_err("refused").contains("net_raw, sys_ptrace"));
    }
}
