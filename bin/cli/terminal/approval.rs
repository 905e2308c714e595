//! The question that a journal has, and texts of which nothing is hidden.

use bob::SessionId;
use bob::approvals::{ApprovalQuestion, choices};
use bob::store::OpenTurn;
use bob_config::sanitise;

/// How many blanks in a row are still shown as blanks.
const MOST_BLANKS: usize = 8;

/// The question about the first call of an open turn that waits for a decision, as the journal has it. It has no time
/// limit.
pub(crate) fn open_question(session: &SessionId, open: &OpenTurn, offers_always: bool) -> Option<ApprovalQuestion> {
    let calls = open.step.iter().flat_map(|step| &step.calls);
    let mut waiting = calls.filter(|open| open.result.is_none());
    let (call, asked) = waiting.find_map(|open| {
        let asked = open.approval.as_ref().filter(|asked| asked.allowed.is_none())?;
        Some((&open.call, asked))
    })?;
    Some(ApprovalQuestion {
        session: session.clone(),
        context: open.input.context.clone(),
        turn: open.input.turn.clone(),
        approval_id: asked.id.clone(),
        call: call.clone(),
        risk: asked.risk,
        reason: asked.why.clone(),
        title: String::new(),
        choices: choices(offers_always),
        exact: asked.tool.as_ref().is_some_and(|tool| tool.exact),
        like: asked.tool.as_ref().map(|tool| tool.like.clone()).unwrap_or_default(),
        changes: asked.tool.as_ref().and_then(|tool| tool.changes.clone()),
        timeout_ms: 0,
        agents: Vec::new(),
    })
}

/// The text with everything in it that a terminal would hide or obey shown by its number, on one line.
pub(crate) fn visible(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    let mut blanks = 0;
    let blanks_over = |shown: &mut String, blanks: &mut usize| {
        match *blanks {
            0..=MOST_BLANKS => shown.extend(std::iter::repeat_n(' ', *blanks)),
            many => shown.push_str(&format!("<{many} blanks>")),
        }
        *blanks = 0;
    };
    for character in text.chars() {
        if character == ' ' {
            blanks += 1;
            continue;
        }
        blanks_over(&mut shown, &mut blanks);
        let has_shape = sanitise::is_shown(character)
            && !matches!(character, '\n' | '\t' | '\u{200c}' | '\u{200d}')
            && !is_blank_or_filler(character);
        match has_shape {
            true => shown.push(character),
            false => shown.push_str(&format!("<U+{:04X}>", u32::from(character))),
        }
    }
    blanks_over(&mut shown, &mut blanks);
    shown
}

/// Characters that take room, or none, and show nothing, although they are no format characters.
pub(crate) fn is_blank_or_filler(character: char) -> bool {
    character.is_whitespace()
        || matches!(character, '\u{34f}' | '\u{115f}' | '\u{1160}' | '\u{17b4}' | '\u{17b5}' | '\u{180b}'..='\u{180f}'
            | '\u{2800}' | '\u{3164}' | '\u{fe00}'..='\u{fe0f}' | '\u{ffa0}' | '\u{fffc}' | '\u{e0100}'..='\u{e01ef}')
}
