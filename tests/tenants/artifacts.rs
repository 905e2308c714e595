//! Large results: a tool that makes them, a model that reads them, and a store that gives them to every session, as a
//! defective one would.

use std::ops::Range;
use std::sync::Arc;

use bob::inbox::Inbox;
use bob::model::{LlmRequest, ScriptedLlm, ScriptedReply};
use bob::store::{ArtifactId, ArtifactStorePort, MemoryStore, SessionStore, StoreError, StoredArtifact};
use bob::tools::{FnTool, Invocation, Risk, tool};
use bob::{BoxFuture, SessionId};
use bob_messages::chat::Message;
use serde_json::json;

use crate::pass_on::pass_on;
use crate::support::runtime::{Nothing, session};

/// The sessions of the interleavings.
pub(crate) const SESSIONS: [&str; 3] = ["a", "b", "c"];

/// How long a report is: more than stays in a record.
const REPORT_BYTES: usize = 257 * 1024;

/// How much of a result the model tells: enough for what it is of, and whose.
const TOLD_CHARS: usize = 400;

/// A text that only requests of this tenant have.
pub(crate) fn mark_of(tenant: &str) -> String {
    format!("secret-of-{tenant}")
}

/// A tool whose result is an artifact. The first half of the reports have the mark of the tenant, the others are the same
/// for all tenants.
pub(crate) fn report() -> FnTool {
    let run = |_: Nothing, call: Invocation| async move {
        let context = call.context.context.as_deref();
        let tenant = context.and_then(|context| context.tenant.as_ref()).map(ToString::to_string).unwrap_or_default();
        let is_own = call.call.id.as_str().bytes().last().is_some_and(|digit| digit % 2 == 0);
        let word = if is_own { mark_of(&tenant) } else { "a text that all have. ".to_owned() };
        Ok(word.repeat(REPORT_BYTES / word.len() + 1))
    };
    tool("bank/report", "Reports.", run).risk(Risk::Low).read_only()
}

/// Makes the call that the newest message beginning with `pay`, `report` or `read` and an id is about, and then tells its
/// result. What is said into a turn begins otherwise, and changes nothing.
pub(crate) fn obedient() -> ScriptedLlm {
    ScriptedLlm::from_fn(|request: &LlmRequest| {
        for message in request.messages.iter().rev() {
            match &**message {
                Message::Tool { result } => {
                    return ScriptedReply::text(result.output.for_model().chars().take(TOLD_CHARS).collect::<String>());
                }
                Message::User { parts } => match parts[0].as_text().split(' ').collect::<Vec<_>>()[..] {
                    ["report", ..] => return ScriptedReply::call("bank/report", json!({})),
                    ["read", id, ..] => return ScriptedReply::call("local/read_artifact", json!({"id": id})),
                    ["pay", ..] => return ScriptedReply::call("bank/pay", json!({})),
                    _ => {}
                },
                _ => {}
            }
        }
        ScriptedReply::text("nothing to do")
    })
}

/// Gives the artifacts of each session to all.
pub(crate) struct Leaking {
    store: Arc<MemoryStore>,
    artifacts: Arc<dyn ArtifactStorePort>,
}

impl Leaking {
    pub(crate) fn new() -> Arc<Self> {
        let store = MemoryStore::new();
        let artifacts = store.artifacts().expect("a store of artifacts");
        Arc::new(Self { store, artifacts })
    }
}

impl SessionStore for Leaking {
    pass_on!(store: claim, load, append, release, list, delete);

    fn inbox(&self) -> Option<Arc<dyn Inbox>> {
        self.store.inbox()
    }

    fn artifacts(&self) -> Option<Arc<dyn ArtifactStorePort>> {
        Some(Arc::new(OfAll(Arc::clone(&self.artifacts))))
    }
}

struct OfAll(Arc<dyn ArtifactStorePort>);

impl ArtifactStorePort for OfAll {
    fn put<'a>(
        &'a self,
        session: &'a SessionId,
        content: Arc<Vec<u8>>,
    ) -> BoxFuture<'a, Result<ArtifactId, StoreError>> {
        self.0.put(session, content)
    }

    fn get<'a>(
        &'a self,
        _session: &'a SessionId,
        id: &'a ArtifactId,
        range: Range<u64>,
    ) -> BoxFuture<'a, Result<Option<Vec<u8>>, StoreError>> {
        Box::pin(async move {
            for other in SESSIONS.map(session) {
                if let Some(content) = self.0.get(&other, id, range.clone()).await? {
                    return Ok(Some(content));
                }
            }
            Ok(None)
        })
    }

    fn list<'a>(&'a self, _session: &'a SessionId) -> BoxFuture<'a, Result<Vec<StoredArtifact>, StoreError>> {
        Box::pin(async move {
            let mut all = Vec::new();
            for other in SESSIONS.map(session) {
                all.extend(self.0.list(&other).await?);
            }
            all.sort();
            all.dedup();
            Ok(all)
        })
    }

    fn share<'a>(
        &'a self,
        from: &'a SessionId,
        to: &'a SessionId,
        ids: &'a [ArtifactId],
    ) -> BoxFuture<'a, Result<(), StoreError>> {
        self.0.share(from, to, ids)
    }

    fn recorded<'a>(&'a self, session: &'a SessionId, ids: &'a [ArtifactId]) -> BoxFuture<'a, ()> {
        self.0.recorded(session, ids)
    }

    fn unrecorded(&self, most: usize) -> BoxFuture<'_, Result<Vec<(SessionId, Vec<ArtifactId>)>, StoreError>> {
        self.0.unrecorded(most)
    }

    fn delete<'a>(&'a self, session: &'a SessionId, ids: &'a [ArtifactId]) -> BoxFuture<'a, Result<(), StoreError>> {
        self.0.delete(session, ids)
    }

    fn delete_all<'a>(&'a self, session: &'a SessionId) -> BoxFuture<'a, Result<usize, StoreError>> {
        self.0.delete_all(session)
    }
}
