//! What templates come to: pairs of a template and its text, as Go's text/template and Nomad render them.

mod bounds;
mod functions;
mod missing;
mod properties;
mod secrecy;
mod syntax;
mod world;

/// Each template comes to its text.
fn all(cases: &[(&str, &str)]) {
    for (template, expected) in cases {
        assert_eq!(world::outcome(template), *expected, "{template}");
    }
}
