//! Each command in README.md and `docs/` is run: here, in a folder with a scripted model, or by the named test or
//! script; one is interactive. A command that is missing in the table, an unused entry of the table, and a command
//! outside a fenced block are errors.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use serde_json::json;

use crate::home::{AGENT, Home};
use crate::support::program::Program;

/// Where a command is run.
enum By {
    /// Here, by a shell, in the order of the table; it exits with this code.
    Exit(i32),
    /// By the test of this name.
    Test(&'static str),
    /// By `.ci/run` or `scripts/night.sh`, which contain the text; with smaller numbers if a run is long.
    Script(&'static str),
    /// By a person: it needs this.
    Hand(&'static str),
}
use By::{Exit, Hand, Script, Test};

const REAL_MODEL: By = Test("a_question_and_a_listing_are_answered_and_the_server_ends_with_the_program");
const TERMINAL: By = Test("an_answer_grows_and_a_call_is_one_line");

/// The commands of fenced blocks, without comments.
const COMMANDS: &[(&str, By)] = &[
    ("cargo run --release --bin cli-agent -- --config agent.toml", REAL_MODEL),
    ("cli-agent --config agent.toml", REAL_MODEL),
    ("cargo test --workspace --all-features", Script("cargo test --workspace --all-features")),
    ("sh scripts/package.sh", Script("sh scripts/package.sh")),
    ("sh scripts/package.sh --verify", Script("sh scripts/package.sh --verify")),
    (
        "cli-agent --config agent.toml run --model openai:gpt-4o-mini \"What is the capital of France?\"",
        Test("openai_answers"),
    ),
    ("cli-agent --config agent.toml chat --model anthropic:claude-haiku-4-5", Test("anthropic_answers")),
    ("cli-agent --config agent.toml mcp list", Exit(0)),
    ("cli-agent --config agent.toml run --output json \"What is the capital of France?\"", Exit(0)),
    ("cli-agent doctor", Exit(0)),
    (
        "cli-agent init --model anthropic:claude-sonnet-4-5 --tools edit",
        Test("init_writes_what_was_chosen_for_a_project_or_for_all"),
    ),
    ("cli-agent config path", Exit(0)),
    ("cli-agent config get runtime.max_steps", Exit(0)),
    ("cli-agent config set runtime.max_steps 200", Exit(0)),
    (
        "cli-agent config set --global runtime.default_model openai:gpt-4.1",
        Test("keys_are_set_in_the_projects_file_and_in_the_users"),
    ),
    ("cli-agent config check", Exit(0)),
    ("cli-agent chat", TERMINAL),
    ("cli-agent chat --session demo", TERMINAL),
    ("cli-agent batch - > answers.jsonl", Exit(0)),
    ("cli-agent approvals list", Exit(0)),
    (
        "cli-agent approvals revoke 1e9aebd6",
        Test("what_was_allowed_for_good_is_listed_and_asked_about_again_once_it_is_taken_back"),
    ),
    ("cli-agent run --approvals suspend \"clean up the build folder\"", Exit(4)),
    ("cli-agent resume 0199…~c0ffee…-5 allow", Test("each_decision_does_what_it_says")),
    (
        "cli-agent run --approvals suspend \"tidy up the project\"",
        Test("a_line_of_agents_that_waits_is_resumed_by_programs_that_are_killed"),
    ),
    (
        "cli-agent resume 0199…~c0ffee…-7 allow",
        Test("a_line_of_agents_that_waits_is_resumed_by_programs_that_are_killed"),
    ),
    ("cli-agent ps", Exit(2)),
    ("cli-agent top", Exit(2)),
    ("cli-agent ps --json | jq '.processes[0].metrics.turns'", Test("ps_shows_every_actor_of_a_running_batch")),
    ("cli-agent sessions show ID", Test("sessions_are_listed_shown_exported_and_deleted")),
    ("cli-agent soak", Test("a_run_with_every_kind_of_chaos_passes_and_says_what_it_saw")),
    (
        "cli-agent soak --sessions 1000 --turns 20 --seed 1 --report soak.html",
        Script("soak --sessions 1000 --turns 20"),
    ),
    ("cli-agent soak --sessions 10000 --turns 3 --chaos off", Test("a_run_without_chaos_over_a_new_store_passes")),
    (
        "cli-agent soak --duration 30m --chaos default,process-kill=12/h --json soak.json",
        Test("an_interrupt_ends_the_run_and_it_is_judged_as_far_as_it_came"),
    ),
    (
        "cli-agent soak --prompts prompts.txt --sessions 4 --turns 2",
        Test("prompts_run_against_a_configuration_of_ones_own_in_a_store_of_its_own"),
    ),
    (
        "cli-agent soak --replicas 3 --store postgres --sessions 50 --duration 2m",
        Script("soak --replicas 3 --store postgres --sessions"),
    ),
    ("cli-agent soak --list-chaos", Exit(0)),
    (
        "cli-agent run --output-schema answer.schema.json \"Which of these files is the largest?\"",
        Test("a_run_prints_json_that_fits"),
    ),
    ("cli-agent run \"Which files are here?\"", Exit(0)),
    ("cli-agent run --tape record:hello.tape \"Say hello.\"", Exit(0)),
    ("cli-agent run --tape replay:hello.tape \"Say hello.\"", Exit(0)),
    ("cli-agent batch --tape record:all.tape questions.jsonl", Exit(0)),
    ("cli-agent sessions export notes > notes.jsonl", Exit(0)),
    ("cli-agent replay notes.jsonl", Exit(0)),
    ("cli-agent replay --session notes", Exit(0)),
    ("cli-agent replay --json notes.jsonl", Exit(0)),
    (
        "sh scripts/record-fixtures.sh",
        Test("g15_a_run_is_recorded_without_its_keys_and_replayed_without_server_and_keys"),
    ),
    ("sh scripts/record-fixtures.sh --real", Test("what_a_real_model_said_is_replayed_without_it")),
    ("just race", Script("benches/peers/Cargo.toml")),
    ("cargo bench --bench race", Script("race --rounds=1")),
    ("cargo bench --bench race -- --mode=load --backend=mock --n=5000", Script("race --mode=load --backend=mock")),
    (
        "cargo bench --bench race -- --mode=hold --backend=mock --n=10000 --latency=2000",
        Script("race --mode=hold --backend=mock"),
    ),
    (
        "cargo bench --bench race -- --mode=idle --backend=mock --n=10000 --warmup=200",
        Script("race --mode=idle --backend=mock"),
    ),
    (
        "cargo bench --bench race -- --mode=idle --backend=mock --n=10000 --warmup=2000 --conc=64 --passivate=1",
        Script("--conc=64 --passivate=1"),
    ),
    ("cargo bench --bench race -- --mode=start --n=1", Script("race --mode=start --n=1")),
    (
        "cargo bench --bench race -- --mode=deltas --words=1000 --k=0 --n=300",
        Script("race --mode=deltas --words=1000 --k=0"),
    ),
    (
        "cargo bench --bench race -- --mode=load --backend=stream --conc=64 --n=4000 --base=http://127.0.0.1:18080/v1",
        Hand("a provider of OpenAI's format at that address"),
    ),
    ("cargo bench --bench race -- --mode=cancel --n=1000 --conc=1000 --latency=200", Script("race --mode=cancel")),
    (
        "cargo bench --bench race -- --mode=cancel --n=200 --conc=1000 --latency=200 --burn=2",
        Script("race --mode=cancel"),
    ),
    (
        "cargo bench --bench race -- --mode=recover --store=sqlite --n=1000",
        Script("race --mode=recover --store=sqlite"),
    ),
    (
        "cargo bench --bench race -- --mode=activate --store=sqlite --turns=10000 --n=15",
        Script("race --mode=activate --store=sqlite"),
    ),
    ("drill/refund/refund.py", Test("a_refund_is_neither_lost_nor_doubled_by_a_kill_and_what_is_not_known_is_told")),
    ("drill/refund/refund.py --adapter bob --keyed", Test("a_refund_with_an_idempotency_key_is_made_once")),
    (
        "drill/refund/refund.py --adapter langgraph --adapter langgraph-js --adapter pydantic-ai --adapter mastra",
        Hand("four frameworks, which it installs, and most of an hour"),
    ),
    ("scripts/exits.py --rounds 50", Script("scripts/exits.py --rounds")),
    ("benches/instructions.py", Script("benches/instructions.py")),
    (
        "echo '{\"decision\": \"deny\", \"reason\": \"a person pushes, after a review\"}'",
        Test("a_call_that_a_hook_denies_does_not_run_and_is_listed_with_the_reason"),
    ),
    ("cargo build --release --features postgres", Hand("some minutes of a release build")),
    ("sh scripts/postgres.sh start /tmp/bob-postgres", Script("scripts/postgres.sh start")),
    ("cli-agent work &", Test("a_worker_answers_what_another_process_submits")),
    (
        "cli-agent submit --session one \"Remember: the key is under the mat.\"",
        Test("a_worker_answers_what_another_process_submits"),
    ),
    (
        "cli-agent submit --session one --follow \"Where is the key?\"",
        Test("a_submitted_turn_whose_worker_dies_is_answered_once"),
    ),
    ("cli-agent sessions list", Exit(0)),
    ("cli-agent trust", Test("g1_a_found_configuration_starts_nothing_until_it_is_trusted")),
];

#[test]
fn every_command_of_the_documents_is_run() {
    let shown = shown();
    let known: BTreeSet<String> = COMMANDS.iter().map(|(command, _)| (*command).to_owned()).collect();
    assert_eq!(shown, known, "the commands of the documents, and those that are known to be run");
    let tests = sources(&root().join("tests"));
    let scripts = ["justfile", ".ci/run", "scripts/night.sh"].map(|file| read(&root().join(file))).join("\n");
    let home = prepared();
    for (command, by) in COMMANDS {
        match by {
            Exit(code) => {
                let run = shell(&home, command);
                assert_eq!(run.0, Some(*code), "{command}: {}", run.1);
            }
            Test(name) => assert!(tests.contains(&format!("fn {name}(")), "{command}: there is no test {name}"),
            Script(text) => assert!(scripts.contains(text), "{command}: no script has {text}"),
            Hand(needs) => println!("{command}: not run, it needs {needs}"),
        }
    }
}

#[test]
fn every_command_that_a_sentence_names_exists() {
    let home = Home::scripted(&json!([{ "replies": [{ "text": "Hello." }] }]));
    let mut named = BTreeSet::new();
    for page in pages() {
        for span in read(&page).split('`').skip(1).step_by(2) {
            let Some(rest) = span.strip_prefix("cli-agent ") else { continue };
            let words: Vec<_> =
                rest.split(' ').skip_while(|word| *word == "--config" || *word == "agent.toml").collect();
            let is_name =
                |word: &&&str| word.chars().all(|letter| letter.is_ascii_lowercase() || "-\\|".contains(letter));
            let path: Vec<_> =
                words.iter().take_while(is_name).filter(|word| !word.starts_with('-')).copied().collect();
            let Some((last, first)) = path.split_last() else { continue };
            named.extend(last.split("\\|").map(|last| [first, &[last]].concat().join(" ")));
        }
    }
    assert!(named.len() > 15, "{named:?}");
    for command in named {
        let run = home.found(command.split(' ').chain(["--help"])).run();
        assert_eq!(run.code, Some(0), "{command}: {}", run.stderr);
    }
}

/// A folder in which the commands mean something.
fn prepared() -> Home {
    let call = json!({ "name": "local/shell_exec", "arguments": { "command": "make clean" } });
    let script = json!([
        { "when": "clean up", "replies": [{ "calls": [call] }, { "text": "It is clean." }] },
        { "replies": [{ "text": "Hello." }] },
    ]);
    let home = Home::with(
        "default_model = \"demo:one\"",
        "[providers.demo]\nkind = \"scripted\"\nscript = \"s.json\"\n[policy]\ndeny_tools = []\n",
    );
    home.scratch.write("s.json", script.to_string());
    home.scratch.write("questions.jsonl", "{\"session\":\"a\",\"prompt\":\"Say hello.\"}\n");
    assert_eq!(home.run(["run", "--session", "notes", "Say hello."]).code, Some(0));
    home
}

/// Runs a shell line with this program as `cli-agent`; returns its exit code and output.
fn shell(home: &Home, command: &str) -> (Option<i32>, String) {
    let config = if command.contains("--config") { "" } else { " --config agent.toml" };
    let line = command.replacen("cli-agent", &format!("'{AGENT}'{config}"), 1);
    let stdin = "{\"session\":\"a\",\"prompt\":\"What is in docs?\"}\n{\"session\":\"b\",\"prompt\":\"Say hello.\"}\n";
    let run = Program::new("/bin/sh")
        .args(["-c", &line])
        .dir(home.scratch.path())
        .env("XDG_STATE_HOME", home.scratch.join("state"))
        .stdin(if command.contains("batch -") { stdin } else { "" })
        .run();
    (run.code, format!("{}{}", run.stdout, run.stderr))
}

/// The commands of all fenced blocks.
fn shown() -> BTreeSet<String> {
    const PROGRAMS: [&str; 8] = [
        "cli-agent",
        "cargo",
        "sh",
        "echo",
        "just",
        "scripts/exits.py",
        "benches/instructions.py",
        "drill/refund/refund.py",
    ];
    let mut shown = BTreeSet::new();
    for page in pages() {
        let mut is_block = false;
        for line in read(&page).lines() {
            if line.trim_start().starts_with("```") {
                is_block = !is_block;
                continue;
            }
            let is_indented = line.starts_with("    ");
            let line = line.trim_start().trim_start_matches("$ ");
            if line.split(' ').next().is_some_and(|program| PROGRAMS.contains(&program)) {
                assert!(
                    is_block || !is_indented,
                    "{}: this command stands outside a fenced block: {line}",
                    page.display()
                );
                if is_block {
                    shown.insert(command(line));
                }
            }
        }
    }
    shown
}

/// The command without its comment, which follows a `#` or is in a separate column.
fn command(line: &str) -> String {
    let line = line.split(" #").next().unwrap_or_default();
    line.split("   ").next().unwrap_or_default().trim_end().to_owned()
}

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn pages() -> Vec<PathBuf> {
    let docs = fs::read_dir(root().join("docs")).expect("a folder").map(|entry| entry.expect("an entry").path());
    let pages = docs.filter(|path| path.extension().is_some_and(|end| end == "md"));
    [root().join("README.md")].into_iter().chain(pages).collect()
}

fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// All Rust files below a folder as one text.
fn sources(folder: &Path) -> String {
    let mut text = String::new();
    for entry in fs::read_dir(folder).expect("a folder") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            text += &sources(&path);
        } else if path.extension().is_some_and(|end| end == "rs") {
            text += &read(&path);
        }
    }
    text
}
