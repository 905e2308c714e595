//! What sessions last saw of the files they work on: a change that another program made since is noticed before it is
//! written over.
//!
//! In memory only, and bounded: after a restart, or when very many files were seen since, nothing is known of a file, and
//! a write of it is not refused.

use super::super::port::ToolError;
use super::MAX_FILE_BYTES;
use bob_messages::ids::SessionId;
use bob_messages::tools::TextEncoding;
use similar::TextDiff;
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// How many files are known at most, of all sessions.
const MAX_FILES: usize = 2048;
/// How many bytes of text are kept to say what changed; of older ones only a hash.
const MAX_KEPT_BYTES: usize = 16 * 1024 * 1024;
/// How much of a difference is told, in bytes.
const MAX_DIFFERENCE_BYTES: usize = 8 * 1024;
/// How long a difference is looked for.
const DIFFERENCE_TIME: Duration = Duration::from_millis(500);

/// What was last seen, by session and file. Locked for a look or a copy only.
#[derive(Debug, Default)]
pub(super) struct Seen(Mutex<Memory>);

#[derive(Debug, Default)]
struct Memory {
    files: HashMap<(SessionId, PathBuf), Known>,
    kept_bytes: usize,
    /// Counts what is noted, so that the oldest is known.
    noted: u64,
}

#[derive(Debug)]
struct Known {
    hash: blake3::Hash,
    text: Option<Arc<str>>,
    noted: u64,
}

impl Seen {
    /// Notes what a session has been shown, or has written; of a file that is too large to be edited, nothing.
    pub(super) fn note(&self, session: &SessionId, path: &Path, content: &[u8]) {
        let is_too_large = content.len() as u64 > MAX_FILE_BYTES;
        let text = TextEncoding::decode(content).map(|(text, _)| Arc::from(text));
        let hash = blake3::hash(content);
        let mut memory = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let file = (session.clone(), path.to_owned());
        let before = memory.files.remove(&file);
        memory.kept_bytes -= before.map_or(0, |before| before.bytes());
        if is_too_large {
            return;
        }
        memory.noted += 1;
        let known = Known { hash, text, noted: memory.noted };
        memory.kept_bytes += known.bytes();
        memory.files.insert(file, known);
        memory.forget();
    }

    /// Refuses a write to a file that has changed since the session saw it, and says what changed. When all of that is
    /// said, the session has seen the file as it is now.
    pub(super) fn check(&self, session: &SessionId, path: &Path, shown: &str, now: &[u8]) -> Result<(), ToolError> {
        let before = {
            let memory = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            match memory.files.get(&(session.clone(), path.to_owned())) {
                Some(known) if known.hash != blake3::hash(now) => known.text.clone(),
                Some(_) | None => return Ok(()),
            }
        };
        let difference = before.and_then(|before| difference(&before, &TextEncoding::decode(now)?.0));
        let changed = format!("{shown:?} has changed since this session read it, so nothing was written");
        Err(ToolError::new(match difference {
            Some(difference) => {
                self.note(session, path, now);
                format!("{changed}; what changed:\n{difference}\nmake the call again if it still fits")
            }
            None => format!("{changed}; read it again"),
        }))
    }
}

impl Known {
    fn bytes(&self) -> usize {
        self.text.as_ref().map_or(0, |text| text.len())
    }
}

impl Memory {
    /// Forgets the oldest until everything is within its bounds.
    fn forget(&mut self) {
        while self.kept_bytes > MAX_KEPT_BYTES {
            let with_text = self.files.values_mut().filter(|known| known.text.is_some());
            let Some(oldest) = with_text.min_by_key(|known| known.noted) else { return };
            self.kept_bytes -= oldest.bytes();
            oldest.text = None;
        }
        while self.files.len() > MAX_FILES {
            let oldest = self.files.iter().min_by_key(|(_, known)| known.noted).map(|(file, _)| file.clone());
            let forgotten = oldest.and_then(|file| self.files.remove(&file));
            self.kept_bytes -= forgotten.map_or(0, |known| known.bytes());
        }
    }
}

/// What changed, line by line; `None` when that is too much to be told.
fn difference(before: &str, now: &str) -> Option<String> {
    let difference = TextDiff::configure().timeout(DIFFERENCE_TIME).diff_lines(before, now);
    let told = difference.unified_diff().context_radius(2).to_string();
    (told.len() <= MAX_DIFFERENCE_BYTES).then(|| told.trim_end().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn session(name: &str) -> SessionId {
        SessionId::parse(name).expect("a plain id")
    }

    #[test]
    fn a_change_is_told_once_and_to_the_session_that_saw_the_file() {
        let (seen, path) = (Seen::default(), Path::new("/a.txt"));
        let check = |name: &str, now: &str| seen.check(&session(name), path, "a.txt", now.as_bytes());
        assert_eq!(check("s", "new"), Ok(()), "it never saw the file");
        seen.note(&session("s"), path, b"one\ntwo\n");
        assert_eq!(check("s", "one\ntwo\n"), Ok(()));
        assert_eq!(check("other", "one\n2\n"), Ok(()));
        let told = check("s", "one\n2\n").unwrap_err().to_string();
        assert_eq!(
            told,
            "\"a.txt\" has changed since this session read it, so nothing was written; what changed:\n\
             @@ -1,2 +1,2 @@\n one\n-two\n+2\nmake the call again if it still fits"
        );
        assert_eq!(check("s", "one\n2\n"), Ok(()), "it was told");
    }

    #[test]
    fn what_cannot_be_told_must_be_read_again() {
        let (seen, path) = (Seen::default(), Path::new("/a.txt"));
        let much: String = (0..5_000).map(|n| format!("{n}\n")).collect();
        seen.note(&session("s"), path, b"other");
        for _ in 0..2 {
            let told = seen.check(&session("s"), path, "a.txt", much.as_bytes()).unwrap_err().to_string();
            assert!(told.ends_with("; read it again"), "{told}");
        }
        seen.note(&session("s"), path, much.as_bytes());
        assert_eq!(seen.check(&session("s"), path, "a.txt", much.as_bytes()), Ok(()));
        assert!(seen.check(&session("s"), path, "a.txt", b"\xff").is_err());
    }

    #[test]
    fn files_and_texts_are_bounded_and_the_oldest_forgotten_first() {
        let seen = Seen::default();
        let path = |n: usize| PathBuf::from(format!("/{n}"));
        let text = vec![b'x'; MAX_KEPT_BYTES / 16];
        (0..18).for_each(|n| seen.note(&session("s"), &path(n), &text));
        let told = |n| seen.check(&session("s"), &path(n), "a", b"y").unwrap_err().to_string();
        assert_eq!(seen.0.lock().unwrap().kept_bytes, MAX_KEPT_BYTES);
        assert!(told(0).ends_with("read it again") && told(1).ends_with("read it again"));
        seen.note(&session("s"), Path::new("/large"), &vec![b'x'; MAX_KEPT_BYTES / 16 + 1]);
        (18..MAX_FILES + 3).for_each(|n| seen.note(&session("s"), &path(n), b"small"));
        let memory = seen.0.lock().unwrap();
        assert_eq!(memory.files.len(), MAX_FILES);
        let bytes: usize = memory.files.values().map(Known::bytes).sum();
        assert!(memory.kept_bytes == bytes && bytes <= MAX_KEPT_BYTES);
        assert!(!memory.files.contains_key(&(session("s"), path(2))));
        assert!(memory.files.contains_key(&(session("s"), path(3))));
    }
}
