//! Running calls, and progress notifications of servers.
//!
//! rmcp gives each request a progress token. While a call is running, its token is registered here; notifications
//! with other tokens are ignored.

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

    pub(super) fn tell(&self, said: &ProgressNotificationParam) {
        let sink = self.all().get(&said.progress_token).cloned();
        if let Some(sink) = sink {
            sink.tell(said.progress, said.total, said.message.as_deref());
        }
    }
}

/// A pending call. Dropping it before the response sends a cancel notification.
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
            let why = "the call was abandoned".to_owned();
            let taken_back = CancelledNotificationParam::new(Some(request), Some(why));
            // Polled once, the notification is queued; its delivery is not awaited.
            let _handed_over = self.peer.notify_cancelled(taken_back).now_or_never();
        }
    }
}

/// Calls a tool. Dropping the future cancels the call.
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
