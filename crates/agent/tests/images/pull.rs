//! Images that come from registries: mirrors, tokens, pull policies, downloads that break off, and content that is not what it should be.

use super::*;

/// It is asked once, for the registry behind it has the same.
#[test]
fn a_mirror_that_is_down_is_asked_once() {
    let image = simple("by the registry");
    let down = Fake::start(|_| Answer::status(503));
    let good = Fake::with(&image, |_| None);
    let mirrors = format!("{},{}", down.host, good.host);
    let Some(mut world) = World::with(&[("AGENT_REGISTRIES", &mirrors), ("AGENT_MIRRORS", &mirrors)]) else {
        return;
    };
    assert_eq!(world.output(1, &json!({"image": "acme/it:1"})), "by the registry\n");
    assert_eq!(down.requests().len(), 1);
}

#[test]
fn an_image_without_permission_is_refused_with_the_reason() {
    let Some(registry) = Registry::start(Some(USERS)) else { return };
    let file = tempfile::NamedTempFile::new().expect("a file");
    let Some(mut world) =
        World::with(&[("AGENT_REGISTRIES", &registry.host), ("AGENT_AUTH", &file.path().to_string_lossy())])
    else {
        return;
    };
    fs::write(file.path(), "{}").expect("written");
    let name = registry.push(&simple("known"), "private", "oci", Some("user:secret"));
    let auth = |password: &str| json!({"image": name, "auth": [{"username": "user", "password": password}]});
    let told = world.refusal(1, &json!({"image": name}));
    assert!(
        told.contains(&format!("get the image {name}:latest: unauthorized: {}", registry.host)),
        "{told}"
    );
    let told = world.refusal(2, &auth("wrong"));
    assert!(told.contains("refuses the credentials"), "{told}");
    assert_eq!(world.output(3, &auth("secret")), "known\n");
    // It is on the node now, and still nobody else's.
    let told = world.refusal(4, &json!({"image": name}));
    assert!(told.contains("unauthorized"), "{told}");
    fs::write(file.path(), json!({"auths": {&registry.host: {"auth": "dXNlcjpzZWNyZXQ="}}}).to_string())
        .expect("written");
    assert_eq!(world.output(5, &json!({"image": name})), "known\n");
    drop(registry);
    assert_eq!(world.output(6, &json!({"image": name})), "known\n");
    let told = world.refusal(7, &json!({"image": name, "force_pull": true}));
    assert!(told.contains("cannot reach 127.0.0.1:"), "{told}");
    // Meanwhile it was told whom it waited for, and why.
    let events = events(&world.server.status(7).expect("a status"));
    let waited = |next| events.contains(&format!("has this node a way there?; try {next} of 3 follows"));
    assert!(waited(2) && waited(3) && events.contains("Connection refused"), "{events}");
}

#[test]
fn ten_tasks_share_one_download_that_goes_on_where_it_broke_off() {
    static CUT: AtomicUsize = AtomicUsize::new(0);
    let image = simple("shared");
    let (layer, blob) = (image.layers[0].clone(), image.blobs[&image.layers[0]].clone());
    let fake = Fake::with(&image, move |asked: &RecordedRequest| {
        let is_layer = asked.path.ends_with(&layer);
        // The third time, whoever asks for a part is sent the whole.
        match if is_layer { CUT.fetch_add(1, Ordering::SeqCst) } else { 9 } {
            0 => Some(Answer::Cut(blob.clone(), 100_000)),
            1 => Some(Answer::Whole(503, vec![("Retry-After", "0".into())], Vec::new())),
            2 => Some(Answer::ok(blob.clone())),
            _ => None,
        }
    });
    let Some(mut world) = World::new(&fake.host) else { return };
    let config = json!({"image": format!("{}/shared", fake.host)});
    (1..=10).for_each(|number| world.run(number, &config));
    for number in 1..=10 {
        world.server.wait_for_status(number, ClientStatus::Complete);
        assert_eq!(world.server.read_log(number, "t", 0, false).as_deref(), Ok("shared\n"));
    }
    let asked: Vec<usize> = fake
        .requests()
        .iter()
        .filter(|asked| asked.path.ends_with(&image.layers[0]))
        .map(RecordedRequest::from)
        .collect();
    assert_eq!(asked, [0, 100_000, 100_000]);
    assert_eq!((fake.count("/manifests/"), world.layers().len()), (1, 1));
}

#[test]
fn a_registry_is_asked_as_the_pull_policy_says() {
    let fake = Fake::with(&simple("policy"), |_: &RecordedRequest| None);
    let Some(mut world) = World::new(&fake.host) else { return };
    let config = |policy: &str| json!({"image": format!("{}/policy", fake.host), "pull_policy": policy});
    let told = world.refusal(1, &config("never"));
    assert!(told.contains("it is not on this node") && told.contains("say \"missing\""), "{told}");
    assert_eq!(fake.requests().len(), 0);
    for (number, policy, asked) in [(2, "missing", 1), (3, "never", 1), (4, "missing", 1), (5, "always", 2)] {
        assert_eq!(world.output(number, &config(policy)), "policy\n");
        assert_eq!(fake.count("/manifests/"), asked, "{policy}");
    }
    let contradiction =
        json!({"image": format!("{}/policy", fake.host), "pull_policy": "never", "force_pull": true});
    assert!(world.refusal(6, &contradiction).contains("force_pull contradicts pull_policy"));
}

/// A job that says no policy gets what the registry has by now, and what the node has where the registry fails.
#[test]
fn latest_is_looked_up_at_each_start_and_runs_though_nobody_answers() {
    static STATE: AtomicUsize = AtomicUsize::new(0);
    let (old, new) = (simple("old"), simple("new"));
    let other = new.clone();
    let fake = Fake::with(&old, move |asked: &RecordedRequest| {
        let is_manifest = asked.path.contains("/manifests/");
        match STATE.load(Ordering::SeqCst) {
            1 if is_manifest => Some(Answer::ok(other.manifest.clone())),
            1 => {
                let blob = other.blobs.iter().find(|(digest, _)| asked.path.ends_with(digest.as_str()));
                blob.map(|(_, bytes)| Answer::ok(bytes.clone()))
            }
            2 => Some(Answer::status(404)),
            _ => None,
        }
    });
    let Some(mut world) = World::new(&fake.host) else { return };
    let named = |tag: &str| json!({"image": format!("{}/moves{tag}", fake.host)});
    assert_eq!(world.output(1, &named("")), "old\n");
    assert_eq!(world.output(2, &named(":1")), "old\n");
    assert_eq!(world.output(3, &named(":latest")), "old\n");
    assert_eq!((fake.count("/manifests/latest"), fake.count(&old.layers[0])), (2, 1));
    STATE.store(1, Ordering::SeqCst);
    let missing = json!({"image": format!("{}/moves", fake.host), "pull_policy": "missing"});
    assert_eq!(world.output(4, &missing), "old\n");
    assert_eq!(world.output(5, &named("")), "new\n");
    assert_eq!(world.output(6, &named(":1")), "old\n", "another tag is not looked up");
    STATE.store(2, Ordering::SeqCst);
    assert_eq!(world.output(7, &named("")), "new\n");
    let told = events(&world.server.status(7).expect("a status"));
    assert!(told.contains("moves:latest could not be looked up (") && told.contains("is used"), "{told}");
    let host = fake.host.clone();
    let always = json!({"image": format!("{host}/moves"), "pull_policy": "always"});
    assert!(world.refusal(8, &always).contains("has no such image"));
}

#[test]
fn a_registry_that_wants_a_token_is_given_one() {
    let image = simple("with a token");
    let fake = Fake::with(&image, |asked| {
        let host = &asked.headers["host"];
        let bearer = format!(r#"Bearer realm="http://{host}/token",service="it""#);
        match asked.headers.get("authorization").map(String::as_str) {
            Some("Basic dXNlcjpzZWNyZXQ=") if asked.path.starts_with("/token?") => {
                Some(Answer::ok(r#"{"token": "t1"}"#))
            }
            Some("Bearer t1") => None,
            _ => Some(Answer::Whole(401, vec![("WWW-Authenticate", bearer)], Vec::new())),
        }
    });
    let Some(mut world) = World::new(&fake.host) else { return };
    let config =
        json!({"image": format!("{}/a/b", fake.host), "auth": {"username": "user", "password": "secret"}});
    assert_eq!(world.output(1, &config), "with a token\n");
    let token = fake.requests().into_iter().find(|asked| asked.path.starts_with("/token")).expect("asked");
    assert_eq!(token.path, "/token?service=it&scope=repository%3Aa%2Fb%3Apull");
    assert_eq!(fake.count("/token"), 1);
}

#[test]
fn a_mirror_is_asked_first_and_passed_over_when_it_fails() {
    let image = simple("mirrored");
    let (bad, good) = (Fake::start(|_| Answer::status(404)), Fake::with(&image, |_| None));
    let mirrors = format!("{},{}", bad.host, good.host);
    let Some(mut world) = World::with(&[("AGENT_REGISTRIES", &mirrors), ("AGENT_MIRRORS", &mirrors)]) else {
        return;
    };
    assert_eq!(world.output(1, &json!({"image": format!("nginx@{}", image.digest())})), "mirrored\n");
    assert_eq!(
        (bad.count("/v2/library/nginx/manifests/"), good.count("/v2/library/nginx/manifests/")),
        (1, 1)
    );
}

/// Each lie is told by name, and nothing of it is kept.
#[test]
fn a_registry_that_sends_wrong_content_gets_nothing_stored() {
    let image = simple("never");
    let (layer, blob) = (image.layers[0].clone(), image.blobs[&image.layers[0]].clone());
    let is_layer = move |asked: &RecordedRequest| asked.path.ends_with(&layer);
    let is_manifest = |asked: &RecordedRequest| asked.path.contains("/manifests/");
    type Lie = Box<dyn Fn(&RecordedRequest) -> Option<Answer> + Send + Sync>;
    let on_layer = |answer: fn(&[u8]) -> Answer| -> Lie {
        let (is_layer, blob) = (is_layer.clone(), blob.clone());
        Box::new(move |asked| is_layer(asked).then(|| answer(&blob)))
    };
    let on_manifest = |answer: fn(&RecordedRequest) -> Answer| -> Lie {
        Box::new(move |asked| is_manifest(asked).then(|| answer(asked)))
    };
    let elsewhere = |asked: &RecordedRequest, to: &str| {
        let to = to.replace("HOST", &asked.headers["host"]);
        Answer::Whole(307, vec![("Location", to)], Vec::new())
    };
    let lies: Vec<(Lie, &str)> = vec![
        (on_layer(|blob| Answer::ok(vec![b'x'; blob.len()])), "cannot be unpacked"),
        (
            on_layer(|blob| {
                Answer::ok({
                    let mut bytes = blob.to_vec();
                    bytes[4] ^= 1;
                    bytes
                })
            }),
            "its digest is sha256:",
        ),
        (on_layer(|blob| Answer::ok([blob, b"more"].concat())), "sends more than the"),
        (on_layer(|_| Answer::Endless), "cannot be unpacked"),
        (on_layer(|_| Answer::status(404)), "has no such image (as  [31mtold)"),
        (on_manifest(|_| Answer::Endless), "answers with more than 4194304 bytes"),
        (on_manifest(|_| Answer::ok("[")), "its manifest is not one"),
        (on_manifest(|_| Answer::ok("{\"schemaVersion\": 1}")), "another schema than 2"),
        (on_manifest(|_| Answer::status(403)), "unauthorized: "),
        (on_manifest(|_| Answer::status(500)), "answers 500"),
        (
            on_manifest(|_| Answer::Whole(401, vec![("WWW-Authenticate", "Basic".into())], Vec::new())),
            "unauthorized",
        ),
        (
            on_manifest(|asked| Answer::Whole(307, vec![("Location", asked.path.clone())], Vec::new())),
            "more than 5 times",
        ),
        (
            Box::new(move |asked| is_manifest(asked).then(|| elsewhere(asked, "http://127.0.0.1:1/x"))),
            "without TLS",
        ),
        (
            Box::new(move |asked| is_manifest(asked).then(|| elsewhere(asked, "https://169.254.169.254/x"))),
            "this very node",
        ),
        (
            Box::new(move |asked| is_manifest(asked).then(|| elsewhere(asked, "file:///etc/passwd"))),
            "redirects to nowhere",
        ),
    ];
    let mut hosts = Vec::new();
    let fakes: Vec<_> = lies
        .into_iter()
        .map(|(lie, why)| {
            let fake = Fake::with(&image, lie);
            hosts.push(fake.host.clone());
            (fake, why)
        })
        .collect();
    let Some(mut world) = World::new(&hosts.join(",")) else { return };
    for (number, (fake, _)) in fakes.iter().enumerate() {
        world.run(number as u8 + 1, &json!({"image": format!("{}/x", fake.host)}));
    }
    for (number, (_, why)) in fakes.iter().enumerate() {
        let told = events(&world.server.wait_for_status(number as u8 + 1, ClientStatus::Failed));
        assert!(told.contains(why), "{why}: {told}");
    }
    // What was asked for by digest is not believed either.
    let wrong = json!({"image": format!("{}/x@{}", fakes[0].0.host, digest(b"another"))});
    let told = world.refusal(100, &wrong);
    assert!(told.contains("sent a manifest that is not what it should be"), "{told}");
    world.assert_clean();
}

/// A config that names other layers than the manifest has.
#[test]
fn layers_are_those_that_the_config_names() {
    let (one, other) = (simple("one"), Layer::busybox().file("etc/x", "x").finish());
    let mut image = Image::new(vec![other], json!({"Cmd": ["/bin/true"]}));
    let mut manifest: Value = serde_json::from_slice(&image.manifest).expect("json");
    let theirs: Value = serde_json::from_slice(&one.manifest).expect("json");
    manifest["config"] = theirs["config"].clone();
    image.manifest = manifest.to_string().into_bytes();
    image.blobs.extend(one.blobs);
    let fake = Fake::with(&image, |_| None);
    let Some(mut world) = World::new(&fake.host) else { return };
    let told = world.refusal(1, &json!({"image": format!("{}/x", fake.host)}));
    assert!(told.contains("is not the one that the image's config names"), "{told}");
    world.assert_clean();
}

#[test]
fn a_download_ends_with_the_last_who_waits_for_it() {
    let image = simple("never");
    let (layer, blob) = (image.layers[0].clone(), image.blobs[&image.layers[0]].clone());
    let fake = Fake::with(&image, move |asked| {
        asked.path.ends_with(&layer).then(|| Answer::Held(blob.clone(), 100_000))
    });
    let Some(mut world) = World::new(&fake.host) else { return };
    let config = json!({"image": format!("{}/x", fake.host)});
    [1, 2].iter().for_each(|number| world.run(*number, &config));
    eventually("the download", || (fake.held() == 1).then_some(()));
    let waits = |status: &AllocStatus| events(status).contains("Downloading image");
    [1, 2].iter().for_each(|number| drop(world.server.wait_for(*number, waits)));
    world.server.desire(Vec::new(), &[1], &[], &[]);
    world.server.wait_for_status(1, ClientStatus::Complete);
    assert_eq!(fake.held(), 1, "another one waits");
    world.server.desire(Vec::new(), &[2], &[], &[]);
    world.server.wait_for_status(2, ClientStatus::Complete);
    eventually("the connection to close", || (fake.held() == 0).then_some(()));
    world.assert_clean();
    let told = world.refusal(3, &json!({"image": format!("{}/x", fake.host), "image_pull_timeout": "300ms"}));
    assert!(told.contains("longer image_pull_timeout"), "{told}");
}
