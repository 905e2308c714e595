//! `sessions`: reads and changes the store directly; starts no tree and no server.

use std::path::Path;
use std::sync::Arc;

use bob::store::{Append, FORMAT, Fact, StoreError};
use bob::{
    CallStatus, Change, Glance, Message, ModelName, OpenTurn, OptionsPatch, Record, RecordId, RequestId, Session,
    SessionFilter, SessionId, SessionOptions, SessionPage, SessionState, SessionStore, SessionSummary, clock,
};
use bob_config::Config;
use bob_config::assemble;
use serde_json::json;

use crate::arguments::SessionsAction;
use crate::commands::output::ResultObject;
use crate::commands::run::working_folder;
use crate::exit::{Exit, Failure};
use crate::terminal::{approval, print};

/// Page size of listings.
const LARGE_PAGE: usize = 100_000;

/// How many characters of a tool's arguments and results `show` prints.
const MOST_SHOWN: usize = 100;

/// Performs an action on stored sessions.
///
/// # Errors
/// Returns an error if there is no such session, or the store fails.
pub(crate) async fn sessions(action: &SessionsAction, config: &Config) -> Result<Exit, Failure> {
    let id = match action {
        SessionsAction::List(_) => None,
        SessionsAction::Show { id, .. }
        | SessionsAction::Export { id, .. }
        | SessionsAction::Set { id, .. }
        | SessionsAction::Delete { id, .. } => Some(SessionId::parse(id)?),
    };
    let store = assemble::store(config, false)?;
    match (action, id) {
        (SessionsAction::Show { json, .. }, Some(id)) => show(&id, &read(&*store, &id).await?, *json)?,
        (SessionsAction::Export { .. }, Some(id)) => {
            for record in read(&*store, &id).await? {
                print::json(&*record)?;
            }
        }
        (SessionsAction::Delete { json, .. }, Some(id)) => {
            if !store.delete(&id).await? {
                return Err(no_such(&id));
            }
            match json {
                true => print::json(&json!({ "deleted": id }))?,
                false => print::note(&format!("deleted {id}")),
            }
        }
        (SessionsAction::Set { model, cwd, instructions, clear, json, .. }, Some(id)) => {
            let patch = patch(model.as_deref(), cwd.as_deref(), instructions.as_deref(), clear, config)?;
            let options = set(&*store, &id, &patch).await?;
            match json {
                true => print::json(&json!({ "session_id": id, "options": options }))?,
                false => print::note(&format!("changed {id}, from its next turn on")),
            }
        }
        (SessionsAction::List(list), _) => match list.json {
            true => print::json(&as_json(&all(&*store).await?))?,
            false => table(&all(&*store).await?)?,
        },
        (_, None) => {}
    }
    Ok(Exit::Success)
}

/// All sessions, the last used first, and the journals that cannot be read.
async fn all(store: &dyn SessionStore) -> Result<SessionPage, Failure> {
    let mut all = SessionPage::default();
    // A store that lists a folder looks at all of it for each page, so pages are large.
    let filter = SessionFilter { limit: LARGE_PAGE, ..SessionFilter::default() };
    let mut cursor: Option<String> = None;
    loop {
        let page = store.list(&filter, cursor.as_deref()).await?;
        all.sessions.extend(page.sessions);
        for damaged in page.quarantined {
            if !all.quarantined.contains(&damaged) {
                all.quarantined.push(damaged);
            }
        }
        match page.cursor {
            Some(next) => cursor = Some(next),
            None => return Ok(all),
        }
    }
}

async fn read(store: &dyn SessionStore, id: &SessionId) -> Result<Vec<Arc<Record>>, Failure> {
    let records = store.load(id).await?;
    if records.is_empty() { Err(no_such(id)) } else { Ok(records) }
}

fn no_such(id: &SessionId) -> Failure {
    Failure::usage(format!("there is no session {id}; `cli-agent sessions list` lists them"))
}

/// One line for a session, as lists show it: when it was used last, the day on which it was begun, its size, state and id,
/// its title and in brackets its working folder.
pub(crate) fn row(summary: &SessionSummary) -> String {
    let at = |time| jiff::Timestamp::from_millisecond(time).unwrap_or(jiff::Timestamp::UNIX_EPOCH);
    let time = at(summary.updated_at);
    let begun = summary.created_at.map_or_else(|| "-".repeat(10), |time| at(time).strftime("%Y-%m-%d").to_string());
    let state = summary.state.map_or("-", SessionState::as_str);
    let title = summary.title.as_deref().map(|title| format!("  {title}")).unwrap_or_default();
    let cwd = summary.cwd.as_deref().map(|cwd| format!("  [{}]", print::on_one_line(cwd, MOST_SHOWN)));
    let (time, cwd) = (time.strftime("%Y-%m-%d %H:%M:%S UTC"), cwd.unwrap_or_default());
    format!("{time}  {begun}  {:>9} bytes  {state:<8}  {}{title}{cwd}", summary.bytes, summary.session)
}

/// The changes requested by `sessions set`.
fn patch(
    model: Option<&str>,
    cwd: Option<&Path>,
    instructions: Option<&str>,
    clear: &[String],
    config: &Config,
) -> Result<OptionsPatch, Failure> {
    let cleared = |name: &str| clear.iter().any(|other| other == name);
    fn change<T>(value: Option<T>, cleared: bool) -> Change<T> {
        match value {
            Some(value) => Change::Set(value),
            None if cleared => Change::Clear,
            None => Change::Keep,
        }
    }
    let model = model.map(ModelName::parse).transpose()?;
    let cwd = cwd.map(|cwd| working_folder(cwd, config)).transpose()?;
    let no_text = || Failure::usage("--cwd is not valid UTF-8");
    let cwd = cwd.map(|cwd| cwd.into_os_string().into_string().map_err(|_| no_text())).transpose()?;
    let patch = OptionsPatch {
        model: change(model, cleared("model")),
        cwd: change(cwd, cleared("cwd")),
        instructions: change(instructions.map(str::to_owned), cleared("instructions")),
        ..OptionsPatch::default()
    };
    if patch == OptionsPatch::default() {
        return Err(Failure::usage("nothing to change; use --model, --cwd, --instructions or --clear"));
    }
    Ok(patch)
}

/// Changes a session in the store, as its temporary owner; fails if another process owns it.
async fn set(store: &dyn SessionStore, id: &SessionId, patch: &OptionsPatch) -> Result<SessionOptions, Failure> {
    read(store, id).await?;
    let claim = store.claim(id).await?;
    let session = Session::fold(id.clone(), &claim.records);
    let options = patch.applied_to(session.latest_options());
    let version = claim.version + 1;
    let request_id = RequestId::new(uuid::Uuid::now_v7().to_string());
    let record = Arc::new(Record {
        format: FORMAT,
        id: RecordId::numbered(claim.epoch, version),
        session: id.clone(),
        version,
        epoch: claim.epoch,
        turn: None,
        at: clock::now(),
        fact: Fact::Configured { request_id, options: Arc::new(options.clone()) },
    });
    let append =
        Append { session: id.clone(), epoch: claim.epoch, expected_version: claim.version, records: vec![record] };
    let stored = store.append(vec![append]).await.pop();
    store.release(id, claim.epoch).await;
    stored.unwrap_or_else(|| Err(StoreError::InDoubt("the store did not answer".to_owned())))?;
    Ok(options)
}

fn table(page: &SessionPage) -> Result<(), Failure> {
    for summary in &page.sessions {
        print::line(&row(summary))?;
    }
    for (name, reason) in &page.quarantined {
        print::note(&format!("damaged, left unchanged: {name}: {reason}"));
    }
    if page.sessions.is_empty() {
        print::note("no sessions yet");
    }
    Ok(())
}

fn as_json(page: &SessionPage) -> serde_json::Value {
    let sessions = page.sessions.iter().map(|summary| {
        json!({
            "session_id": summary.session, "updated_at": summary.updated_at, "bytes": summary.bytes,
            "title": summary.title, "state": summary.state, "turns": summary.turns, "parent": summary.parent,
            "cwd": summary.cwd, "created_at": summary.created_at,
        })
    });
    let damaged = page.quarantined.iter().map(|(name, reason)| json!({"name": name, "reason": reason}));
    json!({"sessions": sessions.collect::<Vec<_>>(), "quarantined": damaged.collect::<Vec<_>>()})
}

fn show(id: &SessionId, records: &[Arc<Record>], as_json: bool) -> Result<(), Failure> {
    let session = Session::fold(id.clone(), records);
    let mut glance = Glance::default();
    records.iter().for_each(|record| glance.note(record));
    if as_json {
        let last = session.last.as_deref().map(ResultObject::of);
        print::json(&json!({
            "session_id": id, "title": glance.title, "state": glance.state, "records": records.len(),
            "turns": session.turns, "options": session.options, "next_options": session.next_options,
            "messages": session.history, "waiting": session.waiting.len(), "last": last,
        }))?;
        return Ok(());
    }
    if let Some(title) = &glance.title {
        print::note(&format!("{title} ({})", glance.state.as_str()));
    }
    if let Some(parent) = &session.options.parent {
        print::note(&format!("works for call {} of session {}", parent.call, parent.session));
    }
    let SessionOptions { model, cwd, instructions, .. } = session.latest_options();
    let options = [("model", model.as_ref().map(ModelName::to_string)), ("cwd", cwd.clone())];
    for (name, value) in options.into_iter().chain([("instructions", instructions.clone())]) {
        value.iter().for_each(|value| print::note(&format!("{name}: {}", print::on_one_line(value, MOST_SHOWN))));
    }
    for message in &session.history {
        print::text(&spoken(message))?;
    }
    if let Some(open) = &session.open {
        waiting_for(id, open)?;
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
    Ok(())
}

/// Prints what a suspended turn waits for, and how to resume it.
fn waiting_for(id: &SessionId, open: &OpenTurn) -> Result<(), Failure> {
    if let Some(question) = approval::open_question(id, open) {
        let arguments = print::first_line(&question.call.arguments.to_string(), MOST_SHOWN);
        print::line(&format!("> {} {arguments}", question.call.name))?;
        print::note(&format!("[it waits for a decision; `cli-agent chat --session {id}` asks for it]"));
    } else if let Some(suspension) = &open.suspended {
        print::text(&format!("model: {}\n", suspension.question.trim_end()))?;
        print::note(&format!("[it waits for an answer: `cli-agent run --session {id} ANSWER`]"));
    }
    Ok(())
}

/// A message of the history as lines.
fn spoken(message: &Message) -> String {
    match message {
        Message::User { parts } => {
            let text: Vec<String> = parts.iter().map(|part| part.as_text()).collect();
            format!("you: {}\n", text.join("\n"))
        }
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
            let status = if result.status == CallStatus::Ok { "ok" } else { "failed" };
            format!("  {}: {status}: {}\n", result.name, print::first_line(&result.output.plain(), MOST_SHOWN))
        }
    }
}
