//! Renders a question about a call.
//!
//! The text shows exactly what runs. Every part is rendered from typed data on its own line, so no text of a model or
//! a tool can imitate the program; invisible characters are shown by their number; long runs of blanks are counted;
//! and truncated text states how much is missing.

use bob::SessionId;
use bob::approvals::{ApprovalQuestion, choices};
use bob::store::OpenTurn;
use bob::tools::Risk;
use bob_config::sanitise;

/// How much of all arguments is shown, in characters as they are shown.
const MOST_ARGUMENTS: usize = 12_000;

/// How many characters of a tool's descriptions are shown.
const MOST_WORDS: usize = 300;

/// How many lines of a difference are shown.
const MOST_CHANGES: usize = 60;

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

/// The question, line by line; nothing in it needs cleaning, and no line has a break in it.
pub(crate) fn lines(question: &ApprovalQuestion) -> Vec<String> {
    let ApprovalQuestion { call, risk, reason, title, exact, like, changes, .. } = question;
    let risk = match risk {
        Risk::Low => "low",
        Risk::Medium => "medium",
        Risk::High => "high",
    };
    let mut lines = vec![format!("[approval: {} ({risk} risk)]", cut(call.name.as_str(), MOST_WORDS))];
    if !reason.is_empty() {
        lines.push(format!("  why: {}", cut(reason, MOST_WORDS)));
    }
    if !title.is_empty() && title != call.name.own_name() {
        lines.push(format!("  the tool calls itself: \"{}\"", cut(title, MOST_WORDS)));
    }
    lines.extend(arguments(&call.arguments));
    for rule in like {
        lines.push(format!("  a lasting yes applies to {}", cut(rule, MOST_WORDS)));
    }
    if *exact {
        let what = if like.is_empty() { "decision" } else { "no" };
        lines.push(format!("  a lasting {what} applies to exactly these arguments"));
    }
    if let Some(changes) = changes {
        lines.push("  the tool has changed since it was decided about:".to_owned());
        let count = changes.lines().count();
        lines.extend(changes.lines().take(MOST_CHANGES).map(|line| format!("  | {}", cut(line, MOST_WORDS))));
        if count > MOST_CHANGES {
            lines.push(format!("  | [{} more lines of the difference are not shown]", count - MOST_CHANGES));
        }
    }
    lines
}

/// The arguments, each on a line, as JSON.
fn arguments(arguments: &serde_json::Value) -> Vec<String> {
    let Some(fields) = arguments.as_object() else {
        return vec![format!("  arguments: {}", cut(&arguments.to_string(), MOST_ARGUMENTS))];
    };
    if fields.is_empty() {
        return vec!["  without arguments".to_owned()];
    }
    let mut room = MOST_ARGUMENTS;
    let mut lines = vec!["  arguments, exactly as they run:".to_owned()];
    for (at, (name, value)) in fields.iter().enumerate() {
        if room == 0 {
            let text = format!("    [{} more arguments are NOT SHOWN: deny what you cannot see]", fields.len() - at);
            lines.push(text);
            break;
        }
        let (name, value) = (cut(name, MOST_WORDS), cut(&value.to_string(), room));
        room = room.saturating_sub(value.chars().count());
        lines.push(format!("    {name}: {value}"));
    }
    lines
}

/// Truncates a text and states how much is missing.
fn cut(text: &str, most: usize) -> String {
    let shown = visible(text);
    let count = shown.chars().count();
    if count <= most {
        return shown;
    }
    let head: String = shown.chars().take(most.saturating_sub(most / 4)).collect();
    let tail: String = shown.chars().skip(count - most / 4).collect();
    let missing = count - head.chars().count() - tail.chars().count();
    format!("{head} [… {missing} of {count} characters are NOT SHOWN: deny what you cannot see …] {tail}")
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
fn is_blank_or_filler(character: char) -> bool {
    character.is_whitespace()
        || matches!(character, '\u{34f}' | '\u{115f}' | '\u{1160}' | '\u{17b4}' | '\u{17b5}' | '\u{180b}'..='\u{180f}'
            | '\u{2800}' | '\u{3164}' | '\u{fe00}'..='\u{fe0f}' | '\u{ffa0}' | '\u{fffc}' | '\u{e0100}'..='\u{e01ef}')
}

#[cfg(test)]
#[path = "approval_tests.rs"]
mod tests;
