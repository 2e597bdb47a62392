//! What is said of versions of jobs: their tags keep them, and who has proved itself is gone back to.

mod support;

use berth_model::{
    EvalId,
    command::{Command, ENTRY_VERSION_MIN, NewTag, Refusal, RegisterJob, SetJobStable, TagVersion},
    job::{JOB_TAGS_MAX, JOB_VERSIONS_MAX, Job, Submission, VersionChange},
};
use expect_test::expect;
use support::{World, key, restored, service};

/// Registers so many versions of the job.
fn versions(world: &mut World, count: u32) {
    for count in 0..count {
        world.register(service("web", count + 1, None));
    }
}

fn tag(world: &mut World, name: &str, version: u64) -> Result<(), Refusal> {
    let tagged = Some(NewTag { version, description: format!("version {version}") });
    world.run(Command::TagVersion(Box::new(TagVersion { job: key("web"), name: name.to_owned(), tagged })))
}

fn untag(world: &mut World, name: &str) -> Result<(), Refusal> {
    let (job, name) = (key("web"), name.to_owned());
    world.run(Command::TagVersion(Box::new(TagVersion { job, name, tagged: None })))
}

fn versions_of(world: &World) -> Vec<u64> {
    world.store.job(&key("web")).unwrap().versions.iter().map(|version| version.version).collect()
}

#[test]
fn a_version_is_kept_for_as_long_as_it_has_a_tag() {
    let mut world = World::with_nodes(1);
    versions(&mut world, 2);
    assert_eq!(tag(&mut world, "gold", 0), Ok(()));
    for _ in 0..3 {
        versions(&mut world, 10);
    }
    assert_eq!(versions_of(&world).last(), Some(&0));
    assert_eq!(versions_of(&world).len(), JOB_VERSIONS_MAX + 1);
    let row = world.store.job(&key("web")).unwrap();
    assert_eq!(row.tagged("gold").map(|version| version.version), Some(0));
    assert_eq!(restored(&world.store).job(&key("web")).unwrap().tagged("gold").unwrap().version, 0);
    assert_eq!(restored(&world.store).hash(), world.store.hash());

    assert_eq!(untag(&mut world, "gold"), Ok(()));
    assert_eq!(versions_of(&world).len(), JOB_VERSIONS_MAX);
    assert_eq!(restored(&world.store).hash(), world.store.hash());
}

#[test]
fn a_tag_names_one_version_and_there_are_not_any_number_of_them() {
    let mut world = World::with_nodes(1);
    versions(&mut world, 2);
    assert_eq!(tag(&mut world, "gold", 0), Ok(()));
    assert_eq!(tag(&mut world, "gold", 0), Ok(()), "what is said of it may change");
    assert!(matches!(tag(&mut world, "gold", 1), Err(Refusal::TagInUse(_, _, 0))));
    assert!(matches!(tag(&mut world, "best", 7), Err(Refusal::NoVersion(_, 7))));
    assert!(matches!(untag(&mut world, "best"), Err(Refusal::NoTag(..))));
    for number in 1..JOB_TAGS_MAX as u64 {
        versions(&mut world, 1);
        world.register(service("web", number as u32 + 10, None));
        let newest = versions_of(&world)[0];
        assert_eq!(tag(&mut world, &format!("v{number}"), newest), Ok(()), "{number}");
    }
    versions(&mut world, 1);
    let newest = versions_of(&world)[0];
    assert!(matches!(tag(&mut world, "one-more", newest), Err(Refusal::TooManyTags(_))));
    assert_eq!(untag(&mut world, "v1"), Ok(()));
    assert_eq!(tag(&mut world, "one-more", newest), Ok(()));
}

#[test]
fn who_is_said_to_be_stable_is_what_a_failed_version_goes_back_to() {
    let mut world = World::with_nodes(1);
    versions(&mut world, 3);
    let stable =
        |world: &World| world.store.job(&key("web")).unwrap().last_stable().map(|version| version.version);
    let say =
        |version, stable| Command::SetJobStable(Box::new(SetJobStable { job: key("web"), version, stable }));
    assert_eq!(stable(&world), None);
    assert_eq!(world.run(say(0, true)), Ok(()));
    assert_eq!(stable(&world), Some(0));
    assert_eq!(world.run(say(1, true)), Ok(()));
    assert_eq!(stable(&world), Some(1));
    assert_eq!(world.run(say(1, false)), Ok(()));
    assert_eq!(stable(&world), Some(0));
    assert!(matches!(world.run(say(9, true)), Err(Refusal::NoVersion(_, 9))));
    assert_eq!(restored(&world.store).hash(), world.store.hash());
}

#[test]
fn how_a_job_is_written_replaces_nothing_and_waits_for_servers_that_know_of_it() {
    let mut world = World::with_nodes(1);
    let plain = service("web", 100, Some(80));
    let mut spelt = plain.clone();
    spelt.groups[0].networks[0].ports[0].to_is_host = true;
    assert!(spelt.has_spelling() && !plain.has_spelling());
    world.register(plain.clone());
    world.register(spelt.clone());
    let row = world.store.job(&key("web")).unwrap();
    assert_eq!(
        (row.current().version, row.change_of(0, 0)),
        (1, VersionChange::Nothing),
        "it means the same"
    );
    let since = |job: Job, submission| {
        let register = RegisterJob { job: job.into(), eval: EvalId(1), only_if: None, submission };
        Command::RegisterJob(Box::new(register)).since()
    };
    assert_eq!(since(plain.clone(), None), ENTRY_VERSION_MIN);
    assert_eq!(
        (since(spelt.clone(), None), since(plain.clone(), Some(Submission::default().into()))),
        (6, 6)
    );
    spelt.forget_spelling();
    assert_eq!(spelt, plain);
}

/// Spelt in every way, with a submission: whoever writes this differently reads no log of others.
#[test]
fn what_a_job_was_made_of_is_written_as_ever_and_kept_in_snapshots() {
    let mut spelt = service("web", 100, Some(80));
    spelt.groups[0].networks[0].ports[0].to_is_host = true;
    let text = |text: &str| text.to_owned();
    let submission = Submission {
        source: text("job \"web\" {}"),
        format: text("hcl2"),
        variable_flags: [(text("a"), text("b"))].into(),
        variables: text("c = 1"),
    };
    let port = minicbor::to_vec(&spelt.groups[0].networks[0].ports[0]).unwrap();
    let hex = |bytes: Vec<u8>| bytes.into_iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    let written = [hex(port), hex(minicbor::to_vec(&submission).unwrap())].join("\n");
    expect![[r#"
        86646874747018500060f4f5
        846c6a6f62202277656222207b7d6468636c32a1616161626563203d2031"#]]
    .assert_eq(&written);

    let mut world = World::with_nodes(1);
    let register = RegisterJob {
        job: spelt.into(),
        eval: EvalId(1),
        only_if: None,
        submission: Some(submission.clone().into()),
    };
    world.run(Command::RegisterJob(Box::new(register))).unwrap();
    let read = restored(&world.store);
    let row = read.job(&key("web")).unwrap();
    assert_eq!(row.current().submission.as_deref(), Some(&submission));
    assert!(row.job().groups[0].networks[0].ports[0].to_is_host);
    assert_eq!(read.hash(), world.store.hash());
}
