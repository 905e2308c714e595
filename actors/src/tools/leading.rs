//! Rules over paths, for a call whose path leads somewhere else.
//!
//! A rule is about a path as it is written, which the gate judges without a look at the disk. A link may lead from there
//! to what the rule does not mean, so the call is judged once more with the path that it leads to, in a task: a rule that
//! allows must allow both, and one that asks or denies applies to either. A call that runs later is looked at again then, since
//! a call of the same step may have changed a link. One that another program changes between that look and the call is
//! followed by the tool, within its bounds.

use super::call_rules::{Subject, subject};
use super::catalogue::Tool;
use super::concerned::{Led, refused};
use super::gate::{Gate, Refusal, wanted};
use super::links::led;
use super::policy::Rules;
use super::port::Concern;
use bob_messages::chat::ToolCall;
use bob_messages::tools::{CallContext, CheckRequest};
use serde_json::Value;
use std::sync::Arc;

/// A call that rules over paths may be about, to be judged where its path leads.
#[derive(Debug)]
pub(crate) struct Leading {
    rules: Arc<Rules>,
    tool: Arc<Tool>,
    check: CheckRequest,
    context: Arc<CallContext>,
    led: Arc<Led>,
}

impl Gate {
    /// The call, if a rule may be about the path that it names.
    pub(crate) fn leading(&self, check: &CheckRequest, context: &Arc<CallContext>) -> Option<Leading> {
        let tool = self.tool(&check.call.name)?;
        let is_ruled = || self.rules().have_arguments_of(&tool.descriptor);
        let is_kept = || check.standing.iter().any(|standing| !standing.like.is_empty());
        let is_path = matches!(subject(&tool.descriptor, &check.call), Subject::Path(_));
        (is_path && (is_ruled() || is_kept())).then(|| Leading {
            rules: Arc::clone(self.rules()),
            tool: Arc::clone(tool),
            check: check.clone(),
            context: Arc::clone(context),
            led: Arc::clone(self.led()),
        })
    }

    /// A call that was allowed before, as it was judged then, and what was found; if a rule may be about its path.
    pub(crate) fn leading_now(
        &self,
        call: &Arc<ToolCall>,
        context: &Arc<CallContext>,
    ) -> Option<(Leading, Option<Concern>)> {
        let unknown =
            || (CheckRequest { call: Arc::clone(call), approved: None, standing: Vec::new(), run: false }, None);
        let (check, before) = self.led().take(&context.session, &call.id).unwrap_or_else(unknown);
        Some((self.leading(&CheckRequest { call: Arc::clone(call), ..check }, context)?, before))
    }
}

impl Leading {
    /// Why a call must not run that was allowed before: what there is to be said of where its path leads now, if that was
    /// not so then.
    pub(super) async fn refused_now(self, before: Option<Concern>) -> Option<Refusal> {
        let now = self.looked().await;
        let is_denied = matches!(now, Some(Concern::Deny(_)));
        let why = refused(before, now)?;
        Some(if is_denied { Refusal::Denied(why) } else { Refusal::Invalid(format!("not run: {why}")) })
    }

    /// What there is to be said of it that the path as it is written does not say; kept until it runs.
    pub(super) async fn looked_at(self) -> Option<Concern> {
        // One that runs where it is judged does not come again.
        let comes_later = !(self.check.run && self.tool.descriptor.read_only);
        let kept = comes_later.then(|| (Arc::clone(&self.led), self.context.session.clone(), self.check.clone()));
        let found = self.looked().await;
        if let Some((led, session, check)) = kept {
            let call = check.call.id.clone();
            led.put(&session, &call, (check, found.clone()));
        }
        found
    }

    async fn looked(self) -> Option<Concern> {
        let looked = tokio::task::spawn_blocking(move || self.look()).await;
        looked.unwrap_or_else(|_panicked| Some(Concern::Deny("where its path leads could not be looked at".to_owned())))
    }

    fn look(self) -> Option<Concern> {
        let Self { rules, tool, check, context, led: _ } = self;
        let call = led(&tool.descriptor, &check.call, &context)?;
        let to = call.arguments.get("path").and_then(Value::as_str).unwrap_or_default().to_owned();
        let check = CheckRequest { call: Arc::new(call), ..check };
        match wanted(&rules, &tool, &check, &context) {
            Ok(None) => None,
            Ok(Some(_why)) => {
                Some(Concern::Ask(format!("leads through a link to {to:?}, which no rule allows unasked")))
            }
            Err(Refusal::Denied(reason) | Refusal::Invalid(reason)) => {
                Some(Concern::Deny(format!("{reason}: its path leads through a link to {to:?}")))
            }
        }
    }
}

#[cfg(test)]
#[path = "leading_tests.rs"]
mod tests;
