//! Reads the variables that templates of a task show, for the agent that renders them: as far as the task's identity may read
//! them, and only if they differ from what the agent has.

use std::fmt;

use berth_api::agent::{
    TEMPLATE_VARIABLE_BYTES_MAX, TEMPLATE_VARIABLES_MAX, VariableContent, VariableQuery, VariableResult,
    VariablesWatched, WatchVariables,
};
use berth_model::{
    NodeId,
    store::Store,
    variable::{VARIABLE_PATH_MAX, Variable, VariableKey},
};
use prost::{Message, length_delimiter_len};
use sha2::{Digest, Sha256};

use super::placed_task::{PlacedTask, TaskRefusal, TaskRequest, no_longer_than_a_name, speaks_for};
use crate::{
    WatchKey,
    access::{Capability, Realm, Rights},
    shared::{State, View},
};

/// What names what an agent has seen, in bytes.
const SEEN_BYTES: usize = 32;

/// What an agent is answered, and what there is to record of it.
pub(crate) struct TemplateAnswer {
    /// The response to the agent.
    pub response: VariablesWatched,
    /// Those whose items the answer contains.
    pub variables: Vec<VariableKey>,
    /// Some are not for the task.
    pub denied: bool,
}

/// The answer to whoever gets none.
pub(crate) fn not_watched(request: u64, refused: String, retry: bool) -> VariablesWatched {
    VariablesWatched { request, refused, retry, ..VariablesWatched::default() }
}

/// Whether a request is one that may be kept until there is something to answer: it is bounded, and whoever asks speaks for the node.
/// Nothing waits for that, and nothing of another request is kept.
///
/// # Errors
/// The answer, where the request is refused.
pub(crate) fn may_wait(
    state: &State,
    node: NodeId,
    request: &WatchVariables,
) -> Result<(), VariablesWatched> {
    let speaks = check_bounds(request).and_then(|()| speaks_for(&state.view().store, node, &request.secret));
    speaks.map(drop).map_err(|refusal| not_watched(request.request, refusal.text, refusal.retry))
}

/// What to wait for until the answer to an agent's request is another one.
///
/// # Errors
/// The answer, where the request is refused.
pub(crate) fn keys_of(
    state: &State,
    node: NodeId,
    request: &WatchVariables,
) -> Result<Vec<WatchKey>, VariablesWatched> {
    let view = state.view();
    let refuse = |refusal: TaskRefusal| not_watched(request.request, refusal.text, refusal.retry);
    let placed = find(&view, node, request).map_err(refuse)?;
    let key = |one: &VariableQuery| match one.is_list {
        true => WatchKey::VariablesOf(namespace(one, &placed).into()),
        false => WatchKey::Variable(VariableKey::new(namespace(one, &placed), &one.path)),
    };
    let mut keys: Vec<WatchKey> = request.queries.iter().map(key).collect();
    // Rights come and go, and with the allocation's end there is nobody who is to know.
    keys.extend([WatchKey::AclRules, WatchKey::Alloc(placed.alloc)]);
    Ok(keys)
}

/// Checks the bounds of a request, without the state.
fn check_bounds(request: &WatchVariables) -> Result<(), TaskRefusal> {
    let WatchVariables { secret, alloc_id, task, queries, seen, .. } = request;
    if queries.len() > TEMPLATE_VARIABLES_MAX {
        return Err(TaskRefusal::permanent(format!(
            "the templates of a task ask for at most {TEMPLATE_VARIABLES_MAX} variables and lists"
        )));
    }
    let names = queries.iter().map(|one| one.namespace.len());
    no_longer_than_a_name(names.chain([task.len(), secret.len(), alloc_id.len()]))?;
    if queries.iter().any(|one| one.path.len() > VARIABLE_PATH_MAX) {
        return Err(TaskRefusal::permanent(format!(
            "the path of a variable has at most {VARIABLE_PATH_MAX} bytes"
        )));
    }
    if !matches!(seen.len(), 0 | SEEN_BYTES) {
        return Err(TaskRefusal::permanent(format!("what was seen has a name of {SEEN_BYTES} bytes")));
    }
    Ok(())
}

fn find<'v>(view: &'v View, node: NodeId, request: &WatchVariables) -> Result<PlacedTask<'v>, TaskRefusal> {
    check_bounds(request)?;
    let WatchVariables { secret, alloc_id, task, .. } = request;
    let placed = PlacedTask::find(&view.store, &TaskRequest { node, secret, alloc_id, task })?;
    // Otherwise an agent could read all that its tasks may read, without a template that needs it.
    if placed.task.templates.is_empty() {
        return Err(TaskRefusal::permanent(format!("task {:?} has no templates", placed.task.name)));
    }
    Ok(placed)
}

fn namespace<'a>(one: &'a VariableQuery, placed: &PlacedTask<'a>) -> &'a str {
    if one.namespace.is_empty() { &placed.job.key.namespace } else { &one.namespace }
}

/// Answers an agent's request, on a session for a node; nothing where the agent has seen all of it. Takes its time: to be called
/// where that does no harm.
pub(crate) fn read_watched(state: &State, node: NodeId, request: &WatchVariables) -> Option<TemplateAnswer> {
    match read_if_changed(state, node, request) {
        Ok(answer) => answer,
        Err(TaskRefusal { text, retry, denied, .. }) => {
            tracing::info!(%node, text, "gave an agent no variables for templates");
            let response = not_watched(request.request, text, retry);
            Some(TemplateAnswer { response, variables: Vec::new(), denied })
        }
    }
}

fn read_if_changed(
    state: &State,
    node: NodeId,
    requested: &WatchVariables,
) -> Result<Option<TemplateAnswer>, TaskRefusal> {
    let view = state.view();
    let placed = find(&view, node, requested)?;
    let rights = state.policy.rights_of_task(&placed.name(), view.store.acl());
    let rights = rights.map_err(|bad| TaskRefusal::for_now(bad.to_string()))?;
    let reader = VariableReader { view: &view, placed: &placed, rights: &rights };
    let visible: Vec<VisibleVariables<'_>> = requested.queries.iter().map(|one| reader.see(one)).collect();
    let digest = digest(&view.store, &visible);
    if digest == requested.seen {
        return Ok(None);
    }
    let denied = visible.iter().any(|one| matches!(one, VisibleVariables::Denied(_)));
    let index = view.store.index().0;
    let (found, variables) = match decrypt(state, &view.store, visible) {
        Ok(results) => results,
        Err(WithheldReason::TooLarge) => {
            // It holds until something is written: whoever says so as what it has seen is not answered again before.
            let response = not_watched(requested.request, WithheldReason::TooLarge.to_string(), true);
            let response = VariablesWatched { seen: digest, index, ..response };
            return Ok(Some(TemplateAnswer { response, variables: Vec::new(), denied }));
        }
        Err(withheld) => return Err(TaskRefusal::for_now(withheld.to_string())),
    };
    let request = requested.request;
    let response = VariablesWatched { request, found, seen: digest, index, ..VariablesWatched::default() };
    Ok(Some(TemplateAnswer { response, variables, denied }))
}

/// Why a task is not shown what it may see.
#[derive(Debug)]
enum WithheldReason {
    TooLarge,
    /// In words, why it is not decrypted.
    Sealed(String),
}

impl fmt::Display for WithheldReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooLarge => write!(
                f,
                "what the templates of a task show of variables takes more than {TEMPLATE_VARIABLE_BYTES_MAX} bytes"
            ),
            Self::Sealed(why) => f.write_str(why),
        }
    }
}

/// The results for all queries of a task, and the variables that were decrypted for them.
fn decrypt(
    state: &State,
    store: &Store,
    all: Vec<VisibleVariables<'_>>,
) -> Result<(Vec<VariableResult>, Vec<VariableKey>), WithheldReason> {
    // The encrypted size is a lower bound of the size in the response: what cannot fit is not decrypted at all.
    AnswerBudget::default().take(all.iter().map(VisibleVariables::sealed_bytes).sum())?;
    let (mut found, mut variables, mut budget) = (Vec::new(), Vec::new(), AnswerBudget::default());
    for visible in all {
        found.push(match visible {
            VisibleVariables::Denied(why) => VariableResult { variables: Vec::new(), denied: why },
            VisibleVariables::Variable(variable) => {
                let mut contents = Vec::new();
                if let Some(variable) = variable {
                    let items = state.keyring.unseal(store.keyring(), variable);
                    let items = items.map_err(|error| WithheldReason::Sealed(error.to_string()))?;
                    variables.push(variable.key.clone());
                    contents.push(budget.hold(VariableContent { items, ..metadata(variable) })?);
                }
                VariableResult { variables: contents, denied: String::new() }
            }
            VisibleVariables::List(all) => {
                let contents = all.into_iter().map(|variable| budget.hold(metadata(variable)));
                VariableResult { variables: contents.collect::<Result<_, _>>()?, denied: String::new() }
            }
        });
    }
    Ok((found, variables))
}

/// Remaining bytes of an encoded answer: a frame over the limit would end the connection of the node.
struct AnswerBudget(usize);

impl Default for AnswerBudget {
    fn default() -> Self {
        Self(TEMPLATE_VARIABLE_BYTES_MAX)
    }
}

impl AnswerBudget {
    fn take(&mut self, bytes: usize) -> Result<(), WithheldReason> {
        self.0 = self.0.checked_sub(bytes).ok_or(WithheldReason::TooLarge)?;
        Ok(())
    }

    /// Takes what a variable is sent with: a tag, its length, and all of it.
    fn hold(&mut self, content: VariableContent) -> Result<VariableContent, WithheldReason> {
        let bytes = content.encoded_len();
        self.take(1 + length_delimiter_len(bytes) + bytes)?;
        Ok(content)
    }
}

fn metadata(variable: &Variable) -> VariableContent {
    VariableContent {
        namespace: variable.key.namespace.to_string(),
        path: variable.key.path.to_string(),
        create_index: variable.create_index.0,
        modify_index: variable.modify_index.0,
        create_time: variable.created_at.0,
        modify_time: variable.modified_at.0,
        ..VariableContent::default()
    }
}

/// The result of one query by the task's rights, before anything is decrypted.
enum VisibleVariables<'v> {
    Denied(String),
    Variable(Option<&'v Variable>),
    List(Vec<&'v Variable>),
}

impl VisibleVariables<'_> {
    fn sealed_bytes(&self) -> usize {
        if let Self::Variable(Some(variable)) = self { variable.sealed.len() } else { 0 }
    }
}

struct VariableReader<'v> {
    view: &'v View,
    placed: &'v PlacedTask<'v>,
    rights: &'v Rights,
}

impl<'v> VariableReader<'v> {
    fn see(&self, one: &VariableQuery) -> VisibleVariables<'v> {
        let (namespace, path) = (namespace(one, self.placed), &*one.path);
        let may = |capability, path| self.rights.grant(capability, Realm::Variable { namespace, path });
        let variables = self.view.store.variables();
        if one.is_list {
            let all = variables.range(VariableKey::new(namespace, path)..);
            let all = all.take_while(|(key, _)| *key.namespace == *namespace && key.path.starts_with(path));
            let all = all.map(|(_, variable)| &**variable);
            return VisibleVariables::List(
                all.filter(|one| may(Capability::VariablesList, &one.key.path)).collect(),
            );
        }
        if !may(Capability::VariablesRead, path) {
            let (job, of_job) = (self.placed.name().job.id, &self.placed.job.key.namespace);
            return VisibleVariables::Denied(format!(
                "the task may not read variable {path:?} in namespace {namespace:?}, which needs {}: keep it below nomad/jobs/{job}, \
                 or attach a policy that grants it with `berth acl policy apply -namespace {of_job} -job {job}`",
                Capability::VariablesRead.word()
            ));
        }
        VisibleVariables::Variable(
            variables.get(&VariableKey::new(namespace, path)).map(|variable| &**variable),
        )
    }
}

/// Names what is seen by where it was last written: nothing of what is in it, for agents keep this on disk. An index is one of its
/// cluster, and of that until a state is restored: what was seen is read again then, and sent with the index that holds there.
fn digest(store: &Store, all: &[VisibleVariables<'_>]) -> Vec<u8> {
    let mut hash = Sha256::new();
    hash.update(store.cluster().id.to_be_bytes());
    hash.update(store.restored_at().0.to_be_bytes());
    for seen in all {
        let (kind, variables): (u8, &[&Variable]) = match seen {
            VisibleVariables::Denied(_) => (0, &[]),
            VisibleVariables::Variable(None) => (1, &[]),
            VisibleVariables::Variable(Some(variable)) => (2, &[*variable]),
            VisibleVariables::List(all) => (3, all),
        };
        hash.update([kind]);
        hash.update((variables.len() as u64).to_be_bytes());
        for variable in variables {
            for text in [&variable.key.namespace, &variable.key.path] {
                hash.update((text.len() as u64).to_be_bytes());
                hash.update(text.as_bytes());
            }
            hash.update(variable.modify_index.0.to_be_bytes());
        }
    }
    hash.finalize().to_vec()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use berth_api::agent::{Down, DownFrame, FRAME_BYTES_MAX};
    use berth_model::{
        command::{Command, RestorePart},
        store::snapshot,
        variable::{ChangeVariable, SEALED_VARIABLE_MAX},
    };

    use super::*;
    use crate::{
        access,
        nomad::tests::fake_engine::FakeEngine,
        workload::tests::{ALLOC, NODE, SECRET, cluster, let_read, put, put_items},
    };

    fn watch_request(task: &str, paths: &[&str]) -> WatchVariables {
        let one = |path: &&str| match path.strip_suffix('*') {
            Some(prefix) => {
                VariableQuery { path: prefix.to_owned(), is_list: true, ..VariableQuery::default() }
            }
            None => VariableQuery { path: (*path).to_owned(), ..VariableQuery::default() },
        };
        WatchVariables {
            request: 4,
            secret: SECRET.to_vec(),
            alloc_id: ALLOC.to_bytes().to_vec(),
            task: task.to_owned(),
            queries: paths.iter().map(one).collect(),
            ..WatchVariables::default()
        }
    }

    fn state(engine: &Arc<FakeEngine>) -> State {
        State { policy: access::policy(true), ..engine.state() }
    }

    /// What each of what was asked for is.
    fn shown(response: &VariablesWatched) -> Vec<String> {
        let one = |found: &VariableResult| {
            let all: Vec<String> = found
                .variables
                .iter()
                .map(|given| format!("{}{:?}", given.path, given.items.values().collect::<Vec<_>>()))
                .collect();
            if found.denied.is_empty() { all.join(" ") } else { "denied".to_owned() }
        };
        response.found.iter().map(one).collect()
    }

    #[test]
    fn an_agent_gets_visible_variables_once_and_again_when_they_change() {
        let engine = cluster();
        put(&engine, "nomad/jobs/web/app/plain", "mine");
        put(&engine, "nomad/jobs/other", "theirs");
        let paths = ["nomad/jobs/web/app/plain", "nomad/jobs/other", "nomad/jobs/web", "nomad/jobs*"];
        let mut request = watch_request("plain", &paths);
        let answer = read_watched(&state(&engine), NODE, &request).expect("it has seen nothing");
        assert_eq!(
            shown(&answer.response),
            ["nomad/jobs/web/app/plain[\"mine\"]", "denied", "", "nomad/jobs/web/app/plain[]"]
        );
        assert!(answer.denied && answer.variables.len() == 1);
        assert!(answer.response.found[1].denied.contains("may not read variable \"nomad/jobs/other\""));
        request.seen = answer.response.seen;
        assert!(read_watched(&state(&engine), NODE, &request).is_none(), "nothing is new");
        put(&engine, "nomad/jobs/other", "again");
        assert!(read_watched(&state(&engine), NODE, &request).is_none(), "it is not for the task");
        put(&engine, "nomad/jobs/web", "new");
        let answer = read_watched(&state(&engine), NODE, &request).expect("it is new");
        assert_eq!(answer.response.found[2].variables[0].items["value"], "new");
        assert!(answer.response.index > 0);
        request.seen = answer.response.seen;
        put(&engine, "nomad/jobs/web", "new");
        assert!(read_watched(&state(&engine), NODE, &request).is_some(), "it was written again");
    }

    /// A variable with so many items of three letters that have no value: nothing is larger on its way, for what it holds.
    fn put_tiny(engine: &Arc<FakeEngine>, path: &str, items: usize) {
        const LETTERS: &[u8] = b"abcdefghijklmnopqrstuvwxyz0123456789";
        let letter = |number: usize| char::from(LETTERS[number % LETTERS.len()]);
        let name = |number: usize| [number, number / 36, number / 1_296].map(letter).iter().collect();
        put_items(engine, path, (0..items).map(|number| (name(number), String::new())).collect());
    }

    #[test]
    fn an_answer_fits_a_frame_however_small_what_it_holds_is() {
        let engine = cluster();
        let_read(&engine, "nomad/jobs/web");
        let paths: Vec<String> = (0..17).map(|number| format!("nomad/jobs/web/{number}")).collect();
        paths.iter().for_each(|path| put_tiny(&engine, path, 21_000));
        let paths: Vec<&str> = paths.iter().map(String::as_str).collect();
        let read_watched =
            |count: usize| read_watched(&state(&engine), NODE, &watch_request("plain", &paths[..count]));
        let (mut given, mut refused) = (0, String::new());
        for count in 13..=paths.len() {
            let response = read_watched(count).expect("it is answered").response;
            let is_given = response.refused.is_empty();
            refused.clone_from(&response.refused);
            let frame = DownFrame { session: u32::MAX, message: Some(Down::Watched(response)) };
            let bytes = frame.encoded_len();
            assert!(bytes <= FRAME_BYTES_MAX / 2 + 1_024, "{count} variables take {bytes} bytes");
            given += usize::from(is_given);
        }
        assert!((1..=3).contains(&given), "{given} were given");
        assert!(refused.contains("takes more than 2097152 bytes"), "{refused}");
    }

    #[test]
    fn a_list_counts_all_that_is_sent_of_it() {
        let engine = cluster();
        let_read(&engine, "nomad/jobs/web");
        (0..300).for_each(|number| put(&engine, &format!("nomad/jobs/web/{number}"), "x"));
        let lists = vec!["nomad/jobs/web*"; 64];
        let response = read_watched(&state(&engine), NODE, &watch_request("plain", &lists))
            .expect("it is answered")
            .response;
        let frame = DownFrame { session: u32::MAX, message: Some(Down::Watched(response)) };
        let response = frame.encoded_len();
        assert!(
            (TEMPLATE_VARIABLE_BYTES_MAX / 4..TEMPLATE_VARIABLE_BYTES_MAX).contains(&response),
            "{response} bytes"
        );
        let one = response / 64 / 300;
        let more = TEMPLATE_VARIABLE_BYTES_MAX / one / 64 + 10;
        (300..more).for_each(|number| put(&engine, &format!("nomad/jobs/web/{number}"), "x"));
        let response = read_watched(&state(&engine), NODE, &watch_request("plain", &lists))
            .expect("it is answered")
            .response;
        assert!(
            response.refused.contains("takes more than 2097152 bytes"),
            "{more} of {one} bytes: {}",
            response.refused
        );
    }

    #[test]
    fn what_is_too_much_is_refused_before_anything_is_decrypted() {
        let engine = cluster();
        put(&engine, "nomad/jobs/web", "mine");
        let view = engine.state().view();
        let good =
            view.store.variables().get(&VariableKey::new("default", "nomad/jobs/web")).expect("it is there");
        let_read(&engine, "nomad/jobs/web");
        let paths: Vec<String> = (0..17).map(|number| format!("nomad/jobs/web/{number}")).collect();
        for path in &paths {
            let (key, sealed) = (VariableKey::new("default", path), vec![0; SEALED_VARIABLE_MAX]);
            let put = ChangeVariable::Put(Box::new(Variable { key, sealed, ..Variable::clone(good) }), None);
            assert_eq!(engine.apply(vec![Command::ChangeVariable(Box::new(put))]).outcomes, [Ok(())]);
        }
        let refused = |count: usize| {
            let paths: Vec<&str> = paths[..count].iter().map(String::as_str).collect();
            read_watched(&state(&engine), NODE, &watch_request("plain", &paths))
                .expect("it is answered")
                .response
                .refused
        };
        assert!(refused(1).contains("damaged"), "{}", refused(1));
        assert!(refused(17).contains("takes more than 2097152 bytes"), "{}", refused(17));
    }

    #[test]
    fn encrypted_items_take_no_more_than_what_is_sent_of_them() {
        let engine = cluster();
        let texts = |name: usize, value: usize| ("n".repeat(name), "v".repeat(value));
        let path = "nomad/jobs/web";
        for lengths in [
            vec![],
            vec![(1, 0)],
            vec![(1, 0), (2, 1), (23, 24), (24, 127), (127, 128), (128, 255), (255, 256), (256, 1)],
            vec![(16_383, 16_384), (1, 30_000)],
            vec![(1, 65_535)],
        ] {
            put_items(&engine, path, lengths.iter().map(|(name, value)| texts(*name, *value)).collect());
            let answer = read_watched(&state(&engine), NODE, &watch_request("plain", &[path]))
                .expect("it is answered");
            let view = engine.state().view();
            let variable =
                view.store.variables().get(&VariableKey::new("default", path)).expect("it is there");
            // What is sent beside the items is at least what is put around them where they are kept.
            let (sent, kept) = (answer.response.found[0].variables[0].encoded_len(), variable.sealed.len());
            assert!(kept <= sent, "{kept} bytes are kept, {sent} are sent of {lengths:?}");
        }
    }

    #[test]
    fn a_replaced_state_is_read_again() {
        let engine = cluster();
        put(&engine, "nomad/jobs/web", "mine");
        let mut request = watch_request("plain", &["nomad/jobs/web"]);
        request.seen =
            read_watched(&state(&engine), NODE, &request).expect("it has seen nothing").response.seen;
        assert_eq!(request.seen.len(), SEEN_BYTES);
        let (mut records, view) = (Vec::new(), engine.state().view());
        snapshot::write_records(&view.store, &mut records).expect("it is written");
        let granted = view.store.granted();
        let part = RestorePart { number: 0, bytes: records, granted, revives_tokens: None };
        assert_eq!(engine.apply(vec![Command::RestorePart(part)]).outcomes, [Ok(())]);
        let response = read_watched(&state(&engine), NODE, &request)
            .expect("where it was written means something else now")
            .response;
        assert_eq!(response.found[0].variables[0].items["value"], "mine");
    }

    #[test]
    fn variables_are_sent_only_for_own_tasks_with_templates() {
        let engine = cluster();
        put(&engine, "nomad/jobs/web", "mine");
        let refused = |node, change: fn(&mut WatchVariables)| {
            let mut request = watch_request("plain", &["nomad/jobs/web"]);
            change(&mut request);
            let answer = read_watched(&state(&engine), node, &request).expect("it is answered");
            assert!(answer.response.found.is_empty() && keys_of(&state(&engine), node, &request).is_err());
            let may_wait = may_wait(&state(&engine), node, &request);
            let is_about_the_task = answer.response.refused.contains("has no templates");
            assert_eq!(may_wait, if is_about_the_task { Ok(()) } else { Err(answer.response.clone()) });
            answer.response.refused
        };
        assert!(refused(NodeId(8), |_| {}).contains("does not speak"));
        assert!(refused(NODE, |request| request.secret = vec![1; 16]).contains("does not speak"));
        assert!(refused(NODE, |request| request.task = "server".into()).contains("has no templates"));
        assert!(
            refused(NODE, |request| request.queries = vec![VariableQuery::default(); 65])
                .contains("at most 64")
        );
        assert!(refused(NODE, |request| request.queries[0].path = "x".repeat(129)).contains("at most 128"));
        for long in [
            |request: &mut WatchVariables| request.queries[0].namespace = "x".repeat(1_025),
            |request: &mut WatchVariables| request.task = "x".repeat(1_025),
            |request: &mut WatchVariables| request.secret = vec![0; 1_025],
            |request: &mut WatchVariables| request.alloc_id = vec![0; 1_025],
        ] {
            assert!(refused(NODE, long).contains("1024 bytes"));
        }
        assert!(refused(NODE, |request| request.seen = vec![0; 33]).contains("32 bytes"));
    }
}
