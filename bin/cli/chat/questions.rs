//! Questions during a turn: the port that receives them, and the prompt, one question at a time.
//!
//! While a question is open, no other output is drawn and nothing else reads the keyboard; input typed before the
//! question was visible does not answer it. A withdrawn question is not asked.

use std::convert::Infallible;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bob::approvals::{ApprovalId, ApprovalPort, ApprovalQuestion, Decision, LimitQuestion};
#[cfg(feature = "mcp")]
use bob::approvals::{Elicitation, ElicitationAnswer};
use bob::tools::ToolName;
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::timeout;

use super::editor::Editor;
#[cfg(feature = "mcp")]
use super::forms;
use super::terminal_owner::{self, Editing, Keyboard, TerminalOwner};
use super::{Input, Source, limit};
use crate::terminal::question::{self as asking, Said};
use crate::terminal::screen::look::Look;
use crate::terminal::{notify, print, settings};

const EDIT_PROMPT: &str = "arguments> ";

/// Shown when a question is withdrawn.
const OVER: &str = "[the question is closed: it no longer needs an answer]";

/// How long a question waits: the decision before it may answer it, and what came before a form is on its way to the screen.
const ANSWERED_WITHIN: Duration = Duration::from_millis(150);

/// How long a question about a call or a limit waits for the events of the turn up to it.
const TOLD_WITHIN: Duration = Duration::from_secs(2);

/// How long after a decision one waits that it does answer, once it is stored.
const ANSWERED_AT_LAST: Duration = Duration::from_secs(10);

type Requested = watch::Receiver<Vec<ApprovalId>>;

/// A question under way, and where its answer goes.
enum Open {
    Call(Box<ApprovalQuestion>, oneshot::Sender<Decision>),
    /// Whether the turn goes on beyond a limit.
    Limit(LimitQuestion, oneshot::Sender<bool>),
    #[cfg(feature = "mcp")]
    Form(Elicitation, oneshot::Sender<ElicitationAnswer>),
}

struct Port(mpsc::UnboundedSender<Open>);

impl ApprovalPort for Port {
    fn approve(&self, question: ApprovalQuestion) -> BoxFuture<'_, Decision> {
        let (answer, answered) = oneshot::channel();
        let _nobody_is_there = self.0.send(Open::Call(Box::new(question), answer));
        let nobody = || Decision::Deny { reason: "the person has left".to_owned() };
        Box::pin(async move { answered.await.unwrap_or_else(|_gone| nobody()) })
    }

    fn go_on(&self, question: LimitQuestion) -> BoxFuture<'_, bool> {
        let (answer, answered) = oneshot::channel();
        let _nobody_is_there = self.0.send(Open::Limit(question, answer));
        Box::pin(async { answered.await.unwrap_or(false) })
    }

    #[cfg(feature = "mcp")]
    fn elicit(&self, question: Elicitation) -> BoxFuture<'_, ElicitationAnswer> {
        let (answer, answered) = oneshot::channel();
        let _nobody_is_there = self.0.send(Open::Form(question, answer));
        Box::pin(async { answered.await.unwrap_or(ElicitationAnswer::Cancel) })
    }
}

pub(super) struct Asked {
    open: mpsc::UnboundedReceiver<Open>,
    /// Whether the person ended a turn at a limit.
    is_refused: bool,
    /// What the last decision was about, if it is for more than its own call, and when it was made.
    lasting: Option<(Covered, Instant)>,
}

/// What a lasting decision covers: calls of this tool under these rules.
type Covered = (ToolName, Vec<String>, bool);

fn covered(question: &ApprovalQuestion) -> Covered {
    (question.call.name.clone(), question.like.clone(), question.exact)
}

/// A port, and where its questions arrive. There are never more than the turns have calls under way.
pub(super) fn port() -> (Arc<dyn ApprovalPort>, Asked) {
    let (ask, asked) = mpsc::unbounded_channel();
    (Arc::new(Port(ask)), Asked { open: asked, is_refused: false, lasting: None })
}

impl Asked {
    /// Whether the person ended a turn at a limit since the last time this was asked.
    pub(super) fn take_refused(&mut self) -> bool {
        std::mem::take(&mut self.is_refused)
    }

    /// Asks about a call while no turn is running. Earlier input is discarded. `None` leaves the question open.
    pub(super) async fn at_the_prompt(
        folder: &Path,
        question: &ApprovalQuestion,
        editor: &mut Editor,
    ) -> Option<Decision> {
        print::report(&asking::shown_in(folder, question, Look::now(), false));
        tokio::time::sleep(terminal_owner::PAUSE).await;
        settings::throw_away();
        let mut arguments: Option<String> = None;
        loop {
            let prompt = if arguments.is_some() { EDIT_PROMPT.to_owned() } else { asking::prompt(question) };
            let line = match editor.answer(&prompt, arguments.as_deref().unwrap_or_default()).await {
                Input::Line(line) => String::from_utf8_lossy(&line).into_owned(),
                Input::Cleared | Input::NextMode(_) | Input::Output(_) | Input::LastMessage(_) => continue,
                Input::End | Input::Interrupted if arguments.take().is_some() => continue,
                Input::End | Input::Interrupted => {
                    print::note("[not decided; /resume asks again]");
                    return None;
                }
            };
            let decision = match arguments.is_some() {
                true => asking::edited(&line).map_err(|complaint| {
                    arguments = Some(line);
                    format!("[{complaint}; correct it, or press Ctrl-C to give up]")
                }),
                false => match asking::understood(&line, question) {
                    Said::Decided(decision) => Ok(decision),
                    Said::Edit => {
                        arguments = Some(asking::to_edit(question));
                        continue;
                    }
                    Said::Whole => Err(asking::shown_in(folder, question, Look::now(), true)),
                    Said::Unclear => Err(asking::unclear(question)),
                },
            };
            match decision {
                Ok(decision) => {
                    print::note(&asking::told(&decision));
                    return Some(decision);
                }
                Err(complaint) => print::note(&complaint),
            }
        }
    }

    /// Asks the person one question after the other; paths of calls begin in this folder, and the events of `requested` were
    /// shown. Dropping it withdraws an open one. Ctrl-C at the editor calls `interrupt`; anywhere else it is a signal.
    pub(super) async fn answer(
        &mut self,
        source: &mut Source,
        owner: &TerminalOwner<'_>,
        folder: &Path,
        mut requested: Requested,
        interrupt: impl AsyncFn(),
    ) -> Infallible {
        let Source::Person(editor) = source else { return std::future::pending().await };
        while let Some(mut open) = self.open.recv().await {
            // Meanwhile what the model said and did before the question is shown.
            if is_answered(&mut open, self.lasting.as_ref(), &mut requested).await {
                continue;
            }
            let _quiet = owner.quiet();
            notify::person("a question");
            match open {
                Open::Call(question, mut answer) => {
                    match about_call(folder, &question, editor, owner, &mut answer).await {
                        About::Decided(decision) => {
                            use Decision::{AllowAlways, AllowSession, DenyAlways};
                            let is_lasting = matches!(decision, AllowSession | AllowAlways | DenyAlways { .. });
                            self.lasting = is_lasting.then(|| (covered(&question), Instant::now()));
                            let _taken_back = answer.send(decision);
                        }
                        About::Interrupted => interrupt().await,
                        About::TakenBack => {}
                    }
                }
                Open::Limit(question, mut answer) => match about_limit(&question, editor, owner, &mut answer).await {
                    About::Decided(goes_on) => {
                        self.is_refused = !goes_on;
                        let _taken_back = answer.send(goes_on);
                    }
                    About::Interrupted => interrupt().await,
                    About::TakenBack => {}
                },
                #[cfg(feature = "mcp")]
                Open::Form(question, mut answer) => {
                    let editing = owner.edit();
                    let form = tokio::select! {
                        form = forms::ask(&question, editor) => form,
                        () = answer.closed() => {
                            print::note("[the question was withdrawn; press Enter]");
                            editing.abandon();
                            continue;
                        }
                    };
                    if form.is_none() {
                        interrupt().await;
                    }
                    let _taken_back = answer.send(form.unwrap_or(ElicitationAnswer::Cancel));
                }
            }
        }
        std::future::pending().await
    }
}

enum About<D> {
    Decided(D),
    /// It was decided elsewhere, it timed out, or the turn has ended.
    TakenBack,
    Interrupted,
}

/// Whether a question is answered, or taken back, before it was shown.
async fn is_answered(open: &mut Open, lasting: Option<&(Covered, Instant)>, requested: &mut Requested) -> bool {
    match open {
        Open::Call(question, answer) => {
            let covers = lasting.filter(|(decided, _)| !question.exact && *decided == covered(question));
            let left = covers.map(|(_, at)| ANSWERED_AT_LAST.saturating_sub(at.elapsed())).unwrap_or_default();
            told(&question.approval_id, requested).await;
            timeout(left.max(ANSWERED_WITHIN), answer.closed()).await.is_ok()
        }
        Open::Limit(question, answer) => told(&question.approval_id, requested).map(|()| answer.is_closed()).await,
        #[cfg(feature = "mcp")]
        Open::Form(_, answer) => timeout(ANSWERED_WITHIN, answer.closed()).await.is_ok(),
    }
}

/// Waits until the events of the turn up to a question were shown.
async fn told(question: &ApprovalId, requested: &mut Requested) {
    // What it answers with must not be kept: it locks the list.
    let _told_or_late = timeout(TOLD_WITHIN, requested.wait_for(|known| known.contains(question)).map(drop)).await;
}

/// Shows a question once the terminal is free. Returns whether it is still open.
async fn is_shown<D>(question: &str, owner: &TerminalOwner<'_>, answer: &mut oneshot::Sender<D>) -> bool {
    if answer.is_closed() {
        return false;
    }
    print::report(question);
    tokio::select! {
        () = owner.pause() => true,
        () = answer.closed() => {
            print::note(OVER);
            false
        }
    }
}

/// The next line that answers a question; empty at the end of the input. Errors: how the question ended without one.
async fn words<D>(
    prompt: &str,
    editor: &mut Editor,
    keyboard: &mut Keyboard<'_>,
    answer: &mut oneshot::Sender<D>,
) -> Result<String, About<D>> {
    loop {
        return match line(prompt, editor, keyboard, answer).await {
            Some(Input::Line(line)) => Ok(String::from_utf8_lossy(&line).into_owned()),
            Some(Input::Cleared | Input::NextMode(_) | Input::Output(_) | Input::LastMessage(_)) => continue,
            Some(Input::End) => Ok(String::new()),
            Some(Input::Interrupted) => Err(About::Interrupted),
            None => Err(About::TakenBack),
        };
    }
}

async fn about_call(
    folder: &Path,
    question: &ApprovalQuestion,
    editor: &mut Editor,
    owner: &TerminalOwner<'_>,
    answer: &mut oneshot::Sender<Decision>,
) -> About<Decision> {
    if !is_shown(&asking::shown_in(folder, question, Look::now(), false), owner, answer).await {
        return About::TakenBack;
    }
    let mut keyboard = owner.ask();
    loop {
        let line = match words(&asking::prompt(question), editor, &mut keyboard, answer).await {
            Ok(line) => line,
            Err(ended) => return ended,
        };
        match asking::understood(&line, question) {
            Said::Decided(decision) => {
                print::note(&asking::told(&decision));
                return About::Decided(decision);
            }
            Said::Edit => match edit(question, editor, owner, answer).await {
                Some(Some(decision)) => {
                    print::note(&asking::told(&decision));
                    return About::Decided(decision);
                }
                Some(None) => {
                    // What was typed before the arguments were given up was meant for something else.
                    keyboard.forget();
                    print::note("[not edited; the question is still open]");
                }
                None => return About::TakenBack,
            },
            Said::Whole => print::report(&asking::shown_in(folder, question, Look::now(), true)),
            Said::Unclear => print::note(&asking::unclear(question)),
        }
    }
}

async fn about_limit(
    question: &LimitQuestion,
    editor: &mut Editor,
    owner: &TerminalOwner<'_>,
    answer: &mut oneshot::Sender<bool>,
) -> About<bool> {
    if !is_shown(&limit::shown(question, Look::now()), owner, answer).await {
        return About::TakenBack;
    }
    let mut keyboard = owner.ask();
    loop {
        let line = match words(limit::PROMPT, editor, &mut keyboard, answer).await {
            Ok(line) => line,
            Err(ended) => return ended,
        };
        match limit::understood(&line) {
            Some(goes_on) => {
                print::note(if goes_on { "[the turn goes on]" } else { "[the turn ends]" });
                return About::Decided(goes_on);
            }
            None => print::note(limit::UNCLEAR),
        }
    }
}

/// The arguments as the person wants them; `Some(None)` when they gave up on it, and `None` when it was taken back.
async fn edit(
    question: &ApprovalQuestion,
    editor: &mut Editor,
    owner: &TerminalOwner<'_>,
    answer: &mut oneshot::Sender<Decision>,
) -> Option<Option<Decision>> {
    let editing = owner.edit();
    let mut arguments = asking::to_edit(question);
    loop {
        let input = tokio::select! {
            input = editor.answer(EDIT_PROMPT, &arguments) => input,
            () = answer.closed() => return abandon(&editing),
        };
        match input {
            Input::Line(line) => arguments = String::from_utf8_lossy(&line).into_owned(),
            Input::Cleared
            | Input::NextMode(_)
            | Input::Output(_)
            | Input::LastMessage(_)
            | Input::End
            | Input::Interrupted => return Some(None),
        }
        match asking::edited(&arguments) {
            Ok(decision) => return Some(Some(decision)),
            Err(complaint) => print::note(&format!("[{complaint}; correct it, or press Ctrl-C to give up]")),
        }
    }
}

/// One line for a question. `None`: the question was taken back.
async fn line<D>(
    prompt: &str,
    editor: &mut Editor,
    keyboard: &mut Keyboard<'_>,
    answer: &mut oneshot::Sender<D>,
) -> Option<Input> {
    match keyboard {
        Keyboard::Drawn(open) => tokio::select! {
            line = open.line(prompt) => Some(Input::Line(line.into_bytes())),
            () = answer.closed() => {
                print::note(OVER);
                None
            }
        },
        Keyboard::OfEditor(editing) => tokio::select! {
            input = editor.answer(prompt, "") => Some(input),
            () = answer.closed() => abandon(editing),
        },
    }
}

/// The question is over, and the line editor still reads.
fn abandon<T>(editing: &Editing<'_>) -> Option<T> {
    print::note(&format!("\n{OVER}\n[press Enter to go on]"));
    editing.abandon();
    None
}
