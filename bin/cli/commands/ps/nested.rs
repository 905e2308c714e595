//! Sessions below those that they work for.

use std::collections::HashMap;

use bob::health::NodeState;

/// How many letters and digits the id of a sub-agent's session ends with.
const HASH: usize = 12;

/// The most bytes of a caller's id that the ids of its sub-agents' sessions begin with.
const NAMED_AFTER: usize = 80;

/// The sessions of a process, those of sub-agents below the nearest one of the process that they work for: the id of such a
/// session begins with that of its caller.
pub(crate) fn nested(sessions: &[NodeState]) -> Vec<NodeState> {
    // Below an id that was cut all ids begin alike, so none of them can be told to be above another.
    let is_known_above = |id: &str| callers(id).all(|caller| caller != begin(id));
    let live = sessions.iter().enumerate().filter(|(_, session)| is_known_above(&session.name));
    let live: HashMap<&str, usize> = live.map(|(at, session)| (begin(&session.name), at)).collect();
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

/// How the ids of those begin that work for the session of this id.
fn begin(id: &str) -> &str {
    id.get(..NAMED_AFTER).unwrap_or(id)
}

/// How the ids of the sessions begin that one of this id works for, the nearest first. An id with a dot may also be a person's
/// own: nothing above one is known.
fn callers(id: &str) -> impl Iterator<Item = &str> {
    std::iter::successors(Some(id), |below| {
        let (caller, own) = below.rsplit_once('.')?;
        let hash = own.rsplit_once('-').map_or("", |(_, hash)| hash);
        (hash.len() == HASH && hash.bytes().all(|byte| byte.is_ascii_hexdigit())).then_some(caller)
    })
    .skip(1)
}

fn with_below(at: usize, sessions: &[NodeState], below: &[Vec<usize>]) -> NodeState {
    let children = below[at].iter().map(|child| with_below(*child, sessions, below));
    NodeState { children: children.collect(), ..sessions[at].clone() }
}

/// What a session below this one is called there: without the beginning of its id that is that of the one above.
pub(crate) fn name_below(caller: &str, id: &str) -> String {
    match id.strip_prefix(begin(caller)).filter(|own| own.starts_with('.')) {
        Some(own) => format!("\u{2026}{own}"),
        None => id.to_owned(),
    }
}

/// How many there are, with those below them.
pub(crate) fn count(nodes: &[NodeState]) -> usize {
    nodes.iter().map(|node| 1 + count(&node.children)).sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use bob::health::NodeStatus;

    fn below(caller: &str, call: u32) -> String {
        format!("{}.c{call:08}-0123456789ab", begin(caller))
    }

    fn shown(nodes: &[NodeState], depth: usize) -> Vec<(usize, String)> {
        let one = |node: &NodeState| [(depth, node.name.clone())].into_iter().chain(shown(&node.children, depth + 1));
        nodes.iter().flat_map(one).collect()
    }

    #[test]
    fn sessions_are_below_their_callers_also_where_ids_are_cut() {
        let root = "0192aabb-0000-7000-8000-000000000000".to_owned();
        let one = below(&root, 1);
        let two = below(&one, 2);
        let (three, other) = (below(&two, 3), below(&two, 4));
        assert!(two.len() > NAMED_AFTER && !three.starts_with(&two), "{two}");
        let own = "of.me".to_owned();
        let strange = below(&own, 1);
        let names = [&three, &other, &two, &one, &root, &"of".to_owned(), &strange];
        let node = |name: &&String| NodeState {
            name: (*name).clone(),
            state: NodeStatus::Idle,
            age_ms: 0,
            restarts: 0,
            last_error: None,
            queued: None,
            children: Vec::new(),
        };
        let all: Vec<_> = names.iter().map(node).collect();
        let nested_all = nested(&all);
        let expected = [(0, &root), (1, &one), (2, &two), (3, &three), (3, &other), (0, names[5]), (0, &strange)];
        assert_eq!(shown(&nested_all, 0), expected.map(|(depth, name)| (depth, name.clone())));
        assert_eq!(name_below(&two, &three), "\u{2026}.c00000003-0123456789ab");
        assert_eq!(name_below("", &three), three);
        // Without the one that both work for, neither is below the other.
        let expected = [(0, &three), (0, &other)];
        assert_eq!(shown(&nested(&all[..2]), 0), expected.map(|(depth, name)| (depth, name.clone())));
    }
}
