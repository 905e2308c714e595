//! Requests of a server to its client: the folders, and forms.
//!
//! Only these two capabilities are declared, and to servers without a handshake that a call may become a task. rmcp answers pings and declines sampling and everything else.

#![expect(deprecated, reason = "a later version does without roots; the servers of today ask for them")]

use super::answers::{Answers, Asker};
use super::progress::OnTheirWay;
use crate::approvals::ApprovalPort;
use bob_messages::ids::ServerId;
use bob_messages::pool::ServerOwner;
use rmcp::model::{
    ClientCapabilities, ClientConfig, ElicitRequestParams, ElicitResult, ElicitationAction, ElicitationCapability,
    ErrorData, FormElicitationCapability, Implementation, ListRootsResult, ProgressNotificationParam, ProtocolVersion,
    RootsCapabilities, TASKS_EXTENSION_ID,
};
use rmcp::service::{NotificationContext, RequestContext};
use rmcp::{ClientHandler, RoleClient};
use std::sync::Arc;
use tokio::sync::Notify;

pub(in crate::mcp) struct Handler {
    answers: Arc<Answers>,
    /// Notified when the server's tools have changed.
    changed: Arc<Notify>,
    /// Whose progress the server may report.
    calls: OnTheirWay,
    /// For whom it asks in a request of its own.
    asker: Asker,
    /// Whether a call may become a task: versions with a handshake do not know that.
    knows_tasks: bool,
}

impl Handler {
    pub(in crate::mcp) fn new(
        server: ServerId,
        roots: Arc<[String]>,
        elicit: Option<Arc<dyn ApprovalPort>>,
        changed: Arc<Notify>,
    ) -> Self {
        Self {
            answers: Arc::new(Answers::new(server, roots, elicit)),
            changed,
            calls: OnTheirWay::default(),
            asker: Asker::default(),
            knows_tasks: true,
        }
    }

    /// The requests of a server that not all sessions share are made for this owner.
    pub(in crate::mcp) fn owned_by(self, owner: Option<&ServerOwner>) -> Self {
        Self { asker: owner.map(Asker::of_owner).unwrap_or_default(), ..self }
    }

    /// For a connection that begins with a handshake.
    pub(super) fn without_tasks(self) -> Self {
        Self { knows_tasks: false, ..self }
    }

    pub(super) fn calls(&self) -> OnTheirWay {
        self.calls.clone()
    }

    pub(super) fn answers(&self) -> Arc<Answers> {
        Arc::clone(&self.answers)
    }
}

impl ClientHandler for Handler {
    /// For the handshake, the latest version that has one. With a later one, a server that echoes the version would
    /// appear to support it.
    fn get_info(&self) -> ClientConfig {
        let mut can = ClientCapabilities::default();
        can.roots = Some(RootsCapabilities::default());
        can.elicitation = Some(ElicitationCapability::new().with_form(FormElicitationCapability::new()));
        can.extensions = self.knows_tasks.then(|| [(TASKS_EXTENSION_ID.to_owned(), Default::default())].into());
        ClientConfig::new(can, Implementation::new("bob", env!("CARGO_PKG_VERSION")))
            .with_protocol_version(ProtocolVersion::LATEST_WITH_INITIALIZE)
    }

    async fn list_roots(&self, _context: RequestContext<RoleClient>) -> Result<ListRootsResult, ErrorData> {
        Ok(self.answers.roots())
    }

    async fn create_elicitation(
        &self,
        asked: ElicitRequestParams,
        context: RequestContext<RoleClient>,
    ) -> Result<ElicitResult, ErrorData> {
        Ok(tokio::select! { biased;
            () = context.ct.cancelled() => ElicitResult::new(ElicitationAction::Cancel),
            answer = self.answers.form(asked, &self.asker) => answer,
        })
    }

    async fn on_progress(&self, said: ProgressNotificationParam, _context: NotificationContext<RoleClient>) {
        self.calls.tell(&said);
    }

    async fn on_tool_list_changed(&self, _context: NotificationContext<RoleClient>) {
        self.changed.notify_one();
    }
}
