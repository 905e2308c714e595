//! The tools room of the small world: what it offers, how it judges, and what it lets run.

use crate::agent::{Agent, NAMESPACE, RESULT, STATUS};
use crate::approvals::{AskedTool, Standing};
use crate::chat::{ServerWait, ToolCall};
use crate::ids::ToolName;
use crate::tools::{CallTraits, CheckRequest, Grant, Risk, ToolDescriptor, ToolKind, ToolSet, ToolSource, Verdict};
use std::sync::Arc;

/// `read*` and `use_skill` are read-only, `idem*` idempotent, `deny*`, `ask*`, `bad*` say what their
/// verdict is; everything else has side effects.
pub(crate) fn tools() -> Arc<ToolSet> {
    Arc::new(ToolSet::from(OWN.map(tool).to_vec()))
}

/// The tools of a session that has skills.
pub(crate) fn tools_and_skills() -> Arc<ToolSet> {
    Arc::new(ToolSet::from(OWN.into_iter().chain(["use_skill"]).map(tool).collect::<Vec<_>>()))
}

const OWN: [&str; 6] = ["read", "write", "idem", "deny", "ask", "bad"];

fn tool(own: &str) -> Arc<ToolDescriptor> {
    Arc::new(ToolDescriptor {
        id: ToolName::new(format!("local/{own}")),
        title: own.to_owned(),
        kind: ToolKind::Other,
        description: format!("Does {own}."),
        schema: serde_json::json!({"type": "object"}),
        source: ToolSource::Local,
        risk: Risk::Low,
        risk_from: Default::default(),
        idempotent: own.starts_with("idem"),
        read_only: only_reads(own),
    })
}

fn only_reads(own: &str) -> bool {
    own.starts_with("read") || own == "use_skill"
}

/// The tools, with these agents and what follows their tasks, if there are any.
pub(crate) fn tools_with(agents: &[Agent]) -> Arc<ToolSet> {
    if agents.is_empty() {
        return tools();
    }
    let names = agents.iter().map(Agent::tool).chain([STATUS, RESULT].map(ToolName::new));
    let tool = |name: ToolName| {
        let reads = [STATUS, RESULT].contains(&name.as_str());
        let tool = ToolDescriptor::new(name, "", serde_json::json!({"type": "object"})).with_source(ToolSource::Agent);
        Arc::new(tool.with_risk(Risk::Low).with_idempotent(true).with_read_only(reads))
    };
    let all: Vec<_> = tools().tools().iter().cloned().chain(names.map(tool)).collect();
    Arc::new(ToolSet::from(all))
}

/// How a call of an agent, or about a task, is judged: after a change, those that do something are refused.
fn verdict_of_agent(check: &CheckRequest, own: &str, changes: u32) -> Verdict {
    let grant = Grant { call: check.call.id.clone(), seal: seal(&check.call, changes) };
    let traits = CallTraits { read_only: Agent::is_taken(own), idempotent: true };
    match own {
        _ if changes == 0 || traits.read_only => Verdict::Allow { grant, traits },
        "inline" => Verdict::Unavailable { why: "not run: it is away".into() },
        _ => Verdict::Deny { reason: "policy".into() },
    }
}

/// What a call is told to whom these tools are after so many changes, and what was decided for ever.
pub(crate) fn verdict(check: &CheckRequest, changes: u32, memory: &[Arc<Standing>]) -> Verdict {
    if let Some(own) = check.call.name.as_str().strip_prefix(NAMESPACE) {
        return verdict_of_agent(check, own, changes);
    }
    let own = check.call.name.own_name();
    let grant = Grant { call: check.call.id.clone(), seal: seal(&check.call, changes) };
    let traits = CallTraits { read_only: only_reads(own), idempotent: own.starts_with("idem") };
    match own {
        "deny" => Verdict::Deny { reason: "policy".into() },
        "away" => Verdict::Unavailable { why: "not run: its server is away".into() },
        "bad" => Verdict::Invalid { complaint: "wrong arguments".into() },
        "ask" => match decided(check, &definition(changes), memory) {
            Some(true) => Verdict::Allow { grant, traits },
            Some(false) => Verdict::Deny { reason: "calls like this were denied for good".into() },
            None => Verdict::Ask { risk: Risk::High, reason: "high risk".into(), tool: Arc::new(shown(changes)) },
        },
        _ if side_effects(&check.call.name) || traits.read_only || traits.idempotent => {
            Verdict::Allow { grant, traits }
        }
        _ => Verdict::Invalid { complaint: "there is no such tool".into() },
    }
}

/// What people decided about a call of a tool with this definition.
fn decided(check: &CheckRequest, definition: &str, memory: &[Arc<Standing>]) -> Option<bool> {
    let shown = check.approved.as_ref().and_then(|approved| approved.tool.as_ref());
    if shown.is_some_and(|tool| tool.definition == definition) {
        return Some(true);
    }
    let standing = check.standing.iter().chain(memory).filter(|standing| standing.tool == check.call.name);
    standing.filter(|standing| standing.definition == definition).map(|standing| standing.allowed).min()
}

/// What names the tools' definitions after so many changes.
pub(crate) fn definition(changes: u32) -> String {
    format!("definition {changes}")
}

fn shown(changes: u32) -> AskedTool {
    AskedTool {
        definition: definition(changes),
        text: "Does ask.".to_owned(),
        exact: false,
        like: Vec::new(),
        changes: None,
    }
}

/// What a grant says: the call, and its tool as it was when the call was judged.
pub(crate) fn seal(call: &ToolCall, changes: u32) -> String {
    format!("{}{}#{changes}", call.name, call.arguments)
}

/// Whether a call of this tool, when it runs, must never run twice.
pub(crate) fn side_effects(name: &ToolName) -> bool {
    matches!(name.own_name(), "write" | "ask")
}

/// How a call that a tool server has is gone on with, in the trace of what was dispatched.
pub(crate) fn followed(wait: Option<&ServerWait>) -> String {
    match wait {
        Some(ServerWait::Task { .. }) => " is followed".to_owned(),
        Some(ServerWait::Asks { reply, .. }) => format!(" goes on with {}", reply.as_deref().unwrap_or("")),
        None => String::new(),
    }
}
