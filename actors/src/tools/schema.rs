//! The schema of a tool's arguments: read once, then asked about each call.
//!
//! The catalogue owns one [`Checker`] for each tool. With the feature `json-schema` it checks all
//! of a schema (`full`), without it what most schemas have (`small`); both in bounded time for any schema.

#[cfg(feature = "json-schema")]
mod cost;
#[cfg(feature = "json-schema")]
mod full;
#[cfg(feature = "json-schema")]
mod plain;
#[cfg(feature = "json-schema")]
mod quick;
#[cfg(any(test, not(feature = "json-schema")))]
mod small;
#[cfg(feature = "json-schema")]
mod survey;

#[cfg(feature = "json-schema")]
pub(super) use full::Checker;
#[cfg(not(feature = "json-schema"))]
pub(super) use small::Checker;

/// How many steps a check may always take. Where there is more to do for each value of
/// the arguments than [`STEPS_PER_VALUE`], this is what is left for it.
const FEW_STEPS: usize = 20_000;

/// How many steps each value of the arguments adds to what a check may take.
const STEPS_PER_VALUE: usize = 8;

/// How many complaints about one call's arguments a model is told.
const MAX_COMPLAINTS: usize = 3;

/// How much of one complaint a model is told, in bytes.
const MAX_COMPLAINT_BYTES: usize = 300;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Misfit {
    /// They do not fit; each reads as a sentence's part.
    Complaints(Vec<String>),
    /// To find out would take too long.
    TooMuch,
}

fn clip(text: &str) -> String {
    super::clip::clip(text, MAX_COMPLAINT_BYTES)
}
