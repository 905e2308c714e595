//! Messages in and out, the tool, and what becomes of a message that cannot be delivered.

use super::*;
use crate::approvals::PermissionMode;
use crate::model::{ScriptedLlm, ScriptedReply};
use crate::{AgentRequest, AgentRuntime, BoxFuture, ModelName, Runtime, RuntimeBuilder, SessionId};
use bob_messages::chat::CallStatus;
use futures_util::FutureExt;
use serde_json::json;
use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

/// Fails as it is told, and keeps what was delivered and each attempt.
#[derive(Default)]
struct Chatty {
    failures: Mutex<VecDeque<Option<DeliveryError>>>,
    tried: Mutex<Vec<Arc<OutboundMessage>>>,
    shown: Mutex<Vec<Arc<OutboundMessage>>>,
    remembers: bool,
}

impl Chatty {
    fn failing(failures: impl IntoIterator<Item = Option<DeliveryError>>) -> Arc<Self> {
        Arc::new(Self { failures: Mutex::new(failures.into_iter().collect()), ..Self::default() })
    }

    fn shown(&self) -> Vec<(String, String, Option<String>)> {
        let shown = self.shown.lock().unwrap();
        shown.iter().map(|one| (one.chat_id.clone(), one.content.clone(), one.reply_to.clone())).collect()
    }
}

impl ChatChannel for Chatty {
    fn name(&self) -> &str {
        "irc"
    }

    fn deliver(&self, message: Arc<OutboundMessage>) -> BoxFuture<'_, Result<(), DeliveryError>> {
        self.tried.lock().unwrap().push(Arc::clone(&message));
        let failure = self.failures.lock().unwrap().pop_front();
        Box::pin(async move {
            match failure {
                None => self.shown.lock().unwrap().push(message),
                Some(Some(error)) => return Err(error),
                Some(None) => panic!("a planted panic"),
            }
            Ok(())
        })
    }

    fn remembers_keys(&self) -> bool {
        self.remembers
    }
}

fn channels(channel: &Arc<Chatty>) -> Channels {
    Channels::new([Arc::clone(channel) as Arc<dyn ChatChannel>]).unwrap()
}

async fn runtime(channels: &Channels, arguments: serde_json::Value) -> Runtime {
    let replies = vec![ScriptedReply::call("local/message", arguments), ScriptedReply::text("done")];
    let builder = RuntimeBuilder::new(ModelName::parse("scripted:m").unwrap());
    let builder = builder.model(Arc::new(ScriptedLlm::replies(replies))).permission_mode(PermissionMode::Auto);
    builder.tools(Arc::new(channels.message_tool())).build().await.unwrap()
}

fn hello() -> OutboundMessage {
    OutboundMessage::new("k", Chat { channel: "irc".into(), chat_id: "ops".into() }, "hello")
}

#[tokio::test]
async fn an_agent_speaks_first() {
    let irc = Arc::new(Chatty::default());
    let runtime =
        runtime(&channels(&irc), json!({"content": "The disk is full.", "channel": "irc", "chat_id": "ops"})).await;
    let watch = AgentRequest::text(SessionId::parse("watch").unwrap(), "Look at the disk.");
    let outcome = runtime.run(watch).await.unwrap();
    assert_eq!(outcome.response().tool_transcript[0].status, CallStatus::Ok);
    assert_eq!(irc.shown(), [("ops".to_owned(), "The disk is full.".to_owned(), None)]);
    let call = outcome.response().tool_transcript[0].id.clone();
    assert_eq!(irc.tried.lock().unwrap()[0].key, format!("watch/{}/{call}", outcome.response().turn_id));
    runtime.shutdown().await;
}

#[tokio::test]
async fn a_message_without_a_chat_goes_to_that_of_its_session() {
    let irc = Arc::new(Chatty::default());
    let runtime = runtime(&channels(&irc), json!({"content": "One moment.", "reply_to": "m-1"})).await;
    let inbound = InboundMessage::new("irc", "ann_b", "m-1", "hi");
    let outcome = runtime.run(inbound.request().unwrap()).await.unwrap();
    assert_eq!(outcome.response().session_id.as_str(), "irc_ann_b");
    assert_eq!(irc.shown(), [("ann_b".to_owned(), "One moment.".to_owned(), Some("m-1".to_owned()))]);
    // The same message again is the same request.
    let again = runtime.run(inbound.request().unwrap()).await.unwrap();
    assert_eq!((again.response().turn_id.clone(), irc.shown().len()), (outcome.response().turn_id.clone(), 1));
    let elsewhere = AgentRequest::text(SessionId::parse("elsewhere").unwrap(), "hi");
    let outcome = runtime.run(elsewhere).await.unwrap();
    assert_eq!(outcome.response().tool_transcript[0].status, CallStatus::Error);
    assert!(outcome.response().tool_transcript[0].result.contains("name channel and chat_id"));
    runtime.shutdown().await;
}

#[tokio::test]
async fn a_sub_agent_is_in_no_chat_and_has_to_name_one() {
    let irc = Arc::new(Chatty::default());
    let model = ScriptedLlm::from_fn(|request| match (request.system.contains("You are b."), request.step) {
        (false, 1) => ScriptedReply::call("agent/b", json!({"task": "tell them"})),
        (true, 1) => ScriptedReply::call("local/message", json!({"content": "hi"})),
        _ => ScriptedReply::text(format!("{:?}", request.messages.last())),
    });
    let builder = RuntimeBuilder::new(ModelName::parse("scripted:m").unwrap()).model(Arc::new(model));
    let builder = builder.subagent(crate::Agent::new("b").instructions("You are b."));
    let builder = builder.tools(Arc::new(channels(&irc).message_tool())).permission_mode(PermissionMode::Auto);
    let runtime = builder.build().await.unwrap();
    let outcome = runtime.run(InboundMessage::new("irc", "ann", "m", "hi").request().unwrap()).await.unwrap();
    let told = &outcome.response().tool_transcript[0].result;
    assert!(told.contains("a sub-agent is in no chat; name channel and chat_id"), "{told}");
    assert!(irc.shown().is_empty());
    runtime.shutdown().await;
}

#[tokio::test]
async fn the_tool_asks_unless_a_rule_allows_it() {
    let irc = Arc::new(Chatty::default());
    let replies = vec![ScriptedReply::call("local/message", json!({"content": "x"})), ScriptedReply::text("done")];
    let builder = RuntimeBuilder::new(ModelName::parse("scripted:m").unwrap());
    let builder = builder.model(Arc::new(ScriptedLlm::replies(replies)));
    let runtime = builder.tools(Arc::new(channels(&irc).message_tool())).build().await.unwrap();
    let outcome = runtime.run(InboundMessage::new("irc", "ann", "m", "hi").request().unwrap()).await.unwrap();
    assert_eq!(outcome.response().denied.len(), 1);
    assert!(irc.shown().is_empty());
    runtime.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn a_channel_that_is_away_is_tried_again_with_the_same_key() {
    let away = || Some(DeliveryError::retry("away"));
    let irc = Chatty::failing([away(), away()]);
    channels(&irc).deliver(hello()).await.unwrap();
    let keys: Vec<_> = irc.tried.lock().unwrap().iter().map(|one| one.key.clone()).collect();
    assert_eq!((keys, irc.shown().len()), (vec!["k".to_owned(); 3], 1));
}

#[tokio::test(start_paused = true)]
async fn a_message_that_is_given_up_is_told() {
    for (failures, attempts, text) in [
        (vec![Some(DeliveryError::retry("away")); 9], 5, "away"),
        (vec![Some(DeliveryError::refused("no such chat"))], 1, "no such chat"),
        (vec![None], 1, "the channel panicked"),
    ] {
        let (irc, told) = (Chatty::failing(failures), Arc::new(Mutex::new(Vec::new())));
        let kept = Arc::clone(&told);
        let channels = channels(&irc).on_failure(move |failure| kept.lock().unwrap().push(failure.clone()));
        let failure = channels.deliver(hello()).await.unwrap_err();
        assert_eq!((failure.attempts, failure.error.to_string()), (attempts, text.to_owned()));
        assert_eq!(*told.lock().unwrap(), [failure]);
    }
    let nowhere = OutboundMessage { channel: "mail".into(), ..hello() };
    let failure = channels(&Arc::new(Chatty::default())).deliver(nowhere).await.unwrap_err();
    assert_eq!(failure.to_string(), "not delivered to ops of mail, tried 0 times: there is no channel \"mail\"");
}

/// Waits for ever in each attempt after so many that fail.
struct Slow(Mutex<u32>);

impl ChatChannel for Slow {
    fn name(&self) -> &str {
        "irc"
    }

    fn deliver(&self, _message: Arc<OutboundMessage>) -> BoxFuture<'_, Result<(), DeliveryError>> {
        let fails = {
            let mut left = self.0.lock().unwrap();
            let fails = *left > 0;
            *left = left.saturating_sub(1);
            fails
        };
        match fails {
            true => Box::pin(async { Err(DeliveryError::retry("away")) }),
            false => Box::pin(std::future::pending()),
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_message_that_the_time_limit_of_its_call_ends_is_told_and_its_result_says_so() {
    for (failing, status, text) in [
        (0, CallStatus::Unknown, "the last attempt may have succeeded"),
        (1, CallStatus::Unknown, "tried 2 times"),
        (99, CallStatus::Error, "not delivered to ops of irc, tried"),
    ] {
        let told = Arc::new(Mutex::new(Vec::new()));
        let kept = Arc::clone(&told);
        let channels = Channels::new([Arc::new(Slow(Mutex::new(failing))) as Arc<dyn ChatChannel>]).unwrap();
        let channels = channels.attempts(1_000).on_failure(move |failure| kept.lock().unwrap().push(failure.clone()));
        let runtime = runtime(&channels, json!({"content": "x", "channel": "irc", "chat_id": "ops"})).await;
        let outcome = runtime.run(AgentRequest::text(SessionId::parse("w").unwrap(), "say it")).await.unwrap();
        let call = &outcome.response().tool_transcript[0];
        assert_eq!((call.status, told.lock().unwrap().len()), (status, 1), "{failing}: {}", call.result);
        assert!(call.result.contains(text), "{failing}: {}", call.result);
        assert!(!call.result.contains("timed out"), "{failing}: {}", call.result);
        runtime.shutdown().await;
    }
}

#[test]
fn a_call_is_made_again_after_a_crash_if_all_channels_remember_keys() {
    use crate::tools::ToolPort;
    for remembers in [false, true] {
        let channels = channels(&Arc::new(Chatty { remembers, ..Chatty::default() }));
        assert_eq!(channels.message_tool().list_tools().now_or_never().unwrap()[0].idempotent, remembers);
    }
}

#[test]
fn chats_are_sessions_and_names_are_checked() {
    let chat = Chat { channel: "irc".into(), chat_id: "a_b".into() };
    assert_eq!(Chat::of_session(&chat.session().unwrap()), Some(chat));
    assert_eq!(Chat::of_session(&SessionId::parse("plain").unwrap()), None);
    let refused =
        |channel: &str, chat_id: &str| Chat { channel: channel.into(), chat_id: chat_id.into() }.session().unwrap_err();
    assert!(matches!(refused("i_c", "a"), HubError::Channel(_)));
    assert!(matches!(refused("irc", "a/b"), HubError::Session(_)));
    let two = || Arc::new(Chatty::default()) as Arc<dyn ChatChannel>;
    assert_eq!(Channels::new([two(), two()]).unwrap_err(), HubError::Twice("irc".into()));
    let message = hello().replying_to("m-1");
    let text = serde_json::to_value(&message).unwrap();
    assert_eq!(text, json!({"key": "k", "channel": "irc", "chat_id": "ops", "content": "hello", "reply_to": "m-1"}));
    assert_eq!(serde_json::from_value::<OutboundMessage>(text).unwrap(), message);
    let inbound = InboundMessage::new("irc", "ops", "m-1", "hi");
    assert_eq!((inbound.answer("hello").key, inbound.answer("x").reply_to), ("irc/ops/m-1".into(), Some("m-1".into())));
}
