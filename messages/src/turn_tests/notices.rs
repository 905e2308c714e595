//! What happened outside of the conversation, which the model is told once.

use super::world::World;
use crate::chat::Message;
use crate::error::AgentError;
use crate::replay::replay;
use crate::session_state::Session;
use crate::submission::TurnNews;
use crate::turn::tests::stories::{native, told};

const NOTICE: &str = "user: files were put back";

/// The history as `user:`, `model:` and `tool:` lines. The session that lived is the one its journal tells of, and the
/// machine writes the journal again.
fn history(world: &World) -> Vec<String> {
    let said = |session: &Session| -> Vec<String> {
        let said = session.history.iter().map(|message| match &**message {
            Message::User { parts } => format!("user: {}", parts[0].as_text()),
            Message::Assistant { text, .. } => format!("model: {text}"),
            Message::Tool { result } => format!("tool: {}", result.output.plain()),
        });
        said.collect()
    };
    let session = world.turn.session().expect("it is read");
    assert_eq!(said(&Session::fold(session.id.clone(), &world.stored)), said(session));
    assert_eq!(replay(&world.stored).map(|same| same.records), Ok(world.stored.len()));
    said(session)
}

#[test]
fn between_two_turns_it_is_behind_the_last_answer_once() {
    let undo = "notice undo files were put back";
    let world = told(native(), &["user hello", "llm Good day.", undo, undo, "user again", "llm Once more."]);
    let expected = ["user: hello", "model: Good day.", NOTICE, "user: again", "model: Once more."];
    assert_eq!(history(&world), expected);
}

#[test]
fn during_a_turn_it_waits_for_the_end_of_that_turn() {
    let undo = "notice undo files were put back";
    let world = told(native(), &["user hello", undo]);
    assert_eq!(history(&world), ["user: hello"]);
    let world = told(native(), &["user hello", undo, "llm Good day."]);
    assert_eq!(history(&world), ["user: hello", "model: Good day.", NOTICE]);
}

#[test]
fn a_turn_that_is_resumed_has_it_behind_the_results() {
    let asks = r#"calls ask_user {"question":"which?"}"#;
    let undo = "notice undo files were put back";
    let world = told(native(), &["user hello", asks, undo, "user the first", "llm Good day."]);
    assert_eq!(history(&world), ["user: hello", "model: ", "tool: the first", NOTICE, "model: Good day."]);
}

#[test]
fn eight_wait_for_the_end_of_a_turn_and_a_further_one_is_busy() {
    let notices: Vec<String> = (0..9).map(|number| format!("notice n{number} files were put back")).collect();
    let mut steps = vec!["user hello"];
    steps.extend(notices.iter().map(String::as_str));
    steps.push("llm Good day.");
    let told_of = |news: &TurnNews| match news {
        TurnNews::Configured { request_id, result } => Some((request_id.to_string(), result.clone())),
        _another => None,
    };
    let world = told(native(), &steps);
    let answers: Vec<_> = world.news.iter().filter_map(told_of).collect();
    assert_eq!(answers.len(), 9);
    let refused = answers.iter().find(|(_, result)| result.is_err()).expect("one is refused");
    assert!(matches!(refused, (name, Err(AgentError::Busy { .. })) if name == "n8"), "{refused:?}");
    assert_eq!(history(&world)[2..], [NOTICE; 8]);
    // Its sender tries again.
    steps.push(&notices[8]);
    assert_eq!(history(&told(native(), &steps))[2..], [NOTICE; 9]);
}
