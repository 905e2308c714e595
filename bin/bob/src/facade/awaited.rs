//! A future within a value that is polled.

use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll};

/// A future that is kept between two polls of a reader.
pub(super) struct Awaited<T>(Pin<Box<dyn Future<Output = T> + Send + Sync>>);

impl<T> Awaited<T> {
    pub(super) fn new(future: impl Future<Output = T> + Send + Sync + 'static) -> Self {
        Self(Box::pin(future))
    }

    pub(super) fn poll(&mut self, context: &mut Context<'_>) -> Poll<T> {
        self.0.as_mut().poll(context)
    }
}

impl<T> fmt::Debug for Awaited<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Awaited")
    }
}
