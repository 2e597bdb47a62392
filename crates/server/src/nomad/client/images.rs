//! The images of a node: which it has, and pulling, importing and removing them.

use std::time::Duration;

use axum::body::Body;
use berth_api::{
    agent::{
        AgentOutcome, AgentQuery, GetImages, IMAGE_PIECE_BYTES_MAX, ImageLoad, LoadImages, PullImage,
        RemoveImage,
    },
    http::{ImagePull, ImagePulled, ImagesLoaded, NodeImages},
};
use berth_model::NodeId;
use bytes::{Bytes, BytesMut};
use http_body_util::BodyExt;
use hyper::StatusCode;
use serde_json::{Map, Value};

use super::unexpected_response;
use crate::{
    http::{
        call::{Call, Reply},
        failure::Failure,
        reply,
    },
    nomad::{convert, nodes},
};

/// How often in a row a node may take nothing in; each time it waits for a while itself.
const STALLS_MAX: u32 = 20;

/// `GET /v1/client/images`
pub async fn list(call: Call) -> Reply {
    let AgentOutcome::Images(found) = ask(&call, node_of(&call)?, AgentQuery::Images(GetImages {})).await?
    else {
        return Err(unexpected_response());
    };
    let view = call.view();
    let images = NodeImages {
        images: found.images.iter().map(|image| convert::image(image, &view)).collect(),
        disk_bytes: found.disk_bytes,
        disk_free_bytes: found.disk_free_bytes,
        left_off: found.left_off,
    };
    reply::json(&call.query, &images)
}

/// `PUT /v1/client/images/pull`: says how far it is.
pub async fn pull(mut call: Call) -> Reply {
    let node = node_of(&call)?;
    let ImagePull { name, always } = call.json().await?;
    if name.is_empty() {
        return Err(Failure::bad_request("Name must name an image"));
    }
    match ask(&call, node, AgentQuery::PullImage(PullImage { name, always })).await? {
        AgentOutcome::ImagePull(pull) => {
            let image = pull.image.map(|image| convert::image(&image, &call.view()));
            let pulled = ImagePulled { done_bytes: pull.done_bytes, total_bytes: pull.total_bytes, image };
            reply::json(&call.query, &pulled)
        }
        _ => Err(unexpected_response()),
    }
}

/// `DELETE /v1/client/images`
pub async fn remove(call: Call) -> Reply {
    let name = call.query.text("name").unwrap_or_default().to_owned();
    if name.is_empty() {
        return Err(Failure::bad_request("query parameter name must name an image"));
    }
    match ask(&call, node_of(&call)?, AgentQuery::RemoveImage(RemoveImage { name })).await? {
        AgentOutcome::Done(_) => reply::json(&call.query, &Map::<String, Value>::new()),
        _ => Err(unexpected_response()),
    }
}

/// `PUT /v1/client/images/load`: answers once all of the archive is unpacked.
pub async fn load(mut call: Call) -> Reply {
    let node = node_of(&call)?;
    let upload = Bytes::copy_from_slice(&call.mint_id().to_be_bytes());
    let name = call.query.text("name").unwrap_or_default().to_owned();
    let body = call.raw_body();
    let mut sending = ImageUpload { call: &call, node, upload, name, offset: 0, has_begun: false };
    match sending.all(body).await {
        Ok(load) => {
            let view = call.view();
            let images = load.images.iter().map(|image| convert::image(image, &view)).collect();
            reply::json(&call.query, &ImagesLoaded { images })
        }
        Err(failure) => {
            if sending.has_begun {
                sending.cancel().await;
            }
            Err(failure)
        }
    }
}

fn node_of(call: &Call) -> Result<NodeId, Failure> {
    nodes::resolved(call, call.query.text("node_id").unwrap_or_default())
}

async fn ask(call: &Call, node: NodeId, query: AgentQuery) -> Result<AgentOutcome, Failure> {
    call.ask_node(&call.view(), node, query).await
}

/// An archive on its way to an agent. What came is dropped there soon when no more comes, as when the client goes.
struct ImageUpload<'a> {
    call: &'a Call,
    node: NodeId,
    upload: Bytes,
    name: String,
    offset: u64,
    /// The agent may hold something of it.
    has_begun: bool,
}

impl ImageUpload<'_> {
    async fn all(&mut self, mut body: Body) -> Result<ImageLoad, Failure> {
        let patience = Duration::from_millis(self.call.api.limits.body_timeout_ms);
        let mut piece = BytesMut::new();
        while let Some(data) = next(&mut body, patience).await? {
            piece.extend_from_slice(&data);
            while piece.len() >= IMAGE_PIECE_BYTES_MAX {
                self.send(piece.split_to(IMAGE_PIECE_BYTES_MAX).freeze()).await?;
            }
        }
        if !piece.is_empty() {
            self.send(piece.freeze()).await?;
        }
        if self.offset == 0 {
            return Err(Failure::bad_request("the request's body holds no archive"));
        }
        loop {
            let load = self.ask(Bytes::new(), true).await?;
            if load.done {
                return Ok(load);
            }
        }
    }

    /// Sends a piece, again until it is taken.
    async fn send(&mut self, piece: Bytes) -> Result<(), Failure> {
        self.has_begun = true;
        let next = self.offset + piece.len() as u64;
        for _ in 0..STALLS_MAX {
            let load = self.ask(piece.clone(), false).await?;
            if load.offset == next {
                self.offset = next;
                return Ok(());
            }
            if load.offset != self.offset {
                return Err(unexpected_response());
            }
        }
        let text = format!("node {} takes nothing more in: is its disk stuck?", self.node);
        Err(Failure::new(StatusCode::GATEWAY_TIMEOUT, text))
    }

    async fn ask(&self, data: Bytes, end: bool) -> Result<ImageLoad, Failure> {
        if let Some(lease) = self.call.lease() {
            lease.may_go_on().await?;
        }
        let (upload, name) = (self.upload.clone(), self.name.clone());
        let request = LoadImages { upload, offset: self.offset, data, end, name, cancel: false };
        match ask(self.call, self.node, AgentQuery::LoadImages(request)).await? {
            AgentOutcome::ImageLoad(load) => Ok(load),
            _ => Err(unexpected_response()),
        }
    }

    async fn cancel(&self) {
        let request = LoadImages { upload: self.upload.clone(), cancel: true, ..LoadImages::default() };
        let _ = ask(self.call, self.node, AgentQuery::LoadImages(request)).await;
    }
}

async fn next(body: &mut Body, patience: Duration) -> Result<Option<Bytes>, Failure> {
    loop {
        let frame = tokio::time::timeout(patience, body.frame()).await.map_err(|_| {
            let text = format!("no further part of the archive arrived within {patience:?}");
            Failure::new(StatusCode::REQUEST_TIMEOUT, text)
        })?;
        let Some(frame) = frame else { return Ok(None) };
        let frame = frame.map_err(|error| Failure::bad_request(format!("read the archive: {error}")))?;
        if let Ok(data) = frame.into_data() {
            return Ok(Some(data));
        }
    }
}
