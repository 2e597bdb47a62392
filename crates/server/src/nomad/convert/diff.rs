//! Differences between two versions of a job, found in their canonical JSON, so that no setting can be left out.

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};

use berth_api::http::{DiffKind, FieldDiff, JobDiff, ObjectDiff, TaskDiff, TaskGroupDiff};
use berth_model::job::{Group, Job};
use serde_json::{Map, Value};

/// Maps of the owner's own names, whose members stand among the settings as `Meta[owner]`.
const FLAT_MAPS: &[&str] = &["Meta", "Env", "SysCtl", "Sysctl"];
/// Members that distinguish the objects of a list.
const NAMES: &[&str] = &["Name", "Label", "ID"];

type Object = Map<String, Value>;

/// What differs; everything is new when there was no job. Of groups, only those are written out that differ, one after
/// the other: a job may have a thousand.
pub fn job_diff(old: Option<&Job>, new: &Job) -> JobDiff {
    let task_groups: Vec<_> =
        group_pairs(old, new).into_iter().filter_map(|(old, new)| group_diff(old, new)).collect();
    let (old, new) = (old.map(berth_jobfile::head_to_json), berth_jobfile::head_to_json(new));
    let (old, new) = (old.as_ref().and_then(Value::as_object), new.as_object());
    let ValueMap { fields, objects } = members(old, new, &["ID"]);
    let is_changed = !(fields.is_empty() && objects.is_empty() && task_groups.is_empty());
    JobDiff { kind: kind(old, new, is_changed), id: text(new, "ID"), fields, objects, task_groups }
}

/// The groups of two jobs by their names: first those of the old one, then those that were added.
fn group_pairs<'j>(old: Option<&'j Job>, new: &'j Job) -> Vec<(Option<&'j Group>, Option<&'j Group>)> {
    let old: &[Group] = old.map_or(&[], |old| &old.groups);
    let mut unpaired: BTreeMap<&str, &Group> =
        new.groups.iter().map(|group| (group.name.as_str(), group)).collect();
    let mut pairs: Vec<_> =
        old.iter().map(|before| (Some(before), unpaired.remove(before.name.as_str()))).collect();
    let added = new.groups.iter().filter(|group| unpaired.contains_key(group.name.as_str()));
    pairs.extend(added.map(|added| (None, Some(added))));
    pairs
}

fn group_diff(old: Option<&Group>, new: Option<&Group>) -> Option<TaskGroupDiff> {
    if old == new {
        return None;
    }
    let (old, new) = (old.map(berth_jobfile::group_to_json), new.map(berth_jobfile::group_to_json));
    let (old, new) = (old.as_ref().and_then(Value::as_object), new.as_ref().and_then(Value::as_object));
    let ValueMap { fields, objects } = members(old, new, &["Name", "Tasks"]);
    let tasks = pairs(list(old, "Tasks"), list(new, "Tasks"));
    let tasks: Vec<_> = tasks.into_iter().filter_map(|(old, new)| task_diff(old, new)).collect();
    let kind = kind(old, new, !(fields.is_empty() && objects.is_empty() && tasks.is_empty()));
    let name = text(new.or(old), "Name");
    (kind != DiffKind::None).then_some(TaskGroupDiff { kind, name, fields, objects, tasks, updates: None })
}

fn task_diff(old: Option<&Object>, new: Option<&Object>) -> Option<TaskDiff> {
    let ValueMap { fields, objects } = members(old, new, &["Name"]);
    let kind = kind(old, new, !(fields.is_empty() && objects.is_empty()));
    let name = text(new.or(old), "Name");
    (kind != DiffKind::None).then_some(TaskDiff { kind, name, fields, objects, annotations: None })
}

fn object_diff(name: &str, old: Option<&Object>, new: Option<&Object>) -> Option<ObjectDiff> {
    let ValueMap { fields, objects } = members(old, new, &[]);
    let kind = kind(old, new, !(fields.is_empty() && objects.is_empty()));
    (kind != DiffKind::None).then(|| ObjectDiff { kind, name: name.to_owned(), fields, objects })
}

fn kind<T>(old: Option<T>, new: Option<T>, is_changed: bool) -> DiffKind {
    match (old, new) {
        (None, Some(_)) => DiffKind::Added,
        (Some(_), None) => DiffKind::Deleted,
        _ if is_changed => DiffKind::Edited,
        _ => DiffKind::None,
    }
}

/// What differs among the members of an object.
#[derive(Default)]
struct ValueMap {
    fields: Vec<FieldDiff>,
    objects: Vec<ObjectDiff>,
}

fn members(old: Option<&Object>, new: Option<&Object>, skipped: &[&str]) -> ValueMap {
    let names: BTreeSet<&String> = [old, new].into_iter().flatten().flat_map(Map::keys).collect();
    let mut found = ValueMap::default();
    for name in names.into_iter().filter(|name| !skipped.contains(&name.as_str())) {
        found.compare(name, member(old, name), member(new, name));
    }
    found
}

fn member<'v>(object: Option<&'v Object>, name: &str) -> &'v Value {
    object.and_then(|object| object.get(name)).unwrap_or(&Value::Null)
}

impl ValueMap {
    fn compare(&mut self, name: &str, old: &Value, new: &Value) {
        if old == new {
            return;
        }
        match (old, new) {
            (Value::Object(_), _) | (_, Value::Object(_)) if FLAT_MAPS.contains(&name) => {
                self.flat(name, old.as_object(), new.as_object());
            }
            (Value::Object(_), _) | (_, Value::Object(_)) => {
                self.objects.extend(object_diff(name, old.as_object(), new.as_object()));
            }
            (Value::Array(_), _) | (_, Value::Array(_)) => self.list(name, items(old), items(new)),
            _ => self.field(name, old, new),
        }
    }

    fn field(&mut self, name: &str, old: &Value, new: &Value) {
        let (old, new) = (text_of(old), text_of(new));
        let kind = match (old.is_empty(), new.is_empty()) {
            (true, true) => return,
            (true, false) => DiffKind::Added,
            (false, true) => DiffKind::Deleted,
            (false, false) => DiffKind::Edited,
        };
        self.fields.push(FieldDiff { kind, name: name.to_owned(), old, new, annotations: None });
    }

    fn flat(&mut self, name: &str, old: Option<&Object>, new: Option<&Object>) {
        let ValueMap { mut fields, objects } = members(old, new, &[]);
        for field in &mut fields {
            field.name = format!("{name}[{}]", field.name);
        }
        self.fields.append(&mut fields);
        self.objects.extend(objects);
    }

    /// Objects are paired by their names; of those without one, what is in both lists is left out. Other items are paired
    /// by their positions: order can matter.
    fn list(&mut self, name: &str, old: &[Value], new: &[Value]) {
        if old.iter().chain(new).any(Value::is_object) {
            let name = singular(name);
            let pairs = pairs(old, new);
            self.objects.extend(pairs.into_iter().filter_map(|(old, new)| object_diff(&name, old, new)));
            return;
        }
        for at in 0..old.len().max(new.len()) {
            let (old, new) = (old.get(at).unwrap_or(&Value::Null), new.get(at).unwrap_or(&Value::Null));
            self.compare(&format!("{name}[{at}]"), old, new);
        }
    }
}

/// The objects of two lists that stand for the same thing: they have the same name, or are the only ones, or are equal.
/// Lists may have tens of thousands: each is looked up, not searched for.
fn pairs<'v>(old: &'v [Value], new: &'v [Value]) -> Vec<(Option<&'v Object>, Option<&'v Object>)> {
    let only_ones = old.len() == 1 && new.len() == 1;
    let mut unpaired: HashMap<ItemKey<'v>, VecDeque<usize>> = HashMap::new();
    for (at, after) in new.iter().enumerate() {
        unpaired.entry(known_by(after, only_ones)).or_default().push_back(at);
    }
    let mut is_paired = vec![false; new.len()];
    let mut pairs = Vec::new();
    for before in old {
        let after = unpaired.get_mut(&known_by(before, only_ones)).and_then(VecDeque::pop_front);
        if let Some(at) = after {
            is_paired[at] = true;
        }
        pairs.push((before.as_object(), after.and_then(|at| new[at].as_object())));
    }
    let added = new.iter().zip(is_paired).filter(|(_, is_paired)| !is_paired);
    pairs.extend(added.map(|(after, _)| (None, after.as_object())));
    pairs
}

/// What an item of a list is known by in another.
#[derive(PartialEq, Eq, Hash)]
enum ItemKey<'v> {
    Name(&'v str),
    All(&'v Value),
    /// It is the only one, and has no name.
    OnlyOne,
}

fn known_by(value: &Value, is_only_one: bool) -> ItemKey<'_> {
    match name_of(value) {
        Some(name) => ItemKey::Name(name),
        None if is_only_one => ItemKey::OnlyOne,
        None => ItemKey::All(value),
    }
}

fn name_of(value: &Value) -> Option<&str> {
    let named = NAMES.iter().find_map(|member| value.get(member)?.as_str());
    named.filter(|name| !name.is_empty())
}

fn list<'v>(object: Option<&'v Object>, name: &str) -> &'v [Value] {
    object.and_then(|object| object.get(name)).map_or(&[], items)
}

fn items(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

fn text(object: Option<&Object>, name: &str) -> String {
    object.and_then(|object| object.get(name)).map(text_of).unwrap_or_default()
}

/// A setting as text; what is not set is empty.
fn text_of(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

/// `Constraints` holds a `Constraint` each.
fn singular(name: &str) -> String {
    match name.strip_suffix("ies") {
        Some(stem) => format!("{stem}y"),
        None => name.strip_suffix('s').unwrap_or(name).to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// As the list is said to be paired, one item searched for after the other.
    fn searched<'v>(old: &'v [Value], new: &'v [Value]) -> Vec<(Option<&'v Object>, Option<&'v Object>)> {
        let only_ones = old.len() == 1 && new.len() == 1;
        let mut unpaired: Vec<&Value> = new.iter().collect();
        let mut pairs = Vec::new();
        for before in old {
            let is_same = |after: &&Value| match name_of(before) {
                Some(name) => name_of(after) == Some(name),
                None => only_ones && name_of(after).is_none() || **after == *before,
            };
            let after = unpaired.iter().position(is_same).map(|at| unpaired.remove(at));
            pairs.push((before.as_object(), after.and_then(Value::as_object)));
        }
        pairs.extend(unpaired.into_iter().map(|after| (None, after.as_object())));
        pairs
    }

    #[test]
    fn items_are_paired_by_names_or_else_by_all_that_they_are() {
        let item = |digit: u32| match digit % 6 {
            named @ 0..=2 => json!({ "Name": format!("n{named}"), "Count": digit / 6 }),
            other => json!({ "Count": other }),
        };
        for seed in 0..4_000_u32 {
            let mixed = seed.wrapping_mul(0x9e37_79b9);
            let list = |from: u32, len: u32| {
                (0..len).map(|at| item((mixed >> (from + 3 * at)) & 7)).collect::<Vec<Value>>()
            };
            let (old, new) = (list(0, seed % 5), list(13, seed / 5 % 5));
            assert_eq!(pairs(&old, &new), searched(&old, &new), "{old:?} and {new:?}");
        }
    }

    /// Of as many blocks as a job may have: each with each would be four hundred million.
    #[test]
    fn long_lists_are_compared_in_one_pass() {
        let list = |from: usize| (from..from + 20_000).map(|at| json!({ "RTarget": at })).collect::<Vec<_>>();
        let (old, new) = (list(0), list(20_000));
        assert_eq!(pairs(&old, &new).len(), 40_000);
    }
}
