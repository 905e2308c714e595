//! One turn step by step, with a person who approves each call; between two steps it is a text in a file.

use bob::model::{ScriptedLlm, ScriptedReply};
use bob::runner::{AgentRunner, AgentStepResult, AnyRunner, RunnerRequest};
use bob::tools::{ToolCall, ToolDescriptor, ToolName, ToolOutput};
use bob::{ModelName, SessionId};
use serde_json::json;

/// Stands for a person, who allows small sums.
fn person_approves(reason: &str, calls: &[std::sync::Arc<ToolCall>]) -> bool {
    println!("{reason}: {} {}", calls[0].name, calls[0].arguments);
    calls.iter().all(|call| call.arguments["sum"].as_u64() < Some(100))
}

fn pay(call: &ToolCall) -> ToolOutput {
    ToolOutput::text(format!("paid {}", call.arguments["sum"]))
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let model = ScriptedLlm::replies(vec![
        ScriptedReply::call("bank/pay", json!({"sum": 3})),
        ScriptedReply::text("It is paid."),
    ]);
    let schema = json!({"type": "object", "properties": {"sum": {"type": "integer"}}, "required": ["sum"]});
    let tools = vec![ToolDescriptor::new(ToolName::new("bank/pay"), "Pays a sum.", schema)];
    let request = RunnerRequest::text(SessionId::parse("demo")?, ModelName::parse("scripted:demo")?, "Pay 3.");
    let mut parked = serde_json::to_string(&AnyRunner::from(AgentRunner::new(request.tools(tools), &model)?))?;
    let done = loop {
        let next: AnyRunner = match serde_json::from_str(&parked)? {
            AnyRunner::Ready(runner) => match runner.infer(&model).await {
                AgentStepResult::Finished(done) => break done,
                AgentStepResult::RequiresTool(runner) => runner.require_approval("a payment").into(),
            },
            AnyRunner::AwaitingApproval(runner) => match person_approves(runner.reason(), runner.pending_calls()) {
                true => runner.approve().into(),
                false => break runner.deny("the person said no"),
            },
            AnyRunner::AwaitingToolCall(runner) => {
                let results = runner.pending_calls().iter().map(|call| (call.id.clone(), pay(call))).collect();
                runner.provide_tool_results(results)?.into()
            }
        };
        parked = serde_json::to_string(&next)?;
    };
    println!("{}", done.response.content);
    assert_eq!(done.response.content, "It is paid.");
    Ok(())
}
