//! Agents as values, questions without a session, and what a program's tools return.

use std::sync::{Arc, Mutex};

use bob::approvals::PermissionMode;
use bob::config::Limits;
use bob::model::{LlmRequest, ScriptedLlm, ScriptedReply};
use bob::sessions::{FinishReason, SessionOptions, SuspendReason};
use bob::tools::{Invocation, ToolError, ToolOutput, tool};
use bob::{Agent, AgentRequest, AgentRuntime, AgentRuntimeExt, AskError, ModelName, Runtime, RuntimeBuilder};
use serde_json::json;

use crate::support::runtime::{build, over, scripted, session, turn, within};

type Asked = Arc<Mutex<Vec<LlmRequest>>>;

/// A model that keeps what it is asked, over two tools.
fn heard() -> (RuntimeBuilder, Asked) {
    let asked = Asked::default();
    let kept = Arc::clone(&asked);
    let model = ScriptedLlm::from_fn(move |request| {
        kept.lock().unwrap().push(request.clone());
        ScriptedReply::text("heard")
    });
    let plain = |name: &str| Arc::new(tool(name, "Does nothing.", nothing));
    (over(model).local_tools(false).tools(plain("own/one")).tools(plain("own/two")), asked)
}

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Nothing {}

async fn nothing(_: Nothing, _: Invocation) -> Result<(), ToolError> {
    Ok(())
}

fn researcher() -> Agent {
    Agent::new("researcher")
        .instructions("You look things up.")
        .model(ModelName::parse("fake:large").unwrap())
        .tools(["own/one"])
        .mode(PermissionMode::Plan)
}

#[tokio::test]
async fn a_request_and_a_session_of_an_agent_have_its_instructions_model_and_tools() {
    let (builder, asked) = heard();
    let runtime = build(builder).await;
    turn(&runtime, AgentRequest::once("by request").agent(&researcher())).await;
    within(runtime.open(session("opened"), researcher().options())).await.unwrap();
    turn(&runtime, AgentRequest::text(session("opened"), "by session")).await;
    turn(&runtime, AgentRequest::once("of no agent")).await;

    let asked = std::mem::take(&mut *asked.lock().unwrap());
    for request in &asked[..2] {
        assert!(request.system.contains("You look things up."), "{}", request.system);
        assert_eq!(request.model.as_str(), "fake:large");
        let names: Vec<&str> = request.tools.tools().iter().map(|tool| tool.id.as_str()).collect();
        assert_eq!(names, ["own/one"]);
    }
    assert_ne!(asked[0].session, asked[2].session, "each has a session of its own");
    assert_eq!(asked[2].tools.tools().len(), 2);
    let look = within(runtime.session(asked[0].session.clone())).await.unwrap().expect("it stays in the store");
    assert_eq!((look.options.agent.as_deref(), look.options.mode), (Some("researcher"), Some(PermissionMode::Plan)));
    within(runtime.shutdown()).await;
}

#[test]
fn an_agent_is_a_value() {
    let json = serde_json::to_value(researcher()).unwrap();
    assert_eq!(serde_json::from_value::<Agent>(json).unwrap(), researcher());
    assert_eq!(
        serde_json::to_value(Agent::new("a")).unwrap(),
        json!({"name": "a"}),
        "what is left open is not written"
    );
    let titled = SessionOptions { title: Some("kept".into()), ..SessionOptions::default() };
    let request = AgentRequest { options: Some(titled), ..AgentRequest::once("hi") }.agent(&researcher());
    let options = request.options.unwrap();
    assert_eq!((options.title.as_deref(), options.agent.as_deref()), (Some("kept"), Some("researcher")));
    assert_eq!(SessionOptions::from(&researcher()), researcher().options());
}

#[tokio::test]
async fn a_question_is_answered_by_a_text_or_an_error_that_says_why() {
    let reply = |reply: ScriptedReply| async { build(scripted(vec![reply])).await };
    async fn refused(runtime: Runtime) -> AskError {
        within(runtime.ask("hello?")).await.expect_err("no answer")
    }
    assert_eq!(within(reply(ScriptedReply::text("hi")).await.ask("hello?")).await.unwrap(), "hi");

    let error = refused(reply(ScriptedReply::call("ask_user", json!({"question": "Which one?"}))).await).await;
    let AskError::Suspended { reason: SuspendReason::AskUser, question, .. } = &error else { panic!("{error:?}") };
    assert_eq!(question, "Which one?");
    assert!(error.to_string().ends_with("Which one?"), "{error}");

    let error = refused(reply(ScriptedReply::Malformed(String::new())).await).await;
    assert!(matches!(&error, AskError::Failed { response, .. } if response.finish_reason == FinishReason::Error));
    assert!(std::error::Error::source(&error).is_some(), "the error of the turn is its source");

    let call = || ScriptedReply::call("own/one", json!({}));
    let looping = over(ScriptedLlm::from_fn(move |_| call()))
        .tools(Arc::new(tool("own/one", "Does nothing.", nothing).read_only()))
        .limits(Limits { max_steps: 1, ..Limits::default() });
    let error = refused(build(looping).await).await;
    assert_eq!(error.to_string(), "the turn reached the limit max_steps before it had an answer");
    assert!(error.response().is_some_and(|response| response.steps == 1));

    let runtime = build(scripted(vec![])).await;
    assert!(matches!(within(runtime.ask("")).await, Err(AskError::Refused(_))), "an empty question is refused");
}

#[tokio::test]
async fn a_question_can_be_asked_of_any_runtime() {
    let runtime: Arc<dyn AgentRuntime> = Arc::new(build(scripted(vec![ScriptedReply::text("42")])).await);
    assert_eq!(within(runtime.ask("a number?")).await.unwrap(), "42");
    assert_eq!(within(runtime.run_as::<u8>(AgentRequest::once("a number?"))).await.unwrap().output, 42);
}

#[tokio::test]
async fn an_answer_that_is_no_value_of_the_type_is_an_error_with_the_answer() {
    /// Its schema says less than its type.
    #[derive(Debug)]
    struct Even;
    impl<'de> serde::Deserialize<'de> for Even {
        fn deserialize<D: serde::Deserializer<'de>>(number: D) -> Result<Self, D::Error> {
            match u32::deserialize(number)? % 2 {
                0 => Ok(Self),
                _ => Err(serde::de::Error::custom("the number is odd")),
            }
        }
    }
    impl schemars::JsonSchema for Even {
        fn schema_name() -> std::borrow::Cow<'static, str> {
            "Even".into()
        }
        fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
            schemars::json_schema!({"type": "integer"})
        }
    }
    let runtime = build(scripted(vec![ScriptedReply::text("3")])).await;
    let error = within(runtime.run_as::<Even>(AgentRequest::once("an even number?"))).await.unwrap_err();
    assert!(error.to_string().contains("Even: the number is odd"), "{error}");
    assert_eq!(error.response().map(|response| response.content.as_str()), Some("3"));

    // Two in a row that do not fit the schema are an error of the model.
    let runtime = build(scripted(vec![ScriptedReply::text("three"), ScriptedReply::text("3.5")])).await;
    let error = within(runtime.run_as::<Even>(AgentRequest::once("an even number?"))).await.unwrap_err();
    assert!(matches!(&error, AskError::Failed { response, .. } if response.steps == 2), "{error}");
}

#[derive(serde::Serialize)]
struct Size {
    bytes: u64,
}

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Path {
    path: String,
}

async fn size(file: Path, _: Invocation) -> Result<Size, ToolError> {
    Ok(Size { bytes: std::fs::metadata(&file.path)?.len() })
}

#[tokio::test]
async fn a_tool_returns_a_value_and_converts_errors() {
    let file = tempfile::NamedTempFile::new().unwrap();
    let path = file.path().display().to_string();
    let model = ScriptedLlm::from_fn(move |request| match request.step {
        1 => ScriptedReply::call("own/size", json!({"path": path})),
        2 => ScriptedReply::call("own/size", json!({"path": "/not/there"})),
        3 => ScriptedReply::call("own/text", json!({})),
        4 => ScriptedReply::call("own/output", json!({})),
        _ => ScriptedReply::text("done"),
    });
    let text = tool("own/text", "A text.", |_: Nothing, _| async { Ok("as it is") });
    let output = tool("own/output", "An output.", |_: Nothing, _| async { Ok(ToolOutput::error("it failed")) });
    let builder = over(model).tools(Arc::new(tool("own/size", "Size of a file.", size)));
    let runtime = build(builder.tools(Arc::new(text)).tools(Arc::new(output))).await;
    let response = turn(&runtime, AgentRequest::once("go")).await;
    let results: Vec<&str> = response.tool_transcript.iter().map(|call| call.result.as_str()).collect();
    assert_eq!(results[0], r#"{"bytes":0}"#);
    assert!(results[1].contains("No such file or directory"), "{}", results[1]);
    assert_eq!(results[2..], ["as it is", "it failed"]);
    within(runtime.shutdown()).await;
}
