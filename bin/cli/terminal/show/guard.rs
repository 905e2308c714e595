//! The words for a limit that ended a turn: what was used up, and what to do.

use bob::SessionId;
use bob::model::catalogue::Cost;
use bob::sessions::{GuardReason, TurnOutcome};

use super::took;

/// How the sentence of a guard begins that is the content of a turn without text.
const SENTENCE: &str = "Stopped: ";

/// Whether the content is the guard's own sentence.
pub(super) fn is_sentence(outcome: &TurnOutcome) -> bool {
    outcome.guard_reason.is_some() && outcome.content.starts_with(SENTENCE) && outcome.content.ends_with(").")
}

pub(crate) fn used(guard: GuardReason, limit: Option<u64>) -> (String, &'static str) {
    let of = |what: &str| match limit {
        None => format!("all {what}s"),
        Some(1) => format!("1 {what}"),
        Some(limit) => format!("{limit} {what}s"),
    };
    let of_time = |before: &str, unknown: &str| {
        limit.map_or_else(|| unknown.to_owned(), |limit| format!("{before} {}", took(limit)))
    };
    match guard {
        GuardReason::MaxSteps => (format!("{} used in this turn", of("model call")), "max_steps"),
        GuardReason::MaxToolCalls => (format!("{} used in this turn", of("tool call")), "max_tool_calls"),
        GuardReason::MaxConsecutiveErrors => (format!("{} in a row failed", of("tool call")), "max_consecutive_errors"),
        GuardReason::MaxIdenticalCalls => ("the same tool call again and again".to_owned(), "max_identical_calls"),
        GuardReason::MaxTotalTokens => (format!("{} used in this turn", of("token")), "max_total_tokens"),
        GuardReason::MaxCost => (
            limit.map_or_else(
                || "the turn reached its limit of cost".to_owned(),
                |micros| format!("{} spent in this turn", Cost::from_nanos(micros * 1_000)),
            ),
            "max_cost",
        ),
        GuardReason::TurnTimeout => (of_time("the turn took", "the turn reached its limit of time"), "turn_timeout_ms"),
        GuardReason::NoProgress => (of_time("no progress for", "no progress for too long"), "progress_timeout_ms"),
    }
}

/// The option of `run` that sets the limit for one turn.
fn option(guard: GuardReason) -> &'static str {
    match guard {
        GuardReason::MaxSteps => " --max-steps N",
        GuardReason::TurnTimeout => " --timeout-ms N",
        GuardReason::MaxToolCalls
        | GuardReason::MaxConsecutiveErrors
        | GuardReason::MaxIdenticalCalls
        | GuardReason::MaxTotalTokens
        | GuardReason::MaxCost
        | GuardReason::NoProgress => "",
    }
}

/// What was used up, and what to do about it. `is_talk`: the next line of input belongs to the session. `is_told`: the
/// content of the turn says what was used up.
pub(super) fn remark(
    session: &SessionId,
    guard: GuardReason,
    limit: Option<u64>,
    (is_talk, is_told): (bool, bool),
) -> Vec<String> {
    let (used, key) = used(guard, limit);
    if is_talk {
        return vec![format!("{SENTENCE}{used}. Type \"continue\", or raise runtime.{key}.")];
    }
    let on = format!("cli-agent run --resume {session}{} \"continue\"", option(guard));
    let told = (!is_told).then(|| format!("{SENTENCE}{used}."));
    told.into_iter().chain([format!("[to go on: {on}; or raise runtime.{key}]")]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_remark_says_what_was_used_up_and_what_to_do() {
        let session = SessionId::parse("s").unwrap();
        let remark = |guard, limit, is_talk, is_told| remark(&session, guard, limit, (is_talk, is_told)).join("\n");
        let calls = remark(GuardReason::MaxToolCalls, Some(8), true, true);
        let expected = "Stopped: 8 tool calls used in this turn. Type \"continue\", or raise runtime.max_tool_calls.";
        assert_eq!(calls, expected);
        let quiet = remark(GuardReason::NoProgress, Some(600_000), false, false);
        let expected = "Stopped: no progress for 10 min.\n\
                        [to go on: cli-agent run --resume s \"continue\"; or raise runtime.progress_timeout_ms]";
        assert_eq!(quiet, expected);
        assert!(remark(GuardReason::MaxSteps, None, true, false).starts_with("Stopped: all model calls used"));
        let timed = remark(GuardReason::TurnTimeout, None, false, false);
        assert!(timed.starts_with("Stopped: the turn reached its limit of time.\n"), "{timed}");
        assert!(timed.contains("--resume s --timeout-ms N \"continue\""), "{timed}");
        let told = remark(GuardReason::MaxSteps, Some(3), false, true);
        let expected = "[to go on: cli-agent run --resume s --max-steps N \"continue\"; or raise runtime.max_steps]";
        assert_eq!(told, expected);
    }
}
