//! `berth acl policy`: policies, which say what their holders may do.

use berth_api::http::{AclPolicy, AclPolicyJob, AclPolicyStub};
use clap::{Args, Subcommand};

use crate::{
    confirm::ConfirmArgs,
    failure::{Exit, Failure},
    filter::FilterArgs,
    output::{self, Column, Fields, Layout, Table, View, sections},
    remote::Remote,
    show::ShowArgs,
    source,
};

/// What can be done with policies.
#[derive(Debug, Subcommand)]
pub enum PolicyCommand {
    /// List the policies
    List(PolicyListArgs),
    /// Show one policy with its rules
    Info(PolicyInfoArgs),
    /// Create or replace a policy from a file
    Apply(PolicyApplyArgs),
    /// Delete a policy: tokens and roles lose its rights at once
    Delete(PolicyDeleteArgs),
}

impl PolicyCommand {
    pub async fn run(&self, remote: &Remote) -> Result<(), Failure> {
        match self {
            Self::List(list) => {
                list.show.show(&list.filter.of(remote), async |remote| remote.acl_policies().await).await
            }
            Self::Info(info) => {
                info.show.show(remote, async |remote| remote.acl_policy(&info.name).await).await
            }
            Self::Apply(apply) => apply.run(remote).await,
            Self::Delete(delete) => delete.run(remote).await,
        }
    }
}

/// Arguments of `acl policy list`.
#[derive(Debug, Args)]
pub struct PolicyListArgs {
    #[command(flatten)]
    filter: FilterArgs,
    #[command(flatten)]
    show: ShowArgs,
}

/// Arguments of `acl policy info`.
#[derive(Debug, Args)]
pub struct PolicyInfoArgs {
    /// The policy's name
    #[arg(value_name = "NAME")]
    name: String,
    #[command(flatten)]
    show: ShowArgs,
}

/// Arguments of `acl policy apply`.
#[derive(Debug, Args)]
pub struct PolicyApplyArgs {
    /// Name: letters, digits, dashes and underscores; `anonymous` applies to requests without a token
    #[arg(value_name = "NAME")]
    name: String,
    /// The rules, in HCL or JSON; `-` for standard input
    #[arg(value_name = "FILE")]
    file: String,
    /// Description
    #[arg(long, value_name = "TEXT", default_value = "", hide_default_value = true)]
    description: String,
    /// Attach the policy to the workload identity of this job, in the namespace of the command
    #[arg(long, value_name = "JOB")]
    job: Option<String>,
    /// Only to tasks of this group
    #[arg(long, value_name = "GROUP", requires = "job")]
    group: Option<String>,
    /// Only to this task of the group
    #[arg(long, value_name = "TASK", requires = "group")]
    task: Option<String>,
}

impl PolicyApplyArgs {
    fn attached(&self, remote: &Remote) -> Option<AclPolicyJob> {
        let text = |name: &Option<String>| name.clone().unwrap_or_default();
        self.job.as_ref().map(|job| AclPolicyJob {
            namespace: remote.namespace().to_owned(),
            job_id: job.clone(),
            group: text(&self.group),
            task: text(&self.task),
        })
    }

    async fn run(&self, remote: &Remote) -> Result<(), Failure> {
        let (source, file) = (source::read(&self.file)?, source::name(&self.file));
        let (_, warnings) = berth_jobfile::parse_policy(&source, file)
            .map_err(|mistakes| Failure::report(Exit::Failed, &mistakes))?;
        if !warnings.is_empty() {
            output::eprint_line(&warnings.to_string());
        }
        let rules = String::from_utf8(source)
            .map_err(|_| Failure::new(Exit::Failed, format!("{file} holds no text")))?;
        let policy = AclPolicy {
            name: self.name.clone(),
            description: self.description.clone(),
            rules,
            job_acl: self.attached(remote),
            ..AclPolicy::default()
        };
        remote.put_acl_policy(&policy).await?;
        output::eprint_line(&format!("policy {} is written", self.name));
        Ok(())
    }
}

/// Arguments of `acl policy delete`.
#[derive(Debug, Args)]
pub struct PolicyDeleteArgs {
    /// The policy's name
    #[arg(value_name = "NAME")]
    name: String,
    #[command(flatten)]
    confirm: ConfirmArgs,
}

impl PolicyDeleteArgs {
    async fn run(&self, remote: &Remote) -> Result<(), Failure> {
        self.confirm.on_terminal("delete policy", &self.name, &self.name)?;
        remote.delete_acl_policy(&self.name).await?;
        output::eprint_line(&format!("policy {} is deleted", self.name));
        Ok(())
    }
}

impl View for Vec<AclPolicyStub> {
    fn text(&self, layout: Layout) -> String {
        if self.is_empty() {
            return "no policies: `berth acl policy apply` writes one\n".into();
        }
        let mut table = Table::new(layout, &[Column::id("name"), Column::text("description")]);
        for policy in self {
            table.row([(&policy.name).into(), (&policy.description).into()]);
        }
        table.render()
    }

    fn names(&self) -> Vec<String> {
        self.iter().map(|policy| policy.name.clone()).collect()
    }
}

impl View for AclPolicy {
    fn text(&self, layout: Layout) -> String {
        let attached = self.job_acl.as_ref().map_or(String::new(), |job| {
            let names = [&job.namespace, &job.job_id, &job.group, &job.task].into_iter();
            names.filter(|name| !name.is_empty()).cloned().collect::<Vec<_>>().join(" ")
        });
        let fields = Fields::new(layout)
            .with("Name", &self.name)
            .with_some("Description", &self.description)
            .with_some("Tasks of", &attached);
        let rules = output::clean(&self.rules).into_owned();
        sections([fields.render(), format!("{}\n", rules.trim_end())])
    }

    fn names(&self) -> Vec<String> {
        vec![self.name.clone()]
    }
}
