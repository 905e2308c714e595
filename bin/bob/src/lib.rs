//! Bob: an agent runtime in which every session is an actor and everything that can fail is supervised.
//!
//! ```no_run
//! # #[cfg(feature = "genai")]
//! # mod hello {
//! use bob::{AgentRuntime, AgentRuntimeExt, ModelName, Providers, RuntimeBuilder};
//! use std::sync::Arc;
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let model = Arc::new(Providers::from_env().build()?);
//! let runtime = RuntimeBuilder::new(ModelName::parse("openai:gpt-4o-mini")?).model(model).build().await?;
//! println!("{}", runtime.ask("Why is the sky blue?").await?);
//! runtime.shutdown().await;
//! # Ok(())
//! # }
//! # }
//! ```
//!
//! The model is offered tools that read and change files in the current folder ([`RuntimeBuilder::local_tools`]). Calls that
//! only read run; one that needs a person's approval is denied without a question, until
//! [`AgentRequest::approvals`] or [`AgentRequest::mode`] say otherwise.
//!
//! A [`RuntimeBuilder`] starts a [`Runtime`], whose operations are the trait [`AgentRuntime`]. An [`AgentRequest`] is one
//! message to a session; an [`Agent`] gives a session its instructions, model and tools. A model can be scripted, so that
//! a test needs no provider:
//!
//! ```
//! use bob::model::{ScriptedLlm, ScriptedReply};
//! use bob::{AgentRequest, AgentRuntime, ModelName, RuntimeBuilder, SessionId};
//! use std::sync::Arc;
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let model = ScriptedLlm::replies(vec![ScriptedReply::text("hello")]);
//! let runtime = RuntimeBuilder::new(ModelName::parse("scripted:demo")?).model(Arc::new(model)).build().await?;
//! let result = runtime.run(AgentRequest::text(SessionId::parse("demo")?, "hi")).await?;
//! assert_eq!(result.response().content, "hello");
//! runtime.shutdown().await;
//! # Ok(())
//! # }
//! ```
//!
//! # Modules
//!
//! The root has what these programs need. Everything else is in a module for one task, each item in one of them.
//!
//! | module | what is in it | ports a program may implement |
//! |---|---|---|
//! | [`model`] | real and scripted models, requests and answers | [`LlmPort`](model::LlmPort), [`Readiness`](model::Readiness), [`KnownModels`](model::providers::KnownModels), [`ModelCatalogPort`](model::catalogue::ModelCatalogPort), [`ContextCompactorPort`](model::ContextCompactorPort) |
//! | [`tools`] | tools, their policy, tool servers, skills | [`ToolPort`](tools::ToolPort), [`ToolHook`](tools::hooks::ToolHook), [`SkillPort`](tools::skills::SkillPort), [`SignInPort`](tools::servers) |
//! | [`store`] | stores, and what a journal consists of | [`SessionStore`](store::SessionStore), [`ArtifactStorePort`](store::ArtifactStorePort) |
//! | [`events`] | what readers and sinks are told | [`EventSink`](events::EventSink) |
//! | [`approvals`] | questions to a person, and decisions | [`ApprovalPort`](approvals::ApprovalPort), [`ApprovalMemory`](approvals::ApprovalMemory) |
//! | [`sessions`] | options, outcomes, lists of sessions | |
//! | [`context`] | on whose behalf a request is made: tenant, principal, own data | |
//! | [`config`] | limits, prompts, child processes | [`AgentBootstrap`](config::AgentBootstrap), [`Hook`](config::Hook) |
//! | [`health`] | state, counts and latencies of a runtime | |
//! | [`hub`] | messages of chat systems, and a tool with which an agent speaks first | [`ChatChannel`](hub::ChatChannel) |
//! | [`inbox`] | messages to sessions from processes that do not run them, and workers that do | [`Inbox`](inbox::Inbox) |
//! | [`runner`] | one turn step by step, without actors | |
//! | [`tape`] | recordings of models and tools, and their replay | |
//! | `telemetry` | spans and metrics over OTLP (feature `otel`) | |
//! | `testing` | contract suites for the ports, and a double of a runtime (feature `testing`) | |
//!
//! The module `guide` of this documentation has the guides of the repository. Its folder `examples/embedding` has whole
//! programs: a web service, an own store and model, a turn that another process resumes.
//!
//! # Features
//!
//! All but the last four are on by default. Without any, the library has scripted models and those of the program, tools of the program, and
//! the memory and file stores.
//!
//! | feature | what it adds |
//! |---|---|
//! | `genai` | real providers over HTTP: [`Providers`], [`model::GenaiLlm`] |
//! | `mcp` | servers of the Model Context Protocol: [`RuntimeBuilder::tool_server`] |
//! | `sqlite` | [`store::SqliteStore`] |
//! | `skills` | skills from folders: [`tools::skills::SkillFolders`] |
//! | `local-tools` | tools for files, the shell and a plan, which [`RuntimeBuilder::local_tools`] offers by default; files before a conversation |
//! | `search` | with `local-tools`: tools that find and search files |
//! | `web` | [`tools::web_fetch`], a tool that gets pages of the web |
//! | `json-schema` | arguments and answers are checked against all that a JSON schema says, and not only the most used part |
//! | `testing` | the module `testing`: contract suites for ports, and a double of a runtime; for dev-dependencies |
//! | `oauth` | signing in to tool servers over HTTP with OAuth |
//! | `otel` | the module `telemetry`: spans and metrics to a receiver of OpenTelemetry |
//! | `postgres` | [`store::PostgresStore`](crate::store), which processes of several machines may share |
//!
//! # What a runtime needs, and what it is
//!
//! * **tokio** with time and I/O enabled, of either flavour: [`RuntimeBuilder::build`] reports what is missing. A runtime may be
//!   used from other tokio runtimes than the one that built it, and ends with that one. Types of tokio, tokio-util,
//!   futures, serde_json and schemars are part of the interface. A program that derives a schema depends on schemars 1 itself, or uses
//!   the exported [`schemars`] and says so beside the derive: `#[derive(bob::schemars::JsonSchema)]` with
//!   `#[schemars(crate = "bob::schemars")]`, as the derived code names the package otherwise.
//! * **One runtime** is one tree of actors, with one store, one policy and one set of tools, for any number of sessions
//!   and turns at a time. Nothing is global: a process can have many, which share nothing but what they were given.
//! * **A store** has one owner per session. The file store is for one process at a time, the SQLite store for several, the PostgreSQL store for several on many machines.
//! * **Futures** may be dropped. That leaves a turn running unless [`AgentStream::on_drop`](events::AgentStream::on_drop)
//!   or [`AgentRequest::cancel`] say otherwise.
//! * **Logs** go to `tracing`. The library of actors has a span at `info` for the life of each actor there: a subscriber leaves
//!   them out by [`is_for_programs`](events::is_for_programs), or by the filter `info,ractor=warn`.
//! * **Panics** of a port, a tool, a sink or an actor are caught, and concern their own call, event or session. With
//!   `panic = "abort"` in the profile of the program the first one ends the process instead: then nothing restarts, and
//!   interrupted turns wait in their journals for the next process.
//! * **Rust** 1.95 or newer.
//!
//! The package `bob-config` reads `agent.toml`; the program `cli-agent` is made of both.

// Says at each item which feature it needs, where the documentation is made by a nightly compiler.
#![cfg_attr(docsrs, feature(doc_cfg))]

pub mod approvals;
pub mod config;
pub mod context;
pub mod events;
mod facade;
#[cfg(any(doc, doctest))]
pub mod guide;
pub mod health;
pub mod hub;
pub mod inbox;
pub mod model;
pub mod runner;
pub mod sessions;
pub mod store;
pub mod tape;
#[cfg(feature = "otel")]
pub mod telemetry;
#[cfg(feature = "testing")]
pub mod testing;
pub mod tools;

pub use bob_messages::error::AgentError;
pub use bob_messages::ids::{ModelName, SessionId};
/// It holds nothing that runs, so it can be cloned, compared and stored. A request takes it by
/// [`AgentRequest::agent`](AgentRequest::agent), a runtime as a sub-agent by
/// [`RuntimeBuilder::subagent`](RuntimeBuilder::subagent).
///
/// ```
/// use bob::{Agent, AgentRequest, AgentRuntime, ModelName, RuntimeBuilder};
/// use bob::model::{ScriptedLlm, ScriptedReply};
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let model = ScriptedLlm::replies(vec![ScriptedReply::text("three")]);
/// # let runtime = RuntimeBuilder::new(ModelName::parse("scripted:a")?).model(std::sync::Arc::new(model)).build().await?;
/// let researcher = Agent::new("researcher")
///     .instructions("You answer from the files of the workspace. Name the file of each answer.")
///     .tools(["local/read_file", "local/search_files"]);
/// let critic = Agent::new("critic").instructions("You look for mistakes.").model(ModelName::parse("scripted:b")?).tools([""; 0]);
///
/// let found = runtime.run(AgentRequest::once("How many tests are there?").agent(&researcher)).await?;
/// let judged = runtime.run(AgentRequest::once(&found.response().content).agent(&critic)).await?;
/// # assert_eq!(judged.response().content, "three");
/// # runtime.shutdown().await;
/// # Ok(())
/// # }
/// ```
pub use facade::Agent;
#[cfg(feature = "genai")]
pub use facade::Providers;
pub use facade::{
    AgentRequest, AgentResponse, AgentRunResult, AgentRuntime, AgentRuntimeExt, AskError, BuildError, Runtime,
    RuntimeBuilder, Typed,
};
/// What the methods of ports return.
pub use futures_util::future::BoxFuture;
/// The package whose `JsonSchema` the arguments of tools and typed answers have. A type that derives it from here needs
/// `#[schemars(crate = "bob::schemars")]` as well, unless the program depends on schemars itself.
pub use schemars;
