//! `mcp`: lists, shows and tests tool servers.

use std::collections::BTreeMap;
use std::sync::Arc;

use bob::AgentRuntime;
use bob::store::MemoryStore;
use bob::tools::servers::{ServerState, ServerStatus};
use bob::tools::{Risk, ToolDescriptor, ToolSource};
use bob_config::Config;
use bob_config::assemble::Choices;
use serde_json::{Value, json};

use crate::commands::tools;
use crate::exit::{Exit, Failure};
use crate::runtime::OpenRuntime;
use crate::runtime::signals::Signals;
use crate::terminal::print;

/// How wide the table is at most, characters.
const WIDTH: usize = 80;

/// How much of an id is shown, characters.
const MOST_ID: usize = 20;

/// Width of the columns between the id and the name of a server, with separators.
const BETWEEN: usize = 51;

/// How much of a version of the protocol is shown, characters.
const MOST_PROTOCOL: usize = 10;

/// How many tools alike are named.
const MOST_NAMES: usize = 12;

/// How many characters of a server's last output are shown.
const MOST_ERROR: usize = 600;

pub(crate) async fn list(config: &Config, as_json: bool) -> Result<Exit, Failure> {
    let mut signals = Signals::new().map_err(|error| Failure::internal(format!("cannot catch signals: {error}")))?;
    // The list needs no sessions, and shows a required server that fails.
    let choices = Choices { store: Some(MemoryStore::new()), spares_servers: true, ..Choices::default() };
    let opened = OpenRuntime::open(config, choices).await?;
    let tools = tokio::select! {
        tools = opened.runtime.tools() => Ok(tools),
        caught = signals.next() => Err(Failure::signalled(caught.exit())),
    };
    let mut servers = opened.runtime.servers();
    opened.close(&mut signals).await;
    let tools = tools?;
    for server in &mut servers {
        server.required = config.mcp.servers.iter().any(|written| written.id == server.id.as_str() && written.required);
    }
    if as_json {
        let servers = servers.iter().map(|server| described(server, &tools)).collect::<Result<Vec<_>, _>>();
        let servers = servers.map_err(|error| Failure::internal(format!("a server is not JSON: {error}")))?;
        print::json(&json!({ "servers": servers }))?;
    } else if servers.is_empty() {
        print::note("no tool server is configured; [[mcp.servers]] adds one");
    } else {
        print::text(&table(&servers))?;
        print::text(&risks(&servers, &tools))?;
    }
    Ok(Exit::Success)
}

/// A server with the risk of each tool it offers.
fn described(server: &ServerStatus, tools: &[Arc<ToolDescriptor>]) -> Result<Value, serde_json::Error> {
    let mut described = serde_json::to_value(server)?;
    let risks = tools.iter().filter(|tool| is_of(tool, server));
    let risks = risks.map(|tool| json!({ "name": tool.id, "risk": tool.risk, "risk_from": tool.risk_from }));
    described["risks"] = risks.collect();
    Ok(described)
}

fn is_of(tool: &ToolDescriptor, server: &ServerStatus) -> bool {
    tool.source == ToolSource::Server(server.id.clone())
}

/// How risky the tools of the servers are, and where that comes from; those alike of one server together.
fn risks(servers: &[ServerStatus], tools: &[Arc<ToolDescriptor>]) -> String {
    let mut text = String::new();
    for (at, server) in servers.iter().enumerate() {
        // All processes of a server offer the same tools.
        if servers[..at].iter().any(|other| other.id == server.id) {
            continue;
        }
        let mut alike: BTreeMap<(Risk, String), Vec<&str>> = BTreeMap::new();
        for tool in tools.iter().filter(|tool| is_of(tool, server)) {
            alike.entry((tool.risk, tools::risk_from(&tool.risk_from))).or_default().push(tool.id.own_name());
        }
        if !alike.is_empty() {
            text.push_str(&format!("\nrisk of the tools of {}\n", print::first_line(server.id.as_str(), MOST_ID)));
        }
        for ((risk, from), names) in alike {
            let shown = names.iter().take(MOST_NAMES).copied().collect::<Vec<_>>().join(", ");
            let more = match names.len().saturating_sub(MOST_NAMES) {
                0 => String::new(),
                more => format!(" and {more} more (cli-agent tools)"),
            };
            text.push_str(&wrapped(&format!("{} {from}: {shown}{more}", risk.as_str())));
        }
    }
    text
}

/// The servers as a table of at most 80 columns; below a server that was down, why.
pub(crate) fn table(servers: &[ServerStatus]) -> String {
    let id = |server: &ServerStatus| print::first_line(server.node(), MOST_ID);
    let width = servers.iter().map(|server| id(server).chars().count()).max().unwrap_or(0).max(2);
    let row = |id: &str, (transport, protocol): (&str, &str), state: &str, tools: &str, restarts: &str, name: &str| {
        let line = format!("{id:<width$}  {transport:<9} {protocol:<11} {state:<10} {tools:>5} {restarts:>8}  {name}");
        format!("{}\n", line.trim_end())
    };
    let mut text = row("id", ("transport", "protocol"), "state", "tools", "restarts", "server");
    for server in servers {
        // A truncated name has one more character, the ellipsis.
        let name = print::first_line(server.server.as_deref().unwrap_or_default(), WIDTH - BETWEEN - width - 1);
        let (tools, restarts) = (server.tools.to_string(), server.restarts.to_string());
        let protocol = print::first_line(server.protocol.as_deref().unwrap_or_default(), MOST_PROTOCOL);
        let speaks = (server.transport.as_str(), protocol.as_str());
        text.push_str(&row(&id(server), speaks, word(server.state), &tools, &restarts, &name));
        if let Some(owner) = &server.owner {
            text.push_str(&wrapped(&print::on_one_line(&format!("for: {owner}"), MOST_ERROR)));
        }
        if let Some(error) = &server.last_error {
            text.push_str(&wrapped(&print::on_one_line(error, MOST_ERROR)));
        }
    }
    text
}

pub(crate) fn word(state: ServerState) -> &'static str {
    match state {
        ServerState::Asleep => "asleep",
        ServerState::Starting => "starting",
        ServerState::Ready => "ready",
        ServerState::Restarting => "restarting",
        ServerState::GaveUp => "gave up",
        ServerState::Stopped => "stopped",
    }
}

/// A text in lines of the table's width, set in by four blanks.
pub(crate) fn wrapped(text: &str) -> String {
    let mut lines = String::new();
    let mut line = String::from("   ");
    for word in text.split_whitespace() {
        if line.trim().len() + word.len() + 5 > WIDTH && !line.trim().is_empty() {
            lines.push_str(&line);
            lines.push('\n');
            line = String::from("   ");
        }
        line.push(' ');
        line.push_str(word);
    }
    if !line.trim().is_empty() {
        lines.push_str(&line);
        lines.push('\n');
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;
    use bob::tools::servers::ServerId;
    use expect_test::expect;

    fn server(id: &str, state: ServerState) -> ServerStatus {
        ServerStatus {
            id: ServerId::new(id),
            transport: "stdio".to_owned(),
            state,
            tools: 2,
            restarts: 0,
            pid: None,
            server: Some("secure-filesystem-server 0.2.0".to_owned()),
            protocol: Some("2025-11-25".to_owned()),
            last_error: None,
            required: false,
            owner: None,
            node: None,
        }
    }

    #[test]
    fn the_table_fits_a_terminal() {
        let why = "the tool server `a-server-with-quite-a-long-name` does not start: cannot start `npx`: no such program \
                   on the PATH (ENOENT); install Node.js, which brings it, or correct the command";
        let down = ServerStatus {
            last_error: Some(why.to_owned()),
            restarts: 5,
            tools: 0,
            server: None,
            protocol: None,
            ..server("a-server-with-quite-a-long-name", ServerState::GaveUp)
        };
        let text = table(&[server("files", ServerState::Ready), down]);
        assert!(text.lines().all(|line| line.chars().count() <= WIDTH), "{text}");
        expect![[r#"
            id                     transport protocol    state      tools restarts  server
            files                  stdio     2025-11-25  ready          2        0  secure-…
            a-server-with-quite-…  stdio                 gave up        0        5
                the tool server `a-server-with-quite-a-long-name` does not start: cannot
                start `npx`: no such program on the PATH (ENOENT); install Node.js, which
                brings it, or correct the command
        "#]]
        .assert_eq(&text);
    }

    #[test]
    fn the_risks_say_where_they_come_from() {
        use bob::tools::RiskSource;
        let tool = |name: &str, risk, risk_from| {
            Arc::new(
                ToolDescriptor::new(bob::tools::ToolName::new(format!("mcp/bank/{name}")), String::new(), json!({}))
                    .with_title("")
                    .with_source(ToolSource::Server(ServerId::new("bank")))
                    .with_risk(risk)
                    .with_risk_from(risk_from),
            )
        };
        let says = |name: &str, value| RiskSource::Annotation { name: name.to_owned(), value };
        let many = (0..14).map(|number| tool(&format!("pay_{number}"), Risk::High, RiskSource::Default));
        let ruled = RiskSource::Configuration { pattern: "mcp/bank/note_*".to_owned() };
        let others = [
            tool("statement", Risk::Low, says("readOnlyHint", true)),
            tool("note_down", Risk::Medium, ruled),
            tool("close", Risk::High, says("destructiveHint", true)),
        ];
        let text = risks(&[server("bank", ServerState::Ready)], &many.chain(others).collect::<Vec<_>>());
        assert!(text.lines().all(|line| line.chars().count() <= WIDTH), "{text}");
        expect![[r#"

            risk of the tools of bank
                low by readOnlyHint=true: statement
                medium by [tools."mcp/bank/note_*"]: note_down
                high by default: unsaid: pay_0, pay_1, pay_2, pay_3, pay_4, pay_5, pay_6,
                pay_7, pay_8, pay_9, pay_10, pay_11 and 2 more (cli-agent tools)
                high by destructiveHint=true: close
        "#]]
        .assert_eq(&text);
    }
}
