//! `raw_exec`: a command with the agent's own rights and no isolation.

use serde::Deserialize;

use super::settings::{parse, setup};
use super::{Driver, Launch, TaskContext};
use crate::keeper::plan::{ProcessRun, Run};
use crate::lifecycle::StartFailure;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Settings {
    command: String,
    #[serde(default)]
    args: Vec<String>,
    /// Relative to the task's directory.
    #[serde(default)]
    work_dir: String,
}

#[derive(Debug)]
pub(super) struct RawExec;

impl Driver for RawExec {
    fn name(&self) -> &'static str {
        "raw_exec"
    }

    fn launch(&self, task: &TaskContext<'_>) -> Result<Launch, StartFailure> {
        let settings: Settings = parse(self.name(), &task.config_json)?;
        if settings.command.is_empty() {
            return Err(setup("read the settings of raw_exec: command is empty"));
        }
        let dir = task.place.task_dir(&task.spec.name).join(&settings.work_dir);
        Ok(Launch::Kept(Run::Process(ProcessRun {
            program: settings.command,
            args: settings.args,
            env: task.env.clone().into_iter().collect(),
            dir: dir.to_string_lossy().into_owned(),
            user: task.user.clone(),
            cores: task.given.cores.clone(),
            ..ProcessRun::default()
        })))
    }
}
