//! When a periodic or parameterized job runs next: registering one runs nothing, and no event announces the next launch.

use serde_json::Value;

use crate::output::clean;

/// What to do or to wait for, one line each; none for a job that runs by itself. `next` is when a periodic job runs next, as
/// text, where that is known.
pub fn next_launch_lines(job: &Value, next: Option<&str>) -> Vec<String> {
    let id = clean(job["ID"].as_str().unwrap_or_default());
    let (periodic, parameterized) = (&job["Periodic"], &job["ParameterizedJob"]);
    // What was dispatched has the parameters of the job that it was made of.
    if job["Stop"] == true || job["Dispatched"] == true {
        return Vec::new();
    }
    if parameterized.is_object() {
        return vec![format!("it runs when it is dispatched: {}", dispatch(&id, parameterized))];
    }
    if !periodic.is_object() {
        return Vec::new();
    }
    let when = match next.filter(|_| periodic["Enabled"] != false) {
        Some(next) => format!("it runs next at {next}"),
        None if periodic["Enabled"] == false => "its schedule is not enabled".to_owned(),
        None => "its schedule has no further time".to_owned(),
    };
    vec![when, format!("to run it now: berth job periodic force {id}")]
}

/// The command that dispatches a job, with what it cannot do without.
fn dispatch(id: &str, parameterized: &Value) -> String {
    let required = parameterized["MetaRequired"].as_array().into_iter().flatten().filter_map(Value::as_str);
    let meta: String = required.map(|key| format!(" -meta {}=VALUE", clean(key))).collect();
    let payload = if parameterized["Payload"] == "required" { " PAYLOAD" } else { "" };
    format!("berth job dispatch{meta} {id}{payload}")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_job_that_makes_others_says_when_or_how() {
        let summary_of = |job: Value| next_launch_lines(&job, Some("2026-11-26T05:00:00Z")).join("\n");
        assert_eq!(summary_of(json!({"ID": "web"})), "");
        let hourly = json!({"ID": "hourly", "Periodic": {"Enabled": true}});
        assert_eq!(
            summary_of(hourly.clone()),
            "it runs next at 2026-11-26T05:00:00Z\nto run it now: berth job periodic force hourly"
        );
        assert!(next_launch_lines(&hourly, None)[0].contains("no further time"));
        let paused = summary_of(json!({"ID": "hourly", "Periodic": {"Enabled": false}}));
        assert!(paused.starts_with("its schedule is not enabled\n"), "{paused}");
        assert_eq!(summary_of(json!({"ID": "hourly", "Stop": true, "Periodic": {"Enabled": true}})), "");
        let parameters = json!({"Payload": "required", "MetaRequired": ["from", "to"]});
        assert_eq!(
            summary_of(json!({"ID": "send", "ParameterizedJob": parameters})),
            "it runs when it is dispatched: berth job dispatch -meta from=VALUE -meta to=VALUE send PAYLOAD"
        );
        let sent = json!({"ID": "send/dispatch-1", "Dispatched": true, "ParameterizedJob": {"Payload": ""}});
        assert_eq!(summary_of(sent), "");
        let free = json!({"ID": "send", "ParameterizedJob": {"Payload": "", "MetaRequired": null}});
        assert_eq!(summary_of(free), "it runs when it is dispatched: berth job dispatch send");
    }
}
