//! The pages in docs/reference that are generated from tables in the code. `UPDATE_EXPECT=1` writes them again.

mod commands;

use berth_scheduler::{filters::FILTERS, scores::SCORES};
use berth_server::http::{
    Route, Table,
    routes::tags::{TAGS, tag_of},
};
use expect_test::expect_file;

use crate::{
    failure::EXIT_CODES,
    settings::{Role, Setting, settings_of},
};

/// Where the pages stand, from this file.
macro_rules! page {
    ($name:literal) => {
        expect_file![concat!("../../../../docs/reference/", $name)]
    };
}

/// What every such page says of itself.
const MADE: &str =
    "<!-- Made from the code by a test: `UPDATE_EXPECT=1 cargo test -p berth-cli reference`. -->";

/// A page of a title, an introduction and a body.
fn page(title: &str, about: &str, body: &str) -> String {
    format!("# {title}\n\n{MADE}\n\n{about}\n\n{body}")
}

/// A row of a table. Bars would part cells.
fn row(cells: &[&str]) -> String {
    let cells: Vec<_> = cells.iter().map(|cell| cell.replace('|', "\\|").replace('\n', " ")).collect();
    format!("| {} |\n", cells.join(" | "))
}

/// The first rows of a table.
fn header(names: &[&str]) -> String {
    row(names) + &format!("|{}\n", "---|".repeat(names.len()))
}

#[test]
fn the_page_of_commands_is_current() {
    let about =
        "Every command with its arguments. Long flags may be written with one dash: `-detach` is `--detach`.";
    page!("commands.md").assert_eq(&page("Commands", about, &commands::all()));
}

#[test]
fn the_page_of_exit_codes_is_current() {
    let rows = EXIT_CODES.iter().map(|(code, meaning)| row(&[&code.to_string(), meaning]));
    let body = header(&["code", "meaning"]) + &rows.collect::<String>();
    let about =
        "The same for every command. `berth run -wait` ends with the code of the task that it waited for.";
    page!("exit-codes.md").assert_eq(&page("Exit codes", about, &body));
}

#[test]
fn the_page_of_settings_is_current() {
    let about = "Settings of `berth dev`, `berth server` and `berth agent`. Each has a flag, a variable, and a key in the \
        TOML file that `--config` names, under the flag's name. A flag goes before the variable, that before the file, \
        and that before the default.";
    let tables = [Role::Server, Role::Agent, Role::Dev].map(|role| {
        let rows = settings_of(role).map(|setting| setting_row(setting, role));
        let table = header(&["flag", "variable", "default", "meaning"]) + &rows.collect::<String>();
        format!("## {role}\n\n{table}")
    });
    page!("settings.md").assert_eq(&page("Settings", about, &tables.join("\n")));
}

fn setting_row(setting: &Setting, role: Role) -> String {
    let code = |text: &str| if text.is_empty() { String::new() } else { format!("`{text}`") };
    let (flag, default) = (format!("`--{}`", setting.name), code((setting.default)(role)));
    row(&[&flag, &code(&setting.variable()), &default, setting.help])
}

#[test]
fn the_page_of_endpoints_is_current() {
    let about = "The HTTP API: paths and shapes are those that Nomad's clients know. `GET` answers `HEAD` too, and `PUT` \
        stands for `POST`. The capability is what a caller must be allowed where ACLs are on.\n\n\
        Answers say in `X-Nomad-Index` where what was read last changed or where a write was committed, and in `X-Nomad-KnownLeader` \
        and `X-Nomad-LastContact` how fresh that is. A query parameter that asks for something and that the route does not read \
        changes nothing, and is named in `X-Berth-Ignored`, and so is a member of the body, with its path, as in `body.Bogus`: clients \
        of Nomad send some that mean nothing here. At most 8 of either are named. Within a `Job` they are warnings of the answer. Another `region` \
        than the server's is refused. Members of a body that are null are absent.";
    let table = berth_server::nomad::table();
    let rows = table.routes.iter().map(|route| {
        let methods = format!("`{}`", route.verb.as_str());
        row(&[&methods, &format!("`{}`", route.path), route.summary, &format!("{:?}", route.capability)])
    });
    let rows = header(&["method", "path", "what it does", "capability"]) + &rows.collect::<String>();
    let body = format!("{rows}\n## With curl\n\n{CURL}\n{}", with_curl(&table));
    page!("endpoints.md").assert_eq(&page("Endpoints", about, &body));
}

/// What the page says of its examples.
const CURL: &str = "A request of each endpoint, as a test sends it to `berth dev --acl`. `BERTH_ADDR` is the address of the server; with ACLs on, \
    requests carry a token: `-H \"X-Nomad-Token: $BERTH_TOKEN\"`. Variables such as `$ALLOC` and `$NODE` stand for whole ids, which lists \
    give. The status is 200 unless a comment says another. Clients made from \
    `/v1/openapi.json` call them by the `operationId`, such as `listJobs`, `readJob` and `registerJob`.";

/// An example of each route, by the resource.
fn with_curl(table: &Table) -> String {
    let groups = TAGS.iter().map(|tag| {
        let lines =
            examples(table, |route| tag_of(route.path).is_some_and(|of_route| of_route.name == tag.name));
        format!("\n### {}\n\n{}.\n\n```sh no-run\n{lines}```\n", tag.name, tag.summary)
    });
    groups.collect()
}

/// A line for each route that is wanted and has an example.
fn examples(table: &Table, is_wanted: impl Fn(&Route) -> bool) -> String {
    let mut lines = String::new();
    for route in table.routes.iter().filter(|route| is_wanted(route)) {
        let Some(operation) = table.operations.iter().find(|operation| operation.is_of(route)) else {
            continue;
        };
        let comment = match (operation.status, operation.why) {
            (200, _) => String::new(),
            (status, "") => format!("  # {status}"),
            (status, why) => format!("  # {status}: {why}"),
        };
        lines += &format!("{}{comment}\n", operation.curl(route));
    }
    lines
}

#[test]
fn the_page_of_placement_rules_is_current() {
    let about = "How a node is found for an allocation: filters turn nodes away, scores order those that are left. \
        [Why it is done so](../explanation/placement.md) is another page.";
    let named = |name: &str, says: &str| row(&[&format!("`{name}`"), says]);
    let filters = FILTERS.iter().map(|filter| named(filter.name, filter.passes)).collect::<String>();
    let scores = SCORES.iter().map(|score| named(score.name, score.description)).collect::<String>();
    let filters = header(&["filter", "which nodes pass"]) + &filters;
    let scores = header(&["score", "what it says"]) + &scores;
    let body = format!("## Filters\n\n{filters}\n## Scores\n\n{scores}");
    page!("placement.md").assert_eq(&page("Placement", about, &body));
}
