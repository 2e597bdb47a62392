//! The state: 1,000 jobs in a namespace, policies, and tokens that have some of them.

use std::sync::Arc;

use arc_swap::ArcSwap;
use berth_model::{
    AclTokenId, EvalId, Index, JobKey, Timestamp,
    acl::{AclPolicy, AclToken, ChangeAcl, SecretHash, TokenType},
    command::{Command, Entry, RegisterJob},
    job::{Group, Job, JobType, Task},
};
use berth_server::shared::{State, View};
use sha2::{Digest, Sha256};

use crate::support;

/// How many jobs the list has.
pub const JOBS: usize = 1_000;
/// Policies, each with some rules.
const POLICIES: usize = 8;
const AT: Timestamp = Timestamp(1_700_000_000_000_000_000);

/// A few rules as operators write them.
const RULES: &str = r#"
namespace "default" {
  policy       = "read"
  capabilities = ["submit-job", "read-logs", "alloc-exec"]
}
namespace "team-*" {
  policy = "write"
  variables {
    path "nomad/jobs/*" { capabilities = ["read", "list"] }
    path "shared/*"     { capabilities = ["write"] }
  }
}
namespace "*-secret" { policy = "deny" }
node { policy = "read" }
"#;

pub struct Cluster {
    view: Arc<ArcSwap<View>>,
}

impl Cluster {
    /// With a token for each policy, and one that has the first two of them.
    pub fn new() -> Self {
        let mut view = View::default();
        let jobs = (0..JOBS).map(|number| {
            let register = RegisterJob {
                job: Arc::new(job(number)),
                eval: EvalId(number as u128),
                only_if: None,
                submission: None,
            };
            Command::RegisterJob(Box::new(register))
        });
        apply(&mut view, jobs.collect());
        let policies = (0..POLICIES).map(|number| ChangeAcl::PutPolicy(Box::new(policy(number))));
        let of_one = (0..POLICIES).map(|number| ChangeAcl::PutToken(Box::new(token(number, &[number]))));
        let of_two = ChangeAcl::PutToken(Box::new(token(POLICIES, &[0, 1])));
        let changes = policies.chain(of_one).chain([of_two]);
        apply(&mut view, changes.map(|change| Command::ChangeAcl(Box::new(change))).collect());
        Self { view: Arc::new(ArcSwap::from_pointee(view)) }
    }

    /// For handlers of a server that is open.
    pub fn state(&self) -> State {
        support::state(&self.view, &Arc::default(), &Arc::default())
    }

    /// Writes a job again: no answer that was made before is right any more.
    pub fn change(&self) {
        let mut view = View::clone(&self.view.load());
        let register = RegisterJob {
            job: Arc::new(job(0)),
            eval: EvalId(view.index.0.into()),
            only_if: None,
            submission: None,
        };
        apply(&mut view, vec![Command::RegisterJob(Box::new(register))]);
        self.view.store(Arc::new(view));
    }
}

/// The secret of the token that has the policy of this number; that of the one which has two comes after all of them.
pub fn secret(number: usize) -> String {
    format!("berth-{number:064x}")
}

/// The number of the token that has the first two policies.
pub const OF_TWO: usize = POLICIES;

fn apply(view: &mut View, commands: Vec<Command>) {
    view.index = Index(view.index.0 + 1);
    view.store.apply(Entry::new(view.index, AT, commands));
}

fn job(number: usize) -> Job {
    let mut job = Job::new(JobKey::new("default", &format!("job-{number}")), JobType::Service);
    let mut group = Group::new("app", JobType::Service);
    group.count = 1;
    group.tasks = vec![Task::new("server", "mock_driver", JobType::Service)];
    job.groups.push(group);
    job
}

fn policy(number: usize) -> AclPolicy {
    AclPolicy {
        name: format!("policy-{number}"),
        description: String::new(),
        rules: RULES.to_owned(),
        create_index: Index(0),
        modify_index: Index(0),
        job: None,
    }
}

fn token(number: usize, policies: &[usize]) -> AclToken {
    AclToken {
        id: AclTokenId(1 + number as u128),
        secret: SecretHash(Sha256::digest(secret(number)).into()),
        name: format!("token-{number}"),
        token_type: TokenType::Client,
        policies: policies.iter().map(|number| format!("policy-{number}")).collect(),
        roles: Vec::new(),
        global: false,
        created_at: AT,
        expires_at: None,
        create_index: Index(0),
        modify_index: Index(0),
    }
}
