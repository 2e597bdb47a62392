//! The machines of one test: network namespaces with a directory and a shell each, joined by a bridge.

use std::{
    fs,
    io::{BufRead, BufReader, Write},
    path::Path,
    process::{Child, ChildStdin, ChildStdout, Command, Stdio},
    time::{Duration, Instant},
};

use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

/// Until something that must happen has not; no measure of how fast it should be.
const PATIENCE: Duration = Duration::from_secs(60);
/// Between two looks.
const LOOK_AGAIN: Duration = Duration::from_millis(100);
/// What programs print once they serve, or have joined.
const STARTED: &[&str] = &["is ready", "has joined"];
/// Printed by a shell after each block, with how it ended.
const ENDED: &str = "the block ended with ";

/// Machines with the addresses 10.20.0.1, 10.20.0.2 and so on, in the order of their names.
pub struct Machines {
    machines: Vec<Machine>,
    dir: TempDir,
    /// Keeps the namespaces in which the machines and the bridge are.
    room: Child,
}

struct Machine {
    name: String,
    shell: Child,
    stdin: ChildStdin,
    stdout: BufReader<ChildStdout>,
}

/// Whether there may be any; the reason is printed.
pub fn can_be_made() -> bool {
    if !rustix::process::geteuid().is_root() {
        eprintln!("skipped: only root makes network namespaces");
        return false;
    }
    let there = Path::new("/usr/sbin/ip").exists();
    if !there {
        eprintln!("skipped: /usr/sbin/ip is missing");
    }
    there
}

impl Machines {
    /// Makes the machines, and starts their shells.
    pub fn start(names: &[&str]) -> Self {
        let room = make_room(names);
        let dir = TempDir::new().expect("a directory");
        let bin = dir.path().join(".bin");
        fs::create_dir(&bin).expect("a directory");
        std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_berth"), bin.join("berth")).expect("a link");
        let machines = names.iter().map(|name| Machine::start(room.id(), dir.path(), name)).collect();
        Self { machines, dir, room }
    }

    /// What a block prints, which must succeed; where it leaves a program running, that has started.
    pub fn run(&mut self, machine: &str, script: &str) -> String {
        let at = self.dir.path().join(machine);
        let (printed, code) = self.machine(machine).run(script);
        let log = log(&at);
        assert_eq!(code, 0, "on {machine}:\n{script}\n{printed}\n{log}");
        if script.trim_end().ends_with('&') {
            let since = Instant::now();
            while !STARTED.iter().any(|started| self::log(&at).contains(started)) {
                assert!(since.elapsed() < PATIENCE, "on {machine}:\n{script}\n{}", self::log(&at));
                std::thread::sleep(LOOK_AGAIN);
            }
        }
        printed
    }

    /// Runs a script until what it prints is right.
    pub fn until(&mut self, machine: &str, script: &str, is_right: impl Fn(&str) -> bool) {
        let since = Instant::now();
        loop {
            let printed = self.run(machine, script);
            if is_right(&printed) {
                return;
            }
            assert!(since.elapsed() < PATIENCE, "on {machine}, {script}:\n{printed}");
            std::thread::sleep(LOOK_AGAIN);
        }
    }

    fn machine(&mut self, name: &str) -> &mut Machine {
        self.machines.iter_mut().find(|machine| machine.name == name).expect("a machine of that name")
    }
}

impl Drop for Machines {
    /// Agents before the servers, so that no task stays.
    fn drop(&mut self) {
        for machine in self.machines.iter_mut().rev() {
            machine.end();
        }
        drop(self.room.stdin.take());
        let _ = self.room.wait();
    }
}

impl Machine {
    fn start(room: u32, dir: &Path, name: &str) -> Self {
        let home = dir.join(name);
        fs::create_dir(&home).expect("a directory");
        let mut command = Command::new("nsenter");
        for (name, _) in std::env::vars_os() {
            if name.to_str().is_some_and(|name| name.starts_with("BERTH_") || name.starts_with("NOMAD_")) {
                command.env_remove(name);
            }
        }
        let mut shell = command
            .args(["--target", &room.to_string(), "--net", "--mount", "nsenter"])
            .args([&format!("--net=/run/netns/{name}"), "sh"])
            .env("HOME", &home)
            .env("PATH", format!("{}:/usr/sbin:/usr/bin:/sbin:/bin", dir.join(".bin").display()))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("a shell");
        let stdin = shell.stdin.take().expect("it is piped");
        let stdout = BufReader::new(shell.stdout.take().expect("it is piped"));
        let mut machine = Self { name: name.to_owned(), shell, stdin, stdout };
        assert_eq!(machine.run(&format!("cd {}", home.display())).1, 0, "the directory is there");
        machine
    }

    /// What a script prints, and how it ends. The shell keeps what the script exports.
    fn run(&mut self, script: &str) -> (String, i32) {
        writeln!(self.stdin, "{{ {}\n}} 2>&1; echo \"{ENDED}$?\"", script.trim_end())
            .expect("the shell reads");
        let mut printed = String::new();
        loop {
            let mut line = String::new();
            let read = self.stdout.read_line(&mut line).expect("the shell prints");
            assert!(read > 0, "the shell of {} is gone:\n{printed}", self.name);
            if let Some(code) = line.strip_prefix(ENDED) {
                return (printed, code.trim().parse().expect("a number"));
            }
            printed.push_str(&line);
        }
    }

    /// Ends what the shell has left running, and the shell.
    fn end(&mut self) {
        let _ = writeln!(self.stdin, "kill ${{!:-}} && wait; exit");
        let since = Instant::now();
        while !self.shell.try_wait().is_ok_and(|ended| ended.is_some()) {
            if since.elapsed() > PATIENCE {
                let _ = kill_process(Pid::from_child(&self.shell), Signal::KILL);
            }
            std::thread::sleep(LOOK_AGAIN);
        }
    }
}

/// What the programs of a machine have written to their logs.
fn log(home: &Path) -> String {
    let logs = fs::read_dir(home).expect("listed").flatten().map(|entry| entry.path());
    let logs = logs.filter(|path| path.extension().is_some_and(|extension| extension == "log"));
    logs.map(|path| fs::read_to_string(path).unwrap_or_default()).collect()
}

/// Network namespaces of these names on one bridge, in namespaces that end with what is returned.
fn make_room(names: &[&str]) -> Child {
    let mut script = String::from(
        "set -e; mkdir -p /run/netns; mount -t tmpfs none /run/netns; ip link add switch type bridge; \
         ip link set switch up;",
    );
    for (name, number) in names.iter().zip(1..) {
        script.push_str(&format!(
            "ip netns add {name}; ip link add wire{number} type veth peer name eth0 netns {name}; \
             ip link set wire{number} master switch up; ip -n {name} link set lo up; \
             ip -n {name} addr add 10.20.0.{number}/24 dev eth0; ip -n {name} link set eth0 up;"
        ));
    }
    script.push_str("echo made; exec cat");
    let mut room = Command::new("unshare")
        .args(["--net", "--mount", "--propagation", "private", "sh", "-c", &script])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("namespaces");
    let mut line = String::new();
    BufReader::new(room.stdout.take().expect("it is piped")).read_line(&mut line).expect("it prints");
    assert_eq!(line, "made\n", "the machines could not be made");
    room
}
