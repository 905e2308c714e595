//! Tapes: record the responses of models and tools once, and replay them.
//!
//! A tape is one file of readable JSON lines. It holds each model request with its response and each tool call with
//! its result, in order, including failures, retries and abandoned requests. A replay needs no provider, no key, no
//! tool server and no network. Everything else is real: policy, guards, retries, the store.
//!
//! A replay is strict: a request must equal one on the tape in model, mode, instructions, tools with their schemas,
//! and messages. Ids, times and traces are ignored. For an unknown request the error shows the first difference from
//! the nearest one. Equal requests are answered in the order of the tape.
//!
//! ```
//! use bob::tape::{Recorder, Redactor, Tape};
//! use bob::{AgentRequest, AgentRuntime, ModelName, RuntimeBuilder, SessionId};
//! use bob::model::{ScriptedLlm, ScriptedReply};
//! use std::sync::Arc;
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let folder = tempfile::tempdir()?;
//! # let file = folder.path().join("hello.tape");
//! let question = || AgentRequest::text(SessionId::parse("demo").expect("an id"), "hi");
//! let model = ScriptedLlm::replies(vec![ScriptedReply::text("hello")]);
//!
//! // Values that must not be on the tape: keys, tokens, passwords.
//! let recorder = Recorder::create(&file, Redactor::new(["sk-not-for-tapes".into()]), "the first words")?;
//! let builder = RuntimeBuilder::new(ModelName::parse("scripted:demo")?).model(Arc::new(model));
//! let runtime = builder.record(&recorder).build().await?;
//! runtime.run(question()).await?;
//! runtime.shutdown().await;
//! recorder.keep()?;
//!
//! // Elsewhere, without the model.
//! let tape = Tape::load(&file, Redactor::default())?;
//! let runtime = RuntimeBuilder::new(ModelName::parse("scripted:demo")?).replay(&tape).build().await?;
//! assert_eq!(runtime.run(question()).await?.response().content, "hello");
//! assert_eq!(tape.left(), 0);
//! let other = runtime.run(AgentRequest::text(SessionId::parse("demo")?, "something else")).await?;
//! assert!(other.response().error.as_ref().is_some_and(|error| error.to_string().contains("not on the tape")));
//! # runtime.shutdown().await;
//! # Ok(())
//! # }
//! ```
//!
//! [`TapeLlm`] and [`TapeTools`] replay a single port, for programs without a runtime.

pub use bob_actors::tape::{Header, MARK, Recorder, Redactor, TAPE_FORMAT, Tape, TapeError, TapeLlm, TapeTools};
