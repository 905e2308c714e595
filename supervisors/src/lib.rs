//! x
pub(crate) mod deadlines;
pub(crate) mod guests;
pub mod sessions;
