//! `resume`: resumes a suspended turn with a reply, in any process.
//!
//! - `submitted`: leaves the reply to a worker

mod submitted;

use std::io::{self, IsTerminal};
use std::path::{Path, PathBuf};

use bob::approvals::{ApprovalQuestion, Decision};
use bob::sessions::{ResumeReply, ResumeToken, SuspendReason};
use bob::store::{Session, Suspension};
use bob::{AgentRuntime, SessionId};
use bob_config::Config;
use bob_config::assemble::Choices;

use crate::arguments::ResumeArgs;
use crate::commands::{prompt, run};
use crate::control::Control;
use crate::exit::{Exit, Failure};
use crate::runtime::origin::Origin;
use crate::runtime::signals::Signals;
use crate::runtime::{OpenRuntime, asking, newest};
use crate::terminal::approval::visible;
use crate::terminal::question::{self, Said};
use crate::terminal::screen::look::Look;
use crate::terminal::{print, progress, settings};

/// Syntax of the decisions that are offered.
fn decisions(offers_always: bool) -> &'static str {
    match offers_always {
        true => "allow, allow-session, always, deny [REASON], deny-always [REASON] or edit JSON",
        false => "allow, allow-session, deny [REASON] or edit JSON",
    }
}

/// Resumes the turn and prints it like `run`. Errors: for an invalid token or reply; then nothing has changed.
pub(crate) async fn resume(args: &ResumeArgs, config: Config, origin: Origin) -> Result<Exit, Failure> {
    let mut signals = Signals::new().map_err(|error| Failure::internal(format!("cannot catch signals: {error}")))?;
    let token = ResumeToken::new(args.token.as_str());
    let session = token.session().ok_or_else(|| {
        Failure::usage(
            "invalid token; copy all of SESSION~SECRET as the suspended turn printed it, or continue a session with \
                 `cli-agent chat --resume ID`",
        )
    })?;
    if args.submit {
        return submitted::submit(args, &config, session, token, &mut signals).await;
    }
    let progress = Some(progress::to_stderr());
    let choices = Choices { progress, take_over: args.take_over, ..Choices::default() };
    let opened = OpenRuntime::open(&config, choices).await?;
    opened.warnings().print();
    let control = Control::open(&opened.runtime, &config, "resume", origin).await;
    let _attends = opened.attend();
    let said = tokio::select! {
        said = reply(args, &opened, &session, &token) => said,
        caught = signals.next() => Err(Failure::signalled(caught.exit())),
    };
    let result = match said {
        Ok(said) => match opened.runtime.resume_stream(token, said).await {
            Ok(stream) => run::told(&opened, stream, args.output, false, &mut signals).await,
            Err(error) => Err(error.into()),
        },
        Err(failure) => Err(failure),
    };
    opened.close(&mut signals).await;
    control.close().await;
    result
}

/// The session a token names, for the result object of a resume that did not begin.
pub(crate) fn session_of(token: &str) -> Option<String> {
    ResumeToken::new(token).session().map(|session| session.to_string())
}

/// Returns the reply: a decision if the turn waits for one, otherwise a text.
async fn reply(
    args: &ResumeArgs,
    opened: &OpenRuntime,
    session: &SessionId,
    token: &ResumeToken,
) -> Result<ResumeReply, Failure> {
    let folded = newest::read(&*opened.store, session).await?.session;
    let suspension = suspension(&folded, token)?;
    let offers_always = opened.runtime.offers_always();
    let given = (!args.reply.is_empty() && args.reply != ["-"]).then(|| args.reply.join(" "));
    let asks_server = folded.open.as_ref().is_some_and(|open| open.asks_server());
    if asks_server && args.reply.is_empty() && suspension.reason == SuspendReason::ExternalWait {
        return Ok(ResumeReply::Answer(String::new()));
    }
    if given.is_none() && args.reply.is_empty() && io::stdin().is_terminal() {
        let asked = asking::question(&*opened.store, &folded, offers_always).await?;
        if let Some(asked) = asked.filter(|_| suspension.reason == SuspendReason::ApprovalRequired) {
            let folder = folded.latest_options().cwd.clone();
            let folder = folder.map_or_else(|| opened.workspace.clone(), PathBuf::from);
            return decided(&folder, &asked, offers_always).await.map(ResumeReply::Decision);
        }
        if suspension.reason == SuspendReason::ApprovalRequired {
            print::note("what is asked is not known here; write allow or deny, and end the input with Ctrl-D");
        } else {
            print::note(&suspension.question);
            let answer = line("answer> ").await?.filter(|answer| !answer.is_empty());
            return answer.map(ResumeReply::Answer).ok_or_else(unanswered);
        }
    }
    let text = prompt::read_any(given.as_deref()).await?;
    understood(text, suspension.reason, offers_always)
}

/// What the session asks under this token. Errors: when no suspended turn has it.
fn suspension<'s>(session: &'s Session, token: &ResumeToken) -> Result<&'s Suspension, Failure> {
    let suspended = session.open.as_ref().and_then(|open| open.suspended.as_ref());
    suspended
        .filter(|suspension| suspension.token == *token)
        .ok_or_else(|| Failure::usage("no suspended turn has this token; it may have been answered already"))
}

/// The reply that a text is, or nothing.
fn understood(text: Option<String>, reason: SuspendReason, offers_always: bool) -> Result<ResumeReply, Failure> {
    match reason {
        SuspendReason::ApprovalRequired => {
            decision(text.unwrap_or_default().trim(), offers_always).map(ResumeReply::Decision)
        }
        SuspendReason::AskUser | SuspendReason::ExternalWait => text.map(ResumeReply::Answer).ok_or_else(|| {
            Failure::usage("the answer is empty; write it behind the token, or send it on stdin; the token stays valid")
        }),
    }
}

/// Asks the person at the terminal as a chat does, until an answer is one; each ends with Enter. What scripts say is taken
/// as well.
async fn decided(folder: &Path, asked: &ApprovalQuestion, offers_always: bool) -> Result<Decision, Failure> {
    print::report(&question::shown_in(folder, asked, Look::now(), false));
    tokio::time::sleep(question::PAUSE).await;
    settings::throw_away();
    loop {
        let answer = line(&question::prompt(asked)).await?.ok_or_else(unanswered)?;
        let made = match question::understood(&answer, asked) {
            Said::Decided(decision) => Ok(decision),
            Said::Whole => Err(question::shown_in(folder, asked, Look::now(), true)),
            Said::Edit => {
                print::note(&format!("the arguments: {}", visible(&question::to_edit(asked))));
                let arguments = line("arguments> ").await?.ok_or_else(unanswered)?;
                question::edited(&arguments).map_err(|complaint| format!("[{complaint}; the question is still open]"))
            }
            Said::Unclear => decision(answer.trim(), offers_always).map_err(|_invalid| question::unclear(asked)),
        };
        match made {
            Ok(decision) => {
                print::note(&question::told(&decision));
                return Ok(decision);
            }
            Err(text) => print::note(text.trim_end_matches('\n')),
        }
    }
}

/// A line that the person types behind this; `None` at the end of the input.
async fn line(prompt: &str) -> Result<Option<String>, Failure> {
    print::report(prompt);
    prompt::typed_line().await
}

fn unanswered() -> Failure {
    Failure::usage("nothing was decided; the token stays valid")
}

/// Parses a decision. Errors: a usage error for an invalid decision.
fn decision(text: &str, offers_always: bool) -> Result<Decision, Failure> {
    let (word, rest) = text.split_once(char::is_whitespace).unwrap_or((text, ""));
    let rest = rest.trim();
    let reason = || rest.to_owned();
    match (word, rest.is_empty()) {
        ("always" | "deny-always", _) if !offers_always => {
            let text = "is not offered here (policy.offer_always = false); nothing was decided";
            Err(Failure::usage(format!("`{word}` {text}; say {}", decisions(false))))
        }
        ("allow", true) => Ok(Decision::AllowOnce),
        ("allow-session", true) => Ok(Decision::AllowSession),
        ("always", true) => Ok(Decision::AllowAlways),
        ("deny", _) => Ok(Decision::Deny { reason: reason() }),
        ("deny-always", _) => Ok(Decision::DenyAlways { reason: reason() }),
        ("edit", false) => match serde_json::from_str(rest) {
            Ok(arguments @ serde_json::Value::Object(_)) => Ok(Decision::Edit { arguments }),
            Ok(_) => Err(Failure::usage("the arguments behind `edit` are not a JSON object; nothing was decided")),
            Err(error) => {
                let text = format!("the arguments behind `edit` are not JSON ({error}); nothing was decided");
                Err(Failure::usage(text))
            }
        },
        _ => Err(Failure::usage(format!(
            "the turn waits for a decision behind the token: {}; nothing was decided, and the token stays valid",
            decisions(offers_always)
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_decision_is_said_in_exactly_these_words() {
        let reason = |text: &str| text.to_owned();
        for (text, expected) in [
            ("allow", Decision::AllowOnce),
            ("allow-session", Decision::AllowSession),
            ("always", Decision::AllowAlways),
            ("deny", Decision::Deny { reason: String::new() }),
            ("deny  not today ", Decision::Deny { reason: reason("not today") }),
            ("deny-always never", Decision::DenyAlways { reason: reason("never") }),
            ("edit {\"a\": 1}", Decision::Edit { arguments: serde_json::json!({"a": 1}) }),
        ] {
            assert_eq!(decision(text, true), Ok(expected), "{text:?}");
        }
        for text in ["", "yes", "y", "Allow", "allow it", "always please", "edit", "edit 1", "edit {", "allow\nalways"]
        {
            assert!(decision(text, true).is_err_and(|failure| failure.exit == Exit::Usage), "{text:?}");
        }
        for (text, is_decided) in [("always", false), ("deny-always no", false), ("allow", true), ("deny no", true)] {
            assert_eq!(decision(text, false).is_ok(), is_decided, "{text:?}, where always is not offered");
        }
    }
}
