//! The context of the calls of a step.

use super::Turn;
use super::prompt::Frame;
use crate::tools::CallContext;
use std::sync::Arc;

impl Turn {
    /// Who calls, from where, and until when.
    pub(super) fn context(&mut self) -> Option<Arc<CallContext>> {
        let (session, turn_config) = (self.session.as_ref()?, self.turn_config.as_ref()?);
        let open = session.running()?;
        let options = &session.options;
        let roots = match options.folders().next() {
            // They were judged when they were given, and a journal may come from elsewhere.
            Some(_) => options.folders().filter(|folder| turn_config.holds(folder)).map(str::to_owned).collect(),
            None => Arc::clone(&turn_config.roots),
        };
        // The tools that skills allow are listed by name: two lists of patterns have no common list.
        let is_limited = open.skills.as_ref().is_some_and(|skills| skills.allow_tools.is_some());
        let names = |frame: &Frame| frame.tools.tools().iter().map(|tool| tool.id.as_str().to_owned()).collect();
        let limit: Option<Arc<[String]>> = self.frame.as_ref().filter(|_| is_limited).map(names);
        let turn = &open.input.turn;
        let traceparent = self.frame.as_mut()?.traceparent(turn, open.spent.steps);
        Some(Arc::new(CallContext {
            session: session.id.clone(),
            turn: turn.clone(),
            step: open.spent.steps,
            context: open.input.context.clone(),
            approvals: open.input.approvals,
            left: open.spent.left_of(open.limits(), self.now.left_of(open.input.limits.turn_timeout_ms)),
            depth: options.parent.as_ref().map_or(0, |parent| parent.depth),
            roots,
            tool_timeout_ms: open.input.limits.tool_timeout_ms,
            mode: open.input.mode.or(options.mode),
            allow: limit.or_else(|| open.input.allow_tools.clone()).or_else(|| options.allow_tools.clone()),
            traceparent,
            child: None,
            server_wait: None,
            tracestate: open.input.tracestate.clone(),
        }))
    }
}
