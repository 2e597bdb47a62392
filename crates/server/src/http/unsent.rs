//! Bounds the memory of complete responses that clients have not read yet.

use std::sync::Arc;

use axum::{body::Body, response::Response};
use bytes::Bytes;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::{failure::Failure, response_cache::WholeBody};

/// Smaller answers are not counted: as many as there are connections are no burden, and how the server is can be asked
/// at any time.
const SMALL_BYTES_MAX: usize = 16 << 10;

/// Text that counts for the budget until it is dropped, which is when the client has it.
struct HeldText {
    text: Bytes,
    _room: OwnedSemaphorePermit,
}

impl AsRef<[u8]> for HeldText {
    fn as_ref(&self) -> &[u8] {
        &self.text
    }
}

/// The response with its share of the budget, a permit a byte; refused when none is left.
pub(crate) fn hold(budget: &Arc<Semaphore>, mut response: Response) -> Result<Response, Failure> {
    let Some(WholeBody(text)) = response.extensions_mut().remove::<WholeBody>() else { return Ok(response) };
    if text.len() <= SMALL_BYTES_MAX {
        return Ok(response);
    }
    let bytes = u32::try_from(text.len()).unwrap_or(u32::MAX);
    let Ok(permit) = budget.clone().try_acquire_many_owned(bytes) else {
        return Err(Failure::busy("too many clients have not read their answers yet: try again in a moment"));
    };
    *response.body_mut() = Body::from(Bytes::from_owner(HeldText { text, _room: permit }));
    Ok(response)
}

#[cfg(test)]
mod tests {
    use http_body_util::BodyExt;

    use super::*;
    use crate::http::reply::whole;

    #[tokio::test]
    async fn answers_that_are_not_read_are_bounded_together() {
        let budget = Arc::new(Semaphore::new(3 * SMALL_BYTES_MAX));
        let answer = || hold(&budget, whole(vec![b' '; 2 * SMALL_BYTES_MAX].into()));
        let first = answer().expect("there is room");
        let bytes = first.into_body().collect().await.expect("it is there").to_bytes();
        assert_eq!(bytes.len(), 2 * SMALL_BYTES_MAX);
        assert_eq!(
            answer().map_err(|failure| failure.status.as_u16()).err(),
            Some(429),
            "it is not sent yet"
        );
        assert!(hold(&budget, whole("[]".into())).is_ok(), "a small one is always sent");
        drop(bytes);
        assert!(answer().is_ok());
    }
}
