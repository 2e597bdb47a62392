//! Responses shared by many blocked readers: written for the first one that wakes, and sent to all.

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

/// The complete body of a response.
#[derive(Debug, Clone)]
pub(crate) struct WholeBody(pub Bytes);

/// The latest responses. A response depends on the target, the caller's rights and the index of the last change, and on nothing else.
#[derive(Debug, Default)]
pub(crate) struct ResponseCache(Mutex<VecDeque<Arc<CachedResponse>>>);

#[derive(Debug)]
struct CachedResponse {
    rights: Arc<Rights>,
    target: String,
    index: Index,
    status: StatusCode,
    headers: HeaderMap,
    body: Bytes,
}

impl ResponseCache {
    /// The answer to the same question at the same index.
    pub fn find(&self, rights: &Arc<Rights>, target: &str, index: Index) -> Option<Response> {
        let matches = |cached: &&Arc<CachedResponse>| {
            cached.index == index && cached.target == target && cached.rights == *rights
        };
        // Copied after the lock is released: all readers that were woken come here at once.
        let cached = self.lock().iter().rev().find(matches).cloned()?;
        let mut response = Response::new(Body::from(cached.body.clone()));
        *response.status_mut() = cached.status;
        response.headers_mut().clone_from(&cached.headers);
        Some(response)
    }

    /// Stores a response, and drops the oldest when there are too many.
    pub fn insert(&self, rights: &Arc<Rights>, target: String, index: Index, response: &Response) {
        let Some(WholeBody(body)) = response.extensions().get::<WholeBody>() else { return };
        if body.len() > ANSWER_BYTES_MAX {
            return;
        }
        let (status, headers, body) = (response.status(), response.headers().clone(), body.clone());
        let mut answers = self.lock();
        answers.push_back(Arc::new(CachedResponse {
            rights: rights.clone(),
            target,
            index,
            status,
            headers,
            body,
        }));
        if answers.len() > ANSWERS_MAX {
            answers.pop_front();
        }
    }

    fn lock(&self) -> MutexGuard<'_, VecDeque<Arc<CachedResponse>>> {
        self.0.lock().expect("nothing panics while it holds this lock")
    }
}
