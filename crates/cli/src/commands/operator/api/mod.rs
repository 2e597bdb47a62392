//! `berth operator api`: a request of the HTTP API as it is written, with the address, the token and the certificates that
//! every command has.

mod asked;
mod curl;

use std::io::{self, IsTerminal};

use clap::{Args, ValueHint};

use self::asked::Destination;
use crate::{
    failure::Failure,
    global::Global,
    output::{self, RawOutput, clean},
    remote::block_on,
};

/// Statuses from here on say that something was not done.
const STATUS_REFUSED: u16 = 400;

/// The header that names what a request says in vain.
const IGNORED: &str = "x-berth-ignored";

/// Arguments of `operator api`.
#[derive(Debug, Args)]
#[command(
    after_help = "The answer's body goes to standard output as it comes. Whatever its status, an answer ends with exit code 0; from \
    400 on the status is said on standard error.\n\nWithout -d, what is piped or redirected to standard input is the body, unless \
    -X says GET, HEAD or DELETE."
)]
pub struct Api {
    /// Path, e.g. `/v1/jobs?prefix=web`, or a URL of another server
    #[arg(value_name = "PATH|URL")]
    path: String,
    /// Method; defaults to GET, or POST with a body
    #[arg(short = 'X', value_name = "METHOD")]
    method: Option<String>,
    /// Header, replacing one that is sent by default; repeatable
    #[arg(short = 'H', value_name = "NAME: VALUE", value_parser = asked::header)]
    header: Vec<(String, String)>,
    /// Body; `@FILE` for the content of a file, `-` or `@-` for standard input
    #[arg(short = 'd', value_name = "DATA", value_hint = ValueHint::FilePath)]
    data: Option<String>,
    /// Filter expression, e.g. `Status == "running"`
    #[arg(long, value_name = "EXPRESSION")]
    filter: Option<String>,
    /// Print the equivalent curl command without running it; it contains a token only if --token gave it
    #[arg(long)]
    dryrun: bool,
    /// Print the request and the answer on standard error, without the token
    #[arg(long)]
    verbose: bool,
}

impl Api {
    /// Asks, and prints the answer.
    pub fn run(&self, global: &Global) -> Result<(), Failure> {
        let destination = Destination::of(&self.path, global)?;
        let target = asked::target(&destination, self.filter.as_deref(), global)?;
        let data = asked::data(self.data.as_deref(), self.method.as_deref())?;
        if self.dryrun {
            let line = curl::line(self, global, &destination, &target, data.as_ref())?;
            return Ok(output::print(&line)?);
        }
        let body = data.map_or(Ok(Vec::new()), asked::Data::read)?;
        let exchange = asked::exchange(self, target, body);
        let remote = global.remote_at(&destination.address)?;
        if self.verbose {
            self.say_asked(&exchange, remote.has_token());
        }
        block_on(async {
            let mut answer = remote.exchange(exchange).await?;
            if self.verbose {
                output::tell(&format!("< {}", clean(&answer.status_line)));
                let headers = answer.headers.iter();
                headers
                    .for_each(|(name, value)| output::tell(&format!("< {}: {}", clean(name), clean(value))));
            }
            let mut out = RawOutput::stdout();
            let mut ends_line = true;
            while let Some(piece) = answer.body.next().await? {
                out.write(&piece)?;
                ends_line = piece.last().map_or(ends_line, |byte| *byte == b'\n');
            }
            if answer.status >= STATUS_REFUSED && !self.verbose {
                // The note begins a line of its own; what is piped elsewhere stays as the server sent it.
                if !ends_line && io::stdout().is_terminal() {
                    out.write(b"\n")?;
                }
                output::tell(&format!("note: the server answered {}", clean(&answer.status_line)));
            }
            let ignored = answer.headers.iter().find(|(name, _)| name.eq_ignore_ascii_case(IGNORED));
            if let Some((_, names)) = ignored.filter(|_| !self.verbose) {
                output::tell(&format!("warning: the server ignored: {}", clean(names)));
            }
            Ok(())
        })
    }

    fn say_asked(&self, asked: &berth_api::http::RawRequest, has_token: bool) {
        output::tell(&format!("> {} {}", clean(&asked.method), clean(&asked.target.path_and_query())));
        if has_token && asked.takes_token() {
            output::tell("> x-nomad-token: (not shown)");
        }
        for (name, value) in &asked.headers {
            let value =
                if name.eq_ignore_ascii_case(asked::TOKEN) { "(not shown)".into() } else { clean(value) };
            output::tell(&format!("> {}: {value}", clean(name)));
        }
    }
}
