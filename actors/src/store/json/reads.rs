//! Reading the journals of a folder, and listing them.

use super::journals::Journals;
use super::own::Origin;
use super::position::{EMPTY, Position, Unreadable};
use super::{glances, name};
use crate::store::line::ClaimLine;
use crate::store::{SessionOwner, listing, owners};
use bob_messages::ids::SessionId;
use bob_messages::store::{Part, Record, SessionFilter, SessionPage, SessionSummary, StoreError};
use rustix::fs::OFlags;
use std::fs::File;
use std::sync::Arc;

impl Journals {
    /// Reads the records and writes nothing, whatever is found.
    pub(super) fn load(&self, session: &SessionId) -> Result<Vec<Arc<Record>>, StoreError> {
        self.load_with(session, |file, doubt| Self::read_from(Position::new(self.formats), file, doubt, session))
    }

    /// Reads some of the records and writes nothing.
    pub(super) fn load_part(&self, session: &SessionId, part: Part) -> Result<Vec<Arc<Record>>, StoreError> {
        self.load_with(session, |file, doubt| {
            let read = |position, end| Self::read_from(position, file, end, session);
            match part {
                Part::Latest => {
                    let end = doubt.map_or_else(|| file.metadata().map(|file| file.len()), Ok);
                    let found = end.and_then(|end| Position::before_snapshot(file, end, session, self.formats));
                    let latest = found.ok().flatten().and_then(|position| read(position, doubt).ok());
                    latest.map_or_else(|| read(Position::new(self.formats), doubt), Ok)
                }
                Part::Page { behind, most } => {
                    let found = Position::page(file, doubt, behind, most, self.formats).map_err(Unreadable::Io)?;
                    found.map_or_else(|| Ok(Vec::new()), |(position, end)| read(position, end.or(doubt)))
                }
            }
        })
    }

    /// The records from a position to the end of the file, or to this many bytes.
    fn read_from(
        mut position: Position,
        file: &File,
        end: Option<u64>,
        session: &SessionId,
    ) -> Result<Vec<Arc<Record>>, Unreadable> {
        let mut records = Vec::new();
        position.read_on(file, end, session, |record| records.push(record)).map(|_torn| records)
    }

    /// The living process that has the session: the one that has the folder, if it claimed the session last.
    pub(super) fn owner(&self, session: &SessionId) -> Result<Option<SessionOwner>, StoreError> {
        let living = self.hold.owner().map_err(|error| self.unavailable("look at", "", &error))?;
        let claim = self.load_with(session, |file, doubt| {
            let mut position = Position::new(self.formats);
            position.read_on(file, doubt, session, |_record| ()).map(|_torn| position.owner)
        })?;
        let has_it =
            |claim: &ClaimLine| living.as_ref() == Some(&claim.owner) || owners::lives(&self.folder, &claim.lock);
        Ok(claim.filter(has_it).map(|claim| SessionOwner { name: claim.owner, node: None, address: None }))
    }

    fn load_with<T: Default>(
        &self,
        session: &SessionId,
        read: impl FnOnce(&File, Option<u64>) -> Result<T, Unreadable>,
    ) -> Result<T, StoreError> {
        self.within(session, |slot| {
            let journal = name::of(session);
            let opened = self.folder.open_file(&journal, OFlags::RDONLY);
            let Some(file) = opened.map_err(|error| self.unavailable("open", &journal, &error))? else {
                self.refuse_set_aside(session)?;
                return Ok(T::default());
            };
            self.refuse_foreign(session, &file)?;
            read(&file, slot.doubt).map_err(|error| self.unreadable(session, error))
        })
    }

    pub(super) fn list(&self, filter: &SessionFilter, cursor: Option<&str>) -> Result<SessionPage, StoreError> {
        let names = self.folder.names().map_err(|error| self.unavailable("list", "", &error))?;
        // Only those of the page are opened, unless the filter asks how they look.
        let looks = listing::looks(filter);
        let (mut sessions, mut quarantined) = (Vec::new(), Vec::new());
        self.own.is_readable()?;
        for name in names {
            if let Some(session) = name::session(&name) {
                if !listing::wanted(filter, session.as_str()) {
                    continue;
                }
                // One that was removed meanwhile is no session, nor is a link.
                if let Ok(Some(seen)) = self.folder.look(&name) {
                    if seen.size == 0 {
                        // On the first page, as those that were set aside.
                        if cursor.is_none() {
                            quarantined.push((name, EMPTY.to_owned()));
                        }
                        continue;
                    }
                    let summary = SessionSummary::bare(session, seen.modified_at, seen.size);
                    let glanced = if looks { self.glanced(summary) } else { Ok(summary) };
                    let summary = match glanced {
                        Ok(summary) => summary,
                        Err(_) if cursor.is_some() => continue,
                        Err(foreign) => {
                            quarantined.push((name, foreign));
                            continue;
                        }
                    };
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
        let mut page = listing::page(sessions, filter, cursor)?;
        if !looks {
            let mut seen = Vec::with_capacity(page.sessions.len());
            for summary in page.sessions {
                let name = name::of(&summary.session);
                match self.glanced(summary) {
                    Ok(summary) => seen.push(summary),
                    Err(foreign) => quarantined.push((name, foreign)),
                }
            }
            page.sessions = seen;
        }
        quarantined.sort_unstable();
        Ok(SessionPage { quarantined, ..page })
    }

    /// With what its beginning and end show; as it is, if it cannot be opened now. Errors: why it is not shown.
    fn glanced(&self, summary: SessionSummary) -> Result<SessionSummary, String> {
        let Ok(Some(file)) = self.folder.open_file(&name::of(&summary.session), OFlags::RDONLY) else {
            return Ok(summary);
        };
        match self.own.origin(&summary.session, &file) {
            Ok(Origin::Foreign) => Err(self.own.why_foreign()),
            Ok(Origin::Own | Origin::Unreadable) | Err(_) => Ok(glances::seen(&file, summary)),
        }
    }
}
