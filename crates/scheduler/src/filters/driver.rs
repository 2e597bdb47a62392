//! A task runs where its driver is.

use berth_model::node::Node;

use super::{Filter, Refused};

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
    fn check(&self, node: &Node) -> Result<(), Refused> {
        match node.attributes.get(&self.attribute).map(String::as_str) {
            Some("1" | "true") => Ok(()),
            _ => Err(Refused::Filtered(self.reason.clone())),
        }
    }

    fn remedy(&self, _: &Node, _: &str) -> String {
        format!("use another driver than {:?}", self.attribute.trim_start_matches("driver."))
    }
}
