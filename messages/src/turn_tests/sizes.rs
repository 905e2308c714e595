//! What every session in flight has in memory, and what is moved with each message, does not grow unnoticed.

use crate::chat::{ToolCall, ToolResult};
use crate::session_state::Session;
use crate::store::{Answered, Fact, Record};
use crate::turn::{Effect, Turn, TurnMessage};
use std::mem::size_of;

#[test]
fn what_there_are_many_of_stays_small() {
    let most = [
        ("a message of a turn", size_of::<TurnMessage>(), 80),
        ("an effect", size_of::<Effect>(), 88),
        ("a machine", size_of::<Turn>(), 1_456),
        ("a session", size_of::<Session>(), 984),
        ("a record", size_of::<Record>(), 168),
        ("a fact", size_of::<Fact>(), 80),
        ("an answer of the model", size_of::<Answered>(), 256),
        ("a call", size_of::<ToolCall>(), 72),
        ("a result", size_of::<ToolResult>(), 240),
    ];
    let grown: Vec<_> = most.into_iter().filter(|(_, is, most)| is > most).collect();
    assert!(grown.is_empty(), "what has more bytes than it had: put what is rare into a box: {grown:?}");
}
