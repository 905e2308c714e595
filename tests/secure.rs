//! Bad input and attacks against the real binary: environment of children, secrets in output, file permissions,
//! terminal output, and enforcement of denials. Test names begin with the fault's id.

#![cfg(all(feature = "genai", feature = "mcp", feature = "soak"))]

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
#[path = "secure/fixture.rs"]
mod fixture;
#[path = "secure/inputs.rs"]
mod inputs;
#[path = "secure/permissions.rs"]
mod permissions;
#[path = "secure/screen.rs"]
mod screen;
#[path = "secure/secrets.rs"]
mod secrets;
