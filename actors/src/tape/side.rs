use super::Tape;
use super::recorder::{Recorder, Seen};
use std::sync::Arc;

pub(super) enum Side<P: ?Sized> {
    Recording(Recorder, Arc<P>),
    Replaying(Tape),
}

impl<P: ?Sized> std::fmt::Debug for Side<P> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Recording(recorder, _) => recorder.fmt(f),
            Self::Replaying(tape) => tape.fmt(f),
        }
    }
}

/// An entry that has begun. It gets the end `dropped()` if it is dropped before another one.
pub(super) struct Noting<E> {
    recorder: Recorder,
    began: u64,
    entry: Option<Box<dyn FnOnce(u64, E) -> Seen + Send>>,
    dropped: fn() -> E,
}

impl<E> Noting<E> {
    /// Begins an entry, which `entry` makes of its number and its end.
    pub(super) fn begin(
        recorder: &Recorder,
        entry: impl FnOnce(u64, E) -> Seen + Send + 'static,
        dropped: fn() -> E,
    ) -> Self {
        Self { began: recorder.begin(), recorder: recorder.clone(), entry: Some(Box::new(entry)), dropped }
    }

    pub(super) fn end(&mut self, end: E) {
        if let Some(entry) = self.entry.take() {
            self.recorder.tell(entry(self.began, end));
        }
    }
}

impl<E> Drop for Noting<E> {
    fn drop(&mut self) {
        let dropped = self.dropped;
        if self.entry.is_some() {
            self.end(dropped());
        }
    }
}
