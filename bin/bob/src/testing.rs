//! Tests of a program: contract suites for its own ports, and a double of a runtime (feature `testing`).
//!
//! A suite is an async function that makes ports and checks rules on them. It panics with a sentence for each broken rule:
//! the rule, and what was seen. It needs a tokio runtime with its drivers and none of tokio's macros; [`run`] makes one:
//!
//! ```
//! use bob::store::MemoryStore;
//! use bob::testing;
//!
//! // In a test of your own, with your own store:
//! testing::run(testing::store(|| MemoryStore::new()));
//! ```
//!
//! | port | suite |
//! |---|---|
//! | [`SessionStore`] | [`store`]; for one that several processes may open [`store_owners`], [`store_killed`] and [`store_paused`]; for one in files [`store_full_disk`] |
//! | [`Inbox`](crate::inbox::Inbox) | [`inbox`](fn@inbox), of the store that has it |
//! | [`ArtifactStorePort`] | [`artifacts`] |
//! | [`LlmPort`] | [`model`], and [`model_wire`] for one that speaks HTTP |
//! | [`ModelCatalogPort`] | [`catalogue`] |
//! | [`KnownModels`] | [`known_models`] |
//! | [`Readiness`] | [`readiness`] |
//! | [`ToolPort`] | [`tools`] |
//! | [`ToolHook`] | [`tool_hook`] |
//! | [`SignInPort`](crate::tools::servers) | `sign_in` |
//! | [`ApprovalPort`] | [`approvals`] |
//! | [`ApprovalMemory`] | [`approval_memory`] |
//! | [`ContextCompactorPort`] | [`compactor`] |
//! | [`SkillPort`] | [`skills`] |
//! | [`EventSink`] | [`sink`] |
//! | [`ChatChannel`] | [`channel`] |
//!
//! A rule that does not end within 60 seconds is broken; on a paused clock that takes no time. A port that blocks its
//! thread for ever blocks its test, too.
//!
//! [`FakeRuntime`] stands in for a runtime in tests of code that uses one. [`request`], [`invocation`], [`question`],
//! [`limit_question`] and [`condense_request`] make what a runtime gives to ports.

mod approvals;
mod asked;
mod channel;
mod fake_runtime;
mod memory;
mod provider;
mod rules;
#[cfg(feature = "mcp")]
mod sign_in;
mod tool_hook;

#[cfg(test)]
#[path = "testing/approvals_tests.rs"]
mod approvals_tests;

#[cfg(test)]
#[path = "testing/fake_runtime_tests.rs"]
mod fake_runtime_tests;

#[cfg(test)]
#[path = "testing/further_tests.rs"]
mod further_tests;

#[cfg(test)]
#[path = "testing/memory_tests.rs"]
mod memory_tests;

use crate::ModelName;
use crate::approvals::{ApprovalMemory, ApprovalPort};
use crate::events::EventSink;
use crate::hub::ChatChannel;
use crate::model::catalogue::ModelCatalogPort;
use crate::model::providers::KnownModels;
use crate::model::{ContextCompactorPort, LlmPort, Readiness};
use crate::store::{ArtifactStorePort, SessionStore, StoreOptions};
use crate::tools::ToolPort;
use crate::tools::hooks::ToolHook;
#[cfg(feature = "mcp")]
use crate::tools::servers::SignInPort;
use crate::tools::skills::SkillPort;
use std::future::Future;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;

pub use asked::{condense_request, limit_question, question};
pub use bob_actors::feed::contract::every_kind as events_of_every_kind;
/// What a model's port says piece by piece.
///
/// ```
/// use bob::ModelName;
/// use bob::testing::{Heard, request};
///
/// let model = ModelName::parse("my:model")?;
/// let (deltas, mut heard) = Heard::of(&request(&model, "hi"));
/// deltas.text("hel");
/// deltas.text("lo");
/// assert_eq!(heard.text(), "hello");
/// # Ok::<(), bob::sessions::InvalidId>(())
/// ```
pub use bob_actors::llm::Heard;
pub use bob_actors::llm::contract::{ModelWire, request};
pub use bob_actors::tools::contract::{Example, invocation};
pub use fake_runtime::{FakeRuntime, Operation};

/// Runs a future on a runtime of its own, for a test without tokio's macros.
///
/// # Panics
/// When the future does, or when the runtime cannot be made.
pub fn run<F: Future>(future: F) -> F::Output {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.unwrap_or_else(|error| panic!("no runtime for the test: {error}")).block_on(future)
}

/// Checks a store. Each rule has an empty store of its own, which `make` returns and which shares nothing with the others.
///
/// # Panics
/// When a rule is broken.
pub async fn store(make: impl Fn() -> Arc<dyn SessionStore>) {
    bob_actors::store::contract::store(make).await.assert();
}

/// Checks the inbox of a store that has one. Each rule has an empty store of its own, as for [`store`].
///
/// ```
/// use bob::store::MemoryStore;
/// use bob::testing;
///
/// testing::run(testing::inbox(|| MemoryStore::new()));
/// ```
///
/// # Panics
/// When a rule is broken.
pub async fn inbox(make: impl Fn() -> Arc<dyn SessionStore>) {
    bob_actors::store::contract::inbox_suite(make).await.assert();
}

/// Checks a store of artifacts. Each rule has an empty store of its own, which `make` returns and which shares nothing with the
/// others.
///
/// ```
/// use bob::store::MemoryArtifacts;
/// use bob::testing;
///
/// testing::run(testing::artifacts(|| MemoryArtifacts::new()));
/// ```
///
/// # Panics
/// When a rule is broken.
pub async fn artifacts(make: impl Fn() -> Arc<dyn ArtifactStorePort>) {
    bob_actors::store::contract::artifacts(make).await.assert();
}

/// Checks the owners and claims of a store in which several processes may each own sessions. `open` opens a store in a folder; each
/// rule has an empty folder of its own. [`store`] has the other rules.
///
/// ```
/// # #[cfg(feature = "sqlite")] {
/// use bob::store::{SessionStore, SqliteStore, StoreOptions};
/// use bob::testing;
/// use std::path::Path;
/// use std::sync::Arc;
///
/// fn open(folder: &Path, options: StoreOptions) -> Arc<dyn SessionStore> {
///     SqliteStore::open(&folder.join("sessions.db"), options).expect("an empty folder")
/// }
///
/// testing::run(testing::store_owners(open));
/// # }
/// ```
///
/// # Panics
/// When a rule is broken.
pub async fn store_owners(open: fn(&Path, StoreOptions) -> Arc<dyn SessionStore>) {
    bob_actors::store::contract::owners(open).await.assert();
}

/// Checks that what a store acknowledged is there after its process was killed, whenever that was, and that its sessions are
/// free then. There are 25 kills, or as many as the variable `BOB_TEST_STORE_KILLS` says. `examine` looks at the folder
/// after a kill, and panics when something in it is not as it must be.
///
/// The test program runs itself again for that, so this is called in a test of its own, whose path is `test`:
///
/// ```no_run
/// # use bob::store::{FileStore, SessionStore, StoreOptions};
/// # use bob::testing;
/// # use std::path::Path;
/// # use std::sync::Arc;
/// fn open(folder: &Path, options: StoreOptions) -> Arc<dyn SessionStore> {
///     FileStore::open(folder, options).expect("a store in the folder of the test")
/// }
///
/// #[test]
/// fn kills_cost_nothing() {
///     testing::run(testing::store_killed(concat!(module_path!(), "::kills_cost_nothing"), open, |_folder| ()));
/// }
/// ```
///
/// # Panics
/// When the rule is broken, or the program cannot be run again.
pub async fn store_killed(test: &str, open: fn(&Path, StoreOptions) -> Arc<dyn SessionStore>, examine: fn(&Path)) {
    bob_actors::store::contract::killed(test, open, examine).await;
}

/// Checks that an owner that is paused is known to live, and writes nothing when it goes on after its session was taken
/// over. `test` is as for [`store_killed`].
///
/// # Panics
/// When the rule is broken, or the program cannot be run again.
pub async fn store_paused(test: &str, open: fn(&Path, StoreOptions) -> Arc<dyn SessionStore>) {
    bob_actors::store::contract::paused(test, open).await;
}

/// Checks a store in files on a disk that is full: what is refused is not acknowledged, what was acknowledged stays, and with
/// room again all goes on. `test` is as for [`store_killed`].
///
/// # Panics
/// When the rule is broken, or the program cannot be run again.
pub async fn store_full_disk(test: &str, open: fn(&Path, StoreOptions) -> Arc<dyn SessionStore>) {
    bob_actors::store::contract::full_disk(test, open).await;
}

/// Checks a model's port. Each rule has a port of its own, which `make` returns; its model must answer any ordinary question.
///
/// ```
/// use bob::ModelName;
/// use bob::model::{ScriptedLlm, ScriptedReply};
/// use bob::testing;
/// use std::sync::Arc;
///
/// let name = ModelName::parse("scripted:m")?;
/// let make = || Arc::new(ScriptedLlm::replies(vec![ScriptedReply::text("hello")])) as _;
/// testing::run(testing::model(make, &name));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Panics
/// When a rule is broken.
pub async fn model(make: impl Fn() -> Arc<dyn LlmPort>, model: &ModelName) {
    bob_actors::llm::contract::model(make, model).await.assert();
}

/// Checks a model's port that speaks HTTP, against a provider on a loopback port that the suite plays: whole answers, answers
/// byte by byte, cut at every byte, held back while the call is dropped, statuses, and bytes that are no answer.
///
/// ```
/// # #[cfg(feature = "genai")] {
/// use bob::model::LlmPort;
/// use bob::testing::{self, ModelWire};
/// use bob::{ModelName, Providers};
/// use std::net::SocketAddr;
/// use std::sync::Arc;
///
/// fn port(address: SocketAddr) -> Arc<dyn LlmPort> {
///     let lab = Providers::new().endpoint("lab", format!("http://{address}/v1/"), None);
///     Arc::new(lab.build().expect("a port"))
/// }
///
/// let events = concat!(
///     "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"hi\"},\"finish_reason\":\"stop\"}]}\n\n",
///     "data: [DONE]\n\n",
/// );
/// let head = format!("HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ncontent-length: {}\r\n\r\n", events.len());
/// let (response, model) = (format!("{head}{events}").into_bytes(), ModelName::parse("lab:m").expect("a name"));
/// testing::run(testing::model_wire(&ModelWire { make: port, model, response, text: "hi".into() }));
/// # }
/// ```
///
/// # Panics
/// When a rule is broken.
pub async fn model_wire<F: Fn(SocketAddr) -> Arc<dyn LlmPort>>(of: &ModelWire<F>) {
    bob_actors::llm::contract::wire(of).await.assert();
}

/// Checks a catalogue of models. Each rule has a port of its own, which `make` returns; it must have a model that can be run.
///
/// # Panics
/// When a rule is broken.
pub async fn catalogue(make: impl Fn() -> Arc<dyn ModelCatalogPort>) {
    bob_actors::models::contract::catalogue(make).await.assert();
}

/// Checks what is known of single models. Each rule has a port of its own, which `make` returns; it must know something of
/// `model`.
///
/// # Panics
/// When a rule is broken.
pub async fn known_models(make: impl Fn() -> Arc<dyn KnownModels>, model: &ModelName) {
    provider::known_models(make, model).await.assert();
}

/// Checks a port that says whether a provider can be asked. Each rule has a port of its own, which `make` returns, and for which
/// this provider is ready within a minute, or will never be.
///
/// # Panics
/// When a rule is broken.
pub async fn readiness(make: impl Fn() -> Arc<dyn Readiness>, provider: &str) {
    provider::readiness(make, provider).await.assert();
}

/// Checks a port of tools. Each rule has a port of its own, which `make` returns. Calls are made with the arguments of the
/// examples, in sessions whose working folder is `folder`. Tools that may not be repeated are called once.
///
/// ```
/// use bob::testing;
/// use bob::tools::{Invocation, ToolError, tool};
/// use std::path::Path;
/// use std::sync::Arc;
///
/// #[derive(serde::Deserialize, bob::schemars::JsonSchema)]
/// #[schemars(crate = "bob::schemars")]
/// struct Words { text: String }
///
/// async fn count(words: Words, _call: Invocation) -> Result<usize, ToolError> {
///     Ok(words.text.len())
/// }
///
/// let make = || Arc::new(tool("my/count", "Counts the bytes of a text.", count).read_only()) as _;
/// let examples = [("my/count", serde_json::json!({"text": "four"}))];
/// testing::run(testing::tools(make, &examples, Path::new("/")));
/// ```
///
/// # Panics
/// When a rule is broken.
pub async fn tools(make: impl Fn() -> Arc<dyn ToolPort>, examples: &[Example], folder: &Path) {
    bob_actors::tools::contract::tools(make, examples, folder).await.assert();
}

/// Checks a hook that has a say in calls. Each rule has a hook of its own, which `make` returns. It is asked about calls of the
/// tools of the examples, with their arguments and with unusual ones; nothing is called.
///
/// # Panics
/// When a rule is broken.
pub async fn tool_hook(make: impl Fn() -> Arc<dyn ToolHook>, examples: &[Example]) {
    tool_hook::check(make, examples).await.assert();
}

/// Checks a port that shows the page of an authorization server. Each rule has a port of its own, which `make` returns.
///
/// # Panics
/// When a rule is broken.
#[cfg(feature = "mcp")]
pub async fn sign_in(make: impl Fn() -> Arc<dyn SignInPort>) {
    sign_in::check(make).await.assert();
}

/// Checks a port to a person. Each rule has a port of its own, which `make` returns, and which must decide
/// by itself: a test plays the person behind it.
///
/// # Panics
/// When a rule is broken.
pub async fn approvals(make: impl Fn() -> Arc<dyn ApprovalPort>) {
    approvals::check(make).await.assert();
}

/// Checks a memory of approvals: decisions belong to the tenant and the principal who made them. Each rule has an empty memory
/// of its own, which `make` returns. A decision is asked for as soon as `keep` has returned.
///
/// # Panics
/// When a rule is broken.
pub async fn approval_memory(make: impl Fn() -> Arc<dyn ApprovalMemory>) {
    memory::check(make).await.assert();
}

/// Checks a summariser. Each rule has a port of its own, which `make` returns.
///
/// # Panics
/// When a rule is broken.
pub async fn compactor(make: impl Fn() -> Arc<dyn ContextCompactorPort>) {
    bob_actors::compactor::contract::compactor(make).await.assert();
}

/// Checks a source of skills. Each rule has a port of its own, which `make` returns; it must have a skill for a session in
/// the folder `cwd`.
///
/// # Panics
/// When a rule is broken.
pub async fn skills(make: impl Fn() -> Arc<dyn SkillPort>, cwd: Option<String>) {
    bob_actors::skills::contract::skills(make, cwd).await.assert();
}

/// Checks a sink of events. Each rule has a sink of its own, which `make` returns.
///
/// # Panics
/// When a rule is broken.
pub async fn sink(make: impl Fn() -> Arc<dyn EventSink>) {
    bob_actors::feed::contract::sink(make).await.assert();
}

/// Checks a channel to a chat system. Each rule has a channel of its own, which `make` returns; messages are delivered to the chat
/// `chat_id`, which must be there. A test plays the chat system.
///
/// # Panics
/// When a rule is broken.
pub async fn channel(make: impl Fn() -> Arc<dyn ChatChannel>, chat_id: &str) {
    channel::check(make, chat_id).await.assert();
}
