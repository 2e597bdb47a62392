//! `berth job scale`: changes the count of a group of a job.

use std::time::Instant;

use clap::Args;

use super::outcome::{AcceptedChange, DetachArgs, ends_of};
use crate::{
    complete,
    failure::{Exit, Failure},
    output::clean,
    remote::Remote,
};

/// Arguments of `job scale`.
#[derive(Debug, Args)]
pub struct JobScaleArgs {
    /// The job's id
    #[arg(value_name = "JOB", add = complete::jobs())]
    id: String,
    /// Group, optional if there is only one, and its new number of allocations
    #[arg(value_name = "[GROUP] COUNT", num_args = 1..=2, required = true, allow_negative_numbers = true)]
    target: Vec<String>,
    /// Reason, shown in the job's scaling events
    #[arg(long, value_name = "TEXT", default_value = "berth job scale")]
    message: String,
    #[command(flatten)]
    detach: DetachArgs,
}

impl JobScaleArgs {
    /// Changes the count, and follows what comes of it.
    pub async fn run(&self, remote: &Remote) -> Result<(), Failure> {
        let since = Instant::now();
        let (group, count) = self.target()?;
        let id = remote.find_job(&self.id).await?;
        let groups = remote.scale_status(&id).await?.task_groups;
        let group = only_group(&groups.keys().map(String::as_str).collect::<Vec<_>>(), group)?;
        let scaled = remote.scale(&id, group, count, &self.message).await?;
        let accepted = AcceptedChange {
            job: &id,
            action: &format!("scaled: group {} has count {count}", clean(group)),
            eval: &scaled.eval_id,
            index: scaled.job_modify_index,
            since,
            ends: ends_of(remote, &id).await,
        };
        self.detach.or_follow(remote, &accepted).await
    }

    fn target(&self) -> Result<(Option<&str>, u32), Failure> {
        let (group, count) = match self.target.as_slice() {
            [group, count] => (Some(group.as_str()), count),
            [count] => (None, count),
            _ => return Err(Failure::new(Exit::Usage, "takes at most a group and a count")),
        };
        let number = count.parse().map_err(|_| {
            Failure::new(Exit::Usage, format!("`{}` is not a count of allocations", clean(count)))
                .help("a whole number from 0 on, as in `berth job scale web front 5`")
        })?;
        Ok((group, number))
    }
}

/// The named group, or the only one.
fn only_group<'a>(groups: &[&'a str], requested: Option<&str>) -> Result<&'a str, Failure> {
    let named = groups.iter().map(|group| format!("`{}`", clean(group))).collect::<Vec<_>>().join(", ");
    let help = format!("its groups are {named}");
    match requested {
        Some(requested) => groups.iter().find(|group| **group == requested).copied().ok_or_else(|| {
            Failure::new(Exit::NotFound, format!("the job has no group `{}`", clean(requested))).help(help)
        }),
        None if groups.len() == 1 => Ok(groups[0]),
        None => Err(Failure::new(Exit::Usage, "the job has more than one group: say which one").help(help)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_group_need_not_be_named_when_there_is_one() {
        assert_eq!(only_group(&["front"], None).unwrap(), "front");
        assert_eq!(only_group(&["front", "back"], Some("back")).unwrap(), "back");
        assert_eq!(only_group(&["front", "back"], None).unwrap_err().exit(), Exit::Usage);
        assert_eq!(only_group(&["front"], Some("back")).unwrap_err().exit(), Exit::NotFound);
    }
}
