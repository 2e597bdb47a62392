//! The source of an artifact, and whether it is an archive to unpack or a plain file.

use std::path::PathBuf;

use berth_api::agent::ArtifactSpec;
use hyper::Uri;

/// Archives that are unpacked, by the ends of their names and what `archive` says of them.
const ARCHIVES: [(&str, ArchiveFormat); 4] = [
    ("tar", ArchiveFormat::Tar),
    ("tar.gz", ArchiveFormat::Tar),
    ("tgz", ArchiveFormat::Tar),
    ("zip", ArchiveFormat::Zip),
];
/// Those that are not.
const OTHER_ARCHIVES: [&str; 8] = [".gz", ".bz2", ".xz", ".zst", ".tbz2", ".txz", ".tzst", ".7z"];
/// The formats that are unpacked, as errors name them.
const UNPACKED: &str = "tar, tar.gz and zip are";

/// Options that something comes of.
const OPTIONS: [&str; 2] = ["checksum", "archive"];

/// Where an artifact comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ArtifactSource {
    pub(super) kind: SourceKind,
    /// The name of the file that it becomes.
    pub(super) name: String,
    /// None for a file, which comes as it is.
    pub(super) archive: Option<ArchiveFormat>,
}
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ArchiveFormat {
    /// A tar archive, gzipped or not.
    Tar,
    Zip,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum SourceKind {
    Http(Uri),
    /// On the node itself.
    Local(PathBuf),
}

impl ArtifactSource {
    pub(super) fn parse(spec: &ArtifactSpec) -> Result<Self, String> {
        if spec.insecure {
            return Err("`insecure` is not implemented: certificates are always checked".into());
        }
        if let Some(option) = spec.options.keys().find(|option| !OPTIONS.contains(&option.as_str())) {
            return Err(format!(
                "the option {option:?} is not implemented; known are {}",
                OPTIONS.join(", ")
            ));
        }
        let kind = kind(&spec.source)?;
        let path = match &kind {
            SourceKind::Http(uri) => uri.path().to_owned(),
            SourceKind::Local(path) => path.to_string_lossy().into_owned(),
        };
        let name = path.rsplit('/').next().unwrap_or_default().to_owned();
        let archive = archive(spec, &name)?;
        if archive.is_none() && spec.mode != "file" && (name.is_empty() || name == "..") {
            return Err(
                "it has no name of its own: say `mode = \"file\"`, with a destination that names one".into(),
            );
        }
        Ok(Self { kind, name, archive })
    }

    /// For people, without what may be secret in it.
    pub(super) fn display(&self) -> String {
        match &self.kind {
            SourceKind::Http(uri) => without_secrets(&uri.to_string()),
            SourceKind::Local(path) => path.display().to_string(),
        }
    }
}

/// An address without its question, which may hold a signature, and without its user, who may have a password.
pub(super) fn without_secrets(source: &str) -> String {
    let plain = source.split(['?', '#']).next().unwrap_or_default();
    let Some((scheme, rest)) = plain.split_once("://") else { return plain.to_owned() };
    let host = rest.find('/').unwrap_or(rest.len());
    let user = rest[..host].rfind('@').map_or(0, |at| at + 1);
    format!("{scheme}://{}", &rest[user..])
}

fn kind(source: &str) -> Result<SourceKind, String> {
    if let Some(path) = source.strip_prefix("file://") {
        return Ok(SourceKind::Local(path.into()));
    }
    if source.starts_with('/') {
        return Ok(SourceKind::Local(source.into()));
    }
    if !source.starts_with("https://") && !source.starts_with("http://") {
        return Err(
            "it comes neither by https nor by http, nor is it an absolute path; others are not implemented"
                .into(),
        );
    }
    if source.contains("::") {
        return Err(
            "it names a way of getting it (`::`), which is not implemented: write a plain https URL".into()
        );
    }
    let text = source.split('#').next().unwrap_or_default();
    text.parse().map(SourceKind::Http).map_err(|error| format!("it is no URL: {error}"))
}

fn archive(spec: &ArtifactSpec, name: &str) -> Result<Option<ArchiveFormat>, String> {
    let option = spec.options.get("archive").map(String::as_str);
    let find =
        |is: &dyn Fn(&str) -> bool| ARCHIVES.into_iter().find(|(end, _)| is(end)).map(|(_, kind)| kind);
    let known = match option {
        Some("false" | "0") => return if spec.mode == "dir" { Err(no_dir(name)) } else { Ok(None) },
        Some(kind) => {
            let known = find(&|end| end == kind);
            let unknown = || format!("archives of the kind {kind:?} are not unpacked: {UNPACKED}");
            Some(known.ok_or_else(unknown)?)
        }
        None => find(&|end| name.strip_suffix(end).is_some_and(|stem| stem.ends_with('.'))),
    };
    match spec.mode.as_str() {
        "file" => Ok(None),
        _ if known.is_some() => Ok(known),
        _ if OTHER_ARCHIVES.iter().any(|end| name.ends_with(end)) => Err(format!(
            "{name:?} looks like an archive that is not unpacked ({UNPACKED}): say `mode = \"file\"` or \
             `options {{ archive = false }}` to have it as it is"
        )),
        "dir" => Err(no_dir(name)),
        _ => Ok(None),
    }
}

fn no_dir(name: &str) -> String {
    format!("`mode = \"dir\"` wants an archive, and {name:?} is none that is unpacked: {UNPACKED}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(
        source: &str,
        mode: &str,
        options: &[(&str, &str)],
    ) -> Result<(String, Option<ArchiveFormat>), String> {
        let options = options.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        let (source, mode) = (source.to_owned(), mode.to_owned());
        let spec = ArtifactSpec { source, mode, options, ..ArtifactSpec::default() };
        ArtifactSource::parse(&spec).map(|source| (source.name, source.archive))
    }

    #[test]
    fn what_an_artifact_is_follows_from_its_name_unless_somebody_says() {
        let is = |name: &str, archive| Ok((name.to_owned(), archive));
        assert_eq!(parse("https://a.b/x/tool?sig=1", "any", &[]), is("tool", None));
        assert_eq!(parse("https://a.b/app.tar.gz", "any", &[]), is("app.tar.gz", Some(ArchiveFormat::Tar)));
        assert_eq!(parse("https://a.b/app.tar.gz", "file", &[]), is("app.tar.gz", None));
        assert_eq!(
            parse("https://a.b/app", "dir", &[("archive", "tgz")]),
            is("app", Some(ArchiveFormat::Tar))
        );
        assert_eq!(parse("/srv/app.tgz", "any", &[("archive", "false")]), is("app.tgz", None));
        assert_eq!(parse("http://a.b/", "file", &[]), is("", None));
        assert_eq!(parse("https://a.b/app.zip?x=1", "any", &[]), is("app.zip", Some(ArchiveFormat::Zip)));
        assert_eq!(
            parse("https://a.b/app", "any", &[("archive", "zip")]),
            is("app", Some(ArchiveFormat::Zip))
        );
        assert_eq!(parse("https://a.b/gunzip", "any", &[]), is("gunzip", None));
    }

    #[test]
    fn secrets_of_an_address_are_not_shown() {
        for (source, display) in [
            ("https://me:secret@a.b/x?sig=1#part", "https://a.b/x"),
            ("https://a.b/x@1", "https://a.b/x@1"),
            ("https://me@a.b", "https://a.b"),
            ("/srv/x?", "/srv/x"),
        ] {
            assert_eq!(without_secrets(source), display);
        }
    }

    #[test]
    fn what_is_not_done_is_refused_by_name() {
        for (source, mode, options, why) in [
            ("git::https://a.b/c.git", "any", &[][..], "neither by https"),
            ("s3::https://a.b/c", "any", &[], "neither by https"),
            ("github.com/a/b", "any", &[], "neither by https"),
            ("https://a.b/c.7z", "any", &[], "not unpacked"),
            ("https://a.b/c", "dir", &[], "wants an archive"),
            ("https://a.b/c", "any", &[("archive", "rar")], "\"rar\" are not unpacked"),
            ("https://a.b/c", "any", &[("sshkey", "x")], "\"sshkey\" is not implemented"),
            ("https://a.b/", "any", &[], "no name of its own"),
        ] {
            let refused = parse(source, mode, options).unwrap_err();
            assert!(refused.contains(why), "{source}: {refused}");
        }
    }
}
