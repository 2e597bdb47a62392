//! Collects events for a short time.

use std::time::Duration;

use berth_api::http::Event;
use serde_json::{Value, json};

use crate::{
    failure::Failure,
    remote::{EventFilter, Remote},
};

/// More are not kept.
const EVENTS_MAX: usize = 10_000;

/// What happens within so many seconds.
pub(super) async fn collect(remote: &Remote, seconds: u64) -> Result<Value, Failure> {
    let mut events: Vec<Event> = Vec::new();
    let mut frames = remote.events(&EventFilter::default()).await?;
    let gather = async {
        while let Some(frame) = frames.next().await? {
            events.extend(frame.events);
            if events.len() >= EVENTS_MAX {
                break;
            }
        }
        Ok::<_, Failure>(())
    };
    // That time is up is the common end.
    if let Ok(ended) = tokio::time::timeout(Duration::from_secs(seconds), gather).await {
        ended?;
    }
    events.truncate(EVENTS_MAX);
    Ok(json!(events))
}
