//! Calls on their way, and what servers say of how far each is.
//!
//! rmcp gives each request a token of its own, under which a server may report. While a call is on its way its token
//! stands for it here; what is said under any other token is not heard.

use crate::tools::ProgressSink;
use futures_util::FutureExt;
use rmcp::model::{
    CallToolRequest, CallToolRequestParams, CancelledNotificationParam, ClientRequest, ProgressNotificationParam,
    ProgressToken, RequestId, ServerResult,
};
use rmcp::service::{PeerRequestOptions, ServiceError};
use rmcp::{Peer, RoleClient};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The calls of one connection that are on their way, by their tokens.
#[derive(Clone, Default)]
pub(in crate::mcp) struct OnTheirWay(Arc<Mutex<HashMap<ProgressToken, ProgressSink>>>);

impl OnTheirWay {
    fn all(&self) -> MutexGuard<'_, HashMap<ProgressToken, ProgressSink>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A server says how far a call is.
    pub(super) fn tell(&self, said: &ProgressNotificationParam) {
        let sink = self.all().get(&said.progress_token).cloned();
        if let Some(sink) = sink {
            sink.tell(said.progress, said.total, said.message.as_deref());
        }
    }
}

/// A call that is waited for. Dropped before its answer, it tells the server that nobody waits any more.
struct Waiting {
    peer: Peer<RoleClient>,
    request: Option<RequestId>,
    calls: OnTheirWay,
    token: ProgressToken,
}

impl Drop for Waiting {
    fn drop(&mut self) {
        self.calls.all().remove(&self.token);
        if let Some(request) = self.request.take() {
            let why = "nobody waits for it any more".to_owned();
            let taken_back = CancelledNotificationParam::new(Some(request), Some(why));
            // Asked once, it is handed to the connection; whether it left is not waited for.
            let _handed_over = self.peer.notify_cancelled(taken_back).now_or_never();
        }
    }
}

/// Calls a tool. Dropping the future takes the call back.
///
/// # Errors
/// What became of the request instead of an answer.
pub(super) async fn call(
    peer: &Peer<RoleClient>,
    calls: &OnTheirWay,
    params: CallToolRequestParams,
    progress: ProgressSink,
) -> Result<ServerResult, ServiceError> {
    let request = ClientRequest::CallToolRequest(CallToolRequest::new(params));
    let handle = peer.send_request_with_option(request, PeerRequestOptions::no_options()).await?;
    let token = handle.progress_token.clone();
    calls.all().insert(token.clone(), progress);
    let mut waiting = Waiting { peer: peer.clone(), request: Some(handle.id.clone()), calls: calls.clone(), token };
    let result = handle.await_response().await;
    waiting.request = None;
    result
}
