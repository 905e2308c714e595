//! Which store it is: a secret that is made with it, and stands nowhere else.
//!
//! Each log of a database has it, so that a log written by anyone who cannot read the store is recognised as foreign. It is
//! never printed, logged or exported; outside of the store only its [`mark`](Identity::mark) is kept.

use super::Marked;
use super::folder::Folder;
use bob_messages::store::StoreError;
use rustix::fs::OFlags;
use rustix::rand::{GetRandomFlags, getrandom};
use std::fmt;
use std::io::{self, Read, Write};
use std::path::PathBuf;
use std::sync::OnceLock;

/// The file of the identity in a folder of journals.
pub(super) const FILE: &str = "identity";

/// How many characters it has: 128 bits.
const LENGTH: usize = 32;

/// 128 random bits as 32 lowercase hexadecimal digits, as they stand in the store.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct Identity([u8; LENGTH]);

impl fmt::Debug for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Identity")
    }
}

impl Identity {
    fn new() -> io::Result<Self> {
        let mut random = [0; LENGTH / 2];
        let filled = getrandom(&mut random[..], GetRandomFlags::empty())?;
        if filled < random.len() {
            return Err(io::Error::other("the system gave too few random bytes"));
        }
        let text = format!("{:032x}", u128::from_be_bytes(random));
        Self::read(text.as_bytes()).ok_or_else(|| io::Error::other("it has another length"))
    }

    /// The one that is written like this.
    pub(super) fn read(text: &[u8]) -> Option<Self> {
        let text: [u8; LENGTH] = text.try_into().ok()?;
        text.iter().all(|digit| matches!(digit, b'0'..=b'9' | b'a'..=b'f')).then_some(Self(text))
    }

    /// As it stands in the store.
    pub(super) fn as_written(&self) -> &[u8] {
        &self.0
    }

    /// By what the store is known outside of it; the identity does not follow from that.
    pub(super) fn mark(&self) -> String {
        let mark = blake3::keyed_hash(&self.key("bob 2026-11 the mark of a store"), b"");
        mark.to_hex().as_str()[..LENGTH].to_owned()
    }

    /// A sum for a purpose over these parts that only who knows the identity can make.
    pub(super) fn sum(&self, purpose: &str, parts: &[&[u8]]) -> String {
        let mut sum = blake3::Hasher::new_keyed(&self.key(purpose));
        for part in parts {
            // No two lists of parts are the same bytes.
            sum.update(&(part.len() as u64).to_le_bytes()).update(part);
        }
        sum.finalize().to_hex().to_string()
    }

    /// Whether this is the [`sum`](Self::sum) over these parts. Takes as long for each that is not.
    pub(super) fn is_sum(&self, purpose: &str, sum: &str, parts: &[&[u8]]) -> bool {
        let sum = blake3::Hash::from_hex(sum).ok();
        // The comparison of hashes takes the same time for all.
        sum.is_some_and(|sum| blake3::Hash::from_hex(self.sum(purpose, parts)).is_ok_and(|right| right == sum))
    }

    fn key(&self, purpose: &str) -> [u8; 32] {
        blake3::derive_key(purpose, &self.0)
    }
}

/// A store that has an identity.
pub(super) trait Identified: Send + Sync + fmt::Debug {
    /// Its identity; `None` while it has none. With `makes`, one that has none gets one, and one that is not there is made.
    /// Blocks.
    fn identity(&self, makes: bool) -> Result<Option<Identity>, StoreError>;
}

/// That of a folder of journals: a file in it.
pub(super) struct FolderIdentity {
    path: PathBuf,
    marked: Option<Marked>,
    known: OnceLock<Identity>,
}

impl fmt::Debug for FolderIdentity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FolderIdentity").field("path", &self.path).finish_non_exhaustive()
    }
}

impl FolderIdentity {
    pub(super) fn new(path: PathBuf, marked: Option<Marked>) -> Self {
        Self { path, marked, known: OnceLock::new() }
    }

    fn look(&self, makes: bool) -> io::Result<Option<Identity>> {
        if !self.path.is_dir() {
            return Ok(None);
        }
        let folder = Folder::open(&self.path)?;
        match read(&folder)? {
            None if makes => self.make(&folder).map(Some),
            found => Ok(found),
        }
    }

    /// Makes one, durably, unless another process was first. Its mark is told before it has its name.
    fn make(&self, folder: &Folder) -> io::Result<Identity> {
        // Else a process that ends here could have told another mark, and the other process have made its identity.
        let _locked_until_it_is_closed = folder.lock();
        if let Some(found) = read(folder)? {
            return self.tell(&found).map(|()| found);
        }
        let identity = Identity::new()?;
        self.tell(&identity)?;
        if put(folder, FILE, &[identity.as_written(), b"\n"].concat())? {
            return Ok(identity);
        }
        // Where a folder cannot be locked.
        let found = read(folder)?.ok_or_else(|| io::Error::from(io::ErrorKind::NotFound))?;
        self.tell(&found).map(|()| found)
    }

    fn tell(&self, identity: &Identity) -> io::Result<()> {
        self.marked.as_ref().map_or(Ok(()), |marked| marked(&identity.mark()))
    }
}

impl Identified for FolderIdentity {
    fn identity(&self, makes: bool) -> Result<Option<Identity>, StoreError> {
        if let Some(known) = self.known.get() {
            return Ok(Some(known.clone()));
        }
        let found = self.look(makes).map_err(|error| {
            let file = self.path.join(FILE);
            StoreError::Unavailable(format!("the identity of the store, {}: {error}", file.display()))
        })?;
        Ok(found.map(|found| self.known.get_or_init(|| found).clone()))
    }
}

fn read(folder: &Folder) -> io::Result<Option<Identity>> {
    let Some(file) = folder.open_file(FILE, OFlags::RDONLY)? else { return Ok(None) };
    let mut text = Vec::new();
    file.take(LENGTH as u64 + 2).read_to_end(&mut text)?;
    let bad = || io::Error::new(io::ErrorKind::InvalidData, "it is none: put a copy of it back, or remove it");
    Identity::read(text.strip_suffix(b"\n").unwrap_or(&text)).map(Some).ok_or_else(bad)
}

/// Makes a file that has its name only when it is whole and durable. Whether there was none.
pub(super) fn put(folder: &Folder, name: &str, content: &[u8]) -> io::Result<bool> {
    let new = format!("{name}-{}.new", uuid::Uuid::now_v7().simple());
    let written = || {
        let file = folder.open_file(&new, OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL)?;
        let mut file = file.ok_or_else(|| io::Error::from(io::ErrorKind::NotFound))?;
        file.write_all(content)?;
        file.sync_all()?;
        let is_first = folder.rename(&new, name)?;
        folder.sync()?;
        Ok::<_, io::Error>(is_first)
    };
    let written = written();
    if !matches!(written, Ok(true)) {
        let _is_not_there_where_it_was_not_made = folder.remove(&new);
    }
    written
}

#[cfg(test)]
#[path = "identity_tests.rs"]
mod tests;
