//! The documentation does what it says: its blocks run, and its links lead somewhere. docs/internals/write-docs.md tells
//! the rules.
//!
//! Pages run one after the other: each has a server of its own, and a machine has few processors.

#[path = "docs/block.rs"]
mod block;
mod e2e;
#[path = "docs/links.rs"]
mod links;
#[path = "docs/shell.rs"]
mod shell;

use std::path::{Path, PathBuf};

use block::{Block, Kind};
use shell::Shell;

const DOCS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs");
/// Blocks that are only looked at. Who adds one knows that nothing checks it.
const ILLUSTRATIVE: usize = 22;

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

#[test]
fn every_block_runs() {
    let mut ran = 0;
    for page in pages() {
        let blocks = Block::all(&read(&page)).unwrap_or_else(|error| panic!("{}:{error}", page.display()));
        if !blocks.iter().any(Block::runs) {
            continue;
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
    }
    assert!(ran > 20, "only {ran} blocks ran: are they found?");
}

#[test]
fn no_more_blocks_are_illustrative_than_are_known() {
    let blocks = pages().iter().flat_map(|page| Block::all(&read(page)).expect("blocks")).collect::<Vec<_>>();
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
