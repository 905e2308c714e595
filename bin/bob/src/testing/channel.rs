//! The rules of a chat system.

use super::rules::{beside, dropped};
use crate::hub::{Channels, Chat, ChatChannel, MAX_CONTENT_BYTES, OutboundMessage};
use bob_actors::contract::{Found, ODD_TEXTS, Suite, holds};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

pub(super) async fn check(make: impl Fn() -> Arc<dyn ChatChannel>, chat_id: &str) -> Suite {
    let of = || To { port: make(), chat_id, sent: AtomicUsize::new(0) };
    let mut suite = Suite::new("channel");
    suite.rule("its name is that of a channel, and stays", async { of().name() }).await;
    suite.rule("a message is delivered", async { of().delivered("hello").await }).await;
    suite.rule("a message that comes again under its key is delivered", of().again()).await;
    suite.rule("messages beside each other are all delivered", of().beside()).await;
    suite.rule("a delivery that is given up leaves the channel usable", of().given_up()).await;
    suite.rule("unusual and long texts are delivered or refused, without a panic", of().unusual()).await;
    suite
}

/// One chat that is there.
struct To<'a> {
    port: Arc<dyn ChatChannel>,
    chat_id: &'a str,
    sent: AtomicUsize,
}

impl To<'_> {
    fn message(&self, text: &str) -> Arc<OutboundMessage> {
        let number = self.sent.fetch_add(1, Ordering::Relaxed);
        let to = Chat { channel: self.port.name().to_owned(), chat_id: self.chat_id.to_owned() };
        Arc::new(OutboundMessage::new(format!("contract-{number}"), to, text))
    }

    async fn sends(&self, message: Arc<OutboundMessage>) -> Found {
        self.port.deliver(message).await.map_err(|error| format!("it was not delivered: {error}"))
    }

    async fn delivered(&self, text: &str) -> Found {
        self.sends(self.message(text)).await
    }

    fn name(&self) -> Found {
        let (first, second) = (self.port.name().to_owned(), self.port.name().to_owned());
        Channels::new([Arc::clone(&self.port)]).map_err(|error| error.to_string())?;
        holds(first == second, || format!("the name {first:?} and then {second:?}"))
    }

    async fn again(self) -> Found {
        let message = self.message("hello");
        self.sends(Arc::clone(&message)).await?;
        self.sends(message).await.map_err(|seen| format!("the second time {seen}"))
    }

    async fn beside(self) -> Found {
        beside(|| self.delivered("hello")).await
    }

    async fn given_up(self) -> Found {
        dropped(|| self.port.deliver(self.message("given up")), || self.delivered("hello")).await
    }

    async fn unusual(self) -> Found {
        for text in ODD_TEXTS.map(str::to_owned).into_iter().chain(["x".repeat(MAX_CONTENT_BYTES)]) {
            let _delivered_or_refused = self.port.deliver(self.message(&text)).await;
        }
        self.delivered("hello").await.map_err(|seen| format!("{seen}, after unusual texts"))
    }
}
