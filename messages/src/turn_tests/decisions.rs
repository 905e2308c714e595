//! A decision is about the call that it names, whenever it comes: beside a token, in the last moment of a run, to a
//! session that was only looked at.

use super::world::{Question, World, answer};
use crate::approvals::{Decision, Heard};
use crate::ids::{ApprovalId, RequestId, Ticket, TurnId};
use crate::input::{ApprovalsMode, ResumeReply};
use crate::options::{Change, Configuring, OptionsPatch, SessionChange};
use crate::outcome::EndReason;
use crate::replay::replay;
use crate::store::{Fact, StoreError};
use crate::submission::TurnNews;
use crate::tools::{Risk, Verdict};
use crate::turn::tests::stories::{native, told};
use crate::turn::{Recover, TurnMessage};
use crate::turn_config::{OnRestart, TurnConfig};
use std::sync::Arc;

const FIRST: &str = "s-c00000001";
const SECOND: &str = "s-c00000002";

fn world(approvals: ApprovalsMode, calls: &str) -> World {
    told(crate::turn::tests::stories::Setup { approvals, ..native() }, &["user go", calls])
}

/// Somebody who knows the token says something; under which name.
fn resumes(world: &mut World, name: &str, reply: ResumeReply) {
    let open = world.turn.session().and_then(|session| session.open.as_ref()).expect("an open turn");
    let token = open.suspended.as_ref().expect("it is suspended").token.clone();
    let (submission, turn_config) = (TurnId::new(name), Arc::clone(&world.turn_config));
    world.say(TurnMessage::Resume { submission, token, reply: Box::new(reply), parent: None, turn_config });
    world.settle();
}

fn decides(approval: &str) -> TurnMessage {
    let (approval, decision) = (ApprovalId::new(approval), Box::new(Decision::AllowOnce));
    TurnMessage::Decided { approval, decision, asker: Some(Ticket(1)) }
}

/// Whether the last decision counted.
fn counted(world: &World) -> bool {
    let last = world.news.iter().rev().find_map(|news| match news {
        TurnNews::Decided { heard, .. } => Some(*heard == Heard::Counts),
        _ => None,
    });
    last.expect("it is told whether it counts")
}

/// Somebody changes the options of a session that no actor of this process knows yet.
fn changes_options(world: &mut World) {
    let agent = Change::Set("ada".to_owned());
    let change = SessionChange::Patch(Box::new(OptionsPatch { agent, ..OptionsPatch::default() }));
    let asked = Arc::new(Configuring { request_id: RequestId::new("change"), change });
    world.say(TurnMessage::Configure { asked, turn_config: Arc::clone(&world.turn_config) });
}

fn is_refused(world: &World, name: &str) -> bool {
    let refused = |news: &TurnNews| matches!(news, TurnNews::Refused { submission, .. } if submission.as_str() == name);
    world.news.iter().any(refused)
}

fn decisions(world: &World) -> Vec<&str> {
    let decided = world.stored.iter().filter_map(|record| match &record.fact {
        Fact::ApprovalDecided { approval, .. } => Some(approval.as_str()),
        _ => None,
    });
    decided.collect()
}

#[test]
fn a_decision_beside_a_token_is_about_the_call_it_names() {
    let mut world = world(ApprovalsMode::Suspend, "calls local__ask {\"a\":1}; local__ask {\"a\":2}");
    let about = |name: &str| ResumeReply::Decided { approval: ApprovalId::new(name), decision: Decision::AllowOnce };
    resumes(&mut world, "nobody's", about("s-c00000009"));
    assert!(is_refused(&world, "nobody's"));
    resumes(&mut world, "second", about(SECOND));
    assert_eq!((decisions(&world), &world.dispatched), (vec![SECOND], &vec!["c00000002".to_owned()]));
    world.tool("2", crate::chat::CallStatus::Ok, "done");
    // The other one is asked about still, and the plain decision is about it.
    resumes(&mut world, "first", ResumeReply::Decision(Decision::AllowOnce));
    assert_eq!((decisions(&world), world.dispatched.len()), (vec![SECOND, FIRST], 2));
    assert_eq!(replay(&world.stored).map(|same| same.records), Ok(world.stored.len()));
}

#[test]
fn a_decision_about_a_call_is_no_answer_to_the_question_beside_it() {
    let calls = "calls ask_user {\"question\":\"which?\"}; local__ask {\"a\":2}";
    let mut world = world(ApprovalsMode::Suspend, calls);
    let records = world.stored.len();
    let said = ResumeReply::Decided { approval: ApprovalId::new(SECOND), decision: Decision::AllowOnce };
    resumes(&mut world, "early", said);
    assert!(is_refused(&world, "early"));
    assert_eq!((world.stored.len(), world.dispatched.len()), (records, 0), "nothing is written and nothing runs");
    resumes(&mut world, "answer", ResumeReply::Answer("red".into()));
    resumes(&mut world, "then", ResumeReply::Decision(Decision::AllowOnce));
    assert_eq!(world.dispatched, ["c00000002"]);
    assert_eq!(replay(&world.stored).map(|same| same.records), Ok(world.stored.len()));
}

#[test]
fn a_decision_right_behind_an_answer_is_read_back_as_two_things() {
    let calls = "calls ask_user {\"question\":\"which?\"}; local__ask {\"a\":2}";
    let mut world = world(ApprovalsMode::Suspend, calls);
    let open = world.turn.session().and_then(|session| session.open.as_ref()).expect("an open turn");
    let token = open.suspended.as_ref().expect("it is suspended").token.clone();
    let (submission, turn_config) = (TurnId::new("silence"), Arc::clone(&world.turn_config));
    let reply = Box::new(ResumeReply::Answer(String::new()));
    world.say(TurnMessage::Resume { submission, token, reply, parent: None, turn_config });
    // The turn is being prepared again, and hears the decision.
    world.say(decides(SECOND));
    assert!(counted(&world));
    world.settle();
    assert_eq!(world.dispatched, ["c00000002"]);
    assert_eq!(replay(&world.stored).map(|same| same.records), Ok(world.stored.len()));
}

#[test]
fn a_decision_in_the_last_moment_of_a_run_leaves_the_token_its_call() {
    let mut world = world(ApprovalsMode::Suspend, "calls local__read {}; local__ask {\"a\":1}; local__ask {\"a\":2}");
    let returned = world.returns("1", crate::tools::ToolReturn::note(crate::chat::CallStatus::Ok, "read"));
    world.say(returned);
    let ends = |question: &Question| matches!(question, Question::Own(TurnMessage::Done { .. }));
    assert!(world.questions.iter().any(ends), "the run is about to end");
    world.say(decides("s-c00000002"));
    assert!(!counted(&world));
    world.settle();
    // Whoever is told of the suspension is asked about the first of them.
    resumes(&mut world, "token", ResumeReply::Decision(Decision::AllowOnce));
    assert_eq!((decisions(&world), &world.dispatched[1..]), (vec![SECOND], &["c00000002".to_owned()][..]));
}

#[test]
fn a_session_that_is_only_looked_at_keeps_its_question_for_whoever_goes_on_with_it() {
    for is_early in [false, true] {
        let mut world = world(ApprovalsMode::Wait, "calls local__ask {\"a\":1}");
        let input = Arc::clone(&world.turn.session().and_then(|session| session.open.as_ref()).unwrap().input);
        world.crash();
        let records = world.stored.len();
        changes_options(&mut world);
        if is_early {
            world.say(decides(FIRST));
        }
        world.settle();
        if !is_early {
            world.say(decides(FIRST));
        }
        assert!(!counted(&world), "nothing runs that would hear it");
        assert_eq!(world.stored.len(), records + 1, "the change, and nothing of the turn");
        // Whoever decides says that it is to go on.
        let turn_config = Arc::new(TurnConfig { on_restart: OnRestart::Resume, ..(*world.turn_config).clone() });
        world.say(TurnMessage::Start { input, turn_config });
        world.say(decides(FIRST));
        world.settle();
        assert!(counted(&world));
        assert_eq!(world.dispatched, ["c00000001"]);
    }
}

#[test]
fn a_decision_whose_journal_cannot_be_read_is_not_said_to_be_about_nothing() {
    let mut world = world(ApprovalsMode::Wait, "calls local__ask {\"a\":1}");
    let input = Arc::clone(&world.turn.session().and_then(|session| session.open.as_ref()).unwrap().input);
    world.crash();
    let turn_config = Arc::new(TurnConfig { on_restart: OnRestart::Resume, ..(*world.turn_config).clone() });
    world.say(TurnMessage::Start { input, turn_config });
    world.say(decides(FIRST));
    let Some(Question::Claim(ticket, _)) = world.questions.pop() else { panic!("the journal is read") };
    let result = Err(StoreError::Unavailable("no disk".into()));
    world.say(TurnMessage::Loaded { ticket, result });
    let heard = world.news.iter().find_map(|news| match news {
        TurnNews::Decided { heard, .. } => Some(*heard),
        _ => None,
    });
    assert_eq!(heard, Some(Heard::NotLive), "the question may be open");
}

#[test]
fn a_turn_that_is_only_looked_at_can_be_cancelled_and_its_caller_is_told() {
    let mut world = world(ApprovalsMode::Wait, "calls local__ask {\"a\":1}");
    world.crash();
    changes_options(&mut world);
    world.settle();
    let submission = TurnId::new("t1");
    world.say(TurnMessage::Withdrawn { submission: submission.clone() });
    // The actor is stopped before it has written the end down.
    world.say(TurnMessage::Stopped { reason: EndReason::Shutdown, submission: None });
    let is_told = |news: &TurnNews| matches!(news, TurnNews::Finished { submission: of, .. } if *of == submission);
    assert!(world.news.iter().any(is_told));
    world.settle();
    assert!(world.folded().open.is_none(), "it is closed in the journal");
}

#[test]
fn each_question_has_a_name_of_its_own_also_where_the_ones_before_were_lost() {
    let mut world = world(ApprovalsMode::Wait, "calls local__ask {\"a\":1}");
    let answered = |world: &World| world.stored.iter().position(|record| matches!(record.fact, Fact::Answered(_)));
    let kept = answered(&world).expect("the model has answered");
    world.say(decides(FIRST));
    let is_check = |question: &Question| matches!(question, Question::Check(..));
    let at = world.questions.iter().position(is_check).expect("it is judged again");
    let Question::Check(ticket, _) = world.questions.remove(at) else { unreachable!() };
    let verdict = Verdict::Ask { risk: Risk::High, reason: "the tool has changed".into(), tool: Arc::default() };
    world.say(TurnMessage::Checked { ticket, verdict: Some(verdict) });
    // None of it was durable, and the next owner counts its calls from where the journal ends.
    world.crash();
    world.stored.truncate(kept);
    world.say(TurnMessage::Wake { turn_config: Arc::clone(&world.turn_config), recover: Recover::Continue });
    world.settle();
    world.llm(Ok(answer("", &[("local__ask", "{\"a\":7}")])));
    let asked = world.news.iter().filter_map(|news| match news {
        TurnNews::Paused { question, .. } => Some(question.approval_id.as_str()),
        _ => None,
    });
    assert_eq!(asked.collect::<Vec<_>>(), [FIRST, "s-c00000001.2", "s-c00000001-2"]);
}
