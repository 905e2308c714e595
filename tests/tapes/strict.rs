//! Guarantees of a replay: an equal journal for both entry points, the order of the tape, and a clear error for
//! unknown requests.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use bob::approvals::PermissionMode;
use bob::config::{PromptLayers, TurnConfig};
use bob::model::{LlmErrorKind, ScriptedLlm, ScriptedReply};
use bob::store::{Record, replay};
use bob::tape::{Recorder, Redactor, Tape};
use bob::tools::{Policy, ToolOutput, tool};
use bob::{AgentError, AgentRequest, AgentRuntime, Runtime, RuntimeBuilder};
use serde_json::json;

use crate::support::runtime::{Nothing, build, model_name, over, say, session, turn, within};
use crate::support::scratch::Scratch;

/// Two turns with calls, tried again once.
async fn recorded(file: &Path) {
    let asked = AtomicUsize::new(0);
    let model = ScriptedLlm::from_fn(move |request| match (request.step, asked.fetch_add(1, Ordering::Relaxed)) {
        (1, 0) => ScriptedReply::Error(LlmErrorKind::Unavailable),
        (1, _) => ScriptedReply::call("test/number", json!({})),
        _ => ScriptedReply::text("one two three four"),
    });
    let numbers = AtomicUsize::new(0);
    let number = tool("test/number", "Draws a number.", move |_: Nothing, _| {
        let number = numbers.fetch_add(1, Ordering::Relaxed);
        async move { Ok(ToolOutput::text(number.to_string())) }
    });
    let recorder = Recorder::create(file, Redactor::default(), "two turns").unwrap();
    let runtime = build(over(model).local_tools(false).tools(Arc::new(number)).record(&recorder)).await;
    turn(&runtime, say("first")).await;
    turn(&runtime, say("second")).await;
    runtime.shutdown().await;
    recorder.keep().unwrap();
}

async fn replaying(tape: &Tape) -> Runtime {
    build(RuntimeBuilder::new(model_name()).permission_mode(PermissionMode::Auto).replay(tape)).await
}

async fn journal_of(runtime: &Runtime) -> Vec<Arc<Record>> {
    runtime.records(session("s")).await.unwrap()
}

#[tokio::test]
async fn run_and_run_stream_over_one_tape_write_the_same_journal() {
    let scratch = Scratch::new();
    let file = scratch.join("two.tape");
    recorded(&file).await;
    let tape = Tape::load(&file, Redactor::default()).unwrap();
    let run = replaying(&tape.rewound()).await;
    let stream = replaying(&tape.rewound()).await;
    for text in ["first", "second"] {
        turn(&run, say(text)).await;
        let mut events = within(stream.run_stream(say(text))).await.unwrap();
        let mut read = 0;
        while within(events.next()).await.is_some() {
            read += 1;
        }
        assert!(read > 2, "the stream was read: {read} events");
    }
    let (one, other) = (journal_of(&run).await, journal_of(&stream).await);
    assert!(one.len() > 10);
    assert_eq!(replay::difference(&one, &other), None);
    assert_ne!(one, other, "ids and times are others");
    // The comparison would see it.
    assert!(replay::difference(&one, &other[..other.len() - 1]).is_some());
    assert!(replay::replay(&one).is_ok() && replay::replay(&other).is_ok());
}

#[tokio::test]
async fn the_same_request_twice_is_answered_in_order_and_then_no_more() {
    let scratch = Scratch::new();
    let file = scratch.join("twice.tape");
    let number = AtomicUsize::new(0);
    let model = ScriptedLlm::from_fn(move |_| {
        ScriptedReply::text(format!("answer {}", number.fetch_add(1, Ordering::Relaxed)))
    });
    let recorder = Recorder::create(&file, Redactor::default(), "").unwrap();
    let runtime = build(over(model).local_tools(false).record(&recorder)).await;
    for id in ["a", "b"] {
        turn(&runtime, AgentRequest::text(session(id), "the same")).await;
    }
    recorder.keep().unwrap();
    let tape = Tape::load(&file, Redactor::default()).unwrap();
    let runtime = replaying(&tape).await;
    // A session with a recorded name gets the answers of that session, another one the next unused ones.
    let answer = |id: &'static str| turn(&runtime, AgentRequest::text(session(id), "the same"));
    assert_eq!(answer("b").await.content, "answer 1");
    assert_eq!(answer("other").await.content, "answer 0");
    let third = answer("third").await.error.expect("there is no third");
    assert!(third.to_string().contains("all of its answers were given"), "{third}");
}

#[tokio::test]
async fn what_is_not_on_the_tape_is_told_by_what_differs_first() {
    let scratch = Scratch::new();
    let file = scratch.join("two.tape");
    recorded(&file).await;
    let tape = Tape::load(&file, Redactor::default()).unwrap();
    let failed = |runtime: Runtime, text: &'static str| async move {
        match turn(&runtime, say(text)).await.error {
            Some(AgentError::Llm(error)) => (error.kind, error.message),
            other => panic!("it was to fail: {other:?}"),
        }
    };
    let (kind, told) = failed(replaying(&tape.rewound()).await, "third").await;
    assert_eq!(kind, LlmErrorKind::NotScripted);
    assert!(told.contains("messages[0].parts[0].text") && told.contains("first") && told.contains("third"), "{told}");

    let layers = PromptLayers { instructions: "Be brief.".into(), ..PromptLayers::default() };
    let turn_config = TurnConfig { layers, ..TurnConfig::new(model_name()) };
    let other = build(
        RuntimeBuilder::new(model_name())
            .permission_mode(PermissionMode::Auto)
            .turn_config(turn_config)
            .replay(&tape.rewound()),
    )
    .await;
    let (_, told) = failed(other, "first").await;
    assert!(told.contains("differs in system") && told.contains("Be brief."), "{told}");

    let policy = Policy { deny_tools: vec!["test/*".into()], ..Policy::default() };
    let without = build(
        RuntimeBuilder::new(model_name()).permission_mode(PermissionMode::Auto).policy(policy).replay(&tape.rewound()),
    )
    .await;
    let (_, told) = failed(without, "first").await;
    assert!(told.contains("tools[0]") && told.contains("test/number"), "{told}");
}

#[tokio::test]
async fn g15_a_canary_is_on_no_tape_in_any_spelling() {
    const CANARY: &str = "sk-cAnAry7\"/+%q";
    let scratch = Scratch::new();
    let file = scratch.join("secret.tape");
    let percent: String = CANARY.bytes().map(|byte| format!("%{byte:02X}")).collect();
    let hex: String = CANARY.bytes().map(|byte| format!("{byte:02x}")).collect();
    let spelled =
        [CANARY.to_owned(), percent, hex, "c2stY0FuQXJ5NyIvKyVxIGFuZCBtb3Jl".to_owned(), json!(CANARY).to_string()];
    let said = spelled.join(" and ");
    let leaky = said.clone();
    let leak = tool("test/leak", "Tells too much.", move |_: serde_json::Map<String, serde_json::Value>, _| {
        let (one, two) = CANARY.split_at(6);
        let parts = [leaky.as_str(), one, two].map(bob::model::ContentPart::text).to_vec();
        async move {
            Ok(ToolOutput { parts, structured: Some(json!({ "key": CANARY, CANARY: 1 })), ..ToolOutput::default() })
        }
    });
    let words = said.clone();
    let model = ScriptedLlm::from_fn(move |request| match request.step {
        1 => ScriptedReply::call("test/leak", json!({ "with": CANARY })),
        _ => ScriptedReply::text(words.clone()),
    });
    let layers = PromptLayers { instructions: format!("Your key is {CANARY}."), ..PromptLayers::default() };
    let turn_config = || TurnConfig { layers: layers.clone(), ..TurnConfig::new(model_name()) };
    let recorder = Recorder::create(&file, Redactor::new([CANARY.into()]), CANARY).unwrap();
    let leak = Arc::new(leak);
    let runtime = build(over(model).local_tools(false).turn_config(turn_config()).tools(leak).record(&recorder)).await;
    let heard = turn(&runtime, say(&format!("my key is {CANARY}"))).await;
    assert!(heard.content.contains(CANARY), "it was there to get out");
    runtime.shutdown().await;
    recorder.keep().unwrap();

    let tape = std::fs::read_to_string(&file).unwrap();
    let lowered = tape.to_lowercase();
    for spelling in [&spelled[..], &["sk-cAn".to_owned(), "Ary7".to_owned(), "yranac-ks".to_owned()]].concat() {
        assert!(!lowered.contains(&spelling.to_lowercase()), "{spelling} is on the tape");
    }
    assert!(tape.matches(bob::tape::MARK).count() > 8, "the mark stands where it was");
    use std::os::unix::fs::PermissionsExt;
    assert_eq!(std::fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);

    // A replay may use another key in the same place.
    let tape = Tape::load(&file, Redactor::new(["sk-quite-another".into()])).unwrap();
    let layers = PromptLayers { instructions: "Your key is sk-quite-another.".into(), ..PromptLayers::default() };
    let turn_config = TurnConfig { layers, ..TurnConfig::new(model_name()) };
    let runtime = build(
        RuntimeBuilder::new(model_name()).permission_mode(PermissionMode::Auto).turn_config(turn_config).replay(&tape),
    )
    .await;
    let heard = turn(&runtime, say("my key is sk-quite-another")).await;
    assert!(heard.error.is_none() && heard.content.contains(bob::tape::MARK), "{heard:?}");
}
