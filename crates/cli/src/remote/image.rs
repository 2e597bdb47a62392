//! Requests about the images of nodes.

use std::io::{self, Write};

use berth_api::http::{ImagePull, ImagePulled, ImagesLoaded, NodeImages};
use serde_json::Value;

use super::{Remote, upload};
use crate::failure::Failure;

const IMAGES: &str = "/v1/client/images";

impl Remote {
    pub async fn node_images(&self, node: &str) -> Result<NodeImages, Failure> {
        self.get(&self.target(IMAGES).param("node_id", node)).await
    }

    /// Has a node pull an image, or go on with it; how far it is.
    pub async fn pull_image(&self, node: &str, name: &str, always: bool) -> Result<ImagePulled, Failure> {
        let target = self.target(IMAGES).part("pull").param("node_id", node);
        self.put(&target, &ImagePull { name: name.to_owned(), always }).await
    }

    /// Removes an image from a node.
    pub async fn remove_image(&self, node: &str, name: &str) -> Result<(), Failure> {
        let target = self.target(IMAGES).param("node_id", node).param("name", name);
        self.delete::<Value>(&target).await.map(drop)
    }

    /// Gives a node the images of the archive that `write` writes.
    pub async fn load_images(
        &self,
        node: &str,
        name: Option<&str>,
        write: impl FnOnce(&mut dyn Write) -> io::Result<()> + Send + 'static,
    ) -> Result<ImagesLoaded, Failure> {
        let target = self.target(IMAGES).part("load").param("node_id", node);
        let target = name.into_iter().fold(target, |target, name| target.param("name", name));
        Ok(self.client.upload(&target, upload::chunks(write)).await?.value)
    }
}
