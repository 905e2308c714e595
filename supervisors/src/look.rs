//! A snapshot of the live tree.

use bob_actors::watchdog::Blocked;
use serde::{Deserialize, Serialize};

/// One actor of the tree, and those below it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeState {
    /// Unique among its siblings.
    pub name: String,
    /// The state of the actor.
    pub state: NodeStatus,
    /// How long it has been in this state, in milliseconds.
    pub age_ms: u64,
    /// How often it was restarted since the tree began.
    pub restarts: u32,
    /// The reason of its last end or failed start, or that one of its handlers blocks or did.
    pub last_error: Option<String>,
    /// The number of messages in its mailbox, if it counts them.
    pub queued: Option<usize>,
    /// The actors below it, in start order; empty also when it does not answer.
    pub children: Vec<NodeState>,
}

/// The state of an actor.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum NodeStatus {
    /// It runs.
    Running,
    /// It has nothing to do and may be stopped.
    Idle,
    /// It waits for a slot or for a person.
    Waiting,
    /// It is being stopped.
    Stopping,
    /// It is being started, or waits for that.
    Restarting,
    /// It died too often; only a manual restart starts it again.
    GaveUp,
    /// It ended and is not restarted.
    Stopped,
}

/// Adds to the snapshot which handlers block or did. An actor whose handler blocks now is added when its supervisor
/// does not answer. The reason of a death takes precedence over a handler that blocked in the past.
pub(crate) fn tell_blocked(nodes: &mut Vec<NodeState>, blocked: &[Blocked]) {
    for it in blocked {
        let path = it.path.to_string();
        let (name, below) = path.split_once('/').map_or((path.as_str(), None), |(name, below)| (name, Some(below)));
        let node = match below {
            None => named(nodes, name, it),
            Some(below) => {
                nodes.iter_mut().find(|node| node.name == name).and_then(|node| named(&mut node.children, below, it))
            }
        };
        let Some(node) = node else { continue };
        let Blocked { message, for_ms, .. } = it;
        if !it.is_over {
            node.last_error = Some(format!("its handler of {message} blocks for {for_ms} ms now"));
        } else if node.last_error.is_none() {
            node.last_error = Some(format!("its handler of {message} blocked for {for_ms} ms"));
        }
    }
}

/// Finds the node with this name; if its handler blocks now, it is added when it is missing.
fn named<'a>(nodes: &'a mut Vec<NodeState>, name: &str, blocked: &Blocked) -> Option<&'a mut NodeState> {
    let at = nodes.iter().position(|node| node.name == name);
    if at.is_none() && !blocked.is_over {
        nodes.push(NodeState {
            name: name.to_owned(),
            state: NodeStatus::Running,
            age_ms: blocked.for_ms,
            restarts: 0,
            last_error: None,
            queued: None,
            children: Vec::new(),
        });
        return nodes.last_mut();
    }
    at.and_then(|at| nodes.get_mut(at))
}
