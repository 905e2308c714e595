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
//! The guides refer to each other by names that are links here and in the repository. Their links to other files are paths in
//! the repository, and lead nowhere here.

/// Where the names lead by which the guides refer to each other. Of two definitions of a name the first counts, and this one
/// stands before that of the guide, which is a path in the repository.
macro_rules! guides {
    () => {
        "[api.md]: crate::guide::api\n\
         [api.md#when-10-is-published]: crate::guide::api#when-10-is-published\n\
         [approvals.md#rules]: crate::guide::approvals#rules\n\
         [approvals.md#what-can-be-decided]: crate::guide::approvals#what-can-be-decided\n\
         [control.md]: crate::guide::control\n\
         [events.md]: crate::guide::events\n\
         [events.md#readers]: crate::guide::events#readers\n\
         [hooks.md]: crate::guide::hooks\n\
         [limits.md]: crate::guide::limits\n\
         [models.md]: crate::guide::models\n\
         [models.md#selectors]: crate::guide::models#selectors\n\
         [models.md#the-catalogue]: crate::guide::models#the-catalogue\n\
         [packages.md#features-of-the-library]: crate::guide::packages#features-of-the-library\n\
         [sandbox.md]: crate::guide::sandbox\n\
         [scale.md]: crate::guide::scale\n\
         [scale.md#submit-and-work]: crate::guide::scale#submit-and-work\n\
         [skills.md#selection-again-within-a-turn]: crate::guide::skills#selection-again-within-a-turn\n\
         [stores.md]: crate::guide::stores\n\
         [stores.md#postgres]: crate::guide::stores#postgres\n\
         [structured-output.md]: crate::guide::structured_output\n\
         [subagents.md]: crate::guide::subagents\n\
         [subagents.md#a-child-that-waits-for-a-person]: crate::guide::subagents#a-child-that-waits-for-a-person\n\
         [tape.md]: crate::guide::tape\n\
         [telemetry.md]: crate::guide::telemetry\n\
         [telemetry.md#spans-of-tracing-in-a-programs-log]: crate::guide::telemetry#spans-of-tracing-in-a-programs-log\n\
         [tenants.md]: crate::guide::tenants\n\
         [tenants.md#sessions]: crate::guide::tenants#sessions\n\
         [tenants.md#the-context-of-a-request]: crate::guide::tenants#the-context-of-a-request\n\
         [tenants.md#tool-servers]: crate::guide::tenants#tool-servers\n\
         [tool-servers.md#signing-in]: crate::guide::tool_servers#signing-in\n\
         [tool-servers.md#tasks]: crate::guide::tool_servers#tasks\n"
    };
}

#[doc = guides!()]
#[doc = include_str!("../docs/api.md")]
pub mod api {}

#[doc = guides!()]
#[doc = include_str!("../docs/approvals.md")]
pub mod approvals {}

#[doc = guides!()]
#[doc = include_str!("../docs/context.md")]
pub mod context {}

#[doc = guides!()]
#[doc = include_str!("../docs/control.md")]
pub mod control {}

#[doc = guides!()]
#[doc = include_str!("../docs/events.md")]
pub mod events {}

#[doc = guides!()]
#[doc = include_str!("../docs/hooks.md")]
pub mod hooks {}

#[doc = guides!()]
#[doc = include_str!("../docs/limits.md")]
pub mod limits {}

#[doc = guides!()]
#[doc = include_str!("../docs/local-tools.md")]
pub mod local_tools {}

#[doc = guides!()]
#[doc = include_str!("../docs/models.md")]
pub mod models {}

#[doc = guides!()]
#[doc = include_str!("../docs/names.md")]
pub mod names {}

#[doc = guides!()]
#[doc = include_str!("../docs/operating.md")]
pub mod operating {}

#[doc = guides!()]
#[doc = include_str!("../docs/packages.md")]
pub mod packages {}

#[doc = guides!()]
#[doc = include_str!("../docs/sandbox.md")]
pub mod sandbox {}

#[doc = guides!()]
#[doc = include_str!("../docs/scale.md")]
pub mod scale {}

#[doc = guides!()]
#[doc = include_str!("../docs/scripted-model.md")]
pub mod scripted_model {}

#[doc = guides!()]
#[doc = include_str!("../docs/sessions.md")]
pub mod sessions {}

#[doc = guides!()]
#[doc = include_str!("../docs/skills.md")]
pub mod skills {}

#[doc = guides!()]
#[doc = include_str!("../docs/stores.md")]
pub mod stores {}

#[doc = guides!()]
#[doc = include_str!("../docs/structured-output.md")]
pub mod structured_output {}

#[doc = guides!()]
#[doc = include_str!("../docs/subagents.md")]
pub mod subagents {}

#[doc = guides!()]
#[doc = include_str!("../docs/tape.md")]
pub mod tape {}

#[cfg(any(doc, feature = "otel"))]
#[doc = guides!()]
#[doc = include_str!("../docs/telemetry.md")]
pub mod telemetry {}

#[doc = guides!()]
#[doc = include_str!("../docs/tenants.md")]
pub mod tenants {}

#[doc = guides!()]
#[doc = include_str!("../docs/tool-servers.md")]
pub mod tool_servers {}

#[doc = guides!()]
#[doc = include_str!("../docs/turns.md")]
pub mod turns {}
