//! Signed tokens, and forged ones.

use std::{collections::BTreeMap, sync::Arc};

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use berth_api::agent::{ReadSecrets, SecretsRead, SignTokens, SignedTokens};
use berth_model::{
    AllocId, EvalId, Index, JobKey, NodeId, RootKeyId, Timestamp,
    acl::{AclPolicy, ChangeAcl, PolicyJob},
    alloc::{AllocEnd, ClientStatus, Placement},
    command::{Command, PlanRecord},
    keyring::ChangeKeyring,
    node::{Node, NodeStatus},
    resources::Resources,
    store::Store,
    variable::{ChangeVariable, Variable, VariableKey},
};
use ring::{
    hmac,
    rand::SystemRandom,
    signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair},
};
use serde_json::{Value, json};

use super::{jwt, read_secrets, sign, verify::Workloads};
use crate::{
    clock,
    convert::agent::secret_hash,
    nomad::tests::{
        fake_engine::FakeEngine,
        world::{job, placement, register},
    },
};

pub(crate) const SECRET: &[u8] = b"0123456789abcdef";
pub(crate) const NODE: NodeId = NodeId(7);
const OTHER_NODE: NodeId = NodeId(8);
pub(crate) const ALLOC: AllocId = AllocId(9);
const SECOND_NS: u64 = 1_000_000_000;

const JOB: &str = r#"
job "web" {
  group "app" {
    count = 1
    task "server" {
      driver = "mock"
      identity {
        ttl = "1h"
      }
      identity {
        name = "aws"
        aud  = ["sts.amazonaws.com"]
      }
    }
    task "plain" {
      driver = "mock"
      secret "own" {
        provider = "nomad"
        path     = "nomad/jobs/web/app/plain"
      }
      template {
        data        = "x"
        destination = "local/x"
      }
    }
    task "greedy" {
      driver = "mock"
      secret "others" {
        provider = "nomad"
        path     = "nomad/jobs/other"
      }
    }
  }
}
"#;

/// A node that runs one allocation of a job, and another that runs none.
pub(crate) fn cluster() -> Arc<FakeEngine> {
    let engine = Arc::new(FakeEngine::default());
    found_key(&engine);
    for (id, secret) in [(NODE, SECRET), (OTHER_NODE, b"another secret..")] {
        let room = Resources { cpu_mhz: 4000, memory_mb: 8192, disk_mb: 50_000 };
        let node = Node { secret_hash: secret_hash(secret), ..Node::new(id, "n", room) };
        engine.apply(vec![
            Command::RegisterNode(Box::new(node)),
            Command::SetNodeStatus(id, NodeStatus::Ready, None),
        ]);
    }
    engine.apply(vec![register(job(JOB), EvalId(1))]);
    let committed = engine.apply(vec![Command::CommitPlan(Box::new(PlanRecord {
        eval: EvalId(1),
        job: JobKey::new("default", "web"),
        job_version: 0,
        snapshot_index: Index(1),
        placements: vec![Placement { ports: Vec::new(), ..placement(ALLOC, NODE, 0) }],
        stops: Vec::new(),
        deployment: None,
        outcome: None,
        updates: None,
    }))]);
    assert_eq!(committed.outcomes, [Ok(())]);
    engine
}

fn found_key(engine: &Arc<FakeEngine>) {
    let key = Box::new(engine.keyring.new_root_key());
    let put = ChangeKeyring::PutKey { key, replaces: None, full: false };
    assert_eq!(engine.apply(vec![Command::ChangeKeyring(Box::new(put))]).outcomes, [Ok(())]);
}

fn sign_request(change: impl FnOnce(&mut SignTokens)) -> SignTokens {
    let mut request = SignTokens {
        request: 3,
        secret: SECRET.to_vec(),
        alloc_id: ALLOC.to_bytes().to_vec(),
        task: "server".to_owned(),
        identities: vec!["default".to_owned()],
    };
    change(&mut request);
    request
}

fn token(engine: &Arc<FakeEngine>, identity: &str) -> String {
    let request = sign_request(|request| request.identities = vec![identity.to_owned()]);
    let SignedTokens { tokens, refused, .. } = sign(&engine.state(), NODE, &request);
    assert_eq!(refused, "");
    tokens.into_iter().next().expect("it is signed").token
}

/// A token of a task, as if its job asked for one: signed with the cluster's key, which is made if there is none.
pub(crate) fn token_of(engine: &Arc<FakeEngine>, alloc: AllocId, task: &str) -> String {
    if engine.state().view().store.keyring().active().is_none() {
        found_key(engine);
    }
    let view = engine.state().view();
    let (_, row) = view.store.alloc(alloc).expect("it is there");
    let (job, group) = view.store.job_of(row).expect("it has a job");
    let now_s = clock::now().0 / SECOND_NS;
    let claims = json!({
        "sub": format!("global:{}:{}:{}:{task}:default", job.key.namespace, job.key.id, group.name),
        "aud": ["nomadproject.io"],
        "iat": now_s,
        "nbf": now_s,
        "exp": now_s + 3_600,
        "jti": "1",
        "nomad_namespace": job.key.namespace.to_string(),
        "nomad_job_id": job.key.id.to_string(),
        "nomad_task": task,
        "nomad_allocation_id": alloc.to_string(),
    });
    genuine(engine, &claims)
}

fn check_token(engine: &Arc<FakeEngine>, token: &str, now: Timestamp) -> Result<String, &'static str> {
    let view = engine.state().view();
    Workloads::default().identify(token, &view.store, now).map(|workload| workload.subject.clone())
}

fn parts(token: &str) -> [Value; 2] {
    let mut parts = token.split('.').map(|part| {
        let bytes = URL_SAFE_NO_PAD.decode(part).expect("it is base64");
        serde_json::from_slice(&bytes).unwrap_or_default()
    });
    [parts.next(), parts.next()].map(|part| part.expect("it has parts"))
}

fn encoded(value: &Value) -> String {
    URL_SAFE_NO_PAD.encode(value.to_string())
}

/// Signed with the cluster's own key, whatever it says.
fn genuine(engine: &Arc<FakeEngine>, claims: &Value) -> String {
    let signer = engine.keyring.signer(&engine.state().view().store).expect("it signs");
    jwt::encode(claims, &signer.kid.to_string(), &signer.key).expect("it is signed")
}

#[test]
fn a_signed_token_is_verified_as_its_task() {
    let engine = cluster();
    let [header, claims] = parts(&token(&engine, "default"));
    let key = engine.state().view().store.keyring().active().expect("a key").id;
    assert_eq!(header, json!({ "alg": "ES256", "kid": key.to_string(), "typ": "JWT" }));
    assert_eq!(claims["sub"], "global:default:web:app:server:default");
    assert_eq!(claims["aud"], json!(["nomadproject.io"]));
    assert_eq!(claims["exp"].as_u64(), claims["iat"].as_u64().map(|iat| iat + 3_600));
    assert_eq!(
        [&claims["nomad_namespace"], &claims["nomad_job_id"], &claims["nomad_task"]],
        ["default", "web", "server"]
    );
    assert_eq!(claims["nomad_allocation_id"], ALLOC.to_string());
    assert!(claims.get("iss").is_none());
    let now = clock::now();
    assert_eq!(
        check_token(&engine, &token(&engine, "default"), now),
        Ok("global:default:web:app:server:default".into())
    );
    let meant_for_others = check_token(&engine, &token(&engine, "aws"), now);
    assert_eq!(meant_for_others, Err("it is meant for others: its audience is not nomadproject.io"));
    assert_ne!(token(&engine, "default"), token(&engine, "default"), "each has an id of its own");
}

#[test]
fn an_agent_gets_tokens_of_what_runs_on_its_node_and_of_nothing_else() {
    let engine = cluster();
    let refused = |node, requested: SignTokens| {
        let SignedTokens { request, tokens, refused, retry } = sign(&engine.state(), node, &requested);
        assert!(tokens.is_empty() && request == 3);
        (refused, retry)
    };
    let (why, retry) =
        refused(OTHER_NODE, sign_request(|requested| requested.secret = b"another secret..".to_vec()));
    assert!(why.contains("is not placed on node") && retry, "{why}");
    let (why, _) = refused(NODE, sign_request(|requested| requested.secret = b"another secret..".to_vec()));
    assert!(why.contains("the session does not speak for node"), "{why}");
    let (why, _) = refused(NodeId(77), sign_request(|_| ()));
    assert!(why.contains("the session does not speak for node"), "{why}");
    let (why, _) = refused(NODE, sign_request(|requested| requested.alloc_id = vec![1; 16]));
    assert!(why.contains("is not placed on node"), "{why}");
    let (why, retry) = refused(NODE, sign_request(|requested| requested.alloc_id = vec![1; 3]));
    assert!(why.contains("not 16 bytes long") && !retry, "{why}");
    for (task, identities) in [("plain", vec!["default"]), ("server", vec!["gcp"]), ("none", vec!["default"])]
    {
        let (why, retry) = refused(
            NODE,
            sign_request(|requested| {
                requested.task = task.to_owned();
                requested.identities = identities.into_iter().map(str::to_owned).collect();
            }),
        );
        assert!(why.contains("has no") && !retry, "{why}");
    }
    let (why, _) =
        refused(NODE, sign_request(|requested| requested.identities = vec!["default".to_owned(); 17]));
    assert!(why.contains("at most 16"), "{why}");
    engine.apply(vec![Command::EndAllocs(vec![ended()])]);
    let (why, retry) = refused(NODE, sign_request(|_| ()));
    assert!(why.contains("has ended") && !retry, "{why}");
}

fn ended() -> AllocEnd {
    AllocEnd { alloc: ALLOC, status: ClientStatus::Complete, tasks: Vec::new(), observed_at: None }
}

#[test]
fn a_token_is_nothing_once_its_allocation_has_ended_or_it_has_expired_or_its_key_is_gone() {
    let engine = cluster();
    let (token, now) = (token(&engine, "default"), clock::now());
    let workloads = Workloads::default();
    let check_token = |now| {
        let view = engine.state().view();
        workloads.identify(&token, &view.store, now).map(|_| ())
    };
    assert_eq!(check_token(now), Ok(()));
    assert_eq!(check_token(Timestamp(now.0 + 3_598 * SECOND_NS)), Ok(()));
    assert_eq!(check_token(Timestamp(now.0 + 3_601 * SECOND_NS)), Err("it has expired"));
    assert_eq!(check_token(Timestamp(now.0 - 29 * SECOND_NS)), Ok(()), "clocks differ a little");
    assert!(check_token(Timestamp(now.0 - 60 * SECOND_NS)).is_err_and(|why| why.contains("not valid yet")));
    let old = engine.state().view().store.keyring().active().expect("a key").id;
    let key = Box::new(engine.keyring.new_root_key());
    let replaces = Some(old);
    let rotated = ChangeKeyring::PutKey { key, replaces, full: false };
    assert_eq!(engine.apply(vec![Command::ChangeKeyring(Box::new(rotated))]).outcomes, [Ok(())]);
    assert_eq!(check_token(now), Ok(()), "what an old key has signed stays good");
    assert_eq!(super::public_keys(&engine.state().view().store).len(), 2);
    let removed = ChangeKeyring::RemoveKey(old);
    assert_eq!(engine.apply(vec![Command::ChangeKeyring(Box::new(removed))]).outcomes, [Ok(())]);
    assert!(check_token(now).is_err_and(|why| why.contains("key is not known")));
    let fresh = self::token(&engine, "default");
    assert!(self::check_token(&engine, &fresh, now).is_ok());
    engine.apply(vec![Command::EndAllocs(vec![ended()])]);
    assert_eq!(self::check_token(&engine, &fresh, now), Err("its allocation has ended"));
}

#[test]
fn what_no_server_has_signed_is_refused() {
    let engine = cluster();
    let (good, now) = (token(&engine, "default"), clock::now());
    let [header, claims] = parts(&good);
    let signed = good.rsplit_once('.').expect("it has parts").0.to_owned();
    let refused = |token: String| check_token(&engine, &token, now).expect_err("nobody has signed it");
    // No signature at all, whatever it is called.
    for none in ["none", "None", "NONE", "nOnE", ""] {
        let header = json!({ "alg": none, "kid": header["kid"], "typ": "JWT" });
        let unsigned = format!("{}.{}.", encoded(&header), encoded(&claims));
        assert_eq!(refused(unsigned), "it is not signed with ES256", "{none}");
    }
    // The public key as the secret of another algorithm: everybody knows it.
    let public = engine.state().view().store.keyring().active().expect("a key").signing_public.clone();
    let text = format!(
        "{}.{}",
        encoded(&json!({ "alg": "HS256", "kid": header["kid"], "typ": "JWT" })),
        encoded(&claims)
    );
    let tag = hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, &public), text.as_bytes());
    assert_eq!(refused(format!("{text}.{}", URL_SAFE_NO_PAD.encode(tag))), "it is not signed with ES256");
    let as_es256 = hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, &public), signed.as_bytes());
    assert_eq!(refused(format!("{signed}.{}", URL_SAFE_NO_PAD.encode(as_es256))), "its signature is wrong");
    for alg in ["ES384", "RS256", "EdDSA", "es256"] {
        let header = json!({ "alg": alg, "kid": header["kid"], "typ": "JWT" });
        let other =
            format!("{}.{}.{}", encoded(&header), encoded(&claims), good.rsplit_once('.').expect("parts").1);
        assert_eq!(refused(other), "it is not signed with ES256", "{alg}");
    }
    // A key of the attacker's own, under the name of one that is known, or in the token itself.
    let random = SystemRandom::new();
    let pkcs8 = EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &random).expect("a key");
    let own =
        EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, pkcs8.as_ref(), &random).expect("a key");
    let kid = header["kid"].as_str().expect("text");
    assert_eq!(refused(jwt::encode(&claims, kid, &own).expect("signed")), "its signature is wrong");
    for kid in ["", "../../etc/passwd", &kid.to_uppercase(), &RootKeyId(1).to_string(), &kid.replace('-', "")]
    {
        let swapped = jwt::encode(&claims, kid, &own).expect("signed");
        assert_eq!(refused(swapped), "its key is not known, or not any more", "{kid}");
    }
    let header = json!({ "alg": "ES256", "kid": kid, "typ": "JWT", "jwk": { "kty": "EC" } });
    let brought =
        format!("{}.{}.{}", encoded(&header), encoded(&claims), good.rsplit_once('.').expect("parts").1);
    assert_eq!(refused(brought), "its header is not one that is signed here");
    // The parts of two tokens.
    let other = token(&engine, "aws");
    let mixed = format!("{signed}.{}", other.rsplit_once('.').expect("parts").1);
    assert_eq!(refused(mixed), "its signature is wrong");
    for broken in ["", ".", "..", "...", "a.b", "a.b.c", "eyJ.e30.", &format!("{good}."), &good[1..]] {
        refused(broken.to_owned());
    }
    refused(format!("eyJ{}.e30.x", "A".repeat(1 << 20)));
    assert_eq!(refused(format!("{good}{}", "A".repeat(9_000))), "it is too long");
}

#[test]
fn all_that_a_token_must_say_is_there_and_of_the_right_type() {
    let engine = cluster();
    let now = clock::now();
    let [_, claims] = parts(&token(&engine, "default"));
    assert!(check_token(&engine, &genuine(&engine, &claims), now).is_ok());
    for (name, _) in claims.as_object().expect("an object") {
        let mut without = claims.clone();
        without.as_object_mut().expect("an object").remove(name);
        assert!(check_token(&engine, &genuine(&engine, &without), now).is_err(), "without {name}");
        for wrong in [
            Value::Null,
            json!(true),
            json!(-1),
            json!(1.5),
            json!("0"),
            json!([1]),
            json!({}),
            json!(u64::MAX),
        ] {
            let mut changed = claims.clone();
            // An id may be any text.
            if (name == "jti" || name == "sub") && wrong.is_string() {
                continue;
            }
            // What was signed long ago is good, as long as it has not expired.
            if (name == "nbf" || name == "iat") && wrong == json!(0) {
                continue;
            }
            changed[name] = wrong.clone();
            assert!(check_token(&engine, &genuine(&engine, &changed), now).is_err(), "{name} is {wrong}");
        }
    }
    for (name, other) in [
        ("nomad_job_id", "web-admin"),
        ("nomad_namespace", "prod"),
        ("nomad_task", "other"),
        ("nomad_allocation_id", "00000000-0000-0000-0000-000000000001"),
    ] {
        let mut changed = claims.clone();
        changed[name] = json!(other);
        assert!(check_token(&engine, &genuine(&engine, &changed), now).is_err(), "{name} is {other}");
    }
    for text in ["[]", "1", "\"x\"", "null", "{}"] {
        let value: Value = serde_json::from_str(text).expect("JSON");
        assert!(check_token(&engine, &genuine(&engine, &value), now).is_err(), "{text}");
    }
}

/// A few steps of a linear congruential generator: the same each time.
fn mixed(seed: &mut u64) -> usize {
    *seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
    (*seed >> 33) as usize
}

#[test]
fn no_mutation_of_a_token_is_taken_for_it() {
    let engine = cluster();
    let (good, now) = (token(&engine, "default"), clock::now());
    let view = engine.state().view();
    let (workloads, mut seed) = (Workloads::default(), 1);
    assert!(workloads.identify(&good, &view.store, now).is_ok());
    const LETTERS: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_.= \n{}\"";
    let mut tried = 0;
    while tried < 10_000 {
        let mut bytes = good.clone().into_bytes();
        for _ in 0..=mixed(&mut seed) % 3 {
            let (at, letter) = (mixed(&mut seed) % bytes.len(), LETTERS[mixed(&mut seed) % LETTERS.len()]);
            match mixed(&mut seed) % 5 {
                0 => bytes[at] = letter,
                1 => bytes.insert(at, letter),
                2 if bytes.len() > 1 => drop(bytes.remove(at)),
                3 => bytes.truncate(at.max(1)),
                _ => {
                    let other = mixed(&mut seed) % good.len().min(bytes.len());
                    bytes.swap(at, other);
                }
            }
        }
        let changed = String::from_utf8(bytes).expect("plain letters");
        if changed == good {
            continue;
        }
        tried += 1;
        assert!(workloads.identify(&changed, &view.store, now).is_err(), "{changed}");
    }
    assert_eq!(Store::default().keyring().keys().len(), 0);
    assert!(workloads.identify(&good, &Store::default(), now).is_err(), "of another cluster");
}

/// Lets the tasks of the job read and list all variables below a path of the default namespace.
pub(crate) fn let_read(engine: &Arc<FakeEngine>, below: &str) {
    let rules = format!(
        "namespace \"default\" {{ variables {{ path \"{below}/*\" {{ capabilities = [\"read\", \"list\"] }} }} }}"
    );
    let job = PolicyJob { namespace: "default".into(), job: "web".into(), ..PolicyJob::default() };
    let policy = AclPolicy {
        name: "readers".into(),
        description: String::new(),
        rules,
        create_index: Index(0),
        modify_index: Index(0),
        job: Some(Box::new(job)),
    };
    let put = Command::ChangeAcl(Box::new(ChangeAcl::PutPolicy(Box::new(policy))));
    assert_eq!(engine.apply(vec![put]).outcomes, [Ok(())]);
}

/// Writes a variable with one item.
pub(crate) fn put(engine: &Arc<FakeEngine>, path: &str, value: &str) {
    put_items(engine, path, [("value".to_owned(), value.to_owned())].into());
}

/// Writes a variable with these items.
pub(crate) fn put_items(engine: &Arc<FakeEngine>, path: &str, items: BTreeMap<String, String>) {
    let key = VariableKey::new("default", path);
    let view = engine.state().view();
    let (root_key, sealed) = engine.keyring.seal(view.store.keyring(), &key, &items).expect("sealed");
    let (at, index) = (Timestamp(0), Index(0));
    let variable = Variable {
        key,
        root_key,
        sealed,
        created_at: at,
        modified_at: at,
        create_index: index,
        modify_index: index,
    };
    let put = ChangeVariable::Put(Box::new(variable), None);
    assert_eq!(engine.apply(vec![Command::ChangeVariable(Box::new(put))]).outcomes, [Ok(())]);
}

pub(crate) fn secrets_request(task: &str) -> ReadSecrets {
    let (secret, alloc_id) = (SECRET.to_vec(), ALLOC.to_bytes().to_vec());
    ReadSecrets { request: 4, secret, alloc_id, task: task.to_owned() }
}

/// What a task is given, or why it is not, and whether that may pass.
fn given(
    engine: &Arc<FakeEngine>,
    acl: bool,
    node: NodeId,
    requested: &ReadSecrets,
) -> Result<String, (String, bool)> {
    let state = crate::shared::State { policy: crate::access::policy(acl), ..engine.state() };
    let SecretsRead { request, secrets, refused, retry, .. } = read_secrets(&state, node, requested).response;
    assert_eq!(request, 4);
    if !refused.is_empty() {
        assert!(secrets.is_empty());
        return Err((refused, retry));
    }
    Ok(secrets.iter().map(|secret| format!("{}: {:?}", secret.name, secret.items)).collect())
}

#[test]
fn a_task_is_given_what_its_job_names_and_it_may_read() {
    let engine = cluster();
    let missing = given(&engine, true, NODE, &secrets_request("plain")).expect_err("it is not there").0;
    assert!(
        missing.contains("there is no variable \"nomad/jobs/web/app/plain\" in namespace \"default\""),
        "{missing}"
    );
    put(&engine, "nomad/jobs/web/app/plain", "mine");
    put(&engine, "nomad/jobs/other", "theirs");
    let own = Ok("own: {\"value\": \"mine\"}".to_owned());
    assert_eq!(given(&engine, true, NODE, &secrets_request("plain")), own);
    assert_eq!(given(&engine, true, NODE, &secrets_request("server")), Ok(String::new()));
    let (denied, retry) = given(&engine, true, NODE, &secrets_request("greedy")).expect_err("another's");
    assert!(
        denied.contains("may not read variable \"nomad/jobs/other\"") && !denied.contains("theirs"),
        "{denied}"
    );
    assert!(retry, "a policy may be attached");
    assert_eq!(
        given(&engine, false, NODE, &secrets_request("greedy")),
        Ok("others: {\"value\": \"theirs\"}".to_owned())
    );
}

#[test]
fn an_agent_is_given_secrets_of_what_runs_on_its_node_and_of_nothing_else() {
    let engine = cluster();
    put(&engine, "nomad/jobs/web/app/plain", "mine");
    let refused = |node, change: fn(&mut ReadSecrets)| {
        let mut request = secrets_request("plain");
        change(&mut request);
        given(&engine, true, node, &request).expect_err("it is refused").0
    };
    let speaks = refused(OTHER_NODE, |_| {});
    assert!(speaks.contains("does not speak"), "{speaks}");
    let placed = refused(OTHER_NODE, |request| request.secret = b"another secret..".to_vec());
    assert!(placed.contains("is not placed on node"), "{placed}");
    assert!(refused(NODE, |request| request.alloc_id = vec![1; 16]).contains("is not placed on node"));
    assert!(refused(NODE, |request| request.alloc_id = vec![1; 3]).contains("not 16 bytes"));
    assert!(refused(NODE, |request| request.task = "x".repeat(1_024)).contains("has no task"));
    for long in [
        |request: &mut ReadSecrets| request.task = "x".repeat(1_025),
        |request: &mut ReadSecrets| request.secret = vec![0; 1_025],
    ] {
        assert_eq!(refused(NODE, long), "no name has more than 1024 bytes");
    }
    engine.apply(vec![Command::EndAllocs(vec![ended()])]);
    assert!(refused(NODE, |_| {}).contains("has ended"));
}
