//! `berth completion`: the script with which a shell completes arguments of `berth`.

use clap::{Args, ValueEnum};
use clap_complete::env::{Bash, EnvCompleter, Fish, Zsh};

use crate::{complete, failure::Failure, output};

/// The command's name in the shell.
const BINARY: &str = "berth";

/// Arguments of `completion`.
#[derive(Debug, Args)]
pub struct CompletionArgs {
    /// The shell
    #[arg(value_enum, value_name = "SHELL")]
    shell: Shell,
}

/// Shells that can complete.
#[derive(Debug, Clone, Copy, ValueEnum)]
enum Shell {
    /// `eval "$(berth completion bash)"` in ~/.bashrc
    Bash,
    /// `eval "$(berth completion zsh)"` in ~/.zshrc
    Zsh,
    /// `berth completion fish | source` in ~/.config/fish/config.fish
    Fish,
}

impl CompletionArgs {
    pub fn run(&self) -> Result<(), Failure> {
        let shell: &dyn EnvCompleter = match self.shell {
            Shell::Bash => &Bash,
            Shell::Zsh => &Zsh,
            Shell::Fish => &Fish,
        };
        let mut script = Vec::new();
        shell.write_registration(complete::VARIABLE, BINARY, BINARY, BINARY, &mut script)?;
        Ok(output::print_bytes(&script)?)
    }
}
