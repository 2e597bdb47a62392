//! Roles: a tree with weights and quotas, whose leaves are the members.

use std::{collections::HashMap, sync::Arc};

use super::event::{OffersError, RoleQuota};
use crate::fairness::{Amounts, NodeIx, Tree, Weight};

/// A role.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RoleIx(u32);

/// What stands in the tree of shares.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Claimant {
    /// A role with what is below it.
    Role,
    /// The members of a role: together they are one sibling of the roles below it.
    Members,
    /// One member, by its number.
    Member(usize),
}

#[derive(Debug)]
struct Role {
    path: Arc<str>,
    parent: Option<RoleIx>,
    tree_node: NodeIx,
    members_node: NodeIx,
    members: u32,
    children: u32,
    weight: Weight,
    quota: RoleQuota,
    /// Its limit leaves no capacity for an offer.
    full: bool,
    /// What must stay free for the guarantees of this role and of all below it.
    needed: Amounts,
    /// Of that, what the roles below it need.
    needed_below: Amounts,
}

/// All roles that anybody named. The root has no name and no quota.
#[derive(Debug)]
pub struct Roles {
    rows: Vec<Option<Role>>,
    vacant: Vec<RoleIx>,
    by_path: HashMap<Arc<str>, RoleIx>,
    /// Shares of roles and members.
    pub tree: Tree<Claimant>,
    quotas: u32,
}

const ROOT: RoleIx = RoleIx(0);

impl Roles {
    /// The root alone.
    pub fn new() -> Self {
        let mut tree = Tree::new(Claimant::Role);
        let members_node = tree.add(tree.root(), Claimant::Members, Weight::ONE);
        let root = Role {
            path: "".into(),
            parent: None,
            tree_node: tree.root(),
            members_node,
            members: 0,
            children: 0,
            weight: Weight::ONE,
            quota: RoleQuota::default(),
            full: false,
            needed: Amounts::ZERO,
            needed_below: Amounts::ZERO,
        };
        Self { rows: vec![Some(root)], vacant: Vec::new(), by_path: HashMap::new(), tree, quotas: 0 }
    }

    /// A role by its path.
    pub fn find(&self, path: &str) -> Option<RoleIx> {
        self.by_path.get(path).copied()
    }

    /// A role by its path; it and those above it are made when they are not there.
    ///
    /// # Errors
    /// When that is not a path of names.
    pub fn find_or_add(&mut self, path: &str) -> Result<RoleIx, OffersError> {
        if path.split('/').any(|name| name.is_empty() || name == "." || name == "..") {
            return Err(OffersError::RoleName(path.to_owned()));
        }
        let ends = path.match_indices('/').map(|(at, _)| at).chain([path.len()]);
        Ok(ends.fold(ROOT, |parent, end| {
            self.find(&path[..end]).unwrap_or_else(|| self.add(parent, &path[..end]))
        }))
    }

    fn add(&mut self, parent: RoleIx, path: &str) -> RoleIx {
        let path: Arc<str> = path.into();
        let tree_node = self.tree.add(self.row(parent).tree_node, Claimant::Role, Weight::ONE);
        let members_node = self.tree.add(tree_node, Claimant::Members, Weight::ONE);
        let role = self.vacant.pop().unwrap_or_else(|| {
            self.rows.push(None);
            RoleIx(u32::try_from(self.rows.len() - 1).expect("fewer than 2^32 roles"))
        });
        self.rows[role.0 as usize] = Some(Role {
            path: path.clone(),
            parent: Some(parent),
            tree_node,
            members_node,
            members: 0,
            children: 0,
            weight: Weight::ONE,
            quota: RoleQuota::default(),
            full: false,
            needed: Amounts::ZERO,
            needed_below: Amounts::ZERO,
        });
        self.row_mut(parent).children += 1;
        self.by_path.insert(path, role);
        role
    }

    /// Forgets a role, and those above it, for as long as nobody needs them.
    pub fn prune(&mut self, role: RoleIx) {
        let row = self.row(role);
        let needed = row.members > 0
            || row.children > 0
            || row.weight != Weight::ONE
            || row.quota != RoleQuota::default();
        let Some(parent) = row.parent.filter(|_| !needed) else { return };
        let (tree_node, members_node) = (row.tree_node, row.members_node);
        self.tree.remove(members_node);
        self.tree.remove(tree_node);
        let row = self.rows[role.0 as usize].take().expect("it was just read");
        self.by_path.remove(&row.path);
        self.vacant.push(role);
        self.row_mut(parent).children -= 1;
        self.prune(parent);
    }

    /// Its path.
    pub fn path(&self, role: RoleIx) -> &Arc<str> {
        &self.row(role).path
    }

    /// Where it stands in the tree of shares.
    pub fn tree_node(&self, role: RoleIx) -> NodeIx {
        self.row(role).tree_node
    }

    /// Makes a place for a new member.
    pub fn add_member(&mut self, role: RoleIx, member: usize) -> NodeIx {
        self.row_mut(role).members += 1;
        self.tree.add(self.row(role).members_node, Claimant::Member(member), Weight::ONE)
    }

    /// A member has gone, with all it held.
    pub fn remove_member(&mut self, role: RoleIx, tree_node: NodeIx) {
        self.tree.remove(tree_node);
        self.row_mut(role).members -= 1;
        self.prune(role);
    }

    /// How much more than its siblings it should get.
    pub fn set_weight(&mut self, role: RoleIx, weight: Weight) {
        let row = self.row_mut(role);
        row.weight = weight;
        let tree_node = row.tree_node;
        self.tree.set_weight(tree_node, weight);
        self.prune(role);
    }

    /// Sets what a role is guaranteed, and its limit.
    ///
    /// # Errors
    /// When the limit is below the guarantee, or guarantees do not fit those above.
    pub fn set_quota(&mut self, role: RoleIx, quota: RoleQuota) -> Result<(), OffersError> {
        self.check_quota(role, &quota).map_err(|why| OffersError::Quota(self.path(role).to_string(), why))?;
        let old = std::mem::replace(&mut self.row_mut(role).quota, quota);
        self.quotas -= u32::from(old != RoleQuota::default());
        self.quotas += u32::from(quota != RoleQuota::default());
        self.update_needed(role);
        Ok(())
    }

    fn check_quota(&self, role: RoleIx, quota: &RoleQuota) -> Result<(), &'static str> {
        if !quota.limit.covers(quota.guarantee) {
            return Err("the limit is below the guarantee");
        }
        if !quota.limit.covers(self.row(role).needed_below) {
            return Err("roles below it are guaranteed more than its limit");
        }
        let above = self.path_up(self.row(role).parent);
        if above.into_iter().any(|above| !self.row(above).quota.limit.covers(quota.guarantee)) {
            return Err("the limit of a role above it is below its guarantee");
        }
        Ok(())
    }

    /// Whether any role has a quota.
    pub fn has_quotas(&self) -> bool {
        self.quotas > 0
    }

    /// What must stay free for guarantees.
    pub fn needed(&self) -> Amounts {
        self.row(ROOT).needed
    }

    /// How much a role's members may take of what must stay free: what is kept for it and not for a role below it, and
    /// likewise of all roles above it.
    pub fn entitled(&self, role: RoleIx) -> Amounts {
        let path = self.path_up(Some(role));
        path.fold(Amounts::ZERO, |sum, role| {
            let row = self.row(role);
            sum.plus(row.needed.minus(row.needed_below))
        })
    }

    /// How much more its limit, and the limits above it, let a role hold.
    pub fn room(&self, role: RoleIx) -> Amounts {
        self.path_up(Some(role)).fold(Amounts::UNLIMITED, |room, role| {
            let row = self.row(role);
            match row.quota.limit {
                Amounts::UNLIMITED => room,
                limit => room.min(limit.minus(self.tree.used(row.tree_node))),
            }
        })
    }

    /// Roles that hold less than they are guaranteed.
    pub fn short(&self) -> impl Iterator<Item = RoleIx> {
        let all = (0..self.rows.len()).map(|at| RoleIx(at as u32));
        all.filter(|role| self.rows[role.0 as usize].is_some() && !self.shortfall(*role).is_zero())
    }

    /// What a role holds less than it is guaranteed.
    pub fn shortfall(&self, role: RoleIx) -> Amounts {
        let row = self.row(role);
        row.quota.guarantee.minus(self.tree.used(row.tree_node))
    }

    /// A member holds more, or less.
    pub fn charge(&mut self, role: RoleIx, tree_node: NodeIx, amounts: Amounts) {
        self.tree.charge(tree_node, amounts);
        if self.has_quotas() {
            self.update_needed(role);
        }
    }

    /// A member holds less.
    pub fn discharge(&mut self, role: RoleIx, tree_node: NodeIx, amounts: Amounts) {
        self.tree.discharge(tree_node, amounts);
        if self.has_quotas() {
            self.update_needed(role);
        }
    }

    /// Roles from this one up whose fullness has changed, given what counts as capacity for an offer.
    pub fn update_full(&mut self, role: RoleIx, has_room: impl Fn(Amounts) -> bool) -> Option<RoleIx> {
        let mut changed = None;
        let mut next = Some(role);
        while let Some(role) = next {
            let row = self.row(role);
            let full = row.quota.limit != Amounts::UNLIMITED
                && !has_room(row.quota.limit.minus(self.tree.used(row.tree_node)));
            let row = self.row_mut(role);
            next = row.parent;
            if std::mem::replace(&mut row.full, full) != full {
                changed = Some(role);
            }
        }
        changed
    }

    /// Whether its limit, or one above it, leaves no capacity for an offer.
    pub fn is_full(&self, role: RoleIx) -> bool {
        self.path_up(Some(role)).any(|role| self.row(role).full)
    }

    /// All members of a role and of the roles below it.
    pub fn members_below(&self, role: RoleIx) -> Vec<usize> {
        let mut members = Vec::new();
        let mut open = vec![self.tree_node(role)];
        while let Some(tree_node) = open.pop() {
            match self.tree.item(tree_node) {
                Claimant::Member(member) => members.push(*member),
                Claimant::Role | Claimant::Members => open.extend(self.tree.children(tree_node)),
            }
        }
        members
    }

    /// What must stay free, from a role up to the root, after what it holds or is guaranteed has changed.
    fn update_needed(&mut self, role: RoleIx) {
        let mut next = Some(role);
        while let Some(role) = next {
            let shortfall = self.shortfall(role);
            let row = self.row_mut(role);
            let needed = shortfall.max(row.needed_below);
            let before = std::mem::replace(&mut row.needed, needed);
            next = row.parent;
            if let Some(parent) = next {
                let row = self.row_mut(parent);
                row.needed_below = row.needed_below.minus(before).plus(needed);
            }
        }
    }

    fn path_up(&self, from: Option<RoleIx>) -> impl Iterator<Item = RoleIx> {
        std::iter::successors(from, |role| self.row(*role).parent)
    }

    fn row(&self, role: RoleIx) -> &Role {
        self.rows[role.0 as usize].as_ref().expect("a role is used after its removal")
    }

    fn row_mut(&mut self, role: RoleIx) -> &mut Role {
        self.rows[role.0 as usize].as_mut().expect("a role is used after its removal")
    }
}
