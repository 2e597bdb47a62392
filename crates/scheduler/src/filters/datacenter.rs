//! A job runs in its datacenters, which may be globs.

use berth_model::node::Node;

use super::{Filter, FilterRefusal, FilterRule, glob};

pub(super) const RULE: FilterRule = FilterRule {
    name: "datacenter",
    passes: "nodes whose datacenter matches one of the job's names or globs",
    is_for_running: true,
    add: |job, _, checks| checks.push(Box::new(DatacenterFilter::new(&job.datacenters))),
};

#[derive(Debug)]
pub(super) struct DatacenterFilter(Vec<String>);

impl DatacenterFilter {
    pub fn new(datacenters: &[String]) -> Self {
        Self(datacenters.to_vec())
    }
}

impl Filter for DatacenterFilter {
    fn check(&self, node: &Node) -> Result<(), FilterRefusal> {
        let matches = self.0.iter().any(|pattern| glob::matches(pattern, &node.datacenter));
        if matches { Ok(()) } else { Err(FilterRefusal::NotAvailable) }
    }

    fn remedy(&self, node: &Node, _: &str) -> String {
        format!("add {:?} to datacenters", node.datacenter)
    }
}
