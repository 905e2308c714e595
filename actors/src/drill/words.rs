//! Traps as one writes them: `store next panic x2`, `sessions/s1 before:Done kill +1`.
//!
//! Four words or fewer: whom (`turns`, `sessions/<id>`, or a path in the tree with `_` for
//! a space), where (`next`, `before:<kind>`, `after:<kind>`, `<kind>#<effects performed>`),
//! what (`panic`, `fail`, `kill`, `block:<ms>`); then `x<times>` and `+<passages let by>`.

use super::traps::{Edge, Harm, Trap, Victim};
use crate::model_server::ModelServerMessage;
use crate::pulse::Kinds;
use bob_messages::ids::SessionId;
use bob_messages::llm::LlmMessage;
use bob_messages::mcp::McpMessage;
use bob_messages::sessions::SessionsMessage;
use bob_messages::store::StoreMessage;
use bob_messages::tools::ToolsMessage;
use bob_messages::turn::TurnMessage;
use std::str::FromStr;

/// Words that are no trap.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("not a trap: {0}; write it like `store next panic x2` or `sessions/s1 before:Done kill +1`")]
pub struct InvalidTrap(String);

impl FromStr for Trap {
    type Err = InvalidTrap;

    fn from_str(text: &str) -> Result<Self, InvalidTrap> {
        let wrong = || InvalidTrap(text.trim().chars().take(120).collect());
        let mut words = text.split_whitespace();
        let (victim, edge, harm) = (words.next(), words.next(), words.next());
        let victim = match victim.ok_or_else(wrong)? {
            "turns" => Victim::AnyTurn,
            path => match path.strip_prefix("sessions/") {
                Some(id) => Victim::Turn(SessionId::parse(id).map_err(|_| wrong())?),
                None => Victim::Room(path.replace('_', " ")),
            },
        };
        let edge = edge.and_then(edge_of).ok_or_else(wrong)?;
        let harm = harm.and_then(harm_of).ok_or_else(wrong)?;
        words.try_fold(Trap::new(victim, edge, harm), |trap, word| {
            let times = word.strip_prefix('x').and_then(|times| times.parse().ok());
            let passages = word.strip_prefix('+').and_then(|passages| passages.parse().ok());
            match (times, passages) {
                (Some(times), _) => Ok(trap.times(times)),
                (None, Some(passages)) => Ok(trap.after(passages)),
                (None, None) => Err(wrong()),
            }
        })
    }
}

fn edge_of(word: &str) -> Option<Edge> {
    if word == "next" {
        return Some(Edge::Next);
    }
    if let Some((kind, performed)) = word.split_once('#') {
        return Some(Edge::Effect { of: known(kind)?, performed: performed.parse().ok()? });
    }
    match word.split_once(':')? {
        ("before", kind) => Some(Edge::Before(known(kind)?)),
        ("after", kind) => Some(Edge::After(known(kind)?)),
        _ => None,
    }
}

fn harm_of(word: &str) -> Option<Harm> {
    match word {
        "panic" => Some(Harm::Panic),
        "fail" => Some(Harm::Fail),
        "kill" => Some(Harm::Kill),
        word => Some(Harm::Block { ms: word.strip_prefix("block:")?.parse().ok()? }),
    }
}

/// The kind of this name in any mailbox, so that a mistyped one is told.
fn known(kind: &str) -> Option<&'static str> {
    let mailboxes = [
        TurnMessage::KINDS,
        LlmMessage::KINDS,
        ToolsMessage::KINDS,
        McpMessage::KINDS,
        StoreMessage::KINDS,
        SessionsMessage::KINDS,
        ModelServerMessage::KINDS,
        &["Starting", "Stopping", "SupervisionEvent"],
        // Of the supervisors, whose mailbox is not known here.
        &["Tree", "Restart", "Stop", "Replace"],
    ];
    mailboxes.into_iter().flatten().copied().find(|known| *known == kind)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn traps_are_read_as_they_are_written() {
        let session = || SessionId::parse("s1").unwrap();
        for (text, trap) in [
            ("store next panic x2", Trap::new(Victim::Room("store".into()), Edge::Next, Harm::Panic).times(2)),
            (
                "sessions/s1 before:Done kill +1",
                Trap::new(Victim::Turn(session()), Edge::Before("Done"), Harm::Kill).after(1),
            ),
            ("turns Saved#2 fail", Trap::new(Victim::AnyTurn, Edge::Effect { of: "Saved", performed: 2 }, Harm::Fail)),
            (
                "model_server_local after:Ensure block:200 +3 x4",
                Trap::new(Victim::Room("model server local".into()), Edge::After("Ensure"), Harm::Block { ms: 200 })
                    .after(3)
                    .times(4),
            ),
            ("llm before:Starting panic", Trap::new(Victim::Room("llm".into()), Edge::Before("Starting"), Harm::Panic)),
        ] {
            assert_eq!(text.parse(), Ok(trap), "{text}");
        }
    }

    #[test]
    fn what_is_no_trap_is_told() {
        for text in [
            "",
            "store",
            "store next",
            "store next hurt",
            "store before:Nothing panic",
            "store Done# panic",
            "turns next panic 3",
            "sessions/../x next panic",
        ] {
            assert!(text.parse::<Trap>().is_err(), "{text:?}");
        }
    }
}
