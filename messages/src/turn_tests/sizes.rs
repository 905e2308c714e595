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
        ("a machine", size_of::<Turn>(), 1_352),
        ("a session", size_of::<Session>(), 904),
        ("a record", size_of::<Record>(), 168),
        ("a fact", size_of::<Fact>(), 80),
        ("an answer of the model", size_of::<Answered>(), 240),
        ("a call", size_of::<ToolCall>(), 72),
        ("a result", size_of::<ToolResult>(), 224),
    ];
    for (what, is, most) in most {
        assert!(is <= most, "{what} has {is} bytes where it had {most}: put what is rare into a box");
    }
}
