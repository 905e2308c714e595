//! Calls and answers that the end of a turn, or of a program, interrupted.
//!
//! "Cancelled" means that nothing has happened. So at every end a call of a tool that changes something, and that may have
//! begun, is `outcome unknown`: also one that could be repeated, since at an end nothing is repeated. The result of a call
//! that was running has the time it ran and its output until then. After a crash a call in doubt runs again only if that
//! does no harm.
//!
//! Of an answer of the model, what readers have seen is kept: it is part of the conversation, for the person and for the
//! next prompt.

use super::server_waits::given_up;
use super::state::{Running, Slot, State};
use super::{Effect, Turn};
use crate::chat::{CallStatus, ToolCall, Usage};
use crate::session_state::OpenCall;
use crate::store::Ended;
use crate::tools::ToolReturn;

/// The results of calls that no tool answered; those in older journals begin alike.
pub(crate) const NOT_BEGUN: &str = "cancelled: the turn ended first";
pub(crate) const INTERRUPTED: &str = "outcome unknown: the turn ended while the tool was running";
pub(crate) const PROGRAM_STOPPED: &str = "outcome unknown: the program stopped while the tool was running";

/// The most bytes of a call's output that its result keeps when the call is interrupted: the last ones.
const MOST_OUTPUT_BYTES: usize = 64 * 1024;

impl Turn {
    /// Gives every open call a result, since the turn ends here; `slots` is how far its calls are, where that is known.
    pub(super) fn settle_calls(&mut self, slots: &[Slot], effects: &mut Vec<Effect>) {
        let given_up: Vec<_> = self.open_calls().iter().filter_map(given_up).collect();
        let lasted_ms = self.now.lasted_ms;
        self.settle(effects, |at, open| {
            let running = match slots.get(at) {
                Some(Slot::Running(running)) => Some(running),
                _not_running => None,
            };
            let returned = match may_have_begun(open) {
                true => interrupted(CallStatus::Unknown, INTERRUPTED, running, lasted_ms),
                false => interrupted(CallStatus::Cancelled, NOT_BEGUN, running, lasted_ms),
            };
            Some(Self::ended_asking(open, returned))
        });
        self.give_up(given_up);
    }

    /// Gives calls that may have run a result, unless they may run again.
    pub(super) fn settle_doubts(&mut self) {
        self.settle(&mut Vec::new(), |_, open| {
            let may_run_again = open.intent.is_none_or(|traits| traits.idempotent || traits.read_only);
            // One that came back to wait is in no doubt.
            let came_back = open.outside.as_ref().is_some_and(|outside| !outside.sent);
            let in_doubt = !came_back && open.below.is_none() && !may_run_again;
            in_doubt.then(|| ToolReturn::note(CallStatus::Unknown, PROGRAM_STOPPED))
        });
    }

    fn settle(&mut self, effects: &mut Vec<Effect>, result: impl Fn(usize, &OpenCall) -> Option<ToolReturn>) {
        let open = self.open_turn().and_then(|open| open.step.as_ref());
        let calls: Vec<_> = open.map_or_else(Vec::new, |step| step.calls.clone());
        for (at, open) in calls.iter().enumerate().filter(|(_, open)| open.result.is_none()) {
            if let Some(returned) = result(at, open) {
                self.answer(&open.call, returned, effects);
            }
        }
    }

    /// The end of the run, with what readers have seen of the answer that it interrupts, and the tokens that this cost.
    pub(super) fn interrupted_answer(&self, state: &State, ended: Ended) -> Ended {
        let (State::LlmInfer { asked: true, prompt_bytes, seen, .. }, Some(session)) = (state, &self.session) else {
            return ended;
        };
        let per_kb = self.frame.as_ref().map_or(session.tokens_per_kb, |frame| frame.tokens_per_kb(session));
        let tokens = |bytes: u64| bytes.saturating_mul(per_kb) / 1_000;
        let (input_tokens, output_tokens) =
            (tokens(*prompt_bytes), tokens(seen.as_ref().map_or(0, |seen| seen.len() as u64)));
        let total_tokens = input_tokens + output_tokens;
        let estimated = Some(Usage { input_tokens, output_tokens, total_tokens, ..Usage::default() });
        match seen {
            Some(seen) => Ended { content: seen.to_string(), partial: true, estimated, ..ended },
            None => Ended { estimated, ..ended },
        }
    }

    /// The result of a call that is not sent to its tool. If it may have run before a crash, that stays unknown.
    pub(super) fn not_run(&self, call: &ToolCall, why: ToolReturn) -> ToolReturn {
        let open = self.open_call(&call.id);
        match open.filter(|open| may_have_begun(open)) {
            Some(open) if open.server_wait().is_some() => taken(&why),
            Some(_) => doubted(&why),
            None => why,
        }
    }

    /// What came back of a call, with what only the machine knows of it.
    pub(super) fn as_it_is_known(&self, slot: &Slot, returned: ToolReturn) -> ToolReturn {
        let Slot::Running(running) = slot else { return returned };
        match returned.status {
            // It was refused now, or its host was not available; whether it ran before the crash is still unknown.
            CallStatus::Denied | CallStatus::Cancelled if running.doubted => doubted(&returned),
            // Its actor is gone, and with it the time it took.
            CallStatus::Unknown if returned.duration_ms == 0 => {
                ToolReturn { duration_ms: self.now.lasted_ms.saturating_sub(running.since_ms), ..returned }
            }
            _as_it_was_told => returned,
        }
    }
}

/// The result of a call that may have run before a crash of the program.
pub(super) fn doubted(why: &ToolReturn) -> ToolReturn {
    let text = format!("{PROGRAM_STOPPED}; it was not run again: {}", why.output.for_model());
    ToolReturn::note(CallStatus::Unknown, text)
}

/// The result of a call that its server has taken, and that ends without its server.
fn taken(why: &ToolReturn) -> ToolReturn {
    let text =
        format!("outcome unknown: the tool server had taken the call, which was given up: {}", why.output.for_model());
    ToolReturn::note(CallStatus::Unknown, text)
}

/// Whether a call has changed something, perhaps: its intent is written and it has no result.
fn may_have_begun(open: &OpenCall) -> bool {
    open.intent.is_some_and(|traits| !traits.read_only)
}

fn interrupted(status: CallStatus, text: &str, running: Option<&Running>, lasted_ms: u64) -> ToolReturn {
    let Some(running) = running else { return ToolReturn::note(status, text) };
    let duration_ms = lasted_ms.saturating_sub(running.since_ms);
    let mut text = format!("{text}, after {}.{} s", duration_ms / 1_000, duration_ms % 1_000 / 100);
    if let Some(output) = &running.output {
        text.push_str("; its output so far:\n");
        text.push_str(&output[output.ceil_char_boundary(output.len().saturating_sub(MOST_OUTPUT_BYTES))..]);
    }
    ToolReturn { duration_ms, ..ToolReturn::note(status, text) }
}

impl State {
    /// How far the calls of the open step are, where they are looked at.
    pub(super) fn slots(&self) -> &[Slot] {
        match self {
            Self::CallTool(calling) => &calling.slots,
            Self::Idle
            | Self::Load { .. }
            | Self::Start(_)
            | Self::BuildPrompt
            | Self::Condense(_)
            | Self::ReselectSkills(_)
            | Self::LlmInfer { .. }
            | Self::ParseAction(_)
            | Self::AtLimit(_)
            | Self::Done(_) => &[],
        }
    }
}
