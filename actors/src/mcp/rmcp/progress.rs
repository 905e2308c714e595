//! Running calls, and progress notifications of servers.
//!
//! rmcp gives each request a progress token. While a call is running, its token is registered here; notifications
//! with other tokens are ignored.

use super::tasks;
use crate::tools::ProgressSink;
use futures_util::FutureExt;
use rmcp::model::{
    CallToolRequest, CallToolRequestParams, CancelledNotificationMethod, CancelledNotificationParam,
    ClientNotification, ClientRequest, ConstString, CustomNotification, ProgressNotificationParam, ProgressToken,
    ServerResult,
};
use rmcp::service::{PeerRequestOptions, RequestHandle, ServiceError};
use rmcp::{Peer, RoleClient};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::runtime::Handle;

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

/// A pending call. Dropping it before the response sends a cancel notification; a task that the server makes of it all the
/// same is given up.
struct Waiting {
    request: Option<RequestHandle<RoleClient>>,
    calls: OnTheirWay,
    token: ProgressToken,
}

impl Drop for Waiting {
    fn drop(&mut self) {
        self.calls.all().remove(&self.token);
        let Some(request) = self.request.take() else { return };
        let why = "the call was abandoned".to_owned();
        let taken_back = CancelledNotificationParam::new(Some(request.id.clone()), Some(why));
        let late = Handle::try_current().ok().filter(|_| tasks::has_tasks(&request.peer));
        // Polled once, the notification is queued; its delivery is not awaited.
        match late {
            None => drop(request.peer.notify_cancelled(taken_back).now_or_never()),
            Some(runtime) => {
                // Of a notification that rmcp knows, it takes the response for its own.
                let params = serde_json::to_value(&taken_back).ok();
                let plain = CustomNotification::new(CancelledNotificationMethod::VALUE, params);
                drop(request.peer.send_notification(ClientNotification::CustomNotification(plain)).now_or_never());
                runtime.spawn(tasks::give_up_late(request, taken_back));
            }
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
    let waiting = &mut Waiting { request: Some(handle), calls: calls.clone(), token };
    let Some(handle) = &mut waiting.request else { return Err(ServiceError::TransportClosed) };
    let result = (&mut handle.rx).await;
    waiting.request = None;
    result.unwrap_or(Err(ServiceError::TransportClosed))
}
