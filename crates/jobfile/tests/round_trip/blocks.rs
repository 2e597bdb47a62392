//! Blocks of any kind that obey their own rules.

use std::time::Duration;

use berth_model::{constraint::Affinity, device::DeviceAsk, job::*, value::Value};
use proptest::{collection::vec, option, prelude::*, sample::select};

use super::{constraint, name, span, text, texts};

/// Text that is not empty: what is empty counts as absent.
fn filled() -> impl Strategy<Value = String> {
    "[a-zA-Z0-9/._-]{1,12}"
}

fn seconds(range: std::ops::Range<u64>) -> impl Strategy<Value = Duration> {
    range.prop_map(Duration::from_secs)
}

pub fn affinity() -> impl Strategy<Value = Affinity> {
    let weight = (1..=100_i8, any::<bool>()).prop_map(|(weight, down)| if down { -weight } else { weight });
    let comparison =
        constraint().prop_filter("a comparison of two sides", |constraint| !constraint.right.is_empty());
    (comparison, weight).prop_map(|(constraint, weight)| Affinity {
        left: constraint.left,
        operator: constraint.operator,
        right: constraint.right,
        weight,
    })
}

pub fn device() -> impl Strategy<Value = DeviceAsk> {
    let amount =
        prop_oneof![(1..1024_u32).prop_map(|count| (count, 0)), (1..1000_u16).prop_map(|share| (1, share))];
    let name = select(vec!["gpu", "nvidia/gpu", "nvidia/gpu/A100/40"]);
    (name, amount, vec(constraint(), 0..2), vec(affinity(), 0..2)).prop_map(
        |(name, (count, share_milli), constraints, affinities)| DeviceAsk {
            name: name.to_owned(),
            count,
            share_milli,
            constraints,
            affinities,
        },
    )
}

fn health_check() -> impl Strategy<Value = HealthCheck> {
    select(vec![HealthCheck::Checks, HealthCheck::TaskStates, HealthCheck::Manual])
}

pub fn update() -> impl Strategy<Value = Box<Update>> {
    let times = (
        seconds(0..99),
        seconds(0..60),
        seconds(60..300),
        prop_oneof![Just(Duration::ZERO), seconds(300..999)],
    );
    (times, any::<u32>(), health_check(), 1..9_u32, any::<bool>(), any::<bool>()).prop_map(
        |(
            (stagger, min, healthy, progress),
            max_parallel,
            health_check,
            canary,
            auto_revert,
            auto_promote,
        )| {
            Box::new(Update {
                stagger,
                max_parallel,
                health_check,
                min_healthy_time: min,
                healthy_deadline: healthy,
                progress_deadline: progress,
                canary,
                auto_revert,
                auto_promote,
            })
        },
    )
}

pub fn migrate() -> impl Strategy<Value = Box<Migrate>> {
    (any::<u32>(), health_check(), seconds(0..60), seconds(60..99)).prop_map(
        |(max_parallel, health_check, min_healthy_time, healthy_deadline)| {
            Box::new(Migrate { max_parallel, health_check, min_healthy_time, healthy_deadline })
        },
    )
}

pub fn disconnect() -> impl Strategy<Value = Box<Disconnect>> {
    use Reconcile::*;
    let reconcile = select(vec![BestScore, KeepOriginal, KeepReplacement, LongestRunning]);
    (any::<bool>(), option::of(span()), any::<bool>(), reconcile).prop_map(
        |(stops, after, replace, reconcile)| {
            let (lost_after, stop_on_client_after) = if stops { (None, after) } else { (after, None) };
            Box::new(Disconnect { lost_after, stop_on_client_after, replace, reconcile })
        },
    )
}

pub fn periodic() -> impl Strategy<Value = Box<Periodic>> {
    let spec = select(vec!["@daily", "*/5 * * * *", "0 0 8-18 * * mon-fri 2026"]).prop_map(str::to_owned);
    let zone = select(vec!["UTC", "Europe/Berlin", "America/New_York"]).prop_map(str::to_owned);
    (any::<bool>(), vec(spec, 1..3), any::<bool>(), zone).prop_map(
        |(enabled, specs, prohibit_overlap, time_zone)| {
            let is_single = enabled && specs.len() == 1;
            Box::new(Periodic { enabled, specs, prohibit_overlap, time_zone, is_single })
        },
    )
}

pub fn parameterized() -> impl Strategy<Value = Box<Parameterized>> {
    let rule = select(vec![PayloadRule::Optional, PayloadRule::Required, PayloadRule::Forbidden]);
    (rule, vec("[a-m]{1,3}", 0..3), vec("[n-z]{1,3}", 0..3)).prop_map(
        |(payload, meta_required, meta_optional)| {
            Box::new(Parameterized { payload, meta_required, meta_optional })
        },
    )
}

pub fn lifecycle() -> impl Strategy<Value = Lifecycle> {
    let hook = select(vec![Hook::Prestart, Hook::Poststart, Hook::Poststop]);
    (hook, any::<bool>()).prop_map(|(hook, sidecar)| Lifecycle { hook, sidecar })
}

fn check_restart() -> impl Strategy<Value = CheckRestart> {
    (any::<u32>(), span(), any::<bool>()).prop_map(|(limit, grace, ignore_warnings)| CheckRestart {
        limit,
        grace,
        ignore_warnings,
    })
}

fn check() -> impl Strategy<Value = Check> {
    let kind = select(vec![CheckKind::Tcp, CheckKind::Http, CheckKind::Script]);
    let header = proptest::collection::btree_map("[A-Z][a-z]{0,8}", vec(text(), 0..3), 0..2);
    let first = (text(), kind, seconds(1..99), seconds(1..99), filled(), filled(), header);
    let second =
        (text(), vec(text(), 0..2), any::<u32>(), any::<u32>(), option::of(check_restart()), any::<bool>());
    (first, second).prop_map(|((name, kind, interval, timeout, path, command, header), second)| {
        let (body, args, success_before_passing, failures_before_critical, check_restart, expose) = second;
        // What JSON holds for a setting that is not given is not kept.
        let settings = expose.then(|| ("Expose".to_owned(), Value::Bool(true))).into_iter().collect();
        Check {
            name,
            kind,
            interval,
            timeout,
            path: format!("/{path}"),
            command,
            header,
            body,
            args,
            success_before_passing,
            failures_before_critical,
            check_restart,
            kept: settings,
            ..Check::default()
        }
    })
}

pub fn service() -> impl Strategy<Value = Service> {
    let first =
        (filled(), select(vec!["nomad", "consul"]), vec(text(), 0..3), vec(text(), 0..2), texts(), texts());
    let second =
        (vec(check(), 0..2), option::of(check_restart()), option::of(identity()), text(), any::<u16>());
    (first, second).prop_map(|((name, provider, tags, canary_tags, meta, canary_meta), second)| {
        let (checks, check_restart, identity, address, port) = second;
        Service {
            name,
            provider: provider.to_owned(),
            port: port.to_string(),
            tags,
            canary_tags,
            meta,
            canary_meta,
            address,
            checks,
            check_restart,
            identity: identity.map(Box::new),
            ..Service::default()
        }
    })
}

pub fn identity() -> impl Strategy<Value = Identity> {
    let mode = select(vec!["", "noop", "restart", "signal"]);
    let signal = select(vec!["SIGHUP", "SIGUSR1"]);
    let first = (name(), vec(filled(), 0..3), mode, signal, any::<bool>(), any::<bool>());
    let filepath = option::of("[a-z]{1,8}(/[a-z]{1,8})?")
        .prop_map(|path| path.map_or(String::new(), |path| format!("secrets/{path}")));
    let ttl = option::of(5..=86_400_u64).prop_map(|ttl| Duration::from_secs(ttl.unwrap_or_default()));
    (first, filepath, ttl, vec(text(), 0..2)).prop_map(|(first, filepath, ttl, extra_claims)| {
        let (name, audience, change_mode, change_signal, env, file) = first;
        let (change_mode, service_name) = (change_mode.to_owned(), String::new());
        Identity {
            name,
            audience,
            change_mode,
            change_signal: change_signal.to_owned(),
            env,
            file,
            filepath,
            service_name,
            ttl,
            extra_claims,
        }
    })
}

pub fn secret() -> impl Strategy<Value = Secret> {
    let setting = |name: &'static str, text: &'static str| {
        option::of(text).prop_map(move |value| value.map(|value| (name.to_owned(), Value::String(value))))
    };
    let config = (setting("namespace", "[a-z]{1,8}"), setting("files", "secrets/[a-z]{1,8}"));
    ("[a-z]{1,8}(/[a-z]{1,8})?", config).prop_map(|(path, (namespace, files))| Secret {
        provider: SECRET_PROVIDER.to_owned(),
        path: format!("app/{path}"),
        config: namespace.into_iter().chain(files).collect(),
        ..Secret::default()
    })
}

pub fn artifact() -> impl Strategy<Value = Artifact> {
    let mode = select(vec!["any", "file", "dir"]).prop_map(str::to_owned);
    (filled(), "local/[a-z]{1,5}", mode, texts(), texts(), any::<bool>()).prop_map(
        |(source, destination, mode, options, headers, chown)| Artifact {
            source,
            destination,
            mode,
            options,
            headers,
            // One that is set is refused.
            insecure: false,
            chown,
        },
    )
}

pub fn template() -> impl Strategy<Value = Template> {
    let script = (filled(), vec(text(), 0..2), span(), any::<bool>(), any::<bool>()).prop_map(
        |(command, args, timeout, fail_on_error, run_on_first_render)| {
            Box::new(ChangeScript { command, args, timeout, fail_on_error, run_on_first_render })
        },
    );
    let wait = (seconds(0..9), seconds(9..20)).prop_map(|(min, max)| Wait { min, max });
    let mode = select(vec![ChangeMode::Restart, ChangeMode::Noop, ChangeMode::Signal, ChangeMode::Script]);
    let content = prop_oneof!["[a-zäß $%\\n\"]{1,12}", Just("{{ env \"A\" -}} x".to_owned())];
    let signal = select(vec!["SIGHUP", "SIGUSR1", "SIGRTMIN+3"]).prop_map(str::to_owned);
    let first = (content, any::<bool>(), "local/[a-z]{1,5}", mode, signal, script, option::of(wait));
    let second =
        (any::<bool>(), span(), "0?[0-7]{3}", option::of(any::<u32>()), any::<bool>(), any::<bool>());
    (first, second).prop_map(
        |((content, is_data, destination, change_mode, change_signal, script, wait), second)| {
            let (once, splay, perms, uid, env, error_on_missing_key) = second;
            let source = if is_data { String::new() } else { "local/template".to_owned() };
            let data = if is_data { content } else { String::new() };
            Template {
                source,
                data,
                destination,
                change_mode,
                change_signal,
                change_script: Some(script),
                once,
                splay,
                perms,
                uid,
                env: env && change_mode != ChangeMode::Signal,
                error_on_missing_key,
                wait,
                ..Template::default()
            }
        },
    )
}

pub fn volume() -> impl Strategy<Value = Volume> {
    let kind = select(vec!["host", "csi"]).prop_map(str::to_owned);
    (kind, filled(), any::<bool>(), any::<bool>(), any::<bool>(), text(), text()).prop_map(
        |(kind, source, read_only, sticky, per_alloc, access_mode, attachment_mode)| Volume {
            name: String::new(),
            kind,
            source,
            read_only,
            sticky,
            per_alloc,
            access_mode,
            attachment_mode,
            kept: IgnoredSettings::new(),
        },
    )
}

/// Bounds that hold the count.
pub fn scaling(kind: &'static str, count: u32) -> impl Strategy<Value = Scaling> {
    let policy = proptest::collection::btree_map(name(), any::<bool>().prop_map(Value::Bool), 0..2);
    (any::<bool>(), 0..=count, count..=u32::MAX, policy).prop_map(move |(enabled, min, max, policy)| {
        Scaling { kind: kind.to_owned(), enabled, min, max, policy }
    })
}

/// Settings that are only kept, of a task.
pub fn ignored_settings() -> impl Strategy<Value = IgnoredSettings> {
    let vault = (filled(), any::<bool>()).prop_map(|(role, env)| {
        let text = |text: &str| Value::String(text.to_owned());
        let members = [
            ("Role", Value::String(role)),
            ("Env", Value::Bool(env)),
            ("AllowTokenExpiration", Value::Bool(false)),
            ("ChangeMode", text("restart")),
            ("ChangeSignal", text("SIGHUP")),
            ("Cluster", text("default")),
            ("DisableFile", Value::Bool(false)),
            ("Namespace", text("")),
        ];
        Value::Map(members.into_iter().collect())
    });
    let kind = filled().prop_map(Value::String);
    (option::of(vault), option::of(kind)).prop_map(|(vault, kind)| {
        let named = [("Vault", vault), ("Kind", kind)];
        named.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?))).collect()
    })
}
