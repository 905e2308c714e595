//! Models, as a catalogue knows them: what each can do and costs, and how one is selected.
//!
//! Plain data and pure functions. The catalogue's source, its cache and its refresh are an actor's; the machine selects
//! once, when a turn begins, from the [`ModelBook`] of that moment.
//!
//! - [`price`]: amounts, rates and prices
//! - [`selector`]: what is asked of a model, and its name `select:…`
//! - [`book`]: what is known at one moment
//! - [`selection`]: the selection itself, and why

pub mod book;
pub mod price;
pub mod selection;
pub mod selector;

#[cfg(test)]
#[path = "models/naive_tests.rs"]
mod naive;
#[cfg(test)]
mod selection_tests;

pub use crate::cost::Cost;
pub use book::{LatencyClass, Listing, ModelBook, ModelEntry, ProviderStanding, Recorded, Selected};
pub use price::{ModelPrice, PriceTier, Rate};
pub use selection::{Needs, Ranked, Refusal, Refused, Selection, select};
pub use selector::{ModelSelector, Preference, Requirement};

/// The mailbox of the ModelsActor.
#[derive(Debug)]
pub enum ModelsMessage {
    /// It is time to ask the source again.
    Due,
    /// The source was asked.
    Fetched {
        /// How many models it has, or why there is no answer.
        result: Result<usize, String>,
    },
    /// It is time to keep the measured latencies.
    Keep,
}
