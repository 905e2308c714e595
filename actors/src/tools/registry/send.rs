use super::publisher::Host;
use bob_messages::ids::{SessionId, ToolName};
use bob_messages::tools::{ToolReturn, ToolsMessage, Verdict};
use std::sync::Arc;
use tokio::time::{Instant, timeout_at};

pub(super) fn session_of(message: &ToolsMessage) -> &SessionId {
    match message {
        ToolsMessage::Check { context, .. } | ToolsMessage::Call { context, .. } => &context.session,
        ToolsMessage::GiveUp { session, .. } => session,
    }
}

pub(super) fn name_of(message: &ToolsMessage) -> &ToolName {
    match message {
        ToolsMessage::Check { check, .. } => &check.call.name,
        ToolsMessage::Call { call, .. } => &call.name,
        ToolsMessage::GiveUp { tool, .. } => tool,
    }
}

/// Sends the question a second time when it is dropped before anything
/// was said: the call had not begun to run then, and judging it changes nothing.
pub(super) fn judged_by_one_of_two(host: &Arc<Host>, message: ToolsMessage) -> ToolsMessage {
    match message {
        ToolsMessage::Check { check, context, reply } if host.id().is_some() => {
            let (host, again, surroundings) = (Arc::clone(host), check.clone(), Arc::clone(&context));
            let reply = reply.if_unheard(move |reply| {
                wait_for(host, ToolsMessage::Check { check: again, context: surroundings, reply });
            });
            ToolsMessage::Check { check, context, reply }
        }
        ToolsMessage::Check { .. } | ToolsMessage::Call { .. } | ToolsMessage::GiveUp { .. } => message,
    }
}

/// Sends a question to the next actor of the host, as soon as it is ready.
pub(super) fn wait_for(host: Arc<Host>, mut message: ToolsMessage) {
    if let Some(why) = host.down() {
        return not_sent(message, &why);
    }
    let until = Instant::now() + host.returns_within(&message);
    // A message may be sent while the program ends, outside any runtime.
    let Ok(runtime) = tokio::runtime::Handle::try_current() else { return not_sent(message, "the program ends") };
    runtime.spawn(async move {
        let is_there = async || {
            host.restarted().await;
            if host.down().is_none() {
                host.address.wait_for_actor().await;
            }
        };
        while Instant::now() < until && timeout_at(until, is_there()).await.is_ok() && host.down().is_none() {
            match host.address.send(message) {
                Ok(()) => return,
                Err(unsent) => message = *unsent,
            }
            // The actor that was there is about to end.
            tokio::task::yield_now().await;
        }
        let why = host.away().unwrap_or_else(|| "its actor is being restarted".to_owned());
        not_sent(message, &why);
    });
}

/// Answers a question that reached no actor that could run it, so that nothing was run.
pub(crate) fn not_sent(message: ToolsMessage, why: &str) {
    let why = format!("not run: {} is not available: {why}", name_of(&message));
    match message {
        ToolsMessage::Check { reply, .. } => reply.send(Verdict::Unavailable { why }),
        ToolsMessage::Call { reply, .. } => reply.send(ToolReturn::not_run(why)),
        // Without its server, the task ends when its time is over there.
        ToolsMessage::GiveUp { .. } => {}
    }
}
