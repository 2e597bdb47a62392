//! `berth image list`: the images of nodes.

use berth_api::http::NodeImage;
use clap::Args;
use futures_util::stream::{self, StreamExt};
use serde::Serialize;

use super::nodes::{NodesArg, TargetNode};
use crate::{
    failure::Failure,
    output::{Cell, Column, Layout, Table, View, age, bytes, eprint_line, now_ns},
    remote::Remote,
    show::ShowArgs,
};

/// Requests to nodes at the same time, and in all: each goes through the server to an agent.
const CONCURRENT_REQUESTS: usize = 16;
const NODES_MAX: usize = 256;

/// Letters of a digest in a table.
const DIGEST_CHARS: usize = 12;

/// Arguments of `image list`.
#[derive(Debug, Args)]
pub struct ImageListArgs {
    #[command(flatten)]
    nodes: NodesArg,
    #[command(flatten)]
    show: ShowArgs,
}

impl ImageListArgs {
    pub async fn run(&self, remote: &Remote) -> Result<(), Failure> {
        let nodes = self.nodes.named_or_all(remote).await?;
        if nodes.len() > NODES_MAX {
            eprint_line(&format!("of {} nodes {NODES_MAX} are asked: name some with -node", nodes.len()));
        }
        self.show.show(remote, async |remote| read(remote, &nodes).await).await
    }
}

/// A node that does not answer costs its own images, and not everybody's.
async fn read(remote: &Remote, nodes: &[TargetNode]) -> Result<ImageList, Failure> {
    let requests = nodes.iter().take(NODES_MAX).map(async |node| (node, remote.node_images(&node.id).await));
    let answers: Vec<_> = stream::iter(requests).buffered(CONCURRENT_REQUESTS).collect().await;
    let (mut images, mut failed, mut silent) = (Vec::new(), None, 0);
    for (node, answer) in answers {
        match answer {
            Ok(found) => {
                if found.left_off > 0 {
                    eprint_line(&format!("node {} has {} images more", node.name, found.left_off));
                }
                images.extend(found.images.into_iter().map(|image| ImageOnNode::new(node, image)));
            }
            Err(failure) => {
                silent += 1;
                failed = Some(failure);
            }
        }
    }
    match failed {
        Some(failure) if silent == nodes.len() => Err(failure),
        Some(_) => {
            eprint_line(&format!("{silent} of {} nodes do not say which images they have", nodes.len()));
            Ok(ImageList::sorted(images))
        }
        None => Ok(ImageList::sorted(images)),
    }
}

/// An image on a node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "PascalCase")]
pub struct ImageOnNode {
    #[serde(rename = "NodeID")]
    node_id: String,
    node_name: String,
    #[serde(flatten)]
    image: NodeImage,
}

impl ImageOnNode {
    /// An image on a node.
    pub fn new(node: &TargetNode, image: NodeImage) -> Self {
        Self { node_id: node.id.clone(), node_name: node.name.clone(), image }
    }
}

/// Images of several nodes.
#[derive(Debug, Serialize)]
#[serde(transparent)]
pub struct ImageList(Vec<ImageOnNode>);

impl ImageList {
    /// By name, then by node.
    pub fn sorted(mut images: Vec<ImageOnNode>) -> Self {
        images.sort_by(|a, b| (&a.image.name, &a.node_name).cmp(&(&b.image.name, &b.node_name)));
        Self(images)
    }
}

const COLUMNS: &[Column] = &[
    Column::text("image"),
    Column::text("node"),
    Column::text("digest"),
    Column::number("size"),
    Column::number("layers").wide(),
    Column::text("pulled").wide(),
    Column::text("used"),
    Column::number("allocs"),
];

impl View for ImageList {
    fn text(&self, layout: Layout) -> String {
        if self.0.is_empty() {
            return "no images: a node pulls what its tasks need, or `berth image pull` has it do so\n"
                .into();
        }
        let mut table = Table::new(layout, COLUMNS);
        let now = now_ns();
        for ImageOnNode { node_name, image, .. } in &self.0 {
            let digest = image.digest.strip_prefix("sha256:").unwrap_or(&image.digest);
            let since = |at: u64| -> Cell { if at == 0 { "-".into() } else { age(at, now).into() } };
            table.row([
                (&image.name).into(),
                node_name.into(),
                digest.get(..DIGEST_CHARS).unwrap_or(digest).into(),
                if image.bytes == 0 { "-".into() } else { bytes(image.bytes).into() },
                Cell::number(image.layers),
                since(image.pulled_at),
                since(image.used_at),
                image.allocations.len().to_string().into(),
            ]);
        }
        table.render()
    }

    fn names(&self) -> Vec<String> {
        self.0.iter().map(|on| on.image.name.clone()).collect()
    }
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::*;

    #[test]
    fn images_are_listed_by_name_and_node() {
        let on = |node: &str, name: &str, bytes, allocations: &[&str]| {
            let node = TargetNode { id: format!("{node}-id"), name: node.into() };
            let allocations = allocations.iter().map(|id| (*id).to_owned()).collect();
            let digest = format!("sha256:{}", "ab".repeat(32));
            let image = NodeImage { name: name.into(), digest, bytes, allocations, ..NodeImage::default() };
            ImageOnNode::new(&node, image)
        };
        let images = ImageList::sorted(vec![
            on("n2", "docker.io/library/nginx:latest", 3 << 20, &["a", "b"]),
            on("n1", "docker.io/library/nginx:latest", 3 << 20, &[]),
            on("n1", "/images/web.tar", 0, &[]),
        ]);
        expect![[r#"
            IMAGE                           NODE  DIGEST           SIZE  USED  ALLOCS
            /images/web.tar                 n1    abababababab        -  -          0
            docker.io/library/nginx:latest  n1    abababababab  3.0 MiB  -          0
            docker.io/library/nginx:latest  n2    abababababab  3.0 MiB  -          2
        "#]]
        .assert_eq(&images.text(Layout::PLAIN));
    }
}
