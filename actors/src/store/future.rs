//! What the ports of a store return.

use bob_messages::store::StoreError;
use futures_util::future::BoxFuture;

/// The answer of a store.
pub type StoreFuture<'a, T> = BoxFuture<'a, Result<T, StoreError>>;
