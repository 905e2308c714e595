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
//! The root has what these programs need. Everything else is in a module for one task, each item in one of them.
//! [`runner`] runs one turn step by step, without actors. The package `bob-config` reads `agent.toml`; the program
//! `cli-agent` uses both.

pub mod approvals;
pub mod config;
pub mod context;
pub mod events;
mod facade;
pub mod health;
pub mod model;
pub mod runner;
pub mod sessions;
pub mod store;
pub mod tape;
pub mod tools;

pub use bob_messages::error::AgentError;
pub use bob_messages::ids::{ModelName, SessionId};
#[cfg(feature = "genai")]
pub use facade::Providers;
pub use facade::{
    Agent, AgentRequest, AgentResponse, AgentRunResult, AgentRuntime, AgentRuntimeExt, AskError, BuildError, Runtime,
    RuntimeBuilder, Typed,
};
/// What the methods of ports return.
pub use futures_util::future::BoxFuture;
pub use schemars;
