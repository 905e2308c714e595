//! `tools`: lists the tools of the model.

use std::io::{self, IsTerminal};
use std::sync::Arc;

use bob::AgentRuntime;
use bob::store::MemoryStore;
use bob::tools::{RiskSource, ToolDescriptor, ToolSource};
use bob_config::Config;
use bob_config::assemble::Choices;
use serde_json::{Value, json};

use crate::exit::{Exit, Failure};
use crate::runtime::OpenRuntime;
use crate::runtime::signals::Signals;
use crate::terminal::print;

/// How many characters of a description are shown.
const MOST_DESCRIPTION: usize = 60;

/// How many columns a line of the list has room in.
const WIDE: usize = 120;

pub(crate) async fn tools(config: &Config, as_json: bool) -> Result<Exit, Failure> {
    let mut signals = Signals::new().map_err(|error| Failure::internal(format!("cannot catch signals: {error}")))?;
    // The list of tools needs no sessions.
    let choices = Choices { store: Some(MemoryStore::new()), ..Choices::default() };
    let opened = OpenRuntime::open(config, choices).await?;
    let listed = tokio::select! {
        tools = opened.runtime.tools() => Ok(tools),
        caught = signals.next() => Err(Failure::signalled(caught.exit())),
    };
    let warnings = opened.warnings().now();
    opened.close(&mut signals).await;
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
            print::note("no tool is available; policy.allow_tools and policy.deny_tools say which may be");
        }
    }
    Ok(Exit::Success)
}

/// A tool as lists show it: one line, or three on a terminal with fewer columns than [`WIDE`].
pub(crate) fn row(tool: &Arc<ToolDescriptor>) -> String {
    let is_narrow = io::stdout().is_terminal() && print::columns().is_some_and(|columns| columns < WIDE);
    row_of(tool, is_narrow)
}

fn row_of(tool: &ToolDescriptor, is_narrow: bool) -> String {
    let description = print::first_line(&tool.description, MOST_DESCRIPTION);
    let (name, risk, source, from) =
        (tool.id.as_str(), tool.risk.as_str(), source(&tool.source), risk_from(&tool.risk_from));
    match is_narrow {
        true => format!("{name}\n  {risk}, {source}, {from}\n  {description}"),
        false => format!("{name:<24} {risk:<6} {source:<8} {from:<23} {description}"),
    }
}

fn described(tool: &ToolDescriptor) -> Value {
    json!({
        "name": tool.id, "title": tool.title, "kind": tool.kind, "description": tool.description,
        "source": source(&tool.source), "risk": tool.risk, "risk_from": tool.risk_from, "read_only": tool.read_only,
        "idempotent": tool.idempotent, "schema": tool.schema,
    })
}

pub(crate) fn risk_from(from: &RiskSource) -> String {
    match from {
        RiskSource::Program => "by its program".to_owned(),
        RiskSource::Annotation { name, value } => format!("by {name}={value}"),
        RiskSource::Default => "by default: unsaid".to_owned(),
        RiskSource::Configuration { pattern } => format!("by [tools.{pattern:?}]"),
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

#[cfg(test)]
mod tests {
    use super::*;
    use bob::tools::{Risk, ToolName};

    #[test]
    fn on_a_narrow_terminal_a_tool_has_lines_of_its_own() {
        let description = "Read the file. Each line is shown behind its number and a tab, which are not part of it.";
        let tool = ToolDescriptor::new(ToolName::new("local/read_file"), description, json!({}));
        let tool = tool.with_source(ToolSource::Local).with_risk(Risk::Low);
        let wide = "local/read_file          low    local    by its program          Read the file. Each line is shown behind its number and a ta…";
        assert_eq!(row_of(&tool, false), wide);
        let narrow = "local/read_file\n  low, local, by its program\n  Read the file. Each line is shown behind its number and a ta…";
        assert_eq!(row_of(&tool, true), narrow);
    }
}
