//! A stream or a future of any type within a value that is polled.

use futures_util::Stream;
use std::fmt;
use std::pin::Pin;

/// A stream of any type, pinned.
pub(super) type AnyStream<T> = Boxed<dyn Stream<Item = T> + Send + Sync>;

/// A future of any type, kept between two polls of a reader.
pub(super) type AnyFuture<T> = Boxed<dyn Future<Output = T> + Send + Sync>;

pub(super) struct Boxed<T: ?Sized>(pub(super) Pin<Box<T>>);

impl<T: ?Sized> fmt::Debug for Boxed<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Boxed")
    }
}
