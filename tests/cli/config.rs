//! Where the configuration is looked for, and the commands that show, change and write it.

use serde_json::{Value, json};
use std::fs;
use std::net::TcpStream;
use std::os::unix::fs::symlink;
use std::path::PathBuf;

use crate::home::{AGENT, Home};
use crate::support::program::{Program, Run};
use crate::support::scratch::Scratch;
use crate::support::terminal::Terminal;

const SCRIPTED: &str =
    "[runtime]\ndefault_model = \"demo:one\"\n[providers.demo]\nkind = \"scripted\"\nscript = \"s.json\"\n";
const SCRIPT: &str = r#"[{ "replies": [{ "text": "hello" }] }]"#;

/// A repository with a folder in it, and a home beside it.
struct Machine {
    scratch: Scratch,
}

impl Machine {
    fn new() -> Self {
        let scratch = Scratch::new();
        for folder in ["home", "config", "state", "cache", "repository/.git", "repository/src/deep"] {
            scratch.folder(folder);
        }
        Self { scratch }
    }

    fn with_project() -> Self {
        let machine = Self::new();
        machine.scratch.write("repository/agent.toml", SCRIPTED);
        machine.scratch.write("repository/s.json", SCRIPT);
        machine
    }

    fn with_user() -> Self {
        let machine = Self::new();
        machine.scratch.folder("config/cli-agent");
        machine.scratch.write("config/cli-agent/agent.toml", SCRIPTED);
        machine.scratch.write("config/cli-agent/s.json", SCRIPT);
        machine
    }

    fn environment(&self) -> [(&'static str, PathBuf); 4] {
        ["home", "config", "state", "cache"].map(|name| {
            let variable = match name {
                "home" => "HOME",
                "config" => "XDG_CONFIG_HOME",
                "state" => "XDG_STATE_HOME",
                _ => "XDG_CACHE_HOME",
            };
            (variable, self.scratch.join(name))
        })
    }

    fn program<'a>(&self, args: impl IntoIterator<Item = &'a str>) -> Program {
        let program = Program::new(AGENT).dir(self.scratch.join("repository/src/deep")).args(args);
        self.environment().into_iter().fold(program, |program, (name, value)| program.env(name, value))
    }

    /// The program in a folder of the repository.
    #[track_caller]
    fn run<'a>(&self, args: impl IntoIterator<Item = &'a str>) -> Run {
        self.program(args).run()
    }

    /// What it prints, if it succeeds.
    #[track_caller]
    fn says<'a>(&self, args: impl IntoIterator<Item = &'a str>) -> String {
        let run = self.run(args);
        assert_eq!(run.code, Some(0), "{run:?}");
        run.stdout
    }

    fn is_there(&self, name: &str) -> bool {
        self.scratch.join(name).exists()
    }
}

#[test]
fn a_projects_configuration_is_found_from_every_folder_of_its_repository() {
    let machine = Machine::with_project();
    assert_eq!(machine.run(["run", "hi"]).code, Some(2), "it needs trust, as in its own folder");
    machine.says(["trust", "--yes"]);
    assert_eq!(machine.says(["run", "hi"]), "hello\n");
    assert!(machine.is_there("repository/.bob") && !machine.is_there("repository/src/deep/.bob"));
    let path = machine.says(["config", "path"]);
    assert!(
        path.contains("repository/agent.toml\n") && path.contains("config/cli-agent/agent.toml (not there)"),
        "{path}"
    );
}

#[test]
fn without_a_home_and_a_file_the_error_names_the_home() {
    let scratch = Scratch::new();
    let run =
        Program::new(AGENT).dir(scratch.path()).env("HOME", "").env("XDG_CACHE_HOME", "").args(["run", "hi"]).run();
    assert_eq!(run.code, Some(2), "{run:?}");
    assert!(run.stderr.contains("HOME is not set") && !run.stderr.contains("agent.toml"), "{run:?}");
    let wrong = Program::new(AGENT).dir(scratch.path()).env("HOME", "").env("XDG_CACHE_HOME", "");
    let run = wrong.env("BOB__RUNTIME__MAX_STEPS", "many").args(["run", "hi"]).run();
    assert_eq!(run.code, Some(2), "{run:?}");
    assert!(run.stderr.contains("max_steps") && !run.stderr.contains("HOME"), "{run:?}");
}

#[test]
fn without_a_project_a_conversation_is_continued_in_its_own_folder() {
    let machine = Machine::with_user();
    let run = |folder: &str, args: &[&str]| {
        let program = Program::new(AGENT).dir(machine.scratch.folder(folder)).args(args.iter().copied());
        machine.environment().into_iter().fold(program, |program, (name, value)| program.env(name, value)).run()
    };
    for (folder, message) in [("one", "say one"), ("two", "say two")] {
        assert_eq!(run(folder, &["run", message]).code, Some(0));
    }
    let listed = run("one", &["sessions", "list", "--json"]).stdout;
    let listed: Value = serde_json::from_str(&listed).expect("JSON");
    let of = |title: &str| {
        let sessions = listed["sessions"].as_array().expect("a list");
        sessions.iter().find(|session| session["title"] == title).expect("the session").clone()
    };
    assert!(of("say one")["cwd"].as_str().is_some_and(|cwd| cwd.ends_with("/one")), "{listed}");
    let shown =
        |title: &str| run("one", &["sessions", "show", of(title)["session_id"].as_str().expect("an id")]).stdout;
    assert_eq!(run("one", &["run", "-c", "more"]).code, Some(0));
    assert!(shown("say one").contains("you: more\n") && !shown("say two").contains("you: more\n"));
    let other = run("other", &["run", "-c", "more"]);
    assert!(other.code == Some(2) && other.stderr.contains("no session to continue in "), "{other:?}");
    let id = of("say two")["session_id"].as_str().expect("an id").to_owned();
    let moved = run("one", &["run", "--resume", &id, "here"]);
    assert!(moved.code == Some(0) && moved.stderr.contains("/two; it goes on in "), "{moved:?}");
}

#[test]
fn the_users_own_configuration_works_in_every_folder_and_needs_no_trust() {
    let machine = Machine::with_user();
    assert_eq!(machine.says(["run", "hi"]), "hello\n");
    assert!(!machine.is_there("repository/.bob") && !machine.is_there("repository/src/deep/.bob"));
    let sessions = machine.says(["sessions", "list"]);
    assert!(sessions.contains("hi"), "{sessions}");
    assert!(fs::read_dir(machine.scratch.join("state/bob")).expect("a folder").count() > 0);
}

#[test]
fn a_project_completes_the_users_configuration_and_errors_name_their_file() {
    let machine = Machine::with_user();
    machine.scratch.write("repository/agent.toml", "[runtime]\nmax_steps = 3\n");
    assert_eq!(machine.says(["run", "hi"]), "hello\n", "nothing that needs trust is added");
    assert_eq!(machine.says(["config", "get", "runtime.max_steps"]), "3\n");
    assert_eq!(machine.says(["config", "get", "runtime.default_model"]), "demo:one\n");
    machine.scratch.write("config/cli-agent/agent.toml", format!("{SCRIPTED}colour = 1\n"));
    let run = machine.run(["config", "check"]);
    assert_eq!(run.code, Some(2), "{run:?}");
    assert!(run.stderr.contains("config/cli-agent/agent.toml:6:1"), "{}", run.stderr);
}

#[test]
fn without_any_configuration_a_key_chooses_the_model() {
    let machine = Machine::new();
    let run = machine.program(["config", "get", "runtime.default_model"]).env("OPENAI_API_KEY", "k").run();
    assert_eq!(run.stdout, "openai:gpt-4.1\n", "{run:?}");
    assert_eq!(machine.says(["config", "get", "runtime.default_model"]), "local:smollm2-135m\n");
    let check = machine.says(["config", "check"]);
    assert!(check.contains("no agent.toml") && check.contains("local:smollm2-135m"), "{check}");
}

/// The model on this machine is started from any folder, by what the program itself brings.
#[cfg(feature = "genai")]
#[test]
fn without_a_key_and_without_python_it_says_what_to_install() {
    let machine = Machine::new();
    machine.scratch.folder("bin");
    for name in ["sh", "cat", "dirname", "mkdir", "rm"] {
        let found = ["/bin", "/usr/bin"].map(|folder| PathBuf::from(folder).join(name));
        let found = found.into_iter().find(|path| path.exists()).expect("it is everywhere");
        symlink(found, machine.scratch.join("bin").join(name)).expect("a link");
    }
    // Another program may serve the model on this machine at this time; then it answers.
    let is_served = TcpStream::connect(("127.0.0.1", 8091)).is_ok();
    let run = machine.program(["run", "hi"]).env("PATH", machine.scratch.join("bin")).run();
    assert!(machine.is_there("cache/bob/scripts/local_model.py"));
    assert!(!machine.is_there("repository/src/deep/.tools"), "nothing is left where it was called");
    if is_served {
        return;
    }
    assert_eq!(run.code, Some(5), "{run:?}");
    assert!(run.stderr.contains("python3 is missing; install Python"), "{}", run.stderr);
}

#[test]
fn keys_are_set_in_the_projects_file_and_in_the_users() {
    let machine = Machine::with_project();
    machine.says(["trust", "--yes"]);
    machine.says(["config", "set", "runtime.max_steps", "200"]);
    assert_eq!(
        machine.scratch.read("repository/agent.toml"),
        SCRIPTED.replace("[runtime]\n", "[runtime]\nmax_steps = 200\n")
    );
    assert_eq!(machine.says(["run", "hi"]), "hello\n", "it stays trusted");
    machine.says(["config", "set", "--global", "runtime.default_model", "openai:gpt-4.1"]);
    let user = "[runtime]\ndefault_model = \"openai:gpt-4.1\"\n";
    assert_eq!(machine.scratch.read("config/cli-agent/agent.toml"), user);
    assert_eq!(machine.says(["config", "get", "runtime.default_model"]), "demo:one\n", "the project says otherwise");
    for (args, why) in [
        (["runtime.max_steps", "0"], "must be between 1 and 1000000"),
        (["runtime.max_stepz", "5"], "did you mean runtime.max_steps?"),
        (["llm.tool_mode", "loud"], "expected one of: auto, json, native"),
    ] {
        let run = machine.run(["config", "set"].into_iter().chain(args));
        assert_eq!(run.code, Some(2), "{run:?}");
        assert!(run.stderr.contains(why), "{}", run.stderr);
    }
    assert_eq!(machine.says(["config", "get", "runtime.max_steps"]), "200\n", "nothing bad was written");
    // Other errors are told, and do not stand in the way.
    let broken = "[runtime]\nmax_stepz = 3\ndefault_model = \"demo:one\"\n[providers.demo]\nkind = \"scripted\"\n";
    machine.scratch.write("repository/agent.toml", broken);
    let set = machine.run(["config", "set", "runtime.max_steps", "7"]);
    assert_eq!(set.code, Some(0), "{set:?}");
    assert!(set.stderr.contains("has other errors, which `cli-agent config check` shows"), "{set:?}");
    let bad = machine.run(["config", "set", "runtime.max_tool_calls", "lots"]);
    assert_eq!(bad.code, Some(2), "{bad:?}");
    let why = "nothing was written: `runtime.max_tool_calls`: expected an integer, found a string";
    assert!(bad.stderr.contains(why) && !bad.stderr.contains("max_stepz"), "{bad:?}");
    let written = machine.scratch.read("repository/agent.toml");
    assert_eq!(written, broken.replace("[runtime]\n", "[runtime]\nmax_steps = 7\n"));
    let without = Machine::new();
    let lots = without.run(["config", "set", "runtime.max_steps", "lots"]);
    assert!(lots.code == Some(2) && !lots.stderr.contains("default_model"), "{lots:?}");
    without.says(["config", "set", "log.level", "info"]);
    assert_eq!(without.scratch.read("config/cli-agent/agent.toml"), "[log]\nlevel = \"info\"\n");
}

#[test]
fn init_writes_what_was_chosen_for_a_project_or_for_all() {
    let machine = Machine::new();
    machine.says(["init", "--model", "anthropic:claude-sonnet-4-5", "--tools", "edit"]);
    let project = machine.scratch.read("repository/src/deep/agent.toml");
    assert!(
        project.contains("default_model = \"anthropic:claude-sonnet-4-5\"") && project.lines().count() < 15,
        "{project}"
    );
    machine.says(["init", "--global", "--model", "openai:gpt-4.1", "--tools", "shell"]);
    let user = machine.scratch.read("config/cli-agent/agent.toml");
    assert!(user.contains("openai:gpt-4.1") && user.contains("deny_tools = []"), "{user}");
    assert_eq!(machine.run(["init", "--global", "--model", "openai:gpt-4.1"]).code, Some(2), "it is there");
    assert_eq!(machine.run(["init", "--force", "--model", "nonsense"]).code, Some(2));
}

#[test]
fn init_asks_three_questions_at_a_terminal() {
    let machine = Machine::new();
    let environment = machine.environment().map(|(name, value)| (name, value.display().to_string()));
    let environment: Vec<(&str, &str)> = environment.iter().map(|(name, value)| (*name, value.as_str())).collect();
    let mut terminal =
        Terminal::start_on(120, AGENT, &["init"], &machine.scratch.join("repository/src/deep"), &environment);
    terminal.wait_for("Which model, as provider:model? [local:smollm2-135m]");
    terminal.type_line("bogus model");
    terminal.wait_until("the question again", |screen| screen.contents().matches("Which model").count() == 2);
    terminal.type_line("nope:x");
    terminal.wait_for("provider \"nope\" is not known");
    terminal.wait_until("and again", |screen| screen.contents().matches("Which model").count() == 3);
    terminal.type_line("openai:gpt-4.1");
    terminal.wait_for("1, 2 or 3? [3]");
    terminal.type_line("9");
    terminal.wait_for("\"9\" is not one of 1, 2 and 3");
    // The default is what holds without a file.
    terminal.type_line("");
    terminal.wait_for("1 or 2? [1]");
    terminal.type_line("2");
    assert!(terminal.wait_exit().success());
    let written = machine.scratch.read("config/cli-agent/agent.toml");
    assert!(written.contains("openai:gpt-4.1") && written.contains("deny_tools = []"), "{written}");
    assert!(!machine.is_there("repository/src/deep/agent.toml"));
}

#[test]
fn init_asks_nothing_where_a_file_is_already() {
    let machine = Machine::new();
    machine.scratch.write("repository/src/deep/agent.toml", "mine");
    let environment = machine.environment().map(|(name, value)| (name, value.display().to_string()));
    let environment: Vec<(&str, &str)> = environment.iter().map(|(name, value)| (*name, value.as_str())).collect();
    let terminal =
        Terminal::start_on(120, AGENT, &["init"], &machine.scratch.join("repository/src/deep"), &environment);
    assert_eq!(terminal.wait_exit().exit_code(), 2);
    terminal.wait_for("agent.toml already exists; use --force to overwrite it");
    assert!(!terminal.screen().contains("Which model"), "{}", terminal.screen());
}

#[test]
fn init_refuses_a_model_that_cannot_run_and_writes_nothing() {
    let machine = Machine::with_user();
    machine.scratch.write("repository/src/deep/agent.toml", "mine");
    for (model, why) in [("nope:x", "--model nope:x: provider \"nope\" is not known"), ("gpt-4o", "--model gpt-4o: ")] {
        let run = machine.run(["init", "--force", "--model", model]);
        assert_eq!(run.code, Some(2), "{run:?}");
        assert!(run.stderr.contains(why) && run.stderr.contains("nothing was written"), "{run:?}");
        assert!(!run.stderr.contains("-->") && !run.stderr.contains("1 problem"), "{run:?}");
    }
    assert_eq!(machine.scratch.read("repository/src/deep/agent.toml"), "mine");
    // The user's own file has this provider.
    machine.says(["init", "--force", "--model", "demo:one"]);
    machine.says(["config", "check"]);
}

#[test]
fn init_offers_the_model_on_this_machine_what_it_copes_with() {
    let machine = Machine::new();
    let holds = || {
        ["tools", "instructions"].map(|what| match what {
            "tools" => machine.says(["tools"]),
            _ => machine.says(["config", "get", "prompt.instructions"]),
        })
    };
    let without_file = holds();
    machine.says(["init"]);
    assert_eq!(holds(), without_file);
    assert!(machine.is_there("repository/src/deep/agent.toml"));
    machine.says(["init", "--force", "--tools", "shell"]);
    let [tools, instructions] = holds();
    assert!(tools.contains("local/shell_exec") && !without_file[0].contains("local/shell_exec"), "{tools}");
    assert_eq!(instructions, without_file[1]);
}

#[test]
fn a_value_that_is_refused_is_not_repeated_where_it_may_be_a_secret() {
    let home = Home::scripted(&json!([{ "replies": [{ "text": "hello" }] }]));
    let run = home.run(["config", "set", "providers.mine.base_url", "http://me:canary@h/v1/"]);
    assert_eq!(run.code, Some(2), "{run:?}");
    assert!(run.stderr.contains("nothing was written") && !run.stderr.contains("canary"), "{run:?}");
    let run = home.run(["config", "set", "runtime.max_steps", "many"]);
    assert!(run.code == Some(2) && run.stderr.contains("runtime.max_steps"), "{run:?}");
    assert!(!home.scratch.read("agent.toml").contains("mine"), "nothing was written");
}
