//! What a session is: the fold of its journal.
//!
//! [`Session`] changes only through [`Session::apply`], one record at a time, so a session that was rebuilt from its
//! journal and one that lived through its turns are the same value. It holds facts only; what a running turn is waiting
//! for belongs to the machine ([`crate::turn`]).

mod below;
mod fold;
mod known;
mod media;
mod names;
mod open;
mod pool;
mod retention;
mod runs;
mod snapshot;
mod steps;
mod tasks;

#[cfg(test)]
mod fold_tests;

pub use below::{GivenUp, OpenBelow};
pub use fold::Session;
pub use known::Submissions;
pub(crate) use known::outcome_in;
pub use media::MOST_MEDIA_BYTES;
pub use open::{AtLimit, ExternalResult, OpenApproval, OpenCall, OpenStep, OpenTurn, RunCaller};
pub use pool::pool_of;
pub(crate) use runs::withdrawn;
pub use snapshot::SNAPSHOT_FORM;
pub(crate) use steps::used_skill;
pub use tasks::Tasks;
