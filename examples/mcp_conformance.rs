//! Drives the runtime's tool servers for the conformance suite of the Model Context Protocol.
//!
//! The suite (`@modelcontextprotocol/conformance`) starts it with the URL of a server as its last argument, one
//! scenario at a time. A scripted model calls every offered tool once, with arguments made from its schema, or as the
//! scenario says; a page to sign in at is opened, and forms of the server are accepted empty, so that the defaults of
//! their schemas are sent. Everything else is the normal runtime. The exit code is 0 when the turn was answered and the
//! server was ready.
//!
//! `scripts/mcp-conformance.sh` installs the suite and runs it.
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "it speaks to whoever runs it")]

use bob::approvals::{ApprovalPort, Elicitation, ElicitationAnswer, PermissionMode};
use bob::model::{LlmRequest, ScriptedCall, ScriptedLlm, ScriptedReply};
use bob::sessions::FinishReason;
use bob::tools::ToolDescriptor;
use bob::tools::servers::{Hidden, ServerId, ServerSpec, SignIn, SignInGrant, SignInPort, SignIns};
use bob::{AgentRequest, AgentRuntime, ModelName, RuntimeBuilder, SessionId};
use futures_util::future::BoxFuture;
use serde_json::{Map, Value, json};
use std::error::Error;
use std::process::ExitCode;
use std::sync::Arc;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// The document that the suite knows a client by.
const CLIENT_DOCUMENT: &str = "https://conformance-test.local/client-metadata.json";

/// How many redirects lead from the page to the runtime.
const MAX_REDIRECTS: usize = 5;

/// The suite gives a scenario 30 seconds.
const STARTUP_TIMEOUT_MS: u64 = 27_000;

/// Accepts every form without values.
struct Agreeable;

impl ApprovalPort for Agreeable {
    fn elicit(&self, _question: Elicitation) -> BoxFuture<'_, ElicitationAnswer> {
        Box::pin(std::future::ready(ElicitationAnswer::Accept(Map::new())))
    }
}

/// Opens the page, where the suite says yes, and goes where it leads.
struct Browser;

impl SignInPort for Browser {
    fn open<'a>(&'a self, _server: &'a ServerId, page: &'a str) -> BoxFuture<'a, ()> {
        Box::pin(async move {
            let mut page = page.to_owned();
            for _ in 0..MAX_REDIRECTS {
                match visit(&page).await {
                    Some(next) => page = next,
                    None => return,
                }
            }
        })
    }
}

/// Gets a page; returns where it redirects to.
async fn visit(page: &str) -> Option<String> {
    let (address, path) = page.strip_prefix("http://")?.split_once('/')?;
    let mut stream = TcpStream::connect(address).await.ok()?;
    let request = format!("GET /{path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await.ok()?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.ok()?;
    let location = answer.lines().find(|line| line.to_ascii_lowercase().starts_with("location:"))?;
    Some(location.split_once(':')?.1.trim().to_owned())
}

/// What the scenario says about itself.
fn context() -> Value {
    let context = std::env::var("MCP_CONFORMANCE_CONTEXT").unwrap_or_default();
    serde_json::from_str(&context).unwrap_or_default()
}

/// How the scenario wants its client to sign in: with what it says about the client, if it does.
fn sign_in(scenario: &str) -> SignIn {
    let context = context();
    let said = |name: &str| context[name].as_str().map(str::to_owned);
    SignIn {
        grant: match scenario.starts_with("auth/client-credentials") {
            true => SignInGrant::ClientCredentials,
            false => SignInGrant::AuthorizationCode,
        },
        client_id: said("client_id"),
        client_secret: said("client_secret").map(Hidden::new).unwrap_or_default(),
        client_metadata_url: Some(CLIENT_DOCUMENT.to_owned()),
        scopes: Vec::new(),
    }
}

#[tokio::main]
pub(crate) async fn main() -> ExitCode {
    match converse().await {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

/// Runs one turn with the server of the last argument; returns whether it was answered.
async fn converse() -> Result<bool, Box<dyn Error>> {
    let url = std::env::args().next_back().filter(|url| url.starts_with("http"));
    let url = url.ok_or("give the URL of a tool server as the last argument")?;
    let scenario = std::env::var("MCP_CONFORMANCE_SCENARIO").unwrap_or_else(|_by_hand| "by hand".to_owned());
    let spec = ServerSpec::http(ServerId::new("suite"), url);
    let spec = if scenario.starts_with("auth/") { spec.with_sign_in(sign_in(&scenario)) } else { spec };
    let server = ServerSpec { required: true, startup_timeout_ms: STARTUP_TIMEOUT_MS, ..spec };
    let runtime = RuntimeBuilder::new(ModelName::parse("scripted:suite")?)
        .model(Arc::new(ScriptedLlm::from_fn(next)))
        .approvals(Arc::new(Agreeable))
        .sign_ins(SignIns { folder: None, port: Some(Arc::new(Browser)) })
        .tool_server(server)
        .build()
        .await?;
    // The suite's tools have no annotations, and no approval is possible.
    let ask = AgentRequest::text(SessionId::parse("suite")?, "Call every tool once.");
    let answered = runtime.run(AgentRequest { mode: Some(PermissionMode::Auto), ..ask }).await;
    runtime.shutdown().await;
    let outcome = answered?.response().clone();
    println!("{scenario}: {:?}, {}", outcome.finish_reason, outcome.content);
    for call in outcome.tool_transcript.iter() {
        println!("  {} {} -> {:?}: {}", call.name, call.arguments, call.status, call.result);
    }
    Ok(outcome.finish_reason == FinishReason::Final)
}

/// Every tool in the first step, an answer in the next.
fn next(request: &LlmRequest) -> ScriptedReply {
    let tools: Vec<_> = request.tools.tools().iter().filter(|tool| tool.id.as_str().starts_with("mcp/")).collect();
    if request.step > 1 || tools.is_empty() {
        return ScriptedReply::text("done");
    }
    // One scenario says how its tools are to be called.
    if let Some(calls) = context()["toolCalls"].as_array() {
        // A null where the schema of a tool has none is refused before the call. It stands for a parameter that is not there.
        let without_nulls = |arguments: &Value| {
            let given = arguments.as_object().into_iter().flatten().filter(|(_, value)| !value.is_null());
            Value::Object(given.map(|(name, value)| (name.clone(), value.clone())).collect())
        };
        let named = |call: &Value| Some((call["name"].as_str()?.to_owned(), without_nulls(&call["arguments"])));
        let named = calls.iter().filter_map(named);
        let calls = named.map(|(name, arguments)| ScriptedCall { name: format!("mcp/suite/{name}"), arguments });
        return ScriptedReply::Calls(calls.collect());
    }
    let others =
        |tool: &ToolDescriptor| tools.iter().find(|other| other.id != tool.id).map(|other| other.schema.clone());
    let calls = tools.iter().map(|tool| {
        let mut arguments = example(&tool.schema);
        // One scenario requires the schema of its other tool, as sent to the model.
        if let (Some(schema @ Value::Object(_)), Some(of_another)) = (arguments.get_mut("schema"), others(tool)) {
            *schema = of_another;
        }
        ScriptedCall { name: tool.id.to_string(), arguments }
    });
    ScriptedReply::Calls(calls.collect())
}

/// A value that fits a simple schema: only required fields are set.
fn example(schema: &Value) -> Value {
    if let Some(value) = schema.get("const").or_else(|| schema.get("default")).or_else(|| schema["enum"].get(0)) {
        return value.clone();
    }
    let kind = schema["type"].as_str().or_else(|| schema["type"][0].as_str());
    match kind {
        Some("string") => json!("text"),
        Some("integer" | "number") => schema.get("minimum").cloned().unwrap_or_else(|| json!(2)),
        Some("boolean") => json!(true),
        Some("array") => json!([]),
        Some("object") => Value::Object(fields(schema)),
        Some(_) | None => json!({}),
    }
}

fn fields(schema: &Value) -> Map<String, Value> {
    let is_required = |name: &String| schema["required"].as_array().is_some_and(|names| names.contains(&json!(name)));
    let properties = schema["properties"].as_object().into_iter().flatten();
    properties.filter(|(name, _)| is_required(name)).map(|(name, of)| (name.clone(), example(of))).collect()
}
