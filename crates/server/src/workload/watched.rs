//! What templates of a task show of variables, for the agent that renders them: by what the task itself may read, and only once that
//! is other than what the agent has seen.

use berth_api::agent::{
    TEMPLATE_VARIABLE_BYTES_MAX, TEMPLATE_VARIABLES_MAX, VariableAsked, VariableFound, VariableGiven,
    VariablesWatched, WatchVariables,
};
use berth_model::{
    NodeId,
    variable::{VARIABLE_PATH_MAX, Variable, VariableKey},
};
use sha2::{Digest, Sha256};

use super::placed::{Asked, Placed, Refusal, no_longer_than_a_name};
use crate::{
    WatchKey,
    access::{Capability, Realm, Rights},
    shared::{State, View},
};

/// What an entry of a list counts besides its texts, in bytes.
const ENTRY_BYTES: usize = 64;

/// What an agent is answered, and what there is to record of it.
pub(crate) struct Looking {
    /// The answer.
    pub told: VariablesWatched,
    /// Those whose items the answer contains.
    pub variables: Vec<VariableKey>,
    /// Some are not for the task.
    pub denied: bool,
}

/// The answer to whoever gets none.
pub(crate) fn not_watched(request: u64, refused: String, retry: bool) -> VariablesWatched {
    VariablesWatched { request, refused, retry, ..VariablesWatched::default() }
}

/// What to wait for until the answer to an agent's request is another one.
///
/// # Errors
/// The answer, where the request is refused.
pub(crate) fn keys_of(
    state: &State,
    node: NodeId,
    asked: &WatchVariables,
) -> Result<Vec<WatchKey>, VariablesWatched> {
    let view = state.view();
    let refused = |refusal: Refusal| not_watched(asked.request, refusal.text, refusal.retry);
    let placed = find(&view, node, asked).map_err(refused)?;
    let key = |one: &VariableAsked| match one.is_list {
        true => WatchKey::Variables,
        false => WatchKey::Variable(VariableKey::new(namespace(one, &placed), &one.path)),
    };
    let mut keys: Vec<WatchKey> = asked.asked.iter().map(key).collect();
    // Rights come and go.
    keys.push(WatchKey::Acl);
    Ok(keys)
}

fn find<'v>(view: &'v View, node: NodeId, asked: &WatchVariables) -> Result<Placed<'v>, Refusal> {
    let WatchVariables { secret, alloc_id, task, asked, .. } = asked;
    if asked.len() > TEMPLATE_VARIABLES_MAX {
        return Err(Refusal::for_good(format!(
            "the templates of a task ask for at most {TEMPLATE_VARIABLES_MAX} variables and lists"
        )));
    }
    no_longer_than_a_name(asked.iter().map(|one| one.namespace.len()))?;
    if asked.iter().any(|one| one.path.len() > VARIABLE_PATH_MAX) {
        return Err(Refusal::for_good(format!(
            "the path of a variable has at most {VARIABLE_PATH_MAX} bytes"
        )));
    }
    let placed = Placed::find(&view.store, &Asked { node, secret, alloc_id, task })?;
    // Else an agent could read whatever its tasks may, also where no job wants that.
    if placed.task.templates.is_empty() {
        return Err(Refusal::for_good(format!("task {:?} has no templates", placed.task.name)));
    }
    Ok(placed)
}

fn namespace<'a>(one: &'a VariableAsked, placed: &Placed<'a>) -> &'a str {
    if one.namespace.is_empty() { &placed.job.key.namespace } else { &one.namespace }
}

/// Answers an agent's request, on a session for a node; nothing where the agent has seen all of it. Takes its time: to be called
/// where that does no harm.
pub(crate) fn look(state: &State, node: NodeId, asked: &WatchVariables) -> Option<Looking> {
    match looked(state, node, asked) {
        Ok(looking) => looking,
        Err(Refusal { text, retry, denied, .. }) => {
            tracing::info!(%node, text, "gave an agent no variables for templates");
            let told = not_watched(asked.request, text, retry);
            Some(Looking { told, variables: Vec::new(), denied })
        }
    }
}

fn looked(state: &State, node: NodeId, asked: &WatchVariables) -> Result<Option<Looking>, Refusal> {
    let view = state.view();
    let placed = find(&view, node, asked)?;
    let rights = state.policy.rights_of_task(&placed.name(), view.store.acl());
    let rights = rights.map_err(|bad| Refusal::for_now(bad.to_string()))?;
    let looker = Looker { view: &view, placed: &placed, rights: &rights };
    let seen: Vec<Seen<'_>> = asked.asked.iter().map(|one| looker.see(one)).collect();
    let digest = digest(&seen);
    if digest == asked.seen {
        return Ok(None);
    }
    let denied = seen.iter().any(|seen| matches!(seen, Seen::Denied(_)));
    let (mut found, mut variables, mut room) = (Vec::new(), Vec::new(), TEMPLATE_VARIABLE_BYTES_MAX);
    for seen in seen {
        let given = match seen {
            Seen::Denied(why) => VariableFound { variables: Vec::new(), denied: why },
            Seen::Variable(variable) => {
                let mut given = Vec::new();
                if let Some(variable) = variable {
                    let items = state.keyring.unseal(view.store.keyring(), variable);
                    let items = items.map_err(|error| Refusal::for_now(error.to_string()))?;
                    variables.push(variable.key.clone());
                    let bytes = items.iter().map(|(name, value)| name.len() + value.len()).sum();
                    take(&mut room, bytes)?;
                    given.push(VariableGiven { items, ..metadata(variable) });
                }
                VariableFound { variables: given, denied: String::new() }
            }
            Seen::List(all) => {
                take(&mut room, all.iter().map(|one| one.key.path.len() + ENTRY_BYTES).sum())?;
                VariableFound { variables: all.into_iter().map(metadata).collect(), denied: String::new() }
            }
        };
        found.push(given);
    }
    let (request, index) = (asked.request, view.store.index().0);
    let told = VariablesWatched { request, found, seen: digest, index, ..VariablesWatched::default() };
    Ok(Some(Looking { told, variables, denied }))
}

fn take(room: &mut usize, bytes: usize) -> Result<(), Refusal> {
    *room = room.checked_sub(bytes).ok_or_else(|| {
        Refusal::for_now(format!(
            "the variables that the templates of a task show have more than {TEMPLATE_VARIABLE_BYTES_MAX} bytes"
        ))
    })?;
    Ok(())
}

fn metadata(variable: &Variable) -> VariableGiven {
    VariableGiven {
        namespace: variable.key.namespace.to_string(),
        path: variable.key.path.to_string(),
        create_index: variable.create_index.0,
        modify_index: variable.modify_index.0,
        create_time: variable.created_at.0,
        modify_time: variable.modified_at.0,
        ..VariableGiven::default()
    }
}

/// What a task may see of what it asks for, before anything is decrypted.
enum Seen<'v> {
    Denied(String),
    Variable(Option<&'v Variable>),
    List(Vec<&'v Variable>),
}

struct Looker<'v> {
    view: &'v View,
    placed: &'v Placed<'v>,
    rights: &'v Rights,
}

impl<'v> Looker<'v> {
    fn see(&self, one: &VariableAsked) -> Seen<'v> {
        let (namespace, path) = (namespace(one, self.placed), &*one.path);
        let may = |capability, path| self.rights.grant(capability, Realm::Variable { namespace, path });
        let variables = self.view.store.variables();
        if one.is_list {
            let all = variables.range(VariableKey::new(namespace, path)..);
            let all = all.take_while(|(key, _)| *key.namespace == *namespace && key.path.starts_with(path));
            let all = all.map(|(_, variable)| &**variable);
            return Seen::List(all.filter(|one| may(Capability::VariablesList, &one.key.path)).collect());
        }
        if !may(Capability::VariablesRead, path) {
            let (job, of_job) = (self.placed.name().job.id, &self.placed.job.key.namespace);
            return Seen::Denied(format!(
                "the task may not read variable {path:?} in namespace {namespace:?}, which needs {}: keep it below nomad/jobs/{job}, \
                 or attach a policy that grants it with `berth acl policy apply -namespace {of_job} -job {job}`",
                Capability::VariablesRead.word()
            ));
        }
        Seen::Variable(variables.get(&VariableKey::new(namespace, path)).map(|variable| &**variable))
    }
}

/// Names what is seen by where it was last written: nothing of what is in it, for agents keep this on disk.
fn digest(all: &[Seen<'_>]) -> Vec<u8> {
    let mut hash = Sha256::new();
    for seen in all {
        let (kind, variables): (u8, &[&Variable]) = match seen {
            Seen::Denied(_) => (0, &[]),
            Seen::Variable(None) => (1, &[]),
            Seen::Variable(Some(variable)) => (2, &[*variable]),
            Seen::List(all) => (3, all),
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

    use super::*;
    use crate::{
        access,
        nomad::tests::fake_engine::FakeEngine,
        workload::tests::{ALLOC, NODE, SECRET, cluster, put},
    };

    fn asked(task: &str, paths: &[&str]) -> WatchVariables {
        let one = |path: &&str| match path.strip_suffix('*') {
            Some(prefix) => {
                VariableAsked { path: prefix.to_owned(), is_list: true, ..VariableAsked::default() }
            }
            None => VariableAsked { path: (*path).to_owned(), ..VariableAsked::default() },
        };
        WatchVariables {
            request: 4,
            secret: SECRET.to_vec(),
            alloc_id: ALLOC.to_bytes().to_vec(),
            task: task.to_owned(),
            asked: paths.iter().map(one).collect(),
            ..WatchVariables::default()
        }
    }

    fn state(engine: &Arc<FakeEngine>) -> State {
        State { policy: access::policy(true), ..engine.state() }
    }

    /// What each of what was asked for is.
    fn shown(told: &VariablesWatched) -> Vec<String> {
        let one = |found: &VariableFound| {
            let all: Vec<String> = found
                .variables
                .iter()
                .map(|given| format!("{}{:?}", given.path, given.items.values().collect::<Vec<_>>()))
                .collect();
            if found.denied.is_empty() { all.join(" ") } else { "denied".to_owned() }
        };
        told.found.iter().map(one).collect()
    }

    #[test]
    fn an_agent_is_told_what_a_task_may_see_once_and_again_when_that_changes() {
        let engine = cluster();
        put(&engine, "nomad/jobs/web/app/plain", "mine");
        put(&engine, "nomad/jobs/other", "theirs");
        let paths = ["nomad/jobs/web/app/plain", "nomad/jobs/other", "nomad/jobs/web", "nomad/jobs*"];
        let mut asked = asked("plain", &paths);
        let looking = look(&state(&engine), NODE, &asked).expect("it has seen nothing");
        assert_eq!(
            shown(&looking.told),
            ["nomad/jobs/web/app/plain[\"mine\"]", "denied", "", "nomad/jobs/web/app/plain[]"]
        );
        assert!(looking.denied && looking.variables.len() == 1);
        assert!(looking.told.found[1].denied.contains("may not read variable \"nomad/jobs/other\""));
        asked.seen = looking.told.seen;
        assert!(look(&state(&engine), NODE, &asked).is_none(), "nothing is new");
        put(&engine, "nomad/jobs/other", "again");
        assert!(look(&state(&engine), NODE, &asked).is_none(), "it is not for the task");
        put(&engine, "nomad/jobs/web", "new");
        let looking = look(&state(&engine), NODE, &asked).expect("it is new");
        assert_eq!(looking.told.found[2].variables[0].items["value"], "new");
        assert!(looking.told.index > 0);
        asked.seen = looking.told.seen;
        put(&engine, "nomad/jobs/web", "new");
        assert!(look(&state(&engine), NODE, &asked).is_some(), "it was written again");
    }

    #[test]
    fn nobody_is_told_of_tasks_of_others_nor_for_tasks_without_templates() {
        let engine = cluster();
        put(&engine, "nomad/jobs/web", "mine");
        let refused = |node, change: fn(&mut WatchVariables)| {
            let mut asked = asked("plain", &["nomad/jobs/web"]);
            change(&mut asked);
            let looking = look(&state(&engine), node, &asked).expect("it is answered");
            assert!(looking.told.found.is_empty() && keys_of(&state(&engine), node, &asked).is_err());
            looking.told.refused
        };
        assert!(refused(NodeId(8), |_| {}).contains("does not speak"));
        assert!(refused(NODE, |asked| asked.secret = vec![1; 16]).contains("does not speak"));
        assert!(refused(NODE, |asked| asked.task = "server".into()).contains("has no templates"));
        assert!(
            refused(NODE, |asked| asked.asked = vec![VariableAsked::default(); 65]).contains("at most 64")
        );
        assert!(refused(NODE, |asked| asked.asked[0].path = "x".repeat(129)).contains("at most 128"));
        assert!(refused(NODE, |asked| asked.asked[0].namespace = "x".repeat(1_025)).contains("1024 bytes"));
    }
}
