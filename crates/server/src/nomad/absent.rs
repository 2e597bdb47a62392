//! Volumes, plugins and services, which Berth does not have: clients list them, and get empty lists.

use berth_model::Index;
use serde_json::Value;

use crate::http::{
    block,
    call::{Call, Reply},
    list::array_of,
};

/// `GET` of a list that nothing can be in: it never changes.
pub(super) async fn none(call: Call) -> Reply {
    let nothing = async |_| {
        array_of(&call, Vec::new(), |none: &Value, items| items.push(none), |none| Some(none.clone())).await
    };
    block::answer(&call, &[], |_| Index::default(), nothing).await
}
