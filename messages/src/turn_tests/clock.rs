//! The turn's own time: what is left of it for the model, whatever the clock on the wall shows.

use super::world::{Question, World, answer, input, model};
use crate::approvals::Decision;
use crate::chat::CallStatus;
use crate::ids::ResumeToken;
use crate::input::{ApprovalsMode, TurnInput};
use crate::limits::Limits;
use crate::outcome::TurnOutcome;
use crate::store::Fact;
use crate::submission::TurnNews;
use crate::tools::{ToolOutput, ToolReturn};
use crate::turn::{Effect, Moment, Recover, TurnMessage};
use crate::turn_config::{OnRestart, TurnConfig};
use std::sync::Arc;

const HOUR_MS: i64 = 3_600_000;
const LIMITS: Limits = Limits {
    max_steps: 12,
    max_tool_calls: 8,
    max_consecutive_errors: 2,
    max_identical_calls: 3,
    max_total_tokens: 0,
    max_cost: crate::models::Cost::ZERO,
    turn_timeout_ms: 90_000,
    progress_timeout_ms: 0,
    tool_timeout_ms: 15_000,
    approval_timeout_ms: 600_000,
    suspend_timeout_ms: 7 * 24 * 3_600_000,
};

/// A world with two clocks: one on the wall, and one that only goes forward.
struct Clocks {
    world: World,
    wall: i64,
    ticks: u64,
    /// What was left of the turn at each question to the model.
    left: Vec<u64>,
}

impl Clocks {
    fn new(on_restart: OnRestart) -> Self {
        let world = World::new(TurnConfig { on_restart, ..TurnConfig::new(model()) });
        Self { world, wall: 1_700_000_000_000, ticks: 0, left: Vec::new() }
    }

    /// So much time goes by.
    fn pass(&mut self, ms: u64) {
        self.wall += i64::try_from(ms).unwrap();
        self.ticks += ms;
    }

    fn say(&mut self, message: TurnMessage) {
        for effect in self.world.turn.apply(Moment { wall: self.wall, ticks: self.ticks }, message) {
            if let Effect::Infer { remaining_ms, .. } = &effect {
                self.left.push(*remaining_ms);
            }
            self.world.keep(effect);
        }
        while let Some(at) = self.world.questions.iter().position(Question::is_quick) {
            let question = self.world.questions.remove(at);
            if let Some(message) = self.world.works(&question) {
                self.say(message);
            }
        }
    }

    fn start(&mut self, number: u32, approvals: ApprovalsMode) {
        let input = TurnInput { approvals, ..input(number, "go", LIMITS) };
        let turn_config = Arc::clone(&self.world.turn_config);
        self.say(TurnMessage::Start { input: Arc::new(input), turn_config });
    }

    fn llm(&mut self, text: &str, calls: &[(&str, &str)]) {
        let is = |question: &Question| matches!(question, Question::Infer(..));
        let at = self.world.questions.iter().position(is).expect("the model was asked");
        let Question::Infer(ticket, _) = self.world.questions.remove(at) else { unreachable!() };
        self.say(TurnMessage::ParseAction { ticket, result: Ok(Arc::new(answer(text, calls))) });
    }

    fn tool(&mut self, id: &str) {
        let returned = ToolReturn { status: CallStatus::Ok, output: ToolOutput::text("done"), duration_ms: 1 };
        let message = self.world.returns(id, returned);
        self.say(message);
    }

    /// Allows the call that a person was asked about.
    fn allow(&mut self) {
        let asked = self.world.news.iter().rev().find_map(|news| match news {
            TurnNews::Paused { question, .. } => Some(question.approval_id.clone()),
            _ => None,
        });
        let approval = asked.expect("a person is asked");
        self.say(TurnMessage::Decided { approval, decision: Box::new(Decision::AllowOnce), asker: None });
    }

    fn outcome(&self) -> &TurnOutcome {
        let ends = self.world.news.iter().rev().find_map(|news| match news {
            TurnNews::Finished { outcome, .. } => Some(outcome),
            _ => None,
        });
        ends.expect("the turn has ended")
    }

    fn crash(&mut self) {
        self.world.crash();
    }
}

#[test]
fn the_time_in_which_a_person_was_asked_does_not_count() {
    let mut clocks = Clocks::new(OnRestart::Report);
    clocks.start(1, ApprovalsMode::Wait);
    clocks.pass(1_000);
    clocks.llm("", &[("local__read", "{}"), ("local__ask", "{}")]);
    clocks.pass(HOUR_MS.unsigned_abs());
    // What was asked beside the person comes back, and the person is still asked.
    clocks.tool("1");
    clocks.pass(500);
    clocks.allow();
    clocks.pass(2_000);
    clocks.tool("2");
    assert_eq!(clocks.left, [90_000, 87_000], "a second before the question, two behind it");
    clocks.llm("done", &[]);
    assert_eq!(clocks.outcome().duration_ms, 3_603_500, "which the turn took all the same");
}

#[test]
fn the_time_for_a_summary_is_the_turns_own_and_not_that_of_the_person_who_was_asked() {
    let mut clocks = Clocks::new(OnRestart::Report);
    clocks.world.capabilities.context_tokens = 4_000;
    clocks.start(1, ApprovalsMode::Wait);
    clocks.llm(&"x".repeat(40_000), &[]);
    clocks.start(2, ApprovalsMode::Wait);
    clocks.llm("", &[("local__ask", "{}")]);
    // Longer than the whole turn may take.
    clocks.pass(10 * 60_000);
    clocks.allow();
    clocks.pass(10_000);
    let output = ToolOutput::text("z".repeat(40_000));
    let message = clocks.world.returns("1", ToolReturn { status: CallStatus::Ok, output, duration_ms: 1 });
    clocks.say(message);
    let within = clocks.world.questions.iter().find_map(|question| match question {
        Question::Condense(_, request) => Some(request.within_ms),
        _ => None,
    });
    assert_eq!(within, Some(40_000), "half of what is left");
}

#[test]
fn a_person_who_is_asked_at_the_end_of_a_run_is_not_waited_for() {
    let mut clocks = Clocks::new(OnRestart::Report);
    clocks.start(1, ApprovalsMode::Suspend);
    clocks.pass(1_000);
    clocks.llm("", &[("local__read", "{}"), ("local__ask", "{}")]);
    clocks.pass(4_000);
    clocks.tool("1");
    let suspended = clocks.outcome().clone();
    assert_eq!(suspended.duration_ms, 5_000);
    clocks.pass(HOUR_MS.unsigned_abs());
    let turn_config = Arc::clone(&clocks.world.turn_config);
    let reply = Box::new(crate::input::ResumeReply::Decision(Decision::AllowOnce));
    let token = ResumeToken::new(suspended.token.expect("a token").as_str());
    clocks.say(TurnMessage::Resume {
        submission: crate::ids::TurnId::new("t2"),
        token,
        reply,
        parent: None,
        turn_config,
    });
    clocks.pass(1_000);
    clocks.tool("2");
    assert_eq!(clocks.left, [90_000, 89_000], "each run has its own time");
}

#[test]
fn a_wall_clock_that_jumps_changes_nothing() {
    for jump in [HOUR_MS, -HOUR_MS] {
        let mut clocks = Clocks::new(OnRestart::Report);
        clocks.start(1, ApprovalsMode::Deny);
        clocks.pass(1_000);
        clocks.llm("", &[("local__write", "{}")]);
        clocks.wall += jump;
        clocks.pass(4_000);
        clocks.tool("1");
        assert_eq!(clocks.left, [90_000, 85_000], "{jump}");
        clocks.llm("done", &[]);
        let outcome = clocks.outcome();
        assert_eq!(outcome.duration_ms, 5_000, "{jump}");
        let told = clocks.world.folded().last.expect("it is in the journal").duration_ms;
        assert_eq!(told, 5_000, "a reader of the journal is told the same");
    }
}

#[test]
fn a_turn_that_another_process_left_has_its_whole_time() {
    let mut clocks = Clocks::new(OnRestart::Resume);
    clocks.start(1, ApprovalsMode::Deny);
    clocks.pass(80_000);
    clocks.llm("", &[("local__read", "{}")]);
    clocks.crash();
    // A clock of another process begins anywhere.
    (clocks.wall, clocks.ticks) = (clocks.wall + HOUR_MS, 7);
    clocks.start(2, ApprovalsMode::Deny);
    clocks.pass(3_000);
    clocks.tool("1");
    assert_eq!(clocks.left, [90_000, 87_000]);
    clocks.llm("done", &[]);
    let first = clocks.world.folded().last.expect("it has ended");
    assert_eq!((first.turn_id.as_str(), first.duration_ms), ("t1", 3_000), "the time between does not count");
    assert_eq!(clocks.left[2], 90_000, "and the next one has its own");
}

#[test]
fn an_actor_that_is_started_again_goes_on_with_the_time_of_the_one_before() {
    let mut clocks = Clocks::new(OnRestart::Report);
    clocks.start(1, ApprovalsMode::Deny);
    clocks.pass(30_000);
    clocks.llm("", &[("local__read", "{}")]);
    clocks.crash();
    clocks.world.turn.has_run(50_000, 30_000);
    let turn_config = Arc::clone(&clocks.world.turn_config);
    clocks.say(TurnMessage::Wake { turn_config, recover: Recover::Continue });
    clocks.pass(1_000);
    clocks.tool("1");
    assert_eq!(clocks.left, [90_000, 59_000]);
    clocks.llm("done", &[]);
    assert_eq!(clocks.outcome().duration_ms, 51_000);
}

#[test]
fn an_interrupted_call_tells_how_long_it_ran_and_what_it_had_put_out() {
    let mut clocks = Clocks::new(OnRestart::Report);
    clocks.start(1, ApprovalsMode::Deny);
    clocks.llm("", &[("local__write", "{}")]);
    clocks.pass(4_020);
    let runs = clocks.world.questions.iter().find_map(|question| match question {
        Question::Call(ticket, _) => Some(*ticket),
        _ => None,
    });
    let ticket = runs.expect("the call runs");
    clocks.say(TurnMessage::SaidSoFar { ticket, output: "12 of 40 files".to_owned() });
    let reason = crate::outcome::EndReason::Cancelled;
    clocks.say(TurnMessage::Stopped { reason, submission: None });
    let entry = &clocks.outcome().tool_transcript[0];
    assert_eq!((entry.status, entry.duration_ms), (CallStatus::Unknown, 4_020));
    let text =
        "outcome unknown: the turn ended while the tool was running, after 4.0 s; its output so far:\n12 of 40 files";
    assert_eq!(entry.result, text);
}

#[test]
fn an_older_journal_whose_outcomes_say_no_duration_has_that_of_its_times() {
    let mut clocks = Clocks::new(OnRestart::Report);
    clocks.start(1, ApprovalsMode::Deny);
    clocks.pass(2_500);
    clocks.llm("done", &[]);
    for record in &mut clocks.world.stored {
        if let Fact::Outcome(ended) = &mut Arc::make_mut(record).fact {
            assert_eq!(ended.duration_ms.take(), Some(2_500));
        }
    }
    assert_eq!(clocks.world.folded().last.expect("it has ended").duration_ms, 2_500);
}
