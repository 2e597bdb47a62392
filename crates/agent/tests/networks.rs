//! Networks of allocations, each test in a network namespace of its own: the host's interfaces and rules stay as they are.

#[path = "common/busybox.rs"]
mod busybox;
#[allow(dead_code)]
mod common;
#[path = "common/exec.rs"]
#[allow(dead_code)]
mod exec;
#[path = "common/host.rs"]
mod host;
#[path = "common/server.rs"]
#[allow(dead_code)]
mod server;

use std::fs;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::os::fd::AsFd;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use berth_api::agent::{
    AllocStatus, ClientStatus, DnsSpec, GroupSpec, LogSpec, NetworkSpec, PortBinding, RestartSpec, RunAlloc,
    TaskSpec,
};
use common::{agent_program, alloc_id, end_agent, eventually};
use exec::Exec;
use host::{BEYOND, BEYOND_V6, HOST, HOST_V6, interfaces, namespaces, rules, sh};
use prost::Message;
use rustix::process::{Pid, Signal, kill_process};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
use serde_json::{Value, json};
use server::{Run, Server};
use tempfile::TempDir;

/// A host of its own with an agent, and another host beside it.
struct World {
    runtime: &'static str,
    host_ip: &'static str,
    data: TempDir,
    image: TempDir,
    server: Server,
    agent: Child,
}

impl World {
    /// None, with the reason printed, where networks cannot be made.
    fn new() -> Option<Self> {
        Self::on(HOST)
    }

    /// The same with an agent whose ports are reached on this address.
    fn on(host_ip: &'static str) -> Option<Self> {
        Self::made(host_ip, host_ip == HOST_V6)
    }

    /// The same, on a host that has IPv6 too where that is asked for.
    fn made(host_ip: &'static str, speaks_v6: bool) -> Option<Self> {
        let runtime = busybox::runtimes().into_iter().next()?;
        if !host::can_be_made() {
            return None;
        }
        host::become_one();
        if speaks_v6 && !host::speak_v6() {
            return None;
        }
        let (data, image) = (tempfile::tempdir().expect("a directory"), busybox::image(&["sh"]));
        fs::create_dir_all(image.path().join("root/tmp")).expect("a directory");
        let mut server = Server::new();
        let agent = spawn((runtime, host_ip), (&data, &image), &server);
        server.accept();
        Some(Self { runtime, host_ip, data, image, server, agent })
    }

    fn kill_agent(&mut self) {
        self.agent.kill().expect("killed");
        self.agent.wait().expect("an end");
        self.server.disconnect();
    }

    fn restart_agent(&mut self) {
        self.agent = spawn((self.runtime, self.host_ip), (&self.data, &self.image), &self.server);
        self.server.accept();
    }

    fn task(&self, name: &str, script: &str, config: Value) -> TaskSpec {
        let script = format!("busybox --install -s /bin; {script}");
        let root = self.image.path().join("root");
        let mut settings = json!({"image": root, "command": "/bin/sh", "args": ["-c", script]});
        if let (Some(settings), Some(more)) = (settings.as_object_mut(), config.as_object()) {
            settings.extend(more.clone());
        }
        TaskSpec {
            name: name.into(),
            driver: "docker".into(),
            config_json: settings.to_string(),
            memory_mb: 32,
            cpu_mhz: 100,
            kill_timeout_ms: 500,
            restart: RestartSpec { attempts: 0, interval_ms: 60_000, delay_ms: 10, mode: 0 },
            logs: LogSpec { max_files: 2, max_file_size_mb: 1, disabled: false },
            ..TaskSpec::default()
        }
    }

    fn run(&mut self, number: u8, mode: &str, tasks: Vec<TaskSpec>, ports: &[(&str, u32, u32)]) {
        let binding = |(label, host_port, to): &(&str, u32, u32)| PortBinding {
            label: (*label).to_owned(),
            host_port: *host_port,
            to: *to,
            ..PortBinding::default()
        };
        self.run_with(number, mode, tasks, ports.iter().map(binding).collect());
    }

    fn run_with(&mut self, number: u8, mode: &str, tasks: Vec<TaskSpec>, ports: Vec<PortBinding>) {
        let dns = DnsSpec { servers: vec![BEYOND.into()], searches: vec!["lan".into()], options: Vec::new() };
        let network = NetworkSpec { mode: mode.into(), hostname: "web-1".into(), dns: Some(dns) };
        let group =
            GroupSpec { job_type: "batch".into(), tasks, network: Some(network), ..GroupSpec::default() };
        let alloc = RunAlloc { alloc_id: alloc_id(number).to_vec(), ports, ..RunAlloc::default() };
        self.server.desire(vec![Run { alloc, group: group.encode_to_vec().into() }], &[], &[], &[]);
    }

    fn runs(&mut self, number: u8) {
        let status = self.server.wait_for(number, |status| status.status() != ClientStatus::Pending);
        assert_eq!(status.status(), ClientStatus::Running, "{}", events_of(&status));
    }

    fn stop(&mut self, number: u8) {
        self.server.desire(Vec::new(), &[number], &[], &[]);
        self.server.wait_for(number, |status| status.status().is_terminal());
    }

    /// An allocation that says `web` on port 25080 of the host.
    fn run_web(&mut self, number: u8) {
        let task = self.task("t", &serve(80, "web"), json!({"ports": ["web"]}));
        self.run(number, "", vec![task], &[("web", 25_080, 80)]);
        self.runs(number);
    }

    /// What a server on the host beyond sees of who connects from within allocation 1, where that host has this address.
    fn seen_beyond(&mut self, request: u64, beyond: &str) -> String {
        let says = self.data.path().join("says");
        fs::write(&says, "#!/bin/sh\n/bin/busybox netstat -tn\n").expect("written");
        sh(&format!("chmod 755 {}", says.display()));
        let mut listener = Command::new("/usr/sbin/ip");
        listener.args(["netns", "exec", "beyond", "/bin/busybox", "nc", "-ll", "-p", "7000", "-e"]);
        let mut listener = listener.arg(&says).stdin(Stdio::null()).spawn().expect("a listener");
        let dial = format!("until nc -w 2 {beyond} 7000 < /dev/null; do sleep 0.1; done 2> /dev/null");
        let seen = self.within(1, request, &dial);
        listener.kill().and_then(|()| listener.wait()).expect("an end");
        seen
    }

    /// How many networks and ports are on record.
    fn records(&self) -> usize {
        fs::read_dir(self.data.path().join("networks")).expect("listed").count()
    }

    fn within(&mut self, number: u8, request: u64, script: &str) -> String {
        let mut exec = Exec::start(&mut self.server, request, number, &["sh", "-c", script], false);
        let _ = exec.end(&mut self.server);
        exec.shown().to_owned()
    }
}

impl Drop for World {
    /// Told to end, an agent takes its tasks along; one that was killed has none here.
    fn drop(&mut self) {
        end_agent(&mut self.agent);
    }
}

fn spawn((runtime, host_ip): (&str, &str), (data, image): (&TempDir, &TempDir), server: &Server) -> Child {
    let mut command = Command::new(agent_program());
    command.arg("run").arg(data.path()).arg(server.address()).arg(runtime).arg(image.path());
    command.env("AGENT_BRIDGE", "berth").env("AGENT_HOST_IP", host_ip);
    command.stdin(Stdio::null()).spawn().expect("an agent")
}

fn events_of(status: &AllocStatus) -> String {
    status.tasks.iter().map(|task| format!("{:?}", task.events)).collect()
}

/// What a server on this port of this host says; an agent may still be about to map it.
fn fetched(address: &str) -> String {
    eventually(address, || fetch(address))
}

/// What the host beyond is told on port 25080 of this address.
fn fetched_beyond(host: &str) -> String {
    let beyond = format!("ip netns exec beyond /bin/busybox nc -w 2 {host} 25080 < /dev/null");
    let output = Command::new("/bin/sh").args(["-c", &beyond]).output().expect("a shell");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// Whether the host is as it was before there was any allocation.
fn is_clean() -> bool {
    namespaces().is_empty() && interfaces().is_empty() && !rules().contains("25080")
}

fn fetch(address: &str) -> Option<String> {
    let mut stream =
        TcpStream::connect_timeout(&address.parse().expect("an address"), Duration::from_secs(1)).ok()?;
    stream.set_read_timeout(Some(Duration::from_secs(5))).ok()?;
    let mut text = String::new();
    stream.read_to_string(&mut text).ok()?;
    (!text.is_empty()).then_some(text)
}

/// Says a word to whoever connects, in a container.
fn serve(port: u16, word: &str) -> String {
    format!(
        "echo '#!/bin/sh' > /tmp/say; echo echo {word} >> /tmp/say; chmod 755 /tmp/say; nc -ll -p {port} -e /tmp/say"
    )
}

/// The host itself says a word to whoever connects, on all of its addresses.
fn say_the_word(port: u16) -> TcpListener {
    let listener = TcpListener::bind(("0.0.0.0", port)).expect("free");
    let accepting = listener.try_clone().expect("cloned");
    std::thread::spawn(move || {
        while let Ok((mut stream, _)) = accepting.accept() {
            let _ = stream.write_all(b"reached\n");
        }
    });
    listener
}

/// Sends UDP back to whoever sends it, in the network that is the only one.
fn echo_udp(port: u16) {
    let path = Path::new("/run/netns").join(&namespaces()[0]);
    std::thread::spawn(move || {
        let network = fs::File::open(path).expect("a network");
        move_into_link_name_space(network.as_fd(), Some(LinkNameSpaceType::Network)).expect("entered");
        let socket = UdpSocket::bind(("0.0.0.0", port)).expect("a socket");
        let mut buffer = [0; 16];
        while let Ok((length, from)) = socket.recv_from(&mut buffer) {
            let _ = socket.send_to(&buffer[..length], from);
        }
    });
}

#[test]
fn ports_lead_in_and_the_way_leads_out() {
    let Some(mut world) = World::new() else { return };
    let (web, dns) = (("web", 25_080, 80), ("dns", 25_053, 53));
    let task = world.task("t", &serve(80, "web"), json!({"ports": ["web", "dns"]}));
    world.run(1, "", vec![task], &[web, dns]);
    world.runs(1);
    assert_eq!(fetched(&format!("{HOST}:25080")), "web\n");
    // From beyond, and UDP.
    assert_eq!(fetched_beyond(HOST), "web\n");
    echo_udp(53);
    let udp = UdpSocket::bind((HOST, 0)).expect("a socket");
    udp.set_read_timeout(Some(Duration::from_millis(100))).expect("set");
    let mut buffer = [0; 16];
    let length = eventually("an answer by UDP", || {
        udp.send_to(b"asked", (HOST, 25_053)).expect("sent");
        udp.recv_from(&mut buffer).ok().map(|(length, _)| length)
    });
    assert_eq!(&buffer[..length], b"asked");

    // Out to another host, under the host's own address; by its own port, as others do.
    let out = world.seen_beyond(1, BEYOND);
    assert!(out.contains(&format!("{HOST}:")), "{out}");
    assert_eq!(world.within(1, 2, &format!("nc -w 2 {HOST} 25080 < /dev/null")), "web\n");

    // Nothing of the host but what the operator allowed, on no address of it: a port of the range that allocations are
    // given is no allocation's for that.
    let ports = [9_999, 25_999, 8_125];
    let listeners = ports.map(say_the_word);
    let probe = format!(
        "for a in {HOST} 172.27.64.1 127.0.0.1; do for p in 9999 25999 8125; do \
         echo $a $p $(nc -w 20 $a $p < /dev/null 2>&1 | sed 's/.*: //'); done; done"
    );
    let reached = world.within(1, 3, &probe);
    let (word, refused) = ("reached", "Connection refused");
    let of = |address: &str, of_ports: [&str; 3]| -> String {
        let lines = ports.iter().zip(of_ports).map(|(port, found)| format!("{address} {port} {found}\n"));
        lines.collect()
    };
    let of_host = [HOST, "172.27.64.1"].map(|address| of(address, [refused, refused, word])).concat();
    assert_eq!(reached, of_host + &of("127.0.0.1", [refused; 3]));
    drop(listeners);

    let seen = world.within(1, 4, "hostname; cat /etc/resolv.conf; grep web-1 /etc/hosts");
    assert_eq!(seen, format!("web-1\nsearch lan\nnameserver {BEYOND}\n172.27.64.2 web-1\n"));
    world.stop(1);
    assert!(is_clean(), "nothing is left once its end is known");
    assert_eq!(world.records(), 0);
}

/// A directory stands for a namespace that the host does not let go.
#[test]
fn a_network_that_cannot_be_removed_keeps_no_agent_from_starting() {
    let Some(mut world) = World::new() else { return };
    world.kill_agent();
    let stays = Path::new("/run/netns/berth-1");
    fs::create_dir(stays).expect("made");
    fs::write("/run/netns/berth-2", "").expect("written");
    world.restart_agent();
    assert_eq!(namespaces(), ["berth-1"]);
    fs::remove_dir(stays).expect("removed");
}

/// A task in the host's network listens there itself: others reach its ports, for as long as its allocation runs.
#[test]
fn ports_in_the_hosts_network_are_reached_while_they_are_an_allocations() {
    let Some(mut world) = World::new() else { return };
    let asking = world.task("t", "sleep 1000", json!({}));
    world.run(1, "", vec![asking], &[]);
    world.runs(1);
    let listening = |world: &World| TaskSpec {
        driver: "raw_exec".into(),
        config_json:
            json!({"command": "/bin/busybox", "args": ["nc", "-ll", "-p", "25090", "-e", "/bin/pwd"]})
                .to_string(),
        ..world.task("t", "", json!({}))
    };
    let task = listening(&world);
    world.run(2, "", vec![task], &[("raw", 25_090, 0)]);
    world.runs(2);
    let reach = |world: &mut World, request: u64| {
        let dial = format!("nc -w 5 {HOST} 25090 < /dev/null 2>&1 | sed 's/.*: //'");
        world.within(1, request, &dial)
    };
    let reached = |world: &mut World, request: u64| {
        eventually("its port", || reach(world, request).contains("/tasks/t").then_some(()));
    };
    reached(&mut world, 1);
    // Nor does that depend on the agent, or on rules that others throw away.
    world.kill_agent();
    sh("nft flush ruleset");
    world.restart_agent();
    reached(&mut world, 2);
    world.stop(2);
    eventually("the port is closed", || (!rules().contains("25090")).then_some(()));
    let held = eventually("the port is free", || TcpListener::bind((HOST, 25_090)).ok());
    assert_eq!(reach(&mut world, 3), "Connection refused\n");
    drop(held);
    assert_eq!(world.records(), 1);
}

/// On a host that forwards IPv6, whose allocations are reached on an address of it.
#[test]
fn ports_and_the_way_out_are_ipv6s_too() {
    let Some(mut world) = World::on(HOST_V6) else { return };
    world.run_web(1);
    let address = format!("[{HOST_V6}]:25080");
    assert_eq!(fetched(&address), "web\n");
    assert_eq!(fetched_beyond(HOST_V6), "web\n");
    // By its own port, and out under the host's address.
    assert_eq!(world.within(1, 1, &format!("nc -w 2 {HOST_V6} 25080 < /dev/null")), "web\n");
    let out = world.seen_beyond(2, BEYOND_V6);
    assert!(out.contains(HOST_V6), "{out}");
    // The host itself is as closed as by its other addresses.
    let held = TcpListener::bind((HOST_V6, 9_999)).expect("free");
    let reached = world.within(1, 3, &format!("nc -w 20 {HOST_V6} 9999 < /dev/null 2>&1 | sed 's/.*: //'"));
    assert_eq!(reached, "Connection refused\n");
    drop(held);
    world.stop(1);
    assert!(is_clean(), "nothing is left once its end is known");
}

/// The address of a port is the operator's choice: IPv6 of a node whose ports are at one of IPv4 is a network of its own.
#[test]
fn a_port_of_a_network_of_ipv6_is_reached_beside_those_of_ipv4() {
    let Some(mut world) = World::made(HOST, true) else { return };
    let task = world.task("t", &serve(80, "web"), json!({"ports": ["web", "web6"]}));
    let port = |label: &str, host_port: u32| PortBinding {
        label: label.into(),
        host_port,
        to: 80,
        ..PortBinding::default()
    };
    let v6 = PortBinding { host_network: "v6".into(), host_ip: HOST_V6.into(), ..port("web6", 25_086) };
    world.run_with(1, "", vec![task], vec![port("web", 25_080), v6]);
    world.runs(1);
    assert_eq!(fetched(&format!("{HOST}:25080")), "web\n");
    assert_eq!(fetched(&format!("[{HOST_V6}]:25086")), "web\n");
    assert_eq!(fetched_beyond(HOST), "web\n");
    assert_eq!(fetched_beyond(HOST_V6), "", "nobody asked for it there");
    let beyond = format!("ip netns exec beyond /bin/busybox nc -w 2 {HOST_V6} 25086 < /dev/null");
    let output = Command::new("/bin/sh").args(["-c", &beyond]).output().expect("a shell");
    assert_eq!(String::from_utf8_lossy(&output.stdout), "web\n");
    assert_eq!(world.within(1, 1, &format!("nc -w 2 {HOST_V6} 25086 < /dev/null")), "web\n");
    world.stop(1);
    assert!(is_clean(), "nothing is left once its end is known");
}

#[test]
fn tasks_of_a_group_share_a_network_and_others_do_not_see_it() {
    let Some(mut world) = World::new() else { return };
    let tasks = vec![
        world.task("a", &serve(81, "within"), json!({})),
        world.task("b", &serve(80, "web"), json!({})),
        TaskSpec {
            name: "c".into(),
            driver: "raw_exec".into(),
            config_json:
                json!({"command": "/bin/busybox", "args": ["nc", "-ll", "-p", "82", "-e", "/bin/pwd"]})
                    .to_string(),
            ..world.task("c", "", json!({}))
        },
    ];
    world.run(1, "bridge", tasks, &[("http", 25_080, 80), ("raw", 25_082, 82)]);
    world.runs(1);
    let alone = world.task("t", "sleep 1000", json!({}));
    world.run(2, "", vec![alone], &[]);
    world.runs(2);
    let mut own = namespaces();
    own.sort();
    assert_eq!(own, ["berth-2", "berth-3"]);
    assert_eq!(fetched(&format!("{HOST}:25080")), "web\n");
    assert!(fetched(&format!("{HOST}:25082")).contains("/tasks/c"));
    let mut exec = Exec::start_in(
        &mut world.server,
        1,
        1,
        "b",
        &["sh", "-c", "until nc -w 2 127.0.0.1 81 < /dev/null; do sleep 0.1; done 2> /dev/null"],
        false,
    );
    assert_eq!(exec.end(&mut world.server), Ok(0), "{}", exec.shown());
    assert_eq!(exec.shown(), "within\n");
    let mut exec = Exec::start_in(
        &mut world.server,
        2,
        1,
        "c",
        &[
            "/bin/sh",
            "-c",
            "until /bin/busybox nc -w 2 127.0.0.1 81 < /dev/null; do sleep 0.1; done 2> /dev/null",
        ],
        false,
    );
    assert_eq!(exec.end(&mut world.server), Ok(0), "{}", exec.shown());
    assert_eq!(exec.shown(), "within\n");
    // Another allocation gets there by the ports that the group has, and by no other way.
    let own = "172.27.64.2";
    let probe = format!(
        "nc -w 1 {own} 80 < /dev/null; nc -w 1 {own} 81 < /dev/null; nc -w 2 {HOST} 25080 < /dev/null"
    );
    assert_eq!(world.within(2, 3, &format!("{{ {probe}; }} 2> /dev/null")), "web\n");
}

#[test]
fn networks_survive_the_agent_and_what_is_nobodys_goes() {
    let Some(mut world) = World::new() else { return };
    world.run_web(1);
    let address = format!("{HOST}:25080");
    assert_eq!(fetched(&address), "web\n");
    let before = (namespaces(), interfaces());
    world.kill_agent();
    assert_eq!(fetched(&address), "web\n", "no agent is needed");
    // Left by a start that was killed half-way; what others named alike stays.
    sh(
        "ip netns add berth-99; ip link add berth-77 type veth peer name p77; ip link add berth-zz type veth peer name pzz; \
        nft add table inet other",
    );
    world.restart_agent();
    eventually("what was left is gone", || {
        let mut interfaces = interfaces();
        interfaces.retain(|name| name != "berth-zz");
        ((namespaces(), interfaces) == before).then_some(())
    });
    assert!(rules().contains("table inet other"));
    assert_eq!(fetched(&address), "web\n");
    let taken = TcpListener::bind(&address).expect_err("held for the allocation");
    assert_eq!(taken.kind(), std::io::ErrorKind::AddrInUse);

    // Another program throws all rules away.
    sh("nft flush ruleset");
    assert_eq!(fetched(&address), "web\n");

    // A killed agent misses an end; its successor gives the port on.
    world.stop(1);
    world.run_web(2);
    assert_eq!(fetched(&address), "web\n");
    assert_eq!(namespaces(), ["berth-3"], "the address that was used last is the last to be used again");
    world.stop(2);
    eventually("nothing is left", || namespaces().is_empty().then_some(()));
}

/// An agent is killed after it has made an interface, and before the network is whole.
#[test]
fn a_network_that_was_made_in_part_is_made_again() {
    let Some(mut world) = World::new() else { return };
    let mut task = world.task("t", &serve(80, "web"), json!({"ports": ["web"]}));
    task.restart.attempts = 1;
    world.run(1, "", vec![task], &[("web", 25_080, 80)]);
    world.runs(1);
    assert_eq!(fetched(&format!("{HOST}:25080")), "web\n");
    world.kill_agent();
    sh("ip route delete 172.27.64.2; echo 0 > /proc/sys/net/ipv4/conf/berth-2/tag; \
         kill -9 $(ip netns pids berth-2)");
    world.restart_agent();
    assert_eq!(fetched(&format!("{HOST}:25080")), "web\n");
    assert_eq!(namespaces(), ["berth-2"]);
    world.stop(1);
}

#[test]
fn a_used_port_and_a_contradiction_are_refused_by_name() {
    let Some(mut world) = World::new() else { return };
    let mut failure = |number: u8, mode: &str, config: Value| {
        let task = world.task("t", "sleep 1000", config);
        world.run(number, mode, vec![task], &[("web", 25_080, 80)]);
        let status = world.server.wait_for_status(number, ClientStatus::Failed);
        events_of(&status)
    };
    let held = TcpListener::bind((HOST, 25_080)).expect("free");
    let busy = failure(1, "", json!({"ports": ["web"]}));
    assert!(
        busy.contains("take 10.9.9.1:25080 for the port \\\"web\\\"") && busy.contains("in use"),
        "{busy}"
    );
    let busy = failure(2, "bridge", json!({}));
    assert!(busy.contains("take 10.9.9.1:25080"), "{busy}");
    drop(held);
    let odd = failure(3, "bridge", json!({"network_mode": "none"}));
    assert!(odd.contains("contradicts the group's network"), "{odd}");
    assert_eq!(namespaces(), Vec::<String>::new());
    let raw = TaskSpec {
        driver: "raw_exec".into(),
        config_json: json!({"command": "/bin/true"}).to_string(),
        ..world.task("t", "", json!({}))
    };
    world.run(4, "none", vec![raw], &[]);
    let open = events_of(&world.server.wait_for_status(4, ClientStatus::Failed));
    assert!(open.contains("raw_exec isolates nothing"), "{open}");
}

#[test]
fn an_agent_that_is_stopped_leaves_no_rules() {
    let Some(mut world) = World::new() else { return };
    let task = world.task("t", "trap exit TERM; sleep 1000 & wait", json!({}));
    world.run(1, "", vec![task], &[]);
    world.runs(1);
    assert!(rules().contains("table inet berth"));
    let agent = Pid::from_child(&world.agent);
    kill_process(agent, Signal::TERM).expect("told");
    world.agent.wait().expect("an end");
    assert_eq!((rules().as_str(), namespaces(), interfaces()), ("", Vec::new(), Vec::new()));
}
