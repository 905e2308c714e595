//! Sessions below those that they work for.

use std::collections::HashMap;

use bob::health::NodeState;

/// How many letters and digits the id of a sub-agent's session ends with.
const HASH: usize = 12;

/// The sessions of a process, those of sub-agents below the nearest one of the process that they work for: the id of such a
/// session begins with that of its caller.
pub(crate) fn nested(sessions: &[NodeState]) -> Vec<NodeState> {
    let live: HashMap<&str, usize> =
        sessions.iter().enumerate().map(|(at, session)| (session.name.as_str(), at)).collect();
    let mut below = vec![Vec::new(); sessions.len()];
    let mut top = Vec::new();
    for (at, session) in sessions.iter().enumerate() {
        match callers(&session.name).find_map(|caller| live.get(caller)) {
            Some(caller) => below[*caller].push(at),
            None => top.push(at),
        }
    }
    top.into_iter().map(|at| with_below(at, sessions, &below)).collect()
}

/// The ids of the sessions that one of this id may work for, the nearest first. An id with a dot may also be a person's own.
fn callers(id: &str) -> impl Iterator<Item = &str> {
    let hash = id.rsplit_once('-').map_or("", |(_, hash)| hash);
    let is_child = hash.len() == HASH && hash.bytes().all(|byte| byte.is_ascii_hexdigit());
    id.rmatch_indices('.').filter(move |_| is_child).map(|(dot, _)| &id[..dot])
}

fn with_below(at: usize, sessions: &[NodeState], below: &[Vec<usize>]) -> NodeState {
    let children = below[at].iter().map(|child| with_below(*child, sessions, below));
    NodeState { children: children.collect(), ..sessions[at].clone() }
}

/// How many there are, with those below them.
pub(crate) fn count(nodes: &[NodeState]) -> usize {
    nodes.iter().map(|node| 1 + count(&node.children)).sum()
}
