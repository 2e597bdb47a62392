//! Tokens. A secret is returned once, to the creator of the token; servers store only its hash.

use std::{collections::BTreeMap, time::Duration};

use berth_api::http::{AclLink, AclToken, AclTtl, Time};
use berth_model::{
    AclRoleId, AclTokenId, Index, Timestamp,
    acl::{AclToken as Token, ChangeAcl, TokenType},
};
use serde::Serialize;
use serde_json::Value;

use super::{change, change_and_answer, check_on, index};
use crate::{
    WatchKey,
    access::{CallerView, Identity, SECRET_BYTES, SECRET_PREFIX, hash},
    clock,
    http::{
        block,
        call::{Call, Reply},
        failure::Failure,
        ids::IdRange,
        list::{Listing, Span, list as listed},
        reply,
    },
    workload::Workload,
};

/// `GET /v1/acl/tokens`
pub(in crate::nomad) async fn list(call: Call) -> Reply {
    check_on(&call)?;
    let range = IdRange::of_prefix(call.query.text("prefix"))?;
    let global = match call.query.text("global") {
        None | Some("") => None,
        Some(_) => Some(call.query.flag("global", false)?),
    };
    listed(&call, &[WatchKey::Acl], index, Tokens { range, global }).await
}

#[derive(Clone)]
struct Tokens {
    range: IdRange,
    global: Option<bool>,
}

impl Listing for Tokens {
    type Key = AclTokenId;
    type Row<'v> = &'v Token;

    fn span(&self) -> Span<AclTokenId> {
        self.range.span(AclTokenId)
    }

    fn rows<'v>(
        &self,
        view: &'v CallerView,
        span: Span<AclTokenId>,
    ) -> impl DoubleEndedIterator<Item = (AclTokenId, Option<&'v Token>)> {
        let tokens = view.acl().into_iter().flat_map(move |acl| acl.tokens(span));
        tokens.map(|token| (token.id, Some(&**token)))
    }

    fn has(&self, token: &&Token) -> bool {
        self.global.is_none_or(|global| token.global == global)
    }

    fn whole(&self, view: &CallerView, token: &&Token) -> Value {
        serde_json::to_value(self.item(view, token)).unwrap_or_default()
    }

    fn item<'v>(&self, view: &'v CallerView, token: &&'v Token) -> impl Serialize {
        to_api(view, token)
    }
}

/// `GET /v1/acl/token/:id`: with a management token any, else one's own.
pub(in crate::nomad) async fn read(call: Call) -> Reply {
    check_on(&call)?;
    block::read(&call, &[WatchKey::Acl], index, |view| {
        let id = id(&call)?;
        let token = match view.own_token(call.identity()).filter(|token| token.id == id) {
            Some(own) => own,
            None => view.acl()?.token(id).ok_or_else(not_found)?,
        };
        reply::json(&call.query, &to_api(view, token))
    })
    .await
}

/// `GET /v1/acl/token/self`
pub(in crate::nomad) async fn read_own(call: Call) -> Reply {
    check_on(&call)?;
    let view = call.view();
    if let Identity::Workload(workload) = call.identity() {
        return reply::json(&call.query, &of_workload(&view, workload));
    }
    let token = own(&call, &view)?;
    reply::json(&call.query, &to_api(&view, token))
}

/// A task's own token, as far as it is like one that an operator makes: nobody has written it down.
fn of_workload(view: &CallerView, workload: &Workload) -> AclToken {
    let policies = view.workload_policies(workload);
    AclToken {
        accessor_id: workload.id.clone(),
        name: workload.subject.clone(),
        token_type: "workload".to_owned(),
        policies: (!policies.is_empty()).then_some(policies),
        create_time: Some(Time(workload.issued_at.0)),
        expiration_time: Some(Time(workload.expires_at.0)),
        ..AclToken::default()
    }
}

/// The token that a request shows.
///
/// # Errors
/// When it shows none, or one that says nothing.
pub(super) fn own<'v>(call: &Call, view: &'v CallerView) -> Result<&'v Token, Failure> {
    let token = view.own_token(call.identity()).filter(|token| !token.is_expired(clock::now()));
    let none = match call.identity() {
        Identity::Anonymous => "no token was given",
        Identity::Token(_) => "ACL token not found",
        Identity::Workload(_) => "a workload's token is none that an operator has made",
    };
    token.map(|token| &**token).ok_or_else(|| Failure::new(hyper::StatusCode::FORBIDDEN, none))
}

/// `PUT /v1/acl/token` and `PUT /v1/acl/token/:id`
pub(in crate::nomad) async fn put(mut call: Call) -> Reply {
    check_on(&call)?;
    let request: AclToken = call.json().await?;
    let id = match (call.param("id"), &*request.accessor_id) {
        ("", "") => None,
        ("", text) | (text, "") => Some(parsed(text)?),
        (path, body) if path == body => Some(parsed(path)?),
        _ => return Err(Failure::bad_request("the body has another AccessorID than the path")),
    };
    let (token, secret) = match id {
        None => {
            let secret = new_secret()?;
            (new(&call, request, &secret)?, secret)
        }
        Some(id) => (updated(&call.view(), id, request)?, String::new()),
    };
    let index = change(&call, ChangeAcl::PutToken(Box::new(token.clone()))).await?;
    secret_reply(&call, index, token, secret)
}

/// `DELETE /v1/acl/token/:id`
pub(in crate::nomad) async fn delete(call: Call) -> Reply {
    check_on(&call)?;
    change_and_answer(&call, ChangeAcl::DeleteToken(id(&call)?)).await
}

/// Has the first token written, and returns it.
pub(super) async fn write_first(call: &Call, token: Token, again: Option<Index>, secret: String) -> Reply {
    let index = change(call, ChangeAcl::Bootstrap(Box::new(token.clone()), again)).await?;
    secret_reply(call, index, token, secret)
}

/// A token that was written, with its secret if that is new. It is not read back: a server that is behind the leader would not find it,
/// and its secret is returned this once.
fn secret_reply(call: &Call, index: Index, token: Token, secret: String) -> Reply {
    let create_index = if token.create_index == Index(0) { index } else { token.create_index };
    let (view, written) = (call.view(), Token { create_index, modify_index: index, ..token });
    let answer = AclToken { secret_id: secret, ..to_api(&view, &written) };
    let mut response = reply::json(&call.query, &answer)?;
    reply::stamp(response.headers_mut(), index, &view);
    Ok(response)
}

/// 256 random bits.
pub(super) fn new_secret() -> Result<String, Failure> {
    let mut bytes = [0; SECRET_BYTES];
    getrandom::fill(&mut bytes).map_err(|error| {
        Failure::new(hyper::StatusCode::INTERNAL_SERVER_ERROR, format!("make a secret: {error}"))
    })?;
    let digits = bytes.iter().map(|byte| format!("{byte:02x}"));
    Ok(SECRET_PREFIX.chars().map(String::from).chain(digits).collect())
}

fn new(call: &Call, request: AclToken, secret: &str) -> Result<Token, Failure> {
    let now = clock::now();
    let view = call.view();
    let token_type = match &*request.token_type {
        "client" | "" => TokenType::Client,
        "management" => TokenType::Management,
        other => {
            let cut: String = other.chars().take(64).collect();
            let text = format!("a token's Type is `client` or `management`, not `{cut}`");
            return Err(Failure::bad_request(text));
        }
    };
    Ok(Token {
        id: AclTokenId(call.mint_id()),
        secret: hash(secret),
        name: request.name,
        token_type,
        policies: request.policies.unwrap_or_default(),
        roles: roles(&view, request.roles.unwrap_or_default())?,
        global: request.global,
        created_at: now,
        expires_at: end(now, request.expiration_ttl, request.expiration_time)?,
        create_index: Index(0),
        modify_index: Index(0),
    })
}

/// An existing token with the name, policies and roles of a request.
fn updated(view: &CallerView, id: AclTokenId, request: AclToken) -> Result<Token, Failure> {
    let old = view.acl()?.token(id).ok_or_else(not_found)?;
    let same_type = request.token_type.is_empty() || request.token_type == old.token_type.as_str();
    // Clients send back how long it was to last, and nothing as a text without letters.
    let lasts = old.expires_at.map(|end| Duration::from_nanos(end.0.saturating_sub(old.created_at.0)));
    let same_end = span(request.expiration_ttl)?.is_none_or(|span| Some(span) == lasts)
        && request.expiration_time.is_none_or(|end| Some(end.0) == old.expires_at.map(|end| end.0));
    if !same_type || !same_end {
        let text = "a token's Type and its end cannot be changed: make another one";
        return Err(Failure::bad_request(text));
    }
    Ok(Token {
        name: request.name,
        policies: request.policies.unwrap_or_default(),
        roles: roles(view, request.roles.unwrap_or_default())?,
        global: request.global,
        ..Token::clone(old)
    })
}

/// Roles by their ids or names, each once.
fn roles(view: &CallerView, links: Vec<AclLink>) -> Result<Vec<AclRoleId>, Failure> {
    let acl = view.acl()?;
    let mut positions = BTreeMap::new();
    for (position, link) in links.into_iter().enumerate() {
        let role = match &*link.id {
            "" => acl.role_named(&link.name),
            id => id.parse().ok().and_then(|id| acl.role(id)),
        };
        let role = role.ok_or_else(|| {
            let name: String =
                if link.id.is_empty() { link.name } else { link.id }.chars().take(128).collect();
            Failure::bad_request(format!("role `{name}` does not exist"))
        })?;
        positions.entry(role.id).or_insert(position);
    }
    let mut roles: Vec<_> = positions.into_iter().map(|(id, position)| (position, id)).collect();
    roles.sort_unstable();
    Ok(roles.into_iter().map(|(_, id)| id).collect())
}

/// How long a token is to last; none where it is not set, or is zero.
fn span(ttl: Option<AclTtl>) -> Result<Option<Duration>, Failure> {
    let span = match ttl {
        None => None,
        Some(AclTtl::Nanoseconds(nanos)) => Some(Duration::from_nanos(nanos)),
        Some(AclTtl::Text(text)) if text.is_empty() => None,
        Some(AclTtl::Text(text)) => {
            let cut: String = text.chars().take(64).collect();
            let wrong =
                || Failure::bad_request(format!("ExpirationTTL: `{cut}` is not a duration, as in 8h30m"));
            Some(berth_duration::parse(&text).ok_or_else(wrong)?)
        }
    };
    Ok(span.filter(|span| !span.is_zero()))
}

/// When a token that is made now ends.
fn end(now: Timestamp, ttl: Option<AclTtl>, at: Option<Time>) -> Result<Option<Timestamp>, Failure> {
    let by_span = span(ttl)?.map(|span| now.after(span));
    let at = at.filter(|at| at.0 > 0).map(|at| Timestamp(at.0));
    match (by_span, at) {
        (Some(_), Some(_)) => Err(Failure::bad_request("give ExpirationTTL or ExpirationTime, not both")),
        (None, Some(at)) if at <= now => Err(Failure::bad_request("ExpirationTime is in the past")),
        (by_span, at) => Ok(by_span.or(at)),
    }
}

fn id(call: &Call) -> Result<AclTokenId, Failure> {
    parsed(call.param("id"))
}

fn parsed(text: &str) -> Result<AclTokenId, Failure> {
    text.parse().map_err(|error| Failure::bad_request(format!("token: {error}")))
}

fn not_found() -> Failure {
    Failure::not_found("ACL token not found")
}

/// A token without its secret.
pub(super) fn to_api(view: &CallerView, token: &Token) -> AclToken {
    let link = |id: &AclRoleId| AclLink {
        id: id.to_string(),
        name: view.role_name(*id).unwrap_or_default().to_owned(),
    };
    AclToken {
        accessor_id: token.id.to_string(),
        secret_id: String::new(),
        name: token.name.clone(),
        token_type: token.token_type.as_str().to_owned(),
        policies: (!token.policies.is_empty()).then(|| token.policies.clone()),
        roles: (!token.roles.is_empty()).then(|| token.roles.iter().map(link).collect()),
        global: token.global,
        create_time: Some(Time(token.created_at.0)),
        expiration_time: token.expires_at.map(|at| Time(at.0)),
        expiration_ttl: None,
        create_index: token.create_index.0,
        modify_index: token.modify_index.0,
    }
}
