//! Names of images, as people write them: `nginx`, `ghcr.io/acme/web:1.2`, `localhost:5000/app@sha256:...`.

use std::fmt;
use std::str::FromStr;

use super::digest::Digest;

/// Where images without a registry's name come from.
pub(crate) const DEFAULT_REGISTRY: &str = "docker.io";

/// Characters of a repository's name with its registry, as registries limit it.
const NAME_CHARS_MAX: usize = 255;
const TAG_CHARS_MAX: usize = 128;

/// Names an image of a registry, in full.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Reference {
    /// The registry's host, and perhaps its port.
    pub(crate) registry: String,
    /// The repository, as `library/nginx`.
    pub(crate) repository: String,
    /// As `latest`; empty when a digest stands alone.
    pub(crate) tag: String,
    /// The digest of its manifest; with it the tag has no effect.
    pub(crate) digest: Option<Digest>,
}

impl Reference {
    /// Whether its tag is one that people move from image to image.
    pub(crate) fn moves(&self) -> bool {
        self.digest.is_none() && self.tag == "latest"
    }

    /// What a manifest is asked for by.
    pub(crate) fn pointer(&self) -> String {
        self.digest.map_or_else(|| self.tag.clone(), |digest| digest.to_string())
    }
}

impl fmt::Display for Reference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.registry, self.repository)?;
        if !self.tag.is_empty() {
            write!(f, ":{}", self.tag)?;
        }
        self.digest.map_or(Ok(()), |digest| write!(f, "@{digest}"))
    }
}

impl FromStr for Reference {
    type Err = String;

    /// # Errors
    /// What is wrong with it, without repeating the whole of it.
    fn from_str(text: &str) -> Result<Self, String> {
        if text.is_empty() {
            return Err("the image's name is empty".into());
        }
        if let Some((scheme, _)) = text.split_once("://") {
            let scheme: String = scheme.chars().take(16).collect();
            return Err(format!("leave {scheme}:// out: an image's name has no scheme"));
        }
        let (name, digest) = match text.split_once('@') {
            None => (text, None),
            Some((name, digest)) => (name, Some(digest.parse()?)),
        };
        // A colon before the last slash belongs to the registry's port.
        let tag_at = name.rfind(':').filter(|at| !name[*at..].contains('/'));
        let (name, tag) = tag_at.map_or((name, None), |at| (&name[..at], Some(&name[at + 1..])));
        let (registry, repository) = split(name);
        if name.len() > NAME_CHARS_MAX {
            return Err(format!("its name is longer than {NAME_CHARS_MAX} characters"));
        }
        check_registry(&registry)?;
        repository.split('/').try_for_each(check_component)?;
        let tag = match (tag, digest) {
            (Some(tag), _) => check_tag(tag)?.to_owned(),
            (None, Some(_)) => String::new(),
            (None, None) => "latest".to_owned(),
        };
        Ok(Self { registry, repository, tag, digest })
    }
}

/// The registry is distinguished from the first part of a path by a dot, a colon, or being `localhost`.
fn split(name: &str) -> (String, String) {
    let is_host = |first: &str| first.contains(['.', ':']) || first == "localhost";
    match name.split_once('/') {
        Some((first, rest)) if is_host(first) => {
            let first = if first == "index.docker.io" { DEFAULT_REGISTRY } else { first };
            if first == DEFAULT_REGISTRY && !rest.contains('/') {
                (first.to_owned(), format!("library/{rest}"))
            } else {
                (first.to_owned(), rest.to_owned())
            }
        }
        Some(_) => (DEFAULT_REGISTRY.to_owned(), name.to_owned()),
        None => (DEFAULT_REGISTRY.to_owned(), format!("library/{name}")),
    }
}

/// A host's name or address, and perhaps a port.
///
/// # Errors
/// When it is neither.
pub fn check_registry(registry: &str) -> Result<(), String> {
    let wrong = || format!("the registry {registry:?} is not HOST or HOST:PORT");
    let (host, port) = match registry.rsplit_once(':') {
        Some((host, port)) if !host.ends_with(':') && !port.ends_with(']') => (host, Some(port)),
        _ => (registry, None),
    };
    let port_fits = port.is_none_or(|port| port.parse::<u16>().is_ok_and(|port| port != 0));
    let bracketed = host.strip_prefix('[').and_then(|host| host.strip_suffix(']'));
    let host_fits = match bracketed {
        Some(address) => address.parse::<std::net::Ipv6Addr>().is_ok(),
        None => {
            let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-');
            !host.is_empty() && host.chars().all(fits) && !host.starts_with(['.', '-'])
        }
    };
    if port_fits && host_fits { Ok(()) } else { Err(wrong()) }
}

/// Lower-case letters and digits, with `.`, `_`, `__` or any number of `-` between.
fn check_component(component: &str) -> Result<(), String> {
    let excerpt: String = component.chars().take(64).collect();
    if component.is_empty() {
        return Err("a part between slashes is empty".into());
    }
    if component.chars().any(|c| c.is_ascii_uppercase()) {
        return Err(format!("{excerpt:?} has capital letters, which names of images do not have"));
    }
    let is_plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
    let mut separators = component.split(is_plain).filter(|text| !text.is_empty());
    let between = component.starts_with(is_plain) && component.ends_with(is_plain);
    let known = separators.all(|text| matches!(text, "." | "_" | "__") || text.chars().all(|c| c == '-'));
    if between && known {
        return Ok(());
    }
    Err(format!(
        "{excerpt:?} is not made of lower-case letters and digits, with `.`, `_`, `__` or `-` between"
    ))
}

fn check_tag(tag: &str) -> Result<&str, String> {
    let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '-');
    let good = !tag.is_empty()
        && tag.len() <= TAG_CHARS_MAX
        && tag.chars().all(fits)
        && !tag.starts_with(['.', '-']);
    let excerpt: String = tag.chars().take(64).collect();
    if good {
        Ok(tag)
    } else {
        Err(format!("the tag {excerpt:?} is not made of letters, digits, `_`, `.` and `-`"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> String {
        text.parse::<Reference>().map_or_else(|error| format!("error: {error}"), |known| known.to_string())
    }

    #[test]
    fn short_names_stand_for_full_ones() {
        let digest = Digest::of(b"");
        for (short, full) in [
            ("nginx", "docker.io/library/nginx:latest"),
            ("redis:7", "docker.io/library/redis:7"),
            ("acme/web", "docker.io/acme/web:latest"),
            ("docker.io/nginx", "docker.io/library/nginx:latest"),
            ("index.docker.io/acme/web:1", "docker.io/acme/web:1"),
            ("ghcr.io/acme/team/web_2--x:1.2-rc", "ghcr.io/acme/team/web_2--x:1.2-rc"),
            ("localhost/app", "localhost/app:latest"),
            ("localhost:5000/app", "localhost:5000/app:latest"),
            ("127.0.0.1:5000/app:x", "127.0.0.1:5000/app:x"),
            ("[::1]:5000/app:x", "[::1]:5000/app:x"),
        ] {
            assert_eq!(read(short), full);
        }
        assert_eq!(read(&format!("nginx@{digest}")), format!("docker.io/library/nginx@{digest}"));
        assert_eq!(read(&format!("a.b/c:1@{digest}")), format!("a.b/c:1@{digest}"));
    }

    #[test]
    fn what_names_no_image_is_refused_with_the_reason() {
        for bad in [
            "",
            "Nginx",
            "a//b",
            "a/../b",
            ".hidden",
            "a.b/-x",
            "nginx:",
            "nginx:.x",
            "nginx@sha256:00",
            "docker://nginx",
            "a.b:x/c",
            "a.b:0/c",
            "a b",
            "x/é",
            "a.b/c:d/e",
            "u@h/c",
            "a.b/c?x=1",
            "a.b/%2e%2e/c",
        ] {
            assert!(read(bad).starts_with("error: "), "{bad}: {}", read(bad));
        }
        assert!(read(&"a".repeat(300)).contains("longer than 255"));
        assert!(read("Nginx").contains("capital letters"));
    }
}
