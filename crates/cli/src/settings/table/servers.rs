//! Settings of servers.

use std::{ops::RangeInclusive, time::Duration};

use berth_server::{AddressLimit, LOG_VERSIONS};

use super::{Role, Setting, ValueForm};

const SERVERS: &[Role] = &[Role::Dev, Role::Server];

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

fn millis(span: Duration) -> u64 {
    u64::try_from(span.as_millis()).unwrap_or(u64::MAX)
}

/// In the order in which help lists them.
pub(super) const SETTINGS: &[Setting] = &[
    Setting {
        name: "http-addr",
        form: ValueForm::One("HOST:PORT"),
        roles: SERVERS,
        default: |_| "127.0.0.1:4646",
        help: "Address on which the HTTP API listens",
        set: |to, value| value.listen_address(to.role).map(|address| to.http_addr = address),
    },
    Setting {
        name: "agent-addr",
        form: ValueForm::One("HOST:PORT"),
        roles: SERVERS,
        default: |role| if role == Role::Dev { "127.0.0.1:0" } else { "127.0.0.1:4647" },
        help: "Address on which the server listens for agents",
        set: |to, value| value.listen_address(to.role).map(|address| to.agent_addr = address),
    },
    Setting {
        name: "server-addr",
        form: ValueForm::One("HOST:PORT"),
        roles: SERVERS,
        default: |_| "",
        help: "Address on which the server listens for other servers; defaults to port 4648 of agent-addr's host, or a free port if that is in use",
        set: |to, value| value.listen_address(to.role).map(|address| to.server_addr = Some(address)),
    },
    Setting {
        name: "server-advertise",
        form: ValueForm::One("HOST:PORT"),
        roles: &[Role::Server],
        default: |_| "",
        help: "Address at which other servers reach this one, if it is not server-addr",
        set: |to, value| value.address().map(|address| to.server_advertise = Some(address)),
    },
    Setting {
        name: "bootstrap-expect",
        form: ValueForm::One("COUNT"),
        roles: &[Role::Server],
        default: |_| "1",
        help: "Number of servers that must be present to found a cluster together",
        set: |to, value| value.number_up_to(BOOTSTRAP_EXPECT_MAX).map(|count| to.bootstrap_expect = count),
    },
    Setting {
        name: "acl",
        form: ValueForm::Switch,
        roles: SERVERS,
        default: |_| "false",
        help: "Enforce ACLs: callers need a token; `berth acl bootstrap` creates the first one",
        set: |to, value| value.switch().map(|on| to.acl = on),
    },
    Setting {
        name: "root-key-rotation",
        form: ValueForm::One("DURATION"),
        roles: SERVERS,
        default: |_| "30d",
        help: "Age at which the root key, which encrypts variables and signs workload identities, is rotated; at least 1m",
        set: |to, value| {
            value.duration_of_at_least(ROOT_KEY_ROTATION_MIN).map(|span| to.root_key_rotation = span)
        },
    },
    Setting {
        name: "oidc-issuer",
        form: ValueForm::One("URL"),
        roles: SERVERS,
        default: |_| "",
        help: "URL, https://HOST, at which others fetch this cluster's public keys: the issuer of workload identities, for clouds and Vault",
        set: |to, value| value.issuer().map(|issuer| to.oidc_issuer = Some(issuer)),
    },
    Setting {
        name: "metrics-names",
        form: ValueForm::One("NAMES"),
        roles: SERVERS,
        default: |_| "berth",
        help: "Names of metrics: `berth`, or `nomad` to export as well those that dashboards made for Nomad read",
        set: |to, value| value.metrics_names().map(|names| to.metrics_names = names),
    },
    Setting {
        name: "audit",
        form: ValueForm::Switch,
        roles: SERVERS,
        default: |_| "",
        help: "Record who changed or read what, in a tamper-evident log; defaults to the value of `acl`",
        set: |to, value| value.switch().map(|on| to.audit.on = Some(on)),
    },
    Setting {
        name: "audit-dir",
        form: ValueForm::One("DIR"),
        roles: &[Role::Server],
        default: |_| "",
        help: "Directory of the audit log; defaults to `audit` in data-dir",
        set: |to, value| value.path().map(|dir| to.audit.dir = Some(dir)),
    },
    Setting {
        name: "audit-file-mb",
        form: ValueForm::One("MIB"),
        roles: SERVERS,
        default: |_| "64",
        help: "Size at which the audit log is rotated to a new file, in MiB",
        set: |to, value| value.number_of(AUDIT_FILE_MB).map(|mib| to.audit.file_mb = mib),
    },
    Setting {
        name: "audit-files",
        form: ValueForm::One("COUNT"),
        roles: SERVERS,
        default: |_| "16",
        help: "Number of files of the audit log to keep, the newest included; older ones are removed",
        set: |to, value| value.number_of(AUDIT_FILES).map(|count| to.audit.files = count),
    },
    Setting {
        name: "audit-keep",
        form: ValueForm::One("DURATION"),
        roles: SERVERS,
        default: |_| "0s",
        help: "Minimum age at which a file of the audit log is removed, even if there are more than audit-files; when its disk is full, requests that must be recorded are refused",
        set: |to, value| value.duration().map(|span| to.audit.keep = span),
    },
    Setting {
        name: "audit-reads",
        form: ValueForm::One("WHICH"),
        roles: SERVERS,
        default: |_| "guarded",
        help: "Reads to record besides changes: `guarded` for those that return secrets (logs, files, variables, events, tokens, and all that requires a management token), `all` for lists and statuses too",
        set: |to, value| value.audit_reads().map(|all| to.audit.all_reads = all),
    },
    Setting {
        name: "request-rate-address",
        form: ValueForm::One("COUNT"),
        roles: &[Role::Server],
        default: |_| "1000",
        help: "Average number of requests a second from one address, with bursts of twice as many; 0 for no limit",
        set: |to, value| value.number().map(|count| to.limits.rates.address = count),
    },
    Setting {
        name: "request-rate-token",
        form: ValueForm::One("COUNT"),
        roles: &[Role::Server],
        default: |_| "1000",
        help: "Average number of requests a second with one token, with bursts of twice as many; 0 for no limit",
        set: |to, value| value.number().map(|count| to.limits.rates.token = count),
    },
    Setting {
        name: "request-rate-loopback",
        form: ValueForm::One("COUNT"),
        roles: SERVERS,
        default: |_| "0",
        help: "Average number of requests a second from all programs on this machine together, and with one token from there; it replaces request-rate-address and request-rate-token for them; 0 for no limit",
        set: |to, value| value.number().map(|count| to.limits.rates.loopback = count),
    },
    Setting {
        name: "http-connections-max",
        form: ValueForm::One("COUNT"),
        roles: &[Role::Server],
        default: |_| "16384",
        help: "Maximum number of connections to the HTTP API; programs on this machine may hold half of them",
        set: |to, value| value.number_of(CONNECTIONS).map(|count| to.set_http_connections(count)),
    },
    Setting {
        name: "http-connections-address",
        form: ValueForm::One("COUNT"),
        roles: &[Role::Server],
        default: |_| "",
        help: "Maximum number of connections to the HTTP API from one address; defaults to a sixteenth of http-connections-max",
        set: |to, value| {
            value.number_of(CONNECTIONS).map(|count| to.limits.connections_share.per_address_max = count)
        },
    },
    Setting {
        name: "waits-max",
        form: ValueForm::One("COUNT"),
        roles: &[Role::Server],
        default: |_| "12288",
        help: "Maximum number of blocking queries, streams and commands run in tasks at a time, at most three quarters of http-connections-max; programs on this machine may hold half of them",
        set: |to, value| value.number_of(CONNECTIONS).map(|count| to.set_waits(count)),
    },
    Setting {
        name: "waits-address",
        form: ValueForm::One("COUNT"),
        roles: &[Role::Server],
        default: |_| "",
        help: "Maximum number of these from one address; defaults to a sixteenth of waits-max",
        set: |to, value| {
            value.number_of(CONNECTIONS).map(|count| to.limits.waiting_share.per_address_max = count)
        },
    },
    Setting {
        name: "waits-token",
        form: ValueForm::One("COUNT"),
        roles: &[Role::Server],
        default: |_| "",
        help: "Maximum number of these with one token from other machines, or from the tasks of one allocation; defaults to a third of waits-max",
        set: |to, value| value.number_of(CONNECTIONS).map(|count| to.limits.waiting_of_token_max = count),
    },
    Setting {
        name: "commands-max",
        form: ValueForm::One("COUNT"),
        roles: &[Role::Server],
        default: |_| "256",
        help: "Maximum number of commands in tasks (`alloc exec`) that run through this server at a time",
        set: |to, value| value.number_of(CONNECTIONS).map(|count| to.limits.execs_max = count),
    },
    Setting {
        name: "body-mb",
        form: ValueForm::One("MIB"),
        roles: &[Role::Server],
        default: |_| "1",
        help: "Maximum size of a request's body, in MiB; requests that carry jobs have a limit of their own, job-body-mb",
        set: |to, value| value.number_of(BODY_MB).map(|mb: usize| to.limits.body_bytes_max = mb << 20),
    },
    Setting {
        name: "job-body-mb",
        form: ValueForm::One("MIB"),
        roles: &[Role::Server],
        default: |_| "4",
        help: "Maximum size of the body of a request that carries a job, in MiB",
        set: |to, value| value.number_of(BODY_MB).map(|mb: usize| to.limits.job_body_bytes_max = mb << 20),
    },
    Setting {
        name: "header-timeout",
        form: ValueForm::One("DURATION"),
        roles: &[Role::Server],
        default: |_| "10s",
        help: "Timeout of reading a request's head, from the connection or the last answer on; it closes idle connections too",
        set: |to, value| {
            value.duration_of_at_least(TIMEOUT_MIN).map(|span| to.limits.header_timeout_ms = millis(span))
        },
    },
    Setting {
        name: "body-timeout",
        form: ValueForm::One("DURATION"),
        roles: &[Role::Server],
        default: |_| "30s",
        help: "Timeout of reading a request's body",
        set: |to, value| {
            value.duration_of_at_least(TIMEOUT_MIN).map(|span| to.limits.body_timeout_ms = millis(span))
        },
    },
    Setting {
        name: "agent-connections-max",
        form: ValueForm::One("COUNT"),
        roles: &[Role::Server],
        default: |_| "16384",
        help: "Maximum number of agents' connections, each of which can carry many nodes",
        set: |to, value| value.number_of(CONNECTIONS).map(|count| to.set_agent_connections(count)),
    },
    Setting {
        name: "agent-connections-address",
        form: ValueForm::One("COUNT"),
        roles: &[Role::Server],
        default: |_| "",
        help: "Maximum number of agents' connections from one address, and so of agents behind one NAT; defaults to three quarters of agent-connections-max",
        set: |to, value| {
            value
                .number_of(CONNECTIONS)
                .map(|count| to.agent_limits.connections_share = AddressLimit::equal(count))
        },
    },
    Setting {
        name: "agent-rate-address",
        form: ValueForm::One("COUNT"),
        roles: &[Role::Server],
        default: |_| "2000",
        help: "Average number of connections and sessions that agents at one address open a second, with bursts of twice as many; 0 for no limit; programs on this machine have none",
        set: |to, value| value.number().map(|count| to.agent_limits.begun_a_second = count),
    },
    Setting {
        name: "log-version",
        form: ValueForm::One("VERSION"),
        roles: &[Role::Server],
        default: |_| "8",
        help: "Newest version of log entries to know, 3 to 8: with an older one than its own, older servers can take over",
        set: |to, value| value.number_of(LOG_VERSIONS).map(|version| to.log_version = version),
    },
    Setting {
        name: "server-name",
        form: ValueForm::One("NAME"),
        roles: SERVERS,
        default: |_| "",
        help: "Name of the server; defaults to the host name",
        set: |to, value| value.text().map(|name| to.server_name = name),
    },
    Setting {
        name: "region",
        form: ValueForm::One("NAME"),
        roles: SERVERS,
        default: |_| "global",
        help: "Name of the region",
        set: |to, value| value.text().map(|region| to.region = region),
    },
    Setting {
        name: "planners",
        form: ValueForm::One("COUNT"),
        roles: SERVERS,
        default: |_| "0",
        help: "Number of threads that plan placements; 0 for one less than there are processors",
        set: |to, value| value.number_up_to(PLANNERS_MAX).map(|count| to.planners = count),
    },
    Setting {
        name: "host-state",
        form: ValueForm::One("KIND"),
        roles: SERVERS,
        default: |_| "incremental",
        help: "Experimental: how planners keep up with the resources that nodes have free: incremental, cached or reread",
        set: |to, value| value.host_state().map(|kind| to.host_state = kind),
    },
    Setting {
        name: "host-state-refresh",
        form: ValueForm::One("DURATION"),
        roles: SERVERS,
        default: |_| "60s",
        help: "Experimental: how long planners use cached resources, with host-state cached",
        set: |to, value| value.duration().map(|refresh| to.host_state_refresh = refresh),
    },
];
