//! Large results, pictures and texts: what is journaled of them, what a model sees, and what is left after a crash.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bob::model::{Capabilities, ContentPart, LlmRequest, ScriptedLlm, ScriptedReply};
use bob::store::{Append, ArtifactStorePort, Claim, Part, Record, SessionStore, StoreError, Stored};
use bob::tools::{Invocation, ToolError, tool};
use bob::{AgentRequest, AgentRuntime, BoxFuture, Runtime, RuntimeBuilder, SessionId};
use bob_messages::chat::Message;
use bob_messages::ids::ToolName;
use bob_messages::limits::Limits;
use serde_json::json;
use tokio::sync::Notify;

use crate::pass_on::pass_on;
use crate::support::runtime::{Nothing, build, ended, file_store, over, say, session, turn, within};
use crate::support::scratch::Scratch;

/// The most bytes that a record of these tests has: the ends of a text with room for everything else.
const SMALL: usize = 256 * 1024;

/// A store that notes how large the largest record is that it is given, and can keep records with artifacts back.
struct Watched {
    store: Arc<dyn SessionStore>,
    largest: AtomicUsize,
    /// Whether a record that names an artifact is never stored, and not answered before the end.
    holds_back: AtomicBool,
    held_back: Notify,
    end: Arc<Notify>,
}

impl Watched {
    fn over(store: Arc<dyn SessionStore>) -> Arc<Self> {
        let (largest, holds_back) = (AtomicUsize::new(0), AtomicBool::new(false));
        Arc::new(Self { store, largest, holds_back, held_back: Notify::new(), end: Arc::default() })
    }
}

impl SessionStore for Watched {
    pass_on!(store: claim, load, release, list, delete);

    fn claim_latest<'a>(&'a self, session: &'a SessionId) -> BoxFuture<'a, Result<Claim, StoreError>> {
        self.store.claim_latest(session)
    }

    fn load_part<'a>(
        &'a self,
        session: &'a SessionId,
        part: Part,
    ) -> BoxFuture<'a, Result<Vec<Arc<Record>>, StoreError>> {
        self.store.load_part(session, part)
    }

    fn append(&self, batch: Vec<Append>) -> BoxFuture<'_, Vec<Result<u64, StoreError>>> {
        for record in batch.iter().flat_map(|append| &append.records) {
            let bytes = serde_json::to_vec(&**record).unwrap().len();
            self.largest.fetch_max(bytes, Ordering::SeqCst);
            if record.fact.artifacts().next().is_some() && self.holds_back.load(Ordering::SeqCst) {
                self.held_back.notify_one();
                let (end, count) = (Arc::clone(&self.end), batch.len());
                return Box::pin(async move {
                    end.notified().await;
                    vec![Err(StoreError::InDoubt("the process ended".to_owned())); count]
                });
            }
        }
        self.store.append(batch)
    }

    fn append_apart(&self, batch: Vec<Append>) -> BoxFuture<'_, Vec<Stored>> {
        let appended = self.append(batch);
        Box::pin(async move { appended.await.into_iter().map(Stored::Now).collect() })
    }

    fn artifacts(&self) -> Option<Arc<dyn ArtifactStorePort>> {
        self.store.artifacts()
    }
}

/// A text of so many MiB with a word in its middle.
fn large(mib: usize) -> String {
    let half = "0123456789abcde\n".repeat(mib * 32 * 1024);
    format!("{half}the heron stands here\n{half}")
}

/// Where the word is.
fn middle(mib: usize) -> usize {
    mib * 512 * 1024
}

/// What the newest message of a request says.
fn last(request: &LlmRequest) -> String {
    match &**request.messages.last().unwrap() {
        Message::Tool { result } => result.output.for_model(),
        Message::User { parts } => parts.iter().map(ContentPart::as_text).collect(),
        Message::Assistant { text, .. } => text.clone(),
    }
}

fn offers_the_reader(request: &LlmRequest) -> bool {
    request.tools.get(&ToolName::new(ToolName::READ_ARTIFACT)).is_some()
}

/// The id that a result names.
fn named(result: &str) -> String {
    let (_, rest) = result.split_once("{\"id\": \"").expect("the result names its id");
    rest.split('"').next().unwrap().to_owned()
}

/// A model that has a large result made and reads its middle; what it was asked is kept.
fn reader(mib: usize, native: bool) -> (RuntimeBuilder, Arc<Mutex<Vec<LlmRequest>>>) {
    let asked = Arc::new(Mutex::new(Vec::new()));
    let kept = Arc::clone(&asked);
    let model = ScriptedLlm::from_fn(move |request| {
        kept.lock().unwrap().push(request.clone());
        let said = last(request);
        if said.contains("are not shown") {
            let arguments = json!({"id": named(&said), "offset": middle(mib), "length": 22});
            ScriptedReply::call(ToolName::READ_ARTIFACT, arguments)
        } else if said.contains("heron") {
            ScriptedReply::text(said.lines().last().unwrap_or_default())
        } else {
            ScriptedReply::call("test/large", json!({}))
        }
    });
    let capabilities =
        Capabilities { native_tools: native, json_schema: true, context_tokens: 1 << 20, ..Capabilities::default() };
    let make = move |_: Nothing, _: Invocation| async move { Ok::<_, ToolError>(large(mib)) };
    let builder = over(model.with_capabilities(capabilities)).local_tools(false);
    (builder.tools(Arc::new(tool("test/large", "Returns much.", make).read_only())), asked)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_large_result_is_no_large_record_and_its_middle_is_read_by_the_model() {
    let folder = Scratch::new();
    for native in [true, false] {
        let (builder, asked) = reader(60, native);
        let store = Watched::over(file_store(&folder.path().join(native.to_string())));
        // What is looked at is no time: a busy machine may take minutes.
        let patient = Limits { turn_timeout_ms: 3_600_000, tool_timeout_ms: 3_600_000, ..Limits::default() };
        let runtime = build(builder.limits(patient).store(Arc::<Watched>::clone(&store))).await;
        let answer = turn(&runtime, say("look it up")).await;
        assert_eq!(answer.content, "the heron stands here");
        let asked = asked.lock().unwrap().clone();
        let offered: Vec<_> = asked.iter().map(offers_the_reader).collect();
        assert_eq!(offered, [false, true, true], "it is offered once there is something to read");
        if !native {
            let envelope = asked[1].envelope.as_ref().unwrap().to_string();
            assert!(asked[1].system.contains("local/read_artifact") && envelope.contains("local/read_artifact"));
            assert!(!asked[0].system.contains("local/read_artifact"));
        }
        let largest = store.largest.load(Ordering::SeqCst);
        assert!(largest < SMALL, "the store was given a record of {largest} bytes");
        let list = runtime.artifacts_of(&session("s")).await.unwrap();
        assert_eq!(list.iter().map(|one| one.bytes).collect::<Vec<_>>(), [large(60).len() as u64]);
        within(runtime.shutdown()).await;
    }
}

#[tokio::test]
async fn a_session_that_is_read_again_offers_the_reader_from_its_first_step_on() {
    let folder = Scratch::new();
    let (builder, _asked) = reader(1, true);
    let runtime = build(builder.store(file_store(folder.path()))).await;
    turn(&runtime, say("look it up")).await;
    ended(runtime).await;

    let (builder, asked) = reader(1, true);
    let runtime = build(builder.store(file_store(folder.path()))).await;
    let answer = turn(&runtime, say("the heron again")).await;
    assert_eq!(answer.content, "the heron again");
    assert!(offers_the_reader(&asked.lock().unwrap()[0]));
    let shown = answer.tool_transcript.len();
    assert_eq!(shown, 0, "nothing is called again");
    within(runtime.shutdown()).await;
}

/// Base64 of so many bytes.
fn picture(bytes: usize) -> ContentPart {
    let data = "QUJD".repeat(bytes / 3);
    ContentPart::Image { mime_type: "image/png".to_owned(), data }
}

#[tokio::test]
async fn pictures_and_long_texts_of_a_person_are_sent_whole_and_journaled_by_name() {
    let asked = Arc::new(Mutex::new(Vec::new()));
    let kept = Arc::clone(&asked);
    let model = ScriptedLlm::from_fn(move |request| {
        kept.lock().unwrap().push(request.clone());
        ScriptedReply::text("seen")
    });
    let capabilities =
        Capabilities { native_tools: true, images: true, context_tokens: 1 << 20, ..Capabilities::default() };
    let store = Watched::over(bob::store::MemoryStore::new());
    let builder = over(model.with_capabilities(capabilities)).store(Arc::<Watched>::clone(&store));
    let runtime = build(builder).await;
    let long = format!("begin{}end", "x".repeat(400 * 1024));
    let input = vec![ContentPart::text(long.clone()), picture(600 * 1024)];
    turn(&runtime, AgentRequest { input: input.clone(), ..say("") }).await;
    turn(&runtime, say("and now?")).await;
    let asked = asked.lock().unwrap().clone();
    for request in &asked {
        let Message::User { parts } = &*request.messages[0] else { panic!("the first message is the person's") };
        assert!(*parts == input, "a model is sent what the person sent, in every step");
    }
    assert_eq!(runtime.artifacts_of(&session("s")).await.unwrap().len(), 2);
    assert!(store.largest.load(Ordering::SeqCst) < SMALL);
    within(runtime.shutdown()).await;
}

#[tokio::test]
async fn an_artifact_of_another_tenant_does_not_exist() {
    let (builder, _asked) = reader(1, true);
    let runtime = build(builder).await;
    let (acme, other) = (runtime.tenant("acme").unwrap(), runtime.tenant("other").unwrap());
    within(acme.run(say("look it up"))).await.unwrap();
    let list = acme.artifacts_of(&session("s")).await.unwrap();
    let id = &list[0].id;
    assert!(acme.artifact(&session("s"), id, 0..9).await.unwrap().is_some());
    assert_eq!(other.artifacts_of(&session("s")).await.unwrap(), []);
    assert_eq!(other.artifact(&session("s"), id, 0..9).await.unwrap(), None);
    // The same content in a session of its own is another artifact of its own.
    within(other.run(AgentRequest::text(session("theirs"), "look it up"))).await.unwrap();
    assert!(other.artifact(&session("theirs"), id, 0..9).await.unwrap().is_some());
    assert!(acme.delete(session("s")).await.unwrap());
    assert_eq!(acme.artifact(&session("s"), id, 0..9).await.unwrap(), None);
    assert!(other.artifact(&session("theirs"), id, 0..9).await.unwrap().is_some());
    within(runtime.shutdown()).await;
}

#[tokio::test]
async fn nothing_is_kept_of_an_input_for_a_session_of_another_tenant() {
    let (builder, _asked) = reader(1, true);
    let runtime = build(builder).await;
    let (acme, other) = (runtime.tenant("acme").unwrap(), runtime.tenant("other").unwrap());
    within(acme.run(say("look it up"))).await.unwrap();
    let before = acme.artifacts_of(&session("s")).await.unwrap();
    let refused = within(other.run(say(&"large ".repeat(100_000)))).await.unwrap_err();
    assert_eq!(refused.kind(), "invalid", "{refused}");
    assert_eq!(acme.artifacts_of(&session("s")).await.unwrap(), before);
    within(runtime.shutdown()).await;
}

#[tokio::test]
async fn a_large_answer_to_a_question_is_in_the_journal_as_it_was_given() {
    let folder = Scratch::new();
    let asks = ScriptedReply::call("ask_user", json!({"question": "What does it say?"}));
    let model = ScriptedLlm::replies(vec![asks, ScriptedReply::text("I see.")]);
    let runtime = build(over(model).store(file_store(folder.path()))).await;
    within(runtime.run(say("read it to me"))).await.unwrap();
    let answer = format!("{}the heron{}", "a ".repeat(150_000), " b".repeat(150_000));
    assert_eq!(turn(&runtime, say(&answer)).await.content, "I see.");
    // No record names an artifact, and the next process would remove it.
    assert_eq!(runtime.artifacts_of(&session("s")).await.unwrap(), []);
    within(runtime.shutdown()).await;
    let records = file_store(folder.path()).load(&session("s")).await.unwrap();
    assert!(records.iter().any(|record| serde_json::to_string(&**record).unwrap().contains(&answer)), "all of it");
}

/// Until the store keeps so many artifacts of the session.
async fn kept_at_last(runtime: &Runtime, count: usize) {
    within(async {
        while runtime.artifacts_of(&session("s")).await.unwrap().len() != count {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    })
    .await;
}

#[tokio::test]
async fn an_artifact_whose_record_was_never_stored_is_removed_by_the_next_process() {
    let folder = Scratch::new();
    {
        let (builder, _asked) = reader(1, true);
        let store = Watched::over(file_store(folder.path()));
        store.holds_back.store(true, Ordering::SeqCst);
        let runtime = build(builder.store(Arc::<Watched>::clone(&store))).await;
        let submitted = runtime.run(say("look it up"));
        tokio::select! {
            _ended = submitted => panic!("the record is never stored"),
            () = within(store.held_back.notified()) => {}
        }
        assert_eq!(runtime.artifacts_of(&session("s")).await.unwrap().len(), 1, "it is durable before its record");
        // As after a kill: the record was not stored, and the locks of the process are free.
        within(runtime.shutdown()).await;
        drop(runtime);
        store.end.notify_one();
        within(async {
            while Arc::strong_count(&store) > 1 {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        })
        .await;
    }
    let (builder, _asked) = reader(1, true);
    let runtime = build(builder.store(file_store(folder.path()))).await;
    kept_at_last(&runtime, 0).await;
    let answer = turn(&runtime, say("look it up")).await;
    assert_eq!(answer.content, "the heron stands here");
    kept_at_last(&runtime, 1).await;
    within(runtime.shutdown()).await;
}
