//! `berth acl bootstrap`: the first token.

use berth_api::http::AclBootstrap;
use clap::Args;

use crate::{
    failure::{Exit, Failure},
    remote::Remote,
    show::PrintArgs,
    source,
};

/// Arguments of `acl bootstrap`.
#[derive(Debug, Args)]
pub struct AclBootstrapArgs {
    /// File with the secret of the token, `-` for standard input; by default one is generated
    #[arg(value_name = "FILE")]
    secret: Option<String>,
    #[command(flatten)]
    print: PrintArgs,
}

impl AclBootstrapArgs {
    /// Asks for it and prints it.
    pub async fn run(&self, remote: &Remote) -> Result<(), Failure> {
        let bootstrap_secret = match &self.secret {
            None => String::new(),
            Some(file) => String::from_utf8(source::read(file)?)
                .map_err(|_| Failure::new(Exit::Failed, format!("{file} holds no text")))?
                .trim()
                .to_owned(),
        };
        let request = AclBootstrap { bootstrap_secret };
        self.print.print(&remote.bootstrap_acl(&request).await?)
    }
}
