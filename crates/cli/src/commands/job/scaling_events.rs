//! `berth job scaling-events`: who changed the counts of a job's groups, and why.

use std::collections::BTreeMap;

use berth_api::http::{GroupScaleStatus, ScalingEvent};
use clap::Args;
use serde::Serialize;

use crate::{
    complete,
    failure::Failure,
    output::{Cell, Column, Layout, Table, View, rfc3339},
    remote::Remote,
    show::ShowArgs,
};

/// Arguments of `job scaling-events`.
#[derive(Debug, Args)]
pub struct JobScalingEventsArgs {
    /// The job's id
    #[arg(value_name = "JOB", add = complete::jobs())]
    id: String,
    #[command(flatten)]
    show: ShowArgs,
}

/// The events of each group, newest first.
#[derive(Debug, Serialize)]
#[serde(transparent)]
struct GroupScalingEvents(BTreeMap<String, Vec<ScalingEvent>>);

impl JobScalingEventsArgs {
    pub async fn run(&self, remote: &Remote) -> Result<(), Failure> {
        let id = remote.find_job(&self.id).await?;
        let read =
            async |remote: &Remote| Ok(GroupScalingEvents::of(remote.scale_status(&id).await?.task_groups));
        self.show.show(remote, read).await
    }
}

impl GroupScalingEvents {
    fn of(groups: BTreeMap<String, GroupScaleStatus>) -> Self {
        Self(groups.into_iter().map(|(name, group)| (name, group.events)).collect())
    }

    /// With their groups' names, newest first.
    fn by_age(&self) -> Vec<(&String, &ScalingEvent)> {
        let of_groups = self.0.iter();
        let mut all: Vec<_> =
            of_groups.flat_map(|(name, events)| events.iter().map(move |event| (name, event))).collect();
        all.sort_by_key(|(_, event)| std::cmp::Reverse((event.time, event.create_index)));
        all
    }
}

impl View for GroupScalingEvents {
    fn text(&self, layout: Layout) -> String {
        let all = self.by_age();
        if all.is_empty() {
            return "nobody has scaled it\n".into();
        }
        let columns = [
            Column::text("group"),
            Column::number("count"),
            Column::number("before"),
            Column::text("error"),
            Column::text("at"),
            Column::text("message"),
            Column::id("evaluation").wide(),
        ];
        let mut table = Table::new(layout, &columns);
        for (group, event) in all {
            table.row([
                group.into(),
                event.count.map_or_else(|| Cell::from(""), Cell::number),
                Cell::number(event.previous_count),
                if event.error { "yes" } else { "" }.into(),
                rfc3339(event.time).into(),
                (&event.message).into(),
                layout.id(event.eval_id.as_deref().unwrap_or_default()).into(),
            ]);
        }
        table.render()
    }

    fn names(&self) -> Vec<String> {
        self.by_age().into_iter().filter_map(|(_, event)| event.eval_id.clone()).collect()
    }
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::*;

    #[test]
    fn events_of_all_groups_stand_newest_first() {
        let event = |time: u64, count: Option<u32>, message: &str| ScalingEvent {
            time: time * 1_000_000_000,
            count,
            previous_count: 1,
            error: count.is_none(),
            message: message.into(),
            ..ScalingEvent::default()
        };
        let group = |events: Vec<ScalingEvent>| GroupScaleStatus { events, ..GroupScaleStatus::default() };
        let groups = [
            ("back".to_owned(), group(vec![event(20, None, "no nodes left")])),
            ("front".to_owned(), group(vec![event(30, Some(5), "more visitors"), event(10, Some(2), "")])),
        ];
        expect![[r#"
            GROUP  COUNT  BEFORE  ERROR  AT                    MESSAGE
            front      5       1         1970-01-01T00:00:30Z  more visitors
            back               1  yes    1970-01-01T00:00:20Z  no nodes left
            front      2       1         1970-01-01T00:00:10Z
        "#]]
        .assert_eq(&GroupScalingEvents::of(groups.into()).text(Layout::PLAIN));
        assert_eq!(GroupScalingEvents(BTreeMap::new()).text(Layout::PLAIN), "nobody has scaled it\n");
    }
}
