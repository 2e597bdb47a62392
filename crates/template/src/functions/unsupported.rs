//! Functions that Nomad's templates have and Berth's do not, and why.

const CONSUL: &str = "Berth has no Consul; keep the value in a variable, and read it with nomadVar";
const VAULT: &str = "Berth has no Vault; keep the secret in a variable, and read it with nomadVar";
const SERVICES: &str = "Berth registers no services yet; NOMAD_ADDR_<label> and NOMAD_PORT_<label> of the environment name a task's own ports";
const HOST: &str =
    "a template reads nothing of its node; `source` names a file of the task, and an artifact brings one";
const SPRIG: &str = "the functions of Sprig are not there; text, list and arithmetic functions are there under their own names";
const FORMAT: &str = "write toJSON or parseJSON: most programs that read YAML read JSON";
const STATE: &str = "keep what a template computes in a variable, `$x := ...`";

const REFUSED: &[(&[&str], &str)] = &[
    (
        &[
            "caLeaf",
            "caRoots",
            "connect",
            "datacenters",
            "exportedServices",
            "key",
            "keyExists",
            "keyExistsGet",
            "keyOrDefault",
            "ls",
            "node",
            "nodes",
            "partitions",
            "peerings",
            "safeLs",
            "safeTree",
            "service",
            "services",
            "tree",
        ],
        CONSUL,
    ),
    (&["pkiCert", "secret", "secrets"], VAULT),
    (&["nomadService", "nomadServices", "byMeta", "byKey", "byTag", "byPort", "bySize"], SERVICES),
    (&["file", "plugin", "sockaddr", "writeToFile"], HOST),
    (&["parseYAML", "toYAML", "toTOML", "toUnescapedJSON", "toUnescapedJSONPretty"], FORMAT),
    (
        &[
            "scratch",
            "executeTemplate",
            "explode",
            "explodeMap",
            "mergeMap",
            "mergeMapWithOverride",
            "helper_func",
        ],
        STATE,
    ),
    (&["splitToMap"], "split the text, and each pair of it: split and index are there"),
    (&["call", "js"], "values of a template are no functions, and no programs are written with them"),
    (
        &["hmacSHA256Hex", "spew_dump", "spew_printf", "spew_sdump", "spew_sprintf"],
        "it is rarely used; sha256Hex and printf are there",
    ),
];

/// Why a function is not there, if it is one that others have.
pub(super) fn why(name: &str) -> Option<&'static str> {
    if name.starts_with("sprig_") {
        return Some(SPRIG);
    }
    REFUSED.iter().find(|(names, _)| names.contains(&name)).map(|(_, why)| *why)
}
