//! Messages to sessions from programs that do not run them: a [`Submitter`] puts them into the inbox of a store, and a
//! [`Worker`] of any process with the same store runs them.
//!
//! ```
//! use bob::inbox::{InboxMessage, InboxRequest, SubmitRequest, Submitter, Worker};
//! use bob::model::{ContentPart, ScriptedLlm, ScriptedReply};
//! use bob::sessions::{CancellationToken, RequestId};
//! use bob::store::MemoryStore;
//! use bob::{AgentRuntime, ModelName, RuntimeBuilder, SessionId};
//! use std::sync::Arc;
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let store = MemoryStore::new();
//! let model = Arc::new(ScriptedLlm::replies(vec![ScriptedReply::text("hello")]));
//! let builder = RuntimeBuilder::new(ModelName::parse("scripted:demo")?).model(model).store(store.clone());
//! let worker = Worker::new(builder.build().await?, store.clone()).expect("this store has an inbox");
//! let until = CancellationToken::new();
//! let works = tokio::spawn(worker.run(until.clone()));
//!
//! // In another process, where the store is one of several processes:
//! let submitter = Submitter::new(store).expect("this store has an inbox");
//! let session = SessionId::parse("demo")?;
//! let submit = SubmitRequest { parts: vec![ContentPart::text("hi")], ..SubmitRequest::default() };
//! let request = InboxRequest::Submit(Box::new(submit));
//! let mut pending = submitter.put(InboxMessage::new(session, RequestId::new("first"), 0, request)).await?;
//! assert_eq!(pending.outcome().await?.content, "hello");
//!
//! until.cancel();
//! works.await?;
//! # Ok(())
//! # }
//! ```

mod journal;
mod message;
mod pending;
mod submitter;
mod worker;

/// The messages to the sessions of a store, which [`SessionStore::inbox`](crate::store::SessionStore::inbox) returns.
///
/// ```
/// use bob::inbox::{Due, Inbox, InboxEntry, InboxKey, InboxMessage, InboxStanding};
/// use bob::store::StoreError;
/// use bob::{AgentError, BoxFuture, SessionId};
/// use std::collections::BTreeSet;
/// use std::sync::Arc;
/// use std::sync::atomic::{AtomicUsize, Ordering};
///
/// /// Counts the messages that are put into another inbox.
/// struct Counted(Arc<dyn Inbox>, AtomicUsize);
///
/// impl Inbox for Counted {
///     fn put(&self, message: InboxMessage) -> BoxFuture<'_, Result<bool, StoreError>> {
///         self.1.fetch_add(1, Ordering::Relaxed);
///         self.0.put(message)
///     }
///
///     fn take<'a>(&'a self, session: &'a SessionId) -> BoxFuture<'a, Result<Vec<InboxEntry>, StoreError>> {
///         self.0.take(session)
///     }
///
///     fn settle(&self, key: InboxKey, refusal: Option<AgentError>) -> BoxFuture<'_, Result<bool, StoreError>> {
///         self.0.settle(key, refusal)
///     }
///
///     fn standing(&self, key: InboxKey) -> BoxFuture<'_, Result<InboxStanding, StoreError>> {
///         self.0.standing(key)
///     }
///
///     fn due<'a>(&'a self, most: usize, known: &'a BTreeSet<SessionId>) -> BoxFuture<'a, Result<Vec<Due>, StoreError>> {
///         self.0.due(most, known)
///     }
///
///     fn woken(&self) -> BoxFuture<'_, ()> {
///         self.0.woken()
///     }
/// }
/// ```
pub use bob_actors::store::Inbox;
pub use bob_actors::store::{Due, StoreLease};
pub use bob_messages::inbox::{
    INBOX_FORMAT, InboxEntry, InboxKey, InboxMessage, InboxRequest, InboxStanding, SubmitRequest,
};
pub use pending::Pending;
pub use submitter::Submitter;
pub use worker::{Attendant, Worked, Worker};
