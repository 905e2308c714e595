use super::sections::in_form;
use super::{SelectedSkill, SelectedSkills, Skill, SkillForm, SkillIndex};
use std::fmt::Write;

/// Introduction of the layer.
const HEAD: &str =
    "# Skills\nChosen for this request; follow those that apply.\n\n| skill | what it is for |\n|---|---|\n";

/// Introduction of the table of the others.
const OTHERS_HEAD: &str = "# Other skills\nAsk for one by `local/use_skill` when the work needs it.\n\n| skill | what it is for |\n|---|---|\n";

/// Which part of the budget the table of the others may take.
const OTHERS_PART: usize = 4;

/// How many bytes of a description the table of the others has.
const OTHERS_DESCRIPTION: usize = 200;

/// The layer as the model reads it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Layer {
    /// The text; empty without skills.
    pub text: String,
    /// The skills in it, each with the form it has there.
    pub shown: Vec<SelectedSkill>,
    /// Names of chosen skills that are not in it.
    pub missing: Vec<String>,
}

/// Renders an earlier selection. A skill that no longer exists, or no longer fits after a change, is left out.
pub fn render(index: &SkillIndex, chosen: &SelectedSkills) -> Layer {
    let budget = usize::try_from(chosen.budget_bytes).unwrap_or(usize::MAX);
    let (mut text, mut bodies) = (HEAD.to_owned(), String::new());
    let (mut shown, mut missing) = (Vec::new(), Vec::new());
    for selected in &chosen.skills {
        let parts = index.get(&selected.name).map(|skill| (row(skill), body(skill, selected.form)));
        match parts.filter(|(row, body)| text.len() + bodies.len() + row.len() + body.len() <= budget) {
            Some((row, body)) => {
                text.push_str(&row);
                bodies.push_str(&body);
                shown.push(selected.clone());
            }
            None => missing.push(selected.name.clone()),
        }
    }
    if shown.is_empty() {
        return Layer { missing, ..Layer::default() };
    }
    text.push_str(&bodies);
    Layer { text, shown, missing }
}

/// The table of further skills that a model may ask for, by name: as many as fit into a part of what is left of the
/// budget behind `taken` bytes. Empty if none fits.
pub fn others<'a>(skills: impl Iterator<Item = &'a Skill>, budget_bytes: u64, taken: usize) -> String {
    let budget = usize::try_from(budget_bytes).unwrap_or(usize::MAX);
    let most = budget.saturating_sub(taken).min(budget / OTHERS_PART);
    let mut skills: Vec<_> = skills.collect();
    skills.sort_by_key(|skill| skill.name());
    let mut text = OTHERS_HEAD.to_owned();
    let mut listed = 0;
    for skill in &skills {
        let description = cell(&skill.front.description);
        let cut = description.floor_char_boundary(OTHERS_DESCRIPTION);
        let more = if cut < description.len() { " …" } else { "" };
        let row = format!("| {} | {}{more} |\n", skill.name(), description[..cut].trim_end());
        if text.len() + row.len() > most {
            break;
        }
        text.push_str(&row);
        listed += 1;
    }
    if listed == 0 { String::new() } else { text }
}

/// How many bytes the layer of these skills has.
pub(super) fn bytes(skills: &[(&Skill, SkillForm)]) -> usize {
    match skills {
        [] => 0,
        skills => {
            HEAD.len() + skills.iter().map(|(skill, form)| row(skill).len() + body(skill, *form).len()).sum::<usize>()
        }
    }
}

fn cell(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ").replace('|', "\\|")
}

fn row(skill: &Skill) -> String {
    let mut row = format!("| {} | {}", skill.name(), cell(&skill.front.description));
    if let Some(needs) = &skill.front.compatibility {
        let _a_string_takes_all = write!(row, " Needs: {}", cell(needs));
    }
    row.push_str(" |\n");
    row
}

fn body(skill: &Skill, form: SkillForm) -> String {
    if let Some([whole, without_examples, essentials]) = skill.rendered.as_deref() {
        let text = match form {
            SkillForm::Whole => whole,
            SkillForm::WithoutExamples => without_examples,
            SkillForm::Essentials => essentials,
        };
        return format!("\n## Skill {}\n{}\n", skill.name(), text.trim_end());
    }
    let mut text = format!("\n## Skill {}\nFolder of its files: {}\n", skill.name(), skill.folder);
    if let Some(tools) = &skill.front.allowed_tools {
        let tools = if tools.is_empty() { "none".to_owned() } else { tools.join(" ") };
        let _a_string_takes_all = writeln!(text, "Tools it may use: {tools}");
    }
    let said = in_form(&skill.body, form);
    if !said.is_empty() {
        text.push('\n');
        text.push_str(&said);
        text.push('\n');
    }
    text
}
