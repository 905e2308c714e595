//! Tapes: record what models and tools say once, and replay it without them.
//!
//! A tape is one file of JSON lines that people can read. It holds each question to a model with its answer, each call
//! of a tool with its result, in order, with failures, retries and what nobody waited for. A replay of it needs no
//! provider, no key, no tool server and no network, and is as fast as the runtime itself. Everything else is real: policy,
//! guards, retries, the store.
//!
//! A replay is strict. What is asked must be on the tape as it is: model, mode, instructions, tools with their schemas,
//! messages. Ids, times and traces do not count. A request that is not there fails with what differs first from the one
//! that is nearest. The same request twice is answered in the order of the tape.
//!
//! ```
//! use bob::tape::{Recorder, Redactor, Tape};
//! use bob::{AgentRequest, AgentRuntime, ModelName, RuntimeBuilder, ScriptedLlm, ScriptedReply, SessionId};
//! use std::sync::Arc;
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let folder = tempfile::tempdir()?;
//! # let file = folder.path().join("hello.tape");
//! let question = || AgentRequest::text(SessionId::parse("demo").expect("an id"), "hi");
//! let model = ScriptedLlm::replies(vec![ScriptedReply::text("hello")]);
//!
//! // What must not get onto the tape is given to the recorder: keys, tokens, passwords.
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
//! [`TapeLlm`] and [`TapeTools`] are the same for a single port, for programs without a runtime.

pub use bob_actors::tape::{FORMAT, Header, MARK, Recorder, Redactor, Tape, TapeError, TapeLlm, TapeTools};
