//! The encoding of a token: three parts in base64, the last of which signs the others (RFC 7515).

use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
use ring::{
    rand::SystemRandom,
    signature::{ECDSA_P256_SHA256_FIXED, EcdsaKeyPair, UnparsedPublicKey},
};
use serde::{Deserialize, Serialize, de::DeserializeOwned};

use super::ALGORITHM;

/// The first part. Nothing else may stand there: who signs says nothing else.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct JwtHeader {
    alg: String,
    kid: String,
    typ: String,
}

/// Writes and signs one.
///
/// # Errors
/// When there is no randomness.
pub(super) fn encode<T: Serialize>(claims: &T, kid: &str, key: &EcdsaKeyPair) -> Result<String, String> {
    let header = JwtHeader { alg: ALGORITHM.to_owned(), kid: kid.to_owned(), typ: "JWT".to_owned() };
    let failed = |error: serde_json::Error| format!("write a token: {error}");
    let [header, claims] =
        [serde_json::to_vec(&header).map_err(failed)?, serde_json::to_vec(claims).map_err(failed)?]
            .map(|part| URL_SAFE_NO_PAD.encode(part));
    let mut text = format!("{header}.{claims}");
    let signature = key.sign(&SystemRandom::new(), text.as_bytes());
    let signature = signature.map_err(|_| "sign a token: there is no randomness".to_owned())?;
    text.push('.');
    URL_SAFE_NO_PAD.encode_string(signature, &mut text);
    Ok(text)
}

/// Reads one whose signature is right. The key says how it is verified, never the token.
///
/// # Errors
/// What is wrong with it.
pub(super) fn decode<T: DeserializeOwned>(
    text: &str,
    find_key: impl FnOnce(&str) -> Option<Vec<u8>>,
) -> Result<(T, String), &'static str> {
    let (signed, signature) = text.rsplit_once('.').ok_or("it has not three parts")?;
    let (header, claims) = signed.split_once('.').ok_or("it has not three parts")?;
    let header: JwtHeader = read(header).ok_or("its header is not one that is signed here")?;
    if header.alg != ALGORITHM || header.typ != "JWT" {
        return Err("it is not signed with ES256");
    }
    let key = find_key(&header.kid).ok_or("its key is not known, or not any more")?;
    let signature = URL_SAFE_NO_PAD.decode(signature).map_err(|_| "its signature cannot be read")?;
    UnparsedPublicKey::new(&ECDSA_P256_SHA256_FIXED, key)
        .verify(signed.as_bytes(), &signature)
        .map_err(|_| "its signature is wrong")?;
    Ok((read(claims).ok_or("it does not say all that it must")?, header.kid))
}

fn read<T: DeserializeOwned>(part: &str) -> Option<T> {
    serde_json::from_slice(&URL_SAFE_NO_PAD.decode(part).ok()?).ok()
}
