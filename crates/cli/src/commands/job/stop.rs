//! `berth job stop`: stops a job, and waits until its allocations have ended.

use std::{
    io::{self, BufRead, IsTerminal},
    time::Instant,
};

use clap::Args;

use crate::{
    failure::{Exit, Failure},
    follow::{Change, Progress, follow},
    output::{self, clean, short_id},
    remote::Remote,
};

/// Arguments of `job stop`.
#[derive(Debug, Args)]
pub struct Stop {
    /// The job's id
    #[arg(value_name = "JOB")]
    id: String,
    /// Forget the job at once, with its history
    #[arg(long)]
    purge: bool,
    /// Do not wait: print the evaluation's id and leave
    #[arg(long)]
    detach: bool,
    /// Do not ask
    #[arg(long, short)]
    yes: bool,
}

impl Stop {
    /// Stops and waits.
    pub async fn run(&self, remote: &Remote) -> Result<(), Failure> {
        let id = remote.find_job(&self.id).await?;
        self.confirm(&id)?;
        let since = Instant::now();
        let allocs = remote.job_allocations(&id).await?;
        let stopped = remote.deregister(&id, self.purge).await?;
        if self.detach {
            return Ok(output::print(&format!("{}\n", stopped.eval_id))?);
        }
        output::tell(&format!("job {} is stopped, evaluation {}", clean(&id), short_id(&stopped.eval_id)));
        let change = Change { job: &id, index: stopped.job_modify_index, since };
        follow(remote, &change, Progress::stopping(&stopped.eval_id, &allocs)).await?;
        Ok(())
    }

    /// Asks, unless told not to. An id that was shortened is never taken for granted.
    fn confirm(&self, id: &str) -> Result<(), Failure> {
        if self.yes && id == self.id {
            return Ok(());
        }
        if !io::stdin().is_terminal() {
            return Err(Failure::new(
                Exit::Usage,
                format!("nobody is there to ask whether to stop job {}", clean(id)),
            )
            .help("add -yes, and write the job's whole id"));
        }
        eprint!("stop job {}? [y/N] ", clean(id));
        let mut answer = String::new();
        io::stdin().lock().read_line(&mut answer)?;
        match answer.trim().to_lowercase().as_str() {
            "y" | "yes" => Ok(()),
            _ => Err(Failure::new(Exit::Failed, "nothing was stopped")),
        }
    }
}
