//! What the command line prints, word for word, as far as it needs no server. `TRYCMD=overwrite` accepts changes.

#[test]
fn the_command_line_says_what_it_said_before() {
    trycmd::TestCases::new().case("tests/cmd/*.trycmd");
}
