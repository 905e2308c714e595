//! A call that an end of its turn interrupted: "cancelled" says that nothing happened, so whatever may have happened
//! is `outcome unknown`, whether or not it could be repeated.

use super::{Recover, TurnMessage};
use crate::chat::CallStatus;
use crate::ids::ToolName;
use crate::limits::Limits;
use crate::outcome::{EndReason, TranscriptEntry, TurnOutcome};
use crate::submission::TurnNews;
use crate::turn::tests::stories::{native, told};
use crate::turn::tests::world::{Question, World, answer, input, model};
use crate::turn_config::{OnRestart, TurnConfig};
use std::sync::Arc;

/// A turn in the middle of this call.
fn running(tool: &str) -> World {
    running_under(tool, OnRestart::Report)
}

fn running_under(tool: &str, on_restart: OnRestart) -> World {
    let mut world = World::new(TurnConfig { on_restart, ..TurnConfig::new(model()) });
    let turn_config = Arc::clone(&world.turn_config);
    world.say(TurnMessage::Start { input: Arc::new(input(1, "go", Limits::default())), turn_config });
    world.settle();
    world.llm(Ok(answer("", &[(tool, "{}")])));
    let is_call = |question: &Question| matches!(question, Question::Call(..) | Question::Ran(..));
    assert!(world.questions.iter().any(is_call), "the call runs");
    world
}

fn outcome(world: &World) -> &TurnOutcome {
    let ended = |news: &TurnNews| match news {
        TurnNews::Finished { outcome, .. } => Some(outcome.turn_id.as_str() == "t1"),
        _ => None,
    };
    match world.news.iter().find(|news| ended(news) == Some(true)) {
        Some(TurnNews::Finished { outcome, .. }) => outcome,
        _ => panic!("the turn has no end: {:?}", world.news),
    }
}

fn entry(world: &World) -> &TranscriptEntry {
    let session = world.turn.session().expect("the journal was read");
    // A turn that nobody here is owed is told in the session.
    match world.news.iter().any(|news| matches!(news, TurnNews::Finished { .. })) {
        true => &outcome(world).tool_transcript[0],
        false => &session.last.as_ref().expect("a turn has ended").tool_transcript[0],
    }
}

#[test]
fn an_interrupted_write_is_unknown_whether_or_not_it_could_be_repeated() {
    for tool in ["local__write", "local__idem"] {
        for reason in [EndReason::Cancelled, EndReason::TurnTimeout, EndReason::Shutdown] {
            let mut world = running(tool);
            world.say(TurnMessage::Stopped { reason, submission: None });
            let entry = entry(&world);
            assert_eq!(entry.status, CallStatus::Unknown, "{tool}, {reason:?}: {entry:?}");
            assert!(entry.result.starts_with("outcome unknown"), "{}", entry.result);
        }
    }
}

#[test]
fn one_that_only_reads_or_has_not_begun_is_cancelled() {
    let mut world = running("local__read");
    world.say(TurnMessage::Stopped { reason: EndReason::Cancelled, submission: None });
    assert_eq!(entry(&world).status, CallStatus::Cancelled);
    let world = told(native(), &["user go", "calls local__idem {}; local__write {\"b\":1}", "stop cancelled"]);
    let calls: Vec<_> = outcome(&world).tool_transcript.iter().map(|entry| entry.status).collect();
    assert_eq!(calls, [CallStatus::Unknown, CallStatus::Cancelled], "the second waited for the first");
}

#[test]
fn so_it_is_when_the_actor_was_killed_crashed_too_often_or_died_with_its_program() {
    for tool in ["local__write", "local__idem"] {
        for recover in [Recover::Close(EndReason::Cancelled), Recover::Close(EndReason::TurnTimeout), Recover::GiveUp] {
            let mut world = running(tool);
            world.crash();
            let turn_config = Arc::clone(&world.turn_config);
            world.say(TurnMessage::Wake { turn_config, recover });
            world.settle();
            assert_eq!(entry(&world).status, CallStatus::Unknown, "{tool}, {recover:?}");
        }
        let mut world = running(tool);
        world.crash();
        let turn_config = Arc::clone(&world.turn_config);
        world.say(TurnMessage::Start { input: Arc::new(input(2, "again", Limits::default())), turn_config });
        world.settle();
        let history = &world.turn.session().expect("it was read").history;
        let told = history.iter().find_map(|message| match &**message {
            crate::chat::Message::Tool { result } => Some(result.status),
            _ => None,
        });
        assert_eq!(told, Some(CallStatus::Unknown), "{tool}: the next prompt says so, too");
    }
}

#[test]
fn a_denial_of_a_call_that_may_have_run_before_a_crash_does_not_say_that_it_did_not() {
    let mut world = running_under("local__idem", OnRestart::Resume);
    world.crash();
    let turn_config = Arc::clone(&world.turn_config);
    world.say(TurnMessage::Wake { turn_config, recover: Recover::Continue });
    // It may run again, and the tools room no longer lets it.
    while let Some(at) = world.questions.iter().position(|q| q.is_quick() && !matches!(q, Question::Check(..))) {
        let question = world.questions.remove(at);
        if let Some(message) = world.works(&question) {
            world.say(message);
        }
    }
    let at = world.questions.iter().position(|q| matches!(q, Question::Check(..))).expect("it is judged again");
    let Question::Check(ticket, check) = world.questions.remove(at) else { unreachable!() };
    assert_eq!(check.call.name, ToolName::new("local/idem"));
    let verdict = Some(crate::tools::Verdict::Deny { reason: "the policy has changed".into() });
    world.say(TurnMessage::Checked { ticket, verdict });
    world.settle();
    world.llm(Ok(answer("done", &[])));
    let entry = &outcome(&world).tool_transcript[0];
    assert_eq!(entry.status, CallStatus::Unknown, "{entry:?}");
    assert!(entry.result.contains("the policy has changed"), "{}", entry.result);
}
