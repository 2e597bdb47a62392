//! How commands print what they read: in which format, and once or again with each change.

mod frame;

use std::time::Duration;

use clap::Args;

use self::frame::Frame;
use crate::{
    failure::Failure,
    output::{self, Format, Renderer, Template, View},
    remote::Remote,
};

/// Between two prints of what changes all the time.
const WATCH_EVERY_MS: u64 = 500;

/// In which form a command prints.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Output")]
pub struct PrintArgs {
    /// Output format
    #[arg(long, short, value_enum, value_name = "FORMAT", default_value_t)]
    output: Format,
    /// The same as `-o json`
    #[arg(long, conflicts_with = "output")]
    json: bool,
    /// Format each item with a Jinja template, e.g. `-t '{{ ID }}'`, or all of it with Nomad's, e.g. `-t '{{.ID}}'`
    #[arg(long, short, value_name = "TEMPLATE", conflicts_with_all = ["output", "json"])]
    template: Option<String>,
    /// All columns, and full ids; the same as `-o wide`
    #[arg(long)]
    verbose: bool,
}

/// How a reading command prints.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Output")]
pub struct ShowArgs {
    #[command(flatten)]
    print: PrintArgs,
    /// Print it again whenever it changes, until interrupted
    #[arg(long)]
    watch: bool,
}

impl ShowArgs {
    /// The same, with every column where `also` says so, too.
    pub fn verbose(&self, also: bool) -> Self {
        let mut show = self.clone();
        show.print.verbose |= also;
        show
    }

    /// Reads and prints; with `-watch` again whenever something of what was read has changed.
    pub async fn show<T: View>(
        &self,
        remote: &Remote,
        read: impl AsyncFn(&Remote) -> Result<T, Failure>,
    ) -> Result<(), Failure> {
        let form = self.print.form()?;
        if !self.watch {
            return Ok(output::print(&form.render(&read(remote).await?)?)?);
        }
        let remote = remote.recording_reads();
        let (mut frame, mut last) = (Frame::default(), None);
        loop {
            let view = read(&remote).await?;
            match form.line(&view).transpose()? {
                // It may have been read again only because something could have changed.
                Some(line) if last.as_ref() == Some(&line) => {}
                Some(line) => output::print(last.insert(line))?,
                None => frame.print(&form.render(&view)?)?,
            }
            tokio::time::sleep(Duration::from_millis(WATCH_EVERY_MS)).await;
            remote.changed().await?;
        }
    }

    /// Reads and prints; on a terminal, and with `-watch`, again and again, for what changes all the time.
    pub async fn show_live<T: View>(
        &self,
        remote: &Remote,
        every: Duration,
        read: impl AsyncFn(&Remote) -> Result<T, Failure>,
    ) -> Result<(), Failure> {
        let form = self.print.form()?;
        let is_table = matches!(form, Renderer::Named(Format::Table | Format::Wide));
        let live = self.watch || (is_table && output::stdout_rows().is_some());
        let mut frame = Frame::default();
        loop {
            let view = read(remote).await?;
            match form.line(&view).filter(|_| live) {
                Some(line) => output::print(&line?)?,
                None => frame.print(&form.render(&view)?)?,
            }
            if !live {
                return Ok(());
            }
            tokio::time::sleep(every).await;
        }
    }
}

impl PrintArgs {
    pub fn print(&self, view: &impl View) -> Result<(), Failure> {
        Ok(output::print(&self.form()?.render(view)?)?)
    }

    fn form(&self) -> Result<Renderer<'_>, Failure> {
        Ok(match &self.template {
            Some(source) => Renderer::Template(Box::new(Template::new(source)?)),
            None if self.json => Renderer::Named(Format::Json),
            None if self.verbose && self.output == Format::Table => Renderer::Named(Format::Wide),
            None => Renderer::Named(self.output),
        })
    }
}
