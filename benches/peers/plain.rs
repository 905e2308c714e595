//! The race's turn as a plain loop over reqwest and serde: no framework, nothing kept after a turn, no failure survived.
//! What a runtime costs is what it takes above this.

#[allow(dead_code, reason = "shared with the race, which has more modes")]
#[path = "../race/arguments.rs"]
mod arguments;
#[path = "../race/driver.rs"]
mod driver;
#[path = "../race/figures.rs"]
mod figures;

use arguments::Arguments;
use driver::Contender;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use std::sync::Arc;
use std::time::Duration;

const TOOLS: &str = r#"[{"type":"function","function":{"name":"echo","description":"Echo text","parameters":{"type":"object","properties":{"text":{"type":"string"}},"required":["text"]}}}]"#;

#[derive(Default, Serialize, Deserialize)]
struct Message {
    role: String,
    content: Option<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    tool_calls: Vec<Call>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    tool_call_id: Option<String>,
}

#[derive(Serialize, Deserialize)]
struct Call {
    id: String,
    #[serde(rename = "type")]
    kind: String,
    function: Function,
}

#[derive(Serialize, Deserialize)]
struct Function {
    name: String,
    arguments: String,
}

#[derive(Deserialize)]
struct Echo {
    text: String,
}

#[derive(Serialize)]
struct Question<'a> {
    model: &'a str,
    messages: &'a [Message],
    tools: &'a RawValue,
}

#[derive(Deserialize)]
struct Answer {
    choices: [Choice; 1],
    usage: Usage,
}

#[derive(Deserialize)]
struct Choice {
    message: Message,
}

#[derive(Deserialize)]
struct Usage {
    total_tokens: u64,
}

struct Loop {
    client: reqwest::Client,
    url: String,
    model: String,
    tools: Box<RawValue>,
    mock: bool,
    calls: usize,
    latency: Duration,
}

impl Loop {
    async fn ask(&self, messages: &[Message]) -> Answer {
        if self.mock {
            return self.scripted(messages).await;
        }
        let question = Question { model: &self.model, messages, tools: &self.tools };
        let request = self.client.post(&self.url).bearer_auth("x").json(&question);
        let answer = request.send().await.unwrap().error_for_status().unwrap();
        serde_json::from_slice(&answer.bytes().await.unwrap()).unwrap()
    }

    async fn scripted(&self, messages: &[Message]) -> Answer {
        if !self.latency.is_zero() {
            tokio::time::sleep(self.latency).await;
        }
        let done = messages.iter().filter(|message| message.role == "tool").count();
        let mut message = Message { role: "assistant".into(), ..Message::default() };
        if done < self.calls {
            let function = Function { name: "echo".into(), arguments: format!(r#"{{"text":"step {done}"}}"#) };
            message.tool_calls.push(Call { id: format!("call_{done}"), kind: "function".into(), function });
        } else {
            message.content = Some("done".into());
        }
        Answer { choices: [Choice { message }], usage: Usage { total_tokens: 1 } }
    }
}

#[derive(Clone)]
struct Plain(Arc<Loop>);

impl Contender for Plain {
    const NAME: &'static str = "plain";
    type Kept = Vec<Message>;

    async fn session(&self, _: usize) -> Vec<Message> {
        let text = |role: &str, content: &str| Message {
            role: role.into(),
            content: Some(content.into()),
            ..Message::default()
        };
        let mut messages = vec![text("system", "You are a bot."), text("user", "Echo three times, then finish.")];
        let (mut tokens, mut echoed) = (0, 0);
        loop {
            let Answer { choices: [Choice { message }], usage } = self.0.ask(&messages).await;
            tokens += usage.total_tokens;
            let results: Vec<_> = message
                .tool_calls
                .iter()
                .map(|call| {
                    let echo: Echo = serde_json::from_str(&call.function.arguments).unwrap();
                    Message { tool_call_id: Some(call.id.clone()), ..text("tool", &echo.text) }
                })
                .collect();
            messages.push(message);
            if results.is_empty() {
                break;
            }
            echoed += results.len();
            messages.extend(results);
        }
        let answer = messages.last().and_then(|message| message.content.as_deref());
        assert_eq!((answer, echoed), (Some("done"), self.0.calls));
        assert!(tokens > 0);
        messages
    }
}

fn main() {
    // The client wants one even for addresses without TLS.
    rustls::crypto::ring::default_provider().install_default().unwrap();
    let arguments = Arguments::given().expect("--mode= says what to measure; see benches/race/arguments.rs");
    driver::runtime(&arguments).block_on(async move {
        let plain = Plain(Arc::new(Loop {
            client: reqwest::Client::builder().pool_max_idle_per_host(usize::MAX).build().unwrap(),
            url: format!("{}/chat/completions", arguments.base),
            model: arguments.model(),
            tools: RawValue::from_string(TOOLS.to_owned()).unwrap(),
            mock: arguments.backend == "mock",
            calls: arguments.k,
            latency: Duration::from_millis(arguments.latency),
        }));
        println!("{}", driver::drive(arguments, plain).await);
    });
}
