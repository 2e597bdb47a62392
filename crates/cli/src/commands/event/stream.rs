//! `berth event stream`: a line for each event, for people or as JSON.

use berth_api::http::Event;
use clap::{Args, ValueEnum};
use serde_json::Value;

use crate::{
    failure::{Exit, Failure},
    output::{self, Layout, Template, Tone, clean, short_id},
    remote::{EventFilter, Remote},
};

/// Arguments of `event stream`.
#[derive(Debug, Args)]
pub struct EventStreamArgs {
    /// Only this topic, or only the object with this id: TOPIC or TOPIC:ID; repeatable
    #[arg(long, value_name = "TOPIC[:ID]")]
    topic: Vec<String>,
    /// Start at this index, if its events are still available; defaults to new events only
    #[arg(long, value_name = "INDEX")]
    index: Option<u64>,
    /// Output format
    #[arg(long, short, value_enum, value_name = "FORMAT", default_value_t)]
    output: EventFormat,
    /// Format each event with a Jinja template, e.g. `-t '{{ Index }} {{ Type }}'`, or Nomad's
    #[arg(long, short, value_name = "TEMPLATE", conflicts_with = "output")]
    template: Option<String>,
}

/// How an event is printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
enum EventFormat {
    /// A few words.
    #[default]
    Text,
    /// All of it, one JSON object a line.
    Json,
}

impl EventStreamArgs {
    /// Follows until interrupted, or until the server ends the stream.
    pub async fn run(&self, remote: &Remote) -> Result<(), Failure> {
        let template = self.template.as_deref().map(Template::new).transpose()?;
        let filter = EventFilter { topics: self.topic.clone(), from: self.index };
        let mut frames = remote.events(&filter).await?;
        while let Some(frame) = frames.next().await? {
            if !frame.error.is_empty() {
                return Err(Failure::new(Exit::Failed, clean(&frame.error))
                    .help(format!("read the state, then begin again with -index {}", frame.resume_index)));
            }
            for event in frame.events {
                output::print(&self.render(&event, template.as_ref())?)?;
            }
        }
        Err(Failure::new(Exit::Failed, "the server ended the stream"))
    }

    fn render(&self, event: &Event, template: Option<&Template<'_>>) -> Result<String, Failure> {
        let json = || {
            serde_json::to_value(event)
                .map_err(|error| Failure::new(Exit::Failed, format!("cannot write an event: {error}")))
        };
        match (template, self.output) {
            (Some(template), _) => template.render(&json()?),
            (None, EventFormat::Json) => Ok(format!("{}\n", json()?)),
            (None, EventFormat::Text) => Ok(line(event, Layout::stdout(false))),
        }
    }
}

/// An event in a few words: where it stands, what happened to what, and what that is now.
fn line(event: &Event, layout: Layout) -> String {
    let thing = &event.payload[&event.topic];
    let word = |name: &str| thing[name].as_str().unwrap_or_default();
    let [name, reason] = match event.topic.as_str() {
        "Allocation" => ["Name", "ClientDescription"],
        "Evaluation" => ["JobID", "StatusDescription"],
        "Node" => ["Name", "StatusDescription"],
        _ => ["", "StatusDescription"],
    };
    let status = match thing {
        Value::Null => "gone",
        _ if event.topic == "Allocation" => word("ClientStatus"),
        _ => word("Status"),
    };
    let status = layout.palette.paint(&clean(status), Tone::of_status(status));
    let key = if event.topic == "Job" { clean(&event.key).into_owned() } else { short_id(&event.key) };
    let words = [
        event.index.to_string(),
        clean(&event.topic).into(),
        clean(&event.kind).into(),
        key,
        clean(word(name)).into(),
        status,
        clean(word(reason)).into(),
    ];
    let words: Vec<_> = words.into_iter().filter(|word| !word.is_empty()).collect();
    words.join("  ") + "\n"
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};
    use serde_json::json;

    use super::*;

    fn check(topic: &str, key: &str, payload: Value, expected: &Expect) {
        let payload = json!({ topic: payload });
        let event = Event {
            topic: topic.into(),
            kind: "Updated".into(),
            key: key.into(),
            index: 7,
            payload,
            ..Event::default()
        };
        expected.assert_eq(&line(&event, Layout::PLAIN));
    }

    #[test]
    fn an_event_is_one_line() {
        let alloc = json!({ "Name": "web.front[0]", "ClientStatus": "running" });
        check(
            "Allocation",
            "0a1b2c3d-4e5f",
            alloc,
            &expect![[r#"
            7  Allocation  Updated  0a1b2c3d  web.front[0]  running
        "#]],
        );
        check(
            "Job",
            "a-job-with-a-long-id",
            json!({ "Status": "dead" }),
            &expect![[r#"
            7  Job  Updated  a-job-with-a-long-id  dead
        "#]],
        );
        check(
            "Node",
            "0a1b2c3d-4e5f",
            Value::Null,
            &expect![[r#"
            7  Node  Updated  0a1b2c3d  gone
        "#]],
        );
    }
}
