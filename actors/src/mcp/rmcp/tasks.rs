//! Tasks: a server takes a call, works on it, and is asked for the result (the extension `io.modelcontextprotocol/tasks`).
//!
//! The call returns with the name of the task, which is journaled before the server is asked for the result. Asking changes
//! nothing, so it is repeated after errors, and after too many of them the call still waits: they say nothing of the task.
//! Stopping to ask leaves the task as it is; only [`Caller::give_up`] ends it.

use super::answers::Asker;
use super::trouble::clip;
use super::{Caller, Failure, MAX_ROUNDS, errors, meta, output};
use crate::tools::{Invocation, ProgressSink};
use bob_messages::chat::ServerWait;
use bob_messages::tools::ToolOutput;
use rmcp::model::{
    CallToolResult, CancelTaskParams, CancelledNotificationParam, CreateTaskResult, ErrorCode, GetTaskParams,
    InputRequests, InputResponses, RequestParamsMeta, ServerResult, Task, TaskPayload, UpdateTaskParams,
};
use rmcp::service::{Peer, RequestHandle, RoleClient, ServiceError};
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

/// How long the server may take to say how a task is doing.
const ANSWERS_WITHIN: Duration = Duration::from_secs(30);

/// How long the server may take to hear that a task is given up.
const GIVEN_UP_WITHIN: Duration = Duration::from_secs(5);

/// Of a server that was asked about a task.
const SILENT: &str = "did not say how the task of the call is doing";

struct Asked<'a> {
    id: &'a str,
    invocation: &'a Invocation,
    progress: ProgressSink,
    /// What the server said last of how it is doing.
    note: String,
    /// The server's questions that were answered, and how often it asked.
    answered: BTreeSet<String>,
    rounds: u32,
    /// Answers that did not reach the server.
    unheard: InputResponses,
    /// Whether the server has been asked and has not answered.
    is_owed: bool,
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
        // It was found to be of another version than before, as a server that is silent for long at its start is.
        if !has_tasks(&self.peer) {
            return Err(Failure::Doubtful("speaks a version of the protocol that has no tasks".into()));
        }
        let left = invocation.deadline.saturating_duration_since(Instant::now());
        let until = invocation.deadline.checked_sub(SPARE.min(left / PART_OF_TIME)).unwrap_or(invocation.deadline);
        let mut asked = Asked::new(id, invocation);
        loop {
            let step = timeout_at(until, self.ask(&mut asked)).await;
            match step {
                Err(_no_answer_yet) if asked.is_owed => return Err(Failure::Doubtful(SILENT.into())),
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
        let found = match asked.answered_in_time(self.peer.get_task(params)).await {
            Ok(found) => found.task,
            Err(ServiceError::McpError(error))
                if matches!(error.code, ErrorCode::INVALID_PARAMS | ErrorCode::METHOD_NOT_FOUND) =>
            {
                let why = errors::told(&error);
                return Err(Failure::Refused(format!(
                    "no longer knows the task of the call, whose outcome is unknown: {why}"
                )));
            }
            Err(error) => return asked.failed(&error).await.map(|()| None),
        };
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
            _it_works => asked.errors = 0,
        }
        let every = found.task.poll_interval_ms.map_or(ASK_EVERY, Duration::from_millis);
        sleep(every.clamp(ASK_BOUNDS.0, ASK_BOUNDS.1)).await;
        Ok(None)
    }

    /// Answers what the server asks of its client for the task, each question once. A task whose questions are refused is
    /// given up.
    async fn answer(&self, asked: &mut Asked<'_>, mut open: InputRequests) -> Result<(), Failure> {
        open.retain(|key, _| !asked.answered.contains(key) && !asked.unheard.contains_key(key));
        if !open.is_empty() {
            asked.rounds += 1;
            let answers = match asked.rounds > MAX_ROUNDS {
                true => {
                    let why = format!("asked for input more than {MAX_ROUNDS} times; the call was given up");
                    Err(Failure::Refused(why))
                }
                false => self.answers.to(open, &Asker::of_call(&asked.invocation.context)).await,
            };
            match answers {
                Ok(answers) => asked.unheard.extend(answers),
                Err(failure) => {
                    self.give_up(&ServerWait::Task { id: asked.id.into() }).await;
                    return Err(failure);
                }
            }
        }
        if !asked.unheard.is_empty() {
            let params = UpdateTaskParams::new(asked.id, asked.unheard.clone());
            match asked.answered_in_time(self.peer.update_task(params)).await {
                // It has heard what it refuses.
                Ok(()) | Err(ServiceError::McpError(_) | ServiceError::UnexpectedResponse) => {
                    asked.answered.extend(std::mem::take(&mut asked.unheard).into_keys());
                }
                Err(error) => return asked.failed(&error).await,
            }
        }
        asked.errors = 0;
        Ok(())
    }

    /// Tells the server in a task of its own, for which the end of the connection waits a moment.
    pub(in crate::mcp) fn give_up_in_background(&self, wait: &Arc<ServerWait>) {
        let (caller, wait) = (self.clone(), Arc::clone(wait));
        let under_way = Arc::clone(&self.giving_up).try_read_owned();
        tokio::spawn(async move {
            caller.give_up(&wait).await;
            drop(under_way);
        });
    }

    /// Tells the server that the call has ended without it. What the server makes of that is its own matter.
    pub(super) async fn give_up(&self, wait: &ServerWait) {
        let ServerWait::Task { id } = wait else { return };
        cancel(&self.peer, id).await;
    }
}

/// Whether the server was found to speak a version of the protocol that has tasks.
pub(super) fn has_tasks(peer: &Peer<RoleClient>) -> bool {
    peer.peer_info().is_some_and(|info| !info.protocol_version.has_initialize())
}

/// A call was cancelled, of which the server may not have heard in time: a task that it makes of the call is cancelled.
pub(super) async fn give_up_late(mut request: RequestHandle<RoleClient>, taken_back: CancelledNotificationParam) {
    match timeout(GIVEN_UP_WITHIN, &mut request.rx).await {
        Ok(Ok(Ok(ServerResult::CreateTaskResult(made)))) => cancel(&request.peer, &made.task.task_id).await,
        Ok(_no_task) => {}
        // With this, rmcp forgets the request.
        Err(_no_response) => drop(request.peer.notify_cancelled(taken_back).await),
    }
}

async fn cancel(peer: &Peer<RoleClient>, id: &str) {
    let told = timeout(GIVEN_UP_WITHIN, peer.cancel_task(CancelTaskParams::new(id))).await;
    if !matches!(told, Ok(Ok(()))) {
        tracing::debug!(target: "bob::mcp", "a tool server did not hear that a task was given up");
    }
}

impl<'a> Asked<'a> {
    fn new(id: &'a str, invocation: &'a Invocation) -> Self {
        let (progress, note) = (invocation.progress(), String::new());
        let (answered, unheard) = (BTreeSet::new(), InputResponses::new());
        Self { id, invocation, progress, note, answered, rounds: 0, unheard, is_owed: false, errors: 0 }
    }

    /// The answer to a request about the task, or that there was none for too long.
    async fn answered_in_time<T>(
        &mut self,
        request: impl Future<Output = Result<T, ServiceError>>,
    ) -> Result<T, ServiceError> {
        self.is_owed = true;
        let answer = timeout(ANSWERS_WITHIN, request).await;
        self.is_owed = false;
        answer.unwrap_or(Err(ServiceError::Timeout { timeout: ANSWERS_WITHIN }))
    }

    /// Counts an error, which says nothing of the task, and waits until it is time to ask again.
    async fn failed(&mut self, error: &ServiceError) -> Result<(), Failure> {
        self.errors += 1;
        let failure = match (errors::failure(error), error) {
            (ends @ (Failure::Broken | Failure::SessionLost), _) => return Err(ends),
            (_, ServiceError::McpError(error)) => Failure::Doubtful(format!("{SILENT}: {}", errors::told(error))),
            (_, ServiceError::Timeout { .. }) => Failure::Doubtful(SILENT.into()),
            (Failure::Refused(why), _) => Failure::Doubtful(why),
            (failure, _) => failure,
        };
        if self.errors >= MAX_ERRORS {
            return Err(failure);
        }
        sleep(ASK_EVERY).await;
        Ok(())
    }

    /// How the task is doing, by its server; told when it changes.
    fn note(&mut self, note: &str) {
        let note = clip(note);
        if !note.is_empty() && note != self.note {
            self.progress.tell(0.0, None, Some(&note));
        }
        self.note = note;
    }
}
