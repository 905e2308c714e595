//! `cli-agent`: the command-line program. Parses the arguments, loads the configuration and runs a front end; it
//! decides nothing about turns, tools or sessions.

mod arguments;
mod batch;
mod chat;
mod commands;
mod control;
mod exit;
mod runtime;
mod terminal;
#[cfg(feature = "top")]
mod top;

use std::ffi::OsString;
use std::path::Path;
use std::sync::Arc;

use bob::config::{Hook, OnRestart};
use bob::tape::MARK;
use bob_config::{Config, Environment, Files, Overrides, sanitise};
use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{CommandFactory, FromArgMatches};

use arguments::{ChatArgs, Cli, Command, McpAction, OutputForm, TapeArg};
use commands::output::ResultObject;
#[cfg(feature = "mcp")]
use commands::sign_in;
#[cfg(feature = "skills")]
use commands::skills;
#[cfg(feature = "soak")]
use commands::soak;
use commands::{
    approvals, artifacts, cancel, config, doctor, events_schema, init, mcp, memory, models, ps, replay, resume, run,
    sessions, submit, tools, work,
};
use exit::{Exit, Failure};
use runtime::origin::Origin;
use runtime::trust;
use terminal::{logging, print};

/// The program, with the arguments of this process.
pub fn main() -> ! {
    #[cfg(feature = "soak")]
    if let Some(code) = drill() {
        std::process::exit(i32::from(code));
    }
    begin(&std::env::args_os().collect::<Vec<_>>())
}

/// The program with these arguments, of which the first is its name, and with this hook in every actor of its runtime:
/// for tests of how it ends.
pub fn main_with(arguments: &[OsString], hook: Arc<dyn Hook>) -> ! {
    runtime::hook(hook);
    begin(arguments)
}

fn begin(arguments: &[OsString]) -> ! {
    std::panic::set_hook(Box::new(report_panic));
    let exit = std::panic::catch_unwind(|| enter(arguments)).unwrap_or_else(|_told_by_the_hook| {
        let failure = Failure::internal("internal error; please report it");
        finish(&failure, form_asked_for(arguments), None)
    });
    exit.leave()
}

/// `cli-agent soak-worker FOLDER`: the child process of a soak. Hidden, since only a soak creates the folder.
#[cfg(feature = "soak")]
fn soak_worker(arguments: &[OsString]) -> Option<Result<Exit, Failure>> {
    let mut arguments = arguments.iter().skip(1);
    if arguments.next()? != "soak-worker" {
        return None;
    }
    let folder = arguments.next().map(std::path::PathBuf::from).unwrap_or_default();
    Some(in_runtime(soak::worker(folder)))
}

/// `cli-agent drill-server …`: a tool server for soaks, without configuration, log or runtime. Hidden from help and
/// completion.
#[cfg(feature = "soak")]
fn drill() -> Option<u8> {
    let mut arguments = std::env::args_os().skip(1).map(|argument| argument.to_string_lossy().into_owned());
    (arguments.next()? == "drill-server").then(|| bob_drill::server::serve(arguments))
}

fn enter(arguments: &[OsString]) -> Exit {
    #[cfg(feature = "soak")]
    if let Some(result) = soak_worker(arguments) {
        return result.unwrap_or_else(|failure| finish(&failure, OutputForm::Text, None));
    }
    let arguments = &arguments::with_chat(arguments);
    let parsed = arguments::grouped(Cli::command()).try_get_matches_from(arguments);
    let cli = match parsed.and_then(|matches| Cli::from_arg_matches(&matches)) {
        Ok(cli) => cli,
        Err(error) => return refuse_arguments(&error, arguments),
    };
    let (form, session) = match &cli.command {
        Some(Command::Run(run)) => (run.output, run.session.clone().or_else(|| run.resume.clone())),
        Some(Command::Resume(resume)) => (resume.output, resume::session_of(&resume.token)),
        Some(Command::Submit(submit)) => (submit.form(), submit.session.clone()),
        _ => (OutputForm::Text, None),
    };
    match obey(cli) {
        Ok(exit) => exit,
        Err(failure) => finish(&failure, form, session.as_deref()),
    }
}

fn obey(cli: Cli) -> Result<Exit, Failure> {
    if cli.plain {
        print::be_plain();
    }
    let named = cli.config;
    let files = match &named {
        Some(file) => Files::only(file, &Environment::of_process()),
        None => Files::find(Path::new("."), &Environment::of_process()),
    };
    // A found configuration with privileges is checked for trust, unless it was named.
    let trusted = |overrides: &Overrides| {
        let config = configured(&files, overrides)?;
        trust::check(&config)?;
        Ok::<_, Failure>(config)
    };
    // A replay starts nothing and sends nothing: it needs no key, and trust only for where it keeps its session.
    let taped = |overrides: &Overrides, tape: Option<&TapeArg>| match tape.is_some_and(TapeArg::is_replay) {
        true => {
            let config = configured_with(&files, overrides, Environment::of_process().or_else(MARK))?;
            trust::check_replay(&config)?;
            Ok(config)
        }
        false => trusted(overrides),
    };
    match cli.command.unwrap_or_else(|| Command::Chat(ChatArgs::default())) {
        Command::Init(args) => init::init(&args, named.as_deref(), &files),
        Command::Config(args) => config::config(&args.action, &files),
        Command::EventsSchema => {
            events_schema::print()?;
            Ok(Exit::Success)
        }
        Command::Completions { shell } => {
            let mut script = Vec::new();
            clap_complete::generate(shell, &mut Cli::command(), "cli-agent", &mut script);
            print::text(&String::from_utf8_lossy(&script))?;
            Ok(Exit::Success)
        }
        Command::Doctor(args) => in_runtime(doctor::doctor(&files, args.json)),
        Command::Tools(args) => in_runtime(tools::tools(&trusted(&Overrides::default())?, args.json)),
        Command::Models(args) => {
            // Only a source that is asked or read is of consequence, and it is the configuration's.
            let config = configured(&files, &Overrides::default())?;
            if config.models_catalog.source.is_some() {
                trust::check(&config)?;
            }
            in_runtime(models::models(&args.action, &config))
        }
        #[cfg(feature = "skills")]
        Command::Skills(args) => {
            let configured = || configured(&files, &Overrides::default());
            // An update asks where the configuration says.
            let update = |json| in_runtime(skills::update(&trusted(&Overrides::default())?, json));
            skills::skills(&args.action, configured, update)
        }
        Command::Mcp(args) => match args.action {
            McpAction::List(list) => in_runtime(mcp::list(&trusted(&Overrides::default())?, list.json)),
            McpAction::Restart { id, pid } => {
                in_runtime(ps::restart_server(&id, pid, &configured(&files, &Overrides::default())?))
            }
            #[cfg(feature = "mcp")]
            McpAction::Login { id } => in_runtime(sign_in::log_in(&trusted(&Overrides::default())?, &id)),
            #[cfg(feature = "mcp")]
            McpAction::Logout { id } => sign_in::log_out(&configured(&files, &Overrides::default())?, &id),
            McpAction::Reload { pid } => {
                in_runtime(ps::reload_servers(pid, &configured(&files, &Overrides::default())?))
            }
        },
        Command::Ps(args) => in_runtime(ps::ps(&args, &configured(&files, &Overrides::default())?)),
        #[cfg(feature = "top")]
        Command::Top(args) => in_runtime(top::top(&args, &configured(&files, &Overrides::default())?)),
        Command::Cancel(args) => in_runtime(cancel::cancel(&args, &configured(&files, &Overrides::default())?)),
        Command::Drain(args) => in_runtime(ps::drain(&args, &configured(&files, &Overrides::default())?)),
        Command::Artifacts(args) => in_runtime(artifacts::artifacts(&args.action, &trusted(&Overrides::default())?)),
        Command::Sessions(args) => in_runtime(sessions::sessions(&args.action, &trusted(&Overrides::default())?)),
        Command::Memory(args) => memory::memory(&args, &trusted(&Overrides::default())?),
        Command::Approvals(args) => approvals::approvals(&args.action, &configured(&files, &Overrides::default())?),
        #[cfg(feature = "soak")]
        Command::Soak(args) => {
            // Only custom prompts make a soak use the configuration.
            if args.prompts.is_some() {
                trusted(&Overrides::default())?;
            }
            in_runtime(soak::soak(&args, files.first()))
        }
        Command::Trust(args) => trust::trust(&args, &configured(&files, &Overrides::default())?),
        Command::Run(args) => {
            let overrides =
                Overrides { model: args.model.clone(), max_steps: args.max_steps, timeout_ms: args.timeout_ms };
            let source = Origin { files: files.clone(), overrides: overrides.clone() };
            in_runtime(run::run(&args, finishing(taped(&overrides, args.tape.as_ref())?, args.finish), source))
        }
        Command::Resume(args) => {
            let overrides = Overrides::default();
            let source = Origin { files: files.clone(), overrides: overrides.clone() };
            in_runtime(resume::resume(&args, trusted(&overrides)?, source))
        }
        Command::Batch(args) => {
            let overrides = Overrides { model: args.model.clone(), ..Overrides::default() };
            let source = Origin { files: files.clone(), overrides: overrides.clone() };
            in_runtime(batch::batch(&args, finishing(taped(&overrides, args.tape.as_ref())?, args.finish), source))
        }
        Command::Submit(args) => in_runtime(submit::submit(&args, &trusted(&Overrides::default())?)),
        Command::Work(args) => {
            let overrides = Overrides { model: args.model.clone(), ..Overrides::default() };
            let source = Origin { files: files.clone(), overrides: overrides.clone() };
            // The turns of a worker that died are finished.
            in_runtime(work::work(&args, finishing(trusted(&overrides)?, true), source))
        }
        Command::Replay(args) => in_runtime(replay::replay(&args, || trusted(&Overrides::default()))),
        Command::Chat(args) => {
            let overrides = Overrides { model: args.model.clone(), ..Overrides::default() };
            let source = Origin { files: files.clone(), overrides: overrides.clone() };
            in_runtime(chat::chat(&args, trusted(&overrides)?, source))
        }
    }
}

fn configured(files: &Files, overrides: &Overrides) -> Result<Config, Failure> {
    configured_with(files, overrides, Environment::of_process())
}

fn configured_with(files: &Files, overrides: &Overrides, environment: Environment) -> Result<Config, Failure> {
    let config = bob_config::load_all(files, &environment, overrides).map_err(|error| {
        let has_home = std::env::var_os("HOME").is_some_and(|home| !home.is_empty());
        let is_about_more = !error.problems().iter().all(commands::config::is_open);
        match has_home || files.is_named || files.all().next().is_some() || is_about_more {
            true => Failure::from(error),
            // Without a file, no position of the error is in one.
            false => Failure::usage(
                "HOME is not set, so there is no place for a model on this machine: set HOME, or the key of a provider \
                 such as OPENAI_API_KEY, or name a configuration with --config",
            ),
        }
    })?;
    logging::start(&config.log);
    Ok(config)
}

/// Adapts the configuration: with `--finish`, turns that a crash interrupted are finished.
fn finishing(mut config: Config, finish: bool) -> Config {
    if finish {
        config.runtime.on_restart = OnRestart::Resume;
    }
    config
}

fn in_runtime(work: impl Future<Output = Result<Exit, Failure>>) -> Result<Exit, Failure> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .map_err(|error| Failure::internal(format!("cannot start the threads of the runtime: {error}")))?;
    // As the first process of a container this one adopts orphans.
    runtime.spawn(bob::config::reap_orphans());
    let result = runtime.block_on(work);
    // A thread may still wait for a pipe or a terminal; the process ends without it.
    runtime.shutdown_background();
    result
}

/// Help and version are printed to stdout; everything else is a usage error.
fn refuse_arguments(error: &clap::Error, arguments: &[OsString]) -> Exit {
    let text = match error.get(ContextKind::InvalidArg) {
        // Other programs print one answer with it.
        Some(ContextValue::String(option)) if matches!(option.as_str(), "-p" | "--print") => one_answer(option),
        Some(ContextValue::String(word)) if error.kind() == ErrorKind::UnknownArgument && !word.starts_with('-') => {
            quoted(&error.render().to_string())
        }
        _another => error.render().to_string(),
    };
    if !error.use_stderr() {
        return match print::text(&text) {
            Ok(()) => Exit::Success,
            Err(error) => Failure::from(error).exit,
        };
    }
    let message = text.lines().next().unwrap_or_default().trim_start_matches("error: ").to_owned();
    let report = Some(sanitise::clean(&text).into_owned());
    finish(&Failure { report, ..Failure::usage(message) }, form_asked_for(arguments), None)
}

/// Says how a message of several words is given, where a command takes one.
fn quoted(text: &str) -> String {
    let takes_a_message =
        ["Usage: cli-agent run ", "Usage: cli-agent submit "].iter().any(|usage| text.contains(usage));
    match takes_a_message {
        true => text.replacen("\n\nUsage:", "\n\n  tip: quote a message of several words\n\nUsage:", 1),
        false => text.to_owned(),
    }
}

/// What is said of `-p`.
fn one_answer(option: &str) -> String {
    format!("error: there is no option {option}; `cli-agent run \"MESSAGE\"` runs one turn and prints its answer\n")
}

/// Reports why there was no turn, also as JSON if requested.
fn finish(failure: &Failure, form: OutputForm, session: Option<&str>) -> Exit {
    match &failure.report {
        Some(report) => print::report(report),
        None if failure.message.is_empty() => {}
        None => print::note(&format!("error: {}", failure.message)),
    }
    match ResultObject::without_turn(session, failure).print(form) {
        Ok(()) => failure.exit,
        Err(error) => Failure::from(error).exit,
    }
}

fn form_asked_for(arguments: &[OsString]) -> OutputForm {
    let args: Vec<String> = arguments.iter().map(|arg| arg.to_string_lossy().into_owned()).collect();
    arguments::output_form(&args)
}

/// One line instead of a backtrace; panics of actors and tools are caught and reported as results.
fn report_panic(panic: &std::panic::PanicHookInfo<'_>) {
    let what = panic.payload_as_str().unwrap_or("no reason was given");
    let place = panic.location().map(|place| format!(" at {}:{}", place.file(), place.line())).unwrap_or_default();
    tracing::error!("panic{place}: {what}");
}
