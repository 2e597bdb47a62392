//! The templates of a task: loads them, replaces names, renders and writes. All of it may take long, and belongs on threads where
//! blocking does no harm.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};

use berth_api::agent::{TEMPLATE_VARIABLES_MAX, TemplateSpec};
use berth_template::{Delimiters, ParsedTemplate, Query, RenderOptions, Rendered, limits};

use sha2::{Digest, Sha256};

use super::data::{RenderSource, TemplateData};
use super::env_file;
use super::file_path::{FileAccess, FilePath};
use crate::drivers::settings::setup;
use crate::lifecycle::{RunSpec, StartFailure, StartFailureKind, TaskRef};
use crate::paths::AllocPaths;
use crate::secrets::{NO_SECRETS, Secrets};
use crate::shell::runner::Context;
use crate::shell::secrets::refuse_on_disk;

/// All of a task's.
pub(super) struct Templates {
    /// The task's environment, without what templates give it.
    env: BTreeMap<String, String>,
    paths: AllocPaths,
    task: String,
    pub(super) all: Vec<LoadedTemplate>,
}

/// A template that was read.
pub(super) struct LoadedTemplate {
    template: ParsedTemplate,
    options: RenderOptions,
    to: FilePath,
    access: FileAccess,
    pub(super) spec: TemplateSpec,
    /// The words of the command of a change.
    pub(super) script: Vec<String>,
}

/// Stands for a text that may be secret, and long.
pub(super) type TextDigest = [u8; 32];

/// The digests of some texts.
pub(super) fn digests(texts: &BTreeMap<usize, String>) -> BTreeMap<usize, TextDigest> {
    texts.iter().map(|(number, text)| (*number, digest(text))).collect()
}

pub(super) fn digest(text: &str) -> TextDigest {
    Sha256::digest(text).into()
}

/// What all of a task's templates come to, or some of them.
#[derive(Debug, Default)]
pub(super) struct AllRendered {
    /// By their numbers. What is not there lacks something, has failed, or was not rendered.
    pub(super) texts: BTreeMap<usize, String>,
    pub(super) failed: BTreeMap<usize, StartFailure>,
    pub(super) requested: BTreeSet<Query>,
    /// The part of `requested` that templates asked for that are rendered at starts only.
    pub(super) requested_once: BTreeSet<Query>,
    /// The part that all other templates asked for.
    pub(super) followed: BTreeSet<Query>,
    pub(super) missing: BTreeSet<Query>,
}

impl Templates {
    /// Reads the templates of a task.
    pub(super) fn load(
        context: &Context,
        run: &RunSpec,
        of: TaskRef,
        paths: &AllocPaths,
        secrets: &Secrets,
    ) -> Result<Self, StartFailure> {
        let spec = &run.group.tasks[usize::from(of.task)];
        let equipment = context.equipment();
        let host = equipment.host(&context.node_id).with(secrets);
        let (root_fs, env) = host.surroundings(run, of, paths)?;
        let data = host.with(&NO_SECRETS);
        let load = |spec: &TemplateSpec, task: &str| {
            let mut texts = vec![spec.source.as_str(), spec.destination.as_str()];
            let script = spec.script.as_ref();
            texts.extend(script.iter().map(|script| script.command.as_str()));
            texts.extend(script.iter().flat_map(|script| &script.args).map(String::as_str));
            let mut texts = data.replace(run, of.task, paths, &texts)?.into_iter();
            let (source, destination) = (texts.next().unwrap_or_default(), texts.next().unwrap_or_default());
            let find = |path: &str| FilePath::find(path, root_fs, paths, task);
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
            Ok::<_, StartFailure>(LoadedTemplate {
                template,
                options: RenderOptions { error_on_missing_key: spec.error_on_missing_key },
                to,
                access: FileAccess { mode: spec.perms, uid: spec.uid, gid: spec.gid },
                // What is kept for as long as the task runs needs no second copy of the text.
                spec: TemplateSpec { data: String::new(), source, destination, ..spec.clone() },
                script: texts.collect(),
            })
        };
        let all =
            spec.templates.iter().map(|template| load(template, &spec.name)).collect::<Result<_, _>>()?;
        Ok(Self { env, paths: paths.clone(), task: spec.name.clone(), all })
    }

    /// Renders some of them by what is known; one that fails leaves the others as they are.
    pub(super) fn render(
        &self,
        which: impl Fn(&TemplateSpec) -> bool,
        data: &TemplateData,
        now_ns: u64,
    ) -> Result<AllRendered, StartFailure> {
        let mut rendered = AllRendered::default();
        for (number, loaded) in self.all.iter().enumerate().filter(|(_, loaded)| which(&loaded.spec)) {
            let now_s = now_ns / 1_000_000_000;
            let source = RenderSource { env: &self.env, now_s, data, requested: RefCell::default() };
            match loaded.template.render(&source, loaded.options) {
                Ok(Rendered { text, missing, .. }) => {
                    if missing.is_empty() {
                        rendered.texts.insert(number, text);
                    }
                    rendered.missing.extend(missing);
                }
                Err(error) => {
                    rendered.failed.insert(number, recoverable(&loaded.spec.destination, &error));
                }
            }
            let requested = source.requested.into_inner();
            rendered.requested.extend(requested.iter().cloned());
            let of_kind =
                if loaded.spec.once { &mut rendered.requested_once } else { &mut rendered.followed };
            of_kind.extend(requested);
        }
        if rendered.requested.len() > TEMPLATE_VARIABLES_MAX {
            return Err(setup(format!(
                "render the task's templates: they ask for {} variables and lists; those of one task may ask for \
                 {TEMPLATE_VARIABLES_MAX}",
                rendered.requested.len()
            )));
        }
        Ok(rendered)
    }

    /// Writes what one of them came to.
    pub(super) fn write(&self, number: usize, text: &str) -> Result<(), StartFailure> {
        let loaded = &self.all[number];
        if loaded.to.is_secret() {
            let doing = || format!("render the template for {:?}", loaded.spec.destination);
            refuse_on_disk(&self.paths, &self.task, doing)?;
        }
        Ok(loaded.to.write(text, loaded.access)?)
    }

    /// The files in the task's directory of secrets, relative to that, but for those that the job gives to somebody.
    pub(super) fn secret_files(&self) -> Vec<String> {
        let of_task = self.all.iter().filter(|loaded| loaded.access.uid.or(loaded.access.gid).is_none());
        let files = of_task.filter_map(|loaded| loaded.to.below_secrets());
        files.map(|file| file.to_string_lossy().into_owned()).collect()
    }

    /// What the files hold that are there.
    pub(super) fn written(&self) -> BTreeMap<usize, String> {
        let read = |(number, loaded): (usize, &LoadedTemplate)| {
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

#[cfg(test)]
mod tests {
    use std::fs;

    use berth_api::agent::AllocId;
    use berth_template::Metadata;
    use berth_template::{Lookup, Variable};

    use super::*;
    use crate::drivers::RootFs;

    /// Templates of a task on the host, by their destinations and texts.
    fn templates(data: &std::path::Path, all: &[(&str, &str, bool)]) -> Templates {
        let paths = AllocPaths::new(data, AllocId([1; 16]));
        for dir in ["local", "secrets"] {
            fs::create_dir_all(paths.task_dir("t").join(dir)).expect("made");
        }
        let loaded = |(destination, text, once): &(&str, &str, bool)| LoadedTemplate {
            template: ParsedTemplate::parse(text, &Delimiters::default()).expect("a template"),
            options: RenderOptions { error_on_missing_key: false },
            to: FilePath::find(destination, RootFs::Host, &paths, "t").expect("a path"),
            access: FileAccess { mode: 0o644, uid: None, gid: None },
            spec: TemplateSpec { destination: (*destination).into(), once: *once, ..TemplateSpec::default() },
            script: Vec::new(),
        };
        let all = all.iter().map(loaded).collect();
        Templates { env: BTreeMap::new(), paths, task: "t".into(), all }
    }

    fn query(path: &str) -> Query {
        Query::Variable { namespace: None, path: path.into() }
    }

    fn template_data(path: &str, item: &str, value: &str) -> TemplateData {
        let items = [(item.to_owned(), value.to_owned())].into();
        let found = Lookup::Variable(Variable { metadata: Metadata::default(), items });
        TemplateData { found: [(query(path), found)].into(), ..TemplateData::default() }
    }

    #[test]
    fn one_that_fails_leaves_the_others_and_is_still_followed() {
        let data = tempfile::tempdir().expect("a directory");
        let number = "{{ with nomadVar \"a\" }}{{ .n | parseInt }}{{ end }}";
        let templates = templates(
            data.path(),
            &[
                ("local/number", number, false),
                ("local/text", "{{ with nomadVar \"a\" }}{{ .n }}{{ end }}", false),
                ("local/once", "{{ with nomadVar \"once\" }}{{ end }}", true),
            ],
        );
        let rendered = templates.render(|_| true, &template_data("a", "n", "word"), 0).expect("rendered");
        assert_eq!(rendered.texts, [(1, "word".to_owned())].into());
        assert!(rendered.failed[&0].message.contains("local/number"), "{:?}", rendered.failed);
        assert_eq!(rendered.missing, [query("once")].into());
        assert_eq!(
            (rendered.followed, rendered.requested_once),
            ([query("a")].into(), [query("once")].into())
        );
        let failing =
            templates.render(|spec| spec.destination == "local/number", &template_data("a", "n", "x"), 0);
        assert_eq!(failing.expect("rendered").requested, [query("a")].into(), "other data may mend it");
    }

    #[test]
    fn what_is_secret_is_written_to_no_disk() {
        let data = tempfile::tempdir().expect("a directory");
        let templates =
            templates(data.path(), &[("secrets/file", "x", false), ("local/secrets/file", "x", false)]);
        let refused = templates.write(0, "x").expect_err("nothing is mounted there");
        assert!(refused.message.contains("not to be on a disk"), "{refused:?}");
        assert!(!templates.paths.task_dir("t").join("secrets/file").exists());
        templates.write(1, "x").expect("written");
        assert_eq!(templates.secret_files(), ["file"]);
    }
}
