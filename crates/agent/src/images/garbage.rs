//! Garbage collection of images: those that no task uses go when they have not been used for long, or when the disk fills.

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use super::digest::Digest;
use super::links;
use super::store::Store;

/// What was used or loaded this recently stays on a disk that is fuller than it should be, as long as it has room for more:
/// a job that follows, or starts again, needs it.
const FRESH: Duration = Duration::from_secs(3_600);

/// Which images may stay.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ImageLimits {
    /// How full the disk of images may be, in percent: beyond that the least recently used go.
    pub disk_percent_max: u8,
    /// Since they were last used.
    pub age_max: Duration,
}

impl Default for ImageLimits {
    fn default() -> Self {
        Self { disk_percent_max: 85, age_max: Duration::from_secs(7 * 24 * 3_600) }
    }
}

/// Removes what may not stay. `allocs` holds the directories of allocations, where whatever lives has links to its
/// layers. Blocks.
pub(super) fn collect(store: &Store, limits: ImageLimits, allocs: &Path, now: SystemTime) {
    let in_use = store.in_use(|| mounted(allocs));
    let mut images = store.all();
    images.sort_by_key(|(_, used_at)| *used_at);
    for (record, used_at) in images {
        if in_use.has_image(&record.layers().unwrap_or_default()) {
            continue;
        }
        let is_older_than = |age_max| now.duration_since(used_at).is_ok_and(|age| age > age_max);
        let is_old = is_older_than(limits.age_max);
        let has_to_go =
            || is_full(store, limits.disk_percent_max) && (is_older_than(FRESH) || !store.has_disk_space());
        if !is_old && !has_to_go() {
            continue;
        }
        // What has come into use meanwhile stays.
        match store.forget_unused(&record, &in_use) {
            Ok(true) => tracing::info!(image = record.name, is_old, "removed an image that nothing uses"),
            Ok(false) => continue,
            Err(failure) => tracing::warn!(%failure, "could not remove an image"),
        }
        store.sweep(&in_use);
    }
    store.sweep(&in_use);
}

fn is_full(store: &Store, percent_max: u8) -> bool {
    let percent_max = u64::from(percent_max);
    store.disk_space().is_some_and(|(all, free)| (all - free.min(all)) / 100 * 100 > all / 100 * percent_max)
}

/// The layers that containers are made of, and those that tasks need to start again, whether or not this agent started them.
pub(super) fn mounted(allocs: &Path) -> HashSet<Digest> {
    mounted_by(allocs).flat_map(|(_, layers)| layers).collect()
}

/// The same for each task, with the name of its allocation's directory.
pub(super) fn mounted_by(allocs: &Path) -> impl Iterator<Item = (String, HashSet<Digest>)> {
    let children = |dir: &Path| dir.read_dir().into_iter().flatten().flatten().map(|entry| entry.path());
    let digest = |link: PathBuf| {
        let name = link.read_link().ok()?.file_name()?.to_str()?.to_owned();
        format!("sha256:{name}").parse().ok()
    };
    children(allocs).flat_map(move |alloc| {
        let name = alloc.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let of = move |keeper: PathBuf| {
            let links = [keeper.join("bundle/l"), links::links_dir(&keeper)];
            let each = links.map(|dir| (name.clone(), children(&dir).filter_map(digest).collect()));
            each.into_iter().filter(|(_, layers): &(String, HashSet<Digest>)| !layers.is_empty())
        };
        children(&alloc.join("keepers")).flat_map(of)
    })
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::images::store::ImageRecord;
    use crate::test_disk::Disk;

    const MIB: u64 = 1 << 20;

    /// Makes an image of one layer of so many MiB; it counts as last used then.
    fn image(store: &Store, name: &str, mib: usize, used_at: SystemTime) -> Digest {
        let digest = Digest::of(name.as_bytes());
        let layer_dir = store.create_layer_dir(digest).expect("begun");
        fs::write(layer_dir.path.join("file"), vec![1; mib * MIB as usize]).expect("written");
        store.commit(layer_dir, &[]).expect("kept");
        let layers = vec![digest.bytes().to_vec()];
        store.write(&ImageRecord { name: name.into(), layers, ..ImageRecord::default() }).expect("written");
        store.used_at(name, used_at);
        digest
    }

    /// On a real disk: it is as full as it is, and what is removed gives its room back.
    #[test]
    fn a_disk_that_fills_loses_the_least_recently_used_and_no_more() {
        let Some(disk) = Disk::of_mib(100) else { return };
        let store = Store::open(&disk.dir.join("images")).expect("open");
        let allocs = disk.dir.join("allocs");
        let now = SystemTime::now();
        // In minutes beyond what is fresh.
        let ago = |minutes: u64| now - FRESH - Duration::from_secs(minutes * 60);
        let week = Duration::from_secs(7 * 24 * 3_600);
        let limits = ImageLimits { disk_percent_max: 70, age_max: week };
        let names = || {
            let mut names: Vec<String> = store.all().into_iter().map(|(record, _)| record.name).collect();
            names.sort();
            names
        };
        // Of 100 MiB these take 48; the file system takes some, and the twentieth that is its administrator's.
        for (name, minutes) in [("a", 40), ("b", 30), ("c", 20), ("d", 10)] {
            image(&store, name, 12, ago(minutes));
        }
        collect(&store, limits, &allocs, now);
        assert_eq!(names(), ["a", "b", "c", "d"], "there is room");
        // Somebody else takes more: two of them have to go, the ones that were used longest ago.
        let other = disk.dir.join("other");
        fs::write(&other, vec![1; 28 * MIB as usize]).expect("written");
        assert!(is_full(&store, limits.disk_percent_max));
        // Which is not the first to be made: it was used again.
        assert!(store.find("a").is_some());
        collect(&store, limits, &allocs, now);
        assert_eq!(names(), ["a", "d"]);
        assert!(!is_full(&store, limits.disk_percent_max) && store.layers().count() == 2);
        store.used_at("a", ago(5));
        // One of which a container is made stays though the disk is full, and so does one whose start is under way.
        let (runs, starts) = (image(&store, "runs", 2, ago(50)), image(&store, "starts", 2, ago(50)));
        let links = allocs.join("a/keepers/t/bundle/l");
        fs::create_dir_all(&links).expect("made");
        std::os::unix::fs::symlink(store.layer(runs), links.join("0")).expect("linked");
        let lease = store.lease(&[starts]);
        let more = disk.dir.join("more");
        fs::write(&more, vec![1; 20 * MIB as usize]).expect("written");
        collect(&store, limits, &allocs, now);
        assert_eq!(names(), ["runs", "starts"]);
        // Once the disk has space again, age alone counts.
        fs::remove_file(more).expect("removed");
        fs::remove_file(other).expect("removed");
        drop(lease);
        image(&store, "new", 12, now);
        collect(&store, limits, &allocs, now + week - FRESH - Duration::from_secs(51 * 60));
        assert_eq!(names(), ["new", "runs", "starts"]);
        collect(&store, limits, &allocs, now + week - Duration::from_secs(1));
        assert_eq!(names(), ["new", "runs"]);
        assert!(fs::metadata(store.layer(runs).join("file")).is_ok());
    }

    /// Whatever else fills the disk, until there is no room at all.
    #[test]
    fn what_was_loaded_just_now_stays_as_long_as_there_is_room() {
        let Some(disk) = Disk::of_mib(100) else { return };
        let store = Store::open(&disk.dir.join("images")).expect("open");
        let (allocs, now) = (disk.dir.join("allocs"), SystemTime::now());
        let limits = ImageLimits { disk_percent_max: 30, age_max: Duration::from_secs(7 * 24 * 3_600) };
        image(&store, "older", 12, now - FRESH - Duration::from_secs(1));
        image(&store, "loaded", 12, now - FRESH + Duration::from_secs(60));
        fs::write(disk.dir.join("other"), vec![1; 40 * MIB as usize]).expect("written");
        collect(&store, limits, &allocs, now);
        assert!(is_full(&store, limits.disk_percent_max) && store.has_disk_space());
        let names: Vec<String> = store.all().into_iter().map(|(record, _)| record.name).collect();
        assert_eq!(names, ["loaded"]);
        let (_, free) = store.disk_space().expect("known");
        fs::write(disk.dir.join("more"), vec![1; free as usize]).expect("written");
        assert!(!store.has_disk_space());
        collect(&store, limits, &allocs, now);
        assert_eq!(store.all(), []);
    }

    #[test]
    fn what_is_reserved_for_root_does_not_count_as_used() {
        let Some(disk) = Disk::of_mib(100) else { return };
        let store = Store::open(&disk.dir.join("images")).expect("open");
        // Its filesystem reserves a twentieth.
        assert!(!is_full(&store, 3));
    }

    #[test]
    fn an_unused_image_goes_though_one_that_runs_has_a_layer_of_it() {
        let dir = tempfile::tempdir().expect("a directory");
        let (store, allocs) =
            (Store::open(&dir.path().join("images")).expect("open"), dir.path().join("allocs"));
        let [base, first, second] = ["base", "first", "second"].map(|name| Digest::of(name.as_bytes()));
        for layer in [base, first, second] {
            store.commit(store.create_layer_dir(layer).expect("begun"), &[]).expect("kept");
        }
        for (name, upper) in [("first", first), ("second", second)] {
            let layers = [base, upper].map(|layer| layer.bytes().to_vec()).to_vec();
            let record = ImageRecord { name: name.into(), layers, ..ImageRecord::default() };
            store.write(&record).expect("written");
        }
        let keeper = allocs.join("a/keepers/t");
        links::hold(&keeper, &[store.layer(first), store.layer(base)]).expect("held");
        let limits = ImageLimits { disk_percent_max: 100, age_max: Duration::from_secs(60) };
        collect(&store, limits, &allocs, SystemTime::now() + Duration::from_secs(120));
        assert!(store.find("second").is_none() && !store.has(second));
        assert!(store.find("first").is_some() && store.has(base));
    }

    #[test]
    fn the_old_go_and_what_runs_stays() {
        let dir = tempfile::tempdir().expect("a directory");
        let (store, allocs) =
            (Store::open(&dir.path().join("images")).expect("open"), dir.path().join("allocs"));
        let make = |name: &str| {
            let digest = Digest::of(name.as_bytes());
            store.commit(store.create_layer_dir(digest).expect("begun"), &[]).expect("kept");
            let layers = vec![digest.bytes().to_vec()];
            store
                .write(&ImageRecord { name: name.into(), layers, ..ImageRecord::default() })
                .expect("written");
            digest
        };
        let [runs, leased, idle] = ["runs", "leased", "idle"].map(make);
        let nameless = Digest::of(b"nameless");
        store.commit(store.create_layer_dir(nameless).expect("begun"), &[]).expect("kept");
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
        let now = now + Duration::from_secs(2 * 3_600);
        fs::remove_file(links.join("0")).expect("removed");
        // Between two starts there is no bundle, and the task needs its image all the same.
        let keeper = allocs.join("a/keepers/t");
        links::hold(&keeper, &[store.layer(idle)]).expect("held");
        links::hold(&keeper, &[store.layer(runs)]).expect("held");
        collect(&store, full, &allocs, now);
        assert!(store.has(runs) && store.has(leased) && store.find("runs").is_some());
        links::release(&allocs.join("a/keepers")).expect("released");
        collect(&store, full, &allocs, now);
        assert_eq!(store.layers().collect::<Vec<_>>(), [leased]);
    }
}
