//! What differs between two versions of a job, a line for each difference: `+` new, `-` gone, `~` changed.

use std::collections::BTreeMap;

use berth_api::http::{DiffKind, FieldDiff, JobDiff, ObjectDiff, TaskDiff, TaskGroupDiff};

use crate::output::{Layout, Tone, clean};

/// For each level.
const INDENT: &str = "  ";

/// The lines of a difference; empty when there is none. Of a job that is new or gone only groups and tasks are named,
/// unless everything is asked for: its settings would only repeat the job file.
pub fn render(diff: &JobDiff, layout: Layout) -> String {
    let settings = layout.wide || diff.kind == DiffKind::Edited;
    let mut lines = DiffText { layout, settings, text: String::new(), depth: 0 };
    if diff.kind != DiffKind::None {
        lines.job(diff);
    }
    lines.text
}

struct DiffText {
    layout: Layout,
    /// Whether settings are shown.
    settings: bool,
    text: String,
    depth: usize,
}

impl DiffText {
    fn job(&mut self, job: &JobDiff) {
        self.line(job.kind, &format!("job {}", clean(&job.id)), &[]);
        self.inside(|lines| {
            lines.settings(&job.fields, &job.objects);
            job.task_groups.iter().for_each(|group| lines.group(group));
        });
    }

    fn group(&mut self, group: &TaskGroupDiff) {
        let updates = updates(group.updates.as_ref());
        if group.kind == DiffKind::None && updates.is_empty() {
            return;
        }
        self.line(group.kind, &format!("group {}", clean(&group.name)), &updates);
        self.inside(|lines| {
            lines.settings(&group.fields, &group.objects);
            group.tasks.iter().for_each(|task| lines.task(task));
        });
    }

    fn task(&mut self, task: &TaskDiff) {
        if task.kind == DiffKind::None {
            return;
        }
        self.line(
            task.kind,
            &format!("task {}", clean(&task.name)),
            task.annotations.as_deref().unwrap_or_default(),
        );
        self.inside(|lines| lines.settings(&task.fields, &task.objects));
    }

    fn settings(&mut self, fields: &[FieldDiff], objects: &[ObjectDiff]) {
        if self.settings {
            fields.iter().for_each(|field| self.field(field));
            objects.iter().for_each(|object| self.object(object));
        }
    }

    fn object(&mut self, object: &ObjectDiff) {
        if object.kind == DiffKind::None {
            return;
        }
        self.line(object.kind, &clean(&object.name), &[]);
        self.inside(|lines| lines.settings(&object.fields, &object.objects));
    }

    fn field(&mut self, field: &FieldDiff) {
        let (name, old, new) = (clean(&field.name), clean(&field.old), clean(&field.new));
        let text = match field.kind {
            DiffKind::None => return,
            DiffKind::Added => format!("{name}: {new}"),
            DiffKind::Deleted => format!("{name}: {old}"),
            DiffKind::Edited => format!("{name}: {old} → {new}"),
        };
        self.line(field.kind, &text, field.annotations.as_deref().unwrap_or_default());
    }

    fn line(&mut self, kind: DiffKind, text: &str, notes: &[String]) {
        let (mark, tone) = match kind {
            DiffKind::None => (" ", Tone::Plain),
            DiffKind::Added => ("+", Tone::Good),
            DiffKind::Deleted => ("-", Tone::Bad),
            DiffKind::Edited => ("~", Tone::Waiting),
        };
        let notes = if notes.is_empty() { String::new() } else { format!(" ({})", clean(&notes.join(", "))) };
        let line = format!("{mark} {text}");
        let line = self.layout.palette.paint(&line, tone);
        self.text.push_str(&format!("{}{line}{notes}\n", INDENT.repeat(self.depth)));
    }

    fn inside(&mut self, write: impl FnOnce(&mut Self)) {
        self.depth += 1;
        write(self);
        self.depth -= 1;
    }
}

/// What the change means for the allocations of a group: `2 create`, `1 in-place update`.
fn updates(updates: Option<&BTreeMap<String, u64>>) -> Vec<String> {
    updates
        .into_iter()
        .flatten()
        .filter(|(_, number)| **number > 0)
        .map(|(what, number)| format!("{number} {what}"))
        .collect()
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::*;

    fn field(kind: DiffKind, name: &str, old: &str, new: &str) -> FieldDiff {
        FieldDiff { kind, name: name.into(), old: old.into(), new: new.into(), annotations: None }
    }

    #[test]
    fn a_difference_is_a_tree_of_marked_lines() {
        let config = ObjectDiff {
            kind: DiffKind::Edited,
            name: "Config".into(),
            fields: vec![
                field(DiffKind::Edited, "image", "web:1", "web:2"),
                field(DiffKind::None, "command", "/bin/web", "/bin/web"),
            ],
            objects: vec![],
        };
        let task = TaskDiff {
            kind: DiffKind::Edited,
            name: "httpd".into(),
            fields: vec![field(DiffKind::Deleted, "Env[DEBUG]", "1", "")],
            objects: vec![config],
            annotations: Some(vec!["forces create/destroy update".into()]),
        };
        let group = TaskGroupDiff {
            kind: DiffKind::Edited,
            name: "front".into(),
            fields: vec![FieldDiff {
                annotations: Some(vec!["forces create".into()]),
                ..field(DiffKind::Edited, "Count", "1", "3")
            }],
            tasks: vec![task],
            updates: Some([("create".to_owned(), 2), ("ignore".to_owned(), 0)].into()),
            ..TaskGroupDiff::default()
        };
        let diff = JobDiff {
            kind: DiffKind::Edited,
            id: "web".into(),
            fields: vec![field(DiffKind::Added, "Meta[owner]", "", "ops")],
            objects: vec![],
            task_groups: vec![group],
        };
        expect![[r#"
            ~ job web
              + Meta[owner]: ops
              ~ group front (2 create)
                ~ Count: 1 → 3 (forces create)
                ~ task httpd (forces create/destroy update)
                  - Env[DEBUG]: 1
                  ~ Config
                    ~ image: web:1 → web:2
        "#]]
        .assert_eq(&render(&diff, Layout::PLAIN));
        assert_eq!(render(&JobDiff::default(), Layout::PLAIN), "");
        expect![[r#"
            + job web
              ~ group front (2 create)
                ~ task httpd (forces create/destroy update)
        "#]]
        .assert_eq(&render(&JobDiff { kind: DiffKind::Added, ..diff }, Layout::PLAIN));
    }
}
