//! Settings of servers and agents alike.

use super::{Role, Setting, ValueForm};

const ALL: &[Role] = &[Role::Dev, Role::Server, Role::Agent];

/// Those that speak with other machines.
const REMOTE: &[Role] = &[Role::Server, Role::Agent];

/// In the order in which help lists them.
pub(super) const SETTINGS: &[Setting] = &[
    Setting {
        name: "data-dir",
        form: ValueForm::One("DIR"),
        roles: ALL,
        default: |role| if role == Role::Dev { "" } else { "/var/lib/berth" },
        help: "Directory of state, logs and task directories; `berth dev` makes a temporary one by default",
        set: |to, value| value.path().map(|dir| to.data_dir = Some(dir)),
    },
    Setting {
        name: "join",
        form: ValueForm::List("HOST:PORT|TOKEN"),
        roles: REMOTE,
        default: |_| "",
        help: "For a server: server-addr of servers whose cluster to join; without it the server founds a cluster. For an agent: the join token of `berth node token`",
        set: |to, value| match to.role {
            Role::Agent => value.join_code().map(|code| to.join_code = Some(code)),
            _ => value.addresses().map(|join| to.join = join),
        },
    },
    Setting {
        name: "tls-dir",
        form: ValueForm::One("DIR"),
        roles: REMOTE,
        default: |_| "",
        help: "Directory of certificates and keys, as `berth server init` creates them; defaults to `tls` in data-dir if it exists",
        set: |to, value| value.path().map(|dir| to.tls_dir = Some(dir)),
    },
    Setting {
        name: "tls",
        form: ValueForm::Map,
        roles: REMOTE,
        default: |_| "",
        help: "Certificates from elsewhere, as in Nomad's `tls` block: `ca_file`, `cert_file`, `key_file`; for servers also `ca_key_file`, `http=false`, `verify_https_client=true`, `agent_certificate_ttl=24h`",
        set: |to, value| value.tls().map(|tls| to.tls = tls),
    },
    Setting {
        name: "log-level",
        form: ValueForm::One("LEVEL"),
        roles: ALL,
        default: |role| if role == Role::Dev { "warn" } else { "info" },
        help: "Level of the log on standard error: error, warn, info, debug or trace",
        set: |to, value| value.level().map(|level| to.log_level = level),
    },
    Setting {
        name: "log-format",
        form: ValueForm::One("FORMAT"),
        roles: ALL,
        default: |_| "text",
        help: "Format of the log: text, or json: one object a line with timestamp, level, target, message and fields",
        set: |to, value| value.log_format().map(|format| to.log_format = format),
    },
    Setting {
        name: "datacenter",
        form: ValueForm::One("NAME"),
        roles: ALL,
        default: |_| "dc1",
        help: "Datacenter of the node or server",
        set: |to, value| value.text().map(|name| to.datacenter = name),
    },
];
