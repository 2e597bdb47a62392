//! The page in docs/reference that describes job files: made from the tables, and what `meanings.rs` says of them.

use expect_test::expect_file;

use super::{
    Field, JOB, Schema, Shape,
    meanings::{MEANINGS, Meaning},
    since::{recorded, since},
    unenforced::is_unenforced,
};

const ABOUT: &str = "\
<!-- Made from the code by a test: `UPDATE_EXPECT=1 cargo test -p berth-jobfile page`. -->

Every block of a job file and every attribute in it, as Berth reads them. The names in JSON, as the HTTP API has them, stand in the
second column. Durations are written as `90s` or `1h30m`, in JSON as nanoseconds. An attribute that is not listed is an error.

**Not implemented** means: Berth accepts, checks and stores it, shows it again, and warns that it changes nothing. `berth job validate`
reports each of these in a file. Limits of sizes and counts are in [limits](limits.md). **since** is the first version of Berth that acts on it.
";

/// The kinds of blocks that something acts upon, in the order in which they are met.
fn blocks() -> Vec<&'static Schema> {
    fn add(schema: &'static Schema, found: &mut Vec<&'static Schema>) {
        if found.iter().any(|known| std::ptr::eq(*known, schema)) {
            return;
        }
        found.push(schema);
        for field in acted_upon(schema) {
            if let Some(part) = field.shape.schema() {
                add(part, found);
            }
        }
    }
    let mut found = Vec::new();
    add(&JOB, &mut found);
    found
}

/// What HCL has a name for in a block.
fn named(schema: &'static Schema) -> impl Iterator<Item = &'static Field> {
    schema.fields.iter().filter(|field| !field.hcl.is_empty())
}

fn acted_upon(schema: &'static Schema) -> impl Iterator<Item = &'static Field> {
    named(schema).filter(|field| !is_unenforced(schema, field.hcl))
}

fn meaning(schema: &Schema) -> &'static Meaning {
    let found = MEANINGS.iter().find(|meaning| meaning.block == schema.what);
    found.unwrap_or_else(|| panic!("say in meanings.rs what the block {} means", schema.what))
}

fn form(shape: Shape) -> &'static str {
    match shape {
        Shape::Text => "text",
        Shape::Flag => "bool",
        Shape::Whole => "number",
        Shape::Duration => "duration",
        Shape::Texts => "list of texts",
        Shape::Wholes => "list of numbers",
        Shape::TextMap => "map of texts",
        Shape::TextsMap => "map of lists",
        Shape::Settings => "map",
        Shape::Block(_) => "block",
        Shape::Blocks(_) | Shape::Labelled(_) => "blocks",
    }
}

fn row(schema: &Schema, field: &Field) -> String {
    let settings = meaning(schema).settings;
    let (_, default, means) = settings
        .iter()
        .find(|(name, ..)| *name == field.hcl)
        .unwrap_or_else(|| panic!("say in meanings.rs what {} of {} means", field.hcl, schema.what));
    let name = match field.shape.schema() {
        Some(part) if !std::ptr::eq(part, schema) => format!("[`{}`](#{})", field.hcl, part.what),
        _ => format!("`{}`", field.hcl),
    };
    let json = if field.json.is_empty() { String::new() } else { format!("`{}`", field.json) };
    let since = since(schema.what, field.hcl);
    format!("| {name} | {json} | {} | {default} | {since} | {means} |\n", form(field.shape))
}

fn section(schema: &'static Schema) -> String {
    let rows: String = acted_upon(schema).map(|field| row(schema, field)).collect();
    let not: Vec<String> = named(schema)
        .filter(|field| is_unenforced(schema, field.hcl))
        .map(|field| format!("`{}`", field.hcl))
        .collect();
    let not =
        if not.is_empty() { String::new() } else { format!("\nNot implemented: {}.\n", not.join(", ")) };
    let about = meaning(schema).about;
    format!(
        "\n## {}\n\n{about}\n\n| attribute | JSON | form | default | since | meaning |\n|---|---|---|---|---|---|\n{rows}{not}",
        schema.what
    )
}

#[test]
fn the_page_tells_all_blocks() {
    let sections: String = blocks().into_iter().map(section).collect();
    let page = format!("# Job files\n\n{ABOUT}{sections}");
    expect_file!["../../../../docs/reference/job-file.md"].assert_eq(&page);
}

#[test]
fn each_setting_is_recorded_with_the_version_it_came_with() {
    let all =
        blocks().into_iter().flat_map(|schema| acted_upon(schema).map(|field| (schema.what, field.hcl)));
    expect_file!["since.txt"].assert_eq(&recorded(all));
}

#[test]
fn nothing_is_explained_that_there_is_not() {
    let blocks = blocks();
    for meaning in MEANINGS {
        let schema = blocks.iter().find(|schema| schema.what == meaning.block).expect(meaning.block);
        for (name, ..) in meaning.settings {
            assert!(acted_upon(schema).any(|field| field.hcl == *name), "{name} of {}", meaning.block);
        }
    }
}

/// A heading leads to one section.
#[test]
fn no_two_blocks_of_the_page_are_called_the_same() {
    let mut names: Vec<_> = blocks().iter().map(|schema| schema.what).collect();
    names.sort_unstable();
    let all = names.len();
    names.dedup();
    assert_eq!(names.len(), all, "{names:?}");
}
