//! The model of a turn, where a selector names it: selected once, when the turn begins, and journaled.

use crate::chat::{ContentPart, Message};
use crate::event::AgentEvent;
use crate::ids::ModelName;
use crate::input::TurnInput;
use crate::llm::{LlmError, LlmErrorKind};
use crate::models::{Needs, Recorded, Requirement, Selected, select};
use crate::session_state::{OpenTurn, Session};
use crate::turn_config::TurnConfig;

/// Tokens of the instructions and the tools of a prompt, about: they are not known when the model is selected.
const FRAME_TOKENS: u64 = 2_000;

/// The model for this input, how it was selected, and the event about that. Without one that fits, the selector itself.
pub(super) fn model(
    turn_config: &TurnConfig,
    session: &Session,
    input: &TurnInput,
    name: ModelName,
) -> (ModelName, Option<Box<Selected>>, Option<AgentEvent>) {
    let book = turn_config.models.as_deref();
    if let Some(Recorded { model, selected }) = book.and_then(|book| book.recorded.get(&input.turn)) {
        return (model.clone(), Some(Box::new(selected.clone())), None);
    }
    if !name.is_selector() {
        return (name, None, None);
    }
    let refused = |why: String| (name.clone(), Some(Box::new(Selected { by: name.clone(), why })), None);
    let Some(book) = book else { return refused("this runtime has no catalogue of models".to_owned()) };
    let selector = match book.selector(&name) {
        Ok(selector) => selector,
        Err(error) => return refused(error.to_string()),
    };
    let selection = select(book, &selector, &needs(session, input));
    let selected = Selected { by: name.clone(), why: selection.why.clone() };
    let said = AgentEvent::ModelSelected {
        selector: name.clone(),
        model: selection.model.clone(),
        why: selection.why,
        candidates: selection.candidates,
        ranked: selection.ranked,
        refused: selection.refused,
    };
    (selection.model.unwrap_or(name), Some(Box::new(selected)), Some(said))
}

/// What the next prompt needs of a model.
fn needs(session: &Session, input: &TurnInput) -> Needs {
    let history = session.history.iter().map(|message| Message::bytes(message)).sum::<usize>();
    let summary = session.summary.as_ref().map_or(0, |summary| summary.len());
    let parts = input.parts.iter().map(ContentPart::bytes).sum::<usize>();
    let bytes = (history + summary + parts) as u64;
    let input_tokens = bytes.saturating_mul(session.tokens_per_kb) / 1_000 + FRAME_TOKENS;
    Needs { input_tokens, require: Requirement::of(&input.parts) }
}

/// The error of a turn for which no model was selected; `None` for a turn that has its model.
pub(super) fn none(open: &OpenTurn) -> Option<LlmError> {
    if !open.model.is_selector() {
        return None;
    }
    let why = open.selected.as_ref().map_or("no model was selected", |selected| selected.why.as_str());
    Some(LlmError::new(LlmErrorKind::NotSelected, format!("{}: {why}", open.model)))
}

/// The error of a turn whose cost is bounded, with a model whose cost is not known.
pub(super) fn no_price(model: &ModelName) -> LlmError {
    let text = format!("max_cost is set, and no price of {model} is known: set [prices.\"{model}\"], or max_cost = 0");
    LlmError::new(LlmErrorKind::NoPrice, text)
}
