//! The contract suites of the library, over the ports of this program.

use crate::ports::approvals::{Decided, OnThePhone};
use crate::ports::artifacts::Attic;
use crate::ports::model::{Digest, Scribe};
use crate::ports::store::Shelf;
use crate::ports::tools::{Arithmetic, Handbook};
use crate::ports::watching::Kept;
use bob::testing::{self, FakeRuntime};
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
fn the_double_of_the_library_stands_in_for_a_runtime() {
    let fake = FakeRuntime::new().answers("hello");
    let runtime: Arc<dyn AgentRuntime> = Arc::new(fake.clone());
    let answer = testing::run(runtime.ask("Say hello.")).expect("an answer");
    assert_eq!((answer.as_str(), fake.requests().len()), ("hello", 1));
}
