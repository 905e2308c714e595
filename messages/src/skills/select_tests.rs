//! Which skills a request gets.

use super::{
    Asked, FrontMatter, Selection, Skill, SkillForm, SkillIndex, SkillRules, SkillScores, admit, others, render, select,
};
use crate::ids::ToolName;
use crate::tools::{Risk, ToolDescriptor, ToolKind, ToolSet, ToolSource};
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::sync::Arc;

const BODY: &str = "Read it.\n\n## Checklist\n- all pages\n\n## Examples\nA long example of it.\n- [ ] boxed\n";

fn skill(name: &str, description: &str) -> FrontMatter {
    FrontMatter { name: name.into(), description: description.into(), ..FrontMatter::default() }
}

fn index(fronts: impl IntoIterator<Item = FrontMatter>) -> SkillIndex {
    let skill = |front: FrontMatter| {
        let (folder, hash) = (format!("/s/{}", front.name), format!("hash of {}", front.name));
        Arc::new(Skill::new(front, BODY.into(), folder, hash))
    };
    SkillIndex { skills: fronts.into_iter().map(skill).collect(), findings: Vec::new() }
}

fn skills() -> SkillIndex {
    let mut invoices = skill("invoices", "Checks invoices and sums amounts");
    invoices.metadata = BTreeMap::from([("labels".into(), "billing, money".into()), ("team".into(), "finance".into())]);
    let mut review = skill("code-review", "Reviews changes of Rust code for mistakes");
    review.allowed_tools = Some(Arc::from(["local/read_file".to_owned(), "local/search*".to_owned()]));
    let mut deploy = skill("deploy", "Deploys a service");
    deploy.allowed_tools = Some(Arc::from(["Bash(kubectl:*)".to_owned()]));
    index([invoices, review, deploy, skill("letters", "Writes letters in a friendly tone")])
}

fn tools(names: &[&str]) -> ToolSet {
    let tool = |name: &&str| {
        Arc::new(ToolDescriptor {
            id: ToolName::new(*name),
            title: String::new(),
            kind: ToolKind::Other,
            description: String::new(),
            schema: serde_json::json!({}),
            source: ToolSource::Local,
            risk: Risk::Low,
            risk_from: Default::default(),
            idempotent: false,
            read_only: true,
        })
    };
    ToolSet::from(names.iter().map(tool).collect::<Vec<_>>())
}

fn asked<'a>(labels: &'a BTreeMap<String, String>, tools: &'a ToolSet) -> Asked<'a> {
    let (context_tokens, most_bytes) = (100_000, 64 * 1024);
    let (text, beside, named, role, scores) = ("", "", &[], None, None);
    Asked { text, beside, named, labels, tools, role, scores, context_tokens, most_bytes }
}

fn chosen(text: &str, labels: &[(&str, &str)], rules: &SkillRules) -> Selection {
    let labels = labels.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
    let tools = tools(&["local/read_file", "local/write_file", "local/search_files"]);
    select(&skills(), Asked { text, ..asked(&labels, &tools) }, rules)
}

fn scores(text: &str, labels: &[(&str, &str)]) -> Vec<(String, u32)> {
    let selection = chosen(text, labels, &SkillRules::default());
    selection.chosen.skills.into_iter().map(|skill| (skill.name, skill.score_milli)).collect()
}

#[test]
fn what_a_request_gets() {
    let of = |name: &str, score| vec![(name.to_owned(), score)];
    assert_eq!(scores("Hello there, how are you?", &[]), vec![]);
    // A name counts 1.0, wherever it stands and whatever is around it.
    assert_eq!(scores("Please use $letters.", &[]), of("letters", 1_100));
    assert_eq!(scores("(/letters)", &[]), of("letters", 1_100));
    assert_eq!(scores("do a code-review!", &[]), of("code-review", 1_200));
    // A plain word is a name only when a hyphen makes sure of it; else it is a keyword.
    assert_eq!(scores("write letters", &[]), of("letters", 150));
    assert_eq!(scores("look at /usr/letters/a", &[]), of("letters", 100));
    // Keywords: two of them, or one of the name.
    assert_eq!(scores("in a friendly voice", &[]), vec![]);
    assert_eq!(scores("in a friendly tone", &[]), of("letters", 100));
    assert_eq!(scores("friendly tone, letter, LETTERS", &[]), of("letters", 200));
    // Labels: the same pair, or a value that is listed.
    assert_eq!(scores("go", &[("kind", "Billing")]), of("invoices", 400));
    assert_eq!(scores("go", &[("team", "finance"), ("kind", "money")]), of("invoices", 400));
    assert_eq!(scores("go", &[("finance", "team")]), vec![]);
    // The best first.
    let both = scores("$letters and a sum of amounts", &[("kind", "billing")]);
    assert_eq!(both, vec![("letters".to_owned(), 1_100), ("invoices".to_owned(), 500)]);
}

#[test]
fn a_skill_none_of_whose_tools_is_on_offer_is_not_chosen() {
    assert_eq!(scores("$deploy the service", &[]), vec![]);
}

#[test]
fn tools_are_limited_to_what_all_chosen_skills_name() {
    let allow = |text: &str| chosen(text, &[], &SkillRules::default()).chosen.allow_tools;
    assert_eq!(allow("hello"), None);
    assert_eq!(allow("$letters"), None);
    assert_eq!(allow("$code-review").as_deref(), Some(&["local/read_file".to_owned(), "local/search*".to_owned()][..]));
    // One that says nothing of tools may use whatever the session may.
    assert_eq!(allow("$code-review $letters"), None);
}

#[test]
fn examples_go_first_then_skills_then_all_but_the_essentials() {
    let text = "$letters $invoices";
    let at = |tokens: u64| {
        let rules = SkillRules { token_budget_tokens: Some(tokens), ..SkillRules::default() };
        let selection = chosen(text, &[], &rules);
        let layer = render(&skills(), &selection.chosen);
        assert!(layer.text.len() as u64 <= tokens * 4, "{tokens}: {}", layer.text);
        assert!(layer.missing.is_empty());
        let shown: Vec<_> = layer.shown.iter().map(|skill| (skill.name.clone(), skill.form)).collect();
        (shown, selection.dropped, layer.text)
    };
    use SkillForm::{Essentials, Whole, WithoutExamples};
    let shown =
        |forms: &[(&str, SkillForm)]| forms.iter().map(|(name, form)| ((*name).to_owned(), *form)).collect::<Vec<_>>();
    let mut seen = Vec::new();
    for tokens in (0..200).rev() {
        let (forms, dropped, text) = at(tokens);
        for (_, form) in &forms {
            assert!(text.contains("- all pages") && text.contains("- [ ] boxed"), "a checklist stays");
            assert_eq!(text.contains("Read it."), *form != Essentials);
        }
        if seen.last() != Some(&(forms.clone(), dropped.clone())) {
            seen.push((forms, dropped));
        }
    }
    let dropped = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
    assert_eq!(
        seen,
        vec![
            (shown(&[("invoices", Whole), ("letters", Whole)]), vec![]),
            (shown(&[("invoices", Whole), ("letters", WithoutExamples)]), vec![]),
            (shown(&[("invoices", WithoutExamples), ("letters", WithoutExamples)]), vec![]),
            (shown(&[("invoices", WithoutExamples)]), dropped(&["letters"])),
            (shown(&[("invoices", Essentials)]), dropped(&["letters"])),
            (vec![], dropped(&["invoices", "letters"])),
        ]
    );
}

#[test]
fn a_choice_is_rendered_again_without_what_is_gone() {
    let selection = chosen("$letters $invoices", &[], &SkillRules::default());
    let mut index = skills();
    index.skills.retain(|skill| skill.name() != "invoices");
    let layer = render(&index, &selection.chosen);
    assert_eq!(layer.missing, ["invoices"]);
    assert!(layer.text.contains("## Skill letters") && !layer.text.contains("invoices"));
}

prop_compose! {
    fn any_index()(fronts in prop::collection::btree_map("[a-d]{1,2}(-[a-d])?", ("([a-d]{3} ){0,6}", prop::option::of(any::<bool>())), 0..7)) -> SkillIndex {
        index(fronts.into_iter().map(|(name, (description, tools))| FrontMatter {
            allowed_tools: tools.map(|is_there| Arc::from([if is_there { "local/*" } else { "mcp/x/*" }.to_owned()])),
            ..skill(&name, &description)
        }))
    }
}

#[test]
fn roles_are_judged_and_scores_of_a_port_replace_those_here() {
    let mut index = skills();
    Arc::make_mut(&mut index.skills[0]).front.metadata.insert("roles".into(), "clerk, Auditor".into());
    let (labels, tools) = (BTreeMap::new(), tools(&["local/read_file"]));
    let names = |role: Option<&str>, scores: Option<&SkillScores>| {
        let asked = Asked { text: "$invoices $letters", role, scores, ..asked(&labels, &tools) };
        let chosen = select(&index, asked, &SkillRules::default()).chosen.skills;
        chosen.into_iter().map(|skill| (skill.name, skill.score_milli)).collect::<Vec<_>>()
    };
    let of = |pairs: &[(&str, u32)]| pairs.iter().map(|(name, score)| ((*name).to_owned(), *score)).collect::<Vec<_>>();
    assert_eq!(names(None, None), of(&[("letters", 1_100)]));
    assert_eq!(names(Some("painter"), None), of(&[("letters", 1_100)]));
    assert_eq!(names(Some("auditor"), None), of(&[("invoices", 1_100), ("letters", 1_100)]));
    let scores = SkillScores::from([("code-review".into(), 700), ("letters".into(), 99), ("invoices".into(), 100)]);
    assert_eq!(names(None, Some(&scores)), of(&[("code-review", 700)]));
    assert_eq!(names(Some("clerk"), Some(&scores)), of(&[("code-review", 700), ("invoices", 100)]));
}

#[test]
fn skills_that_were_asked_for_come_first_and_beyond_top_k_and_limit_no_tools() {
    let (labels, tools) = (BTreeMap::new(), tools(&["local/read_file"]));
    let named = ["letters".to_owned(), "gone".to_owned(), "code-review".to_owned()];
    let asked = Asked { text: "$invoices", named: &named, ..asked(&labels, &tools) };
    let names = |top_k| {
        let selection = select(&skills(), asked, &SkillRules { top_k, ..SkillRules::default() });
        assert_eq!(selection.chosen.allow_tools, None);
        selection.chosen.skills.into_iter().map(|skill| skill.name).collect::<Vec<_>>()
    };
    assert_eq!(names(1), ["letters", "code-review"]);
    assert_eq!(names(3), ["letters", "code-review", "invoices"]);
    let all = |tokens| {
        let rules = SkillRules { token_budget_tokens: Some(tokens), ..SkillRules::default() };
        (select(&skills(), asked, &rules).chosen, admit(&skills(), &named, tokens * 4))
    };
    for tokens in 0..400 {
        let (chosen, is_admitted) = all(tokens);
        let first: Vec<_> = chosen.skills.iter().take(2).map(|skill| skill.name.as_str()).collect();
        assert_eq!(first == ["letters", "code-review"], is_admitted, "what is admitted is chosen, at {tokens} tokens");
    }
}

#[test]
fn a_port_renders_its_skills_and_the_others_are_listed_within_a_quarter_of_the_budget() {
    let mut index = skills();
    let own = |_: &Skill, form: SkillForm| Some(format!("as {form:?}"));
    index.skills[3] = Arc::new((*index.skills[3]).clone().rendered(own));
    let (labels, tools) = (BTreeMap::new(), tools(&["local/read_file"]));
    let chosen = select(&index, Asked { text: "$letters", ..asked(&labels, &tools) }, &SkillRules::default()).chosen;
    let text = render(&index, &chosen).text;
    assert!(text.ends_with("\n## Skill letters\nas Whole\n"), "{text}");
    let listed = |bytes: u64, taken: usize| others(index.skills.iter().map(|skill| &**skill), bytes, taken);
    assert!(listed(4_000, 0).contains("| code-review |") && listed(4_000, 0).contains("| letters |"));
    for bytes in 0..1_200 {
        let text = listed(bytes, 0);
        assert!(text.len() as u64 * 4 <= bytes, "{bytes}: {text}");
        assert!(listed(bytes, 300).len() as u64 + 300 <= bytes.max(300));
    }
}

proptest! {
    #[test]
    fn the_order_of_the_index_means_nothing_and_no_budget_is_exceeded(
        index in any_index(), text in "([$/]?[a-d]{1,3}(-[a-d])? ){0,8}", top_k in 0_usize..5, tokens in 0_u64..400, turn in 0_usize..7,
    ) {
        let tools = tools(&["local/read_file"]);
        let labels = BTreeMap::new();
        let asked = Asked { text: &text, context_tokens: 1_000, most_bytes: 1_200, ..asked(&labels, &tools) };
        let rules = SkillRules { top_k, token_budget_ratio: 0.5, token_budget_tokens: Some(tokens), role: None };
        let selection = select(&index, asked, &rules);
        let mut other = index.clone();
        other.skills.rotate_left(turn.min(index.skills.len()));
        other.skills.reverse();
        prop_assert_eq!(&select(&other, asked, &rules), &selection);
        let layer = render(&index, &selection.chosen);
        prop_assert!(layer.text.len() as u64 <= (tokens * 4).min(1_200));
        prop_assert!(layer.missing.is_empty());
        prop_assert!(selection.chosen.skills.len() + selection.dropped.len() <= top_k);
        // More room never shows less, and another mention never takes a skill away.
        let more = SkillRules { token_budget_tokens: Some(tokens + 25), ..rules.clone() };
        let roomier = render(&index, &select(&index, asked, &more).chosen);
        prop_assert!(roomier.text.len() >= layer.text.len());
        for skill in &index.skills {
            let unlimited = SkillRules { top_k: 9, token_budget_tokens: Some(9_000), ..rules.clone() };
            let wide = Asked { most_bytes: 99_000, ..asked };
            let before = select(&index, wide, &unlimited).chosen;
            let said = format!("{text} ${}", skill.name());
            let after = select(&index, Asked { text: &said, ..wide }, &unlimited).chosen;
            for kept in &before.skills {
                let still = after.skills.iter().find(|skill| skill.name == kept.name);
                prop_assert!(still.is_some_and(|still| still.score_milli >= kept.score_milli));
            }
        }
    }
}
