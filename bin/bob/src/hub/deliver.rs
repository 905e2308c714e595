//! The way of a message out: attempts with pauses between them, and what is told when none succeeded.

use super::message::{HubError, OutboundMessage, is_channel};
use bob_messages::backoff::Backoff;
use bob_messages::cause::Cause;
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use std::collections::BTreeMap;
use std::error::Error;
use std::fmt;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::{Instant, timeout_at};

/// The pauses between attempts: from none to the first, doubled up to the last.
const PAUSES: Backoff = Backoff { first_ms: 1_000, most_ms: 20_000 };
/// How often a message is tried at most, by default.
const ATTEMPTS: u32 = 5;

/// A chat system that a program connects. An implementation makes one attempt per call.
///
/// ```
/// use bob::BoxFuture;
/// use bob::hub::{ChatChannel, DeliveryError, OutboundMessage};
/// use std::sync::Arc;
///
/// /// Writes to one chat, on stdout.
/// struct Terminal;
///
/// impl ChatChannel for Terminal {
///     fn name(&self) -> &str {
///         "terminal"
///     }
///
///     fn deliver(&self, message: Arc<OutboundMessage>) -> BoxFuture<'_, Result<(), DeliveryError>> {
///         Box::pin(async move {
///             if message.chat_id != "me" {
///                 return Err(DeliveryError::refused("there is no such chat"));
///             }
///             println!("{}", message.content);
///             Ok(())
///         })
///     }
/// }
/// # assert_eq!(Terminal.name(), "terminal");
/// ```
pub trait ChatChannel: Send + Sync + 'static {
    /// Its name: 1 to 32 letters, digits and `-`. The session of a chat is called `{name}_{chat_id}`.
    fn name(&self) -> &str;

    /// Delivers a message. One whose attempt may have succeeded comes again with the same `key`: a channel that remembers
    /// keys shows it once. Dropping the future gives the attempt up.
    ///
    /// # Errors
    /// The message was not delivered, or that is not known.
    fn deliver(&self, message: Arc<OutboundMessage>) -> BoxFuture<'_, Result<(), DeliveryError>>;

    /// Whether it shows a message once that is delivered twice. If all channels do, a call of the tool that a crash
    /// interrupted is made again; otherwise its outcome is unknown.
    fn remembers_keys(&self) -> bool {
        false
    }
}

/// Why an attempt failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeliveryError {
    text: String,
    cause: Cause,
    is_final: bool,
    /// Whether the attempt was cut off, and may have succeeded.
    is_cut_off: bool,
}

impl DeliveryError {
    /// A later attempt may succeed: the system is away or busy. The text is a lowercase fragment without secrets.
    pub fn retry(text: impl Into<String>) -> Self {
        Self { text: text.into(), cause: Cause::default(), is_final: false, is_cut_off: false }
    }

    /// No attempt can succeed: there is no such chat, or it must not be written to.
    pub fn refused(text: impl Into<String>) -> Self {
        Self { is_final: true, ..Self::retry(text) }
    }

    fn cut_off() -> Self {
        Self { is_cut_off: true, ..Self::retry("the time for the call was over; the last attempt may have succeeded") }
    }

    /// With the error that it comes from, whose text has no secrets either.
    #[must_use]
    pub fn with_source(self, source: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        Self { cause: Cause::of(source), ..self }
    }

    /// Whether a later attempt may succeed.
    pub fn is_retryable(&self) -> bool {
        !self.is_final
    }

    pub(super) fn is_cut_off(&self) -> bool {
        self.is_cut_off
    }
}

impl fmt::Display for DeliveryError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl Error for DeliveryError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        self.cause.error()
    }
}

/// A message that was not delivered.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[error("not delivered to {} of {}, tried {attempts} times: {error}", message.chat_id, message.channel)]
#[non_exhaustive]
pub struct DeliveryFailure {
    /// The message.
    pub message: Arc<OutboundMessage>,
    /// How often it was tried; none without such a channel.
    pub attempts: u32,
    /// Why the last attempt failed.
    #[source]
    pub error: DeliveryError,
}

type OnFailure = dyn Fn(&DeliveryFailure) + Send + Sync;

/// The channels of a program. Clones share them.
#[doc(alias = "ChatHub")]
#[derive(Clone)]
pub struct Channels {
    by_name: Arc<BTreeMap<String, Arc<dyn ChatChannel>>>,
    attempts: u32,
    on_failure: Option<Arc<OnFailure>>,
}

impl Channels {
    /// These channels; a message is tried up to five times.
    ///
    /// # Errors
    /// A name that no channel can have, or one that two have.
    pub fn new(channels: impl IntoIterator<Item = Arc<dyn ChatChannel>>) -> Result<Self, HubError> {
        let mut by_name = BTreeMap::new();
        for channel in channels {
            let name = channel.name().to_owned();
            if !is_channel(&name) {
                return Err(HubError::Channel(name));
            }
            if by_name.insert(name.clone(), channel).is_some() {
                return Err(HubError::Twice(name));
            }
        }
        Ok(Self { by_name: Arc::new(by_name), attempts: ATTEMPTS, on_failure: None })
    }

    /// Tries each message this often at most, at least once. Between two attempts are up to 1 s, 2 s, 4 s, and never more
    /// than 20 s.
    #[must_use]
    pub fn attempts(mut self, attempts: u32) -> Self {
        self.attempts = attempts.max(1);
        self
    }

    /// Is told each message that was given up, for any reason: also one that the tool was asked to send, and one for which the
    /// time of its call was over. It must not block. A message whose delivery is dropped, since its turn was cancelled, is not
    /// told.
    #[must_use]
    pub fn on_failure(mut self, told: impl Fn(&DeliveryFailure) + Send + Sync + 'static) -> Self {
        self.on_failure = Some(Arc::new(told));
        self
    }

    /// Delivers a message, with pauses between attempts. Dropping the future gives it up.
    ///
    /// # Errors
    /// The last attempt failed, or an error was final.
    pub async fn deliver(&self, message: OutboundMessage) -> Result<(), DeliveryFailure> {
        self.deliver_until(message, None).await
    }

    /// Delivers a message, and gives it up at this time.
    pub(super) async fn deliver_until(
        &self,
        message: OutboundMessage,
        until: Option<Instant>,
    ) -> Result<(), DeliveryFailure> {
        let message = Arc::new(message);
        let failure = match self.by_name.get(&message.channel) {
            Some(channel) => self.tried(&**channel, &message, until).await,
            None => {
                let error = DeliveryError::refused(format!("there is no channel {:?}", message.channel));
                Some(DeliveryFailure { message, attempts: 0, error })
            }
        };
        let Some(failure) = failure else { return Ok(()) };
        if let Some(told) = &self.on_failure {
            told(&failure);
        }
        Err(failure)
    }

    async fn tried(
        &self,
        channel: &dyn ChatChannel,
        message: &Arc<OutboundMessage>,
        until: Option<Instant>,
    ) -> Option<DeliveryFailure> {
        let mut attempts = 1;
        loop {
            // A panic of a channel is an error of this message.
            let attempt = AssertUnwindSafe(async { channel.deliver(Arc::clone(message)).await }).catch_unwind();
            let attempt = async {
                match until {
                    Some(until) => {
                        timeout_at(until, attempt).await.unwrap_or_else(|_| Ok(Err(DeliveryError::cut_off())))
                    }
                    None => attempt.await,
                }
            };
            let error = match attempt.await {
                Ok(Ok(())) => return None,
                Ok(Err(error)) => error,
                Err(_panic) => DeliveryError::refused("the channel panicked"),
            };
            let chance = uuid::Uuid::new_v4().as_bytes()[0];
            let pause = Duration::from_millis(PAUSES.delay_ms(attempts, f64::from(chance) / 255.0));
            let is_late = until.is_some_and(|until| Instant::now() + pause >= until);
            if error.is_final || is_late || attempts >= self.attempts {
                return Some(DeliveryFailure { message: Arc::clone(message), attempts, error });
            }
            tokio::time::sleep(pause).await;
            attempts += 1;
        }
    }

    pub(super) fn remember_keys(&self) -> bool {
        self.by_name.values().all(|channel| channel.remembers_keys())
    }

    pub(super) fn names(&self) -> String {
        self.by_name.keys().map(String::as_str).collect::<Vec<_>>().join(", ")
    }
}

impl fmt::Debug for Channels {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<_> = self.by_name.keys().collect();
        f.debug_struct("Channels").field("names", &names).field("attempts", &self.attempts).finish_non_exhaustive()
    }
}
