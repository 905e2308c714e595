//! A runtime as one tenant sees it.

use super::agent_runtime::AgentRuntime;
use super::condense::{CondensedHistory, nothing_to_condense};
use super::events::AgentEvents;
use super::request::{AgentRequest, AgentRunResult, SessionLook};
use super::runtime::Runtime;
use super::stream::AgentStream;
use super::subscribe::EventsFrom;
use bob_messages::approvals::Decision;
use bob_messages::chat::ContentPart;
use bob_messages::context::RequestContext;
use bob_messages::error::{AgentError, other_tenant};
use bob_messages::ids::{ApprovalId, ModelName, RequestId, ResumeToken, SessionId, TenantId};
use bob_messages::input::ResumeReply;
use bob_messages::options::{OptionsPatch, SessionOptions};
use bob_messages::store::{Part, Record, SessionFilter, SessionPage};
use std::sync::Arc;

/// How many of the first records are read for the tenant; the first that names it is mostly among them.
const FIRST_RECORDS: usize = 2;

/// A runtime as one tenant sees it, made by [`Runtime::tenant`]: the operations of [`AgentRuntime`] on sessions. Those of
/// another tenant, and of none, do not exist for it; a request to one is refused. A request is given the tenant.
///
/// An operation has the errors of the one of [`AgentRuntime`] after which it is named, and those of the store, which is
/// asked for the tenant of a session first.
#[derive(Debug, Clone)]
pub struct TenantRuntime {
    runtime: Runtime,
    tenant: TenantId,
}

impl Runtime {
    /// The runtime as this tenant sees it.
    ///
    /// # Errors
    /// `Invalid` when the name of the tenant is empty, too long, or has a control character.
    pub fn tenant(&self, tenant: impl Into<TenantId>) -> Result<TenantRuntime, AgentError> {
        let tenant = tenant.into();
        RequestContext::of_tenant(tenant.clone()).check()?;
        Ok(TenantRuntime { runtime: self.clone(), tenant })
    }

    /// The tenant a session belongs to; `None` of one that belongs to none, and of one that does not exist.
    ///
    /// # Errors
    /// Errors of the store.
    pub async fn tenant_of(&self, session: &SessionId) -> Result<Option<TenantId>, AgentError> {
        let first = self.part(session.clone(), Part::Page { behind: 0, most: FIRST_RECORDS }).await?;
        match first.iter().find_map(|record| record.fact.tenant()) {
            Some(tenant) => Ok(Some(tenant.clone())),
            None if first.is_empty() => Ok(None),
            None => Ok(self.folded(session.clone()).await?.tenant),
        }
    }

    /// Refuses options with tool servers for a session that is closed to the tenant. The session itself would refuse them
    /// later, with the servers given to it by then.
    /// Errors: `Invalid` when the session is another tenant's, or none's; errors of the store.
    pub(super) async fn refuse_foreign_servers(
        &self,
        session: &SessionId,
        options: Option<&SessionOptions>,
        tenant: Option<&TenantId>,
    ) -> Result<(), AgentError> {
        let Some(options) = options.filter(|options| !options.servers.is_empty()) else { return Ok(()) };
        // Boxed, since it is rare and its future is large.
        let there = Box::pin(self.folded(session.clone())).await?;
        let tenant = tenant.or(options.tenant.as_ref());
        match there.is_closed_to(tenant) {
            true => Err(other_tenant(session, there.tenant.as_ref().or(tenant))),
            false => Ok(()),
        }
    }
}

impl TenantRuntime {
    /// The tenant.
    pub fn id(&self) -> &TenantId {
        &self.tenant
    }

    /// Runs one turn, as [`AgentRuntime::run`].
    ///
    /// # Errors
    /// Those of [`AgentRuntime::run`]; `Invalid` when the request's context names another tenant, or the session belongs
    /// to another one.
    pub async fn run(&self, request: AgentRequest) -> Result<AgentRunResult, AgentError> {
        self.runtime.run(self.owned(request)?).await
    }

    /// Runs one turn and streams its events, as [`AgentRuntime::run_stream`].
    pub async fn run_stream(&self, request: AgentRequest) -> Result<AgentStream, AgentError> {
        self.runtime.run_stream(self.owned(request)?).await
    }

    /// The events of a session, as [`AgentRuntime::subscribe`]: those of turns of this tenant. Of a session of another
    /// tenant there are none; one that is created later may be the tenant's.
    pub async fn subscribe(&self, session: SessionId, from: EventsFrom) -> Result<AgentEvents, AgentError> {
        let from = match from {
            // Whether there is such a turn is told to the owner only.
            EventsFrom::Turn(_) if !self.owns(&session).await? => EventsFrom::Now,
            from => from,
        };
        Ok(self.runtime.subscribe(session, from).await?.of_tenant(self.tenant.clone()))
    }

    /// As [`AgentRuntime::cancel`].
    pub async fn cancel(&self, session: SessionId) -> Result<bool, AgentError> {
        match self.owns(&session).await? {
            true => Ok(self.runtime.cancel(session).await),
            // An input of the tenant may wait to be the first of its session.
            false => Ok(self.runtime.cancel_waiting_of(session, self.tenant.clone()).await),
        }
    }

    /// As [`AgentRuntime::steer`]; `request_id` as in [`AgentRuntime::steer_as`].
    pub async fn steer(
        &self,
        session: SessionId,
        request_id: Option<RequestId>,
        parts: Vec<ContentPart>,
    ) -> Result<bool, AgentError> {
        match self.owns(&session).await? {
            true => super::steer::steer(&self.runtime, session, request_id, parts).await,
            false => Ok(false),
        }
    }

    /// As [`AgentRuntime::resume`].
    ///
    /// # Errors
    /// Those of [`AgentRuntime::resume`]; a token of another tenant is an unknown one.
    pub async fn resume(&self, token: ResumeToken, said: ResumeReply) -> Result<AgentRunResult, AgentError> {
        self.knows(&token).await?;
        self.runtime.resume(token, said).await
    }

    /// As [`AgentRuntime::resume_stream`].
    ///
    /// # Errors
    /// Those of [`AgentRuntime::resume_stream`]; a token of another tenant is an unknown one.
    pub async fn resume_stream(&self, token: ResumeToken, said: ResumeReply) -> Result<AgentStream, AgentError> {
        self.knows(&token).await?;
        self.runtime.resume_stream(token, said).await
    }

    /// As [`AgentRuntime::decide`].
    pub async fn decide(
        &self,
        session: SessionId,
        approval: ApprovalId,
        decision: Decision,
    ) -> Result<bool, AgentError> {
        Ok(self.owns(&session).await? && self.runtime.decide(session, approval, decision).await?)
    }

    /// As [`AgentRuntime::sessions`]; the filter's tenant is this one.
    pub async fn sessions(&self, filter: SessionFilter, cursor: Option<String>) -> Result<SessionPage, AgentError> {
        let filter = SessionFilter { tenant: Some(self.tenant.clone()), ..filter };
        let page = self.runtime.sessions(filter, cursor).await?;
        // Of a journal that cannot be read the tenant is not known.
        Ok(SessionPage { quarantined: Vec::new(), ..page })
    }

    /// As [`AgentRuntime::open`]; the session belongs to the tenant.
    ///
    /// # Errors
    /// Those of [`AgentRuntime::open`]; `Invalid` when the options name another tenant, or the session belongs to one.
    pub async fn open(&self, session: SessionId, mut options: SessionOptions) -> Result<(), AgentError> {
        self.refuse_other(options.tenant.as_ref())?;
        options.tenant = Some(self.tenant.clone());
        self.runtime.open(session, options).await
    }

    /// As [`AgentRuntime::configure`], of a session that the tenant has.
    ///
    /// # Errors
    /// Those of [`AgentRuntime::configure`]; `Invalid` when the tenant has no such session.
    pub async fn configure(
        &self,
        session: SessionId,
        patch: OptionsPatch,
        request_id: Option<RequestId>,
    ) -> Result<(), AgentError> {
        match self.owns(&session).await? {
            true => self.runtime.configure(session, patch, request_id).await,
            false => Err(AgentError::Invalid(format!("there is no session {session}; open it first"))),
        }
    }

    /// As [`AgentRuntime::session`].
    pub async fn session(&self, session: SessionId) -> Result<Option<SessionLook>, AgentError> {
        match self.owns(&session).await? {
            true => self.runtime.session(session).await,
            false => Ok(None),
        }
    }

    /// As [`AgentRuntime::records`].
    pub async fn records(&self, session: SessionId) -> Result<Vec<Arc<Record>>, AgentError> {
        match self.owns(&session).await? {
            true => self.runtime.records(session).await,
            false => Ok(Vec::new()),
        }
    }

    /// As [`AgentRuntime::finish`].
    pub async fn finish(&self, session: SessionId) -> Result<Vec<AgentRunResult>, AgentError> {
        match self.owns(&session).await? {
            true => self.runtime.finish(session).await,
            false => Ok(Vec::new()),
        }
    }

    /// As [`Runtime::condense`].
    ///
    /// # Errors
    /// Those of [`Runtime::condense`]; a session of another tenant has no messages.
    pub async fn condense(&self, session: SessionId, model: Option<ModelName>) -> Result<CondensedHistory, AgentError> {
        match self.owns(&session).await? {
            true => self.runtime.condense(session, model).await,
            false => Err(nothing_to_condense()),
        }
    }

    /// As [`AgentRuntime::close`].
    pub async fn close(&self, session: SessionId) -> Result<bool, AgentError> {
        Ok(self.owns(&session).await? && self.runtime.close(session).await)
    }

    /// As [`AgentRuntime::delete`].
    pub async fn delete(&self, session: SessionId) -> Result<bool, AgentError> {
        Ok(self.owns(&session).await? && self.runtime.delete(session).await?)
    }

    pub(super) fn runtime(&self) -> &Runtime {
        &self.runtime
    }

    pub(super) async fn owns(&self, session: &SessionId) -> Result<bool, AgentError> {
        Ok(self.runtime.tenant_of(session).await?.as_ref() == Some(&self.tenant))
    }

    /// # Errors
    /// `Invalid`, as of a token that no suspended turn has.
    async fn knows(&self, token: &ResumeToken) -> Result<(), AgentError> {
        match token.session() {
            Some(session) if !self.owns(&session).await? => {
                let text = "no suspended turn has this token; it may have been answered already";
                Err(AgentError::Invalid(text.to_owned()))
            }
            Some(_) | None => Ok(()),
        }
    }

    pub(super) fn owned(&self, mut request: AgentRequest) -> Result<AgentRequest, AgentError> {
        self.refuse_other(request.context.as_ref().and_then(|context| context.tenant.as_ref()))?;
        self.refuse_other(request.options.as_ref().and_then(|options| options.tenant.as_ref()))?;
        let context = request.context.get_or_insert_default();
        if context.tenant.is_none() {
            Arc::make_mut(context).tenant = Some(self.tenant.clone());
        }
        Ok(request)
    }

    fn refuse_other(&self, named: Option<&TenantId>) -> Result<(), AgentError> {
        match named {
            Some(other) if *other != self.tenant => {
                let text = format!("the request names the tenant {other}, and is made by the tenant {}", self.tenant);
                Err(AgentError::Invalid(text))
            }
            Some(_) | None => Ok(()),
        }
    }
}
