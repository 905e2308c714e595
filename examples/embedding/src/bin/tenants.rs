//! Several tenants in one runtime: a tool acts for the person of its request, and nothing of one is decided for another.

use bob::approvals::{ApprovalMemory, ApprovalPort, ApprovalQuestion, ApprovalsMode, Decision, Standing};
use bob::context::{Identity, RequestContext};
use bob::model::{ScriptedLlm, ScriptedReply};
use bob::sessions::SessionFilter;
use bob::tools::{Invocation, Risk, ToolError, ToolName, tool};
use bob::{AgentRequest, AgentRuntime, BoxFuture, ModelName, Runtime, RuntimeBuilder, SessionId};
use std::sync::{Arc, Mutex, PoisonError};

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Pay {
    sum: u32,
}

/// Pays from the account of the tenant that the request names; the model has no say in it.
async fn pay(pay: Pay, call: Invocation) -> Result<String, ToolError> {
    let context = call.context.context.as_ref().ok_or_else(|| ToolError::new("the request names no tenant"))?;
    let tenant = context.tenant.as_ref().ok_or_else(|| ToolError::new("the request names no tenant"))?;
    Ok(format!("{} paid {}", tenant.as_str(), pay.sum))
}

/// Says "always", and counts for whom it was asked.
#[derive(Default)]
struct Person(Mutex<Vec<String>>);

impl ApprovalPort for Person {
    fn approve(&self, question: ApprovalQuestion) -> BoxFuture<'_, Decision> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(question.session.to_string());
        Box::pin(async { Decision::AllowAlways })
    }
}

/// Keeps decisions by their owner.
#[derive(Default)]
struct Decisions(Mutex<Vec<Arc<Standing>>>);

impl ApprovalMemory for Decisions {
    fn recall(&self, tool: &ToolName, identity: &Identity) -> Vec<Arc<Standing>> {
        let kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        kept.iter().filter(|one| one.tool == *tool && one.identity == *identity).cloned().collect()
    }

    fn keep(&self, standing: Arc<Standing>) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(standing);
    }
}

async fn turn(runtime: &Runtime, tenant: &str, session: &str) -> Result<String, Box<dyn std::error::Error>> {
    let context = RequestContext::of_tenant(tenant).principal("ann");
    let request = AgentRequest::text(SessionId::parse(session)?, "Pay 3.").context(context);
    let result = runtime.run(AgentRequest { approvals: ApprovalsMode::Wait, ..request }).await?;
    Ok(result.response().tool_transcript[0].result.clone())
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let model = ScriptedLlm::replies(vec![
        ScriptedReply::call("bank/pay", serde_json::json!({"sum": 3})),
        ScriptedReply::text("It is paid."),
    ]);
    let person = Arc::new(Person::default());
    let builder = RuntimeBuilder::new(ModelName::parse("scripted:demo")?).model(Arc::new(model)).local_tools(false);
    let builder = builder.tools(Arc::new(tool("bank/pay", "Pays a sum.", pay).risk(Risk::High)));
    let runtime = builder.approvals(person.clone()).approval_memory(Arc::new(Decisions::default())).build().await?;
    for (tenant, session) in [("acme", "acme-1"), ("acme", "acme-2"), ("globex", "globex-1")] {
        println!("{session}: {}", turn(&runtime, tenant, session).await?);
    }
    let asked = person.0.lock().unwrap_or_else(PoisonError::into_inner).clone();
    println!("asked for {asked:?}");
    assert_eq!(asked, ["acme-1", "globex-1"], "the first yes of acme opens nothing for globex");
    let of_acme = SessionFilter { tenant: Some("acme".into()), ..SessionFilter::default() };
    let page = runtime.sessions(of_acme, None).await?;
    println!("{} sessions of acme", page.sessions.len());
    assert_eq!(page.sessions.len(), 2);
    runtime.shutdown().await;
    Ok(())
}
