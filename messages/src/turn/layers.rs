//! The layers of a prompt before its history: each within its cap, in the order in which a model reads them.

use super::output_schema;
use crate::llm::ToolMode;
use crate::tools::ToolSet;
use crate::turn_config::PromptLayers;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// The cap of the skills, in bytes. The skills chosen for a turn fit beside the list that is part of every turn.
pub(super) const SKILLS_CAP: usize = 64 * 1024;

/// The cap of notes about tools, in bytes.
const NOTES_CAP: usize = 16 * 1024;

/// Where parts of a system text are, in bytes, so that the skills between them can be replaced.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Places {
    /// Where what is before the chosen skills ends.
    head: usize,
    /// Where the notes about tools begin and end.
    notes: (usize, usize),
}

/// What was left out of the layers.
#[derive(Debug, Default)]
pub(super) struct Cut {
    /// Names of the layers.
    pub(super) layers: Vec<String>,
    /// How many bytes of them.
    pub(super) bytes: usize,
}

impl Cut {
    fn capped<'t>(&mut self, name: &str, cap: usize, text: &'t str) -> &'t str {
        let kept = &text[..text.floor_char_boundary(cap)];
        if kept.len() < text.len() {
            self.layers.push(name.to_owned());
            self.bytes += text.len() - kept.len();
        }
        kept.trim()
    }
}

#[derive(Debug, Clone, Copy)]
pub(super) struct Behind<'a> {
    pub(super) mode: ToolMode,
    pub(super) tools: &'a ToolSet,
    /// The schema of the final answer.
    pub(super) output: Option<&'a Value>,
}

/// The system text of a turn with these skills.
pub(super) fn system(
    layers: &PromptLayers,
    instructions: &str,
    chosen_skills: &str,
    behind: Behind<'_>,
) -> (String, Places, Cut) {
    let (mut head, mut cut) = (String::new(), Cut::default());
    let texts = [
        ("instructions", 32 * 1024, instructions),
        ("runtime policy", 8 * 1024, &*layers.runtime_policy),
        ("bootstrap", 16 * 1024, &*layers.bootstrap),
        ("memory", 16 * 1024, &*layers.memory),
        ("skills", SKILLS_CAP, &*layers.skills),
    ];
    for (name, cap, text) in texts {
        push_paragraph(&mut head, cut.capped(name, cap, text));
    }
    let left = SKILLS_CAP.saturating_sub(layers.skills.len());
    let skills = cut.capped("skills", left, chosen_skills);
    let notes = cut.capped("tool notes", NOTES_CAP, &layers.tool_notes);
    let (system, places) = complete(head, skills, notes, behind);
    (system, places, cut)
}

/// A system text with other skills.
pub(super) fn with_skills(system: &str, places: Places, skills: &str, behind: Behind<'_>) -> (String, Places) {
    let (begin, end) = places.notes;
    complete(system[..places.head].to_owned(), skills.trim(), &system[begin..end], behind)
}

fn complete(head: String, skills: &str, notes: &str, behind: Behind<'_>) -> (String, Places) {
    let mut places = Places { head: head.len(), notes: (0, 0) };
    let mut system = head;
    push_paragraph(&mut system, skills);
    push_paragraph(&mut system, notes);
    places.notes = (system.len() - notes.len(), system.len());
    let is_json = behind.mode == ToolMode::Json;
    if is_json {
        push_paragraph(&mut system, &contract(behind.tools));
    }
    if let Some(output) = behind.output {
        let words = if is_json { output_schema::in_words_of_content } else { output_schema::in_words };
        push_paragraph(&mut system, &words(output));
    }
    (system, places)
}

pub(super) fn push_paragraph(text: &mut String, paragraph: &str) {
    if !paragraph.is_empty() {
        if !text.is_empty() {
            text.push_str("\n\n");
        }
        text.push_str(paragraph);
    }
}

/// The action contract in words, for models without calls of their own.
fn contract(tools: &ToolSet) -> String {
    let mut text = String::from(
        "Answer with exactly one JSON object and no other text. It is one of:\n\
         {\"type\":\"final\",\"content\":\"your answer\"}\n\
         {\"type\":\"ask_user\",\"question\":\"what you need to know\"}",
    );
    if !tools.is_empty() {
        text.push_str("\n{\"type\":\"tool_call\",\"name\":\"a tool below\",\"arguments\":{}}\nTools:\n");
        text.push_str(tools.contract().trim_end());
    }
    text
}
