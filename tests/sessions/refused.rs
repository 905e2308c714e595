//! A request that is wrong is refused by name, before anything is sent or kept.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use bob::model::{ContentPart, ScriptedLlm, ScriptedReply};
use bob::sessions::SessionOptions;
use bob::{AgentError, AgentRequest, AgentRuntime, Runtime};

use crate::support::runtime::{build, over, say, scripted, session, turn, within};
use crate::support::scratch::Scratch;

async fn counted() -> (Runtime, Arc<AtomicUsize>) {
    let asked = Arc::new(AtomicUsize::new(0));
    let counter = Arc::clone(&asked);
    let model = ScriptedLlm::from_fn(move |_| {
        counter.fetch_add(1, Ordering::SeqCst);
        ScriptedReply::text("fine")
    });
    (build(over(model)).await, asked)
}

/// Why it is refused; nothing may have happened for it.
async fn refused(request: AgentRequest) -> String {
    let (runtime, asked) = counted().await;
    let why = match within(runtime.run(request)).await {
        Err(AgentError::Invalid(why)) => why,
        other => panic!("not refused as invalid: {other:?}"),
    };
    assert_eq!(asked.load(Ordering::SeqCst), 0, "no model was asked");
    let kept = within(runtime.records(session("s"))).await.expect("the journal is read");
    assert!(kept.is_empty(), "nothing was kept");
    assert_eq!(turn(&runtime, say("hello")).await.content, "fine", "the session is usable");
    why
}

#[tokio::test]
async fn an_input_over_one_mebibyte_is_refused_with_the_number() {
    let why = refused(say(&"x".repeat(1024 * 1024 + 1))).await;
    assert!(why.contains("1048577") && why.contains("1048576"), "{why}");
}

#[tokio::test]
async fn an_input_of_one_mebibyte_is_taken() {
    let (runtime, _) = counted().await;
    // The history that fits is another question; the input is accepted and kept whole.
    let outcome = turn(&runtime, say(&"x".repeat(1024 * 1024))).await;
    let [kept] = &within(runtime.artifacts_of(&session("s"))).await.unwrap()[..] else { panic!("{outcome:?}") };
    let text = within(runtime.artifact(&session("s"), &kept.id, 0..u64::MAX)).await.unwrap();
    assert_eq!(text, Some(vec![b'x'; 1024 * 1024]), "{outcome:?}");
}

#[tokio::test]
async fn an_empty_input_is_refused() {
    assert!(refused(say("")).await.contains("empty"));
    assert!(refused(AgentRequest { input: Vec::new(), ..say("") }).await.contains("empty"));
}

#[tokio::test]
async fn a_part_the_model_does_not_take_is_refused_by_name() {
    let image = ContentPart::Image { mime_type: "image/png".into(), data: "AAAA".into() };
    let why = refused(AgentRequest { input: vec![ContentPart::text("look"), image], ..say("") }).await;
    assert!(why.contains("image") && why.contains("fake:m-1"), "{why}");
    let audio = ContentPart::Audio { mime_type: "audio/wav".into(), data: "AAAA".into() };
    assert!(refused(AgentRequest { input: vec![audio], ..say("") }).await.contains("audio"));
}

#[tokio::test]
async fn folders_outside_the_workspace_are_refused_wherever_they_come_from() {
    let (work, other) = (Scratch::new(), Scratch::new());
    std::fs::create_dir(work.join("in")).expect("a folder");
    std::os::unix::fs::symlink(other.path(), work.join("link")).expect("a link");
    let runtime = build(scripted(vec![ScriptedReply::text("hi")]).workspace(work.path().display().to_string())).await;
    let path = |name: &str| work.join(name).display().to_string();
    let out = other.path().display().to_string();
    for bad in [out.clone(), path("link"), path("in/../.."), path("gone"), "in".into(), "/".into()] {
        let cwd = SessionOptions { cwd: Some(bad.clone()), ..SessionOptions::default() };
        let roots = SessionOptions { roots: vec![path("in"), bad.clone()], ..SessionOptions::default() };
        for options in [cwd, roots] {
            let asked = AgentRequest { options: Some(options.clone()), ..say("hi") };
            let refusals = [
                within(runtime.run(asked)).await.map(drop),
                within(runtime.open(session("s"), options.clone())).await,
                within(runtime.configure(session("s"), options.into(), None)).await,
            ];
            for refusal in refusals {
                assert!(matches!(&refusal, Err(AgentError::Invalid(why)) if why.contains(&bad)), "{bad}: {refusal:?}");
            }
        }
    }
    assert_eq!(within(runtime.session(session("s"))).await, Ok(None), "nothing was kept of it");
    let good = SessionOptions { cwd: Some(path("in/.")), ..SessionOptions::default() };
    within(runtime.open(session("s"), good)).await.expect("a folder inside");
}

#[cfg(feature = "genai")]
#[tokio::test]
async fn an_unknown_provider_and_a_missing_key_are_refused_before_anything_is_sent() {
    use bob::model::LlmErrorKind;
    use bob::{ModelName, RuntimeBuilder};
    let port = bob_actors::llm::GenaiLlm::new(&[], &|_| None).expect("the well-known providers");
    let runtime = build(RuntimeBuilder::new(ModelName::parse("openai:gpt-x").unwrap()).model(Arc::new(port))).await;
    let kind_and_text = |result| match result {
        Err(AgentError::Llm(error)) => (error.kind, error.to_string()),
        other => panic!("not refused by the model side: {other:?}"),
    };
    let (kind, text) = kind_and_text(within(runtime.run(say("hi"))).await);
    assert_eq!(kind, LlmErrorKind::MissingKey);
    assert!(text.contains("OPENAI_API_KEY"), "{text}");
    let model = Some(ModelName::parse("nobody:m").unwrap());
    let (kind, text) = kind_and_text(within(runtime.run(AgentRequest { model, ..say("hi") })).await);
    assert_eq!(kind, LlmErrorKind::UnknownProvider);
    assert!(text.contains("nobody"), "{text}");
}
