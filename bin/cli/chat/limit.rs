use bob::approvals::LimitQuestion;
use bob::model::catalogue::Cost;
use bob::sessions::GuardReason;

use crate::terminal::question::{row, unframed};
use crate::terminal::screen::look::Look;
use crate::terminal::show::{guard, took};

/// The prompt behind which the person answers.
pub(super) const PROMPT: &str = "go on? [y/N] ";

/// Says what can be answered.
pub(super) const UNCLEAR: &str = "[enter y or n; Enter alone means no]";

pub(super) fn shown(question: &LimitQuestion, look: Look) -> String {
    let (used, key) = guard::used(question.guard, Some(question.limit));
    let mut text = String::new();
    row(&mut text, "┌ ", &format!("go on? {used} (runtime.{key})"), look);
    let until = match question.timeout_ms {
        0 => "waiting for your answer, without a time limit".to_owned(),
        ms => format!("the turn ends in {} without an answer", took(ms)),
    };
    row(&mut text, "└ ", &until, look);
    let mut text = unframed(text);
    text.push_str(&format!("y: yes, {} · n: no, end the turn\n", more(question.guard, question.portion)));
    text
}

/// What a yes gives.
fn more(guard: GuardReason, portion: u64) -> String {
    match guard {
        GuardReason::MaxSteps | GuardReason::MaxToolCalls | GuardReason::MaxTotalTokens => format!("{portion} more"),
        GuardReason::MaxCost => format!("{} more", Cost::from_nanos(portion * 1_000)),
        GuardReason::NoProgress | GuardReason::TurnTimeout => format!("wait another {}", took(portion)),
        GuardReason::MaxConsecutiveErrors | GuardReason::MaxIdenticalCalls => "let it try again".to_owned(),
    }
}

/// Parses a line; `None` is neither a yes nor a no.
pub(super) fn understood(line: &str) -> Option<bool> {
    match line.trim().to_lowercase().as_str() {
        "y" | "yes" | "continue" | "go on" => Some(true),
        "" | "n" | "no" => Some(false),
        _anything_else => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bob::approvals::ApprovalId;
    use bob::sessions::TurnId;

    #[test]
    fn the_question_says_what_is_used_what_a_yes_gives_and_when_the_turn_ends() {
        let question = |guard, limit, portion| LimitQuestion {
            session: bob::SessionId::parse("s").unwrap(),
            context: None,
            turn: TurnId::new("t"),
            approval_id: ApprovalId::new("s-limit6"),
            guard,
            limit,
            portion,
            timeout_ms: 600_000,
        };
        let shown =
            |guard, limit, portion| shown(&question(guard, limit, portion), Look { columns: 80, colour: false });
        assert_eq!(
            shown(GuardReason::MaxSteps, 200, 100),
            "┌ go on? 200 model calls used in this turn (runtime.max_steps)\n\
             └ the turn ends in 10 min without an answer\n\
             y: yes, 100 more · n: no, end the turn\n"
        );
        let cost = shown(GuardReason::MaxCost, 1_500_000, 500_000);
        assert!(cost.contains("1.5 spent in this turn") && cost.contains("yes, 0.5 more"), "{cost}");
        let quiet = shown(GuardReason::NoProgress, 600_000, 600_000);
        assert!(quiet.contains("no progress for 10 min") && quiet.contains("wait another 10 min"), "{quiet}");
    }

    #[test]
    fn only_a_yes_goes_on() {
        assert_eq!(
            ["y", " YES ", "n", "", "maybe", "yes please"].map(understood),
            [Some(true), Some(true), Some(false), Some(false), None, None]
        );
    }
}
