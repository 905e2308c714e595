//! A found configuration has no effect before it is trusted, and tools do not write files that govern the agent.

#[path = "trust/asked.rs"]
mod asked;
#[path = "trust/brought.rs"]
mod brought;
#[path = "trust/folders.rs"]
mod folders;
#[path = "trust/found.rs"]
mod found;
#[path = "trust/hands.rs"]
mod hands;
#[path = "trust/journals.rs"]
mod journals;
#[path = "trust/messages.rs"]
mod messages;
#[path = "trust/named.rs"]
mod named;
#[path = "trust/own.rs"]
mod own;
#[path = "trust/stores.rs"]
mod stores;
