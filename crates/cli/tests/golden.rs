//! What the command line prints, word for word. `TRYCMD=overwrite` accepts changes.
//!
//! Cases in `cmd/server` talk to a server that always gives the same answers, at 80 and at 200 columns.

mod fake;

#[test]
fn the_command_line_prints_what_it_printed_before() {
    trycmd::TestCases::new().case("tests/cmd/*.trycmd");
}

#[test]
fn commands_show_what_a_server_answers_as_they_did_before() {
    let server = fake::Server::start("tests/answers");
    trycmd::TestCases::new().env("BERTH_ADDR", server.address()).case("tests/cmd/server/*.trycmd");
}
