//! What must hold of every call that runs.

use super::*;

impl World {
    /// What must hold of every call that runs.
    pub(super) fn runs(&mut self, call: &ToolCall) {
        let definition = self.definition(&call.name);
        let first = self.ran.insert(call.id.clone());
        let denied = |approval: &ApprovalId| {
            let is = |record: &Arc<Record>| matches!(&record.fact, Fact::ApprovalDecided { approval: of, allowed: false, .. } if of == approval);
            self.stored.iter().any(is)
        };
        let exactly = self.shown.iter().any(|(approval, shown)| {
            let said_so = shown.said.iter().any(|said| match said {
                Decision::AllowOnce | Decision::AllowSession | Decision::AllowAlways => {
                    shown.call.arguments == call.arguments
                }
                Decision::Edit { arguments } => *arguments == *call.arguments,
                Decision::Deny { .. } | Decision::DenyAlways { .. } => false,
            });
            shown.call.id == call.id && shown.definition == definition && said_so && !denied(approval)
        });
        let beyond = self.shown.values().any(|shown| {
            let said_so = shown.said.iter().any(|said| matches!(said, Decision::AllowSession | Decision::AllowAlways));
            let same = !shown.exact || shown.call.arguments == call.arguments;
            shown.call.name == call.name && shown.definition == definition && said_so && same
        });
        // What the journal says was denied for good last is not allowed by what was said before.
        let folded = Session::fold(session(), &self.stored);
        let forbidden = folded.standing.iter().any(|standing| {
            !standing.allowed
                && standing.tool == call.name
                && standing.definition == definition
                && standing.is_about(&call.arguments)
        });
        let fine = first && (exactly || beyond && !forbidden);
        if !fine && self.broken.is_none() {
            let why = format!("first {first}, approved exactly {exactly}, beyond {beyond}, forbidden {forbidden}");
            self.broken = Some(format!("{} {} {} ran: {why}", call.id, call.name, call.arguments));
        }
    }
}
