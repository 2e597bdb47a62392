//! `berth lab audit`: checks by the public API alone that all allocations are where their jobs allow them.

use berth_lab::run::audit;
use tokio::runtime;

use super::target;
use crate::{
    failure::{Exit, Failure},
    global::Global,
    output,
};

#[derive(Debug, clap::Args)]
pub struct LabAuditArgs {
    /// Server of the cluster: Berth, or any that speaks Nomad's API
    #[arg(long, value_name = "URL")]
    target: String,
    /// ACL token, which must be able to read all namespaces, nodes and quotas
    #[arg(long, env = "NOMAD_TOKEN", hide_env_values = true, default_value = "")]
    token: String,
}

impl LabAuditArgs {
    pub fn run(self, global: &Global) -> Result<(), Failure> {
        let target = target(&self.target, self.token, global)?;
        let runtime = runtime::Builder::new_current_thread().enable_all().build()?;
        let found = runtime.block_on(audit(&target));
        let found = found.map_err(|error| Failure::new(Exit::Failed, error.to_string()))?;
        output::print(&format!("{found}\n"))?;
        match found.findings.len() {
            0 => Ok(()),
            found => {
                let violations = output::count(found, "violation");
                Err(Failure::new(Exit::Failed, format!("{violations} found, see above")))
            }
        }
    }
}
