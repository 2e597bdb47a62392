//! `berth job dispatch`: runs a parameterized job with values for its parameters.

use std::{
    collections::BTreeMap,
    fs::File,
    io::{self, Read},
    time::Instant,
};

use base64::{Engine, engine::general_purpose::STANDARD};
use berth_api::http::JobDispatch;
use clap::Args;

use super::outcome::{AcceptedChange, DetachArgs};
use crate::{
    complete,
    failure::{Exit, Failure},
    output::{self, clean},
    remote::Remote,
};

/// Largest payload, as Nomad's.
const PAYLOAD_BYTES_MAX: u64 = 16 << 10;

/// Arguments of `job dispatch`.
#[derive(Debug, Args)]
pub struct JobDispatchArgs {
    /// The parameterized job's id
    #[arg(value_name = "JOB", add = complete::jobs())]
    id: String,
    /// File with the payload of the new job; `-` for standard input
    #[arg(value_name = "PAYLOAD")]
    payload: Option<String>,
    /// Value of a parameter; repeatable
    #[arg(long, value_name = "KEY=VALUE", value_parser = pair)]
    meta: Vec<(String, String)>,
    /// Text to put into the new job's id
    #[arg(long, value_name = "TEXT", default_value = "")]
    id_prefix_template: String,
    /// If a job was dispatched with this token before, print its id and dispatch no other
    #[arg(long, value_name = "TOKEN")]
    idempotency_token: Option<String>,
    #[command(flatten)]
    detach: DetachArgs,
}

impl JobDispatchArgs {
    /// Makes the new job, and follows it.
    pub async fn run(&self, remote: &Remote) -> Result<(), Failure> {
        let since = Instant::now();
        let payload = self.payload.as_deref().map(read).transpose()?;
        let id = remote.find_job(&self.id).await?;
        let meta: BTreeMap<_, _> = self.meta.iter().cloned().collect();
        let body = JobDispatch {
            job_id: id.clone(),
            payload: payload.map(|bytes| STANDARD.encode(bytes)),
            meta: Some(meta).filter(|meta| !meta.is_empty()),
            id_prefix_template: self.id_prefix_template.clone(),
        };
        let dispatched = remote.dispatch(&id, &body, self.idempotency_token.as_deref()).await?;
        output::eprint_line(&format!("dispatched: {}", clean(&dispatched.dispatched_job_id)));
        let accepted = AcceptedChange {
            job: &dispatched.dispatched_job_id,
            action: "registered",
            eval: &dispatched.eval_id,
            index: dispatched.job_create_index,
            since,
            ends: true,
        };
        self.detach.or_follow(remote, &accepted).await
    }
}

fn pair(text: &str) -> Result<(String, String), String> {
    let (key, value) = text.split_once('=').ok_or("expected KEY=VALUE")?;
    Ok((key.to_owned(), value.to_owned()))
}

/// One byte more than is allowed is read, and then refused.
fn read(path: &str) -> Result<Vec<u8>, Failure> {
    let mut bytes = Vec::new();
    let mut source: Box<dyn Read> = match path {
        "-" => Box::new(io::stdin()),
        path => Box::new(File::open(path).map_err(|error| {
            let exit = if error.kind() == io::ErrorKind::NotFound { Exit::NotFound } else { Exit::Failed };
            Failure::new(exit, format!("cannot read {path}: {error}"))
        })?),
    };
    source.by_ref().take(PAYLOAD_BYTES_MAX + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > PAYLOAD_BYTES_MAX {
        let message = format!("the payload has more than {PAYLOAD_BYTES_MAX} bytes");
        return Err(Failure::new(Exit::Failed, message).help("pass the address of larger data with -meta"));
    }
    Ok(bytes)
}
