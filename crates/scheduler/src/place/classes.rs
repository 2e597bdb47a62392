//! Classes: nodes that no constraint can distinguish, but for what is unique to each of them.

use std::{
    collections::{BTreeMap, HashMap},
    hash::{Hash, Hasher},
    num::NonZeroU32,
    sync::Arc,
};

use berth_model::{device::NodeDevice, node::Node};

/// One class, by its number and one more: a class or none takes no more memory than a class.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct ClassId(NonZeroU32);

impl ClassId {
    /// The class with this number.
    ///
    /// # Panics
    /// With 2^32 classes.
    pub fn nth(at: usize) -> Self {
        let next = u32::try_from(at + 1).expect("fewer than 2^32 classes");
        Self(NonZeroU32::MIN.saturating_add(next - 1))
    }

    /// Its number.
    pub fn number(self) -> u32 {
        self.0.get() - 1
    }

    /// Its number, as a position.
    pub fn at(self) -> usize {
        self.number() as usize
    }
}

/// The classes of all nodes.
#[derive(Debug, Default)]
pub struct Classes {
    ids: HashMap<ClassKey, ClassId>,
    classes: Vec<NodeClass>,
    unused: Vec<ClassId>,
    epoch: u64,
}

#[derive(Debug)]
struct NodeClass {
    example: Arc<Node>,
    nodes: u32,
}

impl Classes {
    /// The class of a node, which counts it.
    pub fn enter(&mut self, node: &Arc<Node>) -> ClassId {
        let id = match self.ids.get(&ClassKey(node.clone())) {
            Some(id) => *id,
            None => self.open(node),
        };
        self.classes[id.at()].nodes += 1;
        id
    }

    fn open(&mut self, node: &Arc<Node>) -> ClassId {
        let class = NodeClass { example: node.clone(), nodes: 0 };
        let id = match self.unused.pop() {
            Some(id) => {
                self.classes[id.at()] = class;
                // What was remembered of the class that had this id is not true of this one.
                self.epoch += 1;
                id
            }
            None => {
                self.classes.push(class);
                ClassId::nth(self.classes.len() - 1)
            }
        };
        self.ids.insert(ClassKey(node.clone()), id);
        id
    }

    /// A node leaves its class; the last one closes it.
    pub fn leave(&mut self, id: ClassId) {
        let class = &mut self.classes[id.at()];
        class.nodes -= 1;
        if class.nodes == 0 {
            self.ids.remove(&ClassKey(class.example.clone()));
            self.unused.push(id);
        }
    }

    /// Every class ever opened with one of its nodes, by id; closed ones included until their id is used again.
    pub fn examples(&self) -> impl Iterator<Item = &Node> {
        self.classes.iter().map(|class| &*class.example)
    }

    /// Grows when an id comes to mean another class.
    pub fn epoch(&self) -> u64 {
        self.epoch
    }
}

/// A node seen without what is its alone.
#[derive(Debug, Clone)]
struct ClassKey(Arc<Node>);

/// Where a part of a node's description comes from, its name, and what it says.
type ClassKeyPart<'a> = (u8, &'a str, &'a str);

impl ClassKey {
    fn parts(&self) -> impl Iterator<Item = ClassKeyPart<'_>> {
        let node = &self.0;
        let named = [(0, "dc", &*node.datacenter), (0, "pool", &*node.pool), (0, "class", &*node.class)];
        let attributes = node.attributes.iter().map(|(k, v)| (1, k.as_str(), v.as_str()));
        let meta = node.meta.iter().map(|(k, v)| (2, k.as_str(), v.as_str()));
        let shared = |(_, name, _): &ClassKeyPart<'_>| !name.starts_with("unique.");
        named.into_iter().chain(attributes.chain(meta).filter(shared))
    }
}

impl ClassKey {
    /// Of each kind of device what it is like, and how many there are that may be used.
    fn devices(&self) -> impl Iterator<Item = (&str, &str, &str, &BTreeMap<String, String>, usize)> {
        self.0.devices.iter().map(|NodeDevice { vendor, kind, model, attributes, instances }| {
            let healthy = instances.iter().filter(|instance| instance.healthy).count();
            (vendor.as_str(), kind.as_str(), model.as_str(), attributes, healthy)
        })
    }
}

impl Hash for ClassKey {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.parts().for_each(|part| part.hash(state));
        self.devices().for_each(|devices| devices.hash(state));
        self.0.cores.len().hash(state);
    }
}

impl PartialEq for ClassKey {
    fn eq(&self, other: &Self) -> bool {
        self.parts().eq(other.parts())
            && self.devices().eq(other.devices())
            && self.0.cores.len() == other.0.cores.len()
    }
}

impl Eq for ClassKey {}
