//! The live tree as it can be shown.

use bob_actors::pulse::Blocked;
use serde::{Deserialize, Serialize};

/// One actor of the live tree, and those below it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeState {
    /// Its name among its siblings.
    pub name: String,
    /// What it does now.
    pub state: NodeStatus,
    /// How long it has been in this state, in milliseconds.
    pub age_ms: u64,
    /// How often it was started again since the tree began.
    pub restarts: u32,
    /// Why it last ended or could not be started, if it ever did; or that a handler of it
    /// blocks, or did.
    pub last_error: Option<String>,
    /// How many messages wait for it, if it counts them.
    pub queued: Option<usize>,
    /// Those below it, in start order; empty also when it does not answer.
    pub children: Vec<NodeState>,
}

/// What a child does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum NodeStatus {
    /// It works.
    Running,
    /// It has nothing to do and may be let go.
    Idle,
    /// It has something to do and waits: for a place, or for a person.
    Waiting,
    /// It is being stopped.
    Stopping,
    /// It is started, or waits for that.
    Restarting,
    /// It died too often; only a restart by hand brings it back.
    GaveUp,
    /// It ended and is not started again.
    Stopped,
}

/// Says of the actors whose handlers block, or did, that they do. One that blocks now is shown
/// also when whoever should show it does not answer. What an actor died of says more than
/// that it once blocked.
pub(crate) fn tell_blocked(nodes: &mut Vec<NodeState>, blocked: &[Blocked]) {
    for it in blocked {
        let path = it.place.to_string();
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

/// The node of this name; one that blocks now is added when it is missing.
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
