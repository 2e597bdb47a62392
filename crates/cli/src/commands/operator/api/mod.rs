//! `berth operator api`: sends any request to the HTTP API, with the address, token and certificates that every command
//! takes.

mod curl;
mod request;

use std::io::{self, IsTerminal};

use clap::{Args, ValueHint};

use self::request::Destination;
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
pub struct ApiArgs {
    /// Path, e.g. `/v1/jobs?prefix=web`, or a URL of another server
    #[arg(value_name = "PATH|URL")]
    path: String,
    /// Method; defaults to GET, or POST with a body
    #[arg(short = 'X', value_name = "METHOD")]
    method: Option<String>,
    /// Header, replacing one that is sent by default; repeatable
    #[arg(short = 'H', value_name = "NAME: VALUE", value_parser = request::header)]
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

impl ApiArgs {
    /// Asks, and prints the answer.
    pub fn run(&self, global: &Global) -> Result<(), Failure> {
        let destination = Destination::of(&self.path, global)?;
        let target = request::target(&destination, self.filter.as_deref(), global)?;
        let data = request::data(self.data.as_deref(), self.method.as_deref())?;
        if self.dryrun {
            let line = curl::line(self, global, &destination, &target, data.as_ref())?;
            return Ok(output::print(&line)?);
        }
        let body = data.map_or(Ok(Vec::new()), request::BodySource::read)?;
        let exchange = request::exchange(self, target, body);
        let remote = global.remote_at(&destination.address)?;
        if self.verbose {
            self.print_request(&exchange, remote.has_token());
        }
        block_on(async {
            let mut answer = remote.exchange(exchange).await?;
            if self.verbose {
                output::eprint_line(&format!("< {}", clean(&answer.status_line)));
                let headers = answer.headers.iter();
                headers.for_each(|(name, value)| {
                    output::eprint_line(&format!("< {}: {}", clean(name), clean(value)))
                });
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
                output::eprint_line(&format!("note: the server answered {}", clean(&answer.status_line)));
            }
            let ignored = answer.headers.iter().find(|(name, _)| name.eq_ignore_ascii_case(IGNORED));
            if let Some((_, names)) = ignored.filter(|_| !self.verbose) {
                output::eprint_line(&format!("warning: the server ignored: {}", clean(names)));
            }
            Ok(())
        })
    }

    fn print_request(&self, request: &berth_api::http::RawRequest, has_token: bool) {
        output::eprint_line(&format!(
            "> {} {}",
            clean(&request.method),
            clean(&request.target.path_and_query())
        ));
        if has_token && request.takes_token() {
            output::eprint_line("> x-nomad-token: (not shown)");
        }
        for (name, value) in &request.headers {
            let value =
                if name.eq_ignore_ascii_case(request::TOKEN) { "(not shown)".into() } else { clean(value) };
            output::eprint_line(&format!("> {}: {value}", clean(name)));
        }
    }
}
