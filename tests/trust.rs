//! A configuration that is found does nothing of its own before somebody trusts it, and a model does not touch what governs
//! it.

mod support;

#[path = "trust/asked.rs"]
mod asked;
#[path = "trust/folders.rs"]
mod folders;
#[path = "trust/found.rs"]
mod found;
#[path = "trust/hands.rs"]
mod hands;
#[path = "trust/named.rs"]
mod named;
#[path = "trust/stores.rs"]
mod stores;
