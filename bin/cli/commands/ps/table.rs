//! The live tree as text for a terminal of 80 columns.

use bob::health::{MetricsSnapshot, NodeState, NodeStatus};
use bob::sessions::FinishReason;
use bob::tools::servers::ServerStatus;

use crate::commands::mcp;
use crate::commands::ps::nested::{count, name_below, nested};
use crate::control::wire::{Hello, Look};
use crate::terminal::print;

/// Width of an actor's name, including the lines of the tree.
const NAME: usize = 40;

/// How many characters of an error are shown.
const MOST_ERROR: usize = 600;

/// Renders a process, its counts and its actors. Idle sessions are only counted, unless `all` is set.
pub(crate) fn report(hello: &Hello, look: &Look, all: bool) -> String {
    let metrics = &look.metrics;
    let uptime = duration(metrics.uptime_ms);
    let draining = if look.is_draining { ", draining" } else { "" };
    let memory = look.process.rss_bytes.map(|bytes| format!(", {}", size(bytes))).unwrap_or_default();
    let mut text = format!("{} (process {}), up {uptime}{memory}{draining}\n", hello.command, hello.pid);
    text.push_str(&format!("store {}\n", hello.store));
    text.push_str(&turns(metrics));
    text.push_str(&providers(metrics));
    text.push('\n');
    text.push_str(&tree(&look.tree, metrics, all));
    text
}

pub(crate) fn summary(hello: &Hello, look: &Look) -> String {
    let sessions = look.metrics.sessions;
    format!(
        "{:>8}  {:<6} up {:<9} {} running, {} waiting\n          {}\n",
        hello.pid,
        hello.command,
        duration(look.metrics.uptime_ms),
        sessions.running,
        sessions.waiting,
        hello.config,
    )
}

fn turns(metrics: &MetricsSnapshot) -> String {
    let (now, turns) = (metrics.sessions, metrics.turns);
    let ends = [
        ("final", turns.ends[FinishReason::Final]),
        ("at a limit", turns.ends[FinishReason::GuardExceeded]),
        ("cancelled", turns.ends[FinishReason::Cancelled]),
        ("suspended", turns.ends[FinishReason::Suspended]),
        ("error", turns.ends[FinishReason::Error]),
        ("refused", turns.refused),
    ];
    let ends: Vec<_> =
        ends.iter().filter(|(_, count)| *count > 0).map(|(name, count)| format!("{count} {name}")).collect();
    let ended = if ends.is_empty() { String::new() } else { format!(" ({})", ends.join(", ")) };
    format!("turns: {} running, {} waiting, {} ended{ended}\n", now.running, now.waiting, turns.ended())
}

/// The providers with an open circuit breaker; empty if there are none.
fn providers(metrics: &MetricsSnapshot) -> String {
    let mut text = String::new();
    for provider in &metrics.providers {
        let Some(down) = &provider.down else { continue };
        let next = match down.next_try_in_ms {
            Some(ms) => format!("next try in {}", duration(ms)),
            None => "being tried".to_owned(),
        };
        let name = print::on_one_line(&provider.provider, NAME);
        text.push_str(&format!("provider {name}: down for {}, {next}\n", duration(down.for_ms)));
        if let Some(error) = &provider.last_error {
            text.push_str(&mcp::wrapped(&print::on_one_line(error, MOST_ERROR)));
        }
    }
    text
}

/// Every actor in a line, and below one that was down, why.
pub(crate) fn tree(tree: &[NodeState], metrics: &MetricsSnapshot, all: bool) -> String {
    let mut lines = Lines { text: String::new(), servers: &metrics.servers, all };
    lines.row("actor", "state", "age", "restarts", "queue");
    for node in tree {
        lines.node(node, "", "", "");
    }
    // Sessions beyond the limit of the tree request.
    let shown = tree.iter().find(|node| node.name == "sessions").map_or(0, |node| node.children.len());
    let more = metrics.sessions.live.saturating_sub(shown);
    if shown > 0 && more > 0 {
        lines.text.push_str(&format!("   … {more} more sessions\n"));
    }
    lines.text
}

struct Lines<'a> {
    text: String,
    servers: &'a [ServerStatus],
    all: bool,
}

impl Lines<'_> {
    fn row(&mut self, name: &str, state: &str, age: &str, restarts: &str, queue: &str) {
        let line = format!("{name:<NAME$}  {state:<10} {age:>8} {restarts:>8} {queue:>6}");
        self.text.push_str(line.trim_end());
        self.text.push('\n');
    }

    /// `first` is the prefix of the node's line, `rest` that of its children; `above` is the name of what it is below.
    fn node(&mut self, node: &NodeState, above: &str, first: &str, rest: &str) {
        let room = NAME.saturating_sub(first.chars().count() + 1);
        let server = self.server(node, first);
        let owner = server.and_then(|server| server.owner.as_ref()).map(|owner| format!(" ({owner})"));
        let name = format!("{}{}", name_below(above, &node.name), owner.unwrap_or_default());
        let name = format!("{first}{}", print::on_one_line(&name, room));
        let restarts = if node.restarts == 0 { String::new() } else { node.restarts.to_string() };
        let queue = node.queued.map(|queued| queued.to_string()).unwrap_or_default();
        let state = server.map_or(word(node.state), |server| mcp::word(server.state));
        self.row(&name, state, &duration(node.age_ms), &restarts, &queue);
        if let Some(error) = &node.last_error {
            self.text.push_str(&mcp::wrapped(&print::on_one_line(error, MOST_ERROR)));
        }
        let nested = (first.is_empty() && node.name == "sessions").then(|| nested(&node.children));
        let nodes = nested.as_deref().unwrap_or(&node.children);
        let (children, resting): (Vec<_>, Vec<_>) = nodes.iter().partition(|child| self.all || !is_idle(child));
        let idle: usize = resting.into_iter().map(|child| 1 + count(&child.children)).sum();
        for (at, child) in children.iter().enumerate() {
            let is_last = at + 1 == children.len() && idle == 0;
            let (own, below) = if is_last { ("└─ ", "   ") } else { ("├─ ", "│  ") };
            let name = if first.is_empty() { "" } else { node.name.as_str() };
            self.node(child, name, &format!("{rest}{own}"), &format!("{rest}{below}"));
        }
        if idle > 0 {
            self.text.push_str(&format!("{rest}└─ … {idle} idle\n"));
        }
    }

    /// The status of this node's tool server, which is more precise than the tree: asleep, starting.
    fn server(&self, node: &NodeState, first: &str) -> Option<&ServerStatus> {
        let is_below = !first.is_empty();
        self.servers.iter().find(|server| is_below && node.queued.is_none() && server.node() == node.name)
    }
}

/// Whether it and all below it have nothing to do.
fn is_idle(node: &NodeState) -> bool {
    node.state == NodeStatus::Idle && node.children.iter().all(is_idle)
}

pub(crate) fn word(state: NodeStatus) -> &'static str {
    match state {
        NodeStatus::Running => "running",
        NodeStatus::Idle => "idle",
        NodeStatus::Waiting => "waiting",
        NodeStatus::Stopping => "stopping",
        NodeStatus::Restarting => "restarting",
        NodeStatus::GaveUp => "gave up",
        NodeStatus::Stopped => "stopped",
    }
}

/// A time in at most eight characters.
pub(crate) fn duration(ms: u64) -> String {
    let seconds = ms / 1_000;
    match seconds {
        0 => format!("{ms} ms"),
        1..=9 => format!("{seconds}.{} s", ms % 1_000 / 100),
        10..=99 => format!("{seconds} s"),
        100..=5_999 => format!("{} min", seconds / 60),
        6_000..=359_999 => format!("{} h", seconds / 3_600),
        _ => format!("{} d", seconds / 86_400),
    }
}

/// A number of bytes in at most eight characters.
pub(crate) fn size(bytes: u64) -> String {
    match bytes {
        0..=1_023 => format!("{bytes} B"),
        1_024..=1_048_575 => format!("{} KiB", bytes >> 10),
        1_048_576..=10_737_418_239 => format!("{} MiB", bytes >> 20),
        _ => format!("{} GiB", bytes >> 30),
    }
}

#[cfg(test)]
#[path = "table_tests.rs"]
mod tests;
