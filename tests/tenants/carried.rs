//! The context reaches tools, ports, models and events, and is the same after a resumption in another process.

use std::sync::Arc;

use bob::approvals::{ApprovalsMode, Decision};
use bob::context::RequestContext;
use bob::events::AgentEvent;
use bob::model::{
    Capabilities, CondenseRequest, ContextCompactorPort, DeltaSink, LlmAnswer, LlmError, LlmPort, LlmRequest,
    ScriptedLlm, ScriptedReply, Summary,
};
use bob::runner::{AgentRunner, RunnerRequest};
use bob::sessions::ResumeReply;
use bob::tools::skills::{SkillIndex, SkillPort, SkillQuery, SkillRules, SkillScores};
use bob::{AgentRequest, AgentRunResult, AgentRuntime, ModelName};
use futures_util::future::BoxFuture;
use serde_json::json;

use crate::support::runtime::{Recorder, asking, build, file_store, scripted, session, turn, within};
use crate::tenants::stage::{Person, Seen, asks, pay, paying};

fn full() -> RequestContext {
    let context = RequestContext::of_tenant("acme").principal("ann").label("region", "eu").secret("crm/token");
    context.data(&json!({"seats": [1, 2, {"since": 2020}]})).unwrap()
}

/// A model that keeps the contexts of its requests.
struct Overheard {
    model: ScriptedLlm,
    contexts: Seen<Option<Arc<RequestContext>>>,
    context_tokens: u32,
}

impl LlmPort for Overheard {
    fn capabilities(&self, model: &ModelName) -> Result<Capabilities, LlmError> {
        let capabilities = self.model.capabilities(model)?;
        Ok(Capabilities { context_tokens: self.context_tokens, ..capabilities })
    }

    fn complete_stream<'a>(
        &'a self,
        request: Arc<LlmRequest>,
        model: &ModelName,
        sink: DeltaSink,
    ) -> BoxFuture<'a, Result<LlmAnswer, LlmError>> {
        self.contexts.push(request.context.clone());
        self.model.complete_stream(request, model, sink)
    }
}

fn started(seen: &Recorder) -> Vec<Option<Arc<RequestContext>>> {
    let contexts = seen.events().into_iter().filter_map(|event| match event.event {
        AgentEvent::TurnStarted { context, .. } => Some(context),
        _ => None,
    });
    contexts.collect()
}

#[tokio::test]
async fn tools_ports_models_and_events_get_the_context_of_the_request() {
    let (paid, contexts, seen) = (Seen::default(), Seen::default(), Recorder::new());
    let (person, asked) = Person::saying(Decision::AllowOnce);
    let replies = vec![ScriptedReply::call("bank/pay", json!({})), ScriptedReply::text("done")];
    let model = Overheard { model: ScriptedLlm::replies(replies), contexts: contexts.clone(), context_tokens: 8_192 };
    let builder = asking(model).local_tools(false).tools(Arc::new(pay(&paid))).approvals(person).sink(seen.clone());
    let runtime = build(builder).await;
    turn(&runtime, asks("s", full())).await;
    let expected = Some(Arc::new(full()));
    assert_eq!(paid.take(), std::slice::from_ref(&expected));
    assert_eq!(contexts.take(), [expected.clone(), expected.clone()]);
    assert_eq!(asked.take()[0].context, expected);
    assert_eq!(started(&seen), [expected]);
    // The next request of the session has its own.
    turn(&runtime, asks("s", RequestContext::of_tenant("acme"))).await;
    assert_eq!(paid.take(), [Some(Arc::new(RequestContext::of_tenant("acme")))]);
}

/// Keeps the contexts of its requests.
struct Shorter(Seen<Option<Arc<RequestContext>>>);

impl ContextCompactorPort for Shorter {
    fn condense(&self, request: Arc<CondenseRequest>) -> BoxFuture<'_, Result<Summary, bob::AgentError>> {
        self.0.push(request.context.clone());
        assert_eq!(request.question().context, request.context, "a model is given it as well");
        Box::pin(std::future::ready(Ok(Summary { text: "They talked.".to_owned(), usage: None })))
    }
}

#[tokio::test]
async fn the_summariser_gets_it_as_well() {
    let asked = Seen::default();
    let model = ScriptedLlm::replies(vec![ScriptedReply::text("x".repeat(4_000))]);
    let builder = asking(Overheard { model, contexts: Seen::default(), context_tokens: 2_000 });
    let runtime = build(builder.local_tools(false).compactor(Arc::new(Shorter(asked.clone())))).await;
    for _ in 0..6 {
        turn(&runtime, AgentRequest::text(session("s"), "go on").context(full())).await;
    }
    let asked = asked.take();
    assert!(!asked.is_empty() && asked.iter().all(|context| *context == Some(Arc::new(full()))), "{asked:?}");
}

#[tokio::test]
async fn a_turn_that_is_resumed_in_another_runtime_has_the_context_of_its_request() {
    let folder = tempfile::tempdir().unwrap();
    let paid = Seen::default();
    let first = build(paying(&paid).store(file_store(folder.path()))).await;
    let request = AgentRequest { approvals: ApprovalsMode::Suspend, ..asks("s", full()) };
    let AgentRunResult::Suspended { token, .. } = within(first.run(request)).await.unwrap() else { panic!() };
    within(first.shutdown()).await;
    assert_eq!(paid.take(), []);

    let seen = Recorder::new();
    let next = build(paying(&paid).store(file_store(folder.path())).sink(seen.clone())).await;
    within(next.resume(token, ResumeReply::Decision(Decision::AllowOnce))).await.unwrap();
    assert_eq!(paid.take(), [Some(Arc::new(full()))]);
    assert_eq!(started(&seen), [Some(Arc::new(full()))]);
}

/// A source without skills, which keeps the contexts of its queries.
struct Shelf(Seen<Option<Arc<RequestContext>>>);

impl SkillPort for Shelf {
    fn index(&self, _cwd: Option<String>) -> BoxFuture<'_, Arc<SkillIndex>> {
        Box::pin(std::future::ready(Arc::default()))
    }

    fn score<'a>(&'a self, _index: &'a SkillIndex, query: &'a SkillQuery) -> BoxFuture<'a, Option<SkillScores>> {
        self.0.push(query.context.clone());
        Box::pin(std::future::ready(None))
    }
}

#[tokio::test]
async fn a_source_of_skills_gets_it_as_well() {
    let asked = Seen::default();
    let port = Arc::new(Shelf(asked.clone()));
    let builder = scripted(vec![ScriptedReply::text("done")]).skills(port, SkillRules::default());
    let runtime = build(builder).await;
    turn(&runtime, AgentRequest::text(session("s"), "go on").context(full())).await;
    assert_eq!(asked.take(), [Some(Arc::new(full()))]);
}

#[tokio::test]
async fn the_runner_gives_it_to_its_model_and_checks_it() {
    let contexts = Seen::default();
    let model = ScriptedLlm::replies(vec![ScriptedReply::text("done")]);
    let model = Overheard { model, contexts: contexts.clone(), context_tokens: 8_192 };
    let request = || RunnerRequest::text(session("s"), ModelName::parse("fake:m-1").unwrap(), "go");
    let runner = AgentRunner::new(request().context(full()), &model).unwrap();
    drop(within(runner.infer(&model)).await);
    assert_eq!(contexts.take(), [Some(Arc::new(full()))]);
    let refused = AgentRunner::new(request().context(RequestContext::of_tenant("")), &model);
    assert!(matches!(refused, Err(bob::AgentError::Invalid(_))));
}
