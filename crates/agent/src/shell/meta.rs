//! Metadata of the node: the labels of its settings, and above them those that operators set and unset while the agent runs.
//! Such a change is on disk before it takes effect, and survives restarts of the agent.

use std::collections::BTreeMap;
use std::sync::Arc;

use berth_api::agent::{
    AgentOutcome, ChangeNodeMeta, DYNAMIC_META_BYTES_MAX, DynamicMeta, HELLO_BYTES_MAX, NodeMeta, NodeSpec,
    Refusal, RefusalKind,
};
use prost::Message;
use tokio::sync::{Mutex, watch};

use super::Agent;
use super::data_dir::DataDir;
use super::fingerprint::Equipment;
use crate::failure::{Failure, PANICKED};

/// Bytes of a key, at most.
const KEY_BYTES_MAX: usize = 256;

/// What a description of the node keeps free for attributes that are found later: one that is too large ends the session.
const SPARE_BYTES: usize = 16 << 10;

/// Values by key; none where the key is unset though the settings have it.
type DynamicValues = BTreeMap<String, Option<String>>;

/// The metadata of the node.
pub(super) struct Metadata {
    data: Arc<DataDir>,
    configured: BTreeMap<String, String>,
    /// The dynamic metadata, as it is on disk.
    dynamic: watch::Sender<DynamicValues>,
    /// One change at a time: each begins with what the one before has written.
    changing: Mutex<()>,
}

impl Metadata {
    /// What an earlier run of the agent has set, above what the settings say.
    pub(super) fn open(
        data: Arc<DataDir>,
        configured: BTreeMap<String, String>,
    ) -> Result<Arc<Self>, Failure> {
        let dynamic: DynamicValues =
            data.meta()?.into_iter().map(|DynamicMeta { key, value }| (key, value)).collect();
        let dynamic = watch::Sender::new(needed(dynamic, &configured));
        Ok(Arc::new(Self { data, configured, dynamic, changing: Mutex::default() }))
    }

    /// Hears of each change.
    pub(super) fn changes(&self) -> watch::Receiver<DynamicValues> {
        self.dynamic.subscribe()
    }

    /// The metadata that jobs see: dynamic values over those of the settings.
    pub(super) fn effective(&self) -> BTreeMap<String, String> {
        overlaid(&self.configured, &self.dynamic.borrow())
    }

    /// What there is of it, and where each part comes from.
    pub(super) fn read(&self) -> AgentOutcome {
        let dynamic = self.dynamic.borrow().clone();
        AgentOutcome::NodeMeta(NodeMeta {
            configured: self.configured.clone(),
            effective: overlaid(&self.configured, &dynamic),
            dynamic: listed(dynamic),
        })
    }

    /// Sets and unsets keys of a node that is otherwise as described; answers once that is on disk.
    pub(super) async fn change(
        self: Arc<Self>,
        request: ChangeNodeMeta,
        node: Arc<Equipment>,
    ) -> Result<AgentOutcome, Refusal> {
        check_keys(&request.changes)?;
        let _alone = self.changing.lock().await;
        let mut dynamic = self.dynamic.borrow().clone();
        dynamic.extend(request.changes.into_iter().map(|DynamicMeta { key, value }| (key, value)));
        let dynamic = needed(dynamic, &self.configured);
        check_size(&dynamic, overlaid(&self.configured, &dynamic), &node.node)?;
        if dynamic == *self.dynamic.borrow() {
            return Ok(self.read());
        }
        let (data, record) = (self.data.clone(), listed(dynamic.clone()));
        let written = tokio::task::spawn_blocking(move || data.write_meta(record)).await;
        let failed = |why: String| Refusal::new(RefusalKind::Failed, format!("keep the metadata: {why}"));
        written.map_err(|_| failed(PANICKED.to_owned()))?.map_err(|failure| failed(failure.to_string()))?;
        self.dynamic.send_replace(dynamic);
        Ok(self.read())
    }
}

/// Without what changes nothing: a key that is unset and that the settings do not have.
fn needed(mut dynamic: DynamicValues, configured: &BTreeMap<String, String>) -> DynamicValues {
    dynamic.retain(|key, value| value.is_some() || configured.contains_key(key));
    dynamic
}

fn overlaid(configured: &BTreeMap<String, String>, dynamic: &DynamicValues) -> BTreeMap<String, String> {
    let mut effective = configured.clone();
    for (key, value) in dynamic {
        match value {
            Some(value) => drop(effective.insert(key.clone(), value.clone())),
            None => drop(effective.remove(key)),
        }
    }
    effective
}

fn listed(dynamic: DynamicValues) -> Vec<DynamicMeta> {
    dynamic.into_iter().map(|(key, value)| DynamicMeta { key, value }).collect()
}

fn check_keys(changes: &[DynamicMeta]) -> Result<(), Refusal> {
    let refused = |text: String| Err(Refusal::new(RefusalKind::Invalid, text));
    if changes.is_empty() {
        return refused("no key of the metadata is to be set or unset: name at least one".to_owned());
    }
    for DynamicMeta { key, .. } in changes {
        if key.is_empty() || key.len() > KEY_BYTES_MAX {
            return refused(format!(
                "a key of the metadata has {} bytes: it needs 1 to {KEY_BYTES_MAX}",
                key.len()
            ));
        }
        if key.chars().any(|c| c.is_whitespace() || c.is_control()) {
            return refused(format!(
                "key {key:?} of the metadata has a space or a control character: leave it out"
            ));
        }
    }
    Ok(())
}

fn check_size(
    dynamic: &DynamicValues,
    meta: BTreeMap<String, String>,
    node: &NodeSpec,
) -> Result<(), Refusal> {
    let refused = |text: String| Err(Refusal::new(RefusalKind::Invalid, text));
    let of = |(key, value): (&String, &Option<String>)| key.len() + value.as_ref().map_or(0, String::len);
    let bytes: usize = dynamic.iter().map(of).sum();
    if bytes > DYNAMIC_META_BYTES_MAX {
        let text = "bytes of dynamic metadata, the limit is";
        return refused(format!(
            "the node would have {bytes} {text} {DYNAMIC_META_BYTES_MAX}: unset keys first"
        ));
    }
    let described = NodeSpec { meta, ..node.clone() }.encoded_len();
    let described_max = HELLO_BYTES_MAX - SPARE_BYTES;
    if described > described_max {
        let text = "the node with this metadata would be described in";
        return refused(format!("{text} {described} bytes, the limit is {described_max}: unset keys first"));
    }
    Ok(())
}

impl Agent {
    /// The metadata is another from now on, for tasks that start and for the servers.
    pub(super) fn on_meta_changed(&mut self) {
        let before = self.context.equipment();
        let mut equipment = (*before).clone();
        equipment.node.meta = self.meta.effective();
        if equipment.node == before.node {
            return;
        }
        let (was, is) = (&before.node.meta, &equipment.node.meta);
        let mut keys: Vec<&str> = was.keys().chain(is.keys()).map(String::as_str).collect();
        keys.retain(|key| was.get(*key) != is.get(*key));
        keys.sort_unstable();
        keys.dedup();
        tracing::info!(keys = keys.join(", "), "the node's metadata has changed");
        self.session.node_changed_by_operator(equipment.node.clone());
        self.context.equip(Arc::new(equipment));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
        pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
    }

    fn set(key: &str, value: Option<&str>) -> DynamicMeta {
        DynamicMeta { key: key.into(), value: value.map(Into::into) }
    }

    #[test]
    fn what_is_set_stands_above_the_settings_and_what_is_unset_is_gone() {
        let configured = labels(&[("rack", "r1"), ("row", "7")]);
        let dynamic = [("rack", Some("r2")), ("row", None), ("gone", None)];
        let dynamic: DynamicValues =
            dynamic.map(|(key, value)| (key.to_owned(), value.map(Into::into))).into();
        let dynamic = needed(dynamic, &configured);
        assert_eq!(listed(dynamic.clone()), [set("rack", Some("r2")), set("row", None)]);
        assert_eq!(overlaid(&configured, &dynamic), labels(&[("rack", "r2")]));
    }

    #[test]
    fn keys_that_no_constraint_could_name_are_refused() {
        let long = "k".repeat(KEY_BYTES_MAX + 1);
        for key in ["", "a b", "a\nb", &long] {
            assert!(check_keys(&[set("fine", None), set(key, Some("v"))]).is_err(), "{key:?}");
        }
        assert!(check_keys(&[]).is_err());
        assert_eq!(check_keys(&[set("rack.row-7/x", Some(""))]), Ok(()));
    }

    #[test]
    fn metadata_that_would_end_the_session_is_refused() {
        let text = |bytes: usize| Some("x".repeat(bytes));
        let check = |bytes: usize, node: &NodeSpec| {
            let dynamic: DynamicValues = [("k".to_owned(), text(bytes - 1))].into();
            check_size(&dynamic, overlaid(&BTreeMap::new(), &dynamic), node).map_err(|refusal| refusal.text)
        };
        let small = NodeSpec::default();
        assert_eq!(check(DYNAMIC_META_BYTES_MAX, &small), Ok(()));
        assert!(check(DYNAMIC_META_BYTES_MAX + 1, &small).is_err_and(|why| why.contains("dynamic metadata")));
        let attributes = [("a".to_owned(), "x".repeat(HELLO_BYTES_MAX - SPARE_BYTES - 1_000))].into();
        let large = NodeSpec { attributes, ..NodeSpec::default() };
        assert_eq!(check(500, &large), Ok(()));
        assert!(check(2_000, &large).is_err_and(|why| why.contains("would be described in")));
    }
}
