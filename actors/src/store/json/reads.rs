//! Reading the journals of a folder, and listing them.

use super::glances;
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
        // Only those of the page are opened, unless the filter asks how they look.
        let looks = listing::looks(filter);
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
                    let summary = SessionSummary::bare(session, seen.modified_at, seen.size);
                    let summary = if looks { self.glanced(summary) } else { summary };
                    if listing::wants(filter, &summary) {
                        sessions.push(summary);
                    }
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
        let mut page = listing::page(sessions, filter, cursor)?;
        if !looks {
            page.sessions = page.sessions.into_iter().map(|summary| self.glanced(summary)).collect();
        }
        Ok(SessionPage { quarantined, ..page })
    }

    /// With what its beginning and end show; as it is, if it cannot be opened now.
    fn glanced(&self, summary: SessionSummary) -> SessionSummary {
        match self.folder.open_file(&name::of(&summary.session), OFlags::RDONLY) {
            Ok(Some(file)) => glances::seen(&file, summary),
            Ok(None) | Err(_) => summary,
        }
    }
}
