//! A task runs where its driver is.

use std::collections::BTreeSet;

use berth_model::node::Node;

use super::{Filter, FilterRefusal, FilterRule};

pub(super) const RULE: FilterRule = FilterRule {
    name: "driver",
    passes: "nodes that have the drivers of all tasks",
    is_for_running: true,
    add: |_, group, checks| {
        let drivers: BTreeSet<&str> = group.tasks.iter().map(|task| task.driver.as_str()).collect();
        drivers.into_iter().for_each(|driver| checks.push(Box::new(DriverFilter::new(driver))));
    },
};

#[derive(Debug)]
pub(super) struct DriverFilter {
    attribute: String,
    reason: String,
}

impl DriverFilter {
    pub fn new(driver: &str) -> Self {
        Self { attribute: format!("driver.{driver}"), reason: format!("missing driver {driver:?}") }
    }
}

impl Filter for DriverFilter {
    fn check(&self, node: &Node) -> Result<(), FilterRefusal> {
        match node.attributes.get(&self.attribute).map(String::as_str) {
            Some("1" | "true") => Ok(()),
            _ => Err(FilterRefusal::Filtered(self.reason.clone())),
        }
    }

    fn remedy(&self, node: &Node, _: &str) -> String {
        let why = node.attributes.get(&format!("{}.health_description", self.attribute));
        let why = why.map_or(String::new(), |why| format!(", or help this node: {why}"));
        format!("use another driver than {:?}{why}", self.attribute.trim_start_matches("driver."))
    }
}
