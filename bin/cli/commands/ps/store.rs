//! What the store knows of all processes and messages, beside what the processes of this machine say of themselves.

use std::path::Path;
use std::sync::Arc;

use bob::sessions::PoolName;
use bob::store::{EmptyPool, NodeFigures, SessionStore, StoreNode, StoreOverview};
use bob_config::{Config, StoreKind, assemble};
use serde_json::{Value, json};

use super::table::duration;
use crate::exit::Failure;
use crate::runtime::trust;
use crate::terminal::print;

/// How many columns the name of a process has.
const NAME: usize = 44;

/// Whether the configuration lets its store be looked at: a server is not connected to before the configuration that names
/// it is trusted, and a store that came with its folder is not opened, which may write to it.
pub(crate) fn is_trusted(config: &Config) -> bool {
    match config.store.kind {
        StoreKind::Postgres => trust::is_settled(config),
        StoreKind::Memory => true,
        StoreKind::Json | StoreKind::Sqlite => trust::is_store_settled(config),
    }
}

/// The store of the configuration, if it is one that other processes use and may be looked at. One that was not made yet stays
/// so.
pub(crate) fn opened(config: &Config) -> Result<Option<Arc<dyn SessionStore>>, Failure> {
    let is_there = match (config.store.kind, config.store_path()) {
        (StoreKind::Postgres, _) => true,
        (StoreKind::Memory, _) | (_, None) => false,
        (StoreKind::Json, Some(path)) => path.is_dir(),
        (StoreKind::Sqlite, Some(path)) => path.parent().is_some_and(Path::is_dir),
    };
    Ok(if is_there && is_trusted(config) { Some(assemble::store(config, false, None)?) } else { None })
}

/// What the store knows; `None` when that is nothing.
pub(crate) async fn overview(store: &dyn SessionStore) -> Result<Option<StoreOverview>, Failure> {
    let seen = store.overview().await?;
    Ok(seen.filter(|seen| seen.all_nodes > 0 || seen.waiting > 0 || seen.refused > 0 || seen.open_turns > 0))
}

/// The overview as lines of 80 columns, where names and addresses are short.
pub(crate) fn report(seen: &StoreOverview) -> String {
    let mut text = String::new();
    if seen.all_nodes > 0 {
        text.push_str("node    state  renewed  sessions  running  process\n");
    }
    for node in &seen.nodes {
        text.push_str(&line(node));
    }
    if seen.all_nodes > seen.nodes.len() as u64 {
        text.push_str(&format!("and {} more\n", seen.all_nodes - seen.nodes.len() as u64));
    }
    text.push_str(&figures(seen));
    if seen.open_turns > 0 {
        let turns = print::counted(seen.open_turns, "open turn");
        text.push_str(&format!("{turns} without a living owner\n"));
    }
    text.push_str(&format!("inbox: {}\n", inbox(seen)));
    for pool in &seen.empty_pools {
        let waiting = print::counted(pool.waiting, "message");
        text.push_str(&format!("{waiting} for the pool {}, in which no process is alive\n", pool.name));
    }
    text
}

fn line(node: &StoreNode) -> String {
    let state = if node.is_alive { "alive" } else { "dead" };
    let at = node.address.as_ref().map(|address| format!(" at {address}")).unwrap_or_default();
    let pools = node.pools.iter().map(PoolName::as_str).collect::<Vec<_>>().join(", ");
    let pools = if pools.is_empty() { pools } else { format!(" in {pools}") };
    let name = print::on_one_line(&format!("{}{at}{pools}", node.name), NAME);
    let renewed = duration(node.renewed_ms);
    format!("{:<7} {state:<5} {renewed:>8}  {:>8}  {:>7}  {name}\n", node.number, node.sessions, node.running)
}

/// What the living processes counted since each of them began, and their sum.
fn figures(seen: &StoreOverview) -> String {
    let told: Vec<_> = living(seen).filter_map(|node| Some((node.number, node.figures?))).collect();
    let mut text = String::new();
    if !told.is_empty() {
        text.push_str("node      turns  errors  waiting    steps    calls       tokens      p50      p99\n");
    }
    for (number, figures) in &told {
        let times = [figures.turn_p50_us, figures.turn_p99_us].map(|us| duration(us / 1_000));
        text.push_str(&counts(&number.to_string(), figures, &times));
    }
    if told.len() > 1 {
        let name = if seen.all_nodes > seen.nodes.len() as u64 { "shown" } else { "all" };
        text.push_str(&counts(name, &sum(seen), &[String::new(), String::new()]));
    }
    text
}

fn counts(name: &str, figures: &NodeFigures, [p50, p99]: &[String; 2]) -> String {
    let NodeFigures { ended, failed, waiting, steps, tool_calls, tokens, .. } = figures;
    let line = format!(
        "{name:<7} {ended:>7} {failed:>7} {waiting:>8} {steps:>8} {tool_calls:>8} {tokens:>12} {p50:>8} {p99:>8}"
    );
    format!("{}\n", line.trim_end())
}

fn living(seen: &StoreOverview) -> impl Iterator<Item = &StoreNode> {
    seen.nodes.iter().filter(|node| node.is_alive)
}

/// What the living processes counted.
fn sum(seen: &StoreOverview) -> NodeFigures {
    living(seen).filter_map(|node| node.figures).fold(NodeFigures::default(), |sum, one| NodeFigures {
        ended: sum.ended + one.ended,
        failed: sum.failed + one.failed,
        waiting: sum.waiting + one.waiting,
        steps: sum.steps + one.steps,
        tool_calls: sum.tool_calls + one.tool_calls,
        tokens: sum.tokens + one.tokens,
        ..sum
    })
}

pub(crate) fn inbox(seen: &StoreOverview) -> String {
    let waiting = match seen.oldest_ms {
        Some(ms) => format!(
            "{} for {}, the oldest for {}",
            print::counted(seen.waiting, "message"),
            print::counted(seen.waiting_sessions, "session"),
            duration(ms).trim()
        ),
        None => "nothing waits".to_owned(),
    };
    match seen.refused {
        0 => waiting,
        refused => format!("{waiting}; {refused} refused in the last day"),
    }
}

/// The processes and the messages in one line.
#[cfg(any(test, feature = "top"))]
pub(crate) fn short(seen: &StoreOverview) -> String {
    let (count, sessions, running) = living(seen).fold((0, 0, 0), |(count, sessions, running), node| {
        (count + 1, sessions + node.sessions, running + node.running)
    });
    let nodes = match seen.all_nodes {
        0 => String::new(),
        _ => {
            let (nodes, owned) = (print::counted(count, "node"), print::counted(sessions, "session"));
            format!("{nodes} alive  {owned} owned  {running} running  {} ended   ", sum(seen).ended)
        }
    };
    format!("{nodes}inbox: {}", inbox(seen))
}

pub(super) fn as_json(seen: Option<&StoreOverview>) -> Value {
    let Some(seen) = seen else { return Value::Null };
    let node = |node: &StoreNode| {
        json!({
            "number": node.number, "name": node.name, "address": node.address, "is_alive": node.is_alive,
            "renewed_ms": node.renewed_ms, "sessions": node.sessions, "running": node.running, "pools": node.pools,
            "figures": node.figures,
        })
    };
    let empty = |pool: &EmptyPool| json!({ "name": pool.name, "waiting": pool.waiting });
    json!({
        "empty_pools": seen.empty_pools.iter().map(empty).collect::<Vec<_>>(),
        "nodes": seen.nodes.iter().map(node).collect::<Vec<_>>(), "all_nodes": seen.all_nodes,
        "open_turns": seen.open_turns,
        "inbox": {
            "waiting": seen.waiting, "sessions": seen.waiting_sessions, "oldest_ms": seen.oldest_ms,
            "refused": seen.refused,
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_overview_names_processes_and_what_waits() {
        let node = |number, is_alive| StoreNode {
            number,
            name: "cli-agent (process 7)".to_owned(),
            address: Some("10.0.0.2".to_owned()),
            is_alive,
            renewed_ms: 400,
            sessions: 3,
            running: 1,
            pools: if is_alive { vec![PoolName::parse("a").unwrap()] } else { Vec::new() },
            figures: Some(NodeFigures {
                ended: 1_234,
                failed: 12,
                steps: 2_345,
                tool_calls: 456,
                tokens: 15_000,
                turn_p50_us: 455_000,
                turn_p99_us: 6_000_000,
                ..NodeFigures::default()
            }),
        };
        let seen = StoreOverview {
            nodes: vec![node(2, true), node(1, false)],
            all_nodes: 3,
            open_turns: 1,
            waiting: 12,
            waiting_sessions: 1,
            oldest_ms: Some(3_200),
            refused: 2,
            empty_pools: vec![EmptyPool { name: PoolName::parse("big").unwrap(), waiting: 1 }],
        };
        assert_eq!(
            report(&seen),
            "node    state  renewed  sessions  running  process\n\
             2       alive   400 ms         3        1  cli-agent (process 7) at 10.0.0.2 in a\n\
             1       dead    400 ms         3        1  cli-agent (process 7) at 10.0.0.2\n\
             and 1 more\n\
             node      turns  errors  waiting    steps    calls       tokens      p50      p99\n\
             2          1234      12        0     2345      456        15000   455 ms    6.0 s\n\
             1 open turn without a living owner\n\
             inbox: 12 messages for 1 session, the oldest for 3.2 s; 2 refused in the last day\n\
             1 message for the pool big, in which no process is alive\n"
        );
        assert!(report(&seen).lines().all(|line| line.chars().count() <= 81));
        let line = "1 node alive  3 sessions owned  1 running  1234 ended   inbox: 12 messages for 1 session, the oldest for 3.2 s; ";
        assert!(short(&seen).starts_with(line), "{}", short(&seen));
        assert_eq!(short(&StoreOverview::default()), "inbox: nothing waits");
        let two = StoreOverview { nodes: vec![node(3, true), node(2, true)], all_nodes: 2, ..seen };
        let all = "all        2468      24        0     4690      912        30000\n";
        assert!(report(&two).contains(all), "{}", report(&two));
    }
}
