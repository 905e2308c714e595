//! Notifications of a changed tool list, where they have to be asked for.
//!
//! Since version 2026-07-28 a server tells a change only over a subscription. It is renewed when it ends: a server may
//! end it at any time, and an intermediary of HTTP does.

use rmcp::model::{ServerNotification, SubscriptionFilter};
use rmcp::service::{Peer, RoleClient, ServiceError};
use std::convert::Infallible;
use std::future::pending;
use std::time::Duration;
use tokio::sync::Notify;
use tokio::time::{Instant, sleep};

/// Before the second subscription; doubled each time, up to the longest.
const PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_secs(60);

/// A subscription that lasted this long ended for a reason that is over.
const LASTED: Duration = Duration::from_secs(10);

/// Notifies `changed` of each change that the server tells, for as long as the future is polled.
pub(super) async fn watch(peer: &Peer<RoleClient>, changed: &Notify) -> Infallible {
    let is_told = |info: &rmcp::model::ServerPeerInfo| {
        let tools = info.capabilities.tools.as_ref();
        !info.protocol_version.has_initialize() && tools.is_some_and(|tools| tools.list_changed == Some(true))
    };
    if !peer.peer_info().is_some_and(|info| is_told(&info)) {
        return pending().await;
    }
    let mut pause = PAUSE;
    loop {
        let began = Instant::now();
        match peer.listen(SubscriptionFilter::builder().tools_list_changed().build()).await {
            Ok(mut subscription) => {
                // Changes before a subscription are not told: since the last one, or since the tools were listed.
                changed.notify_one();
                while let Ok(Some(notification)) = subscription.next().await {
                    if let ServerNotification::ToolListChangedNotification(_) = notification {
                        changed.notify_one();
                    }
                }
            }
            Err(ServiceError::McpError(error)) => {
                tracing::debug!(target: "bob::mcp", code = error.code.0, "a server tells no changes of its tools");
                return pending().await;
            }
            Err(_) => {}
        }
        if began.elapsed() >= LASTED {
            pause = PAUSE;
        }
        sleep(pause).await;
        pause = (pause * 2).min(LONGEST_PAUSE);
    }
}
