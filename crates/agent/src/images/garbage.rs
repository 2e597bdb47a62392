//! Images that go: those that no task uses, when they have not been used for long, or when the disk fills.

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use super::digest::Digest;
use super::store::Store;

/// Which images may stay.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ImageLimits {
    /// Of the disk that they are on: when it is fuller, the least recently used go.
    pub disk_percent_max: u8,
    /// Since they were last used.
    pub age_max: Duration,
}

impl Default for ImageLimits {
    fn default() -> Self {
        Self { disk_percent_max: 85, age_max: Duration::from_secs(7 * 24 * 3_600) }
    }
}

/// Removes what may not stay. `allocs` holds the directories of allocations, where whatever runs has links to its
/// layers. Takes its time.
pub(super) fn collect(store: &Store, limits: ImageLimits, allocs: &Path, now: SystemTime) {
    let used = mounted(allocs);
    let mut images = store.all();
    images.sort_by_key(|(_, used_at)| *used_at);
    for (record, used_at) in images {
        let layers = record.layers().unwrap_or_default();
        if layers.iter().any(|layer| used.contains(layer)) || store.is_leased(&layers) {
            continue;
        }
        let is_old = now.duration_since(used_at).is_ok_and(|age| age > limits.age_max);
        if !is_old && !is_full(store, limits.disk_percent_max) {
            continue;
        }
        tracing::info!(image = record.name, is_old, "removing an image that nothing uses");
        if let Err(failure) = store.forget(&record.name) {
            tracing::warn!(%failure, "could not remove an image");
        }
        store.sweep(&used);
    }
    store.sweep(&used);
}

fn is_full(store: &Store, percent_max: u8) -> bool {
    let percent_max = u64::from(percent_max);
    store.room().is_some_and(|(all, free)| (all - free.min(all)) / 100 * 100 > all / 100 * percent_max)
}

/// The layers that containers are made of, whether or not this agent started them.
pub(super) fn mounted(allocs: &Path) -> HashSet<Digest> {
    mounted_by(allocs).flat_map(|(_, layers)| layers).collect()
}

/// The same for each container, with the name of its allocation's directory.
pub(super) fn mounted_by(allocs: &Path) -> impl Iterator<Item = (String, HashSet<Digest>)> {
    let children = |dir: &Path| dir.read_dir().into_iter().flatten().flatten().map(|entry| entry.path());
    let digest = |link: PathBuf| {
        let name = link.read_link().ok()?.file_name()?.to_str()?.to_owned();
        format!("sha256:{name}").parse().ok()
    };
    children(allocs).flat_map(move |alloc| {
        let name = alloc.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let of = move |keeper: PathBuf| {
            (name.clone(), children(&keeper.join("bundle/l")).filter_map(digest).collect())
        };
        children(&alloc.join("keepers")).map(of)
    })
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::images::store::ImageRecord;

    #[test]
    fn the_old_go_and_what_runs_stays() {
        let dir = tempfile::tempdir().expect("a directory");
        let (store, allocs) =
            (Store::open(&dir.path().join("images")).expect("open"), dir.path().join("allocs"));
        let make = |name: &str| {
            let digest = Digest::of(name.as_bytes());
            store.keep(store.begin(digest).expect("begun"), &[]).expect("kept");
            let layers = vec![digest.bytes().to_vec()];
            store
                .write(&ImageRecord { name: name.into(), layers, ..ImageRecord::default() })
                .expect("written");
            digest
        };
        let [runs, leased, idle] = ["runs", "leased", "idle"].map(make);
        let nameless = Digest::of(b"nameless");
        store.keep(store.begin(nameless).expect("begun"), &[]).expect("kept");
        let links = allocs.join("a/keepers/t/bundle/l");
        fs::create_dir_all(&links).expect("made");
        std::os::unix::fs::symlink(store.layer(runs), links.join("0")).expect("linked");
        let _lease = store.lease(&[leased]);
        let limits = ImageLimits { disk_percent_max: 100, age_max: Duration::from_secs(60) };
        let now = SystemTime::now();
        collect(&store, limits, &allocs, now);
        assert!(!store.has(nameless) && [runs, leased, idle].iter().all(|layer| store.has(*layer)));
        collect(&store, limits, &allocs, now + Duration::from_secs(120));
        assert!(!store.has(idle) && store.has(runs) && store.has(leased));
        assert!(store.find("idle").is_none() && store.find("runs").is_some());
        let full = ImageLimits { disk_percent_max: 0, ..limits };
        fs::remove_file(links.join("0")).expect("removed");
        collect(&store, full, &allocs, now);
        assert_eq!(store.layers().collect::<Vec<_>>(), [leased]);
    }
}
