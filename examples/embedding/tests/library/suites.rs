//! The contract suites of the library, over the ports of this program.

use crate::ports::approvals::{Decided, OnThePhone};
use crate::ports::artifacts::Attic;
use crate::ports::chat::Board;
use crate::ports::further::{Fixed, Lab, Pages};
use crate::ports::model::{Awake, Digest, Scribe};
use crate::ports::store::Shelf;
use crate::ports::tools::{Arithmetic, Handbook, Thrifty};
use crate::ports::watching::Kept;
use crate::ports::wire::Wire;
use bob::model::LlmPort;
use bob::store::{SessionStore, SqliteStore, StoreOptions};
use bob::testing::{self, FakeRuntime, ModelWire};
use bob::{AgentRuntime, AgentRuntimeExt, ModelName};
use serde_json::json;
use std::path::Path;
use std::sync::Arc;

#[test]
fn a_store_of_ones_own_keeps_the_rules() {
    testing::run(testing::store(|| Arc::new(Shelf::default())));
}

#[test]
fn an_inbox_of_ones_own_keeps_the_rules() {
    testing::run(testing::inbox(|| Arc::new(Shelf::default())));
}

#[test]
fn artifacts_of_ones_own_keep_the_rules() {
    testing::run(testing::artifacts(|| Arc::new(Attic::default())));
}

#[test]
fn a_model_of_ones_own_keeps_the_rules() {
    let name = ModelName::parse("own:scribe").expect("a name");
    testing::run(testing::model(|| Arc::new(Scribe::default()), &name));
}

#[test]
fn a_model_of_ones_own_over_http_keeps_the_rules_of_the_wire() {
    let body = r#"{"text": "Good morning."}"#;
    let response = format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n{body}", body.len()).into_bytes();
    let (model, text) = (ModelName::parse("own:wire").expect("a name"), "Good morning.".to_owned());
    let make = |address| -> Arc<dyn LlmPort> { Arc::new(Wire(address)) };
    testing::run(testing::model_wire(&ModelWire { make, model, response, text }));
}

/// The rules of owners and of processes that end are for stores that several processes open, here that of the library.
fn open(folder: &Path, options: StoreOptions) -> Arc<dyn SessionStore> {
    SqliteStore::open(&folder.join("sessions.db"), options).expect("a database")
}

#[test]
fn a_store_of_several_processes_keeps_the_rules_of_owners() {
    testing::run(testing::store_owners(open));
}

#[test]
fn a_store_keeps_what_it_acknowledged_when_its_process_is_killed() {
    let test = concat!(module_path!(), "::a_store_keeps_what_it_acknowledged_when_its_process_is_killed");
    testing::run(testing::store_killed(test, open, |folder| assert!(folder.join("sessions.db").is_file())));
}

#[test]
fn a_store_knows_that_an_owner_which_is_paused_lives() {
    let test = concat!(module_path!(), "::a_store_knows_that_an_owner_which_is_paused_lives");
    testing::run(testing::store_paused(test, open));
}

#[test]
fn a_store_on_a_full_disk_keeps_what_it_acknowledged() {
    let test = concat!(module_path!(), "::a_store_on_a_full_disk_keeps_what_it_acknowledged");
    testing::run(testing::store_full_disk(test, open));
}

#[test]
fn a_catalogue_of_ones_own_keeps_the_rules() {
    testing::run(testing::catalogue(|| Arc::new(Fixed::default())));
}

#[test]
fn tools_of_ones_own_keep_the_rules() {
    let examples = [("own/add", json!({"a": 17, "b": 25}))];
    testing::run(testing::tools(|| Arc::new(Arithmetic), &examples, Path::new("/")));
}

#[test]
fn a_person_of_ones_own_keeps_the_rules() {
    testing::run(testing::approvals(|| Arc::new(OnThePhone::default())));
}

#[test]
fn a_memory_of_approvals_of_ones_own_keeps_the_rules() {
    testing::run(testing::approval_memory(|| Arc::new(Decided::default())));
}

#[test]
fn a_summariser_of_ones_own_keeps_the_rules() {
    testing::run(testing::compactor(|| Arc::new(Digest::default())));
}

#[test]
fn skills_of_ones_own_keep_the_rules() {
    testing::run(testing::skills(|| Arc::new(Handbook::default()), None));
}

#[test]
fn a_sink_of_ones_own_keeps_the_rules() {
    testing::run(testing::sink(|| Arc::new(Kept::default())));
}

#[test]
fn what_is_known_of_models_keeps_the_rules() {
    testing::run(testing::known_models(|| Arc::new(Lab), &ModelName::parse("lab:small").expect("a name")));
}

#[test]
fn a_provider_that_sleeps_keeps_the_rules() {
    testing::run(testing::readiness(|| Arc::new(Awake::never()), "asleep"));
}

#[test]
fn a_hook_of_ones_own_keeps_the_rules() {
    let examples = [("own/add", json!({"a": 17, "b": 25})), ("own/add", json!({"a": 1_000_000, "b": 0}))];
    testing::run(testing::tool_hook(|| Arc::new(Thrifty), &examples));
}

#[test]
fn pages_to_sign_in_at_keep_the_rules() {
    testing::run(testing::sign_in(|| Arc::new(Pages::default())));
}

#[test]
fn a_chat_system_of_ones_own_keeps_the_rules() {
    testing::run(testing::channel(|| Arc::new(Board::default()), "ops"));
}

#[test]
fn the_double_of_the_library_stands_in_for_a_runtime() {
    let fake = FakeRuntime::new().answers("hello");
    let runtime: Arc<dyn AgentRuntime> = Arc::new(fake.clone());
    let answer = testing::run(runtime.ask("Say hello.")).expect("an answer");
    assert_eq!((answer.as_str(), fake.requests().len()), ("hello", 1));
}
