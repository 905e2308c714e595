use bob::model::StopReason;
use bob::sessions::{FinishReason, SuspendReason, TurnOutcome};
use bob::tools::CallStatus;

use super::{MOST_REASON, Show, guard};
use crate::terminal::{advice, brief, print};

pub(super) fn remarks(shown: &Show, outcome: &TurnOutcome) -> Vec<String> {
    let Show { has_denied, is_talk, is_on_a_pipe, limit, offers_always, is_new, .. } = *shown;
    let mut remarks = Vec::new();
    match outcome.finish_reason {
        FinishReason::Final => remarks.extend(outcome.stop_reason.and_then(cut_by).map(str::to_owned)),
        FinishReason::GuardExceeded => {
            let is_told = guard::is_sentence(outcome);
            let remark = |reason| guard::remark(&outcome.session_id, reason, limit, (is_talk, is_told));
            remarks.extend(outcome.guard_reason.into_iter().flat_map(remark));
        }
        FinishReason::Cancelled => remarks.push("[cancelled]".to_owned()),
        FinishReason::Suspended if is_talk && outcome.suspend_reason == Some(SuspendReason::AskUser) => {
            remarks.push("[your next line is the answer]".to_owned())
        }
        FinishReason::Suspended => {
            remarks.extend(how_to_resume(outcome, offers_always));
        }
        FinishReason::Error => {}
    }
    for denied in outcome.denied.iter().filter(|_| !has_denied) {
        let reason = print::first_line(brief::without_status(CallStatus::Denied, &denied.reason), MOST_REASON);
        remarks.push(format!("[denied: {}: {reason}]", denied.name));
    }
    // A person was asked, or chooses another mode.
    if !is_talk || is_on_a_pipe {
        remarks.extend(advice::to_allow(&outcome.denied, is_talk));
    }
    let kept = match (outcome.saved, &outcome.unsaved) {
        (true, _) => format!("saved in session {}", outcome.session_id),
        (false, Some(why)) => format!("warning: this turn could not be saved: {why}"),
        (false, None) => "warning: this turn could not be saved, or is not saved yet".to_owned(),
    };
    match &outcome.error {
        // There is nothing to come back to.
        Some(error) if (is_new || is_talk) && outcome.saved && is_nothing(outcome) => {
            remarks.extend([format!("error: {error}"), format!("[{}]", advice::what_to_do(error))]);
        }
        Some(error) => remarks.extend([format!("error: {error}"), format!("[{kept}; {}]", advice::what_to_do(error))]),
        None if !outcome.saved => remarks.push(format!("[{kept}]")),
        None => {}
    }
    remarks
}

/// Whether a turn failed before a model said or a tool did anything.
pub(crate) fn is_nothing(outcome: &TurnOutcome) -> bool {
    outcome.finish_reason == FinishReason::Error
        && outcome.content.trim().is_empty()
        && outcome.tool_transcript.is_empty()
        && outcome.usage.total_tokens == 0
}

/// How to resume a suspended turn; `offers_always` as in the policy.
pub(crate) fn how_to_resume(outcome: &TurnOutcome, offers_always: bool) -> Option<String> {
    let (reason, token) = (outcome.suspend_reason?, outcome.token.as_ref()?);
    Some(match reason {
        SuspendReason::AskUser => format!(
            "[the turn waits for your answer: send it as the next message of the session, or: \
             cli-agent resume {token} ANSWER]"
        ),
        SuspendReason::ApprovalRequired => {
            let (always, never) = if offers_always { (" always,", " deny-always REASON,") } else { ("", "") };
            format!(
                "[the turn waits for a decision: cli-agent resume {token} allow, \
                 or allow-session,{always} deny REASON,{never} edit JSON]"
            )
        }
        SuspendReason::ExternalWait => {
            // Whether it is a task is not in the outcome.
            format!(
                "[the turn waits for something outside: cli-agent resume {token} RESULT; without RESULT, a tool server is \
                 asked for the result of its task]"
            )
        }
    })
}

fn cut_by(reason: StopReason) -> Option<&'static str> {
    match reason {
        StopReason::MaxTokens => Some("[the answer was cut at the model's limit of tokens]"),
        StopReason::Refusal => Some("[the model declined]"),
        StopReason::ContentFilter => Some("[the provider's content filter ended the answer]"),
        StopReason::Stop | StopReason::ToolCalls | StopReason::Other => None,
    }
}
