//! The real binary, as a person, a script and a shell meet it: help, refusals, conversations, signals, a terminal.

#[path = "cli/approvals.rs"]
mod approvals;
#[path = "cli/artifacts.rs"]
mod artifacts;
#[path = "cli/at_once.rs"]
mod at_once;
#[path = "cli/back.rs"]
mod back;
#[path = "cli/changes.rs"]
mod changes;
#[path = "cli/chat.rs"]
mod chat;
#[path = "cli/clipboard.rs"]
mod clipboard;
#[path = "cli/commands.rs"]
mod commands;
#[path = "cli/config.rs"]
mod config;
#[path = "cli/copies.rs"]
mod copies;
#[path = "cli/decisions.rs"]
mod decisions;
#[path = "cli/documents.rs"]
mod documents;
#[path = "cli/encodings.rs"]
mod encodings;
#[path = "cli/escapes.rs"]
mod escapes;
#[path = "cli/file_changes.rs"]
mod file_changes;
#[path = "cli/help.rs"]
mod help;
#[path = "cli/hooks.rs"]
mod hooks;
#[path = "cli/limits.rs"]
pub(crate) mod limits;
#[path = "cli/log.rs"]
mod log;
#[path = "cli/memory.rs"]
mod memory;
#[path = "cli/models.rs"]
mod models;
#[path = "cli/modes.rs"]
mod modes;
#[path = "cli/owners.rs"]
mod owners;
#[path = "cli/plain.rs"]
mod plain;
#[path = "cli/questions.rs"]
mod questions;
#[path = "cli/refund.rs"]
mod refund;
#[path = "cli/refusals.rs"]
mod refusals;
#[path = "cli/resize.rs"]
mod resize;
#[path = "cli/resume.rs"]
mod resume;
#[path = "cli/run.rs"]
mod run;
#[path = "cli/signals.rs"]
mod signals;
#[path = "cli/stops.rs"]
mod stops;
#[path = "cli/talk.rs"]
mod talk;
#[path = "cli/task.rs"]
mod task;
#[path = "cli/terminal.rs"]
mod terminal;
#[path = "cli/tools.rs"]
mod tools;
#[path = "cli/undone.rs"]
mod undone;
#[path = "cli/widths.rs"]
mod widths;
