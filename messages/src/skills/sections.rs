//! Finds examples and checklists in a skill's body.
//!
//! An example is a section whose heading has that word; it ends at the next heading of its level. A checklist is a
//! section whose heading has that word, and every list item with a box (`- [ ]`). Fenced code has no headings and no
//! items.

use super::SkillForm;

pub(super) fn in_form(body: &str, form: SkillForm) -> String {
    match form {
        SkillForm::Whole => body.trim().to_owned(),
        SkillForm::WithoutExamples => kept(body, |line| !line.is_example || line.is_checklist),
        SkillForm::Essentials => kept(body, |line| line.is_checklist),
    }
}

struct Line<'b> {
    text: &'b str,
    is_example: bool,
    is_checklist: bool,
}

fn kept(body: &str, keeps: impl Fn(&Line<'_>) -> bool) -> String {
    let kept: Vec<&str> = lines(body).filter(keeps).map(|line| line.text).collect();
    kept.join("\n").trim().to_owned()
}

fn lines(body: &str) -> impl Iterator<Item = Line<'_>> {
    let mut fence: Option<(char, usize)> = None;
    let (mut example, mut checklist): (Option<usize>, Option<usize>) = (None, None);
    body.lines().map(move |text| {
        let trimmed = text.trim_start();
        let is_fenced = fence.is_some();
        fence = match (fence, fence_of(trimmed)) {
            (None, opened) => opened,
            // A fence is closed by at least as many of its own marks alone on a line.
            (Some((mark, most)), Some((closing, many)))
                if mark == closing && many >= most && trimmed.trim_end().chars().all(|letter| letter == mark) =>
            {
                None
            }
            (open, _) => open,
        };
        if !is_fenced && let Some((rank, title)) = heading(text) {
            let over = |open: &usize| rank <= *open;
            example.take_if(|open| over(open));
            checklist.take_if(|open| over(open));
            let has = |word: &str| {
                title.split(|letter: char| !letter.is_alphanumeric()).any(|said| said.eq_ignore_ascii_case(word))
            };
            if has("example") || has("examples") {
                example.get_or_insert(rank);
            }
            if has("checklist") || has("checklists") {
                checklist.get_or_insert(rank);
            }
        }
        let is_item = !is_fenced && has_box(trimmed);
        Line { text, is_example: example.is_some(), is_checklist: checklist.is_some() || is_item }
    })
}

fn fence_of(line: &str) -> Option<(char, usize)> {
    let mark = line.chars().next().filter(|mark| matches!(mark, '`' | '~'))?;
    let many = line.chars().take_while(|letter| *letter == mark).count();
    (many >= 3).then_some((mark, many))
}

/// Level of a heading, from 1, and its text.
fn heading(line: &str) -> Option<(usize, &str)> {
    let title = line.trim_start_matches('#');
    let rank = line.len() - title.len();
    ((1..=6).contains(&rank) && title.starts_with([' ', '\t'])).then_some((rank, title))
}

fn has_box(line: &str) -> bool {
    let item = line.strip_prefix(['-', '*', '+']).map(str::trim_start);
    item.is_some_and(|item| ["[ ]", "[x]", "[X]"].iter().any(|mark| item.starts_with(mark)))
}
