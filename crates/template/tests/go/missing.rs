//! What a template asks for, and what it cannot do without.

use berth_template::{Query, RenderOptions};

use super::world::{World, parse, rendered};

fn texts<'q>(queries: impl IntoIterator<Item = &'q Query>) -> Vec<String> {
    queries.into_iter().map(Query::to_string).collect()
}

#[test]
fn the_queries_of_a_template_are_reported() {
    let found = rendered("{{ with nomadVar \"nomad/jobs/web\" }}{{ .user }}{{ end }}{{ nomadVarExists \"b\" }}{{ len (nomadVarList \"app\") }}")
        .expect("rendered");
    assert_eq!(found.text, "webfalse1");
    assert_eq!(
        texts(&found.asked),
        ["nomad.var.block(b)", "nomad.var.block(nomad/jobs/web)", "nomad.var.list(app)"]
    );
    assert_eq!(texts(&found.missing), [""; 0]);
}

#[test]
fn a_variable_that_is_not_there_is_missing() {
    let found =
        rendered("{{ with nomadVar \"none\" }}{{ .user }}{{ end }}{{ nomadVar \"a@other\" }}").expect("told");
    assert_eq!(texts(&found.missing), ["nomad.var.block(none)", "nomad.var.block(a@other)"]);
    let found = rendered("{{ range nomadVarListSafe \"none\" }}{{ end }}").expect("told");
    assert_eq!(texts(&found.missing), ["nomad.var.list(none)"]);
    let found = rendered("{{ range nomadVarList \"none\" }}{{ end }}").expect("told");
    assert_eq!(texts(&found.missing), [""; 0]);
}

#[test]
fn what_follows_from_something_missing_is_no_error() {
    let found = rendered("{{ (nomadVar \"none\").user }}").expect("told");
    assert_eq!(texts(&found.missing), ["nomad.var.block(none)"]);
    let found = rendered("{{ index (nomadVar \"none\") \"user\" | parseInt }}").expect("told");
    assert_eq!(texts(&found.missing), ["nomad.var.block(none)"]);
}

#[test]
fn before_anybody_has_answered_all_of_it_is_missing() {
    let world = World { is_known: false, ..World::default() };
    let template =
        parse("{{ nomadVarExists \"a\" }}{{ nomadVarList \"b\" }}{{ nomadVar \"c\" }}").expect("read");
    let found = template.render(&world, RenderOptions::default()).expect("told");
    assert_eq!(found.missing, found.asked);
    assert_eq!(found.asked.len(), 3);
}
