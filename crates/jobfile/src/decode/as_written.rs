//! A job as its file gives it, in Nomad's JSON, without what servers fill in: what reading a file alone makes of it there.

use serde_json::{Map, Value as Json, json};

use crate::{json::write::setting, schema::Body};

/// What short forms of comparisons leave out.
const OPERAND_DEFAULT: &str = "=";

/// The job of a block that was read without a mistake.
pub(super) fn job(body: &Body<'_>) -> Json {
    let mut job = as_json(body);
    let id = job.get("ID").cloned().unwrap_or_default();
    job.entry("Name").or_insert(id);
    if let Some(Json::Object(periodic)) = job.get_mut("Periodic") {
        periodic.insert("SpecType".to_owned(), "cron".into());
    }
    let mut groups: Vec<Json> = body.again("task").iter().map(|task| alone_in_group(task, body)).collect();
    for group in body.again("group") {
        let mut object = as_json(&group);
        let tasks = group.again("task").iter().map(|task| self::task(task, &[&group, body])).collect();
        object.insert("Tasks".to_owned(), tasks);
        groups.push(object.into());
    }
    job.insert("TaskGroups".to_owned(), groups.into());
    let mut job = Json::Object(job);
    fill_operands(&mut job);
    job
}

/// The group of a task that stands in the job itself.
fn alone_in_group(task: &Body<'_>, job: &Body<'_>) -> Json {
    json!({ "Name": task.label(), "Tasks": [self::task(task, &[job])] })
}

fn as_json(body: &Body<'_>) -> Map<String, Json> {
    match setting(&body.as_given()) {
        Json::Object(members) => members,
        _ => Map::new(),
    }
}

/// A task, with what it has of the blocks around it, the nearest first.
fn task(body: &Body<'_>, context: &[&Body<'_>]) -> Json {
    let mut task = as_json(body);
    let vault = || context.iter().find_map(|outer| outer.again("vault").first().map(as_json));
    if let Some(vault) = task.get("Vault").and_then(Json::as_object).cloned().or_else(vault) {
        let filled = [("Env", json!(true)), ("DisableFile", json!(false)), ("ChangeMode", json!("restart"))];
        task.insert("Vault".to_owned(), with_defaults(vault, filled).into());
    }
    let outer = context.iter().flat_map(|outer| outer.again("secret"));
    let secrets: Vec<Json> =
        body.again("secret").iter().chain(&outer.collect::<Vec<_>>()).map(|s| as_json(s).into()).collect();
    if !secrets.is_empty() {
        task.insert("Secrets".to_owned(), secrets.into());
    }
    for scaling in task.get_mut("ScalingPolicies").and_then(Json::as_array_mut).into_iter().flatten() {
        let full = match scaling["Type"].as_str() {
            Some("cpu") => "vertical_cpu",
            Some("mem") => "vertical_mem",
            _ => continue,
        };
        scaling["Type"] = full.into();
    }
    move_default_identity(&mut task);
    task.into()
}

fn with_defaults<'d>(
    explicit: Map<String, Json>,
    filled: impl IntoIterator<Item = (&'d str, Json)>,
) -> Map<String, Json> {
    let filled = filled.into_iter().map(|(name, value)| (name.to_owned(), value));
    filled.chain(explicit).collect()
}

/// The identity without a name stands apart.
fn move_default_identity(task: &mut Map<String, Json>) {
    let Some(Json::Array(identities)) = task.get_mut("Identities") else { return };
    let is_default = |identity: &Json| matches!(identity["Name"].as_str(), None | Some("default"));
    if let Some(at) = identities.iter().position(is_default) {
        let own = identities.remove(at);
        task.insert("Identity".to_owned(), own);
    }
}

/// Comparisons without an operator are for equality.
fn fill_operands(json: &mut Json) {
    match json {
        Json::Object(members) => {
            for (name, member) in members {
                // What drivers and others have of their own is none of ours.
                if matches!(name.as_str(), "Constraints" | "Affinities") {
                    for comparison in
                        member.as_array_mut().into_iter().flatten().filter_map(Json::as_object_mut)
                    {
                        comparison.entry("Operand").or_insert(OPERAND_DEFAULT.into());
                    }
                } else if !matches!(name.as_str(), "Config" | "Policy") {
                    fill_operands(member);
                }
            }
        }
        Json::Array(items) => items.iter_mut().for_each(fill_operands),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use crate::{Inputs, parse_hcl_as_given};

    fn as_json(source: &str) -> serde_json::Value {
        parse_hcl_as_given(source, "test", &Inputs::default()).expect("it is a job").0
    }

    #[test]
    fn what_is_not_set_is_absent() {
        let job = as_json("job \"j\" {\n group \"g\" {\n task \"t\" { driver = \"mock\" }\n }\n}");
        let task = json!({ "Name": "t", "Driver": "mock" });
        let groups = json!([{ "Name": "g", "Tasks": [task] }]);
        assert_eq!(job, json!({ "ID": "j", "Name": "j", "TaskGroups": groups }));
    }

    #[test]
    fn what_stands_further_out_is_moved_in() {
        let job = as_json(
            "job \"j\" {\n id = \"other\"\n vault { role = \"r\" }\n constraint {\n attribute = \"${attr.a}\"\n value = \"1\"\n}\n \
             task \"t\" {\n driver = \"mock\"\n identity { env = true }\n scaling \"cpu\" { max = 9 }\n}\n}",
        );
        assert_eq!((&job["ID"], &job["Name"]), (&json!("other"), &json!("other")));
        assert_eq!(job["Constraints"][0]["Operand"], "=");
        let task = &job["TaskGroups"][0]["Tasks"][0];
        assert_eq!(
            task["Vault"],
            json!({ "Role": "r", "Env": true, "DisableFile": false, "ChangeMode": "restart" })
        );
        assert_eq!((&task["Identity"]["Env"], &task["Identities"]), (&json!(true), &json!([])));
        assert_eq!(task["ScalingPolicies"][0]["Type"], "vertical_cpu");
    }

    #[test]
    fn what_is_wrong_is_refused_all_the_same() {
        let source = "job \"j\" {\n group \"g\" {\n task \"t\" { drivr = \"mock\" }\n }\n}";
        let refused = parse_hcl_as_given(source, "test", &Inputs::default()).expect_err("it has a mistake");
        assert!(refused.to_string().contains("drivr"), "{refused}");
    }
}
