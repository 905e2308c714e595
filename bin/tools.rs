//! `tools`: what the model may use.

use std::sync::Arc;

use bob::assemble::Choices;
use bob::config::Config;
use bob::facade::AgentRuntime;
use bob_actors::store::MemoryStore;
use bob_messages::tools::{Risk, ToolDescriptor, ToolSource};
use serde_json::{Value, json};

use crate::exit::{Exit, Failure};
use crate::house::House;
use crate::print;
use crate::signals::Signals;

/// How many characters of a description are shown.
const MOST_DESCRIPTION: usize = 60;

/// Lists the tools on offer.
///
/// # Errors
/// When the runtime cannot be made from the configuration.
pub(crate) async fn tools(config: &Config, as_json: bool) -> Result<Exit, Failure> {
    let mut signals = Signals::new().map_err(|error| Failure::internal(format!("cannot catch signals: {error}")))?;
    // Whoever lists tools wants nothing of the sessions.
    let choices = Choices { store: Some(MemoryStore::new()), ..Choices::default() };
    let house = House::open(config, choices).await?;
    let listed = tokio::select! {
        tools = house.runtime.tools() => Ok(tools),
        caught = signals.next() => Err(Failure::signalled(caught.exit())),
    };
    let warnings = house.warnings().now();
    house.close(&mut signals).await;
    let tools = listed?;
    if as_json {
        let tools: Vec<Value> = tools.iter().map(|tool| described(tool)).collect();
        print::json(&json!({ "tools": tools }))?;
    } else {
        for tool in &tools {
            print::line(&row(tool))?;
        }
        for warning in &warnings {
            print::note(warning);
        }
        if tools.is_empty() {
            print::note("no tool is on offer; policy.allow_tools and policy.deny_tools say which may be");
        }
    }
    Ok(Exit::Success)
}

/// One line for a tool, as lists show it.
pub(crate) fn row(tool: &Arc<ToolDescriptor>) -> String {
    let description = print::first_line(&tool.description, MOST_DESCRIPTION);
    format!("{:<24} {:<6} {:<8} {description}", tool.id.as_str(), risk(tool.risk), source(&tool.source))
}

fn described(tool: &ToolDescriptor) -> Value {
    json!({
        "name": tool.id, "title": tool.title, "kind": tool.kind, "description": tool.description,
        "source": source(&tool.source), "risk": tool.risk, "read_only": tool.read_only,
        "idempotent": tool.idempotent, "schema": tool.schema,
    })
}

fn risk(risk: Risk) -> &'static str {
    match risk {
        Risk::Low => "low",
        Risk::Medium => "medium",
        Risk::High => "high",
    }
}

fn source(source: &ToolSource) -> String {
    match source {
        ToolSource::Local => "local".to_owned(),
        ToolSource::Embedded => "embedded".to_owned(),
        ToolSource::Server(server) => format!("mcp/{server}"),
        ToolSource::Agent => "agent".to_owned(),
    }
}
