//! Writes PEM; reading is `rustls-pki-types`'.

use base64::{Engine, engine::general_purpose::STANDARD};

/// What a certificate is called in PEM.
pub const CERTIFICATE: &str = "CERTIFICATE";
/// What a key is called in PEM.
pub const PRIVATE_KEY: &str = "PRIVATE KEY";

/// Characters of a line.
const LINE: usize = 64;

/// One section.
pub fn encode(label: &str, der: &[u8]) -> String {
    let text = STANDARD.encode(der);
    let mut pem = format!("-----BEGIN {label}-----\n");
    for line in text.as_bytes().chunks(LINE) {
        pem.extend(line.iter().map(|byte| char::from(*byte)));
        pem.push('\n');
    }
    pem + &format!("-----END {label}-----\n")
}
