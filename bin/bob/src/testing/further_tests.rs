//! Each rule of the suites for channels, hooks, providers and sign-ins is broken by a port that is made for it.

use super::rules::each_rule_is_broken;
use super::{channel, provider, tool_hook};
use crate::hub::{ChatChannel, DeliveryError, OutboundMessage};
use crate::model::providers::{CapabilityOverrides, KnownModels};
use crate::model::{LlmError, LlmErrorKind, Readiness};
use crate::tools::hooks::{HookedCall, ToolHook};
use crate::tools::{Concern, ToolError, ToolOutput};
use crate::{BoxFuture, ModelName};
use serde_json::json;
use std::future::{pending, ready};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

#[derive(Clone, Copy, PartialEq)]
enum Fault {
    No,
    Never,
    OneAtATime,
    NotFreed,
    NoControls,
    Name,
    Twice,
    NoReason,
    LongNote,
    Changes,
}

/// A port with a fault, and what it counts.
#[derive(Clone)]
struct Faulty(Fault, Arc<AtomicU32>);

impl Faulty {
    fn new(fault: Fault) -> Self {
        Self(fault, Arc::default())
    }

    /// What a port does when it is asked about this text.
    async fn asked(self, text: String) {
        struct Freed(Arc<AtomicU32>);
        impl Drop for Freed {
            fn drop(&mut self) {
                self.0.store(0, Ordering::SeqCst);
            }
        }
        let Self(fault, count) = self;
        assert!(fault != Fault::NoControls || !text.contains('\u{1b}'), "not shown");
        let is_counted = matches!(fault, Fault::OneAtATime | Fault::NotFreed);
        if fault == Fault::Never || (is_counted && count.fetch_add(1, Ordering::SeqCst) > 0) {
            return pending().await;
        }
        let _freed = (fault == Fault::OneAtATime).then(|| Freed(Arc::clone(&count)));
        tokio::time::sleep(Duration::from_millis(1)).await;
        if fault == Fault::NotFreed {
            count.store(0, Ordering::SeqCst);
        }
    }
}

impl ChatChannel for Faulty {
    fn name(&self) -> &str {
        if self.0 == Fault::Name { "two words" } else { "board" }
    }

    fn deliver(&self, message: Arc<OutboundMessage>) -> BoxFuture<'_, Result<(), DeliveryError>> {
        let is_again = self.0 == Fault::Twice && self.1.fetch_add(1, Ordering::SeqCst) > 0;
        Box::pin(async move {
            self.clone().asked(message.content.clone()).await;
            if is_again { Err(DeliveryError::refused("it was shown")) } else { Ok(()) }
        })
    }
}

impl ToolHook for Faulty {
    fn before_call(&self, call: &HookedCall) -> Option<BoxFuture<'static, Option<Concern>>> {
        let (asked, why) =
            (self.clone().asked(call.call.arguments["text"].as_str().unwrap_or_default().to_owned()), self.0);
        Some(Box::pin(async move {
            asked.await;
            Some(Concern::Ask(if why == Fault::NoReason { String::new() } else { "changes much".to_owned() }))
        }))
    }

    fn after_call(
        &self,
        _call: &HookedCall,
        _result: &Result<ToolOutput, ToolError>,
    ) -> Option<BoxFuture<'static, Option<String>>> {
        let bytes = if self.0 == Fault::LongNote { 1 << 20 } else { 10 };
        Some(Box::pin(ready(Some("x".repeat(bytes)))))
    }
}

impl Readiness for Faulty {
    fn ready<'a>(&'a self, provider: &'a str) -> BoxFuture<'a, Result<(), LlmError>> {
        Box::pin(async move {
            self.clone().asked(provider.to_owned()).await;
            let text = if self.0 == Fault::NoReason { "" } else { "it is closed" };
            Err(LlmError::new(LlmErrorKind::NotStarted, text))
        })
    }
}

impl KnownModels for Faulty {
    fn abilities(&self, model: &ModelName) -> Option<CapabilityOverrides> {
        let is_known = model.provider() == "lab";
        assert!(is_known || self.0 != Fault::NoControls, "no such provider");
        let native_tools = Some(self.0 == Fault::Changes && self.1.fetch_add(1, Ordering::SeqCst).is_multiple_of(2));
        (is_known && self.0 != Fault::Never)
            .then(|| CapabilityOverrides { native_tools, ..CapabilityOverrides::default() })
    }
}

#[tokio::test(start_paused = true)]
async fn each_rule_of_a_channel_is_broken_by_one_with_its_fault() {
    let of = async |fault| channel::check(|| Arc::new(Faulty::new(fault)), "ops").await;
    let faulty = vec![
        ("its name is that of a channel, and stays", of(Fault::Name).await),
        ("a message is delivered", of(Fault::Never).await),
        ("a message that comes again under its key is delivered", of(Fault::Twice).await),
        ("messages beside each other are all delivered", of(Fault::OneAtATime).await),
        ("a delivery that is given up leaves the channel usable", of(Fault::NotFreed).await),
        ("unusual and long texts are delivered or refused, without a panic", of(Fault::NoControls).await),
    ];
    each_rule_is_broken(of(Fault::No).await, faulty);
}

#[tokio::test(start_paused = true)]
async fn each_rule_of_a_hook_is_broken_by_one_with_its_fault() {
    let examples = [("my/tool", json!({"text": "hello"}))];
    let of = async |fault| tool_hook::check(|| Arc::new(Faulty::new(fault)), &examples).await;
    let faulty = vec![
        ("what it says before a call has a reason", of(Fault::NoReason).await),
        ("what it says after a call is read whole", of(Fault::LongNote).await),
        ("calls beside each other are all answered", of(Fault::OneAtATime).await),
        ("a question that is dropped leaves the hook usable", of(Fault::NotFreed).await),
        ("unusual arguments and results are answered, without a panic", of(Fault::NoControls).await),
    ];
    each_rule_is_broken(of(Fault::No).await, faulty);
}

#[tokio::test(start_paused = true)]
async fn each_rule_of_the_ports_beside_a_provider_is_broken_by_one_with_its_fault() {
    let of = async |fault| provider::readiness(|| Arc::new(Faulty::new(fault)), "lab").await;
    let faulty = vec![
        ("its provider is ready, or an error says why it is not", of(Fault::NoReason).await),
        ("questions beside each other are all answered", of(Fault::OneAtATime).await),
        ("a wait that is dropped leaves the port usable", of(Fault::NotFreed).await),
        ("a provider that it does not know is answered, without a panic", of(Fault::NoControls).await),
    ];
    each_rule_is_broken(of(Fault::No).await, faulty);
    let model = ModelName::parse("lab:small").unwrap();
    let of = async |fault| provider::known_models(|| Arc::new(Faulty::new(fault)), &model).await;
    let faulty = vec![
        ("something is known of its model, and the same the second time", of(Fault::Never).await),
        ("something is known of its model, and the same the second time", of(Fault::Changes).await),
        ("a model that it does not know is answered, without a panic", of(Fault::NoControls).await),
    ];
    each_rule_is_broken(of(Fault::No).await, faulty);
}

#[cfg(feature = "mcp")]
impl crate::tools::servers::SignInPort for Faulty {
    fn open<'a>(&'a self, _server: &'a crate::tools::servers::ServerId, page: &'a str) -> BoxFuture<'a, ()> {
        Box::pin(self.clone().asked(page.to_owned()))
    }
}

#[cfg(feature = "mcp")]
#[tokio::test(start_paused = true)]
async fn each_rule_of_a_sign_in_is_broken_by_one_with_its_fault() {
    let of = async |fault| super::sign_in::check(|| Arc::new(Faulty::new(fault))).await;
    let faulty = vec![
        ("a page is shown without waiting for the person", of(Fault::Never).await),
        ("pages beside each other are all shown", of(Fault::OneAtATime).await),
        ("a page that is given up leaves the port usable", of(Fault::NotFreed).await),
        ("an unusual server and address are shown, without a panic", of(Fault::NoControls).await),
    ];
    each_rule_is_broken(of(Fault::No).await, faulty);
}
