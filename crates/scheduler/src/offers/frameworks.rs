//! Who can be offered something: each pair of a framework and a role it is a member of.

use std::collections::BTreeMap;

use fixedbitset::FixedBitSet;

use super::{event::FrameworkId, roles::RoleIx};
use crate::fairness::NodeIx;

/// A framework as a member of one role.
#[derive(Debug)]
pub struct RoleMember {
    /// The framework.
    pub framework: FrameworkId,
    /// The role.
    pub role: RoleIx,
    /// Where it stands in the tree of shares.
    pub tree_node: NodeIx,
    /// Whether it wants no offers.
    pub suppressed: bool,
}

/// All frameworks with their memberships. A member's number is a position in sets of bits; it is given again once it is free.
#[derive(Debug, Default)]
pub struct Frameworks {
    members: Vec<Option<RoleMember>>,
    vacant: Vec<usize>,
    frameworks: BTreeMap<FrameworkId, Framework>,
    /// Members that may be offered something.
    active: FixedBitSet,
}

#[derive(Debug)]
struct Framework {
    open: bool,
    members: Vec<usize>,
}

impl Frameworks {
    /// Whether a framework is there.
    pub fn contains(&self, framework: FrameworkId) -> bool {
        self.frameworks.contains_key(&framework)
    }

    /// Adds a framework that is a member of nothing.
    pub fn insert(&mut self, framework: FrameworkId) {
        self.frameworks.insert(framework, Framework { open: true, members: Vec::new() });
    }

    /// A framework becomes a member; `tree_node` makes its place, given its number.
    pub fn join(
        &mut self,
        framework: FrameworkId,
        role: RoleIx,
        tree_node: impl FnOnce(usize) -> NodeIx,
    ) -> usize {
        let member = self.vacant.pop().unwrap_or_else(|| {
            self.members.push(None);
            self.members.len() - 1
        });
        self.members[member] =
            Some(RoleMember { framework, role, tree_node: tree_node(member), suppressed: false });
        let row = self.frameworks.get_mut(&framework).expect("a framework joins roles after it was added");
        row.members.push(member);
        member
    }

    /// Forgets a framework.
    pub fn remove(&mut self, framework: FrameworkId) -> Vec<(usize, RoleMember)> {
        let Some(row) = self.frameworks.remove(&framework) else { return Vec::new() };
        self.vacant.extend(&row.members);
        let members = row.members.into_iter();
        members
            .filter_map(|member| {
                self.set_active(member, false);
                Some((member, self.members[member].take()?))
            })
            .collect()
    }

    /// Whether a framework takes offers.
    pub fn set_open(&mut self, framework: FrameworkId, open: bool) {
        if let Some(row) = self.frameworks.get_mut(&framework) {
            row.open = open;
        }
    }

    /// Whether a member wants offers.
    pub fn set_suppressed(&mut self, member: usize, suppressed: bool) {
        if let Some(row) = &mut self.members[member] {
            row.suppressed = suppressed;
        }
    }

    /// A framework's memberships.
    pub fn members_of(&self, framework: FrameworkId) -> &[usize] {
        self.frameworks.get(&framework).map_or(&[], |row| &row.members)
    }

    /// A member by its number.
    pub fn member(&self, member: usize) -> &RoleMember {
        self.members[member].as_ref().expect("a member is used after its removal")
    }

    /// Whether a member takes offers, its role aside.
    pub fn is_open(&self, member: usize) -> bool {
        let row = self.member(member);
        !row.suppressed && self.frameworks[&row.framework].open
    }

    /// Whether a member may be offered something, its role included.
    pub fn set_active(&mut self, member: usize, active: bool) {
        self.active.grow(member + 1);
        self.active.set(member, active);
    }

    /// Members that may be offered something.
    pub fn active(&self) -> &FixedBitSet {
        &self.active
    }
}
