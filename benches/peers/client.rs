//! The race's turn as a plain loop over genai, the client of models that Bob uses, streaming as Bob does. What Bob costs
//! beside its client is what it takes above this.

#[allow(dead_code, reason = "shared with the race, which has more modes")]
#[path = "../race/arguments.rs"]
mod arguments;
#[path = "../race/driver.rs"]
mod driver;
#[path = "../race/figures.rs"]
mod figures;

use arguments::Arguments;
use driver::Contender;
use futures_util::StreamExt;
use genai::adapter::AdapterKind;
use genai::chat::{ChatMessage, ChatOptions, ChatRequest, ChatStreamEvent, MessageContent, StreamEnd, Tool, ToolResponse};
use genai::resolver::{AuthData, Endpoint};
use genai::{ModelIden, ServiceTarget};
use serde_json::json;
use std::sync::Arc;

struct Loop {
    client: genai::Client,
    target: ServiceTarget,
    options: ChatOptions,
    tools: Vec<Tool>,
    calls: usize,
}

impl Loop {
    async fn ask(&self, messages: &[ChatMessage]) -> StreamEnd {
        let request = ChatRequest::new(messages.to_vec()).with_tools(self.tools.clone());
        let answer = self.client.exec_chat_stream(self.target.clone(), request, Some(&self.options)).await.unwrap();
        let mut events = answer.stream;
        while let Some(event) = events.next().await {
            if let ChatStreamEvent::End(end) = event.unwrap() {
                return end;
            }
        }
        panic!("the answer has no end");
    }
}

#[derive(Clone)]
struct Client(Arc<Loop>);

impl Contender for Client {
    const NAME: &'static str = "client";
    type Kept = Vec<ChatMessage>;

    async fn session(&self, _: usize) -> Vec<ChatMessage> {
        let mut messages =
            vec![ChatMessage::system("You are a bot."), ChatMessage::user("Echo three times, then finish.")];
        let (mut tokens, mut echoed) = (0, 0);
        loop {
            let end = self.0.ask(&messages).await;
            tokens += end.captured_usage.as_ref().and_then(|usage| usage.total_tokens).unwrap_or_default();
            let text = end.captured_first_text().map(str::to_owned);
            let calls = end.captured_into_tool_calls().unwrap_or_default();
            if calls.is_empty() {
                assert_eq!((text.as_deref(), echoed), (Some("done"), self.0.calls));
                messages.push(ChatMessage::assistant(text.unwrap()));
                break;
            }
            messages.push(ChatMessage::assistant(MessageContent::from_tool_calls(calls.clone())));
            for call in calls {
                let text = call.fn_arguments["text"].as_str().unwrap().to_owned();
                messages.push(ToolResponse::from_tool_call(&call, text).into());
                echoed += 1;
            }
        }
        assert!(tokens > 0);
        messages
    }
}

fn main() {
    rustls::crypto::ring::default_provider().install_default().unwrap();
    let arguments = Arguments::given().expect("--mode= says what to measure; see benches/race/arguments.rs");
    assert_eq!(arguments.backend, "stream", "this program has no model of its own");
    driver::runtime(&arguments).block_on(async move {
        let http = reqwest::Client::builder().pool_max_idle_per_host(usize::MAX).build().unwrap();
        let schema = json!({"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]});
        let client = Client(Arc::new(Loop {
            client: genai::Client::builder().with_reqwest(http).build().unwrap(),
            target: ServiceTarget {
                endpoint: Endpoint::from_owned(format!("{}/", arguments.base)),
                auth: AuthData::from_single("x"),
                model: ModelIden::new(AdapterKind::OpenAI, arguments.model()),
            },
            options: ChatOptions::default()
                .with_capture_content(true)
                .with_capture_usage(true)
                .with_capture_tool_calls(true),
            tools: vec![Tool::new("echo").with_description("Echo text").with_schema(schema)],
            calls: arguments.k,
        }));
        println!("{}", driver::drive(arguments, client).await);
    });
}
