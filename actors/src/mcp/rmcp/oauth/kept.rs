//! The tokens of one server, in memory and in a file.
//!
//! The file holds keys: only its user can read it, it is replaced as a whole, and it counts for the address alone for
//! which it was written. It is read when a token is missing, old or refused, so another process may write it at any
//! time.

use async_trait::async_trait;
use bob_messages::ids::ServerId;
use rmcp::transport::auth::{AuthError, CredentialStore, StoredCredentials};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::fs::{self, DirBuilder, File, OpenOptions, Permissions, TryLockError};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use tokio::time::{Instant, sleep};

/// A token that is good for less than this many seconds counts as old.
const EARLY_S: u64 = 30;

/// How long to wait for another process that renews the token, and how often to look.
const LOCK_WITHIN: Duration = Duration::from_secs(90);
const FORGET_WITHIN: Duration = Duration::from_secs(5);
const LOOK_EVERY: Duration = Duration::from_millis(50);

const IS_LOCKED: &str = "cannot lock its tokens: another process is renewing them";

#[derive(Clone, Serialize, Deserialize)]
pub(super) struct Kept {
    /// The hash of the address of the server that it is for, as the address may hold a key. Older files have the address.
    #[serde(alias = "url")]
    address: String,
    /// The authorization server that it is from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    issuer: Option<String>,
    /// The secret of a client that registered itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) client_secret: Option<String>,
    /// Permissions that the server missed; they are asked for next time.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) missed: Vec<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) credentials: Option<StoredCredentials>,
}

impl Kept {
    fn of(url: &str) -> Self {
        Self { address: hash_of(url), issuer: None, client_secret: None, missed: Vec::new(), credentials: None }
    }

    fn is_for(&self, url: &str) -> bool {
        self.address == hash_of(url) || self.address == url
    }

    /// The authorization server that was signed in to; an empty text if that is not known.
    pub(super) fn issuer(&self) -> Option<String> {
        let credentials = self.credentials.as_ref();
        self.issuer.clone().or_else(|| credentials.map(|credentials| credentials.issuer.clone().unwrap_or_default()))
    }

    fn received_at(&self) -> Option<u64> {
        self.credentials.as_ref()?.token_received_at
    }

    fn token(&self) -> Option<Value> {
        serde_json::to_value(self.credentials.as_ref()?.token_response.as_ref()?).ok()
    }

    fn text(&self, name: &str) -> Option<String> {
        self.token()?.get(name)?.as_str().map(str::to_owned)
    }

    pub(super) fn access(&self) -> Option<String> {
        self.text("access_token")
    }

    pub(super) fn can_renew(&self) -> bool {
        self.text("refresh_token").is_some()
    }

    /// All keys in it.
    pub(super) fn secrets(&self) -> Vec<String> {
        let token = ["access_token", "refresh_token", "id_token"].into_iter().filter_map(|name| self.text(name));
        token.chain(self.client_secret.clone()).collect()
    }

    /// Whether it has a token that can be used now. One without an end is good until it is refused.
    pub(super) fn is_fresh(&self) -> bool {
        let Some(token) = self.token() else { return false };
        let received = self.credentials.as_ref().and_then(|credentials| credentials.token_received_at);
        match (token.get("expires_in").and_then(Value::as_u64), received) {
            (Some(good_for), Some(received)) => received.saturating_add(good_for) > now_s().saturating_add(EARLY_S),
            _ => true,
        }
    }
}

fn now_s() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs()
}

/// Where the tokens of one server are. Clones share it.
#[derive(Clone)]
pub(super) struct Store(Arc<Inner>);

struct Inner {
    url: String,
    file: Option<PathBuf>,
    memory: Mutex<Memory>,
}

#[derive(Default)]
struct Memory {
    kept: Option<Kept>,
    /// Whether it could not be written.
    is_unsaved: bool,
}

/// Held while a token is renewed or written, against other processes.
pub(super) struct Locked(#[expect(dead_code, reason = "the lock is released when the file is closed")] Option<File>);

impl Store {
    pub(super) fn new(folder: Option<&Path>, server: &ServerId, url: &str) -> Self {
        let file = folder.map(|folder| file_of(folder, server, url));
        Self(Arc::new(Inner { url: url.to_owned(), file, memory: Mutex::default() }))
    }

    fn memory(&self) -> MutexGuard<'_, Memory> {
        self.0.memory.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn known(&self) -> Option<Kept> {
        self.memory().kept.clone()
    }

    /// What there is, which another process may have written. What could not be written before is written now.
    pub(super) fn read(&self) -> Result<Option<Kept>, String> {
        let Some(file) = &self.0.file else { return Ok(self.known()) };
        let mut memory = self.memory();
        let there = self.in_file(file);
        if let (true, Some(kept)) = (memory.is_unsaved, memory.kept.clone()) {
            let is_newer = |there: &Kept| there.received_at() > kept.received_at();
            if !there.as_ref().is_ok_and(|there| there.as_ref().is_some_and(is_newer)) {
                memory.is_unsaved = write(file, &kept).is_err();
                return Ok(Some(kept));
            }
        }
        *memory = Memory { kept: there?, is_unsaved: false };
        Ok(memory.kept.clone())
    }

    fn in_file(&self, file: &Path) -> Result<Option<Kept>, String> {
        match fs::read(file) {
            // A damaged file is as good as none: signing in writes it anew.
            Ok(text) => Ok(serde_json::from_slice::<Kept>(&text).ok().filter(|kept| kept.is_for(&self.0.url))),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(format!("cannot read its tokens in {}: {error}", file.display())),
        }
    }

    /// Changes what there is. The change counts in this process also if it cannot be written: what it replaces may be
    /// worth nothing any more.
    pub(super) fn change(&self, change: impl FnOnce(&mut Kept)) -> Result<(), String> {
        let there = self.read().unwrap_or_else(|_unreadable| self.known());
        let mut kept = there.unwrap_or_else(|| Kept::of(&self.0.url));
        change(&mut kept);
        kept.address = hash_of(&self.0.url);
        let mut memory = self.memory();
        *memory = Memory { kept: Some(kept.clone()), is_unsaved: self.0.file.is_some() };
        if let Some(file) = &self.0.file {
            write(file, &kept).map_err(|error| format!("cannot write its tokens to {}: {error}", file.display()))?;
        }
        memory.is_unsaved = false;
        Ok(())
    }

    /// Where rmcp writes tokens of the client that there is.
    pub(super) fn saving(&self) -> Saving {
        Saving { store: self.clone(), client_secret: None }
    }

    /// Where rmcp writes tokens of another client, together with its secret if it registered itself.
    pub(super) fn saving_with(&self, client_secret: Option<String>) -> Saving {
        Saving { store: self.clone(), client_secret: Some(client_secret) }
    }

    /// Waits until no other process renews this server's token. Errors: when there can be no lock, or none within 90 s.
    pub(super) async fn lock(&self) -> Result<Locked, String> {
        let Some(file) = self.0.file.clone() else { return Ok(Locked(None)) };
        let opened = tokio::task::spawn_blocking(move || lock_of(&file));
        let opened = opened.await.map_err(|error| format!("cannot lock its tokens: {error}"))?;
        let lock = opened.map_err(|error| unlocked(&error))?;
        let until = Instant::now() + LOCK_WITHIN;
        while !is_taken(&lock)? {
            if Instant::now() >= until {
                return Err(IS_LOCKED.to_owned());
            }
            sleep(LOOK_EVERY).await;
        }
        Ok(Locked(Some(lock)))
    }
}

/// Removes the tokens of a server; returns whether there were any. May block for five seconds.
pub(super) fn forget(folder: &Path, server: &ServerId, url: &str) -> Result<bool, String> {
    let file = file_of(folder, server, url);
    if !file.exists() {
        return Ok(false);
    }
    let lock = lock_of(&file).map_err(|error| unlocked(&error))?;
    let began = std::time::Instant::now();
    while !is_taken(&lock)? {
        if began.elapsed() >= FORGET_WITHIN {
            return Err(IS_LOCKED.to_owned());
        }
        std::thread::sleep(LOOK_EVERY);
    }
    match fs::remove_file(&file) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(format!("cannot remove {}: {error}", file.display())),
    }
}

fn lock_of(file: &Path) -> io::Result<File> {
    folder_for(file)?;
    OpenOptions::new().create(true).truncate(false).write(true).mode(0o600).open(file.with_extension("lock"))
}

fn unlocked(error: &io::Error) -> String {
    format!("cannot lock its tokens: {error}")
}

fn is_taken(lock: &File) -> Result<bool, String> {
    match lock.try_lock() {
        Ok(()) => Ok(true),
        Err(TryLockError::WouldBlock) => Ok(false),
        Err(TryLockError::Error(error)) => Err(unlocked(&error)),
    }
}

fn hash_of(text: &str) -> String {
    blake3::hash(text.as_bytes()).to_string()
}

/// By name and address: another server of the same name has another file.
fn file_of(folder: &Path, server: &ServerId, url: &str) -> PathBuf {
    let hash = hash_of(&format!("{server}\n{url}"));
    folder.join(format!("{}-{}.json", server.as_str().to_ascii_lowercase(), &hash[..16]))
}

/// Makes the folder, for its user alone.
fn folder_for(file: &Path) -> io::Result<&Path> {
    let folder = file.parent().unwrap_or(Path::new("."));
    DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
    let mode = fs::metadata(folder)?.permissions().mode();
    // A folder with this bit, like /tmp, is shared by all users.
    if mode & 0o077 != 0 && mode & 0o1000 == 0 {
        // The files are for their user alone also in a folder of another user.
        let _own_or_not = fs::set_permissions(folder, Permissions::from_mode(0o700));
    }
    Ok(folder)
}

fn write(file: &Path, kept: &Kept) -> io::Result<()> {
    // It is created for its user alone.
    let mut new = tempfile::NamedTempFile::new_in(folder_for(file)?)?;
    new.write_all(&serde_json::to_vec(kept)?)?;
    new.as_file().sync_all()?;
    new.persist(file).map_err(|error| error.error)?;
    Ok(())
}

/// Where rmcp keeps its tokens.
pub(super) struct Saving {
    store: Store,
    /// The secret of a client that has just registered itself, or that no such client is used; `None` keeps what there is.
    client_secret: Option<Option<String>>,
}

#[async_trait]
impl CredentialStore for Saving {
    async fn load(&self) -> Result<Option<StoredCredentials>, AuthError> {
        let kept = self.store.read().map_err(AuthError::CredentialStoreError)?;
        Ok(kept.and_then(|kept| kept.credentials))
    }

    async fn save(&self, credentials: StoredCredentials) -> Result<(), AuthError> {
        let client_secret = self.client_secret.clone();
        let change = |kept: &mut Kept| {
            kept.issuer.clone_from(&credentials.issuer);
            kept.credentials = Some(credentials);
            kept.missed.clear();
            if let Some(client_secret) = client_secret {
                kept.client_secret = client_secret;
            }
        };
        self.store.change(change).map_err(AuthError::CredentialStoreError)
    }

    async fn clear(&self) -> Result<(), AuthError> {
        self.store.change(|kept| kept.credentials = None).map_err(AuthError::CredentialStoreError)
    }
}
