//! The one place where a call is judged.
//!
//! The actor that performs the calls owns the gate and asks it twice: before a call is allowed (`Gate::judge`) and
//! again when it arrives with its grant (`Gate::admit`). Nothing reaches a tool by another way.

use super::call_rules::CallRuling;
use super::catalogue::{Catalogue, CatalogueError, Ruled, Tool};
use super::concerned::Led;
use super::grant::{KeyPlace, RoomKey, bytes_of};
use super::like::{is_exact, is_like, like};
use super::policy::{Names, Policy, PolicyError, Rules};
use super::standing::{Stands, is_allowed_exactly, shown, stands};
use bob_messages::chat::ToolCall;
use bob_messages::ids::ToolName;
use bob_messages::tools::{CallContext, CallTraits, CheckRequest, Grant, ToolDescriptor, ToolKind, Verdict};
use serde_json::Value;
use std::collections::HashMap;
use std::sync::Arc;

/// How many different session lists are remembered; more are read anew.
const REMEMBERED_LISTS: usize = 256;

/// Why a gate cannot be opened.
#[derive(Debug, thiserror::Error)]
pub enum GateError {
    /// A rule cannot be understood.
    #[error("{0}")]
    Policy(#[from] PolicyError),
    /// The tools cannot stand side by side.
    #[error("{0}")]
    Catalogue(#[from] CatalogueError),
    /// No key could be drawn.
    #[error("the system gives no random numbers for the grants' key")]
    Key(#[source] std::io::Error),
}

/// Judges calls. Has its own key: a grant of one gate is nothing to another, unless that
/// one succeeds it in the same room and was handed the key.
#[derive(Debug)]
pub struct Gate {
    rules: Arc<Rules>,
    catalogue: Catalogue,
    key: RoomKey,
    /// The sessions' own lists, read once.
    lists: HashMap<Arc<[String]>, Arc<Names>>,
    /// Where the paths of calls led when they were judged.
    led: Arc<Led>,
}

#[derive(Debug)]
pub(crate) enum Judged {
    /// Its asker is told.
    Told(Verdict),
    /// It may run at once.
    MayRun(Admitted),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// A rule is against it.
    Denied(String),
    /// It is not a call that could run.
    Invalid(String),
}

impl From<Refusal> for Verdict {
    fn from(refusal: Refusal) -> Self {
        match refusal {
            Refusal::Denied(reason) => Self::Deny { reason },
            Refusal::Invalid(complaint) => Self::Invalid { complaint },
        }
    }
}

#[derive(Debug)]
pub(crate) struct Admitted {
    pub(crate) port: usize,
    /// How long it may run, in milliseconds.
    pub(crate) timeout_ms: u64,
    /// What the rules say of that, if they do; else its tool may say more.
    pub(crate) ruled_ms: Option<u64>,
    /// Whether it changes nothing, however it ends.
    pub(crate) read_only: bool,
    /// Whether running it again does no more than running it once.
    pub(crate) may_repeat: bool,
}

impl Gate {
    /// A gate before these tools, given port by port.
    ///
    /// # Errors
    /// When a rule cannot be understood, when tools share a name or have one no
    /// tool may have, or when the system gives no key.
    pub fn new(ports: impl IntoIterator<Item = Vec<ToolDescriptor>>, policy: Policy) -> Result<Self, GateError> {
        Self::with_rules(ports, Arc::new(Rules::new(policy)?))
    }

    /// A gate with rules that were parsed already.
    pub(crate) fn with_rules(
        ports: impl IntoIterator<Item = Vec<ToolDescriptor>>,
        rules: Arc<Rules>,
    ) -> Result<Self, GateError> {
        let catalogue = Catalogue::new(ports, &rules)?;
        let key = RoomKey::draw().map_err(GateError::Key)?;
        Ok(Self { rules, catalogue, key, lists: HashMap::new(), led: Arc::default() })
    }

    /// Takes over the key of a predecessor, whose grants then stay good; without one,
    /// the key is left there for the successors.
    pub(crate) fn succeeding(mut self, key: &KeyPlace) -> Self {
        self.key = key.get_or_leave(&self.key);
        self
    }

    /// Stands before these tools from now on, with the same rules and the same key:
    /// grants stay good for the tools whose definition stayed as it was.
    /// Errors: when the tools cannot stand side by side; then everything stays as it was.
    pub(crate) fn renew(&mut self, ports: impl IntoIterator<Item = Vec<ToolDescriptor>>) -> Result<(), GateError> {
        self.catalogue = Catalogue::new(ports, &self.rules)?;
        Ok(())
    }

    /// The tools that may be offered; denied tools are not among them, tools that need an approval are.
    pub fn offered(&self) -> Arc<[Arc<ToolDescriptor>]> {
        self.catalogue.descriptors().filter(|tool| self.rules.allows(&tool.id)).cloned().collect()
    }

    /// Those of them that a session with this list may use; `None` is no list.
    pub fn offered_to(&mut self, allow: Option<&Arc<[String]>>) -> Vec<Arc<ToolDescriptor>> {
        let list = self.session_list(allow);
        let may_use = |tool: &&Arc<ToolDescriptor>| list.as_ref().is_none_or(|list| list.contain(&tool.id));
        self.offered().iter().filter(may_use).cloned().collect()
    }

    /// The verdict on one call of one step, for a caller that runs it without an actor: a call that may run at once is
    /// `Running`.
    pub fn check(&mut self, check: &CheckRequest, context: &CallContext) -> Verdict {
        match self.judge(check, context) {
            Judged::Told(verdict) => verdict,
            Judged::MayRun(_) => Verdict::Running,
        }
    }

    /// Judges one call of one step. A call that may run at once, and only that, needs
    /// no grant, since it is run where it was judged.
    pub(crate) fn judge(&mut self, check: &CheckRequest, context: &CallContext) -> Judged {
        let list = self.session_list(context.allow.as_ref());
        self.weigh(check, context, list.as_deref()).unwrap_or_else(|refusal| Judged::Told(refusal.into()))
    }

    fn weigh(&self, check: &CheckRequest, context: &CallContext, list: Option<&Names>) -> Result<Judged, Refusal> {
        let call = &*check.call;
        let tool = self.find(call, list)?;
        self.refuse_misfits(tool, call)?;
        self.refuse_forbidden_command(tool, call)?;
        let ToolDescriptor { risk, read_only, idempotent, .. } = *tool.descriptor;
        let wanted = wanted(&self.rules, tool, check, context)?;
        Ok(match wanted {
            Some(reason) => {
                // A rule that asks is answered by a yes to exactly the call.
                let ruling = self.rules.ruling(&tool.descriptor, call, context);
                let is_ruled = matches!(ruling, CallRuling::Asks(_) | CallRuling::AsksCommand(_));
                let like = if is_ruled { Vec::new() } else { like(&tool.descriptor, call, context) };
                let exact = is_ruled || is_exact(&tool.descriptor, call);
                let tool = shown(check, &tool.descriptor, tool.definition.digest(), (like, exact));
                let changed = "its definition has changed since somebody decided about it";
                let reason = if tool.changes.is_some() { format!("{reason}; {changed}") } else { reason };
                Judged::Told(Verdict::Ask { risk, reason, tool })
            }
            None if check.run && read_only => Judged::MayRun(self.admitted(tool, context)),
            None => Judged::Told(Verdict::Allow {
                grant: self.key.grant(call, &tool.definition),
                traits: CallTraits { read_only, idempotent },
            }),
        })
    }

    fn admitted(&self, tool: &Tool, context: &CallContext) -> Admitted {
        let ruled_ms = self.rules.ruled_timeout_ms(&tool.descriptor.id);
        let timeout_ms = ruled_ms.unwrap_or(context.tool_timeout_ms);
        let ToolDescriptor { read_only, idempotent, .. } = *tool.descriptor;
        Admitted { port: tool.port, timeout_ms, ruled_ms, read_only, may_repeat: read_only || idempotent }
    }

    /// The tool of this name, allowed or not.
    pub(super) fn tool(&self, name: &ToolName) -> Option<&Arc<Tool>> {
        self.catalogue.get(name)
    }

    pub(super) fn rules(&self) -> &Arc<Rules> {
        &self.rules
    }

    pub(super) fn led(&self) -> &Arc<Led> {
        &self.led
    }

    /// Lets a call through that arrives with its grant, or says why not.
    pub(crate) fn admit(&mut self, call: &ToolCall, grant: &Grant, context: &CallContext) -> Result<Admitted, Refusal> {
        let list = self.session_list(context.allow.as_ref());
        let tool = self.find(call, list.as_deref())?;
        if !self.key.covers(call, &tool.definition, grant) {
            let reason = format!(
                "{} was called without permission for exactly this call, or it has changed since; call it again",
                call.name
            );
            return Err(Refusal::Denied(reason));
        }
        Ok(self.admitted(tool, context))
    }

    /// The tool a call names, if the rules and the session's list leave it callable.
    fn find(&self, call: &ToolCall, list: Option<&Names>) -> Result<&Arc<Tool>, Refusal> {
        let name = &call.name;
        let in_list = |name: &ToolName| list.is_none_or(|list| list.contain(name));
        let denied = |why: &str| Refusal::Denied(format!("{name} is {why}"));
        let Some(tool) = self.catalogue.get(name) else {
            if self.rules.denies(name) {
                return Err(denied("denied by the policy"));
            }
            let complaint = self.catalogue.unknown(name, |other| self.rules.allows(other) && in_list(other));
            return Err(Refusal::Invalid(complaint));
        };
        match tool.ruled {
            Ruled::Allowed => {}
            Ruled::Denied => return Err(denied("denied by the policy")),
            Ruled::NotAllowed => return Err(denied("not among the tools the policy allows")),
        }
        if !in_list(name) {
            return Err(denied("not among the tools of this session"));
        }
        Ok(tool)
    }

    /// Arguments that are too large, or not what the tool takes.
    fn refuse_misfits(&self, tool: &Tool, call: &ToolCall) -> Result<(), Refusal> {
        let (name, limit) = (&call.name, self.rules.max_payload_bytes());
        let fits = |bytes: usize| {
            let complaint = || format!("the arguments of {name} are {bytes} bytes; at most {limit} are taken");
            if bytes > limit { Err(Refusal::Invalid(complaint())) } else { Ok(()) }
        };
        fits(call.argument_bytes)?;
        let written = bytes_of(&call.arguments)
            .map_err(|error| Refusal::Invalid(format!("the arguments of {name} are not JSON: {error}")))?;
        fits(written)?;
        match tool.complaint(&call.arguments) {
            Some(complaint) => Err(Refusal::Invalid(complaint)),
            None => Ok(()),
        }
    }

    /// A tool that executes and takes a `command` takes a shell line.
    fn refuse_forbidden_command(&self, tool: &Tool, call: &ToolCall) -> Result<(), Refusal> {
        let line = call.arguments.get("command").and_then(Value::as_str);
        let forbidden = match tool.descriptor.kind {
            ToolKind::Execute => line.and_then(|line| self.rules.denied_command(line)),
            ToolKind::Read
            | ToolKind::Edit
            | ToolKind::Delete
            | ToolKind::Move
            | ToolKind::Search
            | ToolKind::Think
            | ToolKind::Fetch
            | ToolKind::Other => None,
        };
        match forbidden {
            Some(command) => Err(Refusal::Denied(format!("the command {command} is denied by the policy"))),
            None => Ok(()),
        }
    }

    fn session_list(&mut self, allow: Option<&Arc<[String]>>) -> Option<Arc<Names>> {
        let allow = allow?;
        if let Some(list) = self.lists.get(allow) {
            return Some(Arc::clone(list));
        }
        let list = Arc::new(Names::of_session(allow));
        if self.lists.len() >= REMEMBERED_LISTS {
            self.lists.clear();
        }
        self.lists.insert(Arc::clone(allow), Arc::clone(&list));
        Some(list)
    }
}

/// Why a person must be asked about a call that fits its tool; `None`: it may run.
pub(super) fn wanted(
    rules: &Rules,
    tool: &Tool,
    check: &CheckRequest,
    context: &CallContext,
) -> Result<Option<String>, Refusal> {
    let ruling = rules.ruling(&tool.descriptor, &check.call, context);
    if let CallRuling::Denied(rule) = ruling {
        return Err(Refusal::Denied(format!("the rule {rule:?} of the policy denies it")));
    }
    if let Some(reason) = rules.denied_by_mode(&tool.descriptor, context) {
        return Err(Refusal::Denied(reason));
    }
    let is_like = |kept: &[String]| is_like(kept, &tool.descriptor, &check.call, context);
    let stands = stands(check, || tool.definition.digest(), is_like);
    Ok(match (stands, ruling) {
        (Stands::Denied(reason), _) => {
            let reason = if reason.is_empty() { "calls like this were denied for good" } else { reason };
            return Err(Refusal::Denied(reason.to_owned()));
        }
        (Stands::ChangedSinceDenied, _) => Some("the tool was denied for good, and has changed since".to_owned()),
        // What is always asked about is allowed by a yes to exactly this.
        (_, CallRuling::Asks(rule)) if !is_allowed_exactly(check, &tool.definition.digest()) => {
            Some(format!("the rule {rule:?} of the policy asks"))
        }
        (_, CallRuling::AsksCommand(command)) if !is_allowed_exactly(check, &tool.definition.digest()) => {
            Some(format!("the policy asks about the command {command} in every mode (ask_commands)"))
        }
        (Stands::Allowed, _) | (Stands::Nothing, CallRuling::Allowed) => None,
        (Stands::Nothing, _) => rules.asks(&tool.descriptor, context).map(str::to_owned),
    })
}

#[cfg(test)]
#[path = "gate_tests.rs"]
mod tests;
