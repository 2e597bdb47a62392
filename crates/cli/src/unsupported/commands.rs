//! Nomad's commands that Berth does not have, with what to use instead.

/// What people type who know other tools, with what it is here.
pub(super) const OTHERS_WORDS: &[(&str, &str)] = &[
    ("alloc list", "berth ps -a"),
    ("alloc ls", "berth ps -a"),
    ("allocs", "berth ps -a"),
    ("apply", "berth job run FILE"),
    ("describe", "berth status ID"),
    ("get", "berth status ID"),
    ("job delete", "berth job stop -purge JOB"),
    ("job list", "berth job status"),
    ("job logs", "berth logs JOB"),
    ("job ls", "berth job status"),
    ("job ps", "berth ps JOB"),
    ("job show", "berth job status JOB"),
    ("jobs", "berth job status"),
    ("list", "berth ps"),
    ("ls", "berth ps"),
    ("node list", "berth node status"),
    ("node ls", "berth node status"),
    ("nodes", "berth node status"),
    ("server list", "berth server members"),
    ("servers", "berth server members"),
];

/// Commands by their words, with what to do instead. Whoever adds one removes it here.
pub(super) const ABSENT: &[(&str, &str)] = &[
    ("acl auth-method", "tokens are made with `berth acl token create`; there is no single sign-on yet"),
    ("acl binding-rule", "tokens are made with `berth acl token create`; there is no single sign-on yet"),
    ("acl policy self", "berth acl token self"),
    ("acl role create", "berth acl role apply"),
    ("acl role update", "berth acl role apply"),
    ("action", "`berth exec JOB COMMAND` runs a command within a task"),
    ("agent-info", "berth server members"),
    ("alloc pause", "a task cannot be paused; `berth alloc stop` stops its allocation"),
    (
        "check",
        "`berth server members` shows whether the servers are alive, `curl http://127.0.0.1:4646/v1/agent/health` whether one is",
    ),
    ("client-config", "berth node config"),
    ("config", "the flags of `berth server` and `berth agent` are checked when they start"),
    ("eval delete", "berth system gc"),
    ("job action", "`berth exec JOB COMMAND` runs a command within a task"),
    ("license", "there is nothing to license"),
    (
        "monitor export",
        "`journalctl -u berth-server` prints what a server has logged; `berth monitor` follows it",
    ),
    (
        "node identity",
        "agents renew their certificates themselves; `berth node revoke` refuses those of a node",
    ),
    ("node intro", "berth node token"),
    (
        "operator autopilot",
        "a server that was replaced is taken out with `berth server remove`; `berth server members` shows their health",
    ),
    (
        "operator client-state",
        "`berth node status NODE` and `berth alloc status ALLOC` show what agents report",
    ),
    ("operator gossip", "servers know each other by the log that they share: there is no gossip"),
    ("operator keygen", "servers know each other by their certificates: `berth server init` makes the first"),
    ("operator metrics", "`berth operator api /v1/metrics` prints them"),
    (
        "operator raft",
        "`berth server members` lists the servers, `remove`, `transfer` and `recover` of `berth server` change them",
    ),
    (
        "operator snapshot agent",
        "a periodic job, or your own scheduler, that runs `berth operator snapshot save`",
    ),
    ("operator snapshot redact", "variables and root keys are encrypted in a snapshot as it is saved"),
    ("operator utilization", "berth top"),
    (
        "plugin",
        "there are no plugins: drivers are built in, and `berth node status NODE` lists those that work",
    ),
    ("quota init", "berth quota apply"),
    ("recommendation", "`berth top` shows what allocations use"),
    ("scaling", "`berth job scale` sets a count; `berth operator api /v1/scaling/policies` lists policies"),
    ("sentinel", "`berth acl policy apply` says who may do what, `berth quota apply` how much"),
    ("server force-leave", "berth server remove"),
    ("server-force-leave", "berth server remove"),
    (
        "service",
        "there is no registry of services yet: `berth alloc status ALLOC` shows ports, `berth alloc checks ALLOC` checks",
    ),
    (
        "setup",
        "identities of tasks need no setup here: `berth operator api /.well-known/openid-configuration` is what others read",
    ),
    ("system reconcile", "counts are kept in step with allocations: there is nothing to reconcile"),
    ("tls", "berth server init"),
    ("ui", "there are no web pages: `-watch` follows what a command shows, `berth top` what is used"),
    ("var lock", "variables have no locks: `berth var put -check-index` writes only over what was read"),
    ("volume", "there are no volumes but directories of nodes: the setting `host-volumes` of `berth agent`"),
];
