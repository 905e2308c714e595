//! A server's tools as descriptors, with their bounds.
//!
//! A tool that exceeds a bound, or has an invalid or duplicate name, is left out with a note. Names are never
//! changed: a tool that cannot keep its name is not offered under another.

use bob_messages::ids::{ServerId, ToolName};
use bob_messages::tools::{Risk, RiskSource, ToolDescriptor, ToolKind, ToolSource};
use rmcp::model::{Tool, ToolAnnotations};
use serde_json::Value;
use std::collections::HashSet;

use super::clip;
use crate::tools::catalogue::is_well_formed;

/// How many tools of one server are offered.
const MAX_TOOLS: usize = 512;

/// How large one tool's schema may be as JSON, in bytes.
const MAX_SCHEMA_BYTES: usize = 256 * 1024;

/// How deep one tool's schema may be.
const MAX_SCHEMA_DEPTH: usize = 64;

/// How much of a tool's description is kept, in bytes.
const MAX_DESCRIPTION_BYTES: usize = 16 * 1024;

/// How many tools that are left out are named.
const MAX_NAMED: usize = 5;

#[derive(Debug, Clone)]
pub(in crate::mcp) struct ToolFilter {
    pub(in crate::mcp) server: ServerId,
    /// Which of them, by the server's own names; `None`: all.
    pub(in crate::mcp) offered: Option<Vec<String>>,
}

#[derive(Debug, Clone, PartialEq)]
pub(in crate::mcp) struct Listed {
    pub(in crate::mcp) tools: Vec<ToolDescriptor>,
    /// Which were left out and why; empty when none was.
    pub(in crate::mcp) left_out: String,
}

impl ToolFilter {
    pub(super) fn open(&self) -> Listing<'_> {
        Listing {
            filter: self,
            tools: Vec::new(),
            names: HashSet::new(),
            seen: HashSet::new(),
            notes: Vec::new(),
            unnamed: 0,
        }
    }
}

pub(super) struct Listing<'a> {
    filter: &'a ToolFilter,
    tools: Vec<ToolDescriptor>,
    /// In lower case: names that differ only in case could be mistaken.
    names: HashSet<String>,
    /// Those of the wanted tools that the server has.
    seen: HashSet<String>,
    notes: Vec<String>,
    unnamed: usize,
}

impl Listing<'_> {
    /// Adds a page; returns whether to request another.
    pub(super) fn take(&mut self, page: Vec<Tool>) -> bool {
        for tool in page {
            if self.tools.len() == MAX_TOOLS {
                self.note(&format!("it has more than {MAX_TOOLS} tools"));
                return false;
            }
            let wanted =
                self.filter.offered.as_ref().is_none_or(|offered| offered.iter().any(|name| *name == tool.name));
            if !wanted {
                continue;
            }
            self.seen.insert(tool.name.to_string());
            let said = tool.name.to_string();
            match self.admitted(tool) {
                Ok(descriptor) => self.tools.push(descriptor),
                Err(why) => self.note(&format!("{:?} {why}", short(&said))),
            }
        }
        true
    }

    pub(super) fn note(&mut self, what: &str) {
        if self.notes.len() < MAX_NAMED {
            self.notes.push(what.to_owned());
        } else {
            self.unnamed += 1;
        }
    }

    pub(super) fn close(mut self) -> Listed {
        for name in self.filter.offered.iter().flatten() {
            if !self.seen.contains(name) {
                self.note(&format!("it has no {:?}", short(name)));
            }
        }
        let mut left_out = self.notes.join("; ");
        if self.unnamed > 0 {
            left_out.push_str(&format!("; and {} more", self.unnamed));
        }
        Listed { tools: self.tools, left_out }
    }

    fn admitted(&mut self, tool: Tool) -> Result<ToolDescriptor, String> {
        let id = ToolName::new(format!("mcp/{}/{}", self.filter.server, tool.name));
        if tool.name.contains('/') || !is_well_formed(&id) {
            return Err("is no name a tool may have: letters, digits, `_`, `-` and `.`, not too long".to_owned());
        }
        let schema = Value::Object((*tool.input_schema).clone());
        if !is_within(&schema, MAX_SCHEMA_DEPTH) {
            return Err(format!("has a schema deeper than {MAX_SCHEMA_DEPTH}"));
        }
        if schema.to_string().len() > MAX_SCHEMA_BYTES {
            return Err(format!("has a schema of more than {MAX_SCHEMA_BYTES} bytes"));
        }
        if !self.names.insert(tool.name.to_ascii_lowercase()) {
            return Err("is there twice, or differs from another only in case".to_owned());
        }
        Ok(described(id, &self.filter.server, schema, &tool))
    }
}

fn described(id: ToolName, server: &ServerId, schema: Value, tool: &Tool) -> ToolDescriptor {
    let said = tool.annotations.clone().unwrap_or_default();
    let read_only = said.read_only_hint == Some(true);
    let (risk, risk_from) = risk(&said);
    let title = tool.title.as_deref().or(said.title.as_deref()).unwrap_or(&tool.name);
    let description = tool.description.as_deref().unwrap_or_default();
    ToolDescriptor::new(id, description[..description.floor_char_boundary(MAX_DESCRIPTION_BYTES)].to_owned(), schema)
        .with_title(clip(title))
        .with_kind(if read_only { ToolKind::Read } else { ToolKind::Other })
        .with_source(ToolSource::Server(server.clone()))
        .with_risk(risk)
        .with_risk_from(risk_from)
        .with_idempotent(read_only || said.idempotent_hint == Some(true))
        .with_read_only(read_only)
}

/// How risky a tool is by its annotations, with the defaults of the protocol: a tool that does not say that it
/// changes nothing changes something, and one that does not say that it destroys nothing may.
fn risk(said: &ToolAnnotations) -> (Risk, RiskSource) {
    let from = |name: &str, value| RiskSource::Annotation { name: name.to_owned(), value };
    match (said.read_only_hint, said.destructive_hint) {
        (Some(true), _) => (Risk::Low, from("readOnlyHint", true)),
        (Some(false) | None, Some(false)) => (Risk::Medium, from("destructiveHint", false)),
        (Some(false) | None, Some(true)) => (Risk::High, from("destructiveHint", true)),
        (Some(false) | None, None) => (Risk::High, RiskSource::Default),
    }
}

/// Whether nothing in the value lies deeper than this.
pub(super) fn is_within(value: &Value, depth: usize) -> bool {
    match value {
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => true,
        Value::Array(items) => depth > 0 && items.iter().all(|item| is_within(item, depth - 1)),
        Value::Object(fields) => depth > 0 && fields.values().all(|field| is_within(field, depth - 1)),
    }
}

fn short(name: &str) -> String {
    name.chars().take(64).collect()
}
