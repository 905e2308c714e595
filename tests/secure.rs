//! Bad input and bad intentions, met by the real binary: what its children see, what it says of its secrets, who may read
//! its files, what reaches a terminal, and what a rule that denies is worth. The names begin with the fault's id.

#![cfg(all(feature = "genai", feature = "mcp", feature = "soak"))]

mod support;

#[path = "secure/argv.rs"]
mod argv;
#[path = "secure/budget.rs"]
mod budget;
#[path = "secure/canaries.rs"]
mod canaries;
#[path = "secure/children.rs"]
mod children;
#[path = "secure/denied.rs"]
mod denied;
#[path = "secure/errors.rs"]
mod errors;
#[path = "secure/house.rs"]
mod house;
#[path = "secure/inputs.rs"]
mod inputs;
#[path = "secure/permissions.rs"]
mod permissions;
#[path = "secure/screen.rs"]
mod screen;
#[path = "secure/secrets.rs"]
mod secrets;
