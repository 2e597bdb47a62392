//! The `curl` line for the same request. It shows no secret that is not on this command line already.

use berth_api::http::Target;

use super::{
    ApiArgs,
    request::{self, BodySource, Destination},
};
use crate::{failure::Failure, global::Global, remote::Certificates};

/// What a shell puts for the token that it knows.
const TOKEN_VARIABLES: [&str; 2] = ["BERTH_TOKEN", "NOMAD_TOKEN"];

/// The command line, quoted for a shell.
pub fn line(
    api: &ApiArgs,
    global: &Global,
    destination: &Destination,
    target: &Target,
    data: Option<&BodySource>,
) -> Result<String, Failure> {
    let mut words = vec!["curl".to_owned()];
    if api.verbose {
        words.push("--verbose".to_owned());
    }
    words.push(format!("-X {}", quoted(&request::method(api, data.is_some()))));
    words.extend(data.map(|data| match data {
        BodySource::Text(text) => format!("--data-raw {}", quoted(text)),
        BodySource::File(path) => format!("--data-binary {}", quoted(&format!("@{path}"))),
        BodySource::Stdin => "--data-binary @-".to_owned(),
    }));
    let has = |name: &str| api.header.iter().any(|(given, _)| given.eq_ignore_ascii_case(name));
    if data.is_some() && !has("content-type") {
        words.push("-H 'Content-Type: application/json'".to_owned());
    }
    words
        .extend(api.header.iter().map(|(name, value)| format!("-H {}", quoted(&format!("{name}: {value}")))));
    if !has(request::TOKEN) {
        words.extend(token(global));
    }
    let mut url = format!("{}{}", destination.address, target.path_and_query());
    if destination.address.is_encrypted() {
        let certificates = global.certificates()?;
        words.extend(of_certificates(&certificates));
        // curl asks for the name of the URL: it must be another one there, and be reached where the server is.
        if let Some(name) = &certificates.server_name {
            let at = destination.address.host_and_port();
            let port = at.rsplit(':').next().unwrap_or_default();
            words.push(format!("--connect-to {}", quoted(&format!("{name}:{port}:{at}"))));
            url = format!("https://{name}:{port}{}", target.path_and_query());
        }
    }
    words.push(quoted(&url));
    Ok(words.join(" \\\n  ") + "\n")
}

fn token(global: &Global) -> Option<String> {
    if let Some(token) = global.token_of_flag() {
        return Some(format!("-H {}", quoted(&format!("X-Nomad-Token: {token}"))));
    }
    let is_set = |name: &&str| std::env::var(name).is_ok_and(|value| !value.is_empty());
    let variable = TOKEN_VARIABLES.into_iter().find(is_set)?;
    Some(format!("-H \"X-Nomad-Token: ${{{variable}}}\""))
}

fn of_certificates(certificates: &Certificates) -> Vec<String> {
    let Certificates { ca, ca_dir, own, key, skip_verify, .. } = certificates;
    let files = [("--cacert", ca), ("--capath", ca_dir), ("--cert", own), ("--key", key)];
    let files = files.into_iter().filter_map(|(flag, file)| {
        file.as_ref().map(|file| format!("{flag} {}", quoted(&file.display().to_string())))
    });
    files.chain(skip_verify.then(|| "--insecure".to_owned())).collect()
}

/// One word for a shell, whatever it holds.
fn quoted(text: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_./:@=,".contains(c);
    if !text.is_empty() && text.chars().all(is_plain) {
        return text.to_owned();
    }
    format!("'{}'", text.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shell_takes_each_word_as_one() {
        assert_eq!(quoted("/v1/jobs"), "/v1/jobs");
        assert_eq!(quoted("/v1/jobs?a=b&c=d"), "'/v1/jobs?a=b&c=d'");
        assert_eq!(quoted("it's $HOME"), r"'it'\''s $HOME'");
        assert_eq!(quoted(""), "''");
    }
}
