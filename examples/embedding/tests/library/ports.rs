//! Every port of the library, implemented.

pub mod approvals;
pub mod artifacts;
pub mod chat;
pub mod further;
pub mod inbox;
pub mod model;
pub mod store;
pub mod tools;
pub mod watching;
pub mod wire;
