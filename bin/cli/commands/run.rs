//! `run`: one non-interactive turn.

use std::io::{self, IsTerminal};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bob::events::{AgentEvent, AgentStream, Envelope};
use bob::model::ContentPart;
use bob::sessions::{Change, OptionsPatch};
use bob::store::Part;
use bob::{AgentRequest, AgentRuntime, ModelName, SessionId};
use bob_config::Config;
use bob_config::assemble::{self, Choices, existing_folder};
use serde_json::{Map, Value};

use crate::arguments::{OutputForm, RunArgs, TapeArg};
use crate::commands::output::{self, ResultObject};
use crate::commands::sessions::find::Listing;
use crate::commands::{attach, file_changes, output_schema, prompt};
use crate::control::Control;
use crate::exit::{Exit, Failure};
use crate::runtime::origin::Origin;
use crate::runtime::signals::Signals;
use crate::runtime::turn::{self, Work};
use crate::runtime::{OpenRuntime, taken};
use crate::terminal::screen::{self, Live, Screen};
use crate::terminal::show::{self, Show};
use crate::terminal::spending::Spending;
use crate::terminal::{print, progress, question, settings};

/// How much of a word is shown that is no session, in characters.
const MOST_SHOWN: usize = 60;

/// Runs one turn and prints its outcome in the requested format.
/// Errors: when no turn was run; the caller then prints the result object.
pub(crate) async fn run(args: &RunArgs, config: Config, origin: Origin) -> Result<Exit, Failure> {
    let mut signals = Signals::new().map_err(|error| Failure::internal(format!("cannot catch signals: {error}")))?;
    let prepared = tokio::select! {
        prepared = prepare(args, &config) => prepared?,
        caught = signals.next() => return Err(Failure::signalled(caught.exit())),
    };
    let Prepared { opened, said, folder, schema } = prepared;
    // A process with one turn drains by ending as it does anyway.
    let control = Control::open(&opened.runtime, &config, "run", origin).await;
    let _attends = opened.attend();
    let result = one_turn(args, &opened, said, (folder, schema), &mut signals).await;
    opened.close(&mut signals).await;
    control.close().await;
    result
}

struct Prepared {
    opened: OpenRuntime,
    said: Vec<ContentPart>,
    folder: Option<PathBuf>,
    schema: Option<Arc<Value>>,
}

/// Everything that can be refused before anything is sent.
async fn prepare(args: &RunArgs, config: &Config) -> Result<Prepared, Failure> {
    args.mode.chosen()?;
    if let (Some(word), None) = (&args.resume, &args.prompt) {
        refuse_message(word, config).await?;
    }
    for id in [&args.session, &args.resume].into_iter().flatten() {
        SessionId::parse(id)?;
    }
    let schema = args.output_schema.as_deref().map(output_schema::read).transpose()?;
    let folder = args.cwd.as_deref().map(|cwd| working_folder(cwd, config)).transpose()?;
    if args.prompt.is_none() && io::stdin().is_terminal() {
        print::note("reading the prompt from the terminal; end it with Ctrl-D");
    }
    let attached = attach::parts(&args.attach, "--attach ")?;
    let prompt = prompt::read_joined(args.prompt.as_deref()).await?;
    let choices = Choices {
        progress: Some(progress::to_stderr()),
        take_over: args.take_over,
        tape: args.tape.as_ref().map(TapeArg::choice),
        ..Choices::default()
    };
    let opened = OpenRuntime::open(config, choices).await?;
    opened.warnings().print();
    opened.check_model(&opened.default_model)?;
    let said = std::iter::once(ContentPart::text(prompt)).chain(attached).collect();
    Ok(Prepared { opened, said, folder, schema })
}

/// Refuses a word behind `--resume` that is no session, before a message is read from stdin: it may be the message.
async fn refuse_message(word: &str, config: &Config) -> Result<(), Failure> {
    // One that cannot be opened is reported when it is opened for the turn.
    let Ok(store) = assemble::store(config, false, None) else { return Ok(()) };
    let is_there = match SessionId::parse(word) {
        Ok(_) => {
            let session = Listing::Store(&*store).find(word).await?;
            !store.load_part(&session, Part::Latest).await?.is_empty()
        }
        Err(_no_id) => false,
    };
    match is_there {
        true => Ok(()),
        false => Err(Failure::usage(format!(
            "there is no session {}; behind --resume is the id of one, and then the message; \
             `cli-agent run --continue MESSAGE` continues the session that was used last",
            print::on_one_line(word, MOST_SHOWN)
        ))),
    }
}

/// The folder of `--cwd`. Local tools never work outside the workspace, so a folder outside it is refused here.
pub(crate) fn working_folder(cwd: &Path, config: &Config) -> Result<PathBuf, Failure> {
    let folder = existing_folder(cwd).map_err(|why| Failure::usage(format!("--cwd {why}")))?;
    let workspace = bob_config::assemble::workspace(config)?;
    match folder.starts_with(&workspace) {
        true => Ok(folder),
        false => Err(Failure::usage(format!(
            "--cwd {} is outside policy.workspace, {}; choose a folder inside it, or set policy.workspace",
            folder.display(),
            workspace.display()
        ))),
    }
}

/// The current folder, where a session that worked in another one is continued here and no project says where its sessions
/// work. Says so.
pub(crate) fn moved(opened: &OpenRuntime, worked_in: Option<&str>) -> Option<String> {
    let here = opened.here.as_ref()?;
    match worked_in {
        Some(folder) if Path::new(folder).starts_with(here) => None,
        Some(folder) => {
            print::note(&format!("[the session worked in {folder}; it goes on in {here}]"));
            Some(here.clone())
        }
        // Begun by an earlier version.
        None => Some(here.clone()),
    }
}

async fn one_turn(
    args: &RunArgs,
    opened: &OpenRuntime,
    said: Vec<ContentPart>,
    (folder, output_schema): (Option<PathBuf>, Option<Arc<Value>>),
    signals: &mut Signals,
) -> Result<Exit, Failure> {
    let session = session(args, opened, folder.as_deref()).await?;
    let is_unnamed = args.session.is_none() && args.resume.is_none() && !args.continue_last;
    if let Some(folder) = folder {
        let cwd = folder.to_str().ok_or_else(|| Failure::usage("--cwd is not valid UTF-8"))?;
        let patch = OptionsPatch { cwd: Change::Set(cwd.to_owned()), ..OptionsPatch::default() };
        opened.runtime.configure(session.clone(), patch, None).await?;
    } else if opened.here.is_some() {
        let worked_in = opened.runtime.session(session.clone()).await?.map(|look| look.options.cwd);
        let folder = worked_in.map_or_else(|| opened.here.clone(), |cwd| moved(opened, cwd.as_deref()));
        if let Some(folder) = folder {
            let patch = OptionsPatch { cwd: Change::Set(folder), ..OptionsPatch::default() };
            opened.runtime.configure(session.clone(), patch, None).await?;
        }
    }
    let request = AgentRequest {
        model: args.model.as_deref().map(ModelName::parse).transpose()?,
        approvals: args.approvals.mode(),
        mode: args.mode.chosen()?,
        output_schema,
        interactive: true,
        input: said,
        // As a program is told of its caller's trace.
        traceparent: std::env::var("TRACEPARENT").ok(),
        tracestate: std::env::var("TRACESTATE").ok(),
        ..AgentRequest::text(session, String::new())
    };
    let stream = opened.runtime.run_stream(request).await?;
    told(opened, stream, args.output, is_unnamed, signals).await
}

/// Prints a turn as it goes and its outcome at the end. `is_new`: the session was made for it, and has no name that
/// its caller knows.
pub(crate) async fn told(
    opened: &OpenRuntime,
    stream: AgentStream,
    form: OutputForm,
    is_new: bool,
    signals: &mut Signals,
) -> Result<Exit, Failure> {
    let is_text = form == OutputForm::Text;
    let live = (is_text && screen::is_drawn_on()).then(Live::new);
    if live.is_some() {
        settings::remember();
    }
    let mut shown = Show::new(is_text && io::stdout().is_terminal());
    if is_new {
        shown = shown.of_new_session();
    }
    let mut spent = Spending::default();
    let mut screen = Screen::new(live.as_ref());
    let session = stream.session().clone();
    let mut folder = opened.workspace.clone();
    let ended = turn::follow(opened, Work::Begun(Box::new(stream)), signals, |event| match form {
        OutputForm::Text | OutputForm::Json | OutputForm::StreamJson if event.session_id.as_ref() != Some(&session) => {
            let shown = event.parent.iter().filter(|_| is_text).flat_map(|parent| shown.below(parent, &event.event));
            screen.print(shown.collect())
        }
        OutputForm::Text => {
            spent.event(&event.event);
            let (tokens, is_about) = spent.tokens();
            screen.tokens(tokens, is_about);
            screen.print(shown.event(&event.event, event.step))
        }
        OutputForm::Json => Ok(()),
        OutputForm::StreamJson => print::json(&streamed(event, &mut folder)),
    })
    .await?;
    if let Some(error) = ended.unread {
        drop(screen);
        return ended.caught.map_or_else(|| Err(error.into()), |caught| Ok(caught.exit()));
    }
    match form {
        OutputForm::Text => {
            let told = screen.print(shown.outcome(&ended.outcome));
            // The signal of a closed terminal explains failed writes.
            if ended.caught.is_none() {
                told?;
            }
        }
        OutputForm::Json => {
            let changes = file_changes::of_outcome(&*opened.store, &ended.outcome).await;
            ResultObject::of(&ended.outcome, opened.default_mode, changes).print(form)?;
        }
        OutputForm::StreamJson => {
            let event = ended.event.as_deref().map(Envelope::to_json);
            let event = event.and_then(|event| if let Value::Object(keys) = event { Some(keys) } else { None });
            // Read first: a result that is claimed is printed at once.
            let changes = file_changes::of_outcome(&*opened.store, &ended.outcome).await;
            if output::claim_result() {
                let result = ResultObject::of(&ended.outcome, opened.default_mode, changes);
                print::json(&result.as_event(event.unwrap_or_default()))?;
            }
        }
    }
    if let Some(remark) = taken::remark(opened, &ended.outcome).await {
        print::note(&remark);
    }
    // A session in which nothing happened is nothing to come back to; if it cannot be removed now, it stays. A program was
    // told its id, and that its outcome is saved.
    if form == OutputForm::Text && is_new && show::is_nothing(&ended.outcome) {
        let _removed_or_left = opened.runtime.delete(ended.outcome.session_id.clone()).await;
    }
    if form != OutputForm::Text
        && let Some(how) = show::how_to_resume(&ended.outcome, opened.runtime.offers_always())
    {
        print::note(&how);
    }
    Ok(ended.caught.map_or_else(|| Exit::of(&ended.outcome), |caught| caught.exit()))
}

/// Which session the turn belongs to; `folder` is that of the command line.
async fn session(args: &RunArgs, opened: &OpenRuntime, folder: Option<&Path>) -> Result<SessionId, Failure> {
    if args.continue_last {
        let folder = folder.and_then(Path::to_str);
        return Listing::Runtime(&opened.runtime).last(opened.works_in(folder)).await;
    }
    if let Some(id) = &args.resume {
        let session = Listing::Runtime(&opened.runtime).find(id).await?;
        if opened.runtime.last_records(session.clone(), 1).await?.is_empty() {
            return Err(Failure::usage(format!(
                "there is no session {session}; `cli-agent sessions list` lists them, --session creates one"
            )));
        }
        return Ok(session);
    }
    match &args.session {
        Some(id) => Ok(SessionId::parse(id)?),
        None => new_session(),
    }
}

/// A new session id. It never fails, as long as a UUID is a session id.
pub(crate) fn new_session() -> Result<SessionId, Failure> {
    Ok(SessionId::parse(&uuid::Uuid::now_v7().to_string())?)
}

/// An event for programs. The first one has the location of the control socket; a question about an edit has the
/// difference that it would make, of a file below this folder.
fn streamed(event: &Envelope, folder: &mut PathBuf) -> Value {
    let mut json = event.to_json();
    let Some(keys) = json.as_object_mut() else { return json };
    match &event.event {
        AgentEvent::TurnStarted { cwd, .. } => {
            *folder = cwd.as_ref().map_or_else(|| folder.clone(), PathBuf::from);
            started(keys, folder.display().to_string());
        }
        AgentEvent::ApprovalRequested { call, .. } => {
            let difference = question::difference_in(folder, call);
            keys.extend(difference.map(|difference| ("difference".to_owned(), difference.into())));
        }
        _another => {}
    }
    json
}

fn started(keys: &mut Map<String, Value>, cwd: String) {
    keys.insert("version".to_owned(), env!("CARGO_PKG_VERSION").into());
    keys.insert("cwd".to_owned(), cwd.into());
}
