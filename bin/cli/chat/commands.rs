use bob::sessions::{Change, OptionsPatch};
use bob::tools::servers::ServerId;
use bob::{AgentRuntime, ModelName, SessionId};
use bob_config::{Config, sanitise};

use super::choose::Choice;
use super::own_commands::OwnMessage;
use super::{Chat, begin, help, mentions, mode};
use crate::commands::file_changes::{self, Which};
#[cfg(feature = "mcp")]
use crate::commands::ps;
use crate::commands::sessions::{title, undo};
use crate::exit::Failure;
use crate::runtime::OpenRuntime;
use crate::terminal::print;

#[derive(Debug, PartialEq, Eq)]
pub(super) enum Obeyed {
    /// It was a command.
    Done,
    /// It was the command to leave.
    Leave,
    /// A list is to be shown, of which a person chooses.
    Choose(Choice),
    /// It is a message.
    NoCommand,
    /// It stands for this message.
    Message(OwnMessage),
    Shell(String),
    /// The history is to be condensed.
    Compact,
}

/// A line of a person that is for the program, and no message.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Own<'l> {
    Leave,
    /// Behind `!`: a command of the person's own.
    Shell(&'l str),
    /// Behind `#`: a line for the memory.
    Remember(&'l str),
    /// It begins with a slash, whether there is such a command or not.
    Command,
}

/// What a line is to the program, at the prompt and during an answer; `None` for a message.
pub(super) fn own(line: &str) -> Option<Own<'_>> {
    let line = line.trim();
    match line.chars().next()? {
        '!' => Some(Own::Shell(&line[1..])),
        // A heading of several lines is a message.
        '#' => (!line.contains('\n')).then(|| Own::Remember(&line[1..])),
        '/' => (!mentions::begins_with_image(line)).then_some(Own::Command),
        _ => ["exit", "quit"].contains(&line).then_some(Own::Leave),
    }
}

/// Runs a line that is a command. On a terminal an unknown command is an error; on a pipe, where messages may begin
/// with a slash, it is a message.
pub(super) async fn obey(chat: &mut Chat, line: &str) -> Result<Obeyed, Failure> {
    let line = line.trim();
    match own(line) {
        // On a pipe only what begins with a slash may be a command.
        _ if !chat.is_person && !line.starts_with('/') => return Ok(Obeyed::NoCommand),
        _ if !chat.is_person => {}
        None => return Ok(Obeyed::NoCommand),
        Some(Own::Leave) => return Ok(Obeyed::Leave),
        Some(Own::Shell(command)) => return Ok(Obeyed::Shell(command.trim().to_owned())),
        Some(Own::Remember(text)) => {
            chat.memory.remember(&chat.working_folder(), text)?;
            return Ok(Obeyed::Done);
        }
        Some(Own::Command) => {}
    }
    let (command, argument) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
    let argument = argument.trim();
    if let Some(refusal) = help::takes_nothing(command, argument).filter(|_| chat.is_person) {
        return Err(Failure::usage(refusal));
    }
    let shown: Option<Result<String, Failure>> = chat.view().shown(line).await;
    if let Some(shown) = shown {
        chat.show(&shown?)?;
        return Ok(Obeyed::Done);
    }
    match command {
        "/mcp" => servers(&chat.opened, || chat.origin.read(), argument).await?,
        "/new" | "/clear" => chat.begin_anew()?,
        "/compact" => return Ok(Obeyed::Compact),
        "/rewind" => chat.rewind(argument).await?,
        "/resume" if argument.is_empty() => return Ok(Obeyed::Choose(Choice::Session)),
        "/model" if argument.is_empty() => return Ok(Obeyed::Choose(Choice::Model)),
        "/resume" => {
            let session = begin::existing(&chat.opened, argument).await?;
            chat.resume(session).await?;
        }
        "/model" => chat.use_model(argument)?,
        "/rename" if !chat.is_begun => print::note(RENAME_USAGE),
        "/rename" => rename(&chat.opened, &chat.session, argument).await?,
        "/undo" => chat.undo(argument).await?,
        "/memory" if argument.is_empty() => {
            let (file, text) = chat.memory.read(&chat.working_folder())?;
            print::note(&format!("[{}]", file.display()));
            chat.show(&text)?;
        }
        "/memory" => {
            chat.memory.remember(&chat.working_folder(), argument)?;
        }
        "/mode" => mode::obey(chat, argument)?,
        "/cancel" => {
            let was_running = chat.opened.runtime.cancel(chat.session.clone()).await;
            print::note(if was_running { "cancelled" } else { "nothing is running" });
        }
        "/quit" | "/exit" => return Ok(Obeyed::Leave),
        unknown => match chat.own.message(line)? {
            Some(message) => return Ok(Obeyed::Message(message)),
            None if chat.is_person => {
                print::note(&help::unknown(unknown));
            }
            // A message that begins with a slash.
            None => return Ok(Obeyed::NoCommand),
        },
    }
    Ok(Obeyed::Done)
}

const RENAME_USAGE: &str = "usage: /rename TITLE; a session has a title once something was said";

/// `/rename`. Errors: when it is no title; errors of the store.
pub(super) async fn rename(opened: &OpenRuntime, session: &SessionId, argument: &str) -> Result<(), Failure> {
    if argument.is_empty() {
        print::note(RENAME_USAGE);
        return Ok(());
    }
    let title = title(argument)?;
    let patch = OptionsPatch { title: Change::Set(title.clone()), ..OptionsPatch::default() };
    opened.runtime.configure(session.clone(), patch, None).await?;
    print::note(&format!("this session is now called: {title}"));
    Ok(())
}

/// `/mcp` with an argument.
pub(super) async fn servers(
    opened: &OpenRuntime,
    read: impl FnOnce() -> Result<Config, Failure>,
    argument: &str,
) -> Result<(), Failure> {
    match argument.split_once(char::is_whitespace).unwrap_or((argument, "")) {
        ("restart", id) if !id.trim().is_empty() => {
            let id = ServerId::new(id.trim());
            match opened.runtime.restart_server(id.clone()).await {
                true => print::note(&format!("restarting {id}; /mcp shows its state")),
                false => {
                    return Err(Failure::usage(format!("there is no tool server {id}; /mcp lists them")));
                }
            }
        }
        ("reload", "") => reload(opened, &read()?)?,
        _what_else => print::note("/mcp shows the tool servers; /mcp restart ID and /mcp reload change them"),
    }
    Ok(())
}

/// Reads the servers from the configuration again. One that cannot be read changes nothing.
#[cfg(feature = "mcp")]
fn reload(opened: &OpenRuntime, config: &Config) -> Result<(), Failure> {
    let reloaded = opened.runtime.reload_servers(bob_config::assemble::tool_servers(config)?)?;
    let names = |ids: &[ServerId]| ids.iter().map(ServerId::to_string).collect::<Vec<_>>();
    let [started, changed, stopped, kept] =
        [&reloaded.started, &reloaded.changed, &reloaded.stopped, &reloaded.kept].map(|ids| names(ids));
    print::note(&ps::reloaded([
        ("started", &started),
        ("restarted", &changed),
        ("stopped", &stopped),
        ("unchanged", &kept),
    ]));
    Ok(())
}

#[cfg(not(feature = "mcp"))]
fn reload(_opened: &OpenRuntime, _config: &Config) -> Result<(), Failure> {
    Err(Failure::usage("this program was built without the cargo feature `mcp`"))
}

impl Chat {
    /// Shows what a command has to say: on a pipe beside the answers.
    pub(super) fn show(&self, text: &str) -> Result<(), Failure> {
        match self.is_person {
            true => print::text(&print::wrapped(text))?,
            false => print::report(&sanitise::clean(text)),
        }
        Ok(())
    }

    /// Takes the changes of a turn back; the model hears of it with the next message.
    async fn undo(&mut self, argument: &str) -> Result<(), Failure> {
        let (which, overwrite) = match argument.strip_suffix("force") {
            Some(which) => (Which::parse(which.trim())?, true),
            None => (Which::parse(argument)?, false),
        };
        let records = self.opened.runtime.records(self.session.clone()).await?;
        let changes = file_changes::of_session(&*self.opened.store, &self.session, &records).await;
        let workspace = vec![self.opened.workspace.to_string_lossy().into_owned()];
        let originals = file_changes::originals(&*self.opened.store, &changes, which, &workspace).await;
        let undone = move || file_changes::take_back((&changes.turns, &originals), which, &workspace, overwrite);
        let names = tokio::task::spawn_blocking(undone).await.map_err(|_| Failure::internal("the undo failed"))??;
        self.tell_undone(&names).await;
        Ok(())
    }

    /// Has the model know, with the next message of the session, that these files were put back.
    pub(super) async fn tell_undone(&self, files: &[String]) {
        let Some(patch) = undo::told(files) else { return };
        if let Err(error) = self.opened.runtime.configure(self.session.clone(), patch, None).await {
            undo::warn_untold(&error.into());
        }
    }

    pub(super) async fn resume(&mut self, session: SessionId) -> Result<(), Failure> {
        self.refuse_others(&session).await?;
        print::note(&format!("session {session}"));
        self.session = session;
        self.look_back().await?;
        self.move_to_folder().await
    }

    pub(super) fn use_model(&mut self, name: &str) -> Result<(), Failure> {
        let model = ModelName::parse(name)?;
        self.opened.check_model(&model)?;
        print::note(&format!("model {model}"));
        self.model = Some(model);
        Ok(())
    }
}
