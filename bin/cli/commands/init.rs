//! `init`: a configuration to begin with.

use std::io::{self, BufRead, IsTerminal};
use std::path::{Path, PathBuf};

use bob_config::{Config, Environment, Files, Overrides};

use super::config::write_new;
use crate::arguments::{InitArgs, ToolsLevel};
use crate::exit::{Exit, Failure};
use crate::runtime::trust;
use crate::terminal::print;

/// The script that starts the shipped local model, relative to the configuration.
const MODEL_SCRIPT: &str = "scripts/local-model.sh";

/// What a short configuration says.
struct Chosen {
    model: String,
    tools: ToolsLevel,
    is_global: bool,
}

/// Writes a configuration: a short one with what was chosen, or, beside the scripts that it names, the shipped one, which
/// explains every key.
///
/// # Errors
/// When the file is there already and was not to be replaced, or cannot be written; when an answer is none.
pub(crate) fn init(args: &InitArgs, named: Option<&Path>, files: &Files) -> Result<Exit, Failure> {
    let is_asked = !args.is_complete() && named.is_none() && io::stdin().is_terminal() && io::stderr().is_terminal();
    let chosen = match is_asked {
        true => Some(ask(files)?),
        // The shipped file starts a script and a server of the repository: elsewhere it would not work.
        false if args.is_chosen() || !has_scripts(&args.project(named)) => Some(Chosen {
            model: args.model.clone().map_or_else(default_model, Ok)?,
            tools: args.tools.unwrap_or_default(),
            is_global: args.global,
        }),
        false => None,
    };
    let file = match &chosen {
        Some(Chosen { is_global: true, .. }) => global(named, files)?,
        Some(_) | None => args.project(named),
    };
    let text = chosen.as_ref().map_or_else(|| Config::example().to_owned(), short);
    let good = bob_config::parse(&text, &file, &Environment::of_process(), &Overrides::default());
    if let (Err(error), Some(_)) = (good, &chosen) {
        return Err(error.into());
    }
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
    let model = until_good(&format!("Which model, as provider:model? [{usual}] "), |answer| {
        let model = if answer.is_empty() { usual.clone() } else { answer.to_owned() };
        checked(&model).map(|()| model)
    })?;
    print::note("What may tools do in the working folder?");
    print::note("  1  read and search files");
    print::note("  2  also change files");
    print::note("  3  also run commands; each is asked about");
    let tools = until_good("1, 2 or 3? [3] ", |answer| match answer {
        "1" => Ok(ToolsLevel::Read),
        "2" => Ok(ToolsLevel::Edit),
        "" | "3" => Ok(ToolsLevel::Shell),
        other => Err(format!("{other:?} is not one of 1, 2 and 3")),
    })?;
    let place = files.user_place.as_deref().map(|place| place.display().to_string()).unwrap_or_default();
    print::note("For which projects?");
    print::note(&format!("  1  this one: {}", bob_config::NAME));
    print::note(&format!("  2  all of yours: {place}"));
    let is_global = until_good("1 or 2? [1] ", |answer| match answer {
        "" | "1" => Ok(false),
        "2" => Ok(true),
        other => Err(format!("{other:?} is not one of 1 and 2")),
    })?;
    Ok(Chosen { model, tools, is_global })
}

/// Whether a configuration with this model would be good; or what is wrong with the model.
fn checked(model: &str) -> Result<(), String> {
    let text = short(&Chosen { model: model.to_owned(), tools: ToolsLevel::default(), is_global: false });
    let read = bob_config::parse(&text, Path::new(bob_config::NAME), &Environment::of_process(), &Overrides::default());
    read.map(drop).map_err(|error| {
        // There is no file that a position would be in.
        error.problems().iter().map(|problem| problem.message.clone()).collect::<Vec<_>>().join("; ")
    })
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
    let policy = match tools {
        ToolsLevel::Read => {
            "# Tools read and search; they change nothing.\n\
             allow_tools = [\"local/read_file\", \"local/list_dir\", \"local/find_files\", \"local/search_files\"]\n"
        }
        ToolsLevel::Edit => {
            "# Tools read and change files; they run no commands.\ndeny_tools = [\"local/shell_exec\"]\n"
        }
        ToolsLevel::Shell => "# Tools also run commands, each after a question.\ndeny_tools = []\n",
    };
    let model = model.replace('\\', "\\\\").replace('"', "\\\"");
    format!(
        "# Written by `cli-agent init`. `cli-agent config set KEY VALUE` changes a key, and `cli-agent config get` shows\n\
         # what is in force. The agent.toml of the repository explains all keys.\n\
         \n\
         [runtime]\n\
         default_model = \"{model}\"\n\
         \n\
         [policy]\n\
         {policy}"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_short_configuration_holds_whatever_was_chosen() {
        for tools in [ToolsLevel::Read, ToolsLevel::Edit, ToolsLevel::Shell] {
            let text = short(&Chosen { model: "a:b\"c".to_owned(), tools, is_global: false });
            let config =
                bob_config::parse(&text, Path::new("agent.toml"), &Environment::default(), &Overrides::default());
            let config = config.unwrap_or_else(|error| panic!("{error}"));
            assert_eq!(config.runtime.default_model, "a:b\"c");
            assert_eq!(config.policy.rules.deny_tools.is_empty(), tools != ToolsLevel::Edit);
            assert_eq!(config.policy.rules.allow_tools == ["*"], tools != ToolsLevel::Read);
        }
    }
}
