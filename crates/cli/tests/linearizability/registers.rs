//! The registers that clients read and write: a job, or a variable, that holds one number.

use berth_api::http::{ApiError, Client, Target};
use serde_json::{Value, json};

use crate::e2e::linear::Register;

/// Where the number stands.
pub enum Place {
    /// In the meta of a job.
    Job(String),
    /// In an item of a variable.
    Variable(String),
}

/// What was read last, 0 where nothing was ever written, and where that was last changed.
#[derive(Debug, Clone, Copy, Default)]
pub struct Seen {
    value: u64,
    index: u64,
}

/// How an operation ended.
pub enum End {
    Done(Register),
    /// Nothing was done, or only read.
    Nothing,
    /// It may have been done, or be done later.
    Unknown(Register),
}

impl Place {
    /// Jobs and variables in turn.
    pub fn of_round(number: usize) -> Self {
        let name = format!("register-{number}");
        if number.is_multiple_of(2) { Self::Job(name) } else { Self::Variable(name) }
    }

    fn target(&self) -> Target {
        match self {
            Self::Job(name) => Target::new("/v1/job").part(name),
            Self::Variable(name) => Target::new("/v1/var").part(name),
        }
    }

    /// Reads it.
    pub async fn read(&self, client: &Client, seen: &mut Seen) -> End {
        *seen = match client.get::<Value>(&self.target()).await {
            Ok(answer) => self.seen(&answer.value),
            Err(error) if error.status() == Some(404) => Seen::default(),
            Err(_) => return End::Nothing,
        };
        End::Done(Register::Read(seen.value))
    }

    fn seen(&self, answer: &Value) -> Seen {
        let (value, index) = match self {
            Self::Job(_) => (&answer["Meta"]["value"], &answer["JobModifyIndex"]),
            Self::Variable(_) => (&answer["Items"]["value"], &answer["ModifyIndex"]),
        };
        let value = value.as_str().and_then(|value| value.parse().ok()).expect("it was written");
        Seen { value, index: index.as_u64().expect("there is one") }
    }

    /// Writes a value, on condition that what was seen is still there if that is given.
    pub async fn write(&self, client: &Client, value: u64, seen: Option<Seen>) -> End {
        let answer = match self {
            Self::Job(name) => client.put::<Value>(&Target::new("/v1/jobs"), &job(name, value, seen)).await,
            Self::Variable(_) => {
                let target = match seen {
                    Some(seen) => self.target().param("cas", seen.index),
                    None => self.target(),
                };
                client.put::<Value>(&target, &json!({"Items": {"value": value.to_string()}})).await
            }
        };
        let operation = |done| match seen {
            Some(seen) => Register::Cas(seen.value, value, done),
            None => Register::Write(value),
        };
        match answer {
            Ok(_) => End::Done(operation(true)),
            Err(error) if error.status() == Some(409) && seen.is_some() => End::Done(operation(false)),
            // The server says that nothing was written, or was never reached.
            Err(error) if matches!(error.status(), Some(429 | 503)) => End::Nothing,
            Err(ApiError::Unreachable { .. }) => End::Nothing,
            Err(_) => End::Unknown(operation(true)),
        }
    }
}

fn job(name: &str, value: u64, seen: Option<Seen>) -> Value {
    let job = json!({
        "ID": name, "Name": name, "Type": "service", "Meta": {"value": value.to_string()},
        "TaskGroups": [{"Name": "group", "Count": 0, "Tasks": [{"Name": "task", "Driver": "mock_driver"}]}],
    });
    let mut body = json!({ "Job": job });
    if let Some(Seen { index, .. }) = seen {
        body["EnforceIndex"] = true.into();
        body["JobModifyIndex"] = index.into();
    }
    body
}
