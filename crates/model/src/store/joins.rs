//! The table of join tokens, revoked nodes and revoked servers. It is part of the table of who may do what, whose digest it keeps in step.

use std::sync::Arc;

use imbl::{OrdMap, OrdSet};

use super::digest::{TableDigest, hash_encoded};
use crate::{
    acl::SecretHash,
    ids::{Index, NodeId},
    join::{JoinToken, RevokedNode, RevokedServer},
    time::Timestamp,
};

/// All join tokens, revoked nodes and revoked servers.
#[derive(Debug, Clone, Default)]
pub struct Joins {
    tokens: OrdMap<SecretHash, Arc<JoinToken>>,
    tokens_by_end: OrdSet<(Timestamp, SecretHash)>,
    revoked: OrdMap<NodeId, Timestamp>,
    /// Where a node was revoked last.
    revoked_index: Index,
    revoked_servers: OrdMap<String, Timestamp>,
}

impl Joins {
    /// The join token of a secret.
    pub fn token(&self, secret: &SecretHash) -> Option<&Arc<JoinToken>> {
        self.tokens.get(secret)
    }

    /// All join tokens, by the hash of their secrets.
    pub fn tokens(&self) -> impl ExactSizeIterator<Item = &Arc<JoinToken>> {
        self.tokens.values()
    }

    /// When a node was revoked last, if ever: its certificates are good from after that on.
    pub fn revoked_at(&self, node: NodeId) -> Option<Timestamp> {
        self.revoked.get(&node).copied()
    }

    /// All revoked nodes, by id.
    pub fn revoked(&self) -> impl ExactSizeIterator<Item = RevokedNode> {
        self.revoked.iter().map(|(node, at)| RevokedNode { node: *node, at: *at })
    }

    /// Where a node was revoked last, as far as this server remembers: another number, another set.
    pub fn revoked_index(&self) -> Index {
        self.revoked_index
    }

    /// All revoked servers, by name.
    pub fn revoked_servers(&self) -> impl ExactSizeIterator<Item = RevokedServer> {
        self.revoked_servers.iter().map(|(name, at)| RevokedServer { name: name.clone(), at: *at })
    }

    /// When a server was revoked last, if ever; by its name in small letters.
    pub fn server_revoked_at(&self, name: &str) -> Option<Timestamp> {
        self.revoked_servers.get(name).copied()
    }

    /// They replace others: whoever follows looks at all of them again. What was revoked before stays so: whoever
    /// restores an old state lets nobody in again with that.
    pub(super) fn restored_at(&mut self, index: Index, before: &Self, digest: &mut TableDigest) {
        let nodes = before.revoked().filter(|old| self.revoked_at(old.node).is_none_or(|at| at < old.at));
        for revoked in nodes.collect::<Vec<_>>() {
            self.revoke(revoked, index, digest);
        }
        let servers = before.revoked_servers();
        let servers = servers.filter(|old| self.server_revoked_at(&old.name).is_none_or(|at| at < old.at));
        for revoked in servers.collect::<Vec<_>>() {
            self.revoke_server(revoked, digest);
        }
        self.revoked_index = index;
    }

    /// Tokens that are nothing any more by then, the oldest first.
    pub(super) fn expired(&self, now: Timestamp) -> impl Iterator<Item = SecretHash> {
        self.tokens_by_end.iter().take_while(move |(end, _)| *end <= now).map(|(_, secret)| *secret)
    }

    pub(super) fn put(&mut self, token: JoinToken, digest: &mut TableDigest) {
        self.remove(&token.secret, digest);
        digest.add(hash_encoded(b'j', &token));
        self.tokens_by_end.insert((token.expires_at, token.secret));
        self.tokens.insert(token.secret, Arc::new(token));
    }

    pub(super) fn remove(&mut self, secret: &SecretHash, digest: &mut TableDigest) {
        if let Some(old) = self.tokens.remove(secret) {
            digest.remove(hash_encoded(b'j', &*old));
            self.tokens_by_end.remove(&(old.expires_at, old.secret));
        }
    }

    pub(super) fn revoke(&mut self, revoked: RevokedNode, index: Index, digest: &mut TableDigest) {
        digest.add(hash_encoded(b'v', &revoked));
        if let Some(at) = self.revoked.insert(revoked.node, revoked.at) {
            digest.remove(hash_encoded(b'v', &RevokedNode { at, ..revoked }));
        }
        self.revoked_index = self.revoked_index.max(index);
    }

    pub(super) fn revoke_server(&mut self, revoked: RevokedServer, digest: &mut TableDigest) {
        digest.add(hash_encoded(b'w', &revoked));
        if let Some(at) = self.revoked_servers.insert(revoked.name.clone(), revoked.at) {
            digest.remove(hash_encoded(b'w', &RevokedServer { at, ..revoked }));
        }
    }
}
