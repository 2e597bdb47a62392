//! `berth image load`: sends nodes the images of an archive, or of a layout on this machine.

use std::{
    fs::File,
    io::{self, Write},
    path::PathBuf,
};

use clap::{Args, ValueHint};

use super::{
    list::{ImageList, ImageOnNode},
    nodes::NodesArg,
};
use crate::{
    failure::{Exit, Failure},
    remote::Remote,
    show::PrintArgs,
};

/// What stands for standard input.
const STDIN: &str = "-";

/// Files of which one marks a directory with images in it: an OCI layout, or an unpacked archive of `docker save`.
const MARKS: [&str; 2] = ["oci-layout", "manifest.json"];

/// Arguments of `image load`.
#[derive(Debug, Args)]
pub struct ImageLoadArgs {
    /// Archive of `docker save`, OCI archive or layout, or, with a name, a tar archive of a root file system; `-` for
    /// standard input
    #[arg(value_name = "FILE|DIR", value_hint = ValueHint::AnyPath)]
    source: PathBuf,
    /// Name of the image, instead of the one in the archive; it must hold one image
    #[arg(long, value_name = "IMAGE")]
    name: Option<String>,
    #[command(flatten)]
    nodes: NodesArg,
    #[command(flatten)]
    print: PrintArgs,
}

/// Where the archive that is sent comes from.
#[derive(Debug, Clone)]
enum ImageSource {
    Stdin,
    File(PathBuf),
    Dir(PathBuf),
}

impl ImageLoadArgs {
    /// Sends it to one node after the other, and prints what is there by it.
    pub async fn run(&self, remote: &Remote) -> Result<(), Failure> {
        let source = self.source()?;
        let nodes = self.nodes.named_or_only(remote).await?;
        let is_stdin = matches!(source, ImageSource::Stdin);
        if nodes.len() > 1 && is_stdin {
            let message = "standard input can be read once: name one node, or a file";
            return Err(Failure::new(Exit::Usage, message));
        }
        let mut loaded = Vec::new();
        for node in nodes {
            let source = source.clone();
            let write = move |out: &mut dyn Write| source.write(out);
            let images = remote.load_images(&node.id, self.name.as_deref(), write).await;
            let what = if is_stdin { "standard input".into() } else { self.source.display().to_string() };
            let images =
                images.map_err(|failure| failure.about(&format!("{what}, node {}", node.name)))?.images;
            loaded.extend(images.into_iter().map(|image| ImageOnNode::new(&node, image)));
        }
        self.print.print(&ImageList::sorted(loaded))
    }

    fn source(&self) -> Result<ImageSource, Failure> {
        let path = &self.source;
        if path.as_os_str() == STDIN {
            return Ok(ImageSource::Stdin);
        }
        let failed = |error: io::Error| Failure::new(Exit::Usage, format!("{}: {error}", path.display()));
        if !path.metadata().map_err(failed)?.is_dir() {
            return Ok(ImageSource::File(path.clone()));
        }
        if MARKS.iter().any(|mark| path.join(mark).is_file()) {
            return Ok(ImageSource::Dir(path.clone()));
        }
        let message = format!("{} holds no image: neither {} is in it", path.display(), MARKS.join(" nor "));
        let help = "for a root file system: tar -C DIR -c . | berth image load -name NAME -";
        Err(Failure::new(Exit::Usage, message).help(help))
    }
}

impl ImageSource {
    /// Writes the archive.
    fn write(self, out: &mut dyn Write) -> io::Result<()> {
        match self {
            Self::Stdin => io::copy(&mut io::stdin().lock(), out).map(drop),
            Self::File(path) => io::copy(&mut File::open(path)?, out).map(drop),
            Self::Dir(path) => {
                let mut archive = tar::Builder::new(out);
                archive.follow_symlinks(false);
                archive.append_dir_all(".", path)?;
                archive.into_inner().map(drop)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    fn of(source: &Path) -> Result<ImageSource, Failure> {
        use clap::Parser;
        #[derive(Parser)]
        struct TestArgs {
            #[command(flatten)]
            load: ImageLoadArgs,
        }
        TestArgs::parse_from(["load".as_ref(), source.as_os_str()]).load.source()
    }

    #[test]
    fn a_layout_is_sent_as_an_archive_and_another_directory_is_refused() {
        let dir = tempfile::tempdir().expect("a directory");
        let message = of(dir.path()).expect_err("refused").to_string();
        assert!(message.contains("holds no image"), "{message}");
        std::fs::write(dir.path().join("oci-layout"), "{}").expect("written");
        std::fs::create_dir_all(dir.path().join("blobs/sha256")).expect("made");
        std::fs::write(dir.path().join("blobs/sha256/ab"), "blob").expect("written");
        let mut bytes = Vec::new();
        of(dir.path()).expect("a layout").write(&mut bytes).expect("written");
        let mut archive = tar::Archive::new(bytes.as_slice());
        let entries = archive.entries().expect("an archive").map(|entry| entry.expect("an entry"));
        let mut names: Vec<_> = entries.map(|entry| entry.path().expect("a path").into_owned()).collect();
        names.sort();
        assert!(names.ends_with(&["blobs/sha256/ab".into(), "oci-layout".into()]), "{names:?}");
        assert!(of(Path::new("/nonexistent/image.tar")).is_err());
    }
}
