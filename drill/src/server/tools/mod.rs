//! The tool table and its dispatch.
//!
//! A tool answers at once on the reading thread, or waits on its own thread.

mod answers;
mod catalogue;
mod effects;
mod waits;

use std::sync::Arc;

use serde_json::{Value, json};

use super::listeners::News;
use super::protocol::{self, Request};
use super::requests::Server;
pub(super) use catalogue::{Catalogue, PLAIN, one_page};

enum Outcome {
    /// The whole result.
    Result(Value),
    Failed(String),
    /// No response: the client cancelled.
    Silence,
}

impl Outcome {
    fn text(text: &str) -> Self {
        Self::Result(protocol::text(text))
    }
}

struct Call<'a> {
    server: &'a Arc<Server>,
    request: &'a Request,
}

impl Call<'_> {
    fn argument(&self, name: &str) -> &Value {
        &self.request.params["arguments"][name]
    }

    fn meta(&self) -> &Value {
        &self.request.params["_meta"]
    }

    fn text(&self, name: &str) -> Result<&str, Outcome> {
        self.argument(name).as_str().ok_or_else(|| Outcome::Failed(format!("`{name}` must be a text")))
    }

    fn number(&self, name: &str) -> Result<u64, Outcome> {
        self.argument(name)
            .as_u64()
            .ok_or_else(|| Outcome::Failed(format!("`{name}` must be a whole number, 0 or more")))
    }
}

#[derive(Clone, Copy)]
enum Hint {
    ReadOnly,
    ReadOnlyIdempotent,
    /// It adds something and removes nothing.
    Additive,
    /// It may remove something.
    Destructive,
}

struct Tool {
    name: &'static str,
    description: &'static str,
    hint: Hint,
    /// Names and JSON types of its arguments, all required.
    arguments: &'static [(&'static str, &'static str)],
    run: Run,
}

/// How a tool runs. An `Err` is an early outcome.
#[derive(Clone, Copy)]
enum Run {
    /// On the thread that reads.
    Now(fn(&Call<'_>) -> Result<Outcome, Outcome>),
    /// On its own thread, with deliveries.
    Beside(fn(&Call<'_>, &News) -> Result<Outcome, Outcome>),
}

const fn tool(
    name: &'static str,
    description: &'static str,
    hint: Hint,
    arguments: &'static [(&'static str, &'static str)],
    run: Run,
) -> Tool {
    Tool { name, description, hint, arguments, run }
}

use Hint::{Additive, Destructive, ReadOnly, ReadOnlyIdempotent};
use Run::{Beside, Now};

const TOOLS: &[Tool] = &[
    tool("echo", "Says what it was told.", ReadOnly, &[("text", "string")], Now(answers::echo)),
    tool("add", "Adds two numbers.", ReadOnlyIdempotent, &[("a", "number"), ("b", "number")], Now(answers::add)),
    tool(
        "append",
        "Appends one line to a file and waits for the disk.",
        Additive,
        &[("path", "string"), ("line", "string")],
        Now(effects::append),
    ),
    tool("sleep", "Waits this many milliseconds.", ReadOnly, &[("ms", "integer")], Beside(waits::sleep)),
    tool("big", "Says a text of this many bytes.", ReadOnly, &[("bytes", "integer")], Now(answers::big)),
    tool("blocks", "Says this many blocks of text.", ReadOnly, &[("n", "integer")], Now(answers::blocks)),
    tool("image", "Shows a picture of one pixel.", ReadOnly, &[], Now(answers::image)),
    tool("structured", "Answers with structured content and a text.", ReadOnly, &[], Now(answers::structured)),
    tool("resource", "Answers with an embedded resource and a link to another.", ReadOnly, &[], Now(answers::resource)),
    tool("fail", "Fails, and says so in its result.", ReadOnly, &[], Now(answers::fail)),
    tool("env", "Shows its whole environment, one JSON object.", ReadOnly, &[], Now(answers::env)),
    tool("pid", "Says its process id.", ReadOnly, &[], Now(answers::pid)),
    tool("meta", "Shows the _meta it was called with, as JSON.", ReadOnly, &[], Now(answers::meta)),
    tool("ask", "Asks the person at the client for a few values.", Additive, &[], Beside(waits::ask)),
    tool("roots", "Asks the client for its roots and shows them.", ReadOnly, &[], Beside(waits::roots)),
    tool("crash", "Ends the server at once, without an answer.", Destructive, &[], Now(effects::crash)),
    tool("grow", "Adds one tool and tells the client.", Additive, &[], Now(effects::grow)),
    tool("drift", "Changes the tool echo and tells the client.", Destructive, &[], Now(effects::drift)),
];

impl Tool {
    fn offer(&self) -> Value {
        let properties: Value = self.arguments.iter().map(|(name, kind)| (*name, json!({ "type": kind }))).collect();
        let required: Vec<&str> = self.arguments.iter().map(|(name, _)| *name).collect();
        let schema = json!({ "type": "object", "properties": properties, "required": required });
        let mut offer = json!({ "name": self.name, "description": self.description, "inputSchema": schema });
        let annotations = match self.hint {
            Hint::ReadOnly => json!({ "readOnlyHint": true, "openWorldHint": false }),
            Hint::ReadOnlyIdempotent => json!({ "readOnlyHint": true, "idempotentHint": true, "openWorldHint": false }),
            Hint::Additive => json!({ "readOnlyHint": false, "destructiveHint": false, "openWorldHint": false }),
            Hint::Destructive => json!({ "readOnlyHint": false, "destructiveHint": true, "openWorldHint": false }),
        };
        offer["annotations"] = annotations;
        if self.name == "structured" {
            offer["outputSchema"] = answers::structured_schema();
        }
        offer
    }
}

fn offers() -> Vec<Value> {
    TOOLS.iter().map(Tool::offer).collect()
}

pub(super) fn call(server: &Arc<Server>, request: &Request) {
    let name = request.params["name"].as_str().unwrap_or_default();
    match TOOLS.iter().find(|tool| tool.name == name).map(|tool| tool.run) {
        Some(Now(run)) => settle(server, request, run(&Call { server, request })),
        Some(Beside(run)) => {
            // Its news must find it from the moment the next line is read.
            let news = server.listeners.listen(request);
            let request = request.clone();
            server.beside(move |server| {
                let outcome = run(&Call { server, request: &request }, &news);
                server.listeners.forget(&request);
                settle(server, &request, outcome);
            });
        }
        None => match server.catalogue.says(name) {
            Some(says) => server.answer(request, &protocol::text(&says).to_string()),
            None => server.refuse(request, protocol::INVALID_PARAMS, &format!("unknown tool: {name}")),
        },
    }
}

fn settle(server: &Arc<Server>, request: &Request, outcome: Result<Outcome, Outcome>) {
    match outcome.unwrap_or_else(|outcome| outcome) {
        Outcome::Result(result) => server.answer(request, &result.to_string()),
        Outcome::Failed(text) => server.answer(request, &protocol::failure(&text).to_string()),
        Outcome::Silence => {}
    }
}
