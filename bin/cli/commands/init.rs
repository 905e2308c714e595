//! `init`: a configuration to begin with.

use std::io::{self, BufRead, IsTerminal};
use std::path::{Path, PathBuf};

use bob::AgentError;
use bob::model::LlmErrorKind;
use bob_config::{Config, Environment, Files, Overrides, assemble};

use super::config::{is_free, write_new};
use crate::arguments::{InitArgs, ToolsLevel};
use crate::exit::{Exit, Failure};
use crate::runtime::trust;
use crate::terminal::print;

/// The script that starts the shipped local model, relative to the configuration.
const MODEL_SCRIPT: &str = "scripts/local-model.sh";

struct Chosen {
    model: String,
    /// `None`: those that suit the model.
    tools: Option<ToolsLevel>,
    is_global: bool,
}

/// Writes a configuration: a short one with what was chosen, or, beside the scripts that it names, the shipped one, which
/// explains every key.
/// Errors: when the file is there already and was not to be replaced, or cannot be written; when an answer is none.
pub(crate) fn init(args: &InitArgs, named: Option<&Path>, files: &Files) -> Result<Exit, Failure> {
    let is_asked = !args.is_complete() && named.is_none() && io::stdin().is_terminal() && io::stderr().is_terminal();
    if is_asked {
        // Before any answer: they would be lost.
        is_free(&args.project(named), args.force)?;
    }
    let chosen = match is_asked {
        true => Some(ask(files)?),
        // The shipped file starts a script and a server of the repository: elsewhere it would not work.
        false if args.is_chosen() || !has_scripts(&args.project(named)) => Some(Chosen {
            model: args.model.clone().map_or_else(default_model, Ok)?,
            tools: args.tools,
            is_global: args.global,
        }),
        false => None,
    };
    let file = match &chosen {
        Some(Chosen { is_global: true, .. }) => global(named, files)?,
        Some(_) | None => args.project(named),
    };
    if let Some(chosen) = &chosen {
        let beneath = beneath(files, named.is_some(), chosen.is_global);
        checked(&chosen.model, &beneath).map_err(|why| match &args.model {
            Some(model) => Failure::usage(format!("--model {model}: {why}; nothing was written")),
            None => Failure::usage(format!("{why}; nothing was written")),
        })?;
    }
    let text = chosen.as_ref().map_or_else(|| Config::example().to_owned(), short);
    write_new(&file, &text, args.force)?;
    // The user requested this file, so it is trusted.
    trust::take(&file, &text);
    print::note(&format!("wrote {}; next: cli-agent doctor", file.display()));
    Ok(Exit::Success)
}

/// Whether the script of the shipped local model is beside this file.
fn has_scripts(file: &Path) -> bool {
    file.with_file_name(MODEL_SCRIPT).exists()
}

fn global(named: Option<&Path>, files: &Files) -> Result<PathBuf, Failure> {
    match (named, &files.user_place) {
        (Some(_), _) => Err(Failure::usage("--global and --config name two files")),
        (None, Some(place)) => Ok(place.clone()),
        (None, None) => Err(Failure::usage("there is no home: set HOME, or name --config")),
    }
}

/// The model that is used without any file.
fn default_model() -> Result<String, Failure> {
    let environment = Environment::of_process();
    Ok(bob_config::load_all(&Files::none(&environment), &environment, &Overrides::default())?.runtime.default_model)
}

/// Asks the three questions, each until its answer is one.
fn ask(files: &Files) -> Result<Chosen, Failure> {
    let usual = default_model()?;
    let beneath = beneath(files, false, false);
    let model = until_good(&format!("Which model, as provider:model? [{usual}] "), |answer| {
        let model = if answer.is_empty() { usual.clone() } else { answer.to_owned() };
        checked(&model, &beneath).map(|()| model)
    })?;
    print::note("What may tools do in the working folder?");
    print::note("  1  read and search files");
    print::note("  2  also change files");
    print::note("  3  also run commands; each is asked about");
    let is_tiny = tiny(&model).is_some();
    if is_tiny {
        print::note("So small a model copes with few tools.");
    }
    let tools = until_good(&format!("1, 2 or 3? [{}] ", if is_tiny { 1 } else { 3 }), |answer| match answer {
        "" => Ok(None),
        "1" if is_tiny => Ok(None),
        "1" => Ok(Some(ToolsLevel::Read)),
        "2" => Ok(Some(ToolsLevel::Edit)),
        "3" => Ok(Some(ToolsLevel::Shell)),
        other => Err(format!("{other:?} is not one of 1, 2 and 3")),
    })?;
    let place = files.user_place.as_deref().map(|place| place.display().to_string()).unwrap_or_default();
    print::note("For which projects?");
    print::note(&format!("  1  this one: {}", bob_config::NAME));
    print::note(&format!("  2  all of yours: {place}"));
    let is_global = until_good("1 or 2? [1] ", |answer| match answer {
        "" | "1" => Ok(false),
        "2" => {
            let free = files.user_place.as_deref().map_or(Ok(()), |place| is_free(place, false));
            free.map(|()| true).map_err(|failure| failure.message)
        }
        other => Err(format!("{other:?} is not one of 1 and 2")),
    })?;
    Ok(Chosen { model, tools, is_global })
}

/// The files below the one that is written.
fn beneath(files: &Files, is_named: bool, is_global: bool) -> Files {
    let mut files = files.clone();
    files.main = None;
    if is_named || is_global {
        files.user = None;
    }
    files
}

/// Whether a configuration with this model over these files would be good; or what is wrong with the model.
fn checked(model: &str, beneath: &Files) -> Result<(), String> {
    let environment = Environment::of_process();
    let text = short(&Chosen { model: model.to_owned(), tools: None, is_global: false });
    let read = bob_config::parse(&text, Path::new(bob_config::NAME), &environment, &Overrides::default());
    read.map_err(|error| {
        // There is no file that a position would be in.
        error.problems().iter().map(|problem| problem.message.clone()).collect::<Vec<_>>().join("; ")
    })?;
    let asked = Overrides { model: Some(model.to_owned()), ..Overrides::default() };
    // A fault of another file is not one of the model.
    let Ok(config) = bob_config::load_all(beneath, &environment, &asked) else { return Ok(()) };
    match assemble::check(&config, &|name| std::env::var(name).ok()) {
        Err(AgentError::Llm(error)) if error.kind == LlmErrorKind::UnknownProvider => Err(error.to_string()),
        // A key may be set later.
        Err(_) | Ok(()) => Ok(()),
    }
}

/// What is built in for a small model on this machine, if this is that one.
fn tiny(model: &str) -> Option<Config> {
    // Without the keys of providers, one of which would choose its model.
    let kept = ["HOME", "XDG_CACHE_HOME"].into_iter().filter_map(|name| Some((name, std::env::var(name).ok()?)));
    let environment: Environment = kept.collect();
    let config = bob_config::load_all(&Files::none(&environment), &environment, &Overrides::default()).ok()?;
    (config.runtime.default_model == model).then_some(config)
}

/// Asks until the answer is good.
fn until_good<T>(question: &str, read: impl Fn(&str) -> Result<T, String>) -> Result<T, Failure> {
    loop {
        match read(&answer(question)?) {
            Ok(good) => return Ok(good),
            Err(why) => print::note(&why),
        }
    }
}

fn answer(question: &str) -> Result<String, Failure> {
    print::report(question);
    let mut line = String::new();
    let read = io::stdin().lock().read_line(&mut line);
    match read.map_err(|error| Failure::usage(format!("cannot read the answer: {error}")))? {
        0 => Err(Failure::usage("no answer; nothing was written")),
        _ => Ok(line.trim().to_owned()),
    }
}

/// A configuration that says what was chosen, and no more.
fn short(chosen: &Chosen) -> String {
    let Chosen { model, tools, is_global: _ } = chosen;
    let tiny = tiny(model);
    let policy = match (tools, &tiny) {
        (None, Some(tiny)) => {
            format!("# So small a model copes with few tools.\nallow_tools = {:?}\n", tiny.policy.rules.allow_tools)
        }
        (Some(ToolsLevel::Read), _) => "# Tools read and search; they change nothing.\n\
             allow_tools = [\"local/read_file\", \"local/list_dir\", \"local/find_files\", \"local/search_files\"]\n"
            .to_owned(),
        (Some(ToolsLevel::Edit), _) => {
            "# Tools read and change files; they run no commands.\ndeny_tools = [\"local/shell_exec\"]\n".to_owned()
        }
        (Some(ToolsLevel::Shell) | None, _) => {
            "# Tools also run commands, each after a question.\ndeny_tools = []\n".to_owned()
        }
    };
    let prompt = tiny.map(|tiny| format!("\n[prompt]\ninstructions = {:?}\n", tiny.prompt.instructions));
    let prompt = prompt.unwrap_or_default();
    let model = model.replace('\\', "\\\\").replace('"', "\\\"");
    format!(
        "# Written by `cli-agent init`. `cli-agent config set KEY VALUE` changes a key, and `cli-agent config get` shows\n\
         # what is in force. The agent.toml of the repository explains all keys.\n\
         \n\
         [runtime]\n\
         default_model = \"{model}\"\n\
         \n\
         [policy]\n\
         {policy}\
         {prompt}"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_short_configuration_holds_whatever_was_chosen() {
        for tools in [ToolsLevel::Read, ToolsLevel::Edit, ToolsLevel::Shell] {
            let text = short(&Chosen { model: "a:b\"c".to_owned(), tools: Some(tools), is_global: false });
            let config =
                bob_config::parse(&text, Path::new("agent.toml"), &Environment::default(), &Overrides::default());
            let config = config.unwrap_or_else(|error| panic!("{error}"));
            assert_eq!(config.runtime.default_model, "a:b\"c");
            assert_eq!(config.policy.rules.deny_tools.is_empty(), tools != ToolsLevel::Edit);
            assert_eq!(config.policy.rules.allow_tools == ["*"], tools != ToolsLevel::Read);
        }
    }
}
