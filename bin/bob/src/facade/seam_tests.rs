//! Wherever the journal ends and the live events begin, a reader is given each event once and in order.

use super::*;
use bob_messages::chat::{FinishReason, StopReason, ToolCall, ToolResult};
use bob_messages::ids::{ModelName, SessionId, ToolName};
use bob_messages::outcome::TurnOutcome;
use bob_messages::tools::{ToolKind, ToolOutput};

fn model() -> ModelName {
    ModelName::parse("scripted:m").unwrap()
}

fn session() -> SessionId {
    SessionId::parse("s").unwrap()
}

fn started(submission: &str) -> StepEvent {
    AgentEvent::TurnStarted {
        submission: TurnId::new(submission),
        model: model(),
        cwd: None,
        traceparent: None,
        tracestate: None,
        agent: None,
        tools: Vec::new(),
        servers: Vec::new(),
        parent: None,
        context: None,
    }
    .into()
}

fn finished(finish_reason: FinishReason) -> StepEvent {
    let token = (finish_reason == FinishReason::Suspended).then(|| bob_messages::ids::ResumeToken::new("token"));
    let outcome = TurnOutcome { token, ..TurnOutcome::bare(session(), TurnId::new("t"), finish_reason, "done") };
    AgentEvent::TurnFinished { outcome: Box::new(outcome) }.into()
}

fn call(id: &str, state: CallState) -> StepEvent {
    let (id, name) = (CallId::new(id), ToolName::new("local/read"));
    let call =
        ToolCall { id, name, arguments: serde_json::json!({}).into(), argument_bytes: 2, signatures: Vec::new() };
    AgentEvent::ToolCalled { call: Arc::new(call), title: String::new(), kind: ToolKind::Read, state, progress: None }
        .in_step(1)
}

fn done(id: &str) -> StepEvent {
    let result = ToolResult {
        call: CallId::new(id),
        name: ToolName::new("local/read"),
        status: bob_messages::chat::CallStatus::Ok,
        output: ToolOutput::text("ok"),
        duration_ms: 1,
    };
    AgentEvent::ToolCompleted { result: Arc::new(result) }.in_step(1)
}

fn completed(step: u32) -> StepEvent {
    AgentEvent::LlmCompleted {
        model: model(),
        latency_ms: 1,
        usage: None,
        stop_reason: StopReason::Stop,
        response_id: None,
        cost: None,
    }
    .in_step(step)
}

fn parsed(step: u32) -> StepEvent {
    AgentEvent::ActionParsed { action: "tool_call".into(), tools: Vec::new() }.in_step(step)
}

fn text(step: u32) -> StepEvent {
    AgentEvent::LlmStreamChunk { message_id: format!("m{step}"), delta: Delta::Text("word".into()) }.in_step(step)
}

fn said(id: &str) -> StepEvent {
    AgentEvent::MessageUser { message_id: id.into(), parts: Vec::new(), steered: false }.into()
}

fn answered(step: u32) -> StepEvent {
    AgentEvent::MessageAssistant { message_id: format!("m{step}"), text: "word".into(), reasoning: None }.in_step(step)
}

fn asked(step: u32) -> StepEvent {
    AgentEvent::LlmRequested { model: model() }.in_step(step)
}

/// Two runs of one turn, the second one after a question.
fn story() -> Vec<StepEvent> {
    vec![
        started("t"),
        said("t-user"),
        asked(1),
        text(1),
        completed(1),
        parsed(1),
        answered(1),
        call("c1", CallState::Proposed),
        call("c2", CallState::Proposed),
        said("t-user-steered"),
        call("c1", CallState::Running),
        done("c1"),
        finished(FinishReason::Suspended),
        started("t2"),
        said("t2-user"),
        call("c1", CallState::Proposed),
        call("c2", CallState::Proposed),
        call("c2", CallState::Running),
        done("c2"),
        asked(2),
        text(2),
        completed(2),
        parsed(2),
        answered(2),
        finished(FinishReason::Final),
    ]
}

fn envelope(told: &StepEvent) -> Envelope {
    Envelope::of_turn(&session(), &TurnId::new("t"), 1, 77, None, told.clone())
}

/// A journal never ends between the beginning of the second run, its reply, and the calls it shows again: they are of one record, or
/// of two that are stored together.
fn ends() -> impl Iterator<Item = usize> {
    (0..=story().len()).filter(|end| !matches!(end, 14..=16))
}

fn told(envelope: &Envelope) -> StepEvent {
    StepEvent { step: envelope.step, event: envelope.event.clone() }
}

fn is_only_live(told: &StepEvent) -> bool {
    key(told.step, &told.event).is_none()
}

#[test]
fn at_every_seam_each_event_is_given_once_and_in_order() {
    let story = story();
    for journaled in ends() {
        for subscribed in 0..=journaled {
            let mut seam = Seam::default();
            let rebuilt = story[..journaled].iter().filter(|event| !is_only_live(event));
            let mut given: Vec<_> = rebuilt.filter_map(|event| seam.rebuilt(envelope(event))).collect();
            let live = story[subscribed..].iter();
            given.extend(live.filter_map(|event| seam.live(Arc::new(envelope(event)))));

            let at = format!("journaled until {journaled}, subscribed from {subscribed}");
            let durable: Vec<_> = given.iter().map(told).filter(|event| !is_only_live(event)).collect();
            let expected: Vec<_> = story.iter().filter(|event| !is_only_live(event)).cloned().collect();
            assert_eq!(durable, expected, "{at}");
            // Of what is only live nothing stands behind what came after it, and what came behind the seam is there.
            let mut rest = story.iter();
            assert!(given.iter().all(|one| rest.any(|event| *event == told(one))), "{at}: {given:#?}");
            let late = story[journaled..].iter().filter(|event| is_only_live(event));
            let there = |event: &&StepEvent| given.iter().any(|one| told(one) == **event);
            assert!(late.clone().all(|event| there(&event)), "{at}");
            let mut number = 0;
            for one in &given {
                number = if matches!(one.event, AgentEvent::TurnStarted { .. }) { 1 } else { number + 1 };
                assert_eq!(one.seq, number, "{at}");
            }
        }
    }
}

#[test]
fn a_reader_that_joins_again_goes_on_where_it_was() {
    let story = story();
    for lost in 0..story.len() {
        for journaled in ends().filter(|end| *end >= lost) {
            let mut seam = Seam::default();
            let mut given: Vec<_> =
                story[..lost].iter().filter_map(|event| seam.live(Arc::new(envelope(event)))).collect();
            seam.begin();
            let rebuilt = story[..journaled].iter().filter(|event| !is_only_live(event));
            given.extend(rebuilt.filter_map(|event| seam.rebuilt(envelope(event))));
            given.extend(story[journaled..].iter().filter_map(|event| seam.live(Arc::new(envelope(event)))));
            let durable: Vec<_> = given.iter().map(told).filter(|event| !is_only_live(event)).collect();
            let expected: Vec<_> = story.iter().filter(|event| !is_only_live(event)).cloned().collect();
            assert_eq!(durable, expected, "lost at {lost}, journaled until {journaled}");
        }
    }
}

#[test]
fn a_crash_that_begins_again_is_not_told_twice_to_whoever_read_the_beginning() {
    let mut seam = Seam::default();
    assert!(seam.rebuilt(envelope(&started("t"))).is_some());
    assert!(seam.live(Arc::new(envelope(&started("t")))).is_none());
    assert!(seam.live(Arc::new(envelope(&asked(1)))).is_some());
}

#[test]
fn only_the_newest_turns_are_remembered() {
    let mut seam = Seam::default();
    for number in 0..1_000 {
        let turn = TurnId::new(format!("t{number}"));
        let event = Envelope::of_turn(&session(), &turn, 1, 1, None, started(&format!("t{number}")));
        assert!(seam.rebuilt(event).is_some());
    }
    assert_eq!(seam.turns.len(), MOST_TURNS);
}

fn under(epoch: u64, told: &StepEvent) -> Envelope {
    Envelope { epoch: Some(epoch), ..envelope(told) }
}

fn is_reset(told: &Envelope) -> bool {
    matches!(told.event, AgentEvent::LlmStreamChunk { delta: Delta::Reset, .. })
}

/// What a reader is given of a turn whose first owner told its first so many events, of which the journal has the first
/// `kept`, and whose second owner goes on behind these.
fn moved(told_here: usize, kept: usize) -> Vec<Envelope> {
    let story = &story()[..13];
    let mut seam = Seam::new(true);
    let live = |event: &StepEvent| Arc::new(under(1, event));
    let mut given: Vec<_> = story[..told_here].iter().filter_map(|event| seam.live(live(event))).collect();
    for (at, event) in story.iter().enumerate().filter(|(_, event)| !is_only_live(event)) {
        let event = under(if at < kept { 1 } else { 2 }, event);
        given.extend(seam.moved(&event));
        given.extend(seam.rebuilt(event));
    }
    // The first owner has not noticed it.
    given.extend(story[told_here..].iter().filter_map(|event| seam.live(live(event))));
    given
}

#[test]
fn what_an_owner_told_and_did_not_write_is_void_when_its_turn_has_moved() {
    let story = story();
    for told_here in 2..13 {
        // A reply with all that it says is one record, and so is the end of each other event.
        for kept in (2..=told_here).filter(|kept| !matches!(kept, 5..=8)) {
            let at = format!("told until {told_here}, of which the journal has {kept}");
            let given = moved(told_here, kept);
            let behind = &given[given.iter().take_while(|one| one.epoch == Some(1)).count()..];
            let is_void = told_here > 3 && kept <= 4;
            assert_eq!(given.iter().filter(|one| is_reset(one)).count(), usize::from(is_void), "{at}: {given:#?}");
            assert_eq!(behind.first().is_some_and(is_reset), is_void, "{at}: it comes first");
            assert!(behind.iter().all(|one| one.epoch == Some(2)), "{at}: nothing of the first owner comes behind");
            let durable =
                |given: &[Envelope]| given.iter().map(told).filter(|one| !is_only_live(one)).collect::<Vec<_>>();
            let expected: Vec<_> = story[kept..13].iter().filter(|one| !is_only_live(one)).cloned().collect();
            assert_eq!(durable(behind), expected, "{at}: all of the second owner");
            let numbers: Vec<_> = given.iter().map(|one| one.seq).collect();
            assert_eq!(numbers, (1..=given.len() as u64).collect::<Vec<_>>(), "{at}");
        }
    }
}
