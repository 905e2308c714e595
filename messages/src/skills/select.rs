//! Selects the skills for a request: a pure function of the request, the skills, the available tools and the rules.
//!
//! **Eligibility.** A skill that lists tools is eligible if one of them is available, or if it lists none; the
//! available tools are those that policy and session allow. **Score.** 1.0 if the request mentions its name, 0.4 if
//! it shares a label with the request, and 0.05 for each shared keyword up to 0.2, where a word of its name counts
//! twice; less than 0.1 is irrelevant. **Order.** By score, then by name; the best `top_k` are taken.
//!
//! **Size.** The limit is never exceeded. Examples are cut first, from the last skill up; then whole skills, from the
//! last up; the last remaining one keeps its front matter and its checklists. The steps do not depend on the limit,
//! so more space never shows less.

use super::render::bytes;
use super::words::Heard;
use super::{SelectedSkill, SelectedSkills, Skill, SkillForm, SkillIndex, SkillRules, patterns};
use crate::tools::ToolSet;
use std::collections::BTreeMap;
use std::sync::Arc;

/// The score of a skill that is called by its name, in thousandths.
const MENTION: u32 = 1_000;
/// The score of a shared label.
const LABEL: u32 = 400;
/// The score of a shared keyword, and of all of them together at most.
const KEYWORD: (u32, u32) = (50, 200);
/// The minimum score.
const LEAST: u32 = 100;

/// How many bytes a token is taken for.
const BYTES_PER_TOKEN: u64 = 4;

/// The relevant part of a request.
#[derive(Debug, Clone, Copy)]
pub struct Asked<'a> {
    /// The user's text.
    pub text: &'a str,
    /// The request's labels.
    pub labels: &'a BTreeMap<String, String>,
    /// The tools on offer in this turn.
    pub tools: &'a ToolSet,
    /// The model's context, in tokens.
    pub context_tokens: u32,
    /// Limit of the layer in bytes, regardless of the rules.
    pub most_bytes: usize,
}

/// The selected skills, and those left out for lack of space.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Selection {
    /// The choice.
    pub chosen: SelectedSkills,
    /// Names of skills among the best `top_k` that did not fit, in their order.
    pub dropped: Vec<String>,
}

/// Chooses. The order of the index means nothing.
pub fn select(index: &SkillIndex, asked: Asked<'_>, rules: &SkillRules) -> Selection {
    let heard = Heard::of(asked.text);
    let scored = index.skills.iter().map(|skill| (score(skill, &heard, asked.labels), skill));
    let mut ranked: Vec<(u32, &Arc<Skill>)> = scored.filter(|(score, _)| *score >= LEAST).collect();
    ranked.sort_by(|(a, one), (b, other)| b.cmp(a).then_with(|| one.name().cmp(other.name())));
    // Tools are only checked for as many skills as needed.
    let usable = ranked.into_iter().filter(|(_, skill)| is_usable(skill, asked.tools));
    let ranked: Vec<_> = usable.take(rules.top_k).collect();
    let most = u64::try_from(asked.most_bytes).unwrap_or(u64::MAX);
    let budget_bytes = rules.budget_tokens(asked.context_tokens).saturating_mul(BYTES_PER_TOKEN).min(most);
    let best: Vec<&Skill> = ranked.iter().map(|(_, skill)| &***skill).collect();
    let fit = fitting(&best, usize::try_from(budget_bytes).unwrap_or(usize::MAX));
    let dropped = best[fit.len()..].iter().map(|skill| skill.name().to_owned()).collect();
    let selected = |((score_milli, skill), form): (&(u32, &Arc<Skill>), &SkillForm)| SelectedSkill {
        name: skill.name().to_owned(),
        hash: skill.hash.clone(),
        score_milli: *score_milli,
        form: *form,
    };
    let skills = ranked.iter().zip(&fit).map(selected).collect();
    let allow_tools = limit(&best[..fit.len()]);
    Selection { chosen: SelectedSkills { skills, allow_tools, budget_bytes }, dropped }
}

/// Whether a skill can do anything here: it names no tools, or one of them is on offer.
fn is_usable(skill: &Skill, tools: &ToolSet) -> bool {
    let Some(patterns) = &skill.front.allowed_tools else { return true };
    let is_meant = |name: &str| patterns.iter().any(|pattern| patterns::matches(pattern, name));
    patterns.is_empty() || tools.tools().iter().any(|tool| is_meant(tool.id.as_str()))
}

fn score(skill: &Skill, heard: &Heard, labels: &BTreeMap<String, String>) -> u32 {
    let mention = if heard.mentions(skill.name()) { MENTION } else { 0 };
    let label = if shares_label(skill, labels) { LABEL } else { 0 };
    let shared = 2 * heard.count(&skill.name_words) + heard.count(&skill.words);
    let (each, most) = KEYWORD;
    let keywords = u32::try_from(shared).unwrap_or(u32::MAX).saturating_mul(each).min(most);
    mention + label + keywords
}

/// A label is shared if the skill's metadata has an equal pair, or its `labels` contain the label's value.
fn shares_label(skill: &Skill, labels: &BTreeMap<String, String>) -> bool {
    let metadata = &skill.front.metadata;
    let listed = metadata.get("labels").map(String::as_str).unwrap_or_default();
    let is_listed = |value: &str| {
        listed.split([',', ' ', '\n']).any(|label| !label.is_empty() && label.eq_ignore_ascii_case(value))
    };
    labels
        .iter()
        .any(|(name, value)| metadata.get(name).is_some_and(|own| own.eq_ignore_ascii_case(value)) || is_listed(value))
}

/// The forms in which the first of these skills fit; those behind them do not.
fn fitting(best: &[&Skill], budget: usize) -> Vec<SkillForm> {
    let forms = |forms: Vec<SkillForm>| {
        let shown: Vec<_> = best.iter().copied().zip(forms.iter().copied()).collect();
        (bytes(&shown) <= budget).then_some(forms)
    };
    // First the examples, from the last skill up ...
    let without_examples = (0..=best.len()).map(|cut| {
        let whole = best.len() - cut;
        (0..best.len()).map(|at| if at < whole { SkillForm::Whole } else { SkillForm::WithoutExamples }).collect()
    });
    // ... then whole skills, then all but the essentials of the one that is left.
    let fewer = (1..best.len()).rev().map(|left| vec![SkillForm::WithoutExamples; left]);
    let least = (!best.is_empty()).then(|| vec![SkillForm::Essentials]);
    without_examples.chain(fewer).chain(least).find_map(forms).unwrap_or_default()
}

/// The tools that a turn with these skills is limited to: the union of their lists. A skill without a list removes
/// the limit.
fn limit(skills: &[&Skill]) -> Option<Arc<[String]>> {
    if skills.is_empty() {
        return None;
    }
    let lists: Option<Vec<_>> = skills.iter().map(|skill| skill.front.allowed_tools.as_deref()).collect();
    let mut patterns: Vec<String> = lists?.into_iter().flatten().cloned().collect();
    patterns.sort();
    patterns.dedup();
    Some(patterns.into())
}
