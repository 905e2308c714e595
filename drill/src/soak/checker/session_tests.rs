use super::*;
use crate::soak::checker::evidence::EndTold;
use bob_messages::chat::{StopReason, ToolCall, ToolResult};
use bob_messages::ids::{CallId, ModelName, RecordId, RequestId, ResumeToken, SessionId, ToolName, TurnId};
use bob_messages::input::TurnInput;
use bob_messages::store::{Answered, FORMAT, StepCost};
use bob_messages::tools::{CallTraits, ToolOutput};
use serde_json::json;

/// A turn with one side effect: its reports and its records.
struct Story {
    heard: SessionReports,
    facts: Vec<(Option<&'static str>, Fact)>,
    effects: HashMap<String, u32>,
    kills: Vec<u64>,
}

fn input(turn: &str, request: &str) -> Fact {
    let request_id = Some(RequestId::new(request));
    let input = TurnInput::bare(TurnId::new(turn), ResumeToken::new("token"), Vec::new());
    Fact::Input(Arc::new(TurnInput { request_id, ..input }))
}

fn model() -> ModelName {
    ModelName::parse("soak:scripted").unwrap()
}

fn called(token: &str) -> Fact {
    let cost = StepCost {
        usage: None,
        prompt_bytes: 0,
        stop_reason: StopReason::ToolCalls,
        response_id: None,
        model: model(),
        latency_ms: 0,
        cost: None,
    };
    let call = ToolCall {
        id: CallId::new("c1"),
        name: ToolName::new("mcp/h0/append"),
        arguments: json!({ "path": "effects.log", "line": token }).into(),
        argument_bytes: 0,
        signatures: Vec::new(),
    };
    Fact::Answered(Box::new(Answered::bare("", vec![Arc::new(call)], cost)))
}

fn intent() -> Fact {
    Fact::Intent { call: CallId::new("c1"), traits: CallTraits { read_only: false, idempotent: false }, task: None }
}

fn result() -> Fact {
    Fact::Result(Arc::new(ToolResult {
        call: CallId::new("c1"),
        name: ToolName::new("mcp/h0/append"),
        status: CallStatus::Ok,
        output: ToolOutput::text("appended"),
        duration_ms: 1,
    }))
}

fn outcome(content: &str) -> Fact {
    let content = content.to_owned();
    Fact::Outcome(Box::new(Ended { content, ..Ended::new(FinishReason::Final) }))
}

fn answer(turn: &str, request: &str, content: &str) -> Answer {
    Answer {
        session: "s0".to_owned(),
        request: request.to_owned(),
        turn: turn.to_owned(),
        reason: FinishReason::Final,
        content: content.to_owned(),
        saved: true,
        steps: 2,
        calls: vec![("c1".to_owned(), CallStatus::Ok)],
        error: None,
        took_us: 5_000,
        cancel: None,
    }
}

fn end(at: u64) -> EndTold {
    EndTold { at, turn: "t1".to_owned(), saved: true }
}

impl Story {
    fn good() -> Self {
        let turn = Some("t1");
        Self {
            heard: SessionReports {
                asked: vec![(10, "s0t0".to_owned())],
                answers: vec![(20, answer("t1", "s0t0", "done"))],
                refused: Vec::new(),
                ended: vec![end(20)],
                worked: Vec::new(),
            },
            facts: vec![
                (turn, input("t1", "s0t0")),
                (turn, Fact::Started { model: model(), selected: None }),
                (turn, called("s0t0c0")),
                (turn, intent()),
                (turn, result()),
                (turn, outcome("done")),
            ],
            effects: HashMap::from([("s0t0c0".to_owned(), 1)]),
            kills: Vec::new(),
        }
    }

    fn records(&self) -> Vec<Arc<Record>> {
        let record = |(index, (turn, fact)): (usize, &(Option<&str>, Fact))| {
            let version = index as u64 + 1;
            Arc::new(Record {
                format: FORMAT,
                id: RecordId::numbered(1, version),
                session: SessionId::parse("s0").unwrap(),
                version,
                epoch: 1,
                turn: turn.map(TurnId::new),
                at: 0,
                fact: fact.clone(),
            })
        };
        self.facts.iter().enumerate().map(record).collect()
    }

    fn flaws(&self) -> Vec<Flaw> {
        self.flaws_of(&self.records())
    }

    fn flaws_of(&self, records: &[Arc<Record>]) -> Vec<Flaw> {
        let (heard, effects, kills) = (&self.heard, &self.effects, &self.kills);
        let evidence = SessionEvidence { name: "s0", has_events: true, heard, records, effects, kills, is_cut: false };
        let mut flaws: Vec<Flaw> = check(&evidence).into_iter().map(|(flaw, _)| flaw).collect();
        flaws.dedup();
        flaws
    }

    /// Without the fact at this place.
    fn without(mut self, index: usize) -> Self {
        self.facts.remove(index);
        self
    }
}

#[test]
fn a_turn_that_went_well_has_no_flaw() {
    assert_eq!(Story::good().flaws(), []);
}

#[test]
fn what_is_missing_in_the_journal_is_missed() {
    assert_eq!(Story::good().without(5).flaws(), [Flaw::Lost, Flaw::Open]);
    assert_eq!(Story::good().without(4).flaws(), [Flaw::Unpaired]);
    assert_eq!(Story::good().without(3).flaws(), [Flaw::EffectWithoutIntent]);
    assert_eq!(Story::good().without(0).flaws(), [Flaw::Lost]);
    let mut empty = Story::good();
    empty.facts.clear();
    assert_eq!(empty.flaws(), [Flaw::Lost, Flaw::Lost][..1]);
}

#[test]
fn an_input_that_was_taken_out_before_its_turn_began_has_that_for_an_end() {
    let mut story = Story::good();
    story.facts = vec![(Some("t1"), input("t1", "s0t0")), (Some("t1"), Fact::Withdrawn)];
    story.effects.clear();
    let told =
        Answer { reason: FinishReason::Cancelled, steps: 0, calls: Vec::new(), ..answer("t1", "s0t0", "Cancelled") };
    story.heard.answers = vec![(20, told)];
    assert_eq!(story.flaws(), []);
    assert_eq!(story.without(0).flaws(), [Flaw::Lost]);
}

#[test]
fn what_is_in_the_journal_twice_is_seen() {
    let mut story = Story::good();
    story.facts.push((Some("t1"), outcome("done")));
    assert_eq!(story.flaws(), [Flaw::Duplicated]);
    let mut story = Story::good();
    story.facts.insert(0, (Some("t0"), input("t0", "s0t0")));
    story.facts.push((Some("t0"), outcome("done")));
    assert_eq!(story.flaws(), [Flaw::Duplicated]);
    let mut story = Story::good();
    story.facts.insert(5, (Some("t1"), result()));
    assert_eq!(story.flaws(), [Flaw::Unpaired]);
}

#[test]
fn an_answer_must_be_the_one_that_is_kept() {
    let mut story = Story::good();
    story.heard.answers[0].1.content.push('!');
    assert_eq!(story.flaws(), [Flaw::Changed]);
    // One that was not said to be durable may be lost.
    story.heard.answers[0].1.saved = false;
    assert_eq!(story.flaws(), []);
}

#[test]
fn what_a_worker_saw_as_saved_must_be_kept_as_well() {
    let mut story = Story::good();
    story.heard.worked.push(answer("t1", "s0t0", "done"));
    assert_eq!(story.flaws(), []);
    story.heard.worked.push(answer("t1", "s0t0", "done otherwise"));
    assert_eq!(story.flaws(), [Flaw::Changed]);
    story.heard.worked = vec![answer("t2", "s0t1", "done")];
    assert_eq!(story.flaws(), [Flaw::Lost]);
    story.heard.worked[0].saved = false;
    assert_eq!(story.flaws(), []);
}

#[test]
fn only_an_outcome_that_was_not_said_to_be_saved_may_leave_its_turn_open() {
    let mut story = Story::good().without(5);
    story.heard.answers[0].1.saved = false;
    story.heard.ended = vec![EndTold { saved: false, ..end(20) }, end(25)];
    assert_eq!(story.flaws(), []);
}

#[test]
fn a_turn_whose_caller_reports_nothing_is_judged_by_the_event_of_its_end() {
    let mut story = Story::good().without(5);
    (story.heard.asked, story.heard.answers) = Default::default();
    story.heard.ended = vec![end(20)];
    assert_eq!(story.flaws(), [Flaw::Open]);
    story.heard.ended = vec![EndTold { saved: false, ..end(20) }];
    assert_eq!(story.flaws(), []);
}

#[test]
fn a_request_has_one_answer_and_only_a_kill_excuses_none() {
    let mut story = Story::good();
    story.heard.asked.push((30, "s0t0".to_owned()));
    assert_eq!(story.flaws(), [Flaw::Unanswered]);
    story.kills = vec![40];
    assert_eq!(story.flaws(), []);
    let mut story = Story::good();
    story.heard.answers.push((21, answer("t1", "s0t0", "done")));
    assert_eq!(story.flaws(), [Flaw::AnsweredTwice]);
}

#[test]
fn a_side_effect_happens_once_or_is_not_said_to_have_happened() {
    let mut story = Story::good();
    story.effects.insert("s0t0c0".to_owned(), 2);
    assert_eq!(story.flaws(), [Flaw::EffectTwice]);
    story.effects.clear();
    assert_eq!(story.flaws(), [Flaw::EffectLost]);
}

#[test]
fn the_end_of_a_turn_is_one_event_in_a_life() {
    let mut story = Story::good();
    story.heard.ended.push(end(25));
    assert_eq!(story.flaws(), [Flaw::EndReportedWrongly]);
    // Whether it was saved is what its event says: the caller of a turn that was recovered may have been refused.
    story.heard.ended[0].saved = false;
    assert_eq!(story.flaws(), []);
    story.heard.ended.push(end(26));
    assert_eq!(story.flaws(), [Flaw::EndReportedWrongly]);
    story.heard.ended.pop();
    story.heard.ended[0].saved = true;
    // Told in one life and, since it was not saved, in the next.
    story.kills = vec![22];
    assert_eq!(story.flaws(), []);
    let mut story = Story::good();
    story.heard.ended.clear();
    assert_eq!(story.flaws(), [Flaw::EndReportedWrongly]);
}

#[test]
fn versions_and_epochs_only_rise() {
    let story = Story::good();
    let mut records = story.records();
    records.remove(1);
    assert_eq!(story.flaws_of(&records), [Flaw::Disorder]);
}
