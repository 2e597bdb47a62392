//! Policies.

use berth_api::http::{AclPolicy, AclPolicyJob, AclPolicyStub, AclPolicyWritten};
use berth_model::{
    Index,
    acl::{AclPolicy as Policy, ChangeAcl, POLICY_RULES_MAX, PolicyJob},
    namespace::NAMESPACE_DEFAULT,
};

use super::{change, change_and_answer, check_on, index, tokens::own};
use crate::{
    WatchKey,
    access::Identity,
    http::{
        block,
        call::{Call, Reply},
        failure::Failure,
        named::named,
        reply,
    },
    nomad::namespaces::requested_name,
};

/// `GET /v1/acl/policies`
pub(in crate::nomad) async fn list(call: Call) -> Reply {
    check_on(&call)?;
    let prefix = call.query.text("prefix").unwrap_or_default().to_owned();
    let identity = call.identity().clone();
    block::answer(&call, &[WatchKey::Acl], index, async |view| {
        let find = move || {
            let policies = view.acl_policies(&identity).into_iter();
            let policies = policies.filter(|policy| policy.name.starts_with(&prefix));
            policies.map(|policy| stub(policy)).collect::<Vec<AclPolicyStub>>()
        };
        let rows = call.api.heavy.run(find).await;
        named(&call, rows, |row| row.name.clone()).await
    })
    .await
}

/// `GET /v1/acl/policy/:name`
pub(in crate::nomad) async fn read(call: Call) -> Reply {
    check_on(&call)?;
    block::read(&call, &[WatchKey::Acl], index, |view| {
        let policy = view.acl_policy(call.identity(), call.param("name"));
        let policy = policy.ok_or_else(|| Failure::not_found("ACL policy not found"))?;
        reply::json(&call.query, &whole(policy))
    })
    .await
}

/// `GET /v1/acl/policy/self`: those of the token that is shown, a task's own included.
pub(in crate::nomad) async fn read_own(call: Call) -> Reply {
    check_on(&call)?;
    let view = call.view();
    if !matches!(call.identity(), Identity::Workload(_)) {
        own(&call, &view)?;
    }
    let policies: Vec<AclPolicy> =
        view.own_policies(call.identity()).into_iter().map(|one| whole(one)).collect();
    reply::json(&call.query, &policies)
}

/// `PUT /v1/acl/policy/:name`
pub(in crate::nomad) async fn put(mut call: Call) -> Reply {
    check_on(&call)?;
    let request: AclPolicy = call.json().await?;
    let name = requested_name(call.param("name"), request.name)?;
    if request.rules.len() > POLICY_RULES_MAX {
        let text = format!(
            "Rules has {} bytes, a policy may have {POLICY_RULES_MAX}: write several policies",
            request.rules.len()
        );
        return Err(Failure::bad_request(text));
    }
    let (what, rules) = (format!("policy {name}"), request.rules);
    let (rules, read) = call
        .api
        .heavy
        .run(move || {
            let read = berth_jobfile::parse_policy(rules.as_bytes(), &what);
            (rules, read)
        })
        .await;
    let (_, warnings) = read.map_err(|diagnostics| Failure::bad_request(diagnostics.to_string()))?;
    let policy = Policy {
        name,
        description: request.description,
        rules,
        create_index: Index(0),
        modify_index: Index(0),
        job: request.job_acl.filter(|job| *job != AclPolicyJob::default()).map(attached),
    };
    let index = change(&call, ChangeAcl::PutPolicy(Box::new(policy))).await?;
    let answer = AclPolicyWritten { warnings: warnings.messages() };
    let mut response = reply::json(&call.query, &answer)?;
    reply::stamp(response.headers_mut(), index, &call.view());
    Ok(response)
}

/// `DELETE /v1/acl/policy/:name`
pub(in crate::nomad) async fn delete(call: Call) -> Reply {
    check_on(&call)?;
    change_and_answer(&call, ChangeAcl::DeletePolicy(call.param("name").to_owned())).await
}

fn attached(job: AclPolicyJob) -> Box<PolicyJob> {
    let AclPolicyJob { namespace, job_id: job, group, task } = job;
    let namespace = if namespace.is_empty() { NAMESPACE_DEFAULT.to_owned() } else { namespace };
    Box::new(PolicyJob { namespace, job, group, task })
}

fn to_api(job: PolicyJob) -> AclPolicyJob {
    let PolicyJob { namespace, job: job_id, group, task } = job;
    AclPolicyJob { namespace, job_id, group, task }
}

fn stub(policy: &Policy) -> AclPolicyStub {
    AclPolicyStub {
        name: policy.name.clone(),
        description: policy.description.clone(),
        create_index: policy.create_index.0,
        modify_index: policy.modify_index.0,
    }
}

fn whole(policy: &Policy) -> AclPolicy {
    AclPolicy {
        name: policy.name.clone(),
        description: policy.description.clone(),
        rules: policy.rules.clone(),
        job_acl: policy.job.as_deref().cloned().map(to_api),
        create_index: policy.create_index.0,
        modify_index: policy.modify_index.0,
    }
}
