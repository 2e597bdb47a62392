//! One variant of the experiment: its planners, requests and cluster.

use super::flavors::{self, Capacity, FLAVORS, NODE};
use crate::run::{
    Params,
    cluster::{ClusterParams, NodesParams},
    params::ParamError,
};

/// The share of an empty cluster that requests may take, in hundredths: the rest is lost where they do not fit evenly.
const ASKED_PCT_MAX: u64 = 75;

/// One way to run it.
#[derive(Debug, Clone)]
pub(super) struct Scenario {
    pub nodes: u32,
    pub requests: u32,
    /// How many of the flavors, smallest first, requests are for.
    pub kinds: usize,
    pub planners: u32,
    /// How the server's planners keep up with what nodes hold.
    pub kind: String,
    /// `binpack` or `spread`.
    pub algorithm: &'static str,
    /// Whether the cluster is so full before that all requests fit but one.
    pub preload: bool,
    /// Instances that live at a time while more are booted and the oldest deleted; none for all.
    pub population: Option<u32>,
}

impl Scenario {
    /// What the parameters say.
    pub fn of(params: &Params) -> Result<Self, ParamError> {
        let mut scenario = Self {
            nodes: params.count_u32("nodes"),
            requests: params.count_u32("requests"),
            kinds: if params.text("flavors") == Some("small") { 2 } else { FLAVORS.len() },
            planners: params.count_u32("schedulers"),
            kind: params.text("kind").unwrap_or_default().to_owned(),
            algorithm: if params.text("placement") == Some("spread") { "spread" } else { "binpack" },
            preload: params.text("preload") == Some("true"),
            population: None,
        };
        if params.switch("churn") {
            if scenario.preload {
                return Err(params.refuse("churn", "not together with --preload true"));
            }
            scenario.population = Some(scenario.fitting());
        } else if scenario.preload && scenario.slots() > scenario.nodes {
            let reason = format!("{} requests need as many nodes with room, less one", scenario.requests);
            return Err(params.refuse("nodes", reason));
        } else if !scenario.preload && scenario.requests > scenario.fitting() {
            let reason = format!("on {} nodes {} are sure to fit", scenario.nodes, scenario.fitting());
            return Err(params.refuse("requests", reason));
        }
        if scenario.preload && scenario.algorithm == "spread" {
            let reason = "an optimum is known only for --placement pack when the cluster is preloaded";
            return Err(params.refuse("placement", reason));
        }
        Ok(scenario)
    }

    /// The name among the variants of a matrix.
    pub fn name(&self) -> String {
        let filling = if self.preload { "preloaded" } else { "empty" };
        format!("{},{},{filling}", self.kind, self.planners)
    }

    /// How many requests can succeed.
    pub fn optimum(&self) -> u32 {
        self.requests - u32::from(self.preload)
    }

    /// Nodes that fit exactly one request when the cluster is preloaded.
    pub fn slots(&self) -> u32 {
        self.requests - 1
    }

    /// The number of the first request whose instance is not deleted.
    pub fn first_to_stay(&self) -> usize {
        self.requests.saturating_sub(self.population.unwrap_or(self.requests)) as usize
    }

    /// The cluster that it needs.
    pub fn cluster(&self) -> ClusterParams {
        let Capacity { cpu_mhz, memory_mb, disk_mb } = NODE;
        let flags = ["--planners", &self.planners.to_string(), "--host-state", &self.kind];
        ClusterParams {
            nodes: NodesParams { count: self.nodes, cpu_mhz, memory_mb, disk_mb, behaviour: Vec::new() },
            servers: 1,
            server: flags.map(str::to_owned).into(),
            secure: false,
        }
    }

    /// Which flavor each request is for.
    pub fn flavors(&self, seed: u64) -> Vec<usize> {
        flavors::draw(self.requests, self.kinds, seed)
    }

    /// Instances that fit on an empty cluster, however they are spread.
    fn fitting(&self) -> u32 {
        let by = |of: fn(&Capacity) -> u32| {
            let round: u64 = FLAVORS[..self.kinds].iter().map(|flavor| u64::from(of(flavor))).sum();
            u64::from(of(&NODE)) * u64::from(self.nodes) * self.kinds as u64 * ASKED_PCT_MAX / 100 / round
        };
        let least = by(|capacity| capacity.cpu_mhz)
            .min(by(|capacity| capacity.memory_mb))
            .min(by(|capacity| capacity.disk_mb));
        u32::try_from(least).unwrap_or(u32::MAX)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::run::{Scale, host_state::EXPERIMENT};

    fn scenario(values: &[(&str, &str)]) -> Result<Scenario, ParamError> {
        let values: BTreeMap<String, String> =
            values.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        Scenario::of(&Params::new(EXPERIMENT.params, Scale::Full, &values)?)
    }

    #[test]
    fn as_published_one_of_fifty_does_not_fit() {
        let published = scenario(&[]).unwrap();
        assert_eq!((published.nodes, published.requests, published.optimum()), (1_000, 50, 49));
        assert_eq!(published.name(), "incremental,2,preloaded");
        assert_eq!(published.cluster().server, ["--planners", "2", "--host-state", "incremental"]);
    }

    #[test]
    fn twelve_thousand_small_ones_fit_on_three_hundred_nodes() {
        let values = [("preload", "false"), ("nodes", "300"), ("requests", "12000"), ("flavors", "small")];
        assert_eq!(scenario(&values).unwrap().optimum(), 12_000);
        let six = scenario(&values[..3]).unwrap_err().to_string();
        assert_eq!(six, "--requests 12000: on 300 nodes 2122 are sure to fit");
    }

    #[test]
    fn what_has_no_known_optimum_is_refused() {
        let message = |values: &[(&str, &str)]| scenario(values).unwrap_err().to_string();
        assert!(message(&[("nodes", "48")]).starts_with("--nodes 48: 50 requests need"));
        assert!(message(&[("placement", "spread")]).starts_with("--placement spread: an optimum"));
        assert!(message(&[("churn", "true")]).starts_with("--churn true: not together"));
        let churn = scenario(&[("preload", "false"), ("churn", "true")]).unwrap();
        assert!(churn.population.is_some_and(|population| population > 7_000));
        assert_eq!((churn.first_to_stay(), scenario(&[]).unwrap().first_to_stay()), (0, 0));
        let longer = Scenario { population: Some(30), ..churn };
        assert_eq!(longer.first_to_stay(), 20);
    }
}
