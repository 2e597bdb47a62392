//! The allocator's state, and how events change it.

use berth_model::NodeId;

use super::{
    Bundle,
    event::{FrameworkId, OfferEvent, OffersError, RoleQuota},
    frameworks::{Frameworks, RoleMember},
    nodes::Nodes,
    roles::{RoleIx, Roles},
};
use crate::fairness::{Amounts, Weight};

/// What the allocator must be given once.
#[derive(Debug, Clone)]
pub struct AllocatorConfig {
    /// An offer holds at least one of these; less is not worth sending. With none, any amount is.
    pub offers_min: Vec<Amounts>,
}

impl Default for AllocatorConfig {
    /// A hundredth of a core or 32 MiB, as Mesos has it: one at the limit of either is still offered the other.
    fn default() -> Self {
        let one = |at: usize, amount: u64| {
            let mut amounts = Amounts::ZERO;
            amounts.0[at] = amount;
            amounts
        };
        Self { offers_min: vec![one(Amounts::CPU, 10), one(Amounts::MEMORY, 32)] }
    }
}

impl AllocatorConfig {
    /// Whether that much is worth an offer.
    pub(super) fn is_worth(&self, amounts: Amounts) -> bool {
        !amounts.is_zero()
            && (self.offers_min.is_empty() || self.offers_min.iter().any(|least| amounts.covers(*least)))
    }
}

/// Decides who is offered what. It believes what it is given about frameworks and nodes, and never offers what somebody holds.
#[derive(Debug)]
pub struct Allocator {
    pub(super) config: AllocatorConfig,
    pub(super) nodes: Nodes,
    pub(super) roles: Roles,
    pub(super) frameworks: Frameworks,
}

impl Allocator {
    /// An allocator that knows of nothing.
    pub fn new(config: AllocatorConfig) -> Self {
        Self { config, nodes: Nodes::default(), roles: Roles::new(), frameworks: Frameworks::default() }
    }

    /// Takes in what happened; what comes of it is offered by the next [`Self::cycle`].
    ///
    /// # Errors
    /// When it does not fit what is known; nothing has changed then.
    pub fn handle(&mut self, event: OfferEvent) -> Result<(), OffersError> {
        match event {
            OfferEvent::NodeAdded(id, total) => self.on_node_added(id, total),
            OfferEvent::NodeRemoved(id) => self.on_node_removed(id),
            OfferEvent::NodeOpened(id, open) => {
                let at = self.find_node(id)?;
                self.nodes.set_open(at, open);
                self.nodes.quotas_changed();
                Ok(())
            }
            OfferEvent::FrameworkAdded(framework, roles) => self.on_framework_added(framework, &roles),
            OfferEvent::FrameworkRemoved(framework) => self.on_framework_removed(framework),
            OfferEvent::FrameworkOpened(framework, open) => self.on_framework_opened(framework, open),
            OfferEvent::Suppressed(framework, role) => self.on_suppressed(framework, &role),
            OfferEvent::Revived(framework, role) => self.on_revived(framework, &role),
            OfferEvent::WeightSet(role, weight) => self.on_weight_set(&role, weight),
            OfferEvent::QuotaSet(role, quota) => self.on_quota_set(&role, quota),
            OfferEvent::Charged(framework, role, node, bundle) => {
                self.on_charged(framework, &role, node, &bundle)
            }
            OfferEvent::Recovered(framework, role, node, bundle) => {
                self.on_recovered(framework, &role, node, &bundle)
            }
            OfferEvent::Refused(framework, role, node, bundle, until) => {
                let (member, at) = (self.find_member(framework, &role)?, self.find_node(node)?);
                self.nodes.refuse(at, member, &bundle, until);
                Ok(())
            }
        }
    }

    fn on_node_added(&mut self, id: NodeId, total: Bundle) -> Result<(), OffersError> {
        if self.nodes.find(id).is_some() {
            return Err(OffersError::NodeKnown(id));
        }
        self.nodes.insert(id, total);
        self.total_changed();
        Ok(())
    }

    fn on_node_removed(&mut self, id: NodeId) -> Result<(), OffersError> {
        let at = self.find_node(id)?;
        for (member, bundle) in self.nodes.remove(at) {
            self.discharge(member, bundle.amounts);
        }
        self.total_changed();
        Ok(())
    }

    fn on_framework_added(&mut self, framework: FrameworkId, roles: &[String]) -> Result<(), OffersError> {
        if self.frameworks.contains(framework) {
            return Err(OffersError::FrameworkKnown(framework));
        }
        let (mut found, mut wrong) = (Vec::new(), None);
        for path in roles {
            match self.roles.find_or_add(path) {
                Ok(role) => found.push(role),
                Err(error) => wrong = Some(error),
            }
        }
        if let Some(error) = wrong {
            found.into_iter().for_each(|role| self.roles.prune(role));
            return Err(error);
        }
        found.sort_unstable();
        found.dedup();
        self.frameworks.insert(framework);
        for role in found {
            let roles = &mut self.roles;
            let member = self.frameworks.join(framework, role, |member| roles.add_member(role, member));
            self.update_active(member);
        }
        self.nodes.all_changed();
        Ok(())
    }

    fn on_framework_removed(&mut self, framework: FrameworkId) -> Result<(), OffersError> {
        self.check_framework(framework)?;
        for member in self.frameworks.members_of(framework).to_vec() {
            for at in self.nodes.held_by(member) {
                let held = self.nodes.held(at, member).cloned().unwrap_or_default();
                self.release(at, member, &held);
            }
            self.nodes.forget_refusals(member);
        }
        for (_, RoleMember { role, tree_node, .. }) in self.frameworks.remove(framework) {
            self.roles.remove_member(role, tree_node);
        }
        Ok(())
    }

    fn on_framework_opened(&mut self, framework: FrameworkId, open: bool) -> Result<(), OffersError> {
        self.check_framework(framework)?;
        self.frameworks.set_open(framework, open);
        for member in self.frameworks.members_of(framework).to_vec() {
            self.update_active(member);
        }
        if open {
            self.nodes.all_changed();
        }
        Ok(())
    }

    fn on_suppressed(&mut self, framework: FrameworkId, role: &str) -> Result<(), OffersError> {
        let member = self.find_member(framework, role)?;
        self.frameworks.set_suppressed(member, true);
        self.update_active(member);
        Ok(())
    }

    fn on_revived(&mut self, framework: FrameworkId, role: &str) -> Result<(), OffersError> {
        let member = self.find_member(framework, role)?;
        self.frameworks.set_suppressed(member, false);
        self.update_active(member);
        self.nodes.forget_refusals(member);
        self.nodes.all_changed();
        Ok(())
    }

    fn on_weight_set(&mut self, role: &str, weight: Weight) -> Result<(), OffersError> {
        let role = self.roles.find_or_add(role)?;
        self.roles.set_weight(role, weight);
        Ok(())
    }

    fn on_quota_set(&mut self, path: &str, quota: RoleQuota) -> Result<(), OffersError> {
        let role = self.roles.find_or_add(path)?;
        let set = self.roles.set_quota(role, quota);
        if set.is_ok() {
            self.update_full(role);
            self.nodes.all_changed();
        }
        self.roles.prune(role);
        set
    }

    fn on_charged(
        &mut self,
        framework: FrameworkId,
        role: &str,
        node: NodeId,
        bundle: &Bundle,
    ) -> Result<(), OffersError> {
        let (member, at) = (self.find_member(framework, role)?, self.find_node(node)?);
        if !self.nodes.node(at).free.covers(bundle) {
            return Err(OffersError::NotFree(framework, node, Box::new(bundle.clone())));
        }
        self.hold(at, member, bundle);
        Ok(())
    }

    fn on_recovered(
        &mut self,
        framework: FrameworkId,
        role: &str,
        node: NodeId,
        bundle: &Bundle,
    ) -> Result<(), OffersError> {
        let (member, at) = (self.find_member(framework, role)?, self.find_node(node)?);
        if !self.nodes.held(at, member).is_some_and(|held| held.covers(bundle)) {
            return Err(OffersError::NotHeld(framework, node, Box::new(bundle.clone())));
        }
        self.release(at, member, bundle);
        Ok(())
    }

    /// A member takes something of what is free on a node.
    pub(super) fn hold(&mut self, at: usize, member: usize, bundle: &Bundle) {
        self.nodes.hold(at, member, bundle);
        let RoleMember { role, tree_node, .. } = *self.frameworks.member(member);
        self.roles.charge(role, tree_node, bundle.amounts);
        if self.roles.has_quotas() {
            self.update_full(role);
        }
    }

    fn release(&mut self, at: usize, member: usize, bundle: &Bundle) {
        self.nodes.release(at, member, bundle);
        self.discharge(member, bundle.amounts);
    }

    fn discharge(&mut self, member: usize, amounts: Amounts) {
        let RoleMember { role, tree_node, .. } = *self.frameworks.member(member);
        self.roles.discharge(role, tree_node, amounts);
        if self.roles.has_quotas() {
            self.update_full(role);
            self.nodes.quotas_changed();
        }
    }

    fn total_changed(&mut self) {
        self.roles.tree.set_total(self.nodes.total());
        self.nodes.quotas_changed();
    }

    /// Members of roles that have become full want no offers, and want them again once there is capacity.
    fn update_full(&mut self, role: RoleIx) {
        let Self { roles, config, .. } = self;
        if let Some(changed) = roles.update_full(role, |room| config.is_worth(room)) {
            for member in self.roles.members_below(changed) {
                self.update_active(member);
            }
        }
    }

    fn update_active(&mut self, member: usize) {
        let role = self.frameworks.member(member).role;
        let active = self.frameworks.is_open(member) && !self.roles.is_full(role);
        self.frameworks.set_active(member, active);
    }

    fn find_node(&self, id: NodeId) -> Result<usize, OffersError> {
        self.nodes.find(id).ok_or(OffersError::NoNode(id))
    }

    fn check_framework(&self, framework: FrameworkId) -> Result<(), OffersError> {
        self.frameworks.contains(framework).then_some(()).ok_or(OffersError::NoFramework(framework))
    }

    fn find_member(&self, framework: FrameworkId, path: &str) -> Result<usize, OffersError> {
        self.check_framework(framework)?;
        let role = self.roles.find(path);
        let mut members = self.frameworks.members_of(framework).iter().copied();
        let found = role.and_then(|role| members.find(|member| self.frameworks.member(*member).role == role));
        found.ok_or_else(|| OffersError::NotMember(framework, path.to_owned()))
    }
}
