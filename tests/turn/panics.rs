//! A port that panics is called one that panicked: by the kind of the error, or by its text.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use bob::approvals::{
    ApprovalMemory, ApprovalPort, ApprovalQuestion, ApprovalsMode, Decision, PermissionMode, Standing,
};
use bob::context::Identity;
use bob::events::{AgentEvent, Envelope, EventSink};
use bob::model::catalogue::ModelPrice;
use bob::model::{
    Capabilities, CondenseRequest, ContextCompactorPort, DeltaSink, LlmAnswer, LlmError, LlmErrorKind, LlmPort,
    LlmRequest, ProviderLimits, ScriptedCall, ScriptedLlm, ScriptedReply, Summary,
};
use bob::sessions::{FinishReason, SessionOptions};
use bob::tools::{
    CallContext, Concern, Invocation, Risk, ToolCall, ToolDescriptor, ToolError, ToolName, ToolOutput, ToolPort, tool,
};
use bob::{AgentError, AgentRequest, AgentRuntime, BoxFuture, ModelName, RuntimeBuilder, SessionId};
use bob_drill::store::{Fault, FaultStore, Operation};
use serde_json::json;
use tokio::sync::Notify;

use crate::support::runtime::{Nothing, Recorder, build, say, session, turn};

/// A model whose port panics: in its method, or in the future that it returns.
struct Panics {
    at_once: bool,
}

impl LlmPort for Panics {
    fn capabilities(&self, _model: &ModelName) -> Result<Capabilities, LlmError> {
        Ok(Capabilities::default())
    }

    fn complete_stream(
        &self,
        _request: Arc<LlmRequest>,
        _model: &ModelName,
        _deltas: DeltaSink,
    ) -> BoxFuture<'_, Result<LlmAnswer, LlmError>> {
        assert!(!self.at_once, "a fault of the port");
        Box::pin(async { panic!("a fault of the port") })
    }
}

fn builder(model: impl LlmPort) -> RuntimeBuilder {
    RuntimeBuilder::new(ModelName::parse("scripted:m").unwrap()).model(Arc::new(model))
}

#[tokio::test]
async fn a_model_that_panics_is_an_error_of_its_own_kind() {
    for at_once in [true, false] {
        let runtime = build(builder(Panics { at_once })).await;
        for _ in 0..3 {
            let outcome = turn(&runtime, say("hi")).await;
            let Some(AgentError::Llm(error)) = &outcome.error else { panic!("{outcome:?}") };
            assert_eq!((error.kind, error.is_retryable()), (LlmErrorKind::Panicked, false), "{error}");
            assert!(error.message.contains("panicked"), "{error}");
        }
        runtime.shutdown().await;
    }
}

#[tokio::test]
async fn a_store_that_panics_again_and_again_is_named_in_the_error() {
    for fault in [Fault::Panic, Fault::PanicLater] {
        let store = FaultStore::new(bob::store::MemoryStore::new());
        for nth in 1..=20 {
            store.plan(Some(Operation::Claim), nth, fault.clone());
        }
        let model = ScriptedLlm::replies(vec![ScriptedReply::text("fine")]);
        let runtime = build(builder(model).store(store)).await;
        let refused = runtime.run(say("hi")).await;
        let error = match refused {
            Ok(result) => result.response().error.clone().unwrap(),
            Err(error) => error,
        };
        assert!(matches!(&error, AgentError::Store(why) if why.to_string().contains("panicked")), "{error:?}");
        runtime.shutdown().await;
    }
}

#[tokio::test]
async fn a_request_to_a_runtime_that_was_shut_down_says_so() {
    let runtime = build(builder(ScriptedLlm::replies(vec![ScriptedReply::text("fine")]))).await;
    assert_eq!(turn(&runtime, say("hi")).await.finish_reason, FinishReason::Final);
    runtime.shutdown().await;
    let refused = runtime.run(say("hi")).await;
    assert!(matches!(&refused, Err(AgentError::Stopped(why)) if why.contains("shut down")), "{refused:?}");
    assert!(!refused.unwrap_err().is_retryable());
}

/// A model that answers, and whose port panics in one of the methods that answer at once.
struct PanicsIn(&'static str);

impl PanicsIn {
    fn at(&self, method: &str) {
        assert_ne!(self.0, method, "a fault of the port");
    }
}

impl LlmPort for PanicsIn {
    fn capabilities(&self, _model: &ModelName) -> Result<Capabilities, LlmError> {
        self.at("capabilities");
        Ok(Capabilities { native_tools: true, ..Capabilities::default() })
    }

    fn complete_stream(
        &self,
        _request: Arc<LlmRequest>,
        model: &ModelName,
        _deltas: DeltaSink,
    ) -> BoxFuture<'_, Result<LlmAnswer, LlmError>> {
        let answer = LlmAnswer::text(model.clone(), "fine");
        Box::pin(async { Ok(answer) })
    }

    fn price(&self, _model: &ModelName) -> Option<ModelPrice> {
        self.at("price");
        None
    }

    fn is_at_hand(&self, _request: &LlmRequest) -> bool {
        self.at("is_at_hand");
        false
    }

    fn limits(&self, _provider: &str) -> ProviderLimits {
        self.at("limits");
        ProviderLimits::default()
    }
}

fn is_restart(event: &Envelope) -> bool {
    matches!(event.event, AgentEvent::ActorRestarted { .. })
}

#[tokio::test]
async fn a_model_without_what_it_can_do_is_refused_to_its_caller_and_ends_no_actor() {
    let seen = Recorder::new();
    let runtime = build(builder(PanicsIn("capabilities")).sink(seen.clone())).await;
    let name = ModelName::parse("scripted:m").unwrap();
    let options = SessionOptions { model: Some(name.clone()), ..SessionOptions::default() };
    let opened = runtime.open(session("opened"), options).await;
    let run = runtime.run(say("hi")).await.map(|result| result.response().error.clone());
    let run = run.unwrap_or_else(Some);
    for error in [opened.err(), run] {
        let Some(AgentError::Llm(error)) = &error else { panic!("{error:?}") };
        assert_eq!(error.kind, LlmErrorKind::Panicked);
    }
    assert_eq!(seen.count(is_restart), 0);
    runtime.shutdown().await;
}

#[tokio::test]
async fn a_model_whose_price_or_limits_are_not_told_answers_and_ends_no_actor() {
    for method in ["price", "is_at_hand", "limits"] {
        let seen = Recorder::new();
        let runtime = build(builder(PanicsIn(method)).sink(seen.clone())).await;
        assert_eq!(turn(&runtime, say("hi")).await.content, "fine", "{method}");
        runtime.shutdown().await;
        assert_eq!(seen.count(is_restart), 0, "{method}");
    }
}

/// Says always, and panics in one of the methods of the memory.
struct Forgets(&'static str);

impl Forgets {
    fn at(&self, method: &str) {
        assert_ne!(self.0, method, "a fault of the port");
    }
}

impl ApprovalPort for Forgets {
    fn approve(&self, _question: ApprovalQuestion) -> BoxFuture<'_, Decision> {
        Box::pin(async { Decision::AllowAlways })
    }
}

impl ApprovalMemory for Forgets {
    fn recall(&self, _tool: &ToolName, _identity: &Identity) -> Vec<Arc<Standing>> {
        self.at("recall");
        Vec::new()
    }

    fn keep(&self, _standing: Arc<Standing>) {
        self.at("keep");
    }

    fn is_taken_back(&self, _standing: &Standing) -> bool {
        self.at("is_taken_back");
        false
    }
}

#[tokio::test]
async fn the_calls_a_memory_of_approvals_panics_about_are_not_run_and_no_actor_ends() {
    // What was decided for good is asked about when the call is checked after the decision.
    for (method, runs) in [("recall", [false, false]), ("is_taken_back", [false, false]), ("keep", [true, true])] {
        let (seen, port) = (Recorder::new(), Arc::new(Forgets(method)));
        let replies = vec![ScriptedReply::call("bank/pay", json!({})), ScriptedReply::text("done")];
        let pay = tool("bank/pay", "Pays.", |_: Nothing, _| async { Ok("paid") }).risk(Risk::High);
        let builder = builder(ScriptedLlm::replies(replies)).permission_mode(PermissionMode::Ask);
        let builder = builder.local_tools(false).tools(Arc::new(pay)).approvals(port.clone());
        let runtime = build(builder.approval_memory(port).sink(seen.clone())).await;
        for has_run in runs {
            let outcome = turn(&runtime, AgentRequest { approvals: ApprovalsMode::Wait, ..say("pay") }).await;
            assert_eq!(outcome.finish_reason, FinishReason::Final, "{method}: {outcome:?}");
            let transcript = format!("{:?}", outcome.tool_transcript);
            let is_denied = transcript.contains("the memory of approvals panicked");
            assert_eq!((transcript.contains("paid"), is_denied), (has_run, !has_run), "{method}: {transcript}");
        }
        runtime.shutdown().await;
        assert_eq!(seen.count(is_restart), 0, "{method}");
    }
}

/// A person who allows the first of two calls for the session and the second once it is told what became of the first. The
/// memory panics in between.
#[derive(Default)]
struct TwoQuestions {
    both_asked: Notify,
    first_ended: Notify,
    is_broken: AtomicBool,
}

impl ApprovalPort for TwoQuestions {
    fn approve(&self, question: ApprovalQuestion) -> BoxFuture<'_, Decision> {
        Box::pin(async move {
            if question.call.arguments["number"] == 1 {
                self.both_asked.notified().await;
                self.is_broken.store(true, Ordering::SeqCst);
                return Decision::AllowSession;
            }
            self.both_asked.notify_one();
            self.first_ended.notified().await;
            self.is_broken.store(false, Ordering::SeqCst);
            Decision::AllowOnce
        })
    }
}

impl ApprovalMemory for TwoQuestions {
    fn recall(&self, _tool: &ToolName, _identity: &Identity) -> Vec<Arc<Standing>> {
        assert!(!self.is_broken.load(Ordering::SeqCst), "a fault of the port");
        Vec::new()
    }

    fn keep(&self, _standing: Arc<Standing>) {}
}

impl EventSink for TwoQuestions {
    fn emit(&self, event: &Envelope) {
        if matches!(event.event, AgentEvent::ToolCompleted { .. }) {
            self.first_ended.notify_one();
        }
    }
}

/// The port of the tool, which panics when it is asked about a call while the other is broken.
struct Asked(Arc<dyn ToolPort>, Arc<TwoQuestions>);

impl ToolPort for Asked {
    fn list_tools(&self) -> BoxFuture<'_, Vec<ToolDescriptor>> {
        self.0.list_tools()
    }

    fn call_tool(&self, invocation: Invocation) -> BoxFuture<'_, Result<ToolOutput, ToolError>> {
        self.0.call_tool(invocation)
    }

    fn concern(&self, _: &Arc<ToolCall>, _: &Arc<CallContext>) -> Option<BoxFuture<'static, Option<Concern>>> {
        assert!(!self.1.is_broken.load(Ordering::SeqCst), "a fault of the port");
        None
    }
}

#[tokio::test]
async fn a_port_that_panics_takes_no_question_from_the_person_who_looks_at_it() {
    for (is_memory, told) in [(true, "the memory of approvals panicked"), (false, "the port of its tool panicked")] {
        let port = Arc::new(TwoQuestions::default());
        let pays = |number: u32| ScriptedCall { name: "bank/pay".to_owned(), arguments: json!({ "number": number }) };
        let replies = vec![ScriptedReply::Calls(vec![pays(1), pays(2)]), ScriptedReply::text("done")];
        let pay = tool("bank/pay", "Pays.", |pays: Pays, _| async move { Ok(format!("paid {}", pays.number)) });
        let pay: Arc<dyn ToolPort> = Arc::new(pay.risk(Risk::High));
        let pay = if is_memory { pay } else { Arc::new(Asked(pay, port.clone())) };
        let builder = builder(ScriptedLlm::replies(replies)).permission_mode(PermissionMode::Ask).local_tools(false);
        let builder = builder.tools(pay).approvals(port.clone()).sink(port.clone());
        let builder = if is_memory { builder.approval_memory(port) } else { builder };
        let runtime = build(builder).await;
        let outcome = turn(&runtime, AgentRequest { approvals: ApprovalsMode::Wait, ..say("pay") }).await;
        let results: Vec<_> = outcome.tool_transcript.iter().map(|entry| format!("{entry:?}")).collect();
        assert_eq!(results.len(), 2, "{results:?}");
        assert!(results[0].contains(told), "{results:?}");
        assert!(results[1].contains("paid 2"), "{results:?}");
        runtime.shutdown().await;
    }
}

/// The port of a tool, which panics when a session ends.
struct Holds(Arc<dyn ToolPort>);

impl ToolPort for Holds {
    fn list_tools(&self) -> BoxFuture<'_, Vec<ToolDescriptor>> {
        self.0.list_tools()
    }

    fn call_tool(&self, invocation: Invocation) -> BoxFuture<'_, Result<ToolOutput, ToolError>> {
        self.0.call_tool(invocation)
    }

    fn session_ended(&self, _session: &SessionId) {
        panic!("a fault of the port");
    }
}

#[tokio::test]
async fn a_session_is_deleted_whose_tools_panic_at_its_end() {
    let pay = tool("bank/pay", "Pays.", |_: Nothing, _| async { Ok("paid") });
    let builder = builder(ScriptedLlm::replies(vec![ScriptedReply::text("fine")]));
    let runtime = build(builder.tools(Arc::new(Holds(Arc::new(pay))))).await;
    turn(&runtime, say("hi")).await;
    assert!(runtime.close(session("s")).await);
    runtime.delete(session("s")).await.unwrap();
    assert_eq!(runtime.records(session("s")).await.unwrap().len(), 0);
    runtime.shutdown().await;
}

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Pays {
    number: u32,
}

/// Panics in the method, or in the future that it returns.
struct NoSummary {
    at_once: bool,
}

impl ContextCompactorPort for NoSummary {
    fn condense(&self, _request: Arc<CondenseRequest>) -> BoxFuture<'_, Result<Summary, AgentError>> {
        assert!(!self.at_once, "a fault of the port");
        Box::pin(async { panic!("a fault of the port") })
    }
}

#[tokio::test]
async fn a_compactor_that_panics_is_named_in_the_error() {
    for at_once in [true, false] {
        let model = ScriptedLlm::replies(vec![ScriptedReply::text("fine")]);
        let runtime = build(builder(model).compactor(Arc::new(NoSummary { at_once }))).await;
        turn(&runtime, say("hi")).await;
        let error = runtime.condense(session("s"), None).await.unwrap_err();
        assert!(matches!(&error, AgentError::Internal(why) if why.contains("the compactor panicked")), "{error:?}");
        runtime.shutdown().await;
    }
}

/// Panics at each event.
struct Breaks;

impl EventSink for Breaks {
    fn emit(&self, _event: &Envelope) {
        panic!("a fault of the port");
    }
}

#[tokio::test]
async fn a_sink_that_panics_costs_the_turn_and_the_other_sinks_nothing() {
    let seen = Recorder::new();
    let model = ScriptedLlm::replies(vec![ScriptedReply::text("fine")]);
    let runtime = build(builder(model).sink(Arc::new(Breaks)).sink(seen.clone())).await;
    let outcome = turn(&runtime, say("hi")).await;
    assert_eq!(outcome.content, "fine");
    runtime.shutdown().await;
    assert_eq!((seen.ends(&outcome.turn_id), seen.count(is_restart)), (1, 0));
}
