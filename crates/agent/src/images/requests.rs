//! Requests of users about a node's images: to list them, to pull one, to remove one.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use berth_api::agent::{
    AgentOutcome, AllocId, Done, ImageInfo, ImageList, PullImage, PullProgress, Refusal, RefusalKind,
    RemoveImage,
};
use prost::Message;
use tokio::task::spawn_blocking;
use tokio::time::{sleep, timeout};

use super::digest::Digest;
use super::garbage;
use super::reference::Reference;
use super::registry::error::PullError;
use super::store::{ImageRecord, Store};
use super::{Images, Pull};
use crate::failure::PANICKED;

/// How long a pull is waited for before its state is reported.
const ANSWER_AFTER: Duration = Duration::from_secs(2);

/// How long a pull goes on that nobody asks about any more.
const HELD: Duration = Duration::from_secs(10);

/// Bytes of an answer, which has to fit into one message.
const ANSWER_BYTES_MAX: usize = 2 << 20;

/// Allocations named with an image, and in a refusal.
const USERS_LISTED_MAX: usize = 64;

impl Images {
    /// All images of the node. `allocs` holds the directories of allocations.
    pub(crate) async fn list(&self, allocs: PathBuf) -> Result<AgentOutcome, Refusal> {
        let store = self.puller.store.clone();
        let listed = spawn_blocking(move || list(&store, &allocs)).await.map_err(|_| failed(&PANICKED))?;
        Ok(AgentOutcome::Images(listed))
    }

    /// Begins a pull, or reports how far the one is that is under way.
    pub(crate) async fn pull_for_people(&self, request: PullImage) -> Result<AgentOutcome, Refusal> {
        let name = reference(&request.name)?;
        if !request.always && self.find(&name, None).await.is_some() {
            return self.pulled(&name).await;
        }
        let pull = self.join(&name, None);
        let mut outcome = pull.outcome.clone();
        let waited = timeout(ANSWER_AFTER, outcome.wait_for(Option::is_some)).await;
        let pulled = waited.map(|known| known.ok().and_then(|known| known.clone()));
        match pulled {
            Err(_) => {
                let so_far = so_far(&pull);
                // It ends with the last who holds it.
                tokio::spawn(async move {
                    sleep(HELD).await;
                    drop(pull);
                });
                Ok(AgentOutcome::ImagePull(so_far))
            }
            // It stays here until it has been reported.
            Ok(Some(Ok(_image))) => self.pulled(&name).await,
            Ok(Some(Err(error))) => Err(refused(&name, &error)),
            Ok(None) => Err(failed(&"the pull ended without a reason")),
        }
    }

    async fn pulled(&self, name: &Reference) -> Result<AgentOutcome, Refusal> {
        let (store, name) = (self.puller.store.clone(), name.to_string());
        let described =
            spawn_blocking(move || store.find(&name).map(|record| describe(&record, SystemTime::now(), &[])));
        let image = described.await.map_err(|_| failed(&PANICKED))?;
        let image = image.ok_or_else(|| failed(&"it was removed again meanwhile"))?;
        let (done_bytes, total_bytes) = (image.bytes, image.bytes);
        Ok(AgentOutcome::ImagePull(PullProgress { done_bytes, total_bytes, image: Some(image) }))
    }

    /// Removes an image that no task uses, and the layers that no other has.
    pub(crate) async fn remove(
        &self,
        request: RemoveImage,
        allocs: PathBuf,
    ) -> Result<AgentOutcome, Refusal> {
        // What is on the node's own disk goes by its path.
        let name =
            if request.name.starts_with('/') { request.name } else { reference(&request.name)?.to_string() };
        let store = self.puller.store.clone();
        let removed = spawn_blocking(move || remove(&store, &name, &allocs));
        removed.await.map_err(|_| failed(&PANICKED))?.map(|()| AgentOutcome::Done(Done {}))
    }
}

pub(super) fn failed(why: &dyn ToString) -> Refusal {
    Refusal::new(RefusalKind::Failed, why.to_string())
}

pub(super) fn invalid(why: String) -> Refusal {
    Refusal::new(RefusalKind::Invalid, why)
}

/// The image that a name means.
pub(super) fn reference(name: &str) -> Result<Reference, Refusal> {
    let excerpt: String = name.chars().take(128).collect();
    if name.starts_with('/') {
        return Err(invalid(format!(
            "{excerpt:?} is a path of the node: its archives are used as they are there"
        )));
    }
    name.parse().map_err(|why| invalid(format!("read the image's name {excerpt:?}: {why}")))
}

fn refused(name: &Reference, error: &PullError) -> Refusal {
    failed(&error.failure(&name.to_string()).message)
}

fn so_far(pull: &Arc<Pull>) -> PullProgress {
    let of = |number: &std::sync::atomic::AtomicU64| number.load(Ordering::Relaxed);
    PullProgress { done_bytes: of(&pull.progress.done), total_bytes: of(&pull.progress.total), image: None }
}

/// What runs on a node, by the layers that it runs on.
struct LayerUsers(Vec<(AllocId, BTreeSet<Digest>)>);

impl LayerUsers {
    fn find(allocs: &Path) -> Self {
        let of = |(alloc, layers): (String, HashSet<Digest>)| {
            Some((AllocId::from_uuid(&alloc)?, layers.into_iter().collect()))
        };
        Self(garbage::mounted_by(allocs).filter_map(of).collect())
    }

    /// Layers are shared among images: those run an image that run on all of its layers and on no others.
    fn of(&self, record: &ImageRecord) -> Vec<AllocId> {
        let layers: BTreeSet<Digest> = record.layers().unwrap_or_default().into_iter().collect();
        let runs = self.0.iter().filter(|(_, mounted)| !layers.is_empty() && *mounted == layers);
        let allocs: BTreeSet<AllocId> = runs.map(|(alloc, _)| *alloc).collect();
        allocs.into_iter().collect()
    }
}

fn list(store: &Store, allocs: &Path) -> ImageList {
    let users = LayerUsers::find(allocs);
    let all: BTreeMap<String, _> =
        store.all().into_iter().map(|(record, used)| (record.name.clone(), (record, used))).collect();
    let (disk_bytes, disk_free_bytes) = store.disk_space().unwrap_or_default();
    let mut listed = ImageList { disk_bytes, disk_free_bytes, ..ImageList::default() };
    let mut bytes = 0;
    for (record, used) in all.values() {
        let image = describe(record, *used, &users.of(record));
        bytes += image.encoded_len();
        if bytes > ANSWER_BYTES_MAX {
            listed.left_off += 1;
        } else {
            listed.images.push(image);
        }
    }
    listed
}

pub(super) fn describe(record: &ImageRecord, used: SystemTime, users: &[AllocId]) -> ImageInfo {
    let since = used.duration_since(UNIX_EPOCH).unwrap_or_default();
    ImageInfo {
        name: record.name.clone(),
        digest: record.digest.clone(),
        bytes: record.bytes,
        layers: u32::try_from(record.layers.len()).unwrap_or(u32::MAX),
        pulled_ns: record.pulled_ns,
        used_ns: u64::try_from(since.as_nanos()).unwrap_or(u64::MAX),
        alloc_ids: users.iter().take(USERS_LISTED_MAX).map(|alloc| alloc.0.to_vec()).collect(),
        private: !record.credentials.is_empty(),
    }
}

fn remove(store: &Store, name: &str, allocs: &Path) -> Result<(), Refusal> {
    let known = store.all().into_iter().find(|(record, _)| record.name == name);
    let Some((record, _)) = known else {
        let why = format!("the node has no image {name}: `berth image list` names those that it has");
        return Err(Refusal::new(RefusalKind::NotFound, why));
    };
    let in_use = store.in_use(|| garbage::mounted(allocs));
    let users = LayerUsers::find(allocs).of(&record);
    if !users.is_empty() {
        let named: Vec<String> =
            users.iter().take(3).map(|alloc| alloc.to_string()[..8].to_owned()).collect();
        let more = users.len().saturating_sub(named.len());
        let more = if more == 0 { String::new() } else { format!(" and {more} more") };
        return Err(invalid(format!(
            "the image {name} is in use by allocation {}{more}: stop what runs it first",
            named.join(", ")
        )));
    }
    store.forget(name).map_err(|failure| failed(&failure))?;
    // Layers that other images or tasks have stay.
    store.sweep(&in_use);
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    struct World {
        dir: tempfile::TempDir,
        store: Store,
    }

    impl World {
        fn new() -> Self {
            let dir = tempfile::tempdir().expect("a directory");
            let store = Store::open(&dir.path().join("images")).expect("open");
            Self { dir, store }
        }

        fn image(&self, name: &str, layers: &[&str]) {
            let digests: Vec<Digest> = layers.iter().map(|text| Digest::of(text.as_bytes())).collect();
            for digest in digests.iter().filter(|digest| !self.store.has(**digest)) {
                self.store.commit(self.store.create_layer_dir(*digest).expect("begun"), &[]).expect("kept");
            }
            let layers = digests.iter().map(|digest| digest.bytes().to_vec()).collect();
            let record = ImageRecord { name: name.into(), layers, bytes: 7, ..ImageRecord::default() };
            self.store.write(&record).expect("written");
        }

        fn allocs(&self) -> PathBuf {
            self.dir.path().join("allocs")
        }

        fn run(&self, alloc: AllocId, layers: &[&str]) {
            let links = self.allocs().join(alloc.to_string()).join("keepers/t/bundle/l");
            fs::create_dir_all(&links).expect("made");
            for (number, text) in layers.iter().enumerate() {
                let layer = self.store.layer(Digest::of(text.as_bytes()));
                std::os::unix::fs::symlink(layer, links.join(number.to_string())).expect("linked");
            }
        }
    }

    #[test]
    fn what_runs_is_not_removed_and_shared_layers_stay() {
        let world = World::new();
        world.image("base", &["a"]);
        world.image("web", &["a", "b"]);
        let alloc = AllocId([7; 16]);
        world.run(alloc, &["b", "a"]);
        let listed = list(&world.store, &world.allocs());
        let described: Vec<_> =
            listed.images.iter().map(|image| (&*image.name, image.layers, image.alloc_ids.len())).collect();
        assert_eq!(described, [("base", 1, 0), ("web", 2, 1)]);
        let refusal = remove(&world.store, "web", &world.allocs()).expect_err("refused");
        assert!(refusal.text.contains("in use by allocation 07070707"), "{}", refusal.text);
        remove(&world.store, "base", &world.allocs()).expect("removed");
        assert!(world.store.has(Digest::of(b"a")), "the other image has it, too");
        fs::remove_dir_all(world.allocs()).expect("removed");
        remove(&world.store, "web", &world.allocs()).expect("removed");
        assert_eq!(world.store.layers().count(), 0);
        let refusal = remove(&world.store, "web", &world.allocs()).expect_err("gone");
        assert_eq!(refusal.kind(), RefusalKind::NotFound);
    }

    #[test]
    fn a_long_list_is_cut_and_says_so() {
        let world = World::new();
        let long = "x".repeat(1 << 20);
        for number in 0..3 {
            world.image(&format!("{number}{long}"), &["a"]);
        }
        let listed = list(&world.store, &world.allocs());
        assert_eq!((listed.images.len(), listed.left_off), (1, 2));
        assert!(listed.encoded_len() <= ANSWER_BYTES_MAX);
    }
}
