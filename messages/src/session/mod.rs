//! What a session is: the fold of its journal.
//!
//! [`Session`] changes only through [`Session::apply`], one record at a time, so
//! a session that was rebuilt from its journal and one that lived through its
//! turns are the same value. It holds facts only; what a running turn is waiting
//! for belongs to the machine ([`crate::turn`]).

mod change;
mod fold;
mod glance;
mod keep;
mod launch;
mod open;
mod options;
mod runs;
mod steps;

#[cfg(test)]
mod fold_tests;

pub use change::{Change, Configuring, OptionsPatch, SessionChange};
pub use fold::Session;
pub use glance::{Glance, SessionState, title};
pub use launch::{Hidden, Named, Reach, ServerLaunch};
pub use open::{OpenApproval, OpenCall, OpenStep, OpenTurn, Outside, Replier};
pub use options::{ApprovalsMode, ParentTurn, SessionOptions, TurnInput};
pub(crate) use runs::withdrawn;
