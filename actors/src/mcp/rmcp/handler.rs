//! Requests of a server to its client: the folders, and forms.
//!
//! Only these two capabilities are declared. rmcp answers pings and declines sampling and everything else.

#![expect(deprecated, reason = "a later version does without roots; the servers of today ask for them")]

use super::progress::OnTheirWay;
use crate::mcp::elicit::{Answer, Elicit, Question, with_defaults};
use bob_messages::ids::ServerId;
use rmcp::model::{
    ClientCapabilities, ClientConfig, ElicitRequestParams, ElicitResult, ElicitationAction, ElicitationCapability,
    ErrorData, FormElicitationCapability, Implementation, ListRootsResult, ProgressNotificationParam, ProtocolVersion,
    Root, RootsCapabilities,
};
use rmcp::service::{NotificationContext, RequestContext};
use rmcp::{ClientHandler, RoleClient};
use serde_json::Value;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{Notify, Semaphore};

/// How many questions of one server may wait for a person at once.
const QUESTIONS: usize = 8;

/// How long a person may take.
const ANSWER_WITHIN: Duration = Duration::from_secs(600);

/// Answers one server.
pub(in crate::mcp) struct Handler {
    server: ServerId,
    roots: Arc<[String]>,
    elicit: Option<Arc<dyn Elicit>>,
    /// Notified when the server's tools have changed.
    changed: Arc<Notify>,
    asking: Semaphore,
    /// Whose progress the server may report.
    calls: OnTheirWay,
}

impl Handler {
    pub(in crate::mcp) fn new(
        server: ServerId,
        roots: Arc<[String]>,
        elicit: Option<Arc<dyn Elicit>>,
        changed: Arc<Notify>,
    ) -> Self {
        Self { server, roots, elicit, changed, asking: Semaphore::new(QUESTIONS), calls: OnTheirWay::default() }
    }

    /// The calls that are on their way to this server.
    pub(super) fn calls(&self) -> OnTheirWay {
        self.calls.clone()
    }

    async fn ask(&self, message: String, schema: Value) -> Answer {
        let (Some(elicit), Ok(_one_of_few)) = (&self.elicit, self.asking.try_acquire()) else {
            return Answer::Decline;
        };
        let question = Question::new(self.server.clone(), message, schema.clone());
        match tokio::time::timeout(ANSWER_WITHIN, elicit.elicit(question)).await {
            Ok(Answer::Accept(form)) => Answer::Accept(with_defaults(form, &schema)),
            Ok(answer) => answer,
            Err(_nobody_answered) => Answer::Cancel,
        }
    }
}

impl ClientHandler for Handler {
    /// The latest version with a handshake. With a later one, a server that echoes the version would appear to
    /// support it.
    fn get_info(&self) -> ClientConfig {
        let mut can = ClientCapabilities::default();
        can.roots = Some(RootsCapabilities::default());
        can.elicitation = Some(ElicitationCapability::new().with_form(FormElicitationCapability::new()));
        ClientConfig::new(can, Implementation::new("bob", env!("CARGO_PKG_VERSION")))
            .with_protocol_version(ProtocolVersion::LATEST_WITH_INITIALIZE)
    }

    async fn list_roots(&self, _context: RequestContext<RoleClient>) -> Result<ListRootsResult, ErrorData> {
        Ok(ListRootsResult::new(self.roots.iter().filter_map(|root| as_root(root)).collect()))
    }

    async fn create_elicitation(
        &self,
        asked: ElicitRequestParams,
        context: RequestContext<RoleClient>,
    ) -> Result<ElicitResult, ErrorData> {
        let ElicitRequestParams::FormElicitationParams { message, requested_schema, .. } = asked else {
            return Ok(ElicitResult::new(ElicitationAction::Decline));
        };
        let schema = serde_json::to_value(&requested_schema).unwrap_or_default();
        let answer = tokio::select! { biased;
            () = context.ct.cancelled() => Answer::Cancel,
            answer = self.ask(message, schema) => answer,
        };
        Ok(match answer {
            Answer::Accept(form) => ElicitResult::new(ElicitationAction::Accept).with_content(Value::Object(form)),
            Answer::Decline => ElicitResult::new(ElicitationAction::Decline),
            Answer::Cancel => ElicitResult::new(ElicitationAction::Cancel),
        })
    }

    async fn on_progress(&self, said: ProgressNotificationParam, _context: NotificationContext<RoleClient>) {
        self.calls.tell(&said);
    }

    async fn on_tool_list_changed(&self, _context: NotificationContext<RoleClient>) {
        self.changed.notify_one();
    }
}

/// A folder as sent to servers.
fn as_root(folder: &str) -> Option<Root> {
    let url = reqwest::Url::from_file_path(folder).ok()?;
    let name = Path::new(folder).file_name().map(|name| name.to_string_lossy().into_owned());
    let root = Root::new(url.to_string());
    Some(name.map_or(root.clone(), |name| root.with_name(name)))
}
