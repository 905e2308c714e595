//! The handle to a running tree, and the one way in for requests.

use super::bounds::{is_attached, refuse_attached, refuse_oversized, refuse_unusable};
use super::context;
use super::models::Models;
use super::request::{AgentRequest, AgentRunResult};
use super::submission::{Handed, Owe, Said, hand_in};
use bob_actors::child::Watcher;
use bob_actors::clock;
use bob_actors::hooks::HookPrograms;
use bob_actors::llm::LlmPort;
use bob_actors::store::Artifacts;
use bob_actors::tools::ToolPort;
use bob_messages::artifact::LARGE_PART_BYTES;
use bob_messages::chat::ContentPart;
use bob_messages::error::AgentError;
use bob_messages::ids::{ModelName, RequestId, ResumeToken, SessionId, TenantId, TurnId};
use bob_messages::input::{ResumeReply, TurnInput};
use bob_messages::limits::Limits;
use bob_messages::outcome::TurnOutcome;
use bob_messages::reply::{Answer, Reply};
use bob_messages::session_state::Session;
use bob_messages::store::{Part, Record, StoreError, StoreMessage};
use bob_messages::submission::SessionsMessage;
use bob_messages::tools::BackgroundCommand;
use bob_messages::trace;
use bob_messages::turn_config::TurnConfig;
#[cfg(feature = "mcp")]
use bob_supervisors::tools::servers::ToolServers;
use bob_supervisors::{Tree, TreeEnd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tokio::runtime::Handle;
use tokio::sync::{oneshot, watch};

pub(super) type Owed = Answer<Result<Box<TurnOutcome>, AgentError>>;

/// A running runtime. Clones are handles to one tree.
#[doc(alias = "DefaultAgentRuntime")]
#[derive(Clone)]
pub struct Runtime(pub(super) Arc<Inner>);

pub(super) struct Inner {
    pub(super) tree: Tree,
    pub(super) model: Arc<dyn LlmPort>,
    pub(super) turn_config: Arc<TurnConfig>,
    pub(super) models: Option<Models>,
    pub(super) limits: Limits,
    pub(super) shutdown_grace: Duration,
    pub(super) watcher: Watcher,
    /// The tools of this process, which hear of sessions that end.
    pub(super) ports: Vec<Arc<dyn ToolPort>>,
    /// Programs that are run at points of a turn.
    pub(super) hooks: Option<HookPrograms>,
    pub(super) draining: AtomicBool,
    /// The tokio runtime in which the tree is: callers may have another one, or none.
    pub(super) handle: Handle,
    /// Whether another process may have the store, too.
    pub(super) is_shared: bool,
    #[cfg(feature = "mcp")]
    pub(super) tool_servers: ToolServers,
}

impl Runtime {
    pub(super) fn new(inner: Inner) -> Self {
        Self(Arc::new(inner))
    }

    /// How often a handler of an actor blocked its thread longer than
    /// [`RuntimeBuilder::blocked_after`](super::RuntimeBuilder::blocked_after).
    pub fn times_blocked(&self) -> u64 {
        self.0.tree.rooms.watchdog.times_blocked()
    }

    /// Whether questions about calls offer decisions that apply to later sessions; `offer_always` of the policy.
    pub fn offers_always(&self) -> bool {
        self.0.turn_config.offer_always
    }

    /// The background commands of `local/shell_exec` in this session, in the order of their numbers; those that ended are kept
    /// for a while. Empty without the feature `local-tools`.
    pub fn background(&self, session: &SessionId) -> Vec<BackgroundCommand> {
        #[cfg(feature = "local-tools")]
        return self.0.tree.rooms.background.of(session);
        #[cfg(not(feature = "local-tools"))]
        return (Vec::new(), session).0;
    }

    /// Stops a background command: SIGTERM, and SIGKILL after 2 s. Returns whether the session has such a command.
    pub async fn stop_background(&self, session: &SessionId, id: u32) -> bool {
        #[cfg(feature = "local-tools")]
        return self.0.tree.rooms.background.stop(session, id).await;
        #[cfg(not(feature = "local-tools"))]
        return (false, session, id).0;
    }

    /// Notifies when the tree has ended, and why.
    pub fn ended(&self) -> watch::Receiver<Option<TreeEnd>> {
        self.0.tree.ended()
    }

    /// The error of a turn whose tree ended without an outcome.
    pub(super) fn gone(&self) -> AgentError {
        let kept = "what a turn did until then is in its session";
        let text = match &*self.ended().borrow() {
            Some(TreeEnd::GaveUp { reason }) => format!("the runtime gave up before the turn ended: {reason}; {kept}"),
            Some(TreeEnd::Stopped) => return AgentError::Stopped(format!("the runtime was shut down; {kept}")),
            Some(TreeEnd::Died) => format!("the runtime ended before the turn did; {kept}"),
            None => format!("the supervisor of the sessions died before the turn ended; {kept}"),
        };
        AgentError::Internal(text)
    }

    /// Cancels a turn whose caller was dropped, in the background.
    pub(super) fn cancel_later(&self, session: &SessionId, turn: Option<TurnId>) {
        let reply = Reply::to(|_nobody_waits_for_it| ());
        self.0.tree.rooms.sessions.tell(SessionsMessage::Cancel {
            session: session.clone(),
            turn,
            tenant: None,
            reply,
        });
    }

    /// The model the session would take for this request, where it matters before the request is
    /// taken: whether a model takes more than text is judged at once.
    pub(super) async fn session_model(&self, request: &AgentRequest) -> Result<Option<ModelName>, AgentError> {
        self.models_settled(request.model.as_ref()).await;
        let says = request.model.is_some() || request.options.is_some();
        if says || request.input.iter().all(|part| matches!(part, ContentPart::Text { .. })) {
            return Ok(None);
        }
        // Boxed, since it is rare and its future is large.
        Ok(Box::pin(self.folded(request.session.clone())).await?.latest_options().model.clone())
    }

    /// Hands a request in, and keeps nothing of it.
    pub(super) async fn handed_in(&self, mut request: Box<AgentRequest>) -> Result<Owed, AgentError> {
        self.inherit_context(&mut request).await?;
        let model = self.session_model(&request).await?;
        self.lighten(&mut request).await?;
        self.settle_tenant(request.context.as_ref().and_then(|context| context.tenant.as_ref())).await?;
        let (_, _, owed) = self.submit(*request, model.as_ref())?;
        Ok(owed)
    }

    /// Checks an input before anything is done for it, and puts its large parts into the artifact store: they are durable
    /// before the record that names them.
    pub(super) async fn lighten(&self, request: &mut AgentRequest) -> Result<(), AgentError> {
        refuse_unusable(request.request_id.as_ref(), &request.labels)?;
        let tenant = request.context.as_ref().and_then(|context| context.tenant.as_ref());
        self.refuse_foreign_servers(&request.session, request.options.as_ref(), tenant).await?;
        let (attached, all) = request.input.iter().fold((0, 0), |(attached, all), part| {
            let bytes = part.bytes();
            (attached + if is_attached(part) { bytes } else { 0 }, all + bytes)
        });
        refuse_oversized(all - attached)?;
        refuse_attached(attached)?;
        if request.input.iter().all(|part| part.bytes() == 0) {
            return Err(AgentError::Invalid("the input is empty: say something".into()));
        }
        if self.keeps_apart(request).await? {
            self.artifacts().spill_input(&request.session, &mut request.input).await;
        }
        Ok(())
    }

    /// Whether large parts of an input are put into the artifact store. Not while a turn is open: the input may answer a
    /// question, whose record is a text. Not into a session of another tenant, which refuses the input.
    async fn keeps_apart(&self, request: &AgentRequest) -> Result<bool, AgentError> {
        if request.input.iter().all(|part| part.bytes() <= LARGE_PART_BYTES) {
            return Ok(false);
        }
        // Boxed, since it is rare and its future is large.
        let session = Box::pin(self.folded(request.session.clone())).await?;
        let tenant = request.context.as_ref().and_then(|context| context.tenant.as_ref());
        Ok(session.open.is_none() && !session.is_closed_to(tenant))
    }

    pub(super) fn artifacts(&self) -> &Artifacts {
        self.0.tree.rooms.tools.runtime().artifacts()
    }

    /// Validates and submits a request whose size was checked; nothing is sent if it is invalid. `of_session` is the session's model, where
    /// known.
    pub(super) fn submit(
        &self,
        request: AgentRequest,
        of_session: Option<&ModelName>,
    ) -> Result<(SessionId, TurnId, Owed), AgentError> {
        let inner = &self.0;
        let context = context::judged(request.context)?;
        let tenant = context.as_ref().and_then(|context| context.tenant.as_ref());
        let limits = self.within_day(tenant, request.limits.unwrap_or(inner.limits))?;
        let mut options = request.options.map(|options| self.judged(options)).transpose()?;
        options.iter_mut().try_for_each(|options| context::set_tenant(options, context.as_deref()))?;
        let model =
            request.model.as_ref().or(options.as_ref().and_then(|options| options.model.as_ref())).or(of_session);
        self.takes(model.unwrap_or(&inner.turn_config.default_model), &request.input)?;
        if let Some(schema) = &request.output_schema {
            let misfit = |why| AgentError::Invalid(format!("the output schema cannot be used: {why}"));
            bob_actors::tools::output::check_schema(schema).map_err(misfit)?;
        }
        let (reply, answer) = Reply::channel();
        let mut reply = self.lent(&request.session, options.as_ref(), reply);
        // Last, since it starts processes.
        let options = options.map(|options| self.bring(&request.session, options)).transpose()?;
        let turn = TurnId::new(uuid::Uuid::now_v7().to_string());
        let input = Arc::new(TurnInput {
            turn: turn.clone(),
            // Every input has a request id, by which its outcome can be queried.
            request_id: Some(request.request_id.unwrap_or_else(|| RequestId::new(turn.as_str()))),
            at: clock::now(),
            parts: request.input,
            context,
            labels: request.labels,
            model: request.model,
            allow_tools: request.allow_tools.map(Into::into),
            mode: request.mode,
            approvals: request.approvals,
            limits,
            options: options.map(Arc::new),
            tracestate: trace::state(request.traceparent.as_deref(), request.tracestate.as_deref()).map(Arc::from),
            traceparent: request.traceparent,
            token: ResumeToken::new(uuid::Uuid::new_v4().simple().to_string()),
            interactive: request.interactive,
            asks_at_limits: request.ask_at_limits,
            output_schema: request.output_schema,
        });
        let (session, turn_config) = (request.session, self.turn_config_now());
        let (over, until_over) = oneshot::channel::<()>();
        if request.cancel.is_some() {
            reply = reply.map(move |answer| {
                drop(over);
                answer
            });
        }
        self.send_in(session.clone(), Handed::Input(input, false), turn_config, reply);
        if let Some(token) = request.cancel {
            self.cancel_with(token, session.clone(), turn.clone(), until_over);
        }
        Ok((session, turn, answer))
    }

    /// Cancels the turn when the program's token is cancelled. The token is watched until the turn ends, also without
    /// a waiting caller, by the tokio runtime of the tree, and does not keep the tree alive.
    fn cancel_with(
        &self,
        token: tokio_util::sync::CancellationToken,
        session: SessionId,
        turn: TurnId,
        until_over: oneshot::Receiver<()>,
    ) {
        let runtime = Arc::downgrade(&self.0);
        self.0.handle.spawn(async move {
            tokio::select! {
                biased;
                () = token.cancelled() => {
                    if let Some(inner) = runtime.upgrade() {
                        Self(inner).cancel_later(&session, Some(turn));
                    }
                }
                _answered_or_gone = until_over => {}
            }
        });
    }

    pub(super) fn turn_config(&self) -> &Arc<TurnConfig> {
        &self.0.turn_config
    }

    /// Hands in an input as the journal has it.
    pub(super) fn hand_in(&self, session: SessionId, input: Arc<TurnInput>, turn_config: Arc<TurnConfig>) -> Owed {
        let (reply, answer) = Reply::channel();
        self.send_in(session, Handed::Input(input, true), turn_config, reply);
        answer
    }

    /// Hands in a reply to a suspended turn.
    pub(super) fn hand_in_reply(
        &self,
        session: SessionId,
        submission: TurnId,
        token: ResumeToken,
        said: ResumeReply,
        (tenant, limits): (Option<TenantId>, Limits),
    ) -> Owed {
        let (reply, owed) = Reply::channel();
        let handed = Handed::Reply(Box::new(Said { submission, token, said, limits, tenant }));
        self.send_in(session, handed, self.turn_config_now(), reply);
        owed
    }

    fn send_in(&self, session: SessionId, handed: Handed, turn_config: Arc<TurnConfig>, reply: Owe) {
        let reply = match self.0.tree.feed.submitted(handed.submission()) {
            Some(until_answered) => reply.map(move |answer| {
                drop(until_answered);
                answer
            }),
            None => reply,
        };
        hand_in(&self.0.tree.rooms.sessions, session, handed, turn_config, reply);
    }

    /// Lets the session's actor go, unless a turn of it runs.
    pub(super) async fn let_go(&self, session: &SessionId) -> bool {
        let (reply, is_idle) = Reply::channel();
        self.0.tree.rooms.sessions.tell(SessionsMessage::Passivate { session: session.clone(), reply });
        is_idle.await != Some(false)
    }

    pub(super) async fn journal(&self, session: SessionId) -> Result<Vec<Arc<Record>>, AgentError> {
        self.ask_store(move |reply| StoreMessage::Load { session, reply }).await
    }

    pub(super) async fn part(&self, session: SessionId, part: Part) -> Result<Vec<Arc<Record>>, AgentError> {
        self.ask_store(move |reply| StoreMessage::LoadPart { session, part, reply }).await
    }

    /// Loads the session from its journal, starting at its last snapshot, with the retention of a live session.
    pub(super) async fn folded(&self, session: SessionId) -> Result<Session, AgentError> {
        let records = self.part(session.clone(), Part::Latest).await?;
        self.folded_of(session, &records).await
    }

    pub(super) async fn folded_of(&self, session: SessionId, newest: &[Arc<Record>]) -> Result<Session, AgentError> {
        match Session::fold_latest(session.clone(), None, newest) {
            Some(folded) => Ok(folded),
            None => Ok(Session::fold(session.clone(), &self.journal(session).await?)),
        }
    }

    /// Returns up to `most` records from the end of the session's journal.
    pub(crate) async fn last_records(&self, session: SessionId, most: usize) -> Result<Vec<Arc<Record>>, AgentError> {
        let newest = self.part(session.clone(), Part::Latest).await?;
        let Some(last) = newest.last().map(|last| last.version) else { return Ok(newest) };
        let behind = last.saturating_sub(most as u64);
        if newest.first().is_some_and(|first| first.version <= behind + 1) {
            return Ok(newest.into_iter().filter(|record| record.version > behind).collect());
        }
        self.part(session, Part::Page { behind, most }).await
    }

    pub(super) async fn ask_store<T: Send + 'static>(
        &self,
        question: impl FnOnce(Reply<Result<T, StoreError>>) -> StoreMessage,
    ) -> Result<T, AgentError> {
        let (reply, answer) = Reply::channel();
        self.0.tree.rooms.store.tell(question(reply));
        match answer.await {
            Some(answer) => answer.map_err(AgentError::from),
            None if self.0.draining.load(Ordering::Acquire) || self.ended().borrow().is_some() => {
                Err(AgentError::Stopped("the runtime was shut down".to_owned()))
            }
            None => {
                let text = "the store gave no answer: it panicked, or is being restarted; the program's log says which";
                Err(StoreError::Unavailable(text.to_owned()).into())
            }
        }
    }
}

pub(super) async fn outcome(runtime: &Runtime, owed: Owed) -> Result<AgentRunResult, AgentError> {
    owed.await.unwrap_or_else(|| Err(runtime.gone())).map(AgentRunResult::from)
}

impl std::fmt::Debug for Runtime {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Runtime").field("default_model", &self.0.turn_config.default_model).finish_non_exhaustive()
    }
}
