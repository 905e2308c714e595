//! What an error comes from, in errors that are data.

use std::error::Error;
use std::fmt;
use std::panic::{RefUnwindSafe, UnwindSafe};
use std::sync::Arc;

/// The error below another one, for its [`Error::source`].
///
/// It is no part of the value that holds it: two errors that differ in it alone are equal, and it is not serialised. An error
/// that is read from a journal, or comes from another process, has none.
#[derive(Clone, Default)]
pub struct Cause(Option<Arc<Below>>);

/// In a box of its own: a message to an actor with an error in it has one word for this, and not two.
struct Below(Box<dyn Error + Send + Sync>);

impl Cause {
    /// This error.
    pub fn of(error: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        Self(Some(Arc::new(Below(error.into()))))
    }

    /// The error, if there is one.
    pub fn error(&self) -> Option<&(dyn Error + 'static)> {
        Some(&*self.0.as_ref()?.0)
    }
}

/// All are equal: what an error tells is in its text and its data.
impl PartialEq for Cause {
    fn eq(&self, _other: &Self) -> bool {
        true
    }
}

impl Eq for Cause {}

/// It is only read, so no panic leaves it half changed: an error with a cause may be used after one, as one that is only data.
impl UnwindSafe for Cause {}

impl RefUnwindSafe for Cause {}

impl fmt::Debug for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.error().fmt(f)
    }
}
