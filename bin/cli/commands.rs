//! The commands that do one thing and end: one file each, and what they share.
//!
//! - `run`, `resume`, `replay`: a turn without a person beside it
//! - `sessions`, `artifacts`, `approvals`, `skills`, `tools`, `mcp`: what there is
//! - `submit`, `work`: turns that one process asks for and another one runs
//! - `sign_in`: tokens for tool servers
//! - `ps`, `cancel`: a running process, looked at and steered
//! - `soak`: a soak of the package beside the program
//! - `file_changes`, `rewind`: what a session changed of files, and the way back
//! - `models`: the catalogue of models, and what a selector selects
//! - `memory`: lines that every prompt has
//! - `doctor`, `init`, `config`, `events_schema`: beside all of it
//! - `prompt`, `attach`, `output_schema`, `output`: what goes into a turn, and the result object that comes out

pub(crate) mod approvals;
pub(crate) mod artifacts;
pub(crate) mod attach;
pub(crate) mod cancel;
pub(crate) mod config;
pub(crate) mod doctor;
pub(crate) mod events_schema;
pub(crate) mod file_changes;
pub(crate) mod init;
pub(crate) mod mcp;
pub(crate) mod memory;
pub(crate) mod models;
pub(crate) mod output;
pub(crate) mod output_schema;
pub(crate) mod prompt;
pub(crate) mod ps;
pub(crate) mod replay;
pub(crate) mod resume;
pub(crate) mod rewind;
pub(crate) mod run;
pub(crate) mod sessions;
#[cfg(feature = "mcp")]
pub(crate) mod sign_in;
#[cfg(feature = "skills")]
pub(crate) mod skills;
#[cfg(feature = "soak")]
pub(crate) mod soak;
pub(crate) mod submit;
pub(crate) mod tools;
pub(crate) mod work;
