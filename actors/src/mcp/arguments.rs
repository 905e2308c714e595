//! Arguments of a tool server's actor, and the state shared by its successors.

use super::rmcp::Tokens;
use super::sign_in::SignIns;
use crate::address::RETURNS_WITHIN;
use crate::approvals::ApprovalPort;
use crate::child::{Ladder, Watcher};
use crate::secrets::Secrets;
use crate::tape::Recorder;
use crate::tools::grant::KeyPlace;
use crate::tools::registry::Publisher;
use crate::tools::{Policy, ToolHooks};
use bob_messages::options::{ServerSpec, ServerTransport};
use bob_messages::pool::ServerOwner;
use bob_messages::tools::ToolsMessage;
use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

/// Arguments of the actor. A supervisor creates them once per server and passes clones to each successor, so that two
/// processes of one server never overlap.
#[derive(Clone)]
pub struct McpServerArguments {
    /// The server.
    pub spec: ServerSpec,
    /// The rules over its tools.
    pub policy: Policy,
    /// Ends its process when this program cannot.
    pub watcher: Watcher,
    /// How its process is stopped.
    pub ladder: Ladder,
    /// Port for forms; without one, every form is declined.
    pub elicit: Option<Arc<dyn ApprovalPort>>,
    /// Whose process it is, if not all sessions share it.
    pub owner: Option<ServerOwner>,
    /// How it is signed in to.
    pub sign_ins: SignIns,
    /// Where its tools are published.
    pub publisher: Option<Publisher>,
    /// Records calls, if a tape is recorded.
    pub recorder: Option<Recorder>,
    /// What is asked about its calls beside the policy.
    pub hooks: ToolHooks,
    pub(super) place: Arc<Place>,
}

#[derive(Default)]
pub(super) struct Place {
    /// Held by the keeper whose server lives.
    pub(super) taken: Arc<tokio::sync::Mutex<()>>,
    pub(super) was_ready: AtomicBool,
    /// Whether the server needed the handshake of the versions before 2026-07-28: then it is not asked for a later one.
    has_handshake: AtomicBool,
    /// Whether the server speaks 2026-07-28 and said so too late.
    answers_late: AtomicBool,
    /// Failed starts in a row since the server ended both with the question for a later version and without it.
    failed_both_ways: AtomicU32,
    tokens: OnceLock<Option<Arc<Tokens>>>,
    /// Signs grants: a call that was allowed before a restart may run after it.
    pub(super) key: KeyPlace,
}

impl Place {
    pub(super) fn has_handshake(&self) -> bool {
        self.has_handshake.load(Ordering::Relaxed)
    }

    pub(super) fn found_handshake(&self, has_handshake: bool) {
        self.has_handshake.store(has_handshake, Ordering::Relaxed);
    }

    pub(super) fn found_late(&self, answers_late: bool) {
        self.answers_late.store(answers_late, Ordering::Relaxed);
    }

    pub(super) fn asking(&self) -> Asking {
        match self.failed_both_ways.load(Ordering::Relaxed) {
            _ if self.has_handshake() => Asking::Not,
            _ if self.answers_late.load(Ordering::Relaxed) => Asking::Only,
            0 => Asking::OrElseNot,
            failed if failed % 2 == 1 => Asking::Not,
            _ => Asking::Alone,
        }
    }

    /// A start is over; `both_ways` tells that it was begun again without the question.
    pub(super) fn started(&self, is_ready: bool, both_ways: bool) {
        match self.failed_both_ways.load(Ordering::Relaxed) {
            _ if is_ready => self.failed_both_ways.store(0, Ordering::Relaxed),
            0 if !both_ways => {}
            failed => self.failed_both_ways.store(failed.saturating_add(1), Ordering::Relaxed),
        }
    }
}

/// How a start asks a server for a version later than those with a handshake. One that ended with the question and without
/// it is started once each time from then on, with the question every other time: why it ended may pass, and then the
/// question may be what ends it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Asking {
    /// A server that ends because of the question is started again without it.
    OrElseNot,
    Alone,
    /// For as long as a start may take, without the handshake behind it.
    Only,
    Not,
}

impl McpServerArguments {
    /// A server under a policy, without a port for forms.
    pub fn new(spec: ServerSpec, policy: Policy, watcher: Watcher) -> Self {
        let (elicit, publisher, recorder, hooks) = (None, None, None, ToolHooks::default());
        let (ladder, place) = (Ladder::default(), Arc::default());
        let sign_ins = SignIns::default();
        Self { spec, policy, watcher, ladder, elicit, owner: None, sign_ins, publisher, recorder, hooks, place }
    }

    /// Takes the place of another server, whose process ends before this one's starts.
    #[must_use]
    pub fn in_place_of(self, before: &Self) -> Self {
        let place = Place { taken: Arc::clone(&before.place.taken), ..Place::default() };
        Self { place: Arc::new(place), ..self }
    }

    /// Whether nothing of this server is left for which one in its place would wait.
    pub fn is_vacant(&self) -> bool {
        self.place.taken.try_lock().is_ok()
    }

    /// The tokens for the server, which its successors share.
    pub(super) fn tokens(&self) -> Option<Arc<Tokens>> {
        self.place.tokens.get_or_init(|| Tokens::of(&self.spec, &self.sign_ins).map(Arc::new)).clone()
    }

    /// The server's environment, which its output may repeat and which is redacted. Credentials of an HTTP server are
    /// redacted where responses are read.
    pub(super) fn secrets(&self) -> Secrets {
        match &self.spec.transport {
            ServerTransport::Stdio(_) => Secrets::of(self.spec.confided()),
            ServerTransport::Http(_) => Secrets::of([]),
        }
    }

    pub(super) fn time_limit(&self, question: &ToolsMessage) -> Duration {
        match (self.place.was_ready.load(Ordering::Relaxed), &self.publisher) {
            (true, Some(publisher)) => publisher.returns_within(question),
            // It has not started yet.
            (true, None) => RETURNS_WITHIN,
            (false, _) => self.spec.startup_timeout(),
        }
    }
}

impl fmt::Debug for McpServerArguments {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("McpServerArguments")
            .field("spec", &self.spec)
            .field("policy", &self.policy)
            .finish_non_exhaustive()
    }
}
