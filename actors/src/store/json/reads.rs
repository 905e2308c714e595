//! Reading the journals of a folder, and listing them.

use super::journals::{Journals, lock};
use super::name;
use super::position::Position;
use crate::store::listing;
use bob_messages::ids::SessionId;
use bob_messages::store::{Record, SessionFilter, SessionPage, SessionSummary, StoreError};
use rustix::fs::OFlags;
use std::sync::Arc;

impl Journals {
    /// Reads the records and writes nothing, whatever is found.
    pub(super) fn load(&self, session: &SessionId) -> Result<Vec<Arc<Record>>, StoreError> {
        let slot = self.existing_slot(session);
        let slot = slot.as_ref().map(|slot| lock(slot));
        let doubt = slot.as_ref().and_then(|slot| slot.doubt);
        let journal = name::of(session);
        let opened = self.folder.open_file(&journal, OFlags::RDONLY);
        let Some(file) = opened.map_err(|error| self.unavailable("open", &journal, &error))? else {
            self.refuse_set_aside(session)?;
            return Ok(Vec::new());
        };
        let mut records = Vec::new();
        let read = Position::default().read_on(&file, doubt, session, |record| records.push(record));
        read.map_err(|error| self.unreadable(session, error))?;
        Ok(records)
    }

    pub(super) fn list(&self, filter: &SessionFilter, cursor: Option<&str>) -> Result<SessionPage, StoreError> {
        let names = self.folder.names().map_err(|error| self.unavailable("list", "", &error))?;
        let (mut sessions, mut quarantined) = (Vec::new(), Vec::new());
        for name in names {
            if let Some(session) = name::session(&name) {
                if !listing::wanted(filter, session.as_str()) {
                    continue;
                }
                // One that was removed meanwhile is no session, nor one that was
                // never claimed to the end, or a link.
                if let Ok(Some(seen)) = self.folder.look(&name)
                    && seen.size > 0
                {
                    sessions.push(SessionSummary { session, updated_at: seen.modified_at, bytes: seen.size });
                }
            } else if let Some(session) = name::session_of_aside(&name)
                && cursor.is_none()
                && listing::wanted(filter, session.as_str())
            {
                let reason = format!("the journal of {session} was found damaged and is kept as it was");
                quarantined.push((name, reason));
            }
        }
        quarantined.sort_unstable();
        Ok(SessionPage { quarantined, ..listing::page(sessions, filter, cursor)? })
    }
}
