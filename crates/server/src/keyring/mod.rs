//! The keyring of a server. Root keys are in the replicated state, each with its secret part wrapped by a key-encryption key
//! (KEK), which is in no log and no snapshot: servers keep it in files, and hand it to each other. Whoever has both can decrypt
//! variables and sign identities.

mod items;
mod kek;
mod root;
mod sealed;
mod upkeep;

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError, RwLock},
};

use berth_model::{
    KekId, RootKeyId,
    keyring::{ChangeKeyring, RootKey, WrappedKey},
    store::{Keyring as RootKeys, Store},
    variable::{RekeyedVariable, Variable, VariableKey},
};
use ring::signature::EcdsaKeyPair;

pub(crate) use items::VariableItems;
use kek::KEKS_MAX;
pub use kek::Kek;
use root::OpenedKey;
use sealed::NoRandomness;
pub(crate) use upkeep::maintain;

/// In the data directory: the key-encryption keys.
const DIRECTORY: &str = "keyring";

/// Why something cannot be encrypted, decrypted or signed here.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum KeyringError {
    /// Nothing was ever encrypted or signed.
    #[error(
        "the cluster has no root key yet: its leader makes one once all servers are of a version that knows them; try again in a \
         moment"
    )]
    NoKey,
    /// It was deleted.
    #[error("root key {0} is not in the keyring any more")]
    Unknown(RootKeyId),
    /// This server cannot unwrap it.
    #[error(
        "root key {key} is encrypted with key-encryption key {kek}, which this server does not have: it asks the other servers for \
         it; if none has it, put a copy of its file at {} (docs/explanation/identities.md)",
        path.display()
    )]
    Locked {
        /// The root key.
        key: RootKeyId,
        /// What would open it.
        kek: KekId,
        /// The file in which its key-encryption key belongs.
        path: PathBuf,
    },
    /// Its wrapped part is not what was written.
    #[error("root key {0} cannot be opened with its key-encryption key: it was damaged; restore a snapshot")]
    DamagedKey(RootKeyId),
    /// A variable's encrypted items are not what was written.
    #[error(
        "variable {path:?} in namespace {namespace:?} cannot be decrypted with root key {key}: it was damaged, or is another \
         variable's; write it again, or restore a snapshot"
    )]
    DamagedVariable {
        /// The variable's namespace.
        namespace: Arc<str>,
        /// The variable's path.
        path: Arc<str>,
        /// The root key that encrypts it.
        key: RootKeyId,
    },
    /// The system gives no randomness.
    #[error("the system gives no randomness")]
    NoRandomness,
    /// A key-encryption key cannot be kept.
    #[error("write a key-encryption key to {}: {why}", path.display())]
    NotWritten {
        /// The path.
        path: PathBuf,
        /// The reason, in words.
        why: String,
    },
    /// There are too many.
    #[error("this server has {KEKS_MAX} key-encryption keys, the most it may have: remove those that no snapshot needs from {}", .0.display())]
    TooMany(PathBuf),
}

impl From<NoRandomness> for KeyringError {
    fn from(_: NoRandomness) -> Self {
        Self::NoRandomness
    }
}

/// The key that signs workload identities.
#[derive(Clone)]
pub(crate) struct Signer {
    /// The root key, which says who can check the signature.
    pub kid: RootKeyId,
    /// Its signing key: ECDSA with P-256 and SHA-256, signatures of fixed length.
    pub key: Arc<EcdsaKeyPair>,
}

impl fmt::Debug for Signer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Signer({})", self.kid)
    }
}

/// The key-encryption keys of a server, and the root keys that it has unwrapped with them.
#[derive(Debug, Default)]
pub struct Keyring {
    /// None to keep them in memory.
    dir: Option<PathBuf>,
    keks: RwLock<BTreeMap<KekId, Arc<Kek>>>,
    opened: Mutex<BTreeMap<RootKeyId, Arc<OpenedKey>>>,
    /// The key-encryption keys that open the root keys of the state, as of the last call of `follow`.
    needed: RwLock<BTreeSet<KekId>>,
}

impl Keyring {
    /// Reads the keys of a data directory.
    ///
    /// # Errors
    /// When the directory is there and cannot be read.
    pub(crate) fn load(data_dir: &Path) -> std::io::Result<Self> {
        let keyring = Self::new(Some(data_dir.join(DIRECTORY)));
        keyring.read_files()?;
        Ok(keyring)
    }

    fn new(dir: Option<PathBuf>) -> Self {
        Self { dir, ..Self::default() }
    }

    /// One in memory, with a key.
    #[cfg(test)]
    pub(crate) fn for_tests() -> Self {
        let keyring = Self::new(None);
        keyring.store(Kek::random().expect("there is randomness")).expect("memory takes it");
        keyring
    }

    /// A new root key, to be proposed.
    #[cfg(test)]
    pub(crate) fn new_root_key(&self) -> RootKey {
        let (kek, _) = self.kek_for_new_key(&RootKeys::default()).expect("it has one");
        self.root_key(&kek).expect("there is randomness")
    }

    /// The key that signs identities now.
    ///
    /// # Errors
    /// Why this server cannot sign.
    pub(crate) fn signer(&self, store: &Store) -> Result<Signer, KeyringError> {
        let active = store.keyring().active().ok_or(KeyringError::NoKey)?;
        Ok(Signer { kid: active.id, key: self.open(active)?.signing.clone() })
    }

    /// Encrypts the items of a variable with the active key.
    ///
    /// # Errors
    /// Why this server cannot.
    pub(crate) fn seal(
        &self,
        keys: &RootKeys,
        variable: &VariableKey,
        items: &VariableItems,
    ) -> Result<(RootKeyId, Vec<u8>), KeyringError> {
        let active = keys.active().ok_or(KeyringError::NoKey)?;
        let opened = self.open(active)?;
        Ok((active.id, items::seal(&opened.variables, active.id, variable, items)?))
    }

    /// Decrypts the items of a variable.
    ///
    /// # Errors
    /// Why this server cannot.
    pub(crate) fn unseal(&self, keys: &RootKeys, variable: &Variable) -> Result<VariableItems, KeyringError> {
        let Variable { key, root_key, sealed, .. } = variable;
        let root_key = keys.key(*root_key).ok_or(KeyringError::Unknown(*root_key))?;
        let opened = self.open(root_key)?;
        items::open(&opened.variables, root_key.id, key, sealed).ok_or_else(|| {
            let (namespace, path) = (key.namespace.clone(), key.path.clone());
            KeyringError::DamagedVariable { namespace, path, key: root_key.id }
        })
    }

    /// Encrypts a variable again, with the active key.
    fn rekey(&self, keys: &RootKeys, variable: &Variable) -> Result<RekeyedVariable, KeyringError> {
        let items = self.unseal(keys, variable)?;
        let (root_key, sealed) = self.seal(keys, &variable.key, &items)?;
        Ok(RekeyedVariable {
            key: variable.key.clone(),
            modify_index: variable.modify_index,
            root_key,
            sealed,
        })
    }

    /// Whether this server can unwrap a root key.
    pub(crate) fn can_open(&self, key: &RootKey) -> bool {
        self.open(key).is_ok()
    }

    fn open(&self, key: &RootKey) -> Result<Arc<OpenedKey>, KeyringError> {
        let mut opened = self.opened.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(opened) = opened.get(&key.id) {
            return Ok(opened.clone());
        }
        let kek = self.kek(key.wrapped_by).ok_or_else(|| self.locked(key))?;
        let fresh = root::open(key, &kek).map(Arc::new).ok_or(KeyringError::DamagedKey(key.id))?;
        opened.insert(key.id, fresh.clone());
        Ok(fresh)
    }

    /// Whether this server can unwrap a root key, and why not.
    ///
    /// # Errors
    /// Why not.
    pub(crate) fn check(&self, key: &RootKey) -> Result<(), KeyringError> {
        self.open(key).map(drop)
    }

    fn locked(&self, key: &RootKey) -> KeyringError {
        let (key, kek) = (key.id, key.wrapped_by);
        KeyringError::Locked { key, kek, path: self.path(kek) }
    }

    /// A root key that this server makes; `kek` opens it.
    ///
    /// # Errors
    /// When there is no randomness.
    pub(crate) fn root_key(&self, kek: &Kek) -> Result<RootKey, KeyringError> {
        let id = sealed::random_key()?;
        let id = RootKeyId::from_slice(&id[..16]).expect("16 bytes");
        Ok(root::make(RootKeyId(as_uuid(id.0)), kek)?)
    }

    /// The key-encryption key for a new root key: that of the active one, or of another that this server can open, or one that
    /// nothing is encrypted with yet. Whether other servers have to be given it first.
    ///
    /// # Errors
    /// When there is none and none can be made.
    pub(crate) fn kek_for_new_key(&self, keys: &RootKeys) -> Result<(Arc<Kek>, bool), KeyringError> {
        let all: Vec<_> = keys.keys().collect();
        let in_use = keys.active().into_iter().chain(all.into_iter().rev());
        let mut keks_in_use = in_use.filter_map(|key| self.kek(key.wrapped_by));
        if let Some(kek) = keks_in_use.next() {
            return Ok((kek, false));
        }
        let unused = self.keks().values().find(|kek| !keys.is_retired(kek.id())).cloned();
        match unused {
            Some(kek) => Ok((kek, true)),
            None => Ok((self.store(Kek::random()?)?, true)),
        }
    }

    /// A key-encryption key that opens nothing yet, to wrap all root keys with; on disk when this returns. It is that of the last try
    /// where that has failed within the last hour, whatever servers have it by now: otherwise each try would leave one behind.
    /// One that is older stays where it is, and opens nothing.
    ///
    /// # Errors
    /// When it cannot be made or kept.
    pub(crate) fn kek_to_rewrap_with(&self, keys: &RootKeys) -> Result<Arc<Kek>, KeyringError> {
        let pending = self.dir.as_deref().and_then(kek::pending);
        let is_unused =
            |kek: &Arc<Kek>| !keys.is_retired(kek.id()) && keys.keys().all(|key| key.wrapped_by != kek.id());
        if let Some(kek) = pending.and_then(|id| self.kek(id)).filter(is_unused) {
            return Ok(kek);
        }
        let kek = Kek::random()?;
        // Noted before it is written: a note without its key is harmless, a key without a note would stay on disk forever.
        if let Some(dir) = &self.dir {
            kek::note_pending(dir, kek.id()).map_err(|error| self.not_written(kek.id(), &error))?;
        }
        self.store(kek)
    }

    /// Notes that the root keys are wrapped with the key of [`Self::kek_to_rewrap_with`].
    ///
    /// # Errors
    /// When that cannot be noted, which changes nothing: what opens something is not used by the next try.
    pub(crate) fn settle_rewrap(&self) -> std::io::Result<()> {
        self.dir.as_deref().map_or(Ok(()), kek::settle_pending)
    }

    fn not_written(&self, id: KekId, error: &std::io::Error) -> KeyringError {
        KeyringError::NotWritten { path: self.path(id), why: error.to_string() }
    }

    /// The command that wraps all root keys with this key-encryption key, and adds a new root key as the active one.
    ///
    /// # Errors
    /// Which of them this server cannot open.
    pub(crate) fn rewrap(&self, keys: &RootKeys, kek: &Kek) -> Result<ChangeKeyring, KeyringError> {
        let wrapped = keys.keys().map(|key| {
            let from = self.kek(key.wrapped_by).ok_or_else(|| self.locked(key))?;
            let wrapped = root::rewrap(key, &from, kek)?.ok_or(KeyringError::DamagedKey(key.id))?;
            Ok(WrappedKey { id: key.id, wrapped })
        });
        let wrapped = wrapped.collect::<Result<_, KeyringError>>()?;
        let replaces = keys.active().map(|active| active.id);
        Ok(ChangeKeyring::Rewrap { wrapped, key: Box::new(self.root_key(kek)?), replaces })
    }

    /// Deletes a key: from disk first, so that one that stays on disk also stays known.
    ///
    /// # Errors
    /// When a file of it stays.
    pub(crate) fn discard(&self, id: KekId) -> std::io::Result<()> {
        if let Some(dir) = &self.dir {
            kek::remove(dir, id)?;
        }
        self.keks_mut().remove(&id);
        Ok(())
    }

    /// The replaced key-encryption keys that are still here although they open no root key of the state.
    fn replaced_keks(&self, keys: &RootKeys) -> Vec<KekId> {
        let needed = self.needed.read().unwrap_or_else(PoisonError::into_inner);
        let is_over = |id: &KekId| keys.is_retired(*id) && !needed.contains(id);
        self.keks().keys().copied().filter(is_over).collect()
    }

    /// A key-encryption key by its id.
    pub(crate) fn kek(&self, id: KekId) -> Option<Arc<Kek>> {
        self.keks().get(&id).cloned()
    }

    /// Stores a key that another server sent; it is on disk when this returns.
    ///
    /// # Errors
    /// When it cannot be kept.
    pub(crate) fn take(&self, bytes: &[u8]) -> Result<Option<KekId>, KeyringError> {
        let Some(kek) = Kek::of_bytes(bytes) else { return Ok(None) };
        Ok(Some(self.store(kek)?.id()))
    }

    fn store(&self, kek: Kek) -> Result<Arc<Kek>, KeyringError> {
        let id = kek.id();
        if let Some(kek) = self.kek(id) {
            return Ok(kek);
        }
        if self.keks().len() >= KEKS_MAX {
            return Err(KeyringError::TooMany(self.dir.clone().unwrap_or_default()));
        }
        if let Some(dir) = &self.dir {
            kek::save(dir, &kek).map_err(|error| self.not_written(id, &error))?;
        }
        let kek = Arc::new(kek);
        self.keks_mut().insert(id, kek.clone());
        Ok(kek)
    }

    /// Reads keys that were put into the directory since.
    fn read_files(&self) -> std::io::Result<()> {
        let Some(dir) = &self.dir else { return Ok(()) };
        for kek in kek::load(dir)? {
            self.keks_mut().entry(kek.id()).or_insert_with(|| Arc::new(kek));
        }
        Ok(())
    }

    /// The ids of its key-encryption keys.
    pub(crate) fn kek_ids(&self) -> Vec<KekId> {
        self.keks().keys().copied().collect()
    }

    /// Those key-encryption keys that open root keys of the state, and that it does not have.
    pub(crate) fn missing_keks(&self) -> Vec<KekId> {
        let needed = self.needed.read().unwrap_or_else(PoisonError::into_inner);
        let keks = self.keks();
        needed.iter().filter(|id| !keks.contains_key(id)).copied().collect()
    }

    /// Whether somebody who has these key-encryption keys lacks one that opens root keys of the state, and that this server
    /// could give.
    pub(crate) fn could_give_to(&self, keks_held: &[KekId]) -> bool {
        let needed = self.needed.read().unwrap_or_else(PoisonError::into_inner);
        let keks = self.keks();
        needed.iter().any(|id| keks.contains_key(id) && !keks_held.contains(id))
    }

    /// Whether somebody who has these key-encryption keys lacks one that opens root keys of the state.
    pub(crate) fn is_missed_by(&self, keks_held: &[KekId]) -> bool {
        let needed = self.needed.read().unwrap_or_else(PoisonError::into_inner);
        needed.iter().any(|id| !keks_held.contains(id))
    }

    /// Takes over which root keys the state has; opened ones that are gone are dropped.
    fn follow(&self, keys: &RootKeys) {
        let needed: BTreeSet<KekId> = keys.keys().map(|key| key.wrapped_by).collect();
        *self.needed.write().unwrap_or_else(PoisonError::into_inner) = needed;
        let mut opened = self.opened.lock().unwrap_or_else(PoisonError::into_inner);
        opened.retain(|id, _| keys.key(*id).is_some());
    }

    fn path(&self, id: KekId) -> PathBuf {
        kek::path(self.dir.as_deref().unwrap_or(Path::new(DIRECTORY)), id)
    }

    fn keks(&self) -> std::sync::RwLockReadGuard<'_, BTreeMap<KekId, Arc<Kek>>> {
        self.keks.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn keks_mut(&self) -> std::sync::RwLockWriteGuard<'_, BTreeMap<KekId, Arc<Kek>>> {
        self.keks.write().unwrap_or_else(PoisonError::into_inner)
    }
}

/// With the version and variant bits of a random UUID.
fn as_uuid(random: u128) -> u128 {
    random & !(0xf << 76) & !(0x3 << 62) | 0x4 << 76 | 0x2 << 62
}

#[cfg(test)]
mod tests {
    use berth_model::{
        Index, Timestamp,
        command::{Command, Entry},
        keyring::ChangeKeyring,
    };
    use ring::{rand::SystemRandom, signature};

    use super::*;

    fn store_with_key(keyring: &Keyring) -> Store {
        let mut store = Store::default();
        let key = Box::new(keyring.new_root_key());
        let put = ChangeKeyring::PutKey { key, replaces: None, full: false };
        let command = Command::ChangeKeyring(Box::new(put));
        let applied = store.apply(Entry::new(Index(1), Timestamp(1), vec![command]));
        assert_eq!(applied.outcomes, [Ok(())]);
        store
    }

    #[test]
    fn what_the_active_key_signs_is_verified_with_what_the_state_holds() {
        let keyring = Keyring::for_tests();
        assert_eq!(keyring.signer(&Store::default()).expect_err("there is none"), KeyringError::NoKey);
        let store = store_with_key(&keyring);
        let Signer { kid, key } = keyring.signer(&store).expect("it opens");
        let signed = key.sign(&SystemRandom::new(), b"message").expect("it signs");
        let public = &store.keyring().key(kid).expect("it is there").signing_public;
        let public = signature::UnparsedPublicKey::new(&signature::ECDSA_P256_SHA256_FIXED, public);
        assert!(public.verify(b"message", signed.as_ref()).is_ok());
        assert!(public.verify(b"another", signed.as_ref()).is_err());
    }

    #[test]
    fn a_missing_key_is_named_with_its_file_until_it_is_there() {
        let dir = tempfile::tempdir().expect("a directory");
        let (giver, lacking) = (Keyring::for_tests(), Keyring::load(dir.path()).expect("nothing is there"));
        let store = store_with_key(&giver);
        lacking.follow(store.keyring());
        let id = giver.kek_ids()[0];
        assert_eq!(lacking.missing_keks(), [id]);
        assert!(giver.missing_keks().is_empty() && lacking.is_missed_by(&[]) && !lacking.could_give_to(&[]));
        let file = dir.path().join("keyring").join(format!("{id}.key"));
        let message = lacking.signer(&store).expect_err("it cannot open it").to_string();
        assert!(message.contains(&file.display().to_string()), "{message}");

        let kek = giver.kek(id).expect("it has it");
        assert_eq!(lacking.take(b"short"), Ok(None));
        assert_eq!(lacking.take(kek.bytes()), Ok(Some(id)));
        assert!(lacking.signer(&store).is_ok() && file.exists());
        let again = Keyring::load(dir.path()).expect("it is read");
        assert!(again.signer(&store).is_ok(), "it is there after a restart");
        again.follow(store.keyring());
        assert!(again.could_give_to(&[]) && !again.could_give_to(&[id]));
    }

    #[test]
    fn a_rewrap_that_is_tried_again_uses_the_key_of_the_last_try_also_after_a_restart() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join(DIRECTORY);
        let mut store = store_with_key(&Keyring::for_tests());
        let first_try =
            Keyring::new(Some(path.clone())).kek_to_rewrap_with(store.keyring()).expect("it is made");
        for _ in 0..2 * KEKS_MAX {
            let again = Keyring::load(dir.path()).expect("it is read");
            let kek = again.kek_to_rewrap_with(store.keyring()).expect("it is there");
            assert_eq!((kek.id(), again.kek_ids().len()), (first_try.id(), 1));
        }
        // It opens something by now, though whoever had that done does not know.
        let keyring = Keyring::load(dir.path()).expect("it is read");
        let key = Box::new(keyring.root_key(&first_try).expect("it is made"));
        let replaces = store.keyring().active().map(|active| active.id);
        let put = ChangeKeyring::PutKey { key, replaces, full: false };
        let command = Command::ChangeKeyring(Box::new(put));
        assert_eq!(store.apply(Entry::new(Index(2), Timestamp(2), vec![command])).outcomes, [Ok(())]);
        let next = keyring.kek_to_rewrap_with(store.keyring()).expect("it is made");
        assert_ne!(next.id(), first_try.id());
        // That of a try long ago may be in copies of the disk.
        let pending_file =
            std::fs::File::options().write(true).open(path.join("rewrap.pending")).expect("it is there");
        let long_ago = std::time::SystemTime::now() - std::time::Duration::from_secs(3_601);
        pending_file.set_modified(long_ago).expect("it is changed");
        let later = keyring.kek_to_rewrap_with(store.keyring()).expect("it is made");
        assert_ne!(later.id(), next.id());
        keyring.settle_rewrap().expect("it is noted");
        assert_ne!(keyring.kek_to_rewrap_with(store.keyring()).expect("it is made").id(), later.id());
    }

    #[test]
    fn a_rewrap_that_cannot_be_noted_leaves_no_key_behind() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join(DIRECTORY);
        std::fs::create_dir_all(path.join("rewrap.pending")).expect("it is in the way");
        let keyring = Keyring::load(dir.path()).expect("it is read");
        let keys = RootKeys::default();
        for _ in 0..2 * KEKS_MAX {
            let refused = keyring.kek_to_rewrap_with(&keys).expect_err("it cannot be noted");
            assert!(matches!(refused, KeyringError::NotWritten { .. }), "{refused}");
        }
        assert!(
            keyring.kek_ids().is_empty()
                && Keyring::load(dir.path()).expect("it is read").kek_ids().is_empty()
        );
        std::fs::remove_dir(path.join("rewrap.pending")).expect("it is empty");
        // A key that was noted and never written is not missed.
        kek::note_pending(&path, KekId(7)).expect("it is noted");
        let kek = keyring.kek_to_rewrap_with(&keys).expect("it is made");
        assert_eq!(keyring.kek_to_rewrap_with(&keys).expect("it is there").id(), kek.id());
        assert_eq!(keyring.kek_ids(), [kek.id()]);
    }

    #[test]
    fn what_cannot_be_written_is_not_kept() {
        let dir = tempfile::tempdir().expect("a directory");
        std::fs::write(dir.path().join(DIRECTORY), "a file in the way").expect("it is written");
        let keyring = Keyring::new(Some(dir.path().join(DIRECTORY)));
        let kek = Kek::random().expect("there is randomness");
        assert!(matches!(keyring.take(kek.bytes()), Err(KeyringError::NotWritten { .. })));
        assert!(keyring.kek_ids().is_empty());
    }

    #[test]
    fn secrets_are_not_in_what_is_printed_for_debugging() {
        let keyring = Keyring::for_tests();
        let store = store_with_key(&keyring);
        let signer = keyring.signer(&store).expect("it opens");
        let printed = format!("{keyring:?} {signer:?}");
        let bytes = keyring.kek(keyring.kek_ids()[0]).expect("it is there");
        let list = format!("{:?}", &bytes.bytes()[..4]);
        assert!(!printed.contains(list.trim_matches(['[', ']'])), "{printed}");
        assert!(printed.contains("Kek(") && printed.contains("OpenedKey(..)"), "{printed}");
    }
}
