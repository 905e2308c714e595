//! The catalogue of models: where it comes from, how old it may be, and what can be run of it here.
//!
//! Owns the list of models with their prices and capabilities, its source and cache, and the measured latencies of
//! providers. It answers from memory at once; only its actor, in tasks, asks a source or writes a file. Turns select
//! from the [`ModelBook`](bob_messages::models::ModelBook) that comes with their configuration.
//!
//! | file | what it holds |
//! |---|---|
//! | [`port`] | what a catalogue does: list, resolve, select |
//! | [`catalogue`] | the catalogue of a runtime, in memory |
//! | [`facts`] | what is known of models, and how old that is |
//! | [`formats`] | the formats it is read from |
//! | [`source`], `cache` | where it comes from, and what is kept of the answer |
//! | `latency` | the median latency of each provider |
//! | `resolve` | whether a model can be run here, and what is nearest to one that cannot |
//! | [`around`] | a model port with the catalogue around it |
//! | `caught` | a catalogue whose panics are caught |
//! | `contract` | the contract suite of the port (feature `testing`) |
//! | [`actor`] | refreshes the catalogue |

pub mod actor;
pub mod around;
mod cache;
pub mod catalogue;
mod caught;
#[cfg(any(test, feature = "testing"))]
pub mod contract;
pub mod facts;
pub mod formats;
mod latency;
pub mod port;
mod resolve;
pub mod source;

pub use actor::{ModelsActor, ModelsArguments};
pub use around::Catalogued;
pub use catalogue::Catalogue;
pub use caught::caught;
pub use facts::{CatalogueSettings, ModelFacts};
pub use formats::FormatError;
pub use port::{ModelCatalogPort, Resolution};
pub use source::{CatalogueError, Source};
