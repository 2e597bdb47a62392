//! A command within a task, as the server sees it.

use berth_api::agent::{
    Down, ExecCancel, ExecControl, ExecCredit, ExecDown, ExecEvent, ExecInput, ExecStart, ExecStream,
    Refusal, TerminalSize,
};

use crate::common::alloc_id;
use crate::server::Server;

/// Bytes of output that a command may be ahead.
pub const CREDIT: u64 = 64 << 10;

/// One command, and all that has come of it.
pub struct Exec {
    pub request: u64,
    pub stdout: Vec<u8>,
    pub stderr: Vec<u8>,
    /// Bytes of input that the agent takes.
    pub room: u64,
    pub end: Option<Result<i32, Refusal>>,
    /// Output is allowed again as it comes.
    pub reads: bool,
}

impl Exec {
    pub fn start(server: &mut Server, request: u64, number: u8, command: &[&str], tty: bool) -> Self {
        Self::start_in(server, request, number, "t", command, tty)
    }

    /// Within the task of this name.
    pub fn start_in(
        server: &mut Server,
        request: u64,
        number: u8,
        task: &str,
        command: &[&str],
        tty: bool,
    ) -> Self {
        let start = ExecStart {
            alloc_id: alloc_id(number).to_vec(),
            task: task.into(),
            command: command.iter().map(|word| (*word).to_owned()).collect(),
            tty,
            credit_bytes: CREDIT,
        };
        let exec = Self { request, stdout: Vec::new(), stderr: Vec::new(), room: 0, end: None, reads: true };
        exec.say(server, ExecControl::Start(start));
        exec
    }

    pub fn say(&self, server: &mut Server, order: ExecControl) {
        server.say(Down::Exec(ExecDown { request: self.request, control: Some(order) }));
    }

    pub fn input(&self, server: &mut Server, data: &[u8]) {
        let data = bytes::Bytes::copy_from_slice(data);
        self.say(server, ExecControl::Input(ExecInput { data, close: false }));
    }

    pub fn close(&self, server: &mut Server) {
        self.say(server, ExecControl::Input(ExecInput { close: true, ..ExecInput::default() }));
    }

    pub fn resize(&self, server: &mut Server, rows: u32, columns: u32) {
        self.say(server, ExecControl::Resize(TerminalSize { rows, columns }));
    }

    pub fn cancel(&self, server: &mut Server) {
        self.say(server, ExecControl::Cancel(ExecCancel {}));
    }

    pub fn allow(&self, server: &mut Server, stream: ExecStream, bytes: u64) {
        self.say(server, ExecControl::Credit(ExecCredit { stream: stream as i32, bytes }));
    }

    /// Listens until it is so.
    pub fn until(&mut self, server: &mut Server, is_so: impl Fn(&Self) -> bool) {
        loop {
            self.take(server);
            if is_so(self) {
                return;
            }
            assert_eq!(self.end, None, "it ended before: {:?}", String::from_utf8_lossy(&self.stdout));
            server.listen();
        }
    }

    /// Listens until it has ended.
    pub fn end(&mut self, server: &mut Server) -> Result<i32, Refusal> {
        while self.end.is_none() {
            server.listen();
            self.take(server);
        }
        self.end.clone().expect("it has ended")
    }

    pub fn shown(&self) -> String {
        String::from_utf8_lossy(&self.stdout).replace("\r\n", "\n")
    }

    /// Listens until a line of output is a process's id.
    pub fn pid(&mut self, server: &mut Server) -> i32 {
        self.until(server, |exec| exec.stdout.contains(&b'\n'));
        self.shown().lines().next().and_then(|line| line.trim().parse().ok()).expect("a pid")
    }

    fn take(&mut self, server: &mut Server) {
        let (mine, others) =
            std::mem::take(&mut server.execs).into_iter().partition(|up| up.request == self.request);
        server.execs = others;
        let mine: Vec<berth_api::agent::ExecUp> = mine;
        for news in mine.into_iter().filter_map(|up| up.event) {
            match news {
                ExecEvent::Output(output) => {
                    let stream = output.stream();
                    let all = if stream == ExecStream::Stderr { &mut self.stderr } else { &mut self.stdout };
                    all.extend_from_slice(&output.data);
                    if self.reads {
                        self.allow(server, stream, output.data.len() as u64);
                    }
                }
                ExecEvent::Credit(credit) => self.room += credit.bytes,
                ExecEvent::Exited(exited) => self.end = Some(Ok(exited.exit_code)),
                ExecEvent::Refused(refusal) => self.end = Some(Err(refusal)),
            }
        }
    }
}

/// Whether a process lives.
pub fn lives(pid: i32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    !stat.is_empty() && !stat.contains(") Z ")
}
