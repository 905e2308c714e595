//! Sessions that work for calls of others, in a list.

use std::collections::BTreeMap;

use bob::SessionId;
use bob::sessions::SessionSummary;

/// The sessions of a list: without those that work for another one of it, or each with those behind it. For people their
/// titles are set in by how far they are below.
pub(super) fn ordered(all: Vec<SessionSummary>, with_children: bool, is_json: bool) -> Vec<SessionSummary> {
    let known: std::collections::BTreeSet<SessionId> = all.iter().map(|summary| summary.session.clone()).collect();
    let (children, tops): (Vec<_>, Vec<_>) =
        all.into_iter().partition(|summary| summary.parent.as_ref().is_some_and(|parent| known.contains(parent)));
    if !with_children {
        return tops;
    }
    let mut below: BTreeMap<SessionId, Vec<SessionSummary>> = BTreeMap::new();
    for child in children {
        if let Some(parent) = child.parent.clone() {
            below.entry(parent).or_default().push(child);
        }
    }
    let mut ordered = Vec::new();
    let mut open: Vec<(usize, SessionSummary)> = tops.into_iter().rev().map(|top| (0, top)).collect();
    while let Some((depth, mut summary)) = open.pop() {
        let mut own = below.remove(&summary.session).unwrap_or_default();
        // In the order in which they began: their ids end in the number of their call.
        own.sort_by(|one, other| other.session.cmp(&one.session));
        open.extend(own.into_iter().map(|child| (depth + 1, child)));
        if depth > 0 && !is_json {
            let title = summary.title.as_deref().unwrap_or("(no message)");
            summary.title = Some(format!("{}\u{2514} {title}", "  ".repeat(depth - 1)).into());
        }
        ordered.push(summary);
    }
    // Sessions that name each other have no top.
    ordered.extend(below.into_values().flatten());
    ordered
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(name: &str, parent: Option<&str>) -> SessionSummary {
        let id = |id: &str| SessionId::parse(id).unwrap();
        let title = Some("t".into());
        SessionSummary { parent: parent.map(id), title, ..SessionSummary::bare(id(name), 1, 1) }
    }

    #[test]
    fn children_are_left_out_or_stand_behind_their_parent() {
        let all = || {
            vec![
                named("s.c1.c1", Some("s.c1")),
                named("b", None),
                named("s.c2", Some("s")),
                named("s", None),
                named("s.c1", Some("s")),
                named("lost", Some("deleted")),
            ]
        };
        let ids = |sessions: Vec<SessionSummary>| {
            let shown = |of: &SessionSummary| format!("{}: {}", of.session, of.title.as_deref().unwrap());
            sessions.iter().map(shown).collect::<Vec<_>>()
        };
        assert_eq!(ids(ordered(all(), false, false)), ["b: t", "s: t", "lost: t"]);
        let shown = ids(ordered(all(), true, false));
        assert_eq!(shown, ["b: t", "s: t", "s.c1: \u{2514} t", "s.c1.c1:   \u{2514} t", "s.c2: \u{2514} t", "lost: t"]);
        assert_eq!(ids(ordered(all(), true, true))[2], "s.c1: t");
        let circle = vec![named("a", Some("b")), named("b", Some("a"))];
        assert_eq!(ordered(circle, true, true).len(), 2);
    }
}
