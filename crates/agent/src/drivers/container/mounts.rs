//! What a job mounts by a container's settings (`mount`, `mounts`, `volumes`): what lies in directories that the operator
//! allows or in those of its own allocation, and memory. All else is refused by name.
//!
//! Here paths are only compared. Whether one leads elsewhere by a link is for the keeper, which opens what it mounts.

use std::path::{Component, Path, PathBuf};

use serde::Deserialize;
use serde_json::{Value, json};

use super::binds::Binds;
use super::one_or_list;
use crate::drivers::TaskContext;
use crate::drivers::settings::setup;
use crate::keeper::plan::BindSource;
use crate::lifecycle::StartFailure;
use crate::volumes::{AllowedDir, destination};

/// Mounts of one task.
const MOUNTS_MAX: usize = 64;

/// The rights of a directory in memory when the job does not say: anybody may write, and remove what is his.
const TMPFS_MODE: u32 = 0o1777;

/// In bytes, for tasks without a limit of memory.
const TMPFS_BYTES: u64 = 64 << 20;

/// A `mount` block.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default, expecting = "a block")]
pub(super) struct MountBlock {
    #[serde(rename = "type")]
    kind: String,
    target: String,
    source: String,
    readonly: bool,
    #[serde(deserialize_with = "one_or_list::at_most_one")]
    bind_options: Option<BindOptions>,
    #[serde(deserialize_with = "one_or_list::at_most_one")]
    tmpfs_options: Option<TmpfsOptions>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default, expecting = "a block")]
struct BindOptions {
    propagation: String,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default, expecting = "a block")]
struct TmpfsOptions {
    /// The size limit of the tmpfs, in bytes.
    size: Option<u64>,
    mode: Option<u32>,
}

/// What a container is given besides its own files.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Mounts {
    /// As the runtime is given it.
    pub(super) entries: Vec<Value>,
    /// The host's files and directories that the mounts bind.
    pub(super) binds: Binds,
}

/// Whose mounts are collected.
pub(super) struct Collector<'a> {
    task: &'a TaskContext<'a>,
    /// What the operator allows.
    allowed: &'a [AllowedDir],
    mounts: Mounts,
}

impl<'a> Collector<'a> {
    pub(super) fn new(task: &'a TaskContext<'a>, allowed: &'a [AllowedDir]) -> Self {
        Self { task, allowed, mounts: Mounts::default() }
    }

    /// All that the settings name.
    pub(super) fn collect(
        mut self,
        blocks: impl Iterator<Item = &'a MountBlock>,
        volumes: &[String],
    ) -> Result<Mounts, StartFailure> {
        for block in blocks {
            self.block(block).map_err(|why| refused(&format!("{:?}", block.target), &why))?;
        }
        for volume in volumes {
            self.volume(volume).map_err(|why| refused(&format!("the volume {volume:?}"), &why))?;
        }
        Ok(self.mounts)
    }

    fn block(&mut self, block: &MountBlock) -> Result<(), String> {
        match block.kind.as_str() {
            "bind" if block.tmpfs_options.is_some() => Err("tmpfs_options are of the type \"tmpfs\"".into()),
            "bind" => {
                let propagation = block.bind_options.as_ref().map_or("", |options| &options.propagation);
                if !matches!(propagation, "" | "private" | "rprivate") {
                    return Err(format!("propagation {propagation:?} is not implemented: leave it out"));
                }
                self.bind(&block.source, &block.target, block.readonly, false)
            }
            "tmpfs" if block.bind_options.is_some() => Err("bind_options are of the type \"bind\"".into()),
            "tmpfs" if !block.source.is_empty() => Err("memory has no source: leave `source` out".into()),
            "tmpfs" => self.tmpfs(block),
            "volume" => Err("named volumes are not implemented: the group's `volume` and the task's \
                             `volume_mount` mount those of the node"
                .into()),
            other => Err(format!("type {other:?} is none of \"bind\" and \"tmpfs\"")),
        }
    }

    /// As `SOURCE:DESTINATION` or `SOURCE:DESTINATION:ro`.
    fn volume(&mut self, text: &str) -> Result<(), String> {
        let parts: Vec<&str> = text.split(':').collect();
        let (source, target, read_only) = match parts[..] {
            [source, target] | [source, target, "rw"] => (source, target, false),
            [source, target, "ro"] => (source, target, true),
            [_, _, mode] => return Err(format!("its mode {mode:?} is none of \"ro\" and \"rw\"")),
            _ => return Err("it is not SOURCE:DESTINATION, perhaps with :ro after it".into()),
        };
        self.bind(source, target, read_only, true)
    }

    /// `make`: a directory of the allocation that is not there yet is made.
    fn bind(&mut self, source: &str, target: &str, read_only: bool, make: bool) -> Result<(), String> {
        let destination = self.free(target)?;
        let source = self.source(source, read_only, make)?;
        self.mounts.entries.push(self.mounts.binds.add(source, &destination, read_only));
        Ok(())
    }

    /// Its memory counts as the task's.
    fn tmpfs(&mut self, block: &MountBlock) -> Result<(), String> {
        let destination = self.free(&block.target)?;
        let options = block.tmpfs_options.as_ref();
        let size = match options.and_then(|options| options.size) {
            Some(0) => {
                return Err("size 0 would leave it without a limit: say how many bytes it may have".into());
            }
            Some(size) => size,
            None => match self.task.spec.memory_mb.max(self.task.spec.memory_max_mb) {
                0 => TMPFS_BYTES,
                memory_mb => u64::from(memory_mb) << 20,
            },
        };
        let mode = options.and_then(|options| options.mode).unwrap_or(TMPFS_MODE);
        if mode > 0o7777 {
            return Err(format!(
                "mode {mode} is more than {} (0o7777): it is written as a decimal number",
                0o7777
            ));
        }
        let access = if block.readonly { "ro" } else { "rw" };
        self.mounts.entries.push(json!({
            "type": "tmpfs", "source": "tmpfs", "destination": destination,
            "options": ["nosuid", "nodev", "noexec", access, format!("mode={mode:o}"), format!("size={size}")],
        }));
        Ok(())
    }

    /// Where it is seen in the container, if nothing else is there.
    fn free(&self, target: &str) -> Result<String, String> {
        if target.is_empty() {
            return Err("it has no target".into());
        }
        if self.mounts.entries.len() >= MOUNTS_MAX {
            return Err(format!("a task has at most {MOUNTS_MAX} mounts"));
        }
        let destination = destination(target)?;
        let of_volumes = self.task.share.mounts.iter().map(|mount| mount.destination.as_str());
        let own = self.mounts.entries.iter().filter_map(|mount| mount["destination"].as_str());
        if of_volumes.chain(own).any(|other| other == destination) {
            return Err(format!("something else is mounted at {destination}"));
        }
        Ok(destination)
    }

    fn source(&self, source: &str, read_only: bool, make: bool) -> Result<BindSource, String> {
        if !source.starts_with('/') {
            return self.of_allocation(source, make);
        }
        let path = plain(Path::new(source))?;
        let holds = |dir: &&AllowedDir| path.starts_with(&dir.path);
        let nearest = self.allowed.iter().filter(holds).max_by_key(|dir| dir.path.components().count());
        let dir = nearest.ok_or_else(|| {
            format!(
                "this node lets no task mount {source:?}: start its agent with --mount-dirs and a directory that \
                 holds it, or use a `volume` of the group"
            )
        })?;
        if dir.read_only && !read_only {
            let dir = dir.path.display();
            return Err(format!(
                "{dir} is read-only on this node: say `readonly = true`, or `:ro` in `volumes`"
            ));
        }
        let rest = path.strip_prefix(&dir.path).unwrap_or(Path::new(""));
        Ok(BindSource { root: text(&dir.real), path: text(rest), pinned: true, ..BindSource::default() })
    }

    /// A mount of a directory that tasks may write to; none of them can replace the top directories.
    fn of_allocation(&self, source: &str, make: bool) -> Result<BindSource, String> {
        let own = self.task.paths.task_dir(&self.task.spec.name);
        let relative =
            source.strip_prefix("../alloc").map_or(source.to_owned(), |rest| format!("alloc{rest}"));
        let path = plain(Path::new(&relative))?;
        let first = path.iter().next().and_then(|name| name.to_str()).unwrap_or("");
        let root = match first {
            "alloc" => self.task.paths.shared_dir(),
            "local" | "tmp" => own.join(first),
            "secrets" => return Err("a task's secrets are mounted at /secrets alone".into()),
            _ => {
                return Err(format!(
                    "the source {source:?} is neither absolute nor does it begin with local/, tmp/ or alloc/, the \
                     directories of the task"
                ));
            }
        };
        let rest = path.strip_prefix(first).unwrap_or(Path::new(""));
        Ok(BindSource { root: text(&root), path: text(rest), make, ..BindSource::default() })
    }
}

fn refused(what: &str, why: &str) -> StartFailure {
    setup(format!("read the container's settings: mount {what}: {why}"))
}

fn text(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}

/// Without what says nothing; one with `..` is refused.
fn plain(path: &Path) -> Result<PathBuf, String> {
    if path.components().any(|part| part == Component::ParentDir) {
        return Err(format!("its source {path:?} has `..` in it"));
    }
    Ok(path.components().filter(|part| *part != Component::CurDir).collect())
}

#[cfg(test)]
mod tests {

    use berth_api::agent::{RunAlloc, TaskSpec};

    use super::*;
    use crate::drivers::example::with_task;

    #[derive(Deserialize, Default)]
    #[serde(default)]
    struct MountSettings {
        #[serde(deserialize_with = "one_or_list::many")]
        mount: Vec<MountBlock>,
        volumes: Vec<String>,
    }

    fn check(config: Value) -> Result<Mounts, String> {
        let spec = TaskSpec { name: "t".into(), memory_mb: 32, ..TaskSpec::default() };
        let dir = |path: &str, real: &str, read_only| AllowedDir {
            path: path.into(),
            real: real.into(),
            read_only,
        };
        let allowed =
            [dir("/srv", "/disk", false), dir("/srv/ro", "/srv/ro", true), dir("/etc/ssl", "/etc/ssl", true)];
        let config: MountSettings = serde_json::from_value(config).map_err(|error| error.to_string())?;
        with_task(&spec, RunAlloc::default(), |task| {
            let collected = Collector::new(&task, &allowed).collect(config.mount.iter(), &config.volumes);
            collected.map_err(|failure| failure.message)
        })
    }

    /// Where the keeper looks for what a volume names.
    fn found(volume: &str) -> (String, String, bool) {
        let mounts = check(json!({"volumes": [volume]})).expect("mounted");
        let source = mounts.binds.into_sources().remove(0);
        let root = source.root.rsplit_once("/01010101-0101-0101-0101-010101010101/");
        (root.map_or(source.root.clone(), |(_, root)| root.to_owned()), source.path, source.make)
    }

    #[test]
    fn what_is_allowed_is_found_beneath_its_directory() {
        let expected = |root: &str, path: &str, make| (root.to_owned(), path.to_owned(), make);
        assert_eq!(found("/srv/./www//a:/www"), expected("/disk", "www/a", false));
        assert_eq!(found("/srv:/www"), expected("/disk", "", false));
        assert_eq!(found("/srv/ro/a:/www:ro"), expected("/srv/ro", "a", false));
        assert_eq!(found("local/data:/data"), expected("tasks/t/local", "data", true));
        assert_eq!(found("./tmp:/data"), expected("tasks/t/tmp", "", true));
        assert_eq!(found("../alloc/data/x:/data"), expected("alloc", "data/x", true));
    }

    #[test]
    fn mounts_of_a_job_become_mounts_of_the_runtime() {
        let config = json!({
            "mount": [
                {"type": "bind", "source": "/srv/a", "target": "/a", "readonly": true,
                 "bind_options": [{"propagation": "rprivate"}]},
                {"type": "tmpfs", "target": "cache", "tmpfs_options": {"size": 4096, "mode": 448}},
                {"type": "tmpfs", "target": "/run", "readonly": true},
            ],
            "volumes": ["local/b:/b"],
        });
        let entries = check(config).expect("mounted").entries;
        let listed = entries.iter().map(|mount| {
            let options = mount["options"].as_array().expect("options").iter();
            let options: Vec<_> = options.filter_map(Value::as_str).collect();
            format!("{} {} {}", mount["source"].as_str().unwrap(), mount["destination"], options.join(","))
        });
        let expected = [
            "/run/berth/container/binds/0 \"/a\" bind,rprivate,nosuid,nodev,ro".to_owned(),
            "tmpfs \"/cache\" nosuid,nodev,noexec,rw,mode=700,size=4096".to_owned(),
            "tmpfs \"/run\" nosuid,nodev,noexec,ro,mode=1777,size=33554432".to_owned(),
            "/run/berth/container/binds/1 \"/b\" bind,rprivate,nosuid,nodev,rw".to_owned(),
        ];
        assert_eq!(listed.collect::<Vec<_>>(), expected);
    }

    #[test]
    fn what_is_not_allowed_is_refused_by_name() {
        for (volume, why) in [
            ("/etc:/x", "--mount-dirs"),
            ("/srvx:/x", "--mount-dirs"),
            ("/srv/../etc:/x", "has `..` in it"),
            ("/srv/ro/a:/x", "/srv/ro is read-only on this node"),
            ("/srv/a:/x:z", "its mode \"z\""),
            ("/srv/a", "it is not SOURCE:DESTINATION"),
            ("/srv/a:/proc/x", "belongs to the kernel"),
            ("/srv/a:/secrets", "the task's own directory"),
            ("/srv/a:/", "hide the whole task"),
            ("secrets/a:/x", "at /secrets alone"),
            ("data:/x", "neither absolute"),
            ("../allocs:/x", "neither absolute"),
            ("../x:/x", "has `..` in it"),
            ("local/../../x:/x", "has `..` in it"),
        ] {
            let error = check(json!({"volumes": [volume]})).expect_err(volume);
            assert!(error.contains(why) && error.contains(volume), "{error}");
        }
        for (block, why) in [
            (json!({"type": "volume", "target": "/x", "source": "db"}), "`volume_mount`"),
            (json!({"target": "/x"}), "none of \"bind\" and \"tmpfs\""),
            (json!({"type": "tmpfs"}), "it has no target"),
            (json!({"type": "tmpfs", "target": "/x", "source": "/srv"}), "has no source"),
            (json!({"type": "tmpfs", "target": "/x", "tmpfs_options": {"size": 0}}), "size 0"),
            (json!({"type": "tmpfs", "target": "/x", "tmpfs_options": {"mode": 4096}}), "mode 4096"),
            (
                json!({"type": "bind", "source": "/srv", "target": "/x", "bind_options": {"propagation": "shared"}}),
                "\"shared\" is not implemented",
            ),
        ] {
            let error = check(json!({"mount": block})).expect_err(why);
            assert!(error.contains(why), "{error}");
        }
        let twice = check(json!({"volumes": ["/srv/a:/x", "/srv/b:/x/"]})).expect_err("twice");
        assert!(twice.contains("something else is mounted at /x"), "{twice}");
        let many: Vec<String> = (0..=MOUNTS_MAX).map(|number| format!("/srv:/x{number}")).collect();
        assert!(check(json!({"volumes": many})).expect_err("many").contains("at most 64"));
    }
}
