//! Property test: destinations of artifacts and templates are checked after `${...}` is replaced, whatever that stands for.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::path::{Component, Path};

use berth_api::agent::NodeSpec;
use proptest::prelude::*;

use super::interpolate::{Names, TASK_BYTES_MAX};
use crate::artifacts::lands;
use crate::drivers::RootFs;
use crate::secrets::NO_SECRETS;
use crate::volumes::destination;

const TASK_DIR: &str = "/data/allocs/1/tasks/t";
const SHARED_DIR: &str = "/data/allocs/1/alloc";

/// Parts of destinations, and of what names stand for.
fn bits() -> impl Strategy<Value = String> {
    let bits = [
        "..",
        ".",
        "/",
        "//",
        "local",
        "alloc",
        "secrets",
        "tmp",
        "data",
        "a",
        "é",
        "\u{202e}",
        "\u{2024}\u{2024}",
        "\\",
        "\0",
        " ",
        "proc",
        "dev",
        "etc",
        TASK_DIR,
        SHARED_DIR,
        "$",
        "{",
    ];
    prop::collection::vec(prop::sample::select(bits.to_vec()), 0..6).prop_map(|bits| bits.concat())
}

fn is_below(path: &Path) -> bool {
    path.components().all(|part| matches!(part, Component::Normal(_)))
}

proptest! {
    #[test]
    fn what_names_stand_for_leads_no_destination_elsewhere(
        texts in prop::collection::vec((bits(), prop::sample::select(vec!["", "${meta.x}", "${NOMAD_META_y}", "${attr.z}"])), 1..4),
        x in bits(), y in bits(), z in bits(), in_container in any::<bool>(),
    ) {
        let node = NodeSpec {
            meta: [("x".to_owned(), x)].into(),
            attributes: [("z".to_owned(), z)].into(),
            ..NodeSpec::default()
        };
        let (env, bytes_left) = (BTreeMap::from([("NOMAD_META_y".to_owned(), y)]), Cell::new(TASK_BYTES_MAX));
        let names = Names { node_id: "id", node: &node, env: &env, secrets: &NO_SECRETS, bytes_left: &bytes_left };
        let text: String = texts.into_iter().flat_map(|(text, name)| [text, name.to_owned()]).collect();
        let Ok(replaced) = names.replace(&text) else { return Ok(()) };
        let root_fs = if in_container { RootFs::Container } else { RootFs::Host };
        if let Ok((top, rest)) = lands(&replaced, root_fs, Path::new(TASK_DIR), Path::new(SHARED_DIR)) {
            prop_assert!(is_below(&rest), "{:?} leads to {:?}", replaced, rest);
            let is_shared = top == Path::new(SHARED_DIR);
            prop_assert!(is_shared || top == Path::new(TASK_DIR));
            prop_assert!(is_shared || !rest.starts_with("secrets"), "{:?} leads to a task's secrets", replaced);
            prop_assert!(is_shared || !in_container || rest.starts_with("local"), "{:?}", replaced);
        }
        if let Ok(found) = destination(&replaced) {
            let rest = Path::new(&found).strip_prefix("/");
            prop_assert!(rest.is_ok_and(|rest| is_below(rest) && rest.iter().next().is_some()), "{:?}", found);
            prop_assert!(!found.contains('\0'), "{:?} is another one in C", found);
            for taken in ["/proc", "/sys", "/dev", "/secrets", "/alloc/logs"] {
                prop_assert!(taken != found, "{:?} hides {}", replaced, taken);
            }
        }
    }
}
