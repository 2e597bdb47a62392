//! Tokens stored by `berth login`, by the address of their server, in a file that only its owner may read.

use std::{
    collections::BTreeMap,
    env,
    fs::{self, DirBuilder, File, OpenOptions},
    io::{self, Read, Write},
    os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt},
    path::{Path, PathBuf},
};

use berth_api::http::Address;
use tempfile::NamedTempFile;

use crate::failure::{Exit, Failure};

/// Most of the file that is read.
const FILE_BYTES_MAX: u64 = 1 << 20;
/// Permission bits of group and others.
const OTHERS: u32 = 0o077;

type TokensByServer = BTreeMap<String, String>;

/// The file that stores the tokens.
#[derive(Debug, Clone)]
pub struct TokenFile {
    path: PathBuf,
}

impl TokenFile {
    /// The file of the current user; none without a home directory.
    pub fn of_user() -> Option<Self> {
        let dir = |name| env::var_os(name).filter(|dir| Path::new(dir).is_absolute()).map(PathBuf::from);
        let config = dir("XDG_CONFIG_HOME").or_else(|| Some(dir("HOME")?.join(".config")))?;
        Some(Self { path: config.join("berth").join("tokens.json") })
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The token for a server, if one is stored.
    pub fn find(&self, server: &Address) -> Result<Option<String>, Failure> {
        Ok(self.read()?.remove(&server.to_string()))
    }

    /// Stores a token for a server.
    pub fn store(&self, server: &Address, secret: &str) -> Result<(), Failure> {
        self.change(|tokens| {
            tokens.insert(server.to_string(), secret.to_owned());
        })
    }

    /// Deletes the token for a server, or all of them. Returns how many there were.
    pub fn remove(&self, server: Option<&Address>) -> Result<usize, Failure> {
        let mut removed = 0;
        self.change(|tokens| {
            let before = tokens.len();
            tokens.retain(|tokens, _| server.is_some_and(|server| *tokens != server.to_string()));
            removed = before - tokens.len();
        })?;
        Ok(removed)
    }

    fn change(&self, change: impl FnOnce(&mut TokensByServer)) -> Result<(), Failure> {
        let dir = self.path.parent().unwrap_or(Path::new("/"));
        let written = || -> io::Result<File> {
            DirBuilder::new().recursive(true).mode(0o700).create(dir)?;
            // Two processes that change it at the same time take turns.
            let mut how = OpenOptions::new();
            how.write(true).create(true).truncate(false).mode(0o600);
            let lock = how.open(self.path.with_extension("lock"))?;
            lock.lock()?;
            Ok(lock)
        };
        let _lock = written().map_err(|error| self.failed("write", &error))?;
        let mut tokens = self.read()?;
        change(&mut tokens);
        let replaced = || -> io::Result<()> {
            // A temporary file is created with mode 0600, which `persist` keeps.
            let mut file = NamedTempFile::new_in(dir)?;
            serde_json::to_writer_pretty(&mut file, &tokens)?;
            file.write_all(b"\n")?;
            file.as_file().sync_all()?;
            file.persist(&self.path).map_err(|error| error.error)?;
            Ok(())
        };
        replaced().map_err(|error| self.failed("write", &error))
    }

    fn read(&self) -> Result<TokensByServer, Failure> {
        let file = match File::open(&self.path) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(TokensByServer::new()),
            Err(error) => return Err(self.failed("read", &error)),
        };
        let metadata = file.metadata().map_err(|error| self.failed("read", &error))?;
        self.check_private(&metadata)?;
        let mut text = String::new();
        file.take(FILE_BYTES_MAX).read_to_string(&mut text).map_err(|error| self.failed("read", &error))?;
        serde_json::from_str(&text).map_err(|error| {
            // What stands there may be a secret.
            let (line, column) = (error.line(), error.column());
            let message = format!("{}:{line}:{column}: not as `berth login` writes it", self.path.display());
            Failure::new(Exit::Usage, message).help("remove it, and log in again")
        })
    }

    /// Tokens that others could have read are shown to nobody.
    fn check_private(&self, metadata: &fs::Metadata) -> Result<(), Failure> {
        let (path, mode) = (self.path.display(), metadata.mode() & 0o777);
        let own = rustix::process::geteuid().as_raw();
        let message = if metadata.uid() != own {
            format!("{path} belongs to user {}, and holds tokens of user {own}", metadata.uid())
        } else if mode & OTHERS != 0 {
            format!("{path} has the permissions {mode:04o}: others than you may have read the tokens in it")
        } else {
            return Ok(());
        };
        let help =
            format!("`chmod 600 {path}` if nobody has; else remove it, revoke the tokens and log in again");
        Err(Failure::new(Exit::Usage, message).help(help))
    }

    fn failed(&self, what: &str, error: &io::Error) -> Failure {
        Failure::new(
            Exit::Failed,
            format!("cannot {what} the kept tokens in {}: {error}", self.path.display()),
        )
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn tokens(dir: &Path) -> TokenFile {
        TokenFile { path: dir.join("berth").join("tokens.json") }
    }

    fn address(text: &str) -> Address {
        text.parse().unwrap()
    }

    #[test]
    fn a_token_is_kept_for_its_server_alone_where_nobody_else_reads_it() {
        let dir = tempfile::tempdir().unwrap();
        let tokens = tokens(dir.path());
        let (one, other) = (address("https://one:4646"), address("https://other:4646"));
        assert_eq!(tokens.find(&one).unwrap(), None);
        tokens.store(&one, "first").unwrap();
        tokens.store(&one, "second").unwrap();
        tokens.store(&other, "third").unwrap();
        assert_eq!(tokens.find(&one).unwrap().as_deref(), Some("second"));
        assert_eq!(tokens.find(&address("http://one:4646")).unwrap(), None, "another scheme, another server");
        assert_eq!(fs::metadata(tokens.path()).unwrap().mode() & 0o777, 0o600);
        assert_eq!(fs::metadata(dir.path().join("berth")).unwrap().mode() & 0o777, 0o700);
        assert_eq!(tokens.remove(Some(&one)).unwrap(), 1);
        assert_eq!(tokens.find(&one).unwrap(), None);
        assert_eq!(tokens.remove(None).unwrap(), 1);
    }

    #[test]
    fn a_file_that_others_may_read_is_refused_and_its_tokens_are_not_shown() {
        let dir = tempfile::tempdir().unwrap();
        let (tokens, one) = (tokens(dir.path()), address("https://one:4646"));
        tokens.store(&one, "a-secret").unwrap();
        for mode in [0o644, 0o640, 0o604, 0o610] {
            fs::set_permissions(tokens.path(), fs::Permissions::from_mode(mode)).unwrap();
            let refused = format!("{:?}", tokens.find(&one).unwrap_err());
            assert!(refused.contains("tokens.json") && refused.contains("chmod 600"), "{refused}");
        }
        fs::write(tokens.path(), "{ \"https://one:4646\": a-secret }").unwrap();
        fs::set_permissions(tokens.path(), fs::Permissions::from_mode(0o600)).unwrap();
        let refused = format!("{:?}", tokens.find(&one).unwrap_err());
        assert!(refused.contains("tokens.json:1:") && !refused.contains("a-secret"), "{refused}");
    }

    #[test]
    fn many_who_log_in_at_once_are_all_kept() {
        let dir = tempfile::tempdir().unwrap();
        let tokens = tokens(dir.path());
        std::thread::scope(|scope| {
            for number in 0..16 {
                let tokens = &tokens;
                scope.spawn(move || tokens.store(&address(&format!("http://h{number}:1")), "s").unwrap());
            }
        });
        assert_eq!(tokens.remove(None).unwrap(), 16);
    }
}
