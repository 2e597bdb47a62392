//! Metrics of the engine and of requests, as JSON and in the format of Prometheus.

mod nomad_names;

use std::{
    borrow::Cow,
    fmt::Write,
    sync::atomic::{AtomicI64, AtomicU64, Ordering},
    time::SystemTime,
};

use axum::body::Body;
use berth_api::http::{Counter, Gauge, Measurements, Sample};
use hyper::header::HeaderValue;

use crate::{
    audit::AuditLog,
    http::{
        api::Api,
        call::{Call, Reply},
        counters::RouteCounters,
        reply,
    },
    process,
    shared::{Labels, Measured, Metric, MetricsNames},
};

pub(super) use nomad_names::of_tasks;

pub(super) const EXPOSITION: HeaderValue =
    HeaderValue::from_static("text/plain; version=0.0.4; charset=utf-8");

/// `GET /v1/metrics`
pub(super) async fn read(call: Call) -> Reply {
    let formats = [("json", false), ("prometheus", true)];
    if call.query.word("format", &formats, false)? {
        return prometheus(call).await;
    }
    reply::json(&call.query, &measurements(&families(&call).await))
}

/// `GET /metrics`
pub(super) async fn prometheus(call: Call) -> Reply {
    let text = exposition(&families(&call).await);
    Ok(reply::with_type(Body::from(text), EXPOSITION))
}

async fn families(call: &Call) -> Vec<Metric> {
    let (api, mut families) = (&call.api, call.engine_metrics());
    let counters = &api.counters;
    let own = [
        ("berth_http_connections", "Open HTTP connections.", gauge(&counters.connections)),
        ("berth_http_requests_open", "Requests in progress.", gauge(&counters.requests)),
        (
            "berth_http_connections_refused_total",
            "HTTP connections refused because their address has too many open.",
            Measured::Counter(counters.connections_refused.load(Ordering::Relaxed) as f64),
        ),
    ];
    families.push(limited(api));
    families.extend(own.map(|(name, help, value)| Metric::one(name, help, value)));
    families.extend([answers(api), times(api)]);
    families.extend(process::metrics());
    families.extend(api.audit().into_iter().flat_map(AuditLog::metrics));
    if call.server().metrics_names == MetricsNames::Nomad {
        // All jobs are looked at.
        let view = call.view();
        let with_nomads = move || {
            let named = nomad_names::of_server(&families, &view);
            families.extend(named);
            families
        };
        families = api.heavy.run(with_nomads).await;
    }
    families.sort_by_key(|family| family.name);
    families
}

fn limited(api: &Api) -> Metric {
    let sample = |limit: &str, count: &AtomicU64| {
        (vec![("limit", limit.to_owned())], Measured::Counter(count.load(Ordering::Relaxed) as f64))
    };
    Metric {
        name: "berth_http_requests_limited_total",
        help: "Requests refused because their address or token exceeded its rate.",
        samples: vec![sample("address", &api.rates.of_address), sample("token", &api.rates.of_token)],
    }
}

fn gauge(value: &AtomicI64) -> Measured {
    Measured::Gauge(value.load(Ordering::Relaxed) as f64)
}

fn answers(api: &Api) -> Metric {
    let mut samples = Vec::new();
    for route in api.counters.routes() {
        for (class, count) in route.answers() {
            let mut labels = vec![("code", format!("{class}xx"))];
            labels.extend(labels_of(&route));
            samples.push((labels, Measured::Counter(count as f64)));
        }
    }
    Metric {
        name: "berth_http_requests_total",
        help: "Requests answered, by route and class of status code.",
        samples,
    }
}

fn times(api: &Api) -> Metric {
    let routes = api.counters.routes();
    let used = routes
        .iter()
        .map(|route| (labels_of(route), route.times.read()))
        .filter(|(_, times)| times.count() > 0);
    Metric {
        name: "berth_http_request_duration_seconds",
        help: "Time until the answer begins, by route; blocking queries and streams are left out.",
        samples: used.map(|(labels, times)| (labels, Measured::Spread(times))).collect(),
    }
}

fn labels_of(route: &RouteCounters) -> Labels {
    vec![("method", route.method.to_owned()), ("route", route.path.to_owned())]
}

fn measurements(families: &[Metric]) -> Measurements {
    let now = humantime::format_rfc3339_seconds(SystemTime::now());
    let mut all = Measurements { timestamp: now.to_string(), ..Measurements::default() };
    for family in families {
        for (labels, value) in &family.samples {
            let labels = labels.iter().map(|(name, value)| ((*name).to_owned(), value.clone())).collect();
            let name = family.name.to_owned();
            match value {
                Measured::Gauge(value) => all.gauges.push(Gauge { name, value: *value, labels }),
                Measured::Counter(value) => {
                    all.counters.push(Counter { name, sum: *value, count: 1, labels })
                }
                Measured::Spread(spread) => {
                    all.samples.push(Sample { name, sum: spread.sum, count: spread.count(), labels });
                }
                Measured::Summary { sum, count } => {
                    all.samples.push(Sample { name, sum: *sum, count: *count, labels });
                }
            }
        }
    }
    all
}

/// The text form that Prometheus reads: <https://prometheus.io/docs/instrumenting/exposition_formats/>
pub(super) fn exposition(families: &[Metric]) -> String {
    let mut out = String::new();
    for family in families {
        let Some((_, first)) = family.samples.first() else { continue };
        let kind = match first {
            Measured::Counter(_) => "counter",
            Measured::Gauge(_) => "gauge",
            Measured::Spread(_) => "histogram",
            Measured::Summary { .. } => "summary",
        };
        let _ = writeln!(out, "# HELP {0} {1}\n# TYPE {0} {kind}", family.name, family.help);
        for (labels, value) in &family.samples {
            expose(&mut out, family.name, labels, value);
        }
    }
    out
}

fn expose(out: &mut String, name: &str, labels: &Labels, value: &Measured) {
    match value {
        Measured::Counter(value) | Measured::Gauge(value) => {
            let _ = writeln!(out, "{name}{} {value}", braced(labels, None));
        }
        Measured::Summary { sum, count } => {
            let labels = braced(labels, None);
            let _ = writeln!(out, "{name}_sum{labels} {sum}\n{name}_count{labels} {count}");
        }
        Measured::Spread(spread) => {
            for (bound, count) in &spread.buckets {
                let bound = if bound.is_infinite() { "+Inf".to_owned() } else { bound.to_string() };
                let _ = writeln!(out, "{name}_bucket{} {count}", braced(labels, Some(bound)));
            }
            let labels = braced(labels, None);
            let _ =
                writeln!(out, "{name}_sum{labels} {}\n{name}_count{labels} {}", spread.sum, spread.count());
        }
    }
}

/// Labels and their values, of which some come from jobs.
fn braced(labels: &Labels, bound: Option<String>) -> String {
    let bound = bound.map(|bound| ("le", bound));
    let all: Vec<String> =
        labels.iter().chain(&bound).map(|(name, value)| format!("{name}=\"{}\"", escaped(value))).collect();
    if all.is_empty() { String::new() } else { format!("{{{}}}", all.join(",")) }
}

fn escaped(value: &str) -> Cow<'_, str> {
    if !value.contains(['"', '\\', '\n']) {
        return value.into();
    }
    value.replace('\\', r"\\").replace('"', "\\\"").replace('\n', r"\n").into()
}
