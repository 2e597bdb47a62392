//! The jobs of a running Nomad, over its HTTP API.

use berth_api::http::{Address, ApiError, Client, Target};
use serde::Deserialize;
use serde_json::Value;

use crate::{
    failure::{Exit, Failure},
    output,
    remote::Certificates,
};

/// Jobs in one answer.
const PAGE_JOBS: u32 = 200;
/// More are not imported at once.
const JOBS_MAX: usize = 100_000;

/// The Nomad cluster that jobs are imported from.
pub(super) struct NomadSource {
    client: Client,
    namespace: String,
}

/// A job in its list.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub(super) struct NomadJob {
    /// Unique in its namespace.
    #[serde(rename = "ID")]
    pub id: String,
    /// Its tenant.
    pub namespace: String,
    /// `service` or another one.
    #[serde(rename = "Type")]
    pub job_type: String,
    /// The job that made this one: it is made again, not imported.
    #[serde(rename = "ParentID")]
    parent_id: String,
    status: String,
    stop: bool,
}

impl NomadSource {
    /// The Nomad at that address. Nothing is sent yet.
    pub fn new(
        address: &str,
        token: Option<&str>,
        namespace: &str,
        certificates: &Certificates,
    ) -> Result<Self, Failure> {
        let address: Address =
            address.parse().map_err(|error| Failure::new(Exit::Usage, format!("--from: {error}")))?;
        let client = certificates.client(address)?;
        let client = token.into_iter().filter(|token| !token.is_empty()).fold(client, Client::with_token);
        Ok(Self { client, namespace: namespace.to_owned() })
    }

    /// Its jobs without those that other jobs made; with `all` also those that have ended.
    pub async fn jobs(&self, all: bool) -> Result<Vec<NomadJob>, Failure> {
        let mut jobs: Vec<NomadJob> = Vec::new();
        let mut page = Some(String::new());
        while let Some(token) = page {
            let target = Target::new("/v1/jobs").param("namespace", &self.namespace);
            let target = target.param("per_page", PAGE_JOBS).param("next_token", token);
            let answer = self.client.get::<Vec<NomadJob>>(&target).await.map_err(unread)?;
            jobs.extend(answer.value.into_iter().filter(|job| job.is_wanted(all)));
            page = answer.next_token;
            if jobs.len() > JOBS_MAX {
                let message = format!("there are more than {JOBS_MAX} jobs");
                return Err(Failure::new(Exit::Failed, message)
                    .help("take one namespace at a time: --from-namespace"));
            }
        }
        Ok(jobs)
    }

    /// A job as its owner wrote it.
    pub async fn job(&self, found: &NomadJob) -> Result<Value, Failure> {
        let target = Target::new("/v1/job").part(&found.id).param("namespace", &found.namespace);
        Ok(self.client.get(&target).await.map_err(unread)?.value)
    }
}

/// Why a Nomad was not read. What helps where no server of Berth answers does not help here.
fn unread(error: ApiError) -> Failure {
    match error {
        ApiError::Unreachable { address, reason } => {
            let text = output::clean_lines(&format!("no Nomad answers at {address}: {reason}"));
            Failure::new(Exit::Unreachable, text).help("give the address of its HTTP API with --from")
        }
        error => error.into(),
    }
}

impl NomadJob {
    fn is_wanted(&self, all: bool) -> bool {
        self.parent_id.is_empty() && (all || !self.stop && self.status != "dead")
    }
}
