//! Answers to what a server asks of its client: the folders, and forms for a person.
//!
//! A server of a version before 2026-07-28 sends a request while a call runs. One of that version ends the call with the
//! questions as its result, and the client calls again with the answers; where there is no person to ask and the turn may be
//! suspended, a reply that comes later has them. Completions of a model are not offered.

#![expect(deprecated, reason = "a later version does without roots; the servers of today ask for them")]

use super::Failure;
use crate::approvals::ApprovalPort;
use crate::mcp::elicit::{Answer, Question, with_defaults};
use crate::panics::Panics;
use crate::tools::Invocation;
use bob_messages::approvals::ApprovalsMode;
use bob_messages::chat::ServerWait;
use bob_messages::context::RequestContext;
use bob_messages::ids::{ServerId, SessionId};
use bob_messages::pool::ServerOwner;
use bob_messages::tools::CallContext;
use futures_util::future::join_all;
use rmcp::model::{
    ElicitRequestParams, ElicitResult, ElicitationAction, InputRequest, InputRequests, InputResponses, ListRootsResult,
    Root,
};
use serde_json::{Map, Value};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Semaphore;

/// How many questions of one server may wait for a person at once.
const QUESTIONS: usize = 8;

/// The most bytes of questions, and of what goes with them, that are kept for later: they are in a record.
const LEFT_BYTES: usize = 32 * 1024;

/// A reply that fills in no form.
const DECLINE: &str = "decline";

/// How long a person may take.
const ANSWER_WITHIN: Duration = Duration::from_secs(600);

pub(super) struct Answers {
    server: ServerId,
    roots: Arc<[String]>,
    elicit: Option<Arc<dyn ApprovalPort>>,
    panics: Panics,
    asking: Semaphore,
}

#[derive(Debug, Clone, Default)]
pub(super) struct Asker {
    session: Option<SessionId>,
    context: Option<Arc<RequestContext>>,
}

impl Asker {
    pub(super) fn of_call(context: &CallContext) -> Self {
        Self { session: Some(context.session.clone()), context: context.context.clone() }
    }

    pub(super) fn of_owner(owner: &ServerOwner) -> Self {
        match owner {
            ServerOwner::Session(session) => Self { session: Some(session.clone()), context: None },
            ServerOwner::Tenant(Some(tenant)) => {
                Self { session: None, context: Some(Arc::new(RequestContext::of_tenant(tenant.clone()))) }
            }
            ServerOwner::Tenant(None) | ServerOwner::Listing => Self::default(),
        }
    }
}

impl Answers {
    pub(super) fn new(server: ServerId, roots: Arc<[String]>, elicit: Option<Arc<dyn ApprovalPort>>) -> Self {
        Self { server, roots, elicit, panics: Panics::of("approval"), asking: Semaphore::new(QUESTIONS) }
    }

    pub(super) fn roots(&self) -> ListRootsResult {
        ListRootsResult::new(self.roots.iter().filter_map(|root| as_root(root)).collect())
    }

    /// The answer to a form. A page to be opened is declined.
    pub(super) async fn form(&self, asked: ElicitRequestParams, asker: &Asker) -> ElicitResult {
        let ElicitRequestParams::FormElicitationParams { message, requested_schema, .. } = asked else {
            return ElicitResult::new(ElicitationAction::Decline);
        };
        let schema = serde_json::to_value(&requested_schema).unwrap_or_default();
        match self.ask(message, schema, asker).await {
            Answer::Accept(form) => ElicitResult::new(ElicitationAction::Accept).with_content(Value::Object(form)),
            Answer::Decline => ElicitResult::new(ElicitationAction::Decline),
            Answer::Cancel => ElicitResult::new(ElicitationAction::Cancel),
        }
    }

    pub(super) async fn to(&self, asked: InputRequests, asker: &Asker) -> Result<InputResponses, Failure> {
        if asked.len() > QUESTIONS {
            return Err(Failure::Refused(format!("asks {} questions at once; at most {QUESTIONS} are", asked.len())));
        }
        // A form of a result that is refused is not filled in.
        for asked in asked.values() {
            match asked {
                InputRequest::Elicitation(_) | InputRequest::ListRoots(_) => {}
                InputRequest::CreateMessage(_) => {
                    return Err(Failure::Refused("asks for a completion of a model, which is not offered".into()));
                }
                _of_a_later_version => {
                    return Err(Failure::Refused("asks for something that is not known here".into()));
                }
            }
        }
        let answers = asked.into_iter().map(async |(key, asked)| {
            let answer = match asked {
                InputRequest::Elicitation(asked) => serde_json::to_value(self.form(asked.params, asker).await),
                InputRequest::ListRoots(_) => serde_json::to_value(self.roots()),
                _refused_above => return Err(Failure::Refused("asks for something that is not known here".into())),
            };
            let answer = answer.map_err(|error| Failure::Refused(format!("cannot be sent an answer: {error}")))?;
            Ok((key, answer))
        });
        join_all(answers).await.into_iter().collect()
    }

    /// What is left to a later reply: questions with a form, without a person to ask and in a turn that may be suspended.
    pub(super) fn left(
        &self,
        asked: &InputRequests,
        state: Option<&str>,
        invocation: &Invocation,
    ) -> Option<ServerWait> {
        let CallContext { approvals, depth, .. } = &*invocation.context;
        let may_wait = self.elicit.is_none() && *approvals == ApprovalsMode::Suspend && *depth == 0;
        let is_known = |asked: &InputRequest| is_form(asked) || matches!(asked, InputRequest::ListRoots(_));
        if !may_wait || asked.len() > QUESTIONS || !asked.values().any(is_form) || !asked.values().all(is_known) {
            return None;
        }
        let questions = serde_json::to_value(asked).ok()?;
        let bytes = questions.to_string().len() + state.map_or(0, str::len);
        let wait = ServerWait::Asks { questions: Arc::new(questions), state: state.map(Arc::from), reply: None };
        (bytes <= LEFT_BYTES).then_some(wait)
    }

    /// The answers that a reply has: the fields of the one form, or for each form, by the name of its question, its fields or
    /// that it is declined.
    ///
    /// # Errors
    /// What the reply is not.
    pub(super) fn of_reply(&self, questions: &Value, reply: &str) -> Result<InputResponses, String> {
        let asked: InputRequests = serde_json::from_value(questions.clone())
            .map_err(|error| format!("its questions are not known: {error}"))?;
        let said = match reply.trim() {
            "" | DECLINE => Map::new(),
            text => match serde_json::from_str(text) {
                Ok(Value::Object(said)) => said,
                Ok(_) | Err(_) => return Err(format!("the reply was neither a JSON object nor {DECLINE}")),
            },
        };
        let is_declined = matches!(reply.trim(), "" | DECLINE);
        let names: Vec<_> = asked.iter().filter(|(_, asked)| is_form(asked)).map(|(name, _)| name.as_str()).collect();
        let forms = names.len();
        if forms > 1 && !is_declined {
            let is_answer = |said: &Value| said.is_object() || *said == DECLINE;
            let answers_all = names.iter().all(|name| said.get(*name).is_some_and(is_answer));
            if !answers_all || said.len() > forms {
                let names = names.join(", ");
                return Err(format!(
                    "the reply has not exactly one object of fields, or {DECLINE:?}, for each of {names}"
                ));
            }
        }
        let answer = |(name, asked): (String, InputRequest)| {
            let InputRequest::Elicitation(asked) = asked else { return (name, serde_json::to_value(self.roots())) };
            let own = if forms == 1 { Some(&said) } else { said.get(&name).and_then(Value::as_object) };
            let schema = match &asked.params {
                ElicitRequestParams::FormElicitationParams { requested_schema, .. } => {
                    serde_json::to_value(requested_schema).unwrap_or_default()
                }
                _page => Value::Null,
            };
            let result = match own.filter(|_| !is_declined && !schema.is_null()) {
                Some(form) => {
                    let form = Value::Object(with_defaults(form.clone(), &schema));
                    ElicitResult::new(ElicitationAction::Accept).with_content(form)
                }
                None => ElicitResult::new(ElicitationAction::Decline),
            };
            (name, serde_json::to_value(result))
        };
        let answers = asked.into_iter().map(answer).map(|(name, answer)| {
            answer.map(|answer| (name, answer)).map_err(|error| format!("the reply cannot be sent: {error}"))
        });
        answers.collect()
    }

    async fn ask(&self, message: String, schema: Value, asker: &Asker) -> Answer {
        let (Some(elicit), Ok(_one_of_few)) = (&self.elicit, self.asking.try_acquire()) else {
            return Answer::Decline;
        };
        let question = Question::new(self.server.clone(), message, schema.clone());
        let question = question.asked_for(asker.session.clone(), asker.context.clone());
        let answer = self.panics.catch_in("elicit", || elicit.elicit(question));
        match tokio::time::timeout(ANSWER_WITHIN, answer).await {
            Ok(Some(Answer::Accept(form))) => Answer::Accept(with_defaults(form, &schema)),
            Ok(Some(answer)) => answer,
            Ok(None) => Answer::Decline,
            Err(_nobody_answered) => Answer::Cancel,
        }
    }
}

fn is_form(asked: &InputRequest) -> bool {
    let InputRequest::Elicitation(asked) = asked else { return false };
    matches!(asked.params, ElicitRequestParams::FormElicitationParams { .. })
}

/// A folder as sent to servers.
fn as_root(folder: &str) -> Option<Root> {
    let url = reqwest::Url::from_file_path(folder).ok()?;
    let name = Path::new(folder).file_name().map(|name| name.to_string_lossy().into_owned());
    let root = Root::new(url.to_string());
    Some(name.map_or(root.clone(), |name| root.with_name(name)))
}
