//! Fault injection for the tests of the other packages and for the soak. No library depends on it.
//!
//! | module | owns |
//! |---|---|
//! | [`server`] | a tool server that behaves, or misbehaves in one named way |
//! | [`store`] | a session store with faults |
//! | `soak` | many sessions under injected faults, and the checks of their outcomes (feature `soak`) |
//! | [`traps`] | faults of actors at chosen points |

pub mod server;
#[cfg(feature = "soak")]
pub mod soak;
pub mod store;
pub mod traps;
