//! Spreads of allocations over the values of an attribute.

use std::collections::HashSet;

use berth_model::{
    constraint::{Spread, SpreadTarget},
    job::JobType,
};

use super::name;
use crate::schema::Body;

/// How much a spread counts that does not say.
const WEIGHT: u8 = 50;

pub(super) fn spreads(body: &Body<'_>, job_type: JobType) -> Vec<Spread> {
    let blocks = body.blocks("spread");
    if let Some(block) = blocks.first().filter(|_| job_type.is_per_node()) {
        let message = format!("a {} job cannot be spread", job_type.as_str());
        block.report.error_with_help(
            block.at_self(),
            message,
            "it runs on every node already: take the block out",
        );
    }
    blocks.iter().map(spread).collect()
}

fn spread(body: &Body<'_>) -> Spread {
    let attribute = body.text("attribute").unwrap_or_default();
    if attribute.is_empty() {
        let help = "name what to spread over, as in `attribute = \"${node.datacenter}\"`";
        body.report.error_with_help(body.at("attribute"), "spread has no attribute", help);
    }
    let targets = body.blocks("target");
    Spread {
        attribute,
        weight: body.number("weight", 1..=100).unwrap_or(WEIGHT),
        targets: shares(body, &targets),
    }
}

fn shares(body: &Body<'_>, blocks: &[Body<'_>]) -> Vec<SpreadTarget> {
    let mut seen = HashSet::new();
    let targets: Vec<SpreadTarget> = blocks.iter().map(target).collect();
    blocks.iter().for_each(|block| name::check_unique(block, &mut seen));
    let sum: u32 = targets.iter().map(|target| u32::from(target.percent)).sum();
    if sum > 100 {
        body.report.error(
            body.at("target"),
            format!("percents of a spread's targets add up to {sum}, more than 100"),
        );
    }
    targets
}

fn target(body: &Body<'_>) -> SpreadTarget {
    let value = body.label().unwrap_or_default();
    if value.is_empty() {
        body.report.error(body.at_label(), "spread target has no value");
    }
    SpreadTarget { value, percent: body.number("percent", 0..=100).unwrap_or(0) }
}
