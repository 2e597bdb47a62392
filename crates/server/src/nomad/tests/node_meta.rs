//! Metadata of nodes, which is kept by and read from agents.

use berth_api::agent::{AgentOutcome, AgentQuery, ChangeNodeMeta, DynamicMeta, NodeMeta};
use serde_json::json;

use super::{
    exchange::{answer, api, get},
    fake_agents::held,
    world::{NODE_1, world},
};
use crate::shared::AgentError;

fn set(key: &str, value: Option<&str>) -> DynamicMeta {
    DynamicMeta { key: key.into(), value: value.map(Into::into) }
}

fn meta() -> NodeMeta {
    NodeMeta {
        configured: [("rack".to_owned(), "r1".to_owned()), ("row".to_owned(), "7".to_owned())].into(),
        dynamic: vec![set("rack", Some("r2")), set("row", None)],
        effective: [("rack".to_owned(), "r2".to_owned())].into(),
    }
}

#[tokio::test]
async fn metadata_is_read_of_its_agent() {
    let world = world();
    *held(&world.agents.outcome) = Some(Ok(AgentOutcome::NodeMeta(meta())));
    let read = get(&api(&world), "/v1/client/metadata?node_id=1111").await.json();
    assert_eq!(held(&world.agents.requested).take().map(|(node, _)| node), Some(NODE_1));
    assert_eq!(
        read,
        json!({
            "Meta": { "rack": "r2" },
            "Dynamic": { "rack": "r2", "row": null },
            "Static": { "rack": "r1", "row": "7" },
        })
    );
    let nobody = get(&api(&world), "/v1/client/metadata").await;
    assert!(nobody.status == 400 && nobody.body.contains("?node_id="), "{}", nobody.body);
}

#[tokio::test]
async fn metadata_is_changed_at_its_agent_and_known_before_the_answer() {
    let world = world();
    *held(&world.agents.outcome) = Some(Ok(AgentOutcome::NodeMeta(meta())));
    // Nobody reports that it has changed: what is unset was never there, so that nothing is waited for.
    let body = json!({ "NodeID": NODE_1.to_string(), "Meta": { "row": null } }).to_string();
    let applied = answer(&api(&world), "POST", "/v1/client/metadata", body).await;
    let request = ChangeNodeMeta { changes: vec![set("row", None)] };
    assert_eq!(held(&world.agents.requested).take(), Some((NODE_1, AgentQuery::ChangeNodeMeta(request))));
    assert_eq!(applied.json()["Dynamic"], json!({ "rack": "r2", "row": null }));
    let nothing = answer(&api(&world), "PUT", "/v1/client/metadata?node_id=1111", "{}").await;
    assert!(nothing.status == 400 && nothing.body.contains("at least one key"), "{}", nothing.body);
    assert!(held(&world.agents.requested).is_none());
}

#[tokio::test]
async fn an_older_agent_is_an_error() {
    let world = world();
    let older = "the agent does not know this question: it is older than the server";
    *held(&world.agents.outcome) = Some(Err(AgentError::Failed(older.into())));
    let refused = get(&api(&world), "/v1/client/metadata?node_id=1111").await;
    assert!(refused.status.is_server_error() && refused.body.contains(older), "{}", refused.body);
}
