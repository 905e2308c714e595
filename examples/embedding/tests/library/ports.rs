//! Every port of the library, implemented.

pub mod approvals;
pub mod chat;
pub mod model;
pub mod tools;
pub mod watching;
