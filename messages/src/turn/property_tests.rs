//! What must hold whatever arrives, in whatever order: one test for each promise.
//! The runs are made by the world of `chaos`; it fails where a promise is broken.

use super::chance::{Setup, decisions, setups};
use super::chaos::{Chaos, Watch, load};
use super::strict::MAX_DEPTH;
use super::world::{Question, World, answer, input, model};
use super::{Brief, Limits, TurnMessage};
use crate::chat::{CallStatus, FinishReason, GuardReason};
use crate::llm::LlmRequest;
use crate::store::{Fact, Record};
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::{Config, TestRunner};
use std::collections::BTreeSet;
use std::sync::Arc;

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, ..ProptestConfig::default() })]

    #[test]
    fn everybody_is_told_exactly_once(setup in setups(), decisions in decisions()) {
        Chaos::run(setup, &decisions, Watch::ToldOnce);
    }

    #[test]
    fn a_strict_provider_accepts_the_history_at_every_moment(setup in setups(), decisions in decisions()) {
        Chaos::run(setup, &decisions, Watch::Paired);
    }

    #[test]
    fn no_counter_exceeds_its_guard(setup in setups(), decisions in decisions()) {
        Chaos::run(setup, &decisions, Watch::Guards);
    }

    #[test]
    fn the_fold_of_the_journal_is_the_live_session(setup in setups(), decisions in decisions()) {
        Chaos::run(setup, &decisions, Watch::FoldIsLive);
    }

    #[test]
    fn a_call_with_side_effects_runs_once_and_after_its_intent(setup in setups(), decisions in decisions()) {
        Chaos::run(setup, &decisions, Watch::EffectsOnce);
    }

    #[test]
    fn what_is_out_of_place_changes_nothing(setup in setups(), decisions in decisions()) {
        Chaos::run(setup, &decisions, Watch::OutOfPlace);
    }

    #[test]
    fn turns_are_never_interleaved(setup in setups(), decisions in decisions()) {
        Chaos::run(setup, &decisions, Watch::OneTurn);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, ..ProptestConfig::default() })]

    #[test]
    fn saving_and_loading_between_two_messages_changes_nothing(setup in setups(), decisions in decisions()) {
        Chaos::run(setup, &decisions, Watch::SavedAndLoaded);
    }
}

#[test]
fn b5_the_deepest_arguments_can_be_written_down_and_read_back() {
    let (open, close) = ("[".repeat(MAX_DEPTH - 1), "]".repeat(MAX_DEPTH - 1));
    let arguments = format!("{{\"a\":{open}1e-7{close}}}");
    let mut world = World::new(Brief::new(model()));
    let brief = Arc::clone(&world.brief);
    world.say(TurnMessage::Start { input: Arc::new(input(1, "go", Limits::default())), brief });
    world.settle();
    world.llm(Ok(answer("", &[("local__write", &arguments)])));
    load(&world.turn);
    world.tool("c00000001", CallStatus::Ok, "done");
    load(&world.turn);
    for question in &world.questions {
        let Question::Infer(_, request) = question else { continue };
        let text = serde_json::to_string(request).expect("a request is JSON");
        assert_eq!(serde_json::from_str::<LlmRequest>(&text).expect("it reads back"), **request);
    }
    world.llm(Ok(answer("fine", &[])));
    assert!(world.stored.iter().any(|record| matches!(record.fact, Fact::Intent { .. })));
    for record in &world.stored {
        let text = serde_json::to_string(record).expect("a record is JSON");
        assert_eq!(serde_json::from_str::<Record>(&text).expect("it reads back"), **record);
    }
}

/// The properties above would hold of a world in which nothing happens.
#[test]
fn the_chaos_reaches_every_corner() {
    let mut runner = TestRunner::deterministic();
    let cases: (BoxedStrategy<Setup>, BoxedStrategy<Vec<u64>>) = (setups().boxed(), decisions().boxed());
    let mut seen = BTreeSet::new();
    for _ in 0..Config::default().cases {
        let (setup, decisions) = cases.new_tree(&mut runner).expect("a case").current();
        let chaos = Chaos::run(setup, &decisions, Watch::OneTurn);
        for outcome in &chaos.outcomes {
            seen.insert(format!("{:?}", outcome.finish_reason));
            seen.extend(outcome.guard_reason.map(|guard| format!("{guard:?}")));
            seen.extend(outcome.tool_transcript.iter().map(|entry| format!("call {:?}", entry.status)));
        }
        for record in &chaos.world.stored {
            let kind = serde_json::to_value(record).expect("a record is JSON")["kind"].to_string();
            seen.insert(kind);
            if let Fact::ApprovalDecided { allowed, .. } = &record.fact {
                seen.insert(format!("allowed {allowed}"));
            }
        }
    }
    use FinishReason as F;
    use GuardReason as G;
    let reasons =
        [F::Final, F::GuardExceeded, F::Cancelled, F::Suspended, F::Error].map(|reason| format!("{reason:?}"));
    let guards = [
        G::MaxSteps,
        G::MaxToolCalls,
        G::MaxConsecutiveErrors,
        G::MaxIdenticalCalls,
        G::MaxTotalTokens,
        G::TurnTimeout,
    ];
    let guards = guards.map(|guard| format!("{guard:?}"));
    use CallStatus as C;
    let calls = [C::Ok, C::Error, C::Denied, C::Unknown, C::Cancelled].map(|status| format!("call {status:?}"));
    let kinds =
        ["malformed", "intent", "steered", "resumed", "outcome", "approval_asked"].map(|kind| format!("{kind:?}"));
    let decided = ["allowed true", "allowed false"].map(str::to_owned);
    let wanted = reasons.iter().chain(&guards).chain(&calls).chain(&kinds).chain(&decided);
    let missing: Vec<_> = wanted.filter(|wanted| !seen.contains(*wanted)).collect();
    assert!(missing.is_empty(), "never seen: {missing:?}");
}
