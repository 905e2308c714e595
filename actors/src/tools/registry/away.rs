use super::publisher::Host;
use crate::address::RETURNS_WITHIN;
use bob_messages::ids::ToolName;
use bob_messages::mcp::ServerState;
use bob_messages::native::native_form;
use bob_messages::tools::ToolsMessage;
use std::pin::pin;
use std::time::Duration;

impl Host {
    /// Whether its actor, if there is one, cannot be asked now.
    pub(super) fn is_away(&self) -> bool {
        let state = self.standing().state;
        matches!(state, ServerState::Restarting | ServerState::GaveUp | ServerState::Stopped)
    }

    /// Whether it died and is not ready again.
    fn is_restarting(&self) -> bool {
        self.standing().state == ServerState::Restarting
    }

    /// Waits while it died and is not ready again; as long as it takes. Cancel-safe.
    pub(super) async fn restarted(&self) {
        loop {
            let mut published = pin!(self.published.notified());
            // From here on nothing is missed.
            published.as_mut().enable();
            if !self.is_restarting() {
                return;
            }
            published.await;
        }
    }

    /// How long a call waits for it to be there again: as long as its longest start of the last took and a while for the
    /// delay before it, but no longer than the call may run.
    pub(super) fn returns_within(&self, message: &ToolsMessage) -> Duration {
        let usual = self.standing().starts.iter().max().copied().unwrap_or_default();
        let (name, context) = match message {
            ToolsMessage::Check { check, context, .. } => (&check.call.name, context),
            ToolsMessage::Call { call, context, .. } => (&call.name, context),
            ToolsMessage::GiveUp { .. } => return usual.saturating_add(RETURNS_WITHIN),
        };
        let limit_ms = self.rules.get().map_or(context.tool_timeout_ms, |rules| rules.timeout_ms(name, context));
        usual.saturating_add(RETURNS_WITHIN).min(Duration::from_millis(limit_ms))
    }

    /// Why it is down for good; `None` when it may be back soon.
    pub(super) fn down(&self) -> Option<String> {
        let state = self.standing().state;
        match state {
            ServerState::GaveUp | ServerState::Stopped => self.away(),
            ServerState::Asleep | ServerState::Starting | ServerState::Ready | ServerState::Restarting => None,
        }
    }

    /// What a model is told of why it cannot be called, and for how long that has been so; `None` when it can.
    pub(super) fn away(&self) -> Option<String> {
        let who = match &self.server {
            Some(server) => format!("its tool server `{}`", server.id),
            None => "the actor of the tools of this process".to_owned(),
        };
        let standing = self.standing();
        let why = standing.last_error.as_deref().unwrap_or("nobody knows why");
        let long = standing.since.map_or_else(|| "a while".to_owned(), |since| in_words(since.elapsed()));
        match standing.state {
            ServerState::GaveUp => Some(format!(
                "{who} died too often and has been left down for {long} ({why}); it does not come back by \
                 itself, so go on without it"
            )),
            ServerState::Stopped => Some(format!("{who} was stopped {long} ago; go on without it")),
            ServerState::Starting => Some(format!("{who} is still starting, for {long} now; try again later")),
            ServerState::Restarting => {
                Some(format!("{who} has been down for {long} and is being started again ({why}); try again later"))
            }
            ServerState::Asleep | ServerState::Ready => None,
        }
    }

    /// Whether this native name is one of a tool that it offers no more, or would be one of its tools.
    pub(super) fn is_meant_by(&self, spoken: &str) -> bool {
        let Some(server) = &self.server else { return false };
        let own = |own: &str| native_form(&ToolName::new(format!("mcp/{}/{own}", server.id)));
        let is_own = || own("x").strip_suffix('x').is_some_and(|prefix| spoken.starts_with(prefix));
        self.standing().gone.iter().any(|tool| native_form(&tool.id) == spoken) || is_own()
    }
}

fn in_words(time: Duration) -> String {
    match time.as_secs() {
        0..10 => format!("{:.1} s", time.as_secs_f64()),
        seconds @ 10..120 => format!("{seconds} s"),
        seconds => format!("{} min", seconds / 60),
    }
}
