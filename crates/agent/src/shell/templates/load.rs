//! The templates of a task, read and with their names replaced; rendering and writing them. All of it takes its time: it belongs to
//! threads where that holds nothing up.

use std::collections::{BTreeMap, BTreeSet};

use berth_api::agent::{TEMPLATE_VARIABLES_MAX, TemplateSpec};
use berth_template::{Delimiters, ParsedTemplate, Query, RenderOptions, Rendered, limits};

use sha2::{Digest, Sha256};

use super::data::{Shown, World};
use super::env_file;
use super::place::{Access, FilePath};
use crate::drivers::settings::setup;
use crate::lifecycle::{RunSpec, StartFailure, StartFailureKind, TaskRef};
use crate::paths::AllocPaths;
use crate::secrets::{NO_SECRETS, Secrets};
use crate::shell::runner::Context;

/// All of a task's.
pub(super) struct Templates {
    /// The task's environment, without what templates give it.
    env: BTreeMap<String, String>,
    pub(super) all: Vec<Loaded>,
}

/// A template that was read.
pub(super) struct Loaded {
    template: ParsedTemplate,
    options: RenderOptions,
    to: FilePath,
    access: Access,
    pub(super) spec: TemplateSpec,
    /// The words of the command of a change.
    pub(super) script: Vec<String>,
}

/// Stands for a text that may be secret, and long.
pub(super) type TextDigest = [u8; 32];

/// Those of some texts.
pub(super) fn digests(texts: &BTreeMap<usize, String>) -> BTreeMap<usize, TextDigest> {
    texts.iter().map(|(number, text)| (*number, digest(text))).collect()
}

pub(super) fn digest(text: &str) -> TextDigest {
    Sha256::digest(text).into()
}

/// What all of a task's templates come to, or some of them.
#[derive(Debug, Default)]
pub(super) struct AllRendered {
    /// By their numbers. What is not there lacks something, or was not rendered.
    pub(super) texts: BTreeMap<usize, String>,
    pub(super) asked: BTreeSet<Query>,
    pub(super) missing: BTreeSet<Query>,
}

impl Templates {
    /// Reads the templates of a task.
    pub(super) fn load(
        context: &Context,
        run: &RunSpec,
        of: TaskRef,
        place: &AllocPaths,
        secrets: &Secrets,
    ) -> Result<Self, StartFailure> {
        let spec = &run.group.tasks[usize::from(of.task)];
        let equipment = context.equipment();
        let host = equipment.host(&context.node_id).with(secrets);
        let (base, env) = host.surroundings(run, of, place)?;
        let shown = host.with(&NO_SECRETS);
        let load = |spec: &TemplateSpec, task: &str| {
            let mut texts = vec![spec.source.as_str(), spec.destination.as_str()];
            let script = spec.script.as_ref();
            texts.extend(script.iter().map(|script| script.command.as_str()));
            texts.extend(script.iter().flat_map(|script| &script.args).map(String::as_str));
            let mut texts = shown.replace(run, of.task, place, &texts)?.into_iter();
            let (source, destination) = (texts.next().unwrap_or_default(), texts.next().unwrap_or_default());
            let find = |path: &str| FilePath::find(path, base, place, task);
            let wrong = |why| setup(format!("render the template for {destination:?}: {why}"));
            let to = find(&destination).map_err(wrong)?;
            let text = if source.is_empty() {
                spec.data.clone()
            } else {
                let from = find(&source).map_err(wrong)?;
                // It may be there at the next try.
                from.read(limits::TEXT_BYTES_MAX).map_err(|failure| recoverable(&destination, &failure))?
            };
            let delimiters =
                Delimiters { left: spec.left_delimiter.clone(), right: spec.right_delimiter.clone() };
            let template =
                ParsedTemplate::parse(&text, &delimiters).map_err(|error| wrong(error.to_string()))?;
            Ok::<_, StartFailure>(Loaded {
                template,
                options: RenderOptions { error_on_missing_key: spec.error_on_missing_key },
                to,
                access: Access { mode: spec.perms, uid: spec.uid, gid: spec.gid },
                // What is kept for as long as the task runs needs no second copy of the text.
                spec: TemplateSpec { data: String::new(), source, destination, ..spec.clone() },
                script: texts.collect(),
            })
        };
        let all =
            spec.templates.iter().map(|template| load(template, &spec.name)).collect::<Result<_, _>>()?;
        Ok(Self { env, all })
    }

    /// Renders some of them by what is known.
    pub(super) fn render(
        &self,
        which: impl Fn(&TemplateSpec) -> bool,
        shown: &Shown,
        now_ns: u64,
    ) -> Result<AllRendered, StartFailure> {
        let world = World { env: &self.env, now_s: now_ns / 1_000_000_000, shown };
        let mut rendered = AllRendered::default();
        for (number, loaded) in self.all.iter().enumerate().filter(|(_, loaded)| which(&loaded.spec)) {
            let done = loaded.template.render(&world, loaded.options);
            let Rendered { text, asked, missing } =
                done.map_err(|error| recoverable(&loaded.spec.destination, &error))?;
            rendered.asked.extend(asked);
            if missing.is_empty() {
                rendered.texts.insert(number, text);
            }
            rendered.missing.extend(missing);
        }
        if rendered.asked.len() > TEMPLATE_VARIABLES_MAX {
            return Err(setup(format!(
                "render the task's templates: they ask for {} variables and lists; those of one task may ask for \
                 {TEMPLATE_VARIABLES_MAX}",
                rendered.asked.len()
            )));
        }
        Ok(rendered)
    }

    /// Writes what some of them came to.
    pub(super) fn write(&self, texts: &BTreeMap<usize, String>) -> Result<(), StartFailure> {
        for (number, text) in texts {
            let loaded = &self.all[*number];
            loaded.to.write(text, loaded.access)?;
        }
        Ok(())
    }

    /// What the files hold that are there.
    pub(super) fn written(&self) -> BTreeMap<usize, String> {
        let read = |(number, loaded): (usize, &Loaded)| {
            Some((number, loaded.to.read(limits::OUTPUT_BYTES_MAX).ok()?))
        };
        self.all.iter().enumerate().filter_map(read).collect()
    }

    /// The variables that files give the task.
    pub(super) fn env_of(
        &self,
        texts: &BTreeMap<usize, String>,
    ) -> Result<BTreeMap<String, String>, StartFailure> {
        let mut env = BTreeMap::new();
        for (number, text) in texts.iter().filter(|(number, _)| self.all[**number].spec.env) {
            let destination = &self.all[*number].spec.destination;
            env.extend(env_file::parse(text).map_err(|why| recoverable(destination, &why))?);
        }
        Ok(env)
    }
}

/// Its data may be other at the next try.
fn recoverable(destination: &str, why: &dyn std::fmt::Display) -> StartFailure {
    let message = format!("render the template for {destination:?}: {why}");
    StartFailure { kind: StartFailureKind::Recoverable, message }
}
