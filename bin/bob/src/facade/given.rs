//! Events that a program gives, in place of those of a runtime.

use futures_util::Stream;
use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll};

/// A stream of any type, pinned.
pub(super) struct Given<T>(Pin<Box<dyn Stream<Item = T> + Send + Sync>>);

impl<T> Given<T> {
    pub(super) fn new(stream: impl Stream<Item = T> + Send + Sync + 'static) -> Self {
        Self(Box::pin(stream))
    }

    pub(super) fn poll_next(&mut self, context: &mut Context<'_>) -> Poll<Option<T>> {
        self.0.as_mut().poll_next(context)
    }
}

impl<T> fmt::Debug for Given<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Given")
    }
}
