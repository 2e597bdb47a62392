//! Since which version Berth acts on a setting. A test records settings that are new with the version that is being made.

/// `VERSION SETTING BLOCK`, a line each.
const RECORDED: &str = include_str!("since.txt");

/// The version that settings have which are not recorded yet.
const NOW: &str = env!("CARGO_PKG_VERSION");

/// The first version in which the setting of a block acts.
pub fn since(block: &str, setting: &str) -> &'static str {
    let mut lines = RECORDED.lines().filter_map(|line| line.split_once(' '));
    let line = format!("{setting} {block}");
    lines.find(|(_, of)| *of == line).map_or(NOW, |(version, _)| version)
}

/// What is to be recorded of these settings, each with its block before it.
pub fn recorded<'s>(settings: impl Iterator<Item = (&'s str, &'s str)>) -> String {
    settings.map(|(block, setting)| format!("{} {setting} {block}\n", since(block, setting))).collect()
}

#[test]
fn a_setting_keeps_the_version_it_came_with() {
    let (version, rest) = RECORDED.lines().next().and_then(|line| line.split_once(' ')).expect("a line");
    let (setting, block) = rest.split_once(' ').expect("a block");
    assert_eq!(since(block, setting), version);
    assert_eq!(since(block, "what_comes_tomorrow"), NOW);
    let written = recorded([(block, setting), (block, "what_comes_tomorrow")].into_iter());
    assert_eq!(written, format!("{version} {rest}\n{NOW} what_comes_tomorrow {block}\n"));
}
