//! Affinities, with the short forms of HCL.

use berth_model::{
    constraint::{Affinity, Operator},
    job::JobType,
};

use super::comparison::{WITH_VALUE, check, named_operator, short_form};
use crate::{diagnostic::quoted, schema::Body};

/// How much an affinity counts that does not say.
const WEIGHT: i8 = 50;

/// Preferences among nodes; what runs on each of them has none.
pub(super) fn affinities(body: &Body<'_>, job_type: JobType) -> Vec<Affinity> {
    let help = "it runs on every node already: take the block out, or write a constraint";
    let blocks = body.blocks("affinity");
    if let Some(block) = blocks.first() {
        match job_type {
            JobType::System => {
                block.report.error_with_help(block.at_self(), "a system job cannot have an affinity", help);
            }
            JobType::Sysbatch => {
                let message = format!("{} has no effect in a sysbatch job", quoted(body.word("affinity")));
                block.report.warn(block.at_self(), &message, help);
            }
            JobType::Service | JobType::Batch => {}
        }
    }
    blocks.iter().filter_map(affinity).collect()
}

/// Preferences among the devices of a node.
pub(super) fn of_device(body: &Body<'_>) -> Vec<Affinity> {
    body.blocks("affinity").iter().filter_map(affinity).collect()
}

fn affinity(body: &Body<'_>) -> Option<Affinity> {
    let left = body.text("attribute").unwrap_or_default();
    let (operator, right) = match short_form(body, WITH_VALUE.iter().copied()) {
        Some((form, right)) => (Operator::parse(form)?, right),
        None => (named_operator(body)?, body.text("value").unwrap_or_default()),
    };
    if matches!(operator, Operator::DistinctHosts | Operator::DistinctProperty) {
        let help = "write a constraint, or a spread";
        let message = format!("an affinity cannot be `{operator}`");
        body.report.error_with_help(body.at("operator"), message, help);
    } else {
        check(body, &left, operator, &right);
    }
    let weight: i8 = body.number("weight", -100..=100).unwrap_or(WEIGHT);
    if weight == 0 {
        body.report.error(body.at("weight"), "an affinity of weight 0 means nothing: take it out");
    }
    Some(Affinity { left, operator, right, weight })
}
