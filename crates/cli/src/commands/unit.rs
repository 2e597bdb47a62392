//! `berth server install-unit` and `berth agent install-unit`: a unit file for systemd.

use std::path::{Path, PathBuf};

use clap::Args;

use crate::{
    failure::{Exit, Failure},
    output,
};

/// Arguments of `install-unit`.
#[derive(Debug, Args)]
#[command(after_help = "Write what it prints to /etc/systemd/system, then `systemctl enable --now` it.")]
pub struct InstallUnitArgs {
    /// TOML file with its settings
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
}

/// What the unit runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Daemon {
    /// `berth server`
    Server,
    /// `berth agent`
    Agent,
}

impl InstallUnitArgs {
    pub fn run(&self, daemon: Daemon) -> Result<(), Failure> {
        if let Some(config) = self.config.as_deref().filter(|config| !config.is_absolute()) {
            let message =
                format!("{} is not absolute, and systemd starts in no directory of yours", config.display());
            return Err(Failure::new(Exit::Usage, message).help("write the whole path"));
        }
        Ok(output::print(&unit(daemon, &std::env::current_exe()?, self.config.as_deref()))?)
    }
}

fn unit(daemon: Daemon, program: &Path, config: Option<&Path>) -> String {
    let (verb, what, own) = match daemon {
        Daemon::Server => ("server", "server", "NoNewPrivileges=yes\n"),
        // It makes cgroups, mounts and namespaces for its tasks, and as many processes as these want.
        Daemon::Agent => ("agent", "agent", "TasksMax=infinity\nOOMScoreAdjust=-900\n"),
    };
    let config = config.map(|config| format!(" --config {}", quoted(config))).unwrap_or_default();
    format!(
        "[Unit]\n\
         Description=Berth {what}\n\
         Wants=network-online.target\n\
         After=network-online.target\n\
         StartLimitIntervalSec=0\n\
         \n\
         [Service]\n\
         ExecStart={} {verb}{config}\n\
         # Tasks are not the service's own: they run on while it is restarted or replaced by a newer version.\n\
         KillMode=process\n\
         KillSignal=SIGTERM\n\
         TimeoutStopSec=90\n\
         Restart=always\n\
         RestartSec=2\n\
         StateDirectory=berth\n\
         # Tasks with users of their own pass through it, and nobody lists it; what is in it says who may read it.\n\
         StateDirectoryMode=0711\n\
         LimitNOFILE=1048576\n\
         {own}\
         \n\
         [Install]\n\
         WantedBy=multi-user.target\n",
        quoted(program)
    )
}

/// A word of a command line as systemd reads it.
fn quoted(path: &Path) -> String {
    let mut quoted = String::from("\"");
    for c in path.to_string_lossy().chars() {
        match c {
            '"' | '\\' => quoted.extend(['\\', c]),
            '%' | '$' => quoted.extend([c, c]),
            c => quoted.push(c),
        }
    }
    quoted.push('"');
    quoted
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tasks_outlive_the_service() {
        let agent =
            unit(Daemon::Agent, Path::new("/usr/bin/berth"), Some(Path::new("/etc/berth/agent.toml")));
        assert!(agent.contains("\nKillMode=process\n"));
        assert!(agent.contains("\nExecStart=\"/usr/bin/berth\" agent --config \"/etc/berth/agent.toml\"\n"));
        let server = unit(Daemon::Server, Path::new("/usr/bin/berth"), None);
        assert!(server.contains("\nExecStart=\"/usr/bin/berth\" server\n"));
    }

    /// What systemd itself makes of them.
    #[test]
    fn systemd_has_nothing_to_say_against_them() {
        let dir = tempfile::tempdir().unwrap();
        let config = dir.path().join("100% $x.toml");
        for (daemon, name) in
            [(Daemon::Server, "berth-server.service"), (Daemon::Agent, "berth-agent.service")]
        {
            let path = dir.path().join(name);
            std::fs::write(&path, unit(daemon, &std::env::current_exe().unwrap(), Some(&config))).unwrap();
            let mut command = std::process::Command::new("systemd-analyze");
            let verified = match command.args(["verify", "--man=no"]).arg(&path).output() {
                Ok(verified) => verified,
                Err(error) => return eprintln!("skipped: systemd-analyze cannot be run: {error}"),
            };
            let stderr = String::from_utf8_lossy(&verified.stderr).into_owned();
            // Of the machine's other units it may say what it likes.
            let of_it: Vec<&str> = stderr.lines().filter(|line| line.contains(name)).collect();
            assert!(verified.status.success() && of_it.is_empty(), "{stderr}");
        }
    }

    #[test]
    fn odd_paths_mean_themselves_to_systemd() {
        assert_eq!(quoted(Path::new(r#"/a b/100%/$x/"q"\"#)), r#""/a b/100%%/$$x/\"q\"\\""#);
    }
}
