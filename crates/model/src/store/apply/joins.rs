//! Applying how nodes join and are cast out.

use super::Store;
use crate::{
    command::Refusal,
    event::AclObject,
    ids::NodeId,
    join::{
        JOIN_TOKENS_MAX, Join, JoinToken, REVOKED_NODES_MAX, REVOKED_SERVER_NAME_MAX, REVOKED_SERVERS_MAX,
        RevokedNode, RevokedServer,
    },
};

/// Tokens that have expired are garbage-collected as others are made, so many at a time.
const EXPIRED_FORGOTTEN_MAX: usize = 16;

impl Store {
    pub(super) fn put_join_token(&mut self, mut token: JoinToken) -> Result<AclObject, Refusal> {
        let expired: Vec<_> = self.acl.joins().expired(self.at).take(EXPIRED_FORGOTTEN_MAX).collect();
        for secret in expired {
            self.acl.remove_join_token(&secret, self.index);
        }
        if self.acl.joins().tokens().len() >= JOIN_TOKENS_MAX {
            return refuse(&format!(
                "there are {JOIN_TOKENS_MAX}, no more may be: wait until some have expired"
            ));
        }
        if self.acl.joins().token(&token.secret).is_some() {
            return refuse("another one has this secret");
        }
        token.joined = None;
        token.create_index = self.index;
        self.acl.put_join_token(token, self.index);
        Ok(AclObject::JoinToken)
    }

    /// A token is good for one agent: for its node and its key it stays good until it expires, so that an agent that was killed
    /// before it had its certificate gets it after all.
    pub(super) fn join(&mut self, join: &Join) -> Result<AclObject, Refusal> {
        let node = join.joined.node;
        let Some(token) = self.acl.joins().token(&join.secret) else {
            return refuse("it was never made here, or has expired: make one with `berth node token`");
        };
        if token.expires_at <= self.at {
            return refuse("it has expired: make another one with `berth node token`");
        }
        match token.joined {
            Some(joined) if joined == join.joined => return Ok(AclObject::JoinToken),
            Some(joined) => {
                return refuse(&format!(
                    "node {} has joined with it: make another one with `berth node token`",
                    joined.node
                ));
            }
            None => {}
        }
        match token.node {
            Some(named) if named != node => {
                return refuse(&format!("it is for node {named} only, and this is node {node}"));
            }
            None if self.node(node).is_some() => {
                return refuse(&format!(
                    "node {node} is known already: for it to join again, make a token with `berth node token -node {node}`"
                ));
            }
            _ => {}
        }
        let token = JoinToken { joined: Some(join.joined), ..JoinToken::clone(token) };
        self.acl.put_join_token(token, self.index);
        Ok(AclObject::JoinToken)
    }

    pub(super) fn revoke_node(&mut self, node: NodeId) -> Result<AclObject, Refusal> {
        let object = AclObject::Certificates(node);
        let joins = self.acl.joins();
        if joins.revoked_at(node).is_none() && joins.revoked().len() >= REVOKED_NODES_MAX {
            let why = format!("{REVOKED_NODES_MAX} nodes are revoked, no more may be: replace the authority");
            return Err(Refusal::BadAcl(object.to_string(), why));
        }
        self.acl.revoke_node(RevokedNode { node, at: self.at }, self.index);
        Ok(object)
    }

    pub(super) fn revoke_server(&mut self, name: &str) -> Result<AclObject, Refusal> {
        let name = name.to_ascii_lowercase();
        let object = AclObject::ServerCertificates(name.clone());
        let refuse = |why: String| Err(Refusal::BadAcl(object.to_string(), why));
        if name.is_empty() || name.len() > REVOKED_SERVER_NAME_MAX {
            return refuse(format!(
                "a name that certificates can name has 1 to {REVOKED_SERVER_NAME_MAX} bytes"
            ));
        }
        let joins = self.acl.joins();
        if joins.server_revoked_at(&name).is_none() && joins.revoked_servers().len() >= REVOKED_SERVERS_MAX {
            return refuse(format!(
                "{REVOKED_SERVERS_MAX} servers are revoked, no more may be: replace the authority"
            ));
        }
        self.acl.revoke_server(RevokedServer { name, at: self.at }, self.index);
        Ok(object)
    }
}

fn refuse(why: &str) -> Result<AclObject, Refusal> {
    Err(Refusal::BadAcl(AclObject::JoinToken.to_string(), why.to_owned()))
}
