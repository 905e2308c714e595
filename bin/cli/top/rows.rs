//! The live tree as a list of lines, without characters that could control a terminal.

use bob::health::{NodeState, NodeStatus};
use bob::tools::servers::ServerStatus;

use crate::commands::mcp;
use crate::commands::ps::nested::{name_below, nested};
use crate::commands::ps::table::word;
use crate::terminal::print;

/// The path of the supervisor of the sessions.
const SESSIONS: &str = "sessions";

/// The longest name that is kept, characters.
const LONGEST_NAME: usize = 128;

/// The longest error that is kept, characters.
const LONGEST_ERROR: usize = 600;

/// One actor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Row {
    /// Its path from the root, with `/` between names.
    pub(crate) path: String,
    /// Its kind, which determines actions.
    pub(crate) kind: Kind,
    /// Its depth.
    pub(crate) depth: usize,
    pub(crate) name: String,
    /// Its status, for the colour.
    pub(crate) status: NodeStatus,
    /// The name of its state.
    pub(crate) state: &'static str,
    /// For how long, in milliseconds.
    pub(crate) age_ms: u64,
    /// How often it was started again.
    pub(crate) restarts: u32,
    /// Queued items, if it counts them.
    pub(crate) queued: Option<usize>,
    /// Why it was down last.
    pub(crate) error: Option<String>,
}

/// The kind of a row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A session, by id: can be cancelled, and has a journal.
    Session(String),
    /// A tool server, by its name in the tree: can be restarted.
    Server(String),
    /// It is looked at.
    Other,
}

/// The tree as lines: parents before their children, and of the sessions those first that have something to do.
pub(crate) fn rows(tree: &[NodeState], servers: &[ServerStatus]) -> Vec<Row> {
    let mut rows = Vec::new();
    for node in tree {
        add(&mut rows, node, None, servers);
    }
    rows
}

fn add(rows: &mut Vec<Row>, node: &NodeState, above: Option<&Row>, servers: &[ServerStatus]) {
    // The path of a session is its own, whether the one that it works for is there or not.
    let caller = above.and_then(|row| match &row.kind {
        Kind::Session(caller) => Some(caller),
        Kind::Server(_) | Kind::Other => None,
    });
    let parent = if caller.is_some() { Some(SESSIONS) } else { above.map(|row| row.path.as_str()) };
    let server = servers.iter().find(|server| parent == Some("tools") && server.node() == node.name);
    let kind = match (parent, server) {
        (Some(SESSIONS), _) => Kind::Session(node.name.clone()),
        (_, Some(server)) => Kind::Server(server.node().to_owned()),
        _ => Kind::Other,
    };
    let name = clean(&node.name, LONGEST_NAME);
    let path = parent.map_or_else(|| name.clone(), |parent| format!("{parent}/{name}"));
    let name = caller.map_or(name, |caller| clean(&name_below(caller, &node.name), LONGEST_NAME));
    let owner = server.and_then(|server| server.owner.as_ref()).map(|owner| format!("{name} ({owner})"));
    let name = owner.map_or(name, |owned| clean(&owned, LONGEST_NAME));
    let row = Row {
        path,
        kind,
        depth: above.map_or(0, |row| row.depth + 1),
        name,
        status: node.state,
        state: server.map_or(word(node.state), |server| mcp::word(server.state)),
        age_ms: node.age_ms,
        restarts: node.restarts,
        queued: node.queued,
        error: node.last_error.as_ref().map(|error| clean(error, LONGEST_ERROR)),
    };
    rows.push(row.clone());
    let nested = (row.path == SESSIONS).then(|| nested(&node.children));
    let mut children: Vec<_> = nested.as_ref().unwrap_or(&node.children).iter().collect();
    if row.path == SESSIONS || matches!(row.kind, Kind::Session(_)) {
        children.sort_by(|one, other| (first(one), &one.name).cmp(&(first(other), &other.name)));
    }
    for child in children {
        add(rows, child, Some(&row), servers);
    }
}

/// The rank of a session or of what works for it: one that waits for others is as busy as they are.
fn first(node: &NodeState) -> u8 {
    node.children.iter().map(first).chain([rank(node.state)]).min().unwrap_or_default()
}

fn rank(state: NodeStatus) -> u8 {
    match state {
        NodeStatus::Restarting | NodeStatus::GaveUp | NodeStatus::Stopping => 0,
        NodeStatus::Running => 1,
        NodeStatus::Waiting => 2,
        NodeStatus::Idle | NodeStatus::Stopped => 3,
    }
}

/// A foreign text as one line that can be drawn.
pub(crate) fn clean(text: &str, most: usize) -> String {
    // The joiners that some scripts need have no width of their own, and a screen of cells has no place for them.
    let shown = bob_config::sanitise::clean(text).replace(['\u{200c}', '\u{200d}'], "");
    print::on_one_line(&shown, most)
}
