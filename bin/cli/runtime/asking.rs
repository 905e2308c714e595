//! Who asks when a turn is suspended on a decision: its session, or a sub-agent below it.

use bob::approvals::ApprovalQuestion;
use bob::store::{Session, SessionStore};

use super::newest;
use crate::exit::Failure;
use crate::terminal::approval;

/// The question that a session is suspended on, as the one that asks has it in its journal, with the agents above it.
pub(crate) async fn question(
    store: &dyn SessionStore,
    session: &Session,
    offers_always: bool,
) -> Result<Option<ApprovalQuestion>, Failure> {
    let mut asker = session.clone();
    while let Some(below) = asker.first_undecided().and_then(|open| open.below.clone()) {
        asker = newest::read(store, &below.asked.child.session).await?.session;
    }
    let Some(open) = &asker.open else { return Ok(None) };
    let line = asker.options.parent.as_ref().and_then(|parent| parent.line.as_ref());
    let agents = line.map(|line| line.agents.clone()).unwrap_or_default();
    let question = approval::open_question(&asker.id, open, offers_always);
    Ok(question.map(|question| ApprovalQuestion { agents, ..question }))
}
