//! A history that fills too much of the model's context: what is asked, what stays, and what is told.

use super::TurnMessage;
use crate::chat::{CallStatus, ContentPart, FinishReason, Message, Usage};
use crate::condense::{CondenseMethod, CondenseRequest, Summary};
use crate::error::AgentError;
use crate::event::AgentEvent;
use crate::ids::{ModelName, RequestId, Ticket};
use crate::input::Steer;
use crate::limits::Limits;
use crate::llm::LlmRequest;
use crate::outcome::{EndReason, TurnOutcome};
use crate::store::Fact;
use crate::submission::TurnNews;
use crate::turn::Recover;
use crate::turn::tests::world::{Question, World, answer, input, model, paired};
use crate::turn_config::{CondenseRules, TurnConfig};
use proptest::prelude::*;
use std::sync::Arc;

/// About how many bytes a token has before anybody counted.
const TOKEN: usize = 4;

/// A world whose model has a small context, and counts what is in it.
fn world(context_tokens: u32) -> World {
    let mut world = World::new(TurnConfig::new(model()));
    world.capabilities.context_tokens = context_tokens;
    world
}

fn say(world: &mut World, number: u32, text: &str) {
    let limits = Limits { max_steps: 100, max_tool_calls: 100, max_identical_calls: 100, ..Limits::default() };
    let input = Arc::new(input(number, text, limits));
    world.say(TurnMessage::Start { input, turn_config: Arc::clone(&world.turn_config) });
    world.settle();
}

/// What the model says, with a bill that fits the estimate.
fn llm(world: &mut World, text: &str, calls: &[(&str, &str)]) {
    let tokens = asked(world).map_or(0, |request| request.bytes() / TOKEN) as u64;
    let usage = Usage { input_tokens: tokens, total_tokens: tokens, ..Usage::default() };
    world.llm(Ok(crate::llm::LlmAnswer { usage: Some(usage), ..answer(text, calls) }));
}

fn asked(world: &World) -> Option<&LlmRequest> {
    world.questions.iter().find_map(|question| match question {
        Question::Infer(_, request) => Some(&**request),
        _ => None,
    })
}

fn wanted(world: &World) -> Option<(Ticket, Arc<CondenseRequest>)> {
    world.questions.iter().find_map(|question| match question {
        Question::Condense(ticket, request) => Some((*ticket, Arc::clone(request))),
        _ => None,
    })
}

fn summary(text: &str) -> Result<Summary, AgentError> {
    Ok(Summary { text: text.into(), usage: Some(Usage { total_tokens: 7, ..Usage::default() }) })
}

fn nobody() -> Result<Summary, AgentError> {
    Err(AgentError::Internal("nobody writes".into()))
}

fn text(message: &Message) -> String {
    match message {
        Message::User { parts } => parts.iter().map(ContentPart::as_text).collect(),
        Message::Assistant { text, calls } => format!("{text}{}", calls.len()),
        Message::Tool { result } => result.output.plain(),
    }
}

fn told(world: &World) -> &TurnOutcome {
    let Some(TurnNews::Finished { outcome, .. }) = world.news.last() else { panic!("{:?}", world.news.last()) };
    outcome
}

fn events(world: &World) -> Vec<&AgentEvent> {
    let told = world.events.iter().map(|told| &told.event);
    told.filter(|event| matches!(event, AgentEvent::HistoryCondensed { .. })).collect()
}

/// Turns of this many bytes each until a summary is wanted; how many there were.
fn fill(world: &mut World, bytes: usize) -> u32 {
    for number in 1..200 {
        say(world, number, &format!("message {number}; {}", "x".repeat(bytes / 2)));
        if wanted(world).is_some() {
            return number;
        }
        llm(world, &format!("answer {number}; {}", "y".repeat(bytes / 2)), &[]);
    }
    panic!("the history never filled the context");
}

#[test]
fn a_history_that_is_too_long_becomes_a_summary_and_its_newest_messages() {
    let mut world = world(4_000);
    let number = fill(&mut world, 800);
    let (_, request) = wanted(&world).unwrap();
    assert!(asked(&world).is_none(), "the model waits for the summary");
    assert!(text(&request.messages[0]).starts_with("message 1;"), "from the oldest on");
    assert!((request.step, request.attempt, request.earlier.is_none()) == (1, 1, true), "{request:?}");
    world.summarise(summary("they said a lot"));
    let prompt = asked(&world).expect("the model is asked");
    assert!(text(&prompt.messages[0]).starts_with("[Summary"), "it is marked: {}", text(&prompt.messages[0]));
    assert!(text(&prompt.messages[0]).ends_with("they said a lot"));
    assert!(text(prompt.messages.last().unwrap()).starts_with(&format!("message {number};")));
    assert!(prompt.bytes() / TOKEN < 1_600, "{} tokens of 4,000", prompt.bytes() / TOKEN);
    let [
        AgentEvent::HistoryCondensed {
            method,
            messages_before,
            messages_dropped,
            tokens_before,
            tokens_after,
            attempts,
        },
    ] = events(&world)[..]
    else {
        panic!("told once")
    };
    assert_eq!((*method, *attempts), (CondenseMethod::Summary, 1));
    assert!(world.events.iter().any(|told| told.step == Some(1) && told.event == *events(&world)[0]));
    assert_eq!(*messages_before - *messages_dropped + 1, prompt.messages.len());
    assert!(*tokens_before > 3_000 && *tokens_after < 1_600, "{tokens_before} to {tokens_after}");
    llm(&mut world, "done", &[]);
    let outcome = told(&world);
    assert_eq!((outcome.finish_reason, outcome.steps), (FinishReason::Final, 1), "a summary is no step");
    assert_eq!(outcome.usage.total_tokens % 10, (asked_tokens(&world, number) + 7) % 10, "its tokens are counted");
    assert_eq!(world.turn.session(), Some(&world.folded()), "a session that is rebuilt is the same");
    // The journal has all that was said.
    let whole = crate::session_state::Session::fold(crate::turn::tests::world::session_id(), &world.stored);
    assert_eq!(whole.history.len(), 2 * number as usize);
}

/// What the model's own answer to this turn cost, by the journal.
fn asked_tokens(world: &World, number: u32) -> u64 {
    let of_turn = world
        .stored
        .iter()
        .filter(|record| record.turn.as_ref().is_some_and(|turn| turn.as_str() == format!("t{number}")));
    let costs = of_turn.filter_map(|record| match &record.fact {
        Fact::Answered(answered) => answered.cost.usage.map(|usage| usage.total_tokens),
        _ => None,
    });
    costs.sum()
}

#[test]
fn a_summary_that_cannot_be_used_is_asked_for_once_more_and_then_done_without() {
    type Answers = [Result<Summary, AgentError>; 2];
    let large = |request: &CondenseRequest| summary(&"x".repeat(request.max_bytes + 1));
    let cases: [fn(&CondenseRequest) -> Answers; 3] =
        [|_| [nobody(), summary("shorter")], |_| [summary(" \n"), nobody()], |_| [summary(""), summary("")]];
    let with_large: [&dyn Fn(&CondenseRequest) -> Answers; 2] =
        [&|request| [large(request), large(request)], &|request| [large(request), summary("shorter")]];
    let cases = cases.iter().map(|case| case as &dyn Fn(&CondenseRequest) -> Answers).chain(with_large);
    for (at, answers) in cases.enumerate() {
        let mut world = world(4_000);
        fill(&mut world, 800);
        let (_, first) = wanted(&world).unwrap();
        let [one, two] = answers(&first);
        let taken = two.as_ref().is_ok_and(|two| two.text == "shorter");
        world.summarise(one);
        let (_, second) = wanted(&world).expect("asked once more");
        assert_eq!((second.attempt, &second.messages), (2, &first.messages), "{at}: the same again");
        assert!(second.question_bytes < first.question_bytes, "and more tightly");
        world.summarise(two);
        assert!(wanted(&world).is_none(), "{at}: twice is enough");
        let [AgentEvent::HistoryCondensed { method, attempts, .. }] = events(&world)[..] else { panic!("told once") };
        let expected = if taken { CondenseMethod::Summary } else { CondenseMethod::Truncated };
        assert_eq!((*method, *attempts), (expected, 2), "{at}");
        let prompt = asked(&world).expect("the turn goes on");
        assert!(prompt.bytes() / TOKEN < 1_600, "{at}: {}", prompt.bytes() / TOKEN);
        assert_eq!(text(&prompt.messages[0]).starts_with("[Summary"), taken, "{at}");
        llm(&mut world, "done", &[]);
        assert_eq!(told(&world).finish_reason, FinishReason::Final);
        assert_eq!(world.turn.session(), Some(&world.folded()));
    }
}

#[test]
fn an_earlier_summary_goes_into_the_next_one() {
    let mut world = world(4_000);
    let first = fill(&mut world, 800);
    world.summarise(summary("the first part"));
    llm(&mut world, "done", &[]);
    for number in first + 1..first + 100 {
        say(&mut world, number, &format!("message {number}; {}", "x".repeat(700)));
        if let Some((_, request)) = wanted(&world) {
            assert_eq!(request.earlier.as_deref(), Some("the first part"));
            // Without a new one, the old one stays.
            world.summarise(nobody());
            world.summarise(nobody());
            let prompt = asked(&world).unwrap();
            assert!(text(&prompt.messages[0]).ends_with("the first part"), "{}", text(&prompt.messages[0]));
            return;
        }
        llm(&mut world, "done", &[]);
    }
    panic!("the history never filled the context again");
}

#[test]
fn a_long_turn_keeps_the_message_it_is_about_and_each_call_with_its_results() {
    let mut world = world(4_000);
    say(&mut world, 1, "the one thing to do");
    for step in 1..100 {
        llm(&mut world, "", &[("local__read", "{}"), ("local__read", "{\"a\":1}")]);
        for id in [2 * step - 1, 2 * step] {
            world.tool(&format!("{id:08}"), CallStatus::Ok, &"result ".repeat(60));
        }
        let Some((_, request)) = wanted(&world) else { continue };
        assert_eq!(paired(&request.messages), Ok(()));
        assert!(request.messages.iter().all(|message| text(message) != "the one thing to do"), "it stays as it is");
        world.summarise(summary("read a lot"));
        let prompt = asked(&world).expect("the turn goes on");
        assert_eq!(paired(&prompt.messages), Ok(()));
        assert!(text(&prompt.messages[0]).ends_with("read a lot"));
        assert_eq!(text(&prompt.messages[1]), "the one thing to do");
        assert!(prompt.messages.len() > 3, "with its newest steps");
        llm(&mut world, "done", &[]);
        assert_eq!(told(&world).tool_transcript.len(), 2 * step, "the transcript is whole");
        return assert_eq!(world.turn.session(), Some(&world.folded()));
    }
    panic!("the turn never filled the context");
}

#[test]
fn a_crash_while_a_summary_is_written_leaves_the_history_as_it_was() {
    let mut world = world(4_000);
    fill(&mut world, 800);
    let (before, (_, request)) = (world.folded().history, wanted(&world).unwrap());
    world.crash();
    let turn_config = Arc::clone(&world.turn_config);
    world.say(TurnMessage::Wake { turn_config, recover: Recover::Continue });
    world.settle();
    assert_eq!(world.folded().history, before);
    let (_, again) = wanted(&world).expect("it is asked for again");
    assert_eq!(again.messages, request.messages);
    world.summarise(summary("they said a lot"));
    llm(&mut world, "done", &[]);
    assert_eq!(told(&world).finish_reason, FinishReason::Final);
    // Once it is journaled, a crash loses it no more.
    let condensed = world.folded();
    world.crash();
    say(&mut world, 500, "go on");
    assert_eq!(world.turn.session().unwrap().summary, condensed.summary);
    assert!(text(&asked(&world).unwrap().messages[0]).ends_with("they said a lot"));
}

#[test]
fn a_summary_that_comes_late_or_twice_changes_nothing() {
    let mut world = world(4_000);
    fill(&mut world, 800);
    let (ticket, _) = wanted(&world).unwrap();
    let said = |text: &str| TurnMessage::Condensed { ticket, result: summary(text).map(Arc::new) };
    world.summarise(nobody());
    let (second, _) = wanted(&world).unwrap();
    world.say(said("late"));
    assert_eq!(wanted(&world).map(|(ticket, _)| ticket), Some(second), "the first question is over");
    world.summarise(summary("in time"));
    let prompt = asked(&world).cloned();
    world.say(TurnMessage::Condensed { ticket: second, result: summary("twice").map(Arc::new) });
    assert_eq!((asked(&world), events(&world).len()), (prompt.as_ref(), 1));
    assert!(text(&prompt.unwrap().messages[0]).ends_with("in time"));
}

#[test]
fn a_cancel_while_a_summary_is_written_ends_the_turn_and_keeps_everything() {
    let mut world = world(4_000);
    let number = fill(&mut world, 800);
    let messages = world.folded().history.len();
    world.say(TurnMessage::Stopped { reason: EndReason::Cancelled, submission: None });
    assert!(wanted(&world).is_none(), "nobody waits for it any more");
    let outcome = told(&world);
    assert_eq!((outcome.finish_reason, outcome.turn_id.as_str()), (FinishReason::Cancelled, &*format!("t{number}")));
    world.settle();
    assert_eq!(world.folded().history.len(), messages + 1, "with the words that close it");
}

#[test]
fn what_is_said_into_the_turn_meanwhile_stays() {
    let mut world = world(4_000);
    fill(&mut world, 800);
    let (request_id, parts) = (RequestId::new("s1"), vec![ContentPart::text("and be quick")]);
    world.say(TurnMessage::Steered { steer: Box::new(Steer { request_id, submission: None, parts }) });
    world.settle();
    world.summarise(summary("they said a lot"));
    let prompt = asked(&world).unwrap();
    assert_eq!(text(prompt.messages.last().unwrap()), "and be quick");
    llm(&mut world, "done", &[]);
    assert_eq!(world.turn.session(), Some(&world.folded()));
}

#[test]
fn another_model_may_write_it_and_rules_may_be_without_one() {
    let other = ModelName::parse("scripted:small").unwrap();
    let mut world = world(4_000);
    let rules = CondenseRules { target_percent: 20, model: Some(other.clone()) };
    world.turn_config = Arc::new(TurnConfig { condense: Some(rules), ..TurnConfig::new(model()) });
    fill(&mut world, 800);
    assert_eq!(wanted(&world).unwrap().1.model, other);
    world.summarise(summary("short"));
    assert!(asked(&world).unwrap().bytes() / TOKEN < 800);

    let mut world = self::world(4_000);
    world.turn_config = Arc::new(TurnConfig { condense: None, ..TurnConfig::new(model()) });
    for number in 1..30 {
        say(&mut world, number, &"x".repeat(800));
        assert!(asked(&world).unwrap().bytes() / TOKEN <= 3_000, "the oldest are left out, as ever");
        llm(&mut world, "done", &[]);
    }
    assert!(events(&world).is_empty());
}

#[test]
fn a_turn_without_tokens_asks_for_no_second_summary() {
    let mut world = world(4_000);
    let limits = Limits { max_total_tokens: 100_000, ..Limits::default() };
    let number = fill(&mut world, 800);
    assert!(number > 1);
    llm_after_summary(&mut world);
    for number in number + 1..number + 100 {
        let input = Arc::new(input(number, &"x".repeat(800), limits));
        world.say(TurnMessage::Start { input, turn_config: Arc::clone(&world.turn_config) });
        world.settle();
        if wanted(&world).is_some() {
            let usage = Some(Usage { total_tokens: 100_000, ..Usage::default() });
            world.summarise(Ok(Summary { text: String::new(), usage }));
            assert!(wanted(&world).is_none() && asked(&world).is_none(), "the guard ends the turn");
            let outcome = told(&world);
            assert_eq!(outcome.finish_reason, FinishReason::GuardExceeded);
            return assert_eq!(outcome.usage.total_tokens, 100_000);
        }
        llm(&mut world, "done", &[]);
    }
    panic!("the history never filled the context again");
}

fn llm_after_summary(world: &mut World) {
    world.summarise(summary("they said a lot"));
    llm(world, "done", &[]);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    /// However turns, summaries and contexts are: no prompt is larger than the context if the newest exchange fits, one
    /// condensation is enough, and a session that is rebuilt is the same.
    #[test]
    fn a_prompt_never_fills_more_than_it_may(
        context in 1_200_u32..6_000,
        turns in prop::collection::vec((0_usize..1_500, 0_usize..4, 0_usize..900), 1..14),
        quality in prop::collection::vec(0_usize..4, 8),
    ) {
        let mut world = world(context);
        let mut calls = 0;
        let mut qualities = quality.into_iter().cycle();
        for (number, (bytes, steps, result)) in (1..).zip(turns) {
            say(&mut world, number, &format!("message {number}; {}", "x".repeat(bytes)));
            for step in 0..=steps {
                let mut attempts = 0;
                let before = events(&world).len();
                while let Some((_, request)) = wanted(&world) {
                    attempts += 1;
                    prop_assert!(attempts <= 2, "one condensation is enough");
                    prop_assert!(request.question().bytes() <= context as usize * TOKEN, "the question fits as well");
                    world.summarise(match qualities.next() {
                        Some(0) => nobody(),
                        Some(1) => summary(&"z".repeat(request.max_bytes)),
                        Some(2) => summary(&"z".repeat(request.max_bytes + 1)),
                        _ => summary("short"),
                    });
                }
                prop_assert!(events(&world).len() <= before + 1, "idempotent");
                let prompt = asked(&world).expect("the model is asked");
                let newest = bytes + result + 4_000 / TOKEN;
                if newest * 3 < context as usize * TOKEN {
                    prop_assert!(prompt.bytes() <= context as usize * TOKEN, "{} bytes of {context} tokens", prompt.bytes());
                }
                prop_assert_eq!(paired(&prompt.messages), Ok(()));
                let own = format!("message {number};");
                prop_assert!(prompt.messages.iter().any(|message| text(message).starts_with(&own)));
                prop_assert_eq!(world.turn.session().map(|session| &session.summary), Some(&world.folded().summary));
                if step == steps {
                    llm(&mut world, "done", &[]);
                } else {
                    calls += 1;
                    llm(&mut world, "", &[("local__read", "{}")]);
                    world.tool(&format!("{calls:08}"), CallStatus::Ok, &"r".repeat(result));
                }
            }
            prop_assert_eq!(told(&world).finish_reason, FinishReason::Final);
            prop_assert_eq!(world.turn.session(), Some(&world.folded()));
        }
    }
}
