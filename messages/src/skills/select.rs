//! Selects the skills for a request: a pure function of the request, the skills, the available tools and the rules.
//!
//! **Eligibility.** A skill that lists tools is eligible if one of them is available, or if it lists none; the
//! available tools are those that policy and session allow. One that lists roles is eligible in sessions with one of
//! them. **Score.** 1.0 if the user mentions its name, 0.4 if it shares a label with the request, and 0.05 for each
//! shared keyword up to 0.2, where a word of its name counts twice; less than 0.1 is irrelevant. A port may score
//! instead. **Order.** First those that the model asked for, then by score, then by name; the best `top_k` are taken,
//! and all that were asked for.
//!
//! **Size.** The limit is never exceeded. Examples are cut first, from the last skill up; then whole skills, from the
//! last up; the last remaining one keeps its front matter and its checklists. The steps do not depend on the limit,
//! so more space never shows less.

use super::render::bytes;
use super::words::Heard;
use super::{SelectedSkill, SelectedSkills, Skill, SkillForm, SkillIndex, SkillRules, SkillScores, patterns};
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
    /// Text of models and tools about it. Its keywords count, and its mentions of names do not.
    pub beside: &'a str,
    /// The skills that the model asked for, oldest first.
    pub named: &'a [String],
    /// The request's labels.
    pub labels: &'a BTreeMap<String, String>,
    /// The tools on offer in this turn.
    pub tools: &'a ToolSet,
    /// The role of the session; `None` has only skills for every role.
    pub role: Option<&'a str>,
    /// The scores of the port, instead of those that are computed here.
    pub scores: Option<&'a SkillScores>,
    /// The model's context, in tokens.
    pub context_tokens: u32,
    /// Limit of the layer in bytes, regardless of the rules.
    pub most_bytes: usize,
}

impl Asked<'_> {
    fn budget_bytes(&self, rules: &SkillRules) -> u64 {
        let most = u64::try_from(self.most_bytes).unwrap_or(u64::MAX);
        rules.budget_tokens(self.context_tokens).saturating_mul(BYTES_PER_TOKEN).min(most)
    }
}

/// The selected skills, and those left out for lack of space.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Selection {
    /// The choice.
    pub chosen: SelectedSkills,
    /// Names of skills among the best `top_k` that did not fit, in their order.
    pub dropped: Vec<String>,
}

struct Ranked<'a> {
    skill: &'a Arc<Skill>,
    /// Its place among those that the model asked for; last, if it did not.
    named: usize,
    score: u32,
    said: u32,
}

/// Chooses. The order of the index means nothing.
pub fn select(index: &SkillIndex, asked: Asked<'_>, rules: &SkillRules) -> Selection {
    let (said, beside) = (Heard::of(asked.text), Heard::of(asked.beside));
    let rank = |skill: &'_ Arc<Skill>| {
        let named = asked.named.iter().position(|named| named == skill.name()).unwrap_or(usize::MAX);
        let (score, said) = match asked.scores {
            Some(scores) => {
                let score = scores.get(skill.name()).copied().unwrap_or(0);
                (score, score)
            }
            None => (score(skill, &said, Some(&beside), asked.labels), score(skill, &said, None, asked.labels)),
        };
        (named, score, said)
    };
    let ranked = index.skills.iter().map(|skill| {
        let (named, score, said) = rank(skill);
        Ranked { skill, named, score, said }
    });
    let mut ranked: Vec<_> = ranked.filter(|ranked| ranked.score >= LEAST || ranked.named < usize::MAX).collect();
    ranked.sort_by(|a, b| {
        let by_score = || b.score.cmp(&a.score).then_with(|| a.skill.name().cmp(b.skill.name()));
        a.named.cmp(&b.named).then_with(by_score)
    });
    // Tools are only checked for as many skills as needed.
    let usable = ranked.into_iter().filter(|ranked| is_eligible(ranked.skill, asked.tools, asked.role));
    let usable = usable.enumerate().take_while(|(at, ranked)| *at < rules.top_k || ranked.named < usize::MAX);
    let ranked: Vec<_> = usable.map(|(_, ranked)| ranked).collect();
    let budget_bytes = asked.budget_bytes(rules);
    let best: Vec<&Skill> = ranked.iter().map(|ranked| &**ranked.skill).collect();
    let fit = fitting(&best, usize::try_from(budget_bytes).unwrap_or(usize::MAX));
    let dropped = best[fit.len()..].iter().map(|skill| skill.name().to_owned()).collect();
    let selected = |(ranked, form): (&Ranked<'_>, &SkillForm)| SelectedSkill {
        name: ranked.skill.name().to_owned(),
        hash: ranked.skill.hash.clone(),
        score_milli: ranked.score,
        form: *form,
    };
    let skills = ranked.iter().zip(&fit).map(selected).collect();
    // What a model asked for limits no tools, and lifts no limit.
    let by_user = ranked[..fit.len()].iter().filter(|ranked| ranked.said >= LEAST);
    let allow_tools = limit(&by_user.map(|ranked| &**ranked.skill).collect::<Vec<_>>());
    Selection { chosen: SelectedSkills { skills, allow_tools, budget_bytes }, dropped }
}

/// Whether a skill that the model asks for fits into the budget beside those that it asked for before.
pub fn admit(index: &SkillIndex, named: &[String], budget_bytes: u64) -> bool {
    let skills: Vec<&Skill> = named.iter().filter_map(|name| index.get(name)).map(|skill| &**skill).collect();
    fitting(&skills, usize::try_from(budget_bytes).unwrap_or(usize::MAX)).len() == skills.len()
}

/// Whether a skill can do anything in a session: it lists no tools or one of them is on offer, and it lists no roles or
/// the session has one of them.
pub fn is_eligible(skill: &Skill, tools: &ToolSet, role: Option<&str>) -> bool {
    let mut roles = skill.roles().peekable();
    let is_for_role = roles.peek().is_none() || roles.any(|one| role.is_some_and(|own| own.eq_ignore_ascii_case(one)));
    is_for_role && is_usable(skill, tools)
}

fn is_usable(skill: &Skill, tools: &ToolSet) -> bool {
    let Some(patterns) = &skill.front.allowed_tools else { return true };
    let is_meant = |name: &str| patterns.iter().any(|pattern| patterns::matches(pattern, name));
    patterns.is_empty() || tools.tools().iter().any(|tool| is_meant(tool.id.as_str()))
}

fn score(skill: &Skill, said: &Heard, beside: Option<&Heard>, labels: &BTreeMap<String, String>) -> u32 {
    let mention = if said.mentions(skill.name()) { MENTION } else { 0 };
    let label = if shares_label(skill, labels) { LABEL } else { 0 };
    let count = |words: &[String]| said.count_with(beside, words);
    let shared = 2 * count(&skill.name_words) + count(&skill.words);
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
