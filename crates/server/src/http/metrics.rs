//! Measurements: the engine's own and those of requests, as JSON and as Prometheus reads them.

use std::{fmt::Write, sync::atomic::Ordering, time::SystemTime};

use axum::body::Body;
use berth_api::http::{Counter, Gauge, Measurements};
use hyper::header::HeaderValue;

use super::{
    api::Api,
    call::{Call, Reply},
    reply,
};
use crate::state::{Metric, MetricKind};

const EXPOSITION: HeaderValue = HeaderValue::from_static("text/plain; version=0.0.4; charset=utf-8");

/// `GET /v1/metrics`
pub(super) async fn read(call: Call) -> Reply {
    let formats = [("json", false), ("prometheus", true)];
    if call.query.word("format", &formats, false)? {
        return prometheus(call).await;
    }
    reply::json(&call.query, &measurements(&families(&call.api)))
}

/// `GET /metrics`
pub(super) async fn prometheus(call: Call) -> Reply {
    Ok(reply::with_type(Body::from(exposition(&families(&call.api))), EXPOSITION))
}

/// Measurements of one name.
struct Family {
    name: &'static str,
    help: &'static str,
    kind: MetricKind,
    /// Labels and value.
    samples: Vec<(Vec<(&'static str, String)>, f64)>,
}

impl From<Metric> for Family {
    fn from(metric: Metric) -> Self {
        let Metric { name, help, kind, value } = metric;
        Self { name, help, kind, samples: vec![(Vec::new(), value)] }
    }
}

fn families(api: &Api) -> Vec<Family> {
    let mut families: Vec<Family> = api.state.engine.metrics().into_iter().map(Family::from).collect();
    families.push(answers(api));
    let gauge = |name, help, value: i64| Metric { name, help, kind: MetricKind::Gauge, value: value as f64 };
    let counters = &api.counters;
    let open = counters.connections.load(Ordering::Relaxed);
    families.push(gauge("berth_http_connections", "Connections that are open.", open).into());
    let waiting = counters.requests.load(Ordering::Relaxed);
    families.push(gauge("berth_http_requests_open", "Requests without an answer yet.", waiting).into());
    families.sort_by_key(|family| family.name);
    families
}

fn answers(api: &Api) -> Family {
    let samples = api.counters.answers().into_iter().map(|(label, count)| {
        let class = format!("{}xx", label.class);
        let labels =
            vec![("code", class), ("method", label.method.to_owned()), ("route", label.route.to_owned())];
        (labels, count as f64)
    });
    Family {
        name: "berth_http_requests_total",
        help: "Requests answered, by route and class of status.",
        kind: MetricKind::Counter,
        samples: samples.collect(),
    }
}

fn measurements(families: &[Family]) -> Measurements {
    let now = humantime::format_rfc3339_seconds(SystemTime::now());
    let mut all = Measurements { timestamp: now.to_string(), ..Measurements::default() };
    for family in families {
        for (labels, value) in &family.samples {
            let labels = labels.iter().map(|(name, value)| ((*name).to_owned(), value.clone())).collect();
            let (name, value) = (family.name.to_owned(), *value);
            match family.kind {
                MetricKind::Gauge => all.gauges.push(Gauge { name, value, labels }),
                MetricKind::Counter => all.counters.push(Counter { name, sum: value, count: 1, labels }),
            }
        }
    }
    all
}

/// The text form that Prometheus reads: <https://prometheus.io/docs/instrumenting/exposition_formats/>
fn exposition(families: &[Family]) -> String {
    let mut out = String::new();
    for family in families.iter().filter(|family| !family.samples.is_empty()) {
        let kind = match family.kind {
            MetricKind::Counter => "counter",
            MetricKind::Gauge => "gauge",
        };
        let _ = writeln!(out, "# HELP {0} {1}\n# TYPE {0} {kind}", family.name, family.help);
        for (labels, value) in &family.samples {
            let _ = writeln!(out, "{}{} {value}", family.name, braced(labels));
        }
    }
    out
}

/// Labels and their values; no value holds a quote, a backslash or a line's end, as all are ours.
fn braced(labels: &[(&'static str, String)]) -> String {
    let labels: Vec<String> = labels.iter().map(|(name, value)| format!("{name}=\"{value}\"")).collect();
    if labels.is_empty() { String::new() } else { format!("{{{}}}", labels.join(",")) }
}
