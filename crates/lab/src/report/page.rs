//! The page: figures and parameters in tables, then the charts. Nothing in it is fetched from elsewhere.

use minijinja::{Environment, Value, context, value::Serde};
use serde::Serialize;

use super::charts::Figure;
use crate::record::{RunResult, number};

/// Its name ends so that what is put into it is escaped.
const NAME: &str = "report.html";
const TEMPLATE: &str = include_str!("report.html");

#[derive(Serialize)]
struct Shown<'a> {
    title: &'a str,
    svg: &'a str,
    /// Colour and name.
    legend: Vec<(String, &'a str)>,
}

/// The whole page. `verdict` is where the time went, in a sentence.
pub(super) fn page(
    result: &RunResult,
    figures: &[Figure],
    verdict: Option<String>,
) -> Result<String, minijinja::Error> {
    let mut environment = Environment::new();
    environment.add_filter("number", number);
    environment.add_template(NAME, TEMPLATE)?;
    let figures: Vec<Shown<'_>> = figures
        .iter()
        .map(|figure| Shown {
            title: &figure.chart.title,
            svg: &figure.svg,
            legend: figure.chart.colors().collect(),
        })
        .collect();
    environment.get_template(NAME)?.render(context! {
        result => Value::from(Serde(result)),
        figures => Value::from(Serde(&figures)),
        verdict,
    })
}
