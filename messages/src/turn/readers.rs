//! Whoever reads a session along reads its journal first: what the machine has written and not sent yet is sent for
//! them. It is not waited for here: the store knows when it is durable.

use super::state::State;
use super::{Effect, Turn};
use crate::sessions::TurnNews;

impl Turn {
    pub(super) fn flush_for_reader(&mut self, state: State, effects: &mut Vec<Effect>) {
        self.state = state;
        self.flush(effects);
        self.flushing += 1;
        self.tell_flushed(effects);
    }

    /// What waited behind an append that was to be confirmed has gone by now.
    pub(super) fn tell_flushed(&mut self, effects: &mut Vec<Effect>) {
        if self.flushing > 0 && !self.journal.has_unsent() {
            self.tell_readers(effects);
        }
    }

    /// What is written does not get to the store now: who reads gets what the store has.
    pub(super) fn tell_readers(&mut self, effects: &mut Vec<Effect>) {
        let readers = std::mem::take(&mut self.flushing);
        effects.extend((0..readers).map(|_| Effect::Report(TurnNews::Flushed)));
    }
}
