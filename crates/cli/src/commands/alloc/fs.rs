//! `berth alloc fs`: the files of an allocation. A directory is listed, a file printed.

use berth_api::http::AllocFileInfo;
use clap::Args;

use super::{OfJobArgs, print, tail};
use crate::{
    complete,
    failure::{Exit, Failure},
    output::{Cell, Column, Layout, RawOutput, Table, View, bytes, clean, rfc3339},
    remote::{Remote, StreamRead, StreamSource, StreamStart},
    show::ShowArgs,
};

/// Lines shown with `-tail` by default.
const TAIL_LINES: usize = 10;

/// Arguments of `alloc fs`.
#[derive(Debug, Args)]
pub struct AllocFsArgs {
    /// Id or prefix of the allocation; with `-job` that of a job
    #[arg(value_name = "ALLOC", add = complete::jobs_or_allocations())]
    id: String,
    /// Path within the allocation's directory, e.g. `web/local/data`
    #[arg(value_name = "PATH", default_value = "/")]
    path: String,
    #[command(flatten)]
    of_job: OfJobArgs,
    /// Show the file's attributes instead of its content
    #[arg(long)]
    stat: bool,
    /// Follow the output until all tasks have ended
    #[arg(long, short)]
    follow: bool,
    /// Start with the last lines
    #[arg(long)]
    tail: bool,
    /// Start with this many of the last lines
    #[arg(short = 'n', value_name = "LINES")]
    lines: Option<usize>,
    /// Start with this many of the last bytes
    #[arg(short = 'c', value_name = "BYTES", conflicts_with = "lines")]
    bytes: Option<u64>,
    /// Print sizes in bytes
    #[arg(short = 'H')]
    machine: bool,
    #[command(flatten)]
    show: ShowArgs,
}

impl AllocFsArgs {
    pub async fn run(&self, remote: &Remote) -> Result<(), Failure> {
        let alloc = self.of_job.find(remote, &self.id).await?;
        let file = remote.file(&alloc, &self.path).await?;
        let listing = |files| FileListing { files, machine: self.machine };
        if self.stat {
            let read = async |remote: &Remote| Ok(listing(vec![remote.file(&alloc, &self.path).await?]));
            return self.show.show(remote, read).await;
        }
        if file.is_dir {
            self.refuse_parts()?;
            let read = async |remote: &Remote| Ok(listing(remote.files(&alloc, &self.path).await?));
            return self.show.show(remote, read).await;
        }
        self.print(remote, &alloc).await
    }

    /// A directory has no end that could be followed.
    fn refuse_parts(&self) -> Result<(), Failure> {
        if !self.follow && !self.tail && self.lines.is_none() && self.bytes.is_none() {
            return Ok(());
        }
        let message = format!("{} is a directory, which has no last lines", clean(&self.path));
        Err(Failure::new(Exit::Usage, message).help("name a file in it"))
    }

    async fn print(&self, remote: &Remote, alloc: &str) -> Result<(), Failure> {
        let mut out = RawOutput::stdout();
        let source = StreamSource::File(&self.path);
        let whole = StreamRead { alloc, source, from: StreamStart::Offset(0), follow: self.follow };
        if let Some(bytes) = self.bytes {
            return print(remote, &StreamRead { from: StreamStart::BeforeEnd(bytes), ..whole }, &mut out)
                .await;
        }
        // As `tail -f` does: whoever follows wants what comes.
        let lines = self.lines.or((self.tail || self.follow).then_some(TAIL_LINES));
        let Some(lines) = lines else {
            let mut content = remote.file_content(alloc, &self.path).await?;
            while let Some(bytes) = content.next().await? {
                out.write(&bytes)?;
            }
            return Ok(());
        };
        let end = tail::last_lines(remote, &whole, lines).await?;
        out.write(&end.bytes)?;
        if self.follow {
            print(remote, &StreamRead { from: StreamStart::Offset(end.offset), ..whole }, &mut out).await?;
        }
        Ok(())
    }
}

/// Files, and whether a program reads about them.
struct FileListing {
    files: Vec<AllocFileInfo>,
    machine: bool,
}

impl serde::Serialize for FileListing {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.files.serialize(serializer)
    }
}

impl View for FileListing {
    fn text(&self, layout: Layout) -> String {
        let columns =
            [Column::text("mode"), Column::number("size"), Column::text("modified"), Column::id("name")];
        let mut table = Table::new(layout, &columns);
        for file in &self.files {
            let size = if self.machine { file.size.to_string() } else { bytes(file.size) };
            let slash = if file.is_dir && file.name != "/" { "/" } else { "" };
            let name: Cell = format!("{}{slash}", file.name).into();
            table.row([(&file.file_mode).into(), size.into(), rfc3339(file.mod_time.0).into(), name]);
        }
        table.render()
    }

    fn names(&self) -> Vec<String> {
        self.files.iter().map(|file| file.name.clone()).collect()
    }
}
