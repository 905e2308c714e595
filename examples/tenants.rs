//! Two tenants on one runtime: each has its own sessions, events and lasting decisions. `cargo run --example tenants`
//!
//! The model is scripted, so nothing leaves this machine.
#![allow(clippy::print_stdout, reason = "it speaks to its user")]

use std::sync::Arc;

use bob::approvals::{ApprovalPort, ApprovalQuestion, ApprovalsMode, Decision};
use bob::context::RequestContext;
use bob::model::{ScriptedLlm, ScriptedReply};
use bob::sessions::SessionFilter;
use bob::tools::{Invocation, Risk, ToolError, tool};
use bob::{AgentRequest, AgentRuntime, BoxFuture, ModelName, RuntimeBuilder, SessionId};

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Booking {
    flight: String,
}

/// Books as the user of the request. A real tool would look up the secret that the context names.
async fn book(booking: Booking, call: Invocation) -> Result<String, ToolError> {
    let context = call.context.context.as_deref().ok_or_else(|| ToolError::new("nobody is signed in"))?;
    let of = |name: Option<String>| name.unwrap_or_else(|| "nobody".to_owned());
    let (tenant, user) =
        (context.tenant.as_ref().map(ToString::to_string), context.principal.as_ref().map(ToString::to_string));
    println!("  booked {} for {} of {}", booking.flight, of(user), of(tenant));
    Ok("booked".to_owned())
}

/// Asks the user of the question's tenant; here everybody answers "always".
struct Console;

impl ApprovalPort for Console {
    fn approve(&self, question: ApprovalQuestion) -> BoxFuture<'_, Decision> {
        let tenant = question.context.as_ref().and_then(|context| context.tenant.clone());
        println!(
            "  asked {}: may {} run?",
            tenant.map_or_else(|| "nobody".to_owned(), |tenant| tenant.to_string()),
            question.call.name
        );
        Box::pin(std::future::ready(Decision::AllowAlways))
    }
}

#[tokio::main(flavor = "current_thread")]
pub(crate) async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let call = ScriptedReply::call("travel/book", serde_json::json!({"flight": "LH 1"}));
    let model = ScriptedLlm::replies(vec![call, ScriptedReply::text("It is booked.")]);
    let builder = RuntimeBuilder::new(ModelName::parse("scripted:demo")?).model(Arc::new(model)).local_tools(false);
    let tool = tool("travel/book", "Books a flight.", book).risk(Risk::High);
    let runtime = builder.tools(Arc::new(tool)).approvals(Arc::new(Console)).build().await?;

    let (acme, globex) = (runtime.tenant("acme")?, runtime.tenant("globex")?);
    for (tenant, user, id) in [(&acme, "ann", "acme.1"), (&acme, "ann", "acme.1"), (&globex, "gus", "globex.1")] {
        println!("{user} of {}:", tenant.id());
        let context = RequestContext::of_tenant(tenant.id().clone()).principal(user).secret("travel/token");
        let request = AgentRequest::text(SessionId::parse(id)?, "Book LH 1.").context(context);
        tenant.run(AgentRequest { approvals: ApprovalsMode::Wait, ..request }).await?;
    }
    for tenant in [&acme, &globex] {
        let page = tenant.sessions(SessionFilter::default(), None).await?;
        let ids: Vec<_> = page.sessions.iter().map(|one| one.session.as_str()).collect();
        println!("{} has the sessions {ids:?}", tenant.id());
    }
    let refused = globex.run(AgentRequest::text(SessionId::parse("acme.1")?, "What was booked?")).await;
    println!("globex on acme.1: {}", refused.err().map_or_else(|| "accepted".to_owned(), |error| error.to_string()));
    runtime.shutdown().await;
    Ok(())
}
