//! Tasks: a server takes a call, works on it, and is asked for the result (the extension `io.modelcontextprotocol/tasks`).
//!
//! The call returns with the name of the task, which is journaled before the server is asked for the result. Asking changes
//! nothing, so it is repeated after errors of the way there. Stopping to ask leaves the task as it is; only
//! [`Caller::give_up`] ends it.

use super::answers::Asker;
use super::trouble::clip;
use super::{Caller, Failure, MAX_ROUNDS, errors, meta, output};
use crate::tools::{Invocation, ProgressSink};
use bob_messages::chat::ServerWait;
use bob_messages::tools::ToolOutput;
use rmcp::model::{
    CallToolResult, CancelTaskParams, CreateTaskResult, ErrorCode, GetTaskParams, InputRequests, RequestParamsMeta,
    Task, TaskPayload, UpdateTaskParams,
};
use rmcp::service::ServiceError;
use serde_json::Value;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::{Instant, sleep, timeout, timeout_at};

/// The longest name of a task, in bytes: it is in a record.
const MAX_ID_BYTES: usize = 1024;

/// Between two questions about a task, if its server says nothing of it; and the least and the most it may say.
const ASK_EVERY: Duration = Duration::from_secs(1);
const ASK_BOUNDS: (Duration, Duration) = (Duration::from_millis(20), Duration::from_secs(30));

/// How long before the end of a call's time it returns without a result: at most, and as a part of that time.
const SPARE: Duration = Duration::from_millis(250);
const PART_OF_TIME: u32 = 10;

/// After how many errors in a row the server is asked no more.
const MAX_ERRORS: u32 = 3;

/// How long the server may take to hear that a task is given up.
const GIVEN_UP_WITHIN: Duration = Duration::from_secs(5);

struct Asked<'a> {
    id: &'a str,
    invocation: &'a Invocation,
    progress: ProgressSink,
    /// What the server said last of how it is doing.
    note: String,
    /// The server's questions that were answered, and how often it asked.
    answered: BTreeSet<String>,
    rounds: u32,
    /// How many errors there were in a row.
    errors: u32,
}

impl Caller {
    /// The server has taken the call.
    pub(super) async fn taken(&self, made: &CreateTaskResult) -> Result<ToolOutput, Failure> {
        let Task { task_id, status_message, .. } = &made.task;
        let wait = ServerWait::Task { id: task_id.as_str().into() };
        if task_id.len() > MAX_ID_BYTES {
            self.give_up(&wait).await;
            return Err(Failure::Refused("gives the task of the call too long a name; the task was given up".into()));
        }
        Ok(wait.output(&clip(status_message.as_deref().unwrap_or_default())))
    }

    /// Asks for the result of a task, until there is one or the time of the call is nearly over. Then the call still waits.
    pub(super) async fn follow(&self, id: &Arc<str>, invocation: &Invocation) -> Result<ToolOutput, Failure> {
        let wait = ServerWait::Task { id: Arc::clone(id) };
        let left = invocation.deadline.saturating_duration_since(Instant::now());
        let until = invocation.deadline.checked_sub(SPARE.min(left / PART_OF_TIME)).unwrap_or(invocation.deadline);
        let (progress, note, answered) = (invocation.progress(), String::new(), BTreeSet::new());
        let mut asked = Asked { id, invocation, progress, note, answered, rounds: 0, errors: 0 };
        loop {
            let step = timeout_at(until, self.ask(&mut asked)).await;
            match step {
                Err(_no_result_yet) => return Ok(wait.output(&asked.note)),
                Ok(Ok(None)) => {}
                Ok(Ok(Some(output))) => return Ok(output),
                Ok(Err(failure)) => return Err(failure),
            }
        }
    }

    /// Asks once, and waits until it is time to ask again.
    async fn ask(&self, asked: &mut Asked<'_>) -> Result<Option<ToolOutput>, Failure> {
        let mut params = GetTaskParams::new(asked.id);
        params.set_meta(meta(asked.invocation, true));
        let found = match self.peer.get_task(params).await {
            Ok(found) => found.task,
            Err(ServiceError::McpError(error))
                if matches!(error.code, ErrorCode::INVALID_PARAMS | ErrorCode::METHOD_NOT_FOUND) =>
            {
                let why = errors::told(&error);
                return Err(Failure::Refused(format!(
                    "no longer knows the task of the call, whose outcome is unknown: {why}"
                )));
            }
            Err(error) => {
                asked.errors += 1;
                let failure = errors::failure(&error);
                if asked.errors >= MAX_ERRORS || matches!(failure, Failure::Broken | Failure::SessionLost) {
                    return Err(failure);
                }
                sleep(ASK_EVERY).await;
                return Ok(None);
            }
        };
        asked.errors = 0;
        asked.note(found.task.status_message.as_deref().unwrap_or_default());
        match found.payload {
            TaskPayload::Completed { result } => {
                let result = serde_json::from_value::<CallToolResult>(Value::Object(result));
                let no_result = |error| format!("ends the task of the call with something else than a result: {error}");
                return result.map(|result| Some(output::from(result))).map_err(|e| Failure::Refused(no_result(e)));
            }
            TaskPayload::Failed { error } => {
                let why = clip(error.get("message").and_then(Value::as_str).unwrap_or("it does not say why"));
                return Err(Failure::Refused(format!("failed the task of the call: {why}")));
            }
            TaskPayload::Cancelled => return Err(Failure::Refused("cancelled the task of the call".into())),
            TaskPayload::InputRequired { input_requests } => self.answer(asked, input_requests).await?,
            _it_works => {}
        }
        let every = found.task.poll_interval_ms.map_or(ASK_EVERY, Duration::from_millis);
        sleep(every.clamp(ASK_BOUNDS.0, ASK_BOUNDS.1)).await;
        Ok(None)
    }

    /// Answers what the server asks of its client for the task, each question once. A task whose questions are refused is
    /// given up.
    async fn answer(&self, asked: &mut Asked<'_>, mut open: InputRequests) -> Result<(), Failure> {
        open.retain(|key, _| !asked.answered.contains(key));
        if open.is_empty() {
            return Ok(());
        }
        asked.rounds += 1;
        let keys: Vec<_> = open.keys().cloned().collect();
        let answers = match asked.rounds > MAX_ROUNDS {
            true => {
                Err(Failure::Refused(format!("asked for input more than {MAX_ROUNDS} times; the call was given up")))
            }
            false => self.answers.to(open, &Asker::of_call(&asked.invocation.context)).await,
        };
        let answers = match answers {
            Ok(answers) => answers,
            Err(failure) => {
                self.give_up(&ServerWait::Task { id: asked.id.into() }).await;
                return Err(failure);
            }
        };
        let given = self.peer.update_task(UpdateTaskParams::new(asked.id, answers)).await;
        given.map_err(|error| errors::failure(&error))?;
        asked.answered.extend(keys);
        Ok(())
    }

    /// Tells the server that the call has ended without it. What the server makes of that is its own matter.
    pub(in crate::mcp) async fn give_up(&self, wait: &ServerWait) {
        let ServerWait::Task { id } = wait else { return };
        let told = timeout(GIVEN_UP_WITHIN, self.peer.cancel_task(CancelTaskParams::new(&**id))).await;
        if !matches!(told, Ok(Ok(()))) {
            tracing::debug!(target: "bob::mcp", "a tool server did not hear that a task was given up");
        }
    }
}

impl Asked<'_> {
    /// How the task is doing, by its server; told when it changes.
    fn note(&mut self, note: &str) {
        let note = clip(note);
        if !note.is_empty() && note != self.note {
            self.progress.tell(0.0, None, Some(&note));
        }
        self.note = note;
    }
}
