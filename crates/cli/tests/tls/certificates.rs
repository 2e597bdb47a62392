//! Certificates and their files: who issues them, what they admit to, and which settings name them.

use std::{
    fs,
    io::Read,
    net::TcpListener,
    path::{Path, PathBuf},
    process::Stdio,
    time::Duration,
};

use crate::{
    cluster::{Cluster, refusal, succeed},
    e2e::{berth, eventually, home::Home},
};

/// What whoever comes from Nomad has in the environment.
#[tokio::test]
async fn nomads_names_of_settings_say_whom_to_believe_and_what_to_show() {
    let mut cluster = Cluster::new();
    cluster.start_server(&["--tls", "verify_https_client=true"]);
    cluster.certify("cli", "me", &[]);
    let (server, ca) = (format!("https://{}", cluster.servers[0].http), cluster.dir("s1/tls/ca.pem"));
    let (own, key) = (cluster.dir("me/cli.pem"), cluster.dir("me/cli-key.pem"));
    let all = [
        ("NOMAD_ADDR", &*server),
        ("NOMAD_CACERT", &*ca),
        ("NOMAD_CLIENT_CERT", &*own),
        ("NOMAD_CLIENT_KEY", &*key),
    ];
    // With these, but for those that are said otherwise; empty for nothing.
    let members = |otherwise: &[(&str, &str)]| {
        let mut command = berth(&["server", "members"]);
        for (name, value) in all.iter().chain(otherwise) {
            command.env(name, value);
        }
        command.stdin(Stdio::null()).output().expect("it runs")
    };
    succeed(&members(&[]));
    let refused = |otherwise: &[(&str, &str)], words: &str| {
        let output_text = refusal(&members(otherwise));
        assert!(output_text.contains(words), "{otherwise:?}: {output_text}");
    };
    refused(&[("NOMAD_CACERT", "")], "signed by none of the authorities");
    refused(&[("NOMAD_CLIENT_CERT", ""), ("NOMAD_CLIENT_KEY", "")], "without a certificate");
    refused(&[("NOMAD_CLIENT_KEY", "")], "add --client-key");
    // Berth's names come first.
    for name in ["BERTH_CACERT", "BERTH_CLIENT_CERT", "BERTH_CLIENT_KEY"] {
        refused(&[(name, "none.pem")], "none.pem");
    }
    // A name that is said must be the certificate's, whatever else makes it a server's.
    succeed(&members(&[("NOMAD_TLS_SERVER_NAME", "server.global.berth")]));
    refused(&[("NOMAD_TLS_SERVER_NAME", "server.eu.berth")], "server.eu.berth");
    refused(&[("NOMAD_TLS_SERVER_NAME", "a b")], "neither a name nor an address");
    refused(
        &[("BERTH_TLS_SERVER_NAME", "server.eu.berth"), ("NOMAD_TLS_SERVER_NAME", "server.global.berth")],
        "server.eu.berth",
    );
    // A directory of authorities, of which one is the cluster's.
    let dir = |name: &str, files: &[(&str, &str)]| {
        let dir = cluster.path(name);
        fs::create_dir_all(dir.join("below")).expect("it is ours");
        for (file, text) in files {
            fs::write(dir.join(file), text).expect("it is ours");
        }
        dir.display().to_string()
    };
    let authority = fs::read_to_string(&ca).expect("it is there");
    succeed(&cluster.berth(&["server", "init", "--server-name", "s1", "--data-dir", &cluster.dir("other")]));
    let other = fs::read_to_string(cluster.path("other/tls/ca.pem")).expect("it was just made");
    let believed = dir("believed", &[("a.pem", &*other), ("b.crt", &*authority)]);
    let strange = dir("strange", &[("a.pem", &*other)]);
    let spoilt = dir("spoilt", &[("a.pem", &*authority), ("read-me.txt", "not a certificate")]);
    let empty = dir("empty", &[]);
    for name in ["NOMAD_CAPATH", "BERTH_CAPATH"] {
        succeed(&members(&[("NOMAD_CACERT", ""), (name, &believed)]));
        refused(&[("NOMAD_CACERT", ""), (name, &strange)], "signed by none of the authorities");
        refused(&[("NOMAD_CACERT", ""), (name, &spoilt)], "read-me.txt");
        refused(&[("NOMAD_CACERT", ""), (name, &empty)], "there is no file of certificates in it");
        refused(&[("NOMAD_CACERT", ""), (name, "none-such")], "none-such");
    }
    succeed(&members(&[("NOMAD_CAPATH", &strange)]));
    refused(&[("BERTH_CAPATH", &strange)], "signed by none of the authorities");
    refused(&[("NOMAD_REGION", "eu")], "NOMAD_REGION is \"eu\"");
    succeed(&members(&[("NOMAD_REGION", "global")]));
    refused(&[("NOMAD_HTTP_AUTH", "me:secret")], "NOMAD_HTTP_AUTH is set");
    succeed(&members(&[("NOMAD_CACERT", ""), ("NOMAD_SKIP_VERIFY", "true")]));
    succeed(&members(&[("NOMAD_TLS_SERVER_NAME", "server.eu.berth"), ("NOMAD_SKIP_VERIFY", "1")]));
    refused(&[("NOMAD_CACERT", ""), ("NOMAD_SKIP_VERIFY", "false")], "signed by none of the authorities");
    refused(
        &[("NOMAD_CACERT", ""), ("BERTH_SKIP_VERIFY", "0"), ("NOMAD_SKIP_VERIFY", "1")],
        "signed by none of the authorities",
    );
    refused(&[("NOMAD_SKIP_VERIFY", "perhaps")], "NOMAD_SKIP_VERIFY is \"perhaps\"");
    // Nor is a key that is not the certificate's good for anything where nothing is verified.
    refused(
        &[("NOMAD_SKIP_VERIFY", "1"), ("NOMAD_CLIENT_KEY", &cluster.dir("s1/tls/server-key.pem"))],
        "key",
    );
}

/// Where many are behind one address, the name in the greeting says who is meant.
#[test]
fn a_server_is_verified_by_the_name_that_is_configured() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("it listens");
    let address = format!("https://{}", listener.local_addr().expect("it listens"));
    for args in
        [&["server", "members"][..], &["alloc", "exec", "6f3a0000-0000-4000-8000-000000000000", "true"]]
    {
        let mut command = berth(args);
        command.env("NOMAD_ADDR", &address).env("NOMAD_TLS_SERVER_NAME", "inside.example");
        let mut child = command.stdin(Stdio::null()).stderr(Stdio::null()).spawn().expect("it starts");
        let (mut stream, _) = listener.accept().expect("it comes");
        let mut greeting = [0; 4096];
        let read = stream.read(&mut greeting).expect("it greets");
        assert!(greeting[..read].windows(14).any(|part| part == b"inside.example"), "{args:?}");
        drop(stream);
        child.kill().expect("it is ours");
        child.wait().expect("it is ours");
    }
}

#[tokio::test]
async fn a_peer_without_a_fitting_certificate_is_refused_with_the_reason() {
    let mut cluster = Cluster::new();
    cluster.start_server(&[]);
    // Without a certificate, with one of another cluster, with that of another node.
    cluster.start_agent("bare");
    cluster.until_logged("bare", "it speaks TLS, and this agent has no certificate").await;
    let strangers = cluster.dir("strangers");
    succeed(&berth(&["server", "init", "--data-dir", &strangers]).output().expect("it runs"));
    let foreign = cluster.dir("foreign/tls");
    let made = berth(&["server", "cert", "agent", "--data-dir", &strangers, "--out", &foreign]).output();
    succeed(&made.expect("it runs"));
    cluster.start_agent("foreign");
    cluster.until_logged("foreign", "signed by none of the authorities that this side believes").await;
    cluster.certify("agent", "other/tls", &["--node", "6f3a0000-0000-4000-8000-000000000000"]);
    cluster.start_agent("other");
    cluster.until_logged("other", "it does not speak for node").await;
    // An agent's certificate makes no server, and a server's no agent.
    cluster.certify("agent", "posing", &[]);
    let file = |name: &str| cluster.path("posing").join(name).display().to_string();
    let tls = format!(
        "ca_file={},cert_file={},key_file={}",
        file("ca.pem"),
        file("agent.pem"),
        file("agent-key.pem")
    );
    let posing = cluster.dir("posing-data");
    let output_text = refusal(&cluster.berth(&["server", "--data-dir", &posing, "--tls", &tls]));
    assert!(
        output_text.contains("names the agent of any node of region global, and this is a server"),
        "{output_text}"
    );
}

#[test]
fn a_server_is_not_open_to_the_network_without_tls_and_acls() {
    let home = Home::new();
    let data = home.path().join("data").display().to_string();
    let start = |more: &[&str]| {
        let args = [&["server", "--data-dir", &data, "--http-addr", "0.0.0.0:0"], more].concat();
        refusal(&berth(&args).output().expect("it runs"))
    };
    assert!(start(&[]).contains("without TLS and ACLs"));
    assert!(start(&["--acl"]).contains("without TLS\n"));
    assert!(start(&[]).contains("`berth server init` makes the certificates"));
    succeed(&berth(&["server", "init", "--data-dir", &data]).output().expect("it runs"));
    assert!(start(&[]).contains("without ACLs\n"));
    assert!(start(&["--acl", "--tls", "http=false"]).contains("without TLS\n"));
    let dev = berth(&["dev", "--http-addr", "0.0.0.0:0"]).output().expect("it runs");
    assert!(refusal(&dev).contains("`berth dev` is open to everybody who reaches it"));
}

#[test]
fn init_makes_all_or_nothing_and_overwrites_nothing() {
    let home = Home::new();
    for millis in 0..30 {
        let data = home.path().join(format!("data-{millis}"));
        let init = || {
            let mut command = berth(&["server", "init", "--data-dir"]);
            command.arg(&data).stderr(Stdio::null());
            command
        };
        let mut child = init().spawn().expect("it starts");
        std::thread::sleep(Duration::from_millis(millis));
        child.kill().expect("it is ours");
        child.wait().expect("it is ours");
        let before = files(&data.join("tls"));
        let again = init().output().expect("it runs");
        if before.is_empty() {
            assert!(again.status.success(), "it goes on where nothing was done");
        } else {
            assert!(!again.status.success(), "it overwrites nothing");
            assert_eq!(before, files(&data.join("tls")));
        }
        assert_eq!(files(&data.join("tls")).len(), 4);
        let left: Vec<_> = fs::read_dir(&data).expect("it is there").flatten().collect();
        assert_eq!(left.len(), 1, "{left:?}");
    }
}

/// The files of a directory, and what they hold; none where it is not there.
fn files(dir: &Path) -> Vec<(PathBuf, String)> {
    let mut files: Vec<_> = fs::read_dir(dir)
        .into_iter()
        .flatten()
        .flatten()
        .map(|entry| (entry.path(), fs::read_to_string(entry.path()).expect("text")))
        .collect();
    files.sort();
    files
}

#[tokio::test]
async fn a_certificate_speaks_for_the_server_that_it_names_alone() {
    let mut cluster = Cluster::new();
    let output_text = refusal(&cluster.berth(&[
        "server",
        "cert",
        "server",
        "--data-dir",
        &cluster.dir("s1"),
        "--out",
        &cluster.dir("x"),
    ]));
    assert!(
        output_text.contains("give its --server-name") && output_text.contains("uname -n"),
        "{output_text}"
    );
    let output_text = refusal(&cluster.berth(&[
        "server",
        "--server-name",
        "s9",
        "--http-addr",
        "127.0.0.1:0",
        "--agent-addr",
        "127.0.0.1:0",
        "--data-dir",
        &cluster.dir("s1"),
    ]));
    assert!(
        output_text.contains("it names server s1 of region global, and this is server s9"),
        "{output_text}"
    );
    cluster.start_server(&[]);
    let output_text = refusal(&cluster.berth(&["server", "revoke", "-yes", "s1"]));
    assert!(output_text.contains("1 of 1 voters are needed and none would be left"), "{output_text}");
    let message = cluster.berth(&["server", "revoke", "-yes", "S9.example"]);
    succeed(&message);
    let output_text =
        String::from_utf8_lossy(&message.stderr).into_owned() + &String::from_utf8_lossy(&message.stdout);
    assert!(output_text.contains("no server of this cluster is called s9.example"), "{output_text}");
    // The only server goes on with a new one, and its agents with it.
    let token = cluster.token(&[]);
    cluster.start_agent_with("n1", &["--join", &token]);
    cluster.until_ready(1).await;
    succeed(&cluster.berth(&["server", "revoke", "-yes", "-force", "s1"]));
    cluster.until_logged("n1", "the certificates of server s1 were revoked").await;
    let since = cluster.log("n1").len();
    cluster.renew(1);
    cluster.until_logged("s1", "this server has a certificate again that was not revoked").await;
    eventually("the agent believes it again", async || {
        cluster.log("n1")[since..].contains("connected server").then_some(())
    })
    .await;
}
