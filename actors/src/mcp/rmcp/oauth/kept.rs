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
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

/// A token that is good for less than this many seconds counts as old.
const EARLY_S: u64 = 30;

/// What was got by signing in.
#[derive(Clone, Serialize, Deserialize)]
pub(super) struct Kept {
    /// The address of the server that it is for.
    url: String,
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
        Self { url: url.to_owned(), client_secret: None, missed: Vec::new(), credentials: None }
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
    kept: Mutex<Option<Kept>>,
}

/// Held while a token is renewed or written, against other processes.
pub(super) struct Locked(#[expect(dead_code, reason = "the lock is released when the file is closed")] Option<File>);

impl Store {
    pub(super) fn new(folder: Option<&Path>, server: &ServerId, url: &str) -> Self {
        let file = folder.map(|folder| file_of(folder, server, url));
        Self(Arc::new(Inner { url: url.to_owned(), file, kept: Mutex::default() }))
    }

    fn memory(&self) -> MutexGuard<'_, Option<Kept>> {
        self.0.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What this process knows.
    pub(super) fn known(&self) -> Option<Kept> {
        self.memory().clone()
    }

    /// What there is, which another process may have written.
    ///
    /// # Errors
    /// When the file cannot be read.
    pub(super) fn read(&self) -> Result<Option<Kept>, String> {
        let Some(file) = &self.0.file else { return Ok(self.known()) };
        let text = match fs::read(file) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                *self.memory() = None;
                return Ok(None);
            }
            Err(error) => return Err(format!("cannot read its tokens in {}: {error}", file.display())),
        };
        // A damaged file is as good as none: signing in writes it anew.
        let kept = serde_json::from_slice::<Kept>(&text).ok().filter(|kept| kept.url == self.0.url);
        self.memory().clone_from(&kept);
        Ok(kept)
    }

    /// Changes what there is.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub(super) fn change(&self, change: impl FnOnce(&mut Kept)) -> Result<(), String> {
        let mut kept = self.read()?.unwrap_or_else(|| Kept::of(&self.0.url));
        change(&mut kept);
        if let Some(file) = &self.0.file {
            write(file, &kept).map_err(|error| format!("cannot write its tokens to {}: {error}", file.display()))?;
        }
        *self.memory() = Some(kept);
        Ok(())
    }

    /// Waits until no other process renews this server's token.
    ///
    /// # Errors
    /// When there can be no lock.
    pub(super) async fn lock(&self) -> Result<Locked, String> {
        let Some(file) = self.0.file.clone() else { return Ok(Locked(None)) };
        let locked = tokio::task::spawn_blocking(move || {
            let file = file.with_extension("lock");
            folder_for(&file)?;
            let lock = OpenOptions::new().create(true).truncate(false).write(true).mode(0o600).open(file)?;
            lock.lock()?;
            Ok::<_, io::Error>(Locked(Some(lock)))
        });
        let locked = locked.await.map_err(|error| format!("cannot lock its tokens: {error}"))?;
        locked.map_err(|error| format!("cannot lock its tokens: {error}"))
    }
}

/// Removes the tokens of a server; returns whether there were any.
///
/// # Errors
/// When the file cannot be removed.
pub(super) fn forget(folder: &Path, server: &ServerId, url: &str) -> Result<bool, String> {
    let file = file_of(folder, server, url);
    match fs::remove_file(&file) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(format!("cannot remove {}: {error}", file.display())),
    }
}

/// By name and address: another server of the same name has another file.
fn file_of(folder: &Path, server: &ServerId, url: &str) -> PathBuf {
    let hash = blake3::hash(format!("{server}\n{url}").as_bytes()).to_hex();
    folder.join(format!("{}-{}.json", server.as_str().to_ascii_lowercase(), &hash[..16]))
}

fn folder_for(file: &Path) -> io::Result<&Path> {
    let folder = file.parent().unwrap_or(Path::new("."));
    DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
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

#[async_trait]
impl CredentialStore for Store {
    async fn load(&self) -> Result<Option<StoredCredentials>, AuthError> {
        let kept = self.read().map_err(AuthError::CredentialStoreError)?;
        Ok(kept.and_then(|kept| kept.credentials))
    }

    async fn save(&self, credentials: StoredCredentials) -> Result<(), AuthError> {
        let change = |kept: &mut Kept| {
            kept.credentials = Some(credentials);
            kept.missed.clear();
        };
        self.change(change).map_err(AuthError::CredentialStoreError)
    }

    async fn clear(&self) -> Result<(), AuthError> {
        self.change(|kept| kept.credentials = None).map_err(AuthError::CredentialStoreError)
    }
}
