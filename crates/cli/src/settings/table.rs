//! The table of settings: each stands here once, and its flag, its variable and its key in a file derive from its name.

use std::{ops::RangeInclusive, time::Duration};

use berth_server::{LOG_VERSIONS, Share};

use super::{Role, Settings, declared_devices, given::Given};

/// One setting of `berth dev`, `berth server` or `berth agent`.
pub struct Setting {
    /// In kebab case: the flag without its dashes, and the key in a file.
    pub name: &'static str,
    /// How its value is written.
    pub form: Form,
    /// The commands that know it.
    pub roles: &'static [Role],
    /// Its value where nobody says; empty for none.
    pub default: fn(Role) -> &'static str,
    /// One line for people.
    pub help: &'static str,
    /// Reads the value and stores it.
    pub set: fn(&mut Settings, &Given<'_>) -> Result<(), String>,
}

/// How a setting's value is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// A single value, named like this in help.
    One(&'static str),
    /// On or off; the bare flag means on.
    Switch,
    /// Several values, separated by commas; a list in a file.
    List(&'static str),
    /// Pairs, `KEY=VALUE`; a table in a file.
    Map,
}

fn millis(span: Duration) -> u64 {
    u64::try_from(span.as_millis()).unwrap_or(u64::MAX)
}

impl Setting {
    /// The environment variable: `data-dir` is `BERTH_DATA_DIR`.
    pub fn variable(&self) -> String {
        format!("BERTH_{}", self.name.to_uppercase().replace('-', "_"))
    }
}

const ALL: &[Role] = &[Role::Dev, Role::Server, Role::Agent];
const SERVERS: &[Role] = &[Role::Dev, Role::Server];
const AGENTS: &[Role] = &[Role::Dev, Role::Agent];
/// Those that speak with other machines.
const REMOTE: &[Role] = &[Role::Server, Role::Agent];

/// Threads that place allocations: more would only wait for each other.
const PLANNERS_MAX: u32 = 64;

/// Servers that vote: more only make each write slower.
const BOOTSTRAP_EXPECT_MAX: u32 = 9;

/// There are so many root keys and no more: they would be used up otherwise.
const ROOT_KEY_ROTATION_MIN: Duration = Duration::from_secs(60);
/// Connections, and what holds one each: a process has no more files than this.
const CONNECTIONS: RangeInclusive<usize> = 1..=1_000_000;
/// How large a request's body may be, in MiB: all that are being read take no more than 256 together.
const BODY_MB: RangeInclusive<usize> = 1..=64;
/// Shorter, and clients that are far away are refused.
const TIMEOUT_MIN: Duration = Duration::from_secs(1);
/// How large a file of the audit log may be, in MiB.
const AUDIT_FILE_MB: RangeInclusive<u32> = 1..=16_384;
/// Files of the audit log that may be kept.
const AUDIT_FILES: RangeInclusive<u32> = 2..=10_000;

/// The setting of that name.
pub fn find(name: &str) -> Option<&'static Setting> {
    SETTINGS.iter().find(|setting| setting.name == name)
}

/// The settings that a command knows.
pub fn of(role: Role) -> impl Iterator<Item = &'static Setting> {
    SETTINGS.iter().filter(move |setting| setting.roles.contains(&role))
}

/// All settings, in the order in which help lists them.
pub const SETTINGS: &[Setting] = &[
    Setting {
        name: "data-dir",
        form: Form::One("DIR"),
        roles: ALL,
        default: |role| if role == Role::Dev { "" } else { "/var/lib/berth" },
        help: "Directory of state, logs and task directories; `berth dev` makes a temporary one by default",
        set: |to, given| given.path().map(|dir| to.data_dir = Some(dir)),
    },
    Setting {
        name: "http-addr",
        form: Form::One("HOST:PORT"),
        roles: SERVERS,
        default: |_| "127.0.0.1:4646",
        help: "Address on which the HTTP API listens",
        set: |to, given| given.listen_address(to.role).map(|address| to.http_addr = address),
    },
    Setting {
        name: "agent-addr",
        form: Form::One("HOST:PORT"),
        roles: SERVERS,
        default: |role| if role == Role::Dev { "127.0.0.1:0" } else { "127.0.0.1:4647" },
        help: "Address on which the server listens for agents",
        set: |to, given| given.listen_address(to.role).map(|address| to.agent_addr = address),
    },
    Setting {
        name: "server-addr",
        form: Form::One("HOST:PORT"),
        roles: SERVERS,
        default: |_| "",
        help: "Address on which the server listens for other servers; defaults to port 4648 of agent-addr's host, or a free port if that is in use",
        set: |to, given| given.listen_address(to.role).map(|address| to.server_addr = Some(address)),
    },
    Setting {
        name: "server-advertise",
        form: Form::One("HOST:PORT"),
        roles: &[Role::Server],
        default: |_| "",
        help: "Address at which other servers reach this one, if it is not server-addr",
        set: |to, given| given.address().map(|address| to.server_advertise = Some(address)),
    },
    Setting {
        name: "join",
        form: Form::List("HOST:PORT|TOKEN"),
        roles: REMOTE,
        default: |_| "",
        help: "For a server: server-addr of servers whose cluster to join; without it the server founds a cluster. For an agent: the join token of `berth node token`",
        set: |to, given| match to.role {
            Role::Agent => given.join_code().map(|code| to.join_code = Some(code)),
            _ => given.addresses().map(|join| to.join = join),
        },
    },
    Setting {
        name: "bootstrap-expect",
        form: Form::One("COUNT"),
        roles: &[Role::Server],
        default: |_| "1",
        help: "Number of servers that must be present to found a cluster together",
        set: |to, given| given.number_up_to(BOOTSTRAP_EXPECT_MAX).map(|count| to.bootstrap_expect = count),
    },
    Setting {
        name: "acl",
        form: Form::Switch,
        roles: &[Role::Dev, Role::Server],
        default: |_| "false",
        help: "Enforce ACLs: callers need a token; `berth acl bootstrap` creates the first one",
        set: |to, given| given.switch().map(|on| to.acl = on),
    },
    Setting {
        name: "root-key-rotation",
        form: Form::One("DURATION"),
        roles: SERVERS,
        default: |_| "30d",
        help: "Age at which the root key, which encrypts variables and signs workload identities, is rotated; at least 1m",
        set: |to, given| {
            given.duration_of_at_least(ROOT_KEY_ROTATION_MIN).map(|span| to.root_key_rotation = span)
        },
    },
    Setting {
        name: "oidc-issuer",
        form: Form::One("URL"),
        roles: &[Role::Dev, Role::Server],
        default: |_| "",
        help: "URL, https://HOST, at which others fetch this cluster's public keys: the issuer of workload identities, for clouds and Vault",
        set: |to, given| given.issuer().map(|issuer| to.oidc_issuer = Some(issuer)),
    },
    Setting {
        name: "metrics-names",
        form: Form::One("NAMES"),
        roles: SERVERS,
        default: |_| "berth",
        help: "Names of metrics: `berth`, or `nomad` to export as well those that dashboards made for Nomad read",
        set: |to, given| given.metrics_names().map(|names| to.metrics_names = names),
    },
    Setting {
        name: "audit",
        form: Form::Switch,
        roles: SERVERS,
        default: |_| "",
        help: "Record who changed or read what, in a tamper-evident log; defaults to the value of `acl`",
        set: |to, given| given.switch().map(|on| to.audit.on = Some(on)),
    },
    Setting {
        name: "audit-dir",
        form: Form::One("DIR"),
        roles: &[Role::Server],
        default: |_| "",
        help: "Directory of the audit log; defaults to `audit` in data-dir",
        set: |to, given| given.path().map(|dir| to.audit.dir = Some(dir)),
    },
    Setting {
        name: "audit-file-mb",
        form: Form::One("MIB"),
        roles: SERVERS,
        default: |_| "64",
        help: "Size at which the audit log is rotated to a new file, in MiB",
        set: |to, given| given.number_of(AUDIT_FILE_MB).map(|mib| to.audit.file_mb = mib),
    },
    Setting {
        name: "audit-files",
        form: Form::One("COUNT"),
        roles: SERVERS,
        default: |_| "16",
        help: "Number of files of the audit log to keep, the newest included; older ones are removed",
        set: |to, given| given.number_of(AUDIT_FILES).map(|count| to.audit.files = count),
    },
    Setting {
        name: "audit-keep",
        form: Form::One("DURATION"),
        roles: SERVERS,
        default: |_| "0s",
        help: "Minimum age at which a file of the audit log is removed, even if there are more than audit-files; when its disk is full, requests that must be recorded are refused",
        set: |to, given| given.duration().map(|span| to.audit.keep = span),
    },
    Setting {
        name: "audit-reads",
        form: Form::One("WHICH"),
        roles: SERVERS,
        default: |_| "guarded",
        help: "Reads to record besides changes: `guarded` for those that return secrets (logs, files, variables, events, tokens, and all that requires a management token), `all` for lists and statuses too",
        set: |to, given| given.audit_reads().map(|all| to.audit.all_reads = all),
    },
    Setting {
        name: "request-rate-address",
        form: Form::One("COUNT"),
        roles: &[Role::Server],
        default: |_| "1000",
        help: "Average number of requests a second from one address, with bursts of twice as many; 0 for no limit",
        set: |to, given| given.number().map(|count| to.limits.rates.address = count),
    },
    Setting {
        name: "request-rate-token",
        form: Form::One("COUNT"),
        roles: &[Role::Server],
        default: |_| "1000",
        help: "Average number of requests a second with one token, with bursts of twice as many; 0 for no limit",
        set: |to, given| given.number().map(|count| to.limits.rates.token = count),
    },
    Setting {
        name: "request-rate-loopback",
        form: Form::One("COUNT"),
        roles: SERVERS,
        default: |_| "0",
        help: "Average number of requests a second from all programs on this machine together, and with one token from there; it replaces request-rate-address and request-rate-token for them; 0 for no limit",
        set: |to, given| given.number().map(|count| to.limits.rates.loopback = count),
    },
    Setting {
        name: "http-connections-max",
        form: Form::One("COUNT"),
        roles: &[Role::Server],
        default: |_| "16384",
        help: "Maximum number of connections to the HTTP API; programs on this machine may hold half of them",
        set: |to, given| given.number_of(CONNECTIONS).map(|count| to.set_http_connections(count)),
    },
    Setting {
        name: "http-connections-address",
        form: Form::One("COUNT"),
        roles: &[Role::Server],
        default: |_| "",
        help: "Maximum number of connections to the HTTP API from one address; defaults to a sixteenth of http-connections-max",
        set: |to, given| {
            given.number_of(CONNECTIONS).map(|count| to.limits.connections_share.per_address_max = count)
        },
    },
    Setting {
        name: "waits-max",
        form: Form::One("COUNT"),
        roles: &[Role::Server],
        default: |_| "12288",
        help: "Maximum number of blocking queries, streams and commands run in tasks at a time, at most three quarters of http-connections-max; programs on this machine may hold half of them",
        set: |to, given| given.number_of(CONNECTIONS).map(|count| to.set_waits(count)),
    },
    Setting {
        name: "waits-address",
        form: Form::One("COUNT"),
        roles: &[Role::Server],
        default: |_| "",
        help: "Maximum number of these from one address; defaults to a sixteenth of waits-max",
        set: |to, given| {
            given.number_of(CONNECTIONS).map(|count| to.limits.waiting_share.per_address_max = count)
        },
    },
    Setting {
        name: "waits-token",
        form: Form::One("COUNT"),
        roles: &[Role::Server],
        default: |_| "",
        help: "Maximum number of these with one token from other machines, or from the tasks of one allocation; defaults to a third of waits-max",
        set: |to, given| given.number_of(CONNECTIONS).map(|count| to.limits.waiting_of_token_max = count),
    },
    Setting {
        name: "commands-max",
        form: Form::One("COUNT"),
        roles: &[Role::Server],
        default: |_| "256",
        help: "Maximum number of commands in tasks (`alloc exec`) that run through this server at a time",
        set: |to, given| given.number_of(CONNECTIONS).map(|count| to.limits.execs_max = count),
    },
    Setting {
        name: "body-mb",
        form: Form::One("MIB"),
        roles: &[Role::Server],
        default: |_| "1",
        help: "Maximum size of a request's body, in MiB; requests that carry jobs have a limit of their own, job-body-mb",
        set: |to, given| given.number_of(BODY_MB).map(|mb: usize| to.limits.body_bytes_max = mb << 20),
    },
    Setting {
        name: "job-body-mb",
        form: Form::One("MIB"),
        roles: &[Role::Server],
        default: |_| "4",
        help: "Maximum size of the body of a request that carries a job, in MiB",
        set: |to, given| given.number_of(BODY_MB).map(|mb: usize| to.limits.job_body_bytes_max = mb << 20),
    },
    Setting {
        name: "header-timeout",
        form: Form::One("DURATION"),
        roles: &[Role::Server],
        default: |_| "10s",
        help: "Timeout of reading a request's head, from the connection or the last answer on; it closes idle connections too",
        set: |to, given| {
            given.duration_of_at_least(TIMEOUT_MIN).map(|span| to.limits.header_timeout_ms = millis(span))
        },
    },
    Setting {
        name: "body-timeout",
        form: Form::One("DURATION"),
        roles: &[Role::Server],
        default: |_| "30s",
        help: "Timeout of reading a request's body",
        set: |to, given| {
            given.duration_of_at_least(TIMEOUT_MIN).map(|span| to.limits.body_timeout_ms = millis(span))
        },
    },
    Setting {
        name: "agent-connections-max",
        form: Form::One("COUNT"),
        roles: &[Role::Server],
        default: |_| "16384",
        help: "Maximum number of agents' connections, each of which can carry many nodes",
        set: |to, given| given.number_of(CONNECTIONS).map(|count| to.set_agent_connections(count)),
    },
    Setting {
        name: "agent-connections-address",
        form: Form::One("COUNT"),
        roles: &[Role::Server],
        default: |_| "",
        help: "Maximum number of agents' connections from one address, and so of agents behind one NAT; defaults to three quarters of agent-connections-max",
        set: |to, given| {
            given.number_of(CONNECTIONS).map(|count| to.agent_limits.connections_share = Share::equal(count))
        },
    },
    Setting {
        name: "agent-rate-address",
        form: Form::One("COUNT"),
        roles: &[Role::Server],
        default: |_| "2000",
        help: "Average number of connections and sessions that agents at one address open a second, with bursts of twice as many; 0 for no limit; programs on this machine have none",
        set: |to, given| given.number().map(|count| to.agent_limits.begun_a_second = count),
    },
    Setting {
        name: "tls-dir",
        form: Form::One("DIR"),
        roles: REMOTE,
        default: |_| "",
        help: "Directory of certificates and keys, as `berth server init` creates them; defaults to `tls` in data-dir if it exists",
        set: |to, given| given.path().map(|dir| to.tls_dir = Some(dir)),
    },
    Setting {
        name: "tls",
        form: Form::Map,
        roles: REMOTE,
        default: |_| "",
        help: "Certificates from elsewhere, as in Nomad's `tls` block: `ca_file`, `cert_file`, `key_file`; for servers also `ca_key_file`, `http=false`, `verify_https_client=true`, `agent_certificate_ttl=24h`",
        set: |to, given| given.tls().map(|tls| to.tls = tls),
    },
    Setting {
        name: "log-version",
        form: Form::One("VERSION"),
        roles: &[Role::Server],
        default: |_| "7",
        help: "Newest version of log entries to know, 3 to 7: with an older one than its own, older servers can take over",
        set: |to, given| given.number_of(LOG_VERSIONS).map(|version| to.log_version = version),
    },
    Setting {
        name: "servers",
        form: Form::List("HOST:PORT"),
        roles: &[Role::Agent],
        default: |_| "127.0.0.1:4647",
        help: "Servers' addresses for agents",
        set: |to, given| given.addresses().map(|servers| to.servers = servers),
    },
    Setting {
        name: "log-level",
        form: Form::One("LEVEL"),
        roles: ALL,
        default: |role| if role == Role::Dev { "warn" } else { "info" },
        help: "Level of the log on standard error: error, warn, info, debug or trace",
        set: |to, given| given.level().map(|level| to.log_level = level),
    },
    Setting {
        name: "log-format",
        form: Form::One("FORMAT"),
        roles: ALL,
        default: |_| "text",
        help: "Format of the log: text, or json: one object a line with timestamp, level, target, message and fields",
        set: |to, given| given.log_format().map(|format| to.log_format = format),
    },
    Setting {
        name: "datacenter",
        form: Form::One("NAME"),
        roles: ALL,
        default: |_| "dc1",
        help: "Datacenter of the node or server",
        set: |to, given| given.text().map(|name| to.datacenter = name),
    },
    Setting {
        name: "server-name",
        form: Form::One("NAME"),
        roles: SERVERS,
        default: |_| "",
        help: "Name of the server; defaults to the host name",
        set: |to, given| given.text().map(|name| to.server_name = name),
    },
    Setting {
        name: "region",
        form: Form::One("NAME"),
        roles: SERVERS,
        default: |_| "global",
        help: "Name of the region",
        set: |to, given| given.text().map(|region| to.region = region),
    },
    Setting {
        name: "planners",
        form: Form::One("COUNT"),
        roles: SERVERS,
        default: |_| "0",
        help: "Number of threads that plan placements; 0 for one less than there are processors",
        set: |to, given| given.number_up_to(PLANNERS_MAX).map(|count| to.planners = count),
    },
    Setting {
        name: "host-state",
        form: Form::One("KIND"),
        roles: SERVERS,
        default: |_| "incremental",
        help: "Experimental: how planners keep up with the resources that nodes have free: incremental, cached or reread",
        set: |to, given| given.host_state().map(|kind| to.host_state = kind),
    },
    Setting {
        name: "host-state-refresh",
        form: Form::One("DURATION"),
        roles: SERVERS,
        default: |_| "60s",
        help: "Experimental: how long planners use cached resources, with host-state cached",
        set: |to, given| given.duration().map(|refresh| to.host_state_refresh = refresh),
    },
    Setting {
        name: "node-name",
        form: Form::One("NAME"),
        roles: AGENTS,
        default: |_| "",
        help: "Name of the node; defaults to the host name",
        set: |to, given| given.text().map(|name| to.node.name = name),
    },
    Setting {
        name: "node-pool",
        form: Form::One("NAME"),
        roles: AGENTS,
        default: |_| "default",
        help: "Node pool of the node",
        set: |to, given| given.text().map(|pool| to.node.pool = pool),
    },
    Setting {
        name: "node-class",
        form: Form::One("NAME"),
        roles: AGENTS,
        default: |_| "",
        help: "Node class, a name of your choice for constraints",
        set: |to, given| given.text().map(|class| to.node.class = class),
    },
    Setting {
        name: "meta",
        form: Form::Map,
        roles: AGENTS,
        default: |_| "",
        help: "Metadata of the node, for constraints",
        set: |to, given| given.pairs().map(|meta| to.node.meta = meta),
    },
    Setting {
        name: "host-ip",
        form: Form::One("IP"),
        roles: AGENTS,
        default: |_| "127.0.0.1",
        help: "IP address at which ports of allocations are reached",
        set: |to, given| given.ip().map(|ip| to.node.host_ip = ip),
    },
    Setting {
        name: "total-cpu",
        form: Form::One("MHZ"),
        roles: AGENTS,
        default: |_| "0",
        help: "CPU of the machine in MHz; 0 to detect it",
        set: |to, given| given.number().map(|mhz| to.node.total_cpu_mhz = mhz),
    },
    Setting {
        name: "total-memory",
        form: Form::One("MIB"),
        roles: AGENTS,
        default: |_| "0",
        help: "Memory of the machine in MiB; 0 to detect it",
        set: |to, given| given.number().map(|mb| to.node.total_memory_mb = mb),
    },
    Setting {
        name: "reserved-cpu",
        form: Form::One("MHZ"),
        roles: AGENTS,
        default: |_| "0",
        help: "CPU that is not given to allocations, in MHz",
        set: |to, given| given.number().map(|mhz| to.node.reserved_cpu_mhz = mhz),
    },
    Setting {
        name: "reserved-memory",
        form: Form::One("MIB"),
        roles: AGENTS,
        default: |_| "0",
        help: "Memory that is not given to allocations, in MiB",
        set: |to, given| given.number().map(|mb| to.node.reserved_memory_mb = mb),
    },
    Setting {
        name: "reserved-disk",
        form: Form::One("MIB"),
        roles: AGENTS,
        default: |_| "0",
        help: "Disk that is not given to allocations, in MiB",
        set: |to, given| given.number().map(|mb| to.node.reserved_disk_mb = mb),
    },
    Setting {
        name: "reserved-ports",
        form: Form::List("PORT"),
        roles: AGENTS,
        default: |_| "",
        help: "Ports that are not given to allocations",
        set: |to, given| given.ports().map(|ports| to.node.reserved_ports = ports),
    },
    Setting {
        name: "max-kill-timeout",
        form: Form::One("DURATION"),
        roles: AGENTS,
        default: |_| "30s",
        help: "Maximum time between a task's kill signal and SIGKILL, whatever its kill_timeout",
        set: |to, given| given.duration().map(|most| to.node.kill_timeout_max = most),
    },
    Setting {
        name: "devices",
        form: Form::List("VENDOR/TYPE/MODEL=ID[;KEY=VALUE]"),
        roles: AGENTS,
        default: |_| "",
        help: "Devices of the node besides GPUs, which agents detect, e.g. `acme/fpga/A1=0;file=/dev/a0;memory=8 GiB`",
        set: |to, given| declared_devices::read(given.0).map(|devices| to.node.devices = devices),
    },
    Setting {
        name: "raw-exec",
        form: Form::Switch,
        roles: AGENTS,
        default: |role| if role == Role::Dev { "true" } else { "false" },
        help: "Allow jobs to run commands on the host without isolation, with the agent's own rights",
        set: |to, given| given.switch().map(|on| to.node.raw_exec = on),
    },
    Setting {
        name: "containers",
        form: Form::Switch,
        roles: AGENTS,
        default: |_| "true",
        help: "Allow jobs to run containers, where the host has an OCI runtime",
        set: |to, given| given.switch().map(|on| to.node.containers = on),
    },
    Setting {
        name: "container-runtime",
        form: Form::One("FILE"),
        roles: AGENTS,
        default: |_| "",
        help: "Path of the OCI runtime; defaults to crun, else runc",
        set: |to, given| given.text().map(|runtime| to.node.container_runtime = runtime),
    },
    Setting {
        name: "image-dirs",
        form: Form::List("DIR"),
        roles: AGENTS,
        default: |_| "",
        help: "Directories whose contents jobs may use as images, by path",
        set: |to, given| given.paths().map(|dirs| to.node.images.dirs = dirs),
    },
    Setting {
        name: "registry-mirrors",
        form: Form::List("REGISTRY=HOST[:PORT]"),
        roles: AGENTS,
        default: |_| "",
        help: "Mirrors to try before a registry, in order of preference, e.g. `docker.io=mirror.example.com`",
        set: |to, given| given.mirrors().map(|mirrors| to.node.images.registries.mirrors = mirrors),
    },
    Setting {
        name: "insecure-registries",
        form: Form::List("HOST[:PORT]"),
        roles: AGENTS,
        default: |_| "",
        help: "Registries and mirrors that are reached over plain HTTP",
        set: |to, given| given.registries().map(|hosts| to.node.images.registries.insecure = hosts),
    },
    Setting {
        name: "registry-auth-file",
        form: Form::One("FILE"),
        roles: AGENTS,
        default: |_| "",
        help: "Credentials of registries, as `docker login` writes them",
        set: |to, given| given.path().map(|file| to.node.images.registries.auth_file = Some(file)),
    },
    Setting {
        name: "image-disk-max",
        form: Form::One("PERCENT"),
        roles: AGENTS,
        default: |_| "85",
        help: "Disk usage above which unused images are removed, the least recently used first, in percent",
        set: |to, given| {
            let percent = given.number_up_to(100)?;
            to.node.images.limits.disk_percent_max = u8::try_from(percent).unwrap_or(100);
            Ok(())
        },
    },
    Setting {
        name: "image-age-max",
        form: Form::One("DURATION"),
        roles: AGENTS,
        default: |_| "7d",
        help: "Time after which an unused image is removed",
        set: |to, given| given.duration().map(|age| to.node.images.limits.age_max = age),
    },
    Setting {
        name: "drain-on-shutdown",
        form: Form::Map,
        roles: &[Role::Agent],
        default: |_| "",
        help: "Drain the node before the agent stops: `deadline=1h` (0s for no deadline), `force=true`, `ignore-system-jobs=true`",
        set: |to, given| given.drain().map(|drain| to.node.drain_on_shutdown = drain),
    },
    Setting {
        name: "host-network",
        form: Form::Switch,
        roles: AGENTS,
        default: |_| "false",
        help: "Allow jobs to give containers the host's network, where they reach all that listens on the host, this API included",
        set: |to, given| given.switch().map(|on| to.node.host_network = on),
    },
    Setting {
        name: "user-namespaces",
        form: Form::Switch,
        roles: AGENTS,
        default: |_| "true",
        help: "Run containers in user namespaces, so that their root has no rights on this node, where its kernel and file system support it",
        set: |to, given| given.switch().map(|on| to.node.user_ids.on = on),
    },
    Setting {
        name: "container-ids",
        form: Form::One("FIRST-LAST"),
        roles: AGENTS,
        default: |_| "1879048192-2147352575",
        help: "Range of host user ids for containers, 65536 for each allocation; nothing else may use them",
        set: |to, given| given.id_range().map(|range| to.node.user_ids.range = range),
    },
    Setting {
        name: "host-users",
        form: Form::Switch,
        roles: AGENTS,
        default: |_| "false",
        help: "Allow containers without a user namespace (`userns_mode = \"host\"`), whose root is root on this node",
        set: |to, given| given.switch().map(|on| to.node.user_ids.host_allowed = on),
    },
    Setting {
        name: "extra-capabilities",
        form: Form::List("NAME"),
        roles: AGENTS,
        default: |_| "",
        help: "Capabilities that containers may add with `cap_add` besides the default ones: `net_raw`, `sys_ptrace`",
        set: |to, given| given.extra_capabilities().map(|names| to.node.extra_capabilities = names),
    },
    Setting {
        name: "exec",
        form: Form::Switch,
        roles: AGENTS,
        default: |_| "true",
        help: "Allow jobs to run the host's programs in containers that see its programs and libraries, where it has an OCI runtime",
        set: |to, given| given.switch().map(|on| to.node.exec = on),
    },
    Setting {
        name: "exec-paths",
        form: Form::List("DIR"),
        roles: AGENTS,
        default: |_| "",
        help: "Directories of the host that these containers see, read-only; defaults to /bin, /etc, /lib*, /sbin and /usr",
        set: |to, given| given.paths().map(|paths| to.node.exec_paths = paths),
    },
    Setting {
        name: "bridge",
        form: Form::Switch,
        roles: AGENTS,
        default: |_| "true",
        help: "Give allocations networks of their own, with NAT and port mappings by nftables, where the host supports it",
        set: |to, given| given.switch().map(|on| to.node.network.on = on),
    },
    Setting {
        name: "bridge-name",
        form: Form::One("NAME"),
        roles: AGENTS,
        default: |_| "berth",
        help: "Prefix of the names of these networks' interfaces, and name of their nftables table",
        set: |to, given| given.text().map(|name| to.node.network.name = name),
    },
    Setting {
        name: "bridge-subnet",
        form: Form::One("SUBNET"),
        roles: AGENTS,
        default: |_| "172.27.64.0/20",
        help: "Subnet of the addresses of these networks",
        set: |to, given| given.text().map(|subnet| to.node.network.subnet = subnet),
    },
    Setting {
        name: "bridge-subnet-ipv6",
        form: Form::One("SUBNET"),
        roles: AGENTS,
        default: |_| "fd62:6572:7468::/64",
        help: "IPv6 subnet of the addresses of these networks, on hosts that forward IPv6",
        set: |to, given| given.text().map(|subnet| to.node.network.subnet_v6 = subnet),
    },
    Setting {
        name: "bridge-host-ports",
        form: Form::List("PORT"),
        roles: AGENTS,
        default: |_| "",
        help: "Ports of the host that these networks may reach, besides those of allocations",
        set: |to, given| given.ports().map(|ports| to.node.network.host_ports = ports),
    },
    Setting {
        name: "host-networks",
        form: Form::List("NAME=NETWORK"),
        roles: AGENTS,
        default: |_| "",
        help: "Host networks that jobs may take ports from, each an address, a subnet or an interface, e.g. `lan=10.0.0.0/8`",
        set: |to, given| given.host_networks().map(|networks| to.node.host_networks = networks),
    },
    Setting {
        name: "host-volumes",
        form: Form::List("NAME=PATH"),
        roles: AGENTS,
        default: |_| "",
        help: "Directories that jobs may mount, e.g. `data=/srv/data`; `;read_only` after the path makes a mount read-only for all",
        set: |to, given| given.volumes().map(|volumes| to.node.host_volumes = volumes),
    },
    Setting {
        name: "mount-dirs",
        form: Form::List("DIR"),
        roles: AGENTS,
        default: |_| "",
        help: "Directories below which containers may mount any path, e.g. `/srv/www`; `;read_only` after the path makes mounts read-only for all",
        set: |to, given| given.mount_dirs().map(|dirs| to.node.mount_dirs = dirs),
    },
    Setting {
        name: "artifact-dirs",
        form: Form::List("DIR"),
        roles: AGENTS,
        default: |_| "",
        help: "Directories of this machine whose files may be artifacts",
        set: |to, given| given.paths().map(|dirs| to.node.artifacts.dirs = dirs),
    },
    Setting {
        name: "artifact-hosts",
        form: Form::List("HOST:PORT"),
        roles: AGENTS,
        default: |_| "",
        help: "Hosts that artifacts may come from although they are this machine itself",
        set: |to, given| given.registries().map(|hosts| to.node.artifacts.hosts = hosts),
    },
    Setting {
        name: "artifact-mb-max",
        form: Form::One("MIB"),
        roles: AGENTS,
        default: |_| "8192",
        help: "Maximum size of one artifact, in MiB",
        set: |to, given| given.number().map(|mib| to.node.artifacts.bytes_max = u64::from(mib) << 20),
    },
    Setting {
        name: "artifact-timeout",
        form: Form::One("DURATION"),
        roles: AGENTS,
        default: |_| "30m",
        help: "Timeout of one artifact's download",
        set: |to, given| given.duration().map(|timeout| to.node.artifacts.timeout = timeout),
    },
    Setting {
        name: "mock-driver",
        form: Form::Switch,
        roles: AGENTS,
        default: |role| if role == Role::Dev { "true" } else { "false" },
        help: "Allow jobs to use the mock driver, whose tasks only simulate running",
        set: |to, given| given.switch().map(|on| to.node.mock_driver = on),
    },
    Setting {
        name: "sim-nodes",
        form: Form::One("COUNT"),
        roles: &[Role::Dev],
        default: |_| "0",
        help: "Number of simulated nodes to add",
        set: |to, given| given.number().map(|count| to.sim_nodes = count),
    },
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_knows_the_newest_entries_unless_it_is_told_otherwise() {
        let setting = SETTINGS.iter().find(|setting| setting.name == "log-version").expect("a setting");
        let newest = LOG_VERSIONS.end().to_string();
        assert_eq!((setting.default)(Role::Server), newest);
        assert!(setting.help.contains(&format!("to {newest}:")), "{}", setting.help);
    }

    #[test]
    fn names_are_unique_and_ready_to_be_flags() {
        let mut names: Vec<_> = SETTINGS.iter().map(|setting| setting.name).collect();
        let fits = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
        assert!(names.iter().all(|name| name.chars().all(fits)));
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), SETTINGS.len());
    }

    #[test]
    fn every_default_can_be_read() {
        for role in [Role::Dev, Role::Server, Role::Agent] {
            for setting in of(role).filter(|setting| !(setting.default)(role).is_empty()) {
                let given = [(setting.default)(role).to_owned()];
                let read = (setting.set)(&mut Settings::blank(role), &Given(&given));
                assert_eq!(read, Ok(()), "{role} {}", setting.name);
            }
        }
    }
}
