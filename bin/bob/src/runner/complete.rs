//! Runs a turn to its end without intervention.

use super::{AgentRunner, AgentStepResult, AwaitingToolCall, Finished, Ready, RunnerRequest};
use bob_actors::llm::LlmPort;
use bob_actors::tools::{ToolError, ToolPort};
use bob_messages::agent::{agent_of, outcome_of};
use bob_messages::chat::ToolCall;
use bob_messages::ids::CallId;
use bob_messages::tools::ToolOutput;
use futures_util::FutureExt;
use futures_util::future::BoxFuture;

impl AgentRunner<Ready> {
    /// Runs the turn to its end with these tools, sequentially, each call within its timeout. A call that needs
    /// approval is denied. Dropping the future cancels the model call or the tool call.
    ///
    /// A call of a [sub-agent](super#sub-agents) is a turn of its own, which is run to its end with this model and these tools;
    /// its journal is dropped with it. Where a call in it needs approval, that turn ends, and its caller reads why.
    pub async fn run_to_completion(self, model: &dyn LlmPort, tools: &dyn ToolPort) -> Finished {
        let mut ready = self;
        loop {
            let asked = match ready.infer(model).await {
                AgentStepResult::Finished(finished) => return finished,
                AgentStepResult::RequiresTool(runner) => runner,
            };
            let wanted = asked.pending_calls().iter().find_map(|call| asked.approval_wanted(&call.id));
            if let Some(reason) = wanted.map(str::to_owned) {
                return asked
                    .require_approval(reason.as_str())
                    .deny(format!("denied: {reason}, and no approval is possible here"));
            }
            let results = asked.results_from(model, tools).await;
            ready = match asked.provide_tool_results(results) {
                Ok(ready) => ready,
                Err(not_taken) => return not_taken.runner.cancel(not_taken.why),
            };
        }
    }
}

impl AgentRunner<AwaitingToolCall> {
    async fn results_from(&self, model: &dyn LlmPort, tools: &dyn ToolPort) -> Vec<(CallId, ToolOutput)> {
        let mut results = Vec::with_capacity(self.state.pending.len());
        for call in &self.state.pending {
            if let Some(child) = self.child(&call.id) {
                results.push((call.id.clone(), ended(call, child, model, tools).await));
                continue;
            }
            let Some((invocation, limit)) = self.run.invocation(call) else { continue };
            let mut output = match tokio::time::timeout(limit, tools.call_tool(invocation)).await {
                Ok(returned) => returned.unwrap_or_else(|error: ToolError| ToolOutput::error(error.to_string())),
                Err(_) => ToolOutput::error(format!("outcome unknown: no result within {} ms", limit.as_millis())),
            };
            // There is no store of artifacts here: what files held before is not kept in memory instead.
            output.changes.iter_mut().for_each(|change| change.found = None);
            results.push((call.id.clone(), output));
        }
        results
    }
}

/// The result of a call of a sub-agent, whose turn is run to its end.
fn ended<'a>(
    call: &'a ToolCall,
    child: RunnerRequest,
    model: &'a dyn LlmPort,
    tools: &'a dyn ToolPort,
) -> BoxFuture<'a, ToolOutput> {
    async move {
        let name = agent_of(call);
        match AgentRunner::new(child, model) {
            Ok(child) => outcome_of(name, &child.run_to_completion(model, tools).await.response),
            Err(error) => ToolOutput::error(format!("the agent {name} was not started: {error}")),
        }
    }
    .boxed()
}
