//! The page of a report: metrics and parameters in tables, then the charts. It loads nothing from elsewhere.

use minijinja::{Environment, Value, context, value::Serde};
use serde::Serialize;

use super::{
    charts::Figure,
    headline::{headlines, setting, title, with_unit},
};
use crate::record::RunResult;

/// Its name ends so that what is put into it is escaped.
const NAME: &str = "report.html";
const TEMPLATE: &str = include_str!("report.html");

/// Figures in a table that is open when the page is.
const OPEN_MAX: usize = 40;

#[derive(Serialize)]
struct ChartSection<'a> {
    title: &'a str,
    svg: &'a str,
    /// Colour and name.
    legend: Vec<(String, &'a str)>,
}

/// The whole page. `verdict` is where the time went, in a sentence; `profile` is a graph.
pub(super) fn page(
    result: &RunResult,
    figures: &[Figure],
    verdict: Option<String>,
    profile: Option<String>,
) -> Result<String, minijinja::Error> {
    let mut environment = Environment::new();
    environment.add_filter("with_unit", with_unit_of);
    environment.add_template(NAME, TEMPLATE)?;
    let figures: Vec<ChartSection<'_>> = figures
        .iter()
        .map(|figure| ChartSection {
            title: &figure.chart.title,
            svg: &figure.svg,
            legend: figure.chart.colors().collect(),
        })
        .collect();
    environment.get_template(NAME)?.render(context! {
        result => Value::from(Serde(result)),
        title => title(result),
        setting => setting(result),
        headlines => headlines(result),
        // A matrix has so many that they would hide the charts.
        folded => result.metrics.len() > OPEN_MAX,
        figures => Value::from(Serde(&figures)),
        verdict,
        profile,
    })
}

fn with_unit_of(value: f64, unit: String) -> String {
    with_unit(value, &unit)
}
