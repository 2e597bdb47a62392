//! Answers that many readers wait for together: written for the first one who wakes, sent to all.

use std::{
    collections::VecDeque,
    sync::{Arc, Mutex, MutexGuard},
};

use axum::{body::Body, response::Response};
use berth_model::Index;
use bytes::Bytes;
use hyper::{HeaderMap, StatusCode};

use crate::access::Rights;

/// Answers that are kept, the newest ones.
const ANSWERS_MAX: usize = 32;
/// Longer answers are written for each reader.
const ANSWER_BYTES_MAX: usize = 256 << 10;

/// The body of an answer, if it is there as a whole.
#[derive(Debug, Clone)]
pub(crate) struct Whole(pub Bytes);

/// The last answers. What an answer says follows from what was asked for, what the caller may do, and the index where that last
/// changed, and from nothing else.
#[derive(Debug, Default)]
pub(crate) struct Shared(Mutex<VecDeque<Arc<Kept>>>);

#[derive(Debug)]
struct Kept {
    rights: Arc<Rights>,
    target: String,
    index: Index,
    status: StatusCode,
    headers: HeaderMap,
    body: Bytes,
}

impl Shared {
    /// The answer to the same question at the same index.
    pub fn find(&self, rights: &Arc<Rights>, target: &str, index: Index) -> Option<Response> {
        let asked =
            |kept: &&Arc<Kept>| kept.index == index && kept.target == target && kept.rights == *rights;
        // Copied without the lock: all who are woken come here at once.
        let kept = self.lock().iter().rev().find(asked).cloned()?;
        let mut response = Response::new(Body::from(kept.body.clone()));
        *response.status_mut() = kept.status;
        response.headers_mut().clone_from(&kept.headers);
        Some(response)
    }

    /// Keeps an answer, and forgets the oldest one when there are too many.
    pub fn keep(&self, rights: &Arc<Rights>, target: String, index: Index, response: &Response) {
        let Some(Whole(body)) = response.extensions().get::<Whole>() else { return };
        if body.len() > ANSWER_BYTES_MAX {
            return;
        }
        let (status, headers, body) = (response.status(), response.headers().clone(), body.clone());
        let mut answers = self.lock();
        answers.push_back(Arc::new(Kept { rights: rights.clone(), target, index, status, headers, body }));
        if answers.len() > ANSWERS_MAX {
            answers.pop_front();
        }
    }

    fn lock(&self) -> MutexGuard<'_, VecDeque<Arc<Kept>>> {
        self.0.lock().expect("nothing panics while it holds this lock")
    }
}
