//! `sessions show`: a conversation as text, or as one JSON object.

use std::sync::Arc;

use bob::approvals::PermissionMode;
use bob::model::Message;
use bob::sessions::SessionOptions;
use bob::store::{OpenTurn, Record, Session, SessionStore};
use bob::tools::FileChange;
use bob::tools::agents::MAX_DEPTH;
use bob::{ModelName, SessionId};
use serde_json::json;

use crate::commands::output::ResultObject;
use crate::exit::Failure;
use crate::terminal::show::{NOTHING_YET, took};
use crate::terminal::{approval, brief, print};

/// How many characters of a tool's arguments and results are printed.
const MOST_SHOWN: usize = 100;

/// What is shown of a session beside its conversation.
pub(super) struct Seen<'a> {
    pub(super) title: Option<&'a str>,
    pub(super) state: &'a str,
    pub(super) records: usize,
    /// The number of messages in its inbox.
    pub(super) inbox: usize,
    /// The session whose token answers its question, if that is another one.
    pub(super) root: Option<&'a SessionId>,
}

/// Prints a session; `mode` is that of turns that name none. As JSON it is printed with what its last turn changed of files.
/// Errors: when stdout cannot be written.
pub(super) fn show(
    session: &Session,
    seen: &Seen<'_>,
    mode: PermissionMode,
    as_json: Option<Vec<FileChange>>,
) -> Result<(), Failure> {
    let Seen { title, state, records, inbox, root } = *seen;
    if let Some(changes) = as_json {
        let last = session.last.as_deref();
        let last = last.map(|last| ResultObject::of(last, mode, changes));
        print::json(&json!({
            "session_id": session.id, "title": title, "state": state, "records": records,
            "turns": session.turns, "options": session.options, "next_options": session.next_options,
            "messages": session.history, "waiting": session.waiting.len(), "inbox": inbox, "last": last,
        }))?;
        return Ok(());
    }
    if let Some(title) = title {
        print::note(&format!("{title} ({state})"));
    }
    if let Some(parent) = &session.options.parent {
        print::note(&format!("works for call {} of session {}", parent.call, parent.session));
    }
    let SessionOptions { tenant, cwd, roots, model, instructions, agent, allow_tools, mode, pool, .. } =
        session.latest_options();
    let options = [
        ("tenant", tenant.as_ref().map(ToString::to_string)),
        ("pool", pool.as_ref().map(ToString::to_string)),
        ("agent", agent.clone()),
        ("model", model.as_ref().map(ModelName::to_string)),
        ("cwd", cwd.clone()),
        ("roots", (!roots.is_empty()).then(|| roots.join(", "))),
        ("mode", mode.map(|mode| mode.as_str().to_owned())),
        ("tools", allow_tools.as_ref().map(|tools| tools.join(", "))),
        ("instructions", instructions.clone()),
    ];
    for (name, value) in options {
        value.iter().for_each(|value| print::note(&format!("{name}: {}", print::on_one_line(value, MOST_SHOWN))));
    }
    for message in &session.history {
        print::text(&spoken(message))?;
    }
    if let Some(open) = &session.open {
        waiting_for(session, open, root)?;
    }
    for input in &session.waiting {
        print::line(&format!("you (waiting): {}", input.text()))?;
    }
    let turns = print::counted(session.turns, "turn");
    match (&session.open, &session.last) {
        (Some(_), _) => print::note(&format!("{turns} ended, one is unfinished")),
        (None, Some(last)) => {
            let reason = serde_json::to_value(last.finish_reason).unwrap_or_default();
            let reason = reason.as_str().unwrap_or_default().to_owned();
            print::note(&format!("{turns}; the last one ended: {reason}"));
        }
        (None, None) => {}
    }
    if inbox > 0 {
        print::note(&format!("{} in the inbox", print::counted(inbox as u64, "message")));
    }
    Ok(())
}

/// The session whose token answers for this one, if it is suspended and works for a call of an agent: the first of those
/// above it that works for none.
pub(super) async fn answered_at(
    store: &dyn SessionStore,
    id: &SessionId,
    records: &[Arc<Record>],
) -> Option<SessionId> {
    let mut root = caller(&Session::fold(id.clone(), records))?;
    for _ in 0..MAX_DEPTH {
        let Ok(records) = store.load(&root).await else { break };
        let Some(above) = caller(&Session::fold(root.clone(), &records)) else { break };
        root = above;
    }
    Some(root)
}

/// The session for whose call of an agent the suspended turn works.
fn caller(session: &Session) -> Option<SessionId> {
    let open = session.open.as_ref().filter(|open| open.suspended.is_some())?;
    let parent = open.input.options.as_ref()?.parent.as_ref()?;
    parent.line.is_some().then(|| parent.session.clone())
}

fn waiting_for(session: &Session, open: &OpenTurn, root: Option<&SessionId>) -> Result<(), Failure> {
    let id = &session.id;
    let token = open.suspended.as_ref().map(|suspension| suspension.token.as_str());
    let by_token = token.map(|token| format!(", and `cli-agent resume {token} allow` or `deny` answers it"));
    let by_token = by_token.unwrap_or_default();
    let below = session.first_undecided().and_then(|open| open.below.as_ref()).filter(|_| open.suspended.is_some());
    // The token of a sub-agent is for its caller.
    if let Some(root) = root {
        let question = open.suspended.as_ref().map_or("", |suspension| &suspension.question);
        print::line(&format!("> {}", print::on_one_line(question, MOST_SHOWN)))?;
        print::note(&format!("[it waits for a decision; resume {root}, for which it works]"));
    } else if let Some(below) = below {
        print::line(&format!("> {}", print::on_one_line(&below.question, MOST_SHOWN)))?;
        print::note(&format!("[it waits for a decision; `cli-agent chat --session {id}` asks for it{by_token}]"));
    } else if let Some(question) = approval::open_question(id, open, false) {
        let arguments = print::first_line(&question.call.arguments.to_string(), MOST_SHOWN);
        print::line(&format!("> {} {arguments}", question.call.name))?;
        print::note(&format!("[it waits for a decision; `cli-agent chat --session {id}` asks for it{by_token}]"));
    } else if let Some(suspension) = &open.suspended {
        print::text(&format!("model: {}\n", suspension.question.trim_end()))?;
        print::note(&format!("[it waits for an answer: `cli-agent run --session {id} ANSWER`]"));
    }
    Ok(())
}

fn spoken(message: &Message) -> String {
    match message {
        Message::User { parts } => {
            let text: Vec<String> = parts.iter().map(|part| part.as_text()).collect();
            format!("you: {}\n", text.join("\n"))
        }
        Message::Assistant { text, .. } if text == NOTHING_YET => "[cancelled]\n".to_owned(),
        Message::Assistant { text, calls } => {
            let mut lines = String::new();
            if !text.trim().is_empty() {
                lines.push_str(&format!("model: {}\n", text.trim_end()));
            }
            for call in calls {
                let arguments = print::first_line(&call.arguments.to_string(), MOST_SHOWN);
                lines.push_str(&format!("> {} {arguments}\n", call.name));
            }
            lines
        }
        Message::Tool { result } => {
            let (ended, text) = (brief::ended(result), print::first_line(&brief::text(result), MOST_SHOWN));
            let said = match text {
                _ if brief::is_interrupted(result) => format!("{ended} after {}", took(result.duration_ms)),
                text if text.is_empty() => ended,
                text if text.starts_with(&ended) => text,
                text => format!("{ended}: {text}"),
            };
            format!("  {}: {said}\n", result.name)
        }
    }
}
