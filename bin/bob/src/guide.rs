//! The guides of the repository, as they are in its folder `docs`. Some speak of the program `cli-agent`, which is made of
//! this library; what it does by a flag or a key of its configuration, a program does by the [`RuntimeBuilder`](crate::RuntimeBuilder).
//!
//! | guide | is about |
//! |---|---|
//! | [`turns`] | the course of a turn, and what ends it |
//! | [`sessions`] | options of sessions, folders, tool servers of their own |
//! | [`approvals`] | what runs without asking, questions to a person, lasting decisions |
//! | [`events`] | what readers and sinks are told, and what is rebuilt from the journal |
//! | [`structured_output`] | answers that fit a schema |
//! | [`stores`] | the stores, what is durable when, several processes |
//! | [`scale`] | several machines with one PostgreSQL |
//! | [`context`] | long histories: what is cut, and summaries |
//! | [`limits`] | the bounds of a turn and of a runtime |
//! | [`local_tools`] | the tools for files, search and the shell |
//! | [`sandbox`] | what confines the commands of the shell tool |
//! | [`hooks`] | programs at points of a turn |
//! | [`models`] | providers, the catalogue, selection of a model, local models |
//! | [`tool_servers`] | servers of the Model Context Protocol |
//! | [`skills`] | instructions in folders |
//! | [`subagents`] | agents that other agents call |
//! | [`scripted_model`] | a model that answers from a file |
//! | [`tape`] | recording and replay |
//! | [`tenants`] | several tenants in one runtime, and the context of a request |
//! | [`telemetry`] | spans and metrics over OTLP |
//! | [`control`] | requests to a program that runs |
//! | [`operating`] | files, signals, exit codes and upgrades of the program |
//! | [`api`] | what of the interface is kept, and what may come |
//! | [`names`] | where each name of the design is |
//! | [`packages`] | packages, features, versions |
//!
//! The guides refer to each other, and to other files, by paths in the repository. Such a link works where a guide is read there;
//! in this documentation it leads nowhere, and the guide that it names is in the table above, if it is here.

#[doc = include_str!("../docs/api.md")]
pub mod api {}

#[doc = include_str!("../docs/approvals.md")]
pub mod approvals {}

#[doc = include_str!("../docs/context.md")]
pub mod context {}

#[doc = include_str!("../docs/control.md")]
pub mod control {}

#[doc = include_str!("../docs/events.md")]
pub mod events {}

#[doc = include_str!("../docs/hooks.md")]
pub mod hooks {}

#[doc = include_str!("../docs/limits.md")]
pub mod limits {}

#[doc = include_str!("../docs/local-tools.md")]
pub mod local_tools {}

#[doc = include_str!("../docs/models.md")]
pub mod models {}

#[doc = include_str!("../docs/names.md")]
pub mod names {}

#[doc = include_str!("../docs/operating.md")]
pub mod operating {}

#[doc = include_str!("../docs/packages.md")]
pub mod packages {}

#[doc = include_str!("../docs/sandbox.md")]
pub mod sandbox {}

#[doc = include_str!("../docs/scale.md")]
pub mod scale {}

#[doc = include_str!("../docs/scripted-model.md")]
pub mod scripted_model {}

#[doc = include_str!("../docs/sessions.md")]
pub mod sessions {}

#[doc = include_str!("../docs/skills.md")]
pub mod skills {}

#[doc = include_str!("../docs/stores.md")]
pub mod stores {}

#[doc = include_str!("../docs/structured-output.md")]
pub mod structured_output {}

#[doc = include_str!("../docs/subagents.md")]
pub mod subagents {}

#[doc = include_str!("../docs/tape.md")]
pub mod tape {}

#[cfg(any(doc, feature = "otel"))]
#[doc = include_str!("../docs/telemetry.md")]
pub mod telemetry {}

#[doc = include_str!("../docs/tenants.md")]
pub mod tenants {}

#[doc = include_str!("../docs/tool-servers.md")]
pub mod tool_servers {}

#[doc = include_str!("../docs/turns.md")]
pub mod turns {}
