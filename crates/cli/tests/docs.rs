//! The documentation is true: the blocks of its pages run, and its links lead somewhere. The rules are in
//! docs/internals/write-docs.md.
//!
//! A few pages run at a time: each has a server of its own, most wait, and a machine has few processors.

#[path = "docs/block.rs"]
mod block;
mod e2e;
#[path = "docs/links.rs"]
mod links;
#[path = "docs/shell.rs"]
mod shell;

use std::{
    path::{Path, PathBuf},
    sync::Mutex,
    thread,
};

use block::{Block, Kind};
use shell::Shell;

/// Pages that run at a time.
const AT_A_TIME: usize = 3;
const DOCS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs");
/// Blocks that are only looked at. Who adds one knows that nothing checks it.
const ILLUSTRATIVE: usize = 33;
/// The page whose blocks another test runs, `endpoints.rs`.
const ENDPOINTS: &str = "reference/endpoints.md";

/// All pages, in order.
fn pages() -> Vec<PathBuf> {
    fn add(dir: &Path, pages: &mut Vec<PathBuf>) {
        for entry in std::fs::read_dir(dir).expect("a directory").map(|entry| entry.expect("an entry").path())
        {
            if entry.is_dir() {
                add(&entry, pages);
            } else if entry.extension().is_some_and(|extension| extension == "md") {
                pages.push(entry);
            }
        }
    }
    let mut pages = Vec::new();
    add(Path::new(DOCS), &mut pages);
    pages.sort();
    pages
}

fn read(page: &Path) -> String {
    std::fs::read_to_string(page).expect("a page")
}

/// Runs what a page shows, and says how many blocks that was.
fn run(page: &Path) -> usize {
    let mut ran = 0;
    let blocks = Block::all(&read(page)).unwrap_or_else(|error| panic!("{}:{error}", page.display()));
    if !blocks.iter().any(Block::runs) {
        return ran;
    }
    let shell = Shell::start();
    for block in blocks {
        let result = match &block.kind {
            Kind::Script => shell.script(&block.text),
            Kind::Console => shell.console(&block.text),
            Kind::File(name) => shell.file(name, &block.text),
            Kind::On(_) | Kind::Illustrative | Kind::Text => continue,
        };
        result.unwrap_or_else(|error| panic!("{}:{}: {error}", page.display(), block.line));
        ran += 1;
    }
    ran
}

#[test]
fn every_block_runs() {
    let pages = Mutex::new(pages().into_iter());
    let next = || pages.lock().expect("no page panics here").next();
    let runner = || std::iter::from_fn(next).map(|page| run(&page)).sum::<usize>();
    let ran: usize = thread::scope(|scope| {
        let runners = [(); AT_A_TIME].map(|()| scope.spawn(runner));
        runners.into_iter().map(|runner| runner.join().expect("pages that run")).sum()
    });
    assert!(ran > 20, "only {ran} blocks ran: are they found?");
}

#[test]
fn no_more_blocks_are_illustrative_than_are_known() {
    let pages = pages().into_iter().filter(|page| !page.ends_with(ENDPOINTS));
    let blocks = pages.flat_map(|page| Block::all(&read(&page)).expect("blocks")).collect::<Vec<_>>();
    let illustrative = blocks.iter().filter(|block| block.kind == Kind::Illustrative).count();
    assert_eq!(illustrative, ILLUSTRATIVE);
}

#[test]
fn every_link_leads_somewhere() {
    for page in pages() {
        let broken = links::broken(&page, &read(&page));
        assert!(broken.is_empty(), "{}: {broken:?}", page.display());
    }
}

/// The source text of all crates, without what is for their tests alone.
fn sources(dir: &Path, text: &mut String) {
    for path in std::fs::read_dir(dir).expect("a directory").map(|entry| entry.expect("an entry").path()) {
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        if path.is_dir() && !["tests", "target"].contains(&name) {
            sources(&path, text);
        } else if path.extension().is_some_and(|extension| extension == "rs") && name != "tests.rs" {
            text.push_str(&read(&path));
        }
    }
}

/// Of each message between `…`, the parts that a user searches for stand in the code word for word.
#[test]
fn the_messages_that_are_explained_are_those_of_the_code() {
    let mut code = String::new();
    sources(&Path::new(DOCS).join("../crates"), &mut code);
    let code = regex::Regex::new(r"\\\n\s*").expect("it is one").replace_all(&code, "");
    let page = read(&Path::new(DOCS).join("how-to/troubleshoot.md"));
    let messages = page
        .lines()
        .filter_map(|line| line.strip_prefix("| `")?.split_once('`'))
        .map(|(output_text, _)| output_text);
    let parts: Vec<&str> = messages.flat_map(|output_text| output_text.split('…')).map(str::trim).collect();
    // What the system says stands in no code of ours; what is shorter could be anything.
    let system = ["Connection refused", "Address already in use", "No such file or directory"];
    let ours = parts.iter().filter(|part| part.len() > 8 && !system.iter().any(|own| part.contains(own)));
    let missing: Vec<_> = ours.filter(|part| !code.contains(**part)).collect();
    assert!(missing.is_empty(), "no code says {missing:?}");
    assert!(parts.len() > 40, "only {} parts: are they found?", parts.len());
}
