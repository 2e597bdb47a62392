//! Removes secrets. What may hold one is left out entirely: a bug report can do without it, and its author cannot take it
//! back.

use serde_json::Value;

/// The text that replaces a secret.
const LEFT_OUT: &str = "(left out)";
/// Members whose texts, at any depth, are what owners pass to their tasks.
const OWNERS: &[&str] = &[
    "Body",
    "CanaryMeta",
    "CanaryTags",
    "Config",
    "Data",
    "EmbeddedTmpl",
    "Env",
    "GetterHeaders",
    "GetterOptions",
    "Header",
    "Meta",
    "MountOptions",
    "Payload",
    "Policy",
    "Secrets",
    "Tags",
    "Variables",
];
/// Of these the texts that say what runs, on which servers, are kept.
const KEPT: &[&str] = &["image", "command", "driver", "build", "dc", "region", "role"];
/// Parts of names that promise a secret.
const SECRET: &[&str] =
    &["token", "secret", "password", "passwd", "credential", "apikey", "api_key", "private_key"];

/// Takes secrets out of a value.
pub(super) fn redact(value: &mut Value) {
    match value {
        Value::Array(items) => items.iter_mut().for_each(redact),
        Value::Object(members) => members.iter_mut().for_each(|(name, value)| member(name, value)),
        Value::String(text) => without_login(text),
        _ => {}
    }
}

fn member(name: &str, value: &mut Value) {
    let promises_a_secret = || SECRET.iter().any(|word| name.to_lowercase().contains(word));
    if OWNERS.contains(&name) || promises_a_secret() {
        blank(value);
    } else {
        redact(value);
    }
}

/// Leaves all texts out.
fn blank(value: &mut Value) {
    match value {
        Value::Array(items) => items.iter_mut().for_each(blank),
        Value::Object(members) => members.iter_mut().for_each(|(name, value)| {
            if KEPT.contains(&name.as_str()) { redact(value) } else { blank(value) }
        }),
        Value::String(text) if !text.is_empty() => LEFT_OUT.clone_into(text),
        _ => {}
    }
}

/// `https://user:password@host/path?token=x` without the parts that let one in.
fn without_login(text: &mut String) {
    if let Some(question) = text.find("://").and_then(|begin| Some(begin + text[begin..].find('?')?)) {
        text.replace_range(question + 1.., LEFT_OUT);
    }
    let Some((scheme, rest)) = text.split_once("://") else { return };
    let authority = rest.find(['/', ' ', '"']).unwrap_or(rest.len());
    if let Some(at) = rest[..authority].rfind('@') {
        *text = format!("{scheme}://{LEFT_OUT}{}", &rest[at..]);
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_owners_pass_to_tasks_is_left_out() {
        let mut job = json!({
            "ID": "web",
            "Meta": { "owner": "ops" },
            "TaskGroups": [{ "Tasks": [{
                "Config": { "image": "/images/web", "command": "/bin/web", "args": ["-key", "k3y"], "ports": ["http"], "pids_limit": 5 },
                "Env": { "DB": "postgres://app:pw@db/x", "EMPTY": "" },
                "Templates": [{ "EmbeddedTmpl": "pw" }],
            }] }],
        });
        redact(&mut job);
        expect_test::expect![[r#"{"ID":"web","Meta":{"owner":"(left out)"},"TaskGroups":[{"Tasks":[{"Config":{"args":["(left out)","(left out)"],"command":"/bin/web","image":"/images/web","pids_limit":5,"ports":["(left out)"]},"Env":{"DB":"(left out)","EMPTY":""},"Templates":[{"EmbeddedTmpl":"(left out)"}]}]}]}"#]]
            .assert_eq(&job.to_string());
    }

    #[test]
    fn whatever_else_may_hold_a_secret_is_left_out() {
        let secret = "s3cret";
        let mut job = json!({
            "Payload": secret,
            "TaskGroups": [{
                "Meta": { "k": secret },
                "Services": [{ "Tags": [secret], "Meta": { "k": secret }, "Checks": [{ "Header": { "k": [secret] }, "Body": secret }] }],
                "Volumes": { "v": { "MountOptions": { "MountFlags": [secret] } } },
                "Scaling": { "Policy": { "check": { "query": secret } } },
                "Tasks": [{
                    "Artifacts": [{ "GetterSource": "https://s3cret@host/x?token=s3cret#s3cret", "GetterHeaders": { "k": secret }, "GetterOptions": { "k": secret } }],
                    "Config": { "auth": [{ "username": secret, "password": secret }] },
                    "Meta": { "k": secret },
                    "Templates": [{ "EmbeddedTmpl": secret }],
                }],
            }],
            "Members": [{ "Tags": { "role": "berth", "build": "0.1.0" } }],
        });
        redact(&mut job);
        let text = job.to_string();
        assert!(!text.contains(secret) && text.contains("https://(left out)@host/x?(left out)"), "{text}");
        assert_eq!(job["Members"][0]["Tags"]["build"], "0.1.0");
    }

    #[test]
    fn secrets_are_known_by_their_names_and_logins_by_their_form() {
        let mut value =
            json!({ "VaultToken": "t", "Address": "https://me:pw@host/x", "Time": "10:00", "Mail": "a@b" });
        redact(&mut value);
        let expected = json!({ "VaultToken": LEFT_OUT, "Address": "https://(left out)@host/x", "Time": "10:00", "Mail": "a@b" });
        assert_eq!(value, expected);
    }
}
