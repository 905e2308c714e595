//! The journal of a session as one of its readers goes through it, page by page.

use super::runtime::Runtime;
use bob_messages::event::Rebuild;
use bob_messages::ids::{SessionId, TurnId};
use bob_messages::session_state::Session;
use bob_messages::store::{Fact, Part, Record};
use std::sync::Arc;
use std::vec;

/// How many records a reader holds at a time.
pub(super) const PAGE: usize = 256;

/// How many messages the session of a reader keeps: only the last ones tell something.
const MESSAGES_KEPT: usize = 16;

#[derive(Debug)]
pub(super) struct Journal {
    pub(super) rebuild: Rebuild,
    pub(super) page: vec::IntoIter<Arc<Record>>,
    /// The version of the last record of the page.
    read: u64,
    /// The journal's version when the reader joined; later records are live.
    last: u64,
    /// Events up to this version are recorded but not delivered.
    pub(super) silent_until: u64,
    /// Suppressed events were delivered before, and are remembered as needed.
    pub(super) is_again: bool,
    /// Records behind `last` are read, too, since another process may have written them.
    is_behind: bool,
}

pub(super) fn last_of(records: &[Arc<Record>]) -> u64 {
    records.last().map_or(0, |last| last.version)
}

/// Whether the events of this turn begin with this record: its input may have waited behind another turn.
pub(super) fn begins(record: &Record, turn: &TurnId) -> bool {
    record.turn.as_ref() == Some(turn) && !matches!(record.fact, Fact::Input(_))
}

impl Journal {
    pub(super) fn whole(session: &SessionId, last: u64, silent_until: u64) -> Self {
        let rebuild = Rebuild::behind(Session::fold_keeping(session.clone(), MESSAGES_KEPT, []));
        Self { rebuild, page: Vec::new().into_iter(), read: 0, last, silent_until, is_again: false, is_behind: false }
    }

    /// A journal of which only these newest records need be read, since everything that is given, and the run that it
    /// belongs to, is behind a snapshot. Whole, where that is not so.
    pub(super) fn begin(session: &SessionId, newest: Vec<Arc<Record>>, silent_until: u64) -> Self {
        let last = last_of(&newest);
        let whole = || Self::whole(session, last, silent_until);
        let Some((first, behind)) = newest.split_first().filter(|(first, _)| first.version > 1) else { return whole() };
        let snapshot = std::slice::from_ref(first);
        let Some(found) = Session::fold_latest(session.clone(), Some(MESSAGES_KEPT), snapshot) else { return whole() };
        let is_given = behind.partition_point(|record| record.version <= silent_until);
        let mut then = found.clone();
        behind[..is_given].iter().for_each(|record| then.apply(record));
        let turn = |session: &Session| session.open.as_ref().map(|open| open.input.turn.clone());
        if turn(&found).is_none() || turn(&found) == turn(&then) {
            return whole();
        }
        let mut page = newest.into_iter();
        let _snapshot = page.next();
        Self {
            rebuild: Rebuild::behind(found),
            page,
            read: last,
            last,
            silent_until,
            is_again: false,
            is_behind: false,
        }
    }

    /// Questions are rebuilt with what this runtime would take as a decision, as it asks them itself.
    pub(super) fn offering(self, runtime: &Runtime) -> Self {
        Self { rebuild: self.rebuild.offering_always(runtime.offers_always()), ..self }
    }

    /// Of a reader that was given events of it before.
    pub(super) fn again(self) -> Self {
        Self { is_again: true, ..self }
    }

    /// Returns the next part to read; `None` at the end.
    pub(super) fn next_page(&self) -> Option<Part> {
        if self.page.len() > 0 {
            return None;
        }
        let left = usize::try_from(self.last.saturating_sub(self.read)).unwrap_or(PAGE).min(PAGE);
        match (left, self.is_behind) {
            (0, true) => Some(self.further()),
            (0, false) => None,
            (most, _) => Some(Part::Page { behind: self.read, most }),
        }
    }

    /// What another process may have written since.
    pub(super) fn further(&self) -> Part {
        Part::Page { behind: self.read, most: PAGE }
    }

    /// This record and what is behind it are read another time.
    pub(super) fn stops_before(&mut self, record: &Record) {
        self.read = record.version.saturating_sub(1);
        (self.last, self.is_behind) = (self.read, false);
        self.page = Vec::new().into_iter();
    }

    /// All that was written since is read, too.
    pub(super) fn go_on(&mut self) {
        self.is_behind = true;
    }

    /// What could not be read of that is left for later. Whether that is so: not while the reader still joins.
    pub(super) fn puts_off(&mut self) -> bool {
        self.read >= self.last && std::mem::take(&mut self.is_behind)
    }

    pub(super) fn take_page(&mut self, page: Vec<Arc<Record>>) {
        if self.read >= self.last {
            self.is_behind = page.len() == PAGE;
            self.last = page.last().map_or(self.last, |last| last.version);
        }
        // A session that was deleted meanwhile has no more records.
        self.read = page.last().map_or(self.last, |last| last.version);
        self.page = page.into_iter();
    }
}
