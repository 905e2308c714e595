//! That a session which is not found is not there, so that none begins anew because its entry in an index is damaged.
//!
//! Whether the sessions and their indexes agree takes a look at all of them. It is taken beside whatever else is asked,
//! on a thread of its own, when a session is not found for the first time. Until its result is there, a session that
//! the index does not have is looked for in the table itself.

use super::database::{Database, Interrupt};
use super::tables::Tables;
use bob_messages::ids::SessionId;
use bob_messages::store::StoreError;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// How long ending the check may take.
const ENDED_WITHIN: Duration = Duration::from_secs(1);

#[derive(Debug)]
pub(super) struct Check {
    path: PathBuf,
    found: OnceLock<Result<(), StoreError>>,
    look: Mutex<Look>,
}

#[derive(Debug, Default)]
struct Look {
    is_over: bool,
    thread: Option<JoinHandle<()>>,
    interrupt: Option<Interrupt>,
}

impl Check {
    pub(super) fn new(path: PathBuf) -> Arc<Self> {
        Arc::new(Self { path, found: OnceLock::new(), look: Mutex::default() })
    }

    /// That this session, which the index does not have, is not there.
    /// Errors: `Corrupt` when it is, or when the sessions and their indexes are known to disagree.
    pub(super) fn is_absent(self: &Arc<Self>, tables: &Tables<'_>, session: &SessionId) -> Result<(), StoreError> {
        if let Some(found) = self.found.get() {
            return found.clone();
        }
        self.begin();
        match tables.is_hidden(session)? {
            true => Err(self.damaged(&format!("session {session} is missing from an index"))),
            false => Ok(()),
        }
    }

    fn begin(self: &Arc<Self>) {
        let mut look = self.look.lock().unwrap_or_else(PoisonError::into_inner);
        if look.is_over || look.thread.is_some() {
            return;
        }
        let check = Arc::clone(self);
        let named = std::thread::Builder::new().name("bob-store-check".to_owned());
        // Without a thread each session that is not found goes on being looked for in the table.
        look.thread = named.spawn(move || check.look()).ok();
    }

    fn look(&self) {
        let said = Database::open_to_read(&self.path).and_then(|database| {
            let Some(database) = database else { return Ok(None) };
            {
                let mut look = self.look.lock().unwrap_or_else(PoisonError::into_inner);
                if look.is_over {
                    return Ok(None);
                }
                look.interrupt = Some(database.interrupt());
            }
            database.check_sessions().map(Some)
        });
        match said {
            Ok(Some(said)) if said == "ok" => drop(self.found.set(Ok(()))),
            Ok(Some(what)) => {
                tracing::error!(path = %self.path.display(), what, "the list of sessions is damaged");
                drop(self.found.set(Err(self.damaged(&what))));
            }
            Ok(None) => {}
            // Which it may be because it was interrupted.
            Err(error) => tracing::debug!(%error, "the list of sessions could not be checked"),
        }
    }

    /// Ends the look, so that its connection does not outlive the others.
    pub(super) fn end(&self) {
        let thread = {
            let mut look = self.look.lock().unwrap_or_else(PoisonError::into_inner);
            look.is_over = true;
            look.thread.take()
        };
        let Some(thread) = thread else { return };
        let until = Instant::now() + ENDED_WITHIN;
        while !thread.is_finished() && Instant::now() < until {
            // It reaches only a statement that runs, so once may be too early.
            self.look.lock().unwrap_or_else(PoisonError::into_inner).interrupt.iter().for_each(Interrupt::now);
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    fn damaged(&self, what: &str) -> StoreError {
        let path = self.path.display();
        StoreError::Corrupt(format!(
            "the list of sessions in {path} is damaged ({what}), so that no session can begin; restore a copy, or export \
             what can be read of it, session by session"
        ))
    }
}
