//! Requests about allocations, their files and their tasks' output.

use std::collections::BTreeMap;

use berth_api::http::{
    AllocCheck, AllocFileInfo, AllocResourceUsage, AllocRestart, AllocSignal, AllocStopped, Allocation,
    AllocationStub, ByteStream, ExecInputFrame, ExecOutputFrame, JsonLines, SocketReceiver, SocketSender,
    StreamFrame,
};
use serde::de::IgnoredAny;
use serde_json::json;

use super::Remote;
use crate::failure::Failure;

/// A command to run.
#[derive(Debug, Clone, Copy)]
pub struct ExecRequest<'a> {
    /// Whole id of the allocation.
    pub alloc: &'a str,
    pub task: &'a str,
    /// The program and its arguments.
    pub command: &'a [String],
    /// Give it a terminal.
    pub tty: bool,
}

/// A part of a log or a file to read.
#[derive(Debug, Clone)]
pub struct StreamRead<'a> {
    /// Whole id of the allocation.
    pub alloc: &'a str,
    pub source: StreamSource<'a>,
    pub from: StreamStart,
    /// Go on with what is written from now on.
    pub follow: bool,
}

/// A log, or a file.
#[derive(Debug, Clone, Copy)]
pub enum StreamSource<'a> {
    /// What a task prints.
    Log {
        task: &'a str,
        /// `stdout` or `stderr`.
        stream: &'static str,
    },
    /// A file, from the top of the allocation's directory.
    File(&'a str),
}

/// Where in a log or a file to begin.
#[derive(Debug, Clone, Copy)]
pub enum StreamStart {
    /// Bytes since the task's first output, or from the file's beginning.
    Offset(u64),
    /// Bytes before the end.
    BeforeEnd(u64),
}

impl Remote {
    /// All allocations, and what they hold.
    pub async fn allocations_with_resources(&self) -> Result<Vec<AllocationStub>, Failure> {
        self.get(&self.list(self.target("/v1/allocations")).param("resources", "true")).await
    }

    /// All allocations, and where their tasks are in their lives.
    pub async fn allocations_with_tasks(&self) -> Result<Vec<AllocationStub>, Failure> {
        self.get(&self.list(self.target("/v1/allocations"))).await
    }

    /// An allocation by its whole id.
    pub async fn allocation(&self, id: &str) -> Result<Allocation, Failure> {
        self.get(&self.target("/v1/allocation").part(id)).await
    }

    /// Stops an allocation; its job gets another one.
    pub async fn stop_allocation(&self, id: &str) -> Result<AllocStopped, Failure> {
        self.put(&self.target("/v1/allocation").part(id).part("stop"), &json!({})).await
    }

    /// What an allocation's tasks use.
    pub async fn allocation_usage(&self, id: &str) -> Result<AllocResourceUsage, Failure> {
        self.get(&self.target("/v1/client/allocation").part(id).part("stats")).await
    }

    /// How an allocation's checks stand, by their ids.
    pub async fn allocation_checks(&self, id: &str) -> Result<BTreeMap<String, AllocCheck>, Failure> {
        self.get(&self.target("/v1/client/allocation").part(id).part("checks")).await
    }

    /// Restarts the named task, or all that run, or all there are.
    pub async fn restart_tasks(&self, id: &str, task: &str, all: bool) -> Result<(), Failure> {
        let request = AllocRestart { task_name: task.to_owned(), all_tasks: all };
        let target = self.target("/v1/client/allocation").part(id).part("restart");
        self.put::<IgnoredAny>(&target, &request).await.map(drop)
    }

    /// Sends a signal to the named task, or to all that run.
    pub async fn signal_tasks(&self, id: &str, task: &str, signal: &str) -> Result<(), Failure> {
        let request = AllocSignal { task: task.to_owned(), signal: signal.to_owned() };
        let target = self.target("/v1/client/allocation").part(id).part("signal");
        self.put::<IgnoredAny>(&target, &request).await.map(drop)
    }

    /// Runs a command within a task: its input, and its output.
    pub async fn exec(
        &self,
        request: &ExecRequest<'_>,
    ) -> Result<(SocketSender<ExecInputFrame>, SocketReceiver<ExecOutputFrame>), Failure> {
        let command = serde_json::to_string(request.command).unwrap_or_default();
        let target = self.target("/v1/client/allocation").part(request.alloc).part("exec");
        let target = target.param("task", request.task).param("tty", request.tty).param("command", command);
        Ok(self.client.socket(&target).await?)
    }

    /// What a file of an allocation is.
    pub async fn file(&self, alloc: &str, path: &str) -> Result<AllocFileInfo, Failure> {
        self.get(&self.target("/v1/client/fs/stat").part(alloc).param("path", path)).await
    }

    /// What a directory of an allocation holds.
    pub async fn files(&self, alloc: &str, path: &str) -> Result<Vec<AllocFileInfo>, Failure> {
        self.get(&self.target("/v1/client/fs/ls").part(alloc).param("path", path)).await
    }

    /// The content of a file, as it is now.
    pub async fn file_content(&self, alloc: &str, path: &str) -> Result<ByteStream, Failure> {
        let target = self.target("/v1/client/fs/cat").part(alloc).param("path", path);
        Ok(self.client.bytes(&target).await?)
    }

    /// Pieces of a log or a file.
    pub async fn stream(&self, read: &StreamRead<'_>) -> Result<JsonLines<StreamFrame>, Failure> {
        let (origin, offset) = match read.from {
            StreamStart::Offset(offset) => ("start", offset),
            StreamStart::BeforeEnd(offset) => ("end", offset),
        };
        let target = match read.source {
            StreamSource::Log { task, stream } => {
                let target = self.target("/v1/client/fs/logs").part(read.alloc);
                target.param("task", task).param("type", stream)
            }
            StreamSource::File(path) => {
                self.target("/v1/client/fs/stream").part(read.alloc).param("path", path)
            }
        };
        let target = target.param("origin", origin).param("offset", offset).param("follow", read.follow);
        Ok(self.client.lines(&target).await?)
    }
}
