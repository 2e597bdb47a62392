//! What of a job is more than a cluster takes. Asked wherever a job comes from: a file, a request, an older version with
//! another count.

use std::{collections::BTreeMap, fmt};

use berth_model::{
    constraint::Constraint,
    job::{Group, Job},
};

use crate::limits::{
    CONSTRAINT_BYTES_MAX, GROUP_CHECKS_MAX, GROUP_TASKS_MAX, JOB_ALLOCATIONS_MAX, JOB_BYTES_MAX,
    JOB_GROUPS_MAX, MAP_BYTES_MAX,
};

/// A limit that a job exceeds, and the way out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Excess {
    /// How much there is, and the limit.
    pub message: String,
    /// What to do about it.
    pub help: &'static str,
}

impl fmt::Display for Excess {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.message, self.help)
    }
}

/// The first limit that a job exceeds.
pub fn excess(job: &Job) -> Option<Excess> {
    let groups = job.groups.iter().find_map(of_group);
    of_counts(job)
        .or_else(|| of_map(format_args!("meta of the job"), &job.meta))
        .or_else(|| job.constraints.iter().find_map(|one| of_constraint(format_args!("the job"), one)))
        .or(groups)
        .or_else(|| of_bytes(job))
}

fn of_counts(job: &Job) -> Option<Excess> {
    let groups = job.groups.len();
    if groups > JOB_GROUPS_MAX {
        let message = format!("the job has {groups} groups, the limit is {JOB_GROUPS_MAX}");
        return Some(Excess { message, help: "spread them over several jobs" });
    }
    let allocations: u64 = job.groups.iter().map(|group| u64::from(group.count)).sum();
    (allocations > JOB_ALLOCATIONS_MAX).then(|| Excess {
        message: format!(
            "the groups of the job want {allocations} allocations in all, the limit is {JOB_ALLOCATIONS_MAX}"
        ),
        help: "spread them over several jobs, or lower `count`",
    })
}

fn of_group(group: &Group) -> Option<Excess> {
    let (name, tasks) = (&group.name, group.tasks.len());
    if tasks > GROUP_TASKS_MAX {
        let message = format!("group `{name}` has {tasks} tasks, the limit is {GROUP_TASKS_MAX}");
        return Some(Excess { message, help: "spread them over several groups" });
    }
    let services = group.services.iter().chain(group.tasks.iter().flat_map(|task| &task.services));
    let checks: usize = services.map(|service| service.checks.len()).sum();
    if checks > GROUP_CHECKS_MAX {
        let message = format!("group `{name}` has {checks} checks, the limit is {GROUP_CHECKS_MAX}");
        return Some(Excess { message, help: "spread its tasks over several groups, or ask less" });
    }
    let constraints =
        || group.constraints.iter().chain(group.tasks.iter().flat_map(|task| &task.constraints));
    let of_tasks = || {
        group.tasks.iter().find_map(|task| {
            let name = &task.name;
            of_map(format_args!("meta of task `{name}`"), &task.meta)
                .or_else(|| of_map(format_args!("env of task `{name}`"), &task.env))
        })
    };
    of_map(format_args!("meta of group `{name}`"), &group.meta)
        .or_else(|| constraints().find_map(|one| of_constraint(format_args!("group `{name}`"), one)))
        .or_else(of_tasks)
}

fn of_map(what: fmt::Arguments<'_>, map: &BTreeMap<String, String>) -> Option<Excess> {
    let bytes: usize = map.iter().map(|(name, value)| name.len() + value.len()).sum();
    (bytes > MAP_BYTES_MAX).then(|| Excess {
        message: format!("{what} has {bytes} bytes, the limit is {MAP_BYTES_MAX}"),
        help: "put what is long into a template or a file that the task fetches",
    })
}

fn of_constraint(whose: fmt::Arguments<'_>, constraint: &Constraint) -> Option<Excess> {
    let bytes = constraint.left.len().max(constraint.right.len());
    (bytes > CONSTRAINT_BYTES_MAX).then(|| Excess {
        message: format!(
            "a side of a constraint of {whose} has {bytes} bytes, the limit is {CONSTRAINT_BYTES_MAX}"
        ),
        help: "give the nodes an attribute of their own in `meta`, and ask for that",
    })
}

fn of_bytes(job: &Job) -> Option<Excess> {
    let bytes = job.encoded_len();
    (bytes > JOB_BYTES_MAX).then(|| Excess {
        message: format!("the job takes {bytes} bytes as it is kept, the limit is {JOB_BYTES_MAX}"),
        help: "let its tasks fetch long templates and files, or spread its groups over several jobs",
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn job() -> Job {
        let source = "job \"j\" {\n group \"g\" {\n task \"t\" { driver = \"mock\" }\n }\n}";
        crate::parse_hcl(source, "test", &crate::Inputs::default()).expect("it is a job").job
    }

    /// A job at a limit passes, one more is refused with this text.
    fn check(limit: u64, text: &str, make: impl Fn(&mut Job, u64)) {
        let mut at_the_edge = job();
        make(&mut at_the_edge, limit);
        assert_eq!(excess(&at_the_edge), None, "{text}");
        let mut beyond = job();
        make(&mut beyond, limit + 1);
        let refused = excess(&beyond).map(|excess| excess.to_string()).unwrap_or_default();
        assert!(refused.contains(text) && refused.contains(&limit.to_string()), "{text}: {refused}");
    }

    fn text(bytes: u64) -> String {
        "x".repeat(usize::try_from(bytes).expect("it fits"))
    }

    #[test]
    fn each_limit_holds_at_its_edge() {
        check(JOB_ALLOCATIONS_MAX, "allocations in all", |job, count| {
            let half = u32::try_from(count / 2).expect("it fits");
            let rest =
                Group { count: u32::try_from(count).expect("it fits") - half, ..job.groups[0].clone() };
            job.groups[0].count = half;
            job.groups.push(rest);
        });
        check(JOB_GROUPS_MAX as u64, "groups", |job, groups| {
            job.groups = (0..groups).map(|_| job.groups[0].clone()).collect();
        });
        check(GROUP_TASKS_MAX as u64, "tasks", |job, tasks| {
            let task = job.groups[0].tasks[0].clone();
            job.groups[0].tasks = (0..tasks).map(|_| task.clone()).collect();
        });
        let service = "service {\n port = \"80\"\n check {\n type = \"tcp\"\n interval = \"9s\"\n timeout = \"1s\"\n }\n}";
        let source =
            format!("job \"j\" {{\n group \"g\" {{\n{service}\n task \"t\" {{ driver = \"mock\" }}\n }}\n}}");
        let checked = crate::parse_hcl(&source, "test", &crate::Inputs::default()).expect("it is a job").job;
        check(GROUP_CHECKS_MAX as u64, "checks", |job, checks| {
            job.groups[0].services.clone_from(&checked.groups[0].services);
            let one = checked.groups[0].services[0].checks[0].clone();
            job.groups[0].services[0].checks = (0..checks).map(|_| one.clone()).collect();
        });
        check(CONSTRAINT_BYTES_MAX as u64, "constraint of group `g`", |job, bytes| {
            let (left, operator) = ("${attr.a}".to_owned(), berth_model::constraint::Operator::Equal);
            job.groups[0].tasks[0].constraints = vec![Constraint { left, operator, right: text(bytes) }];
        });
        check(MAP_BYTES_MAX as u64, "env of task `t`", |job, bytes| {
            job.groups[0].tasks[0].env = [("k".to_owned(), text(bytes - 1))].into();
        });
        check(MAP_BYTES_MAX as u64, "meta of the job", |job, bytes| {
            job.meta = [("k".to_owned(), text(bytes - 1))].into();
        });
    }

    #[test]
    fn the_bytes_of_a_job_are_those_of_its_encoding() {
        let mut at_the_edge = job();
        // Texts of more than 64 KiB have a head of one length.
        at_the_edge.name = "x".repeat(1 << 17);
        let head = at_the_edge.encoded_len() - at_the_edge.name.len();
        at_the_edge.name = "x".repeat(JOB_BYTES_MAX - head);
        assert_eq!(excess(&at_the_edge), None);
        at_the_edge.name.push('x');
        let refused = excess(&at_the_edge).expect("it is one byte too long").to_string();
        assert!(refused.contains("524289 bytes as it is kept, the limit is 524288"), "{refused}");
    }

    #[test]
    fn a_count_of_all_groups_does_not_overflow() {
        let mut huge = job();
        let group = Group { count: u32::MAX, ..huge.groups[0].clone() };
        huge.groups = vec![group; 1_000];
        assert!(excess(&huge).is_some());
    }
}
