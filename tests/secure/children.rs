//! The environment of children: a short list, and explicit variables.

use std::collections::BTreeMap;
use std::fs;

use serde_json::Value;

use crate::secure::canaries::{assert_no_canary, canary};
use crate::secure::fixture::{Fixture, drill, model_at};
use crate::support::provider::FakeProvider;
use crate::support::reply::Reply;

/// Names of variables with keys, and some that change a program's behaviour.
const PRIVATE: [&str; 20] = [
    "OPENAI_API_KEY",
    "ANTHROPIC_API_KEY",
    "GEMINI_API_KEY",
    "GROQ_API_KEY",
    "AWS_SECRET_ACCESS_KEY",
    "AWS_SESSION_TOKEN",
    "AZURE_CLIENT_SECRET",
    "GOOGLE_APPLICATION_CREDENTIALS",
    "GITHUB_TOKEN",
    "GH_TOKEN",
    "NPM_TOKEN",
    "HF_TOKEN",
    "DATABASE_URL",
    "PGPASSWORD",
    "SSH_AUTH_SOCK",
    "KUBECONFIG",
    "NODE_OPTIONS",
    "MY_OWN_SECRET",
    "openai_api_key",
    "BOB_PRIVATE",
];

/// Inherited variables.
const SEEN: [&str; 6] = ["PATH", "HOME", "LANG", "TMPDIR", "USER", "TERM"];

fn variables(environ: &[u8]) -> BTreeMap<String, String> {
    let pairs = environ.split(|byte| matches!(byte, 0 | b'\n')).filter(|pair| !pair.is_empty());
    let texts = pairs.map(|pair| String::from_utf8_lossy(pair).into_owned());
    texts.filter_map(|text| text.split_once('=').map(|(name, value)| (name.to_owned(), value.to_owned()))).collect()
}

/// Fails for a variable that is neither inherited nor given nor set by a shell for itself.
#[track_caller]
fn assert_only(who: &str, variables: &BTreeMap<String, String>, given: &[&str]) {
    let by_a_shell = ["PWD", "OLDPWD", "SHLVL", "_"];
    for name in variables.keys() {
        let is_known = [&SEEN[..], &by_a_shell, given].iter().any(|names| names.contains(&name.as_str()));
        assert!(is_known || name.starts_with("LC_"), "{who} sees {name}");
    }
    assert!(variables.contains_key("PATH") || who == "the watcher", "{who} sees nothing: {variables:?}");
}

/// All processes below this one.
fn descendants(pid: i32) -> Vec<i32> {
    let parent = |process: i32| -> Option<i32> {
        let stat = fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
        stat.rsplit(") ").next()?.split(' ').nth(1)?.parse().ok()
    };
    let names = fs::read_dir("/proc").expect("processes").flatten().map(|entry| entry.file_name());
    let all: Vec<i32> = names.filter_map(|name| name.to_str()?.parse().ok()).collect();
    let mut found = vec![pid];
    let mut at = 0;
    while let Some(above) = found.get(at).copied() {
        found.extend(all.iter().copied().filter(|process| parent(*process) == Some(above)));
        at += 1;
    }
    found.split_off(1)
}

#[test]
fn g2_children_see_a_short_list_and_what_they_are_given() {
    let provider = FakeProvider::start([
        Reply::call("c1", "mcp__drill__env", "{}"),
        Reply::call("c2", "local__shell_exec", r#"{"command":"tr '\\0' '\\n' < /proc/$$/environ"}"#),
        Reply::text("All seen."),
    ]);
    let tables = "[policy]\nrequire_high_risk_approval = false\ndeny_tools = []\n[store]\nkind = \"memory\"\n\
                  [providers.slow]\nkind = \"openai\"\nbase_url = \"http://127.0.0.1:9/v1/\"\napi_key = \"none\"\n\
                  start = { command = \"sh\", args = [\"-c\", \"cat /proc/self/environ > model.env; exit 3\"], \
                  env = { MODEL_TOKEN = \"${GIVEN_TO_MODEL}\" }, inherit_env = [\"PIP_*\"] }\n";
    let fixture = Fixture::new(&format!(
        "{}{tables}{}",
        model_at(&provider.base_url(), ""),
        drill("drill", &["launcher"], "env = { DRILL_TOKEN = \"${GIVEN_TO_DRILL}\" }")
    ));
    let with_keys = |args: &[&str]| {
        let mut program = fixture.agent(args.iter().copied());
        for (number, name) in PRIVATE.iter().enumerate() {
            program = program.env(name, canary(number));
        }
        let given =
            [("GIVEN_TO_MODEL", "for the model"), ("GIVEN_TO_DRILL", "for the drill"), ("PIP_INDEX", "an index")];
        given.into_iter().fold(program, |program, (name, value)| program.env(name, value))
    };

    let mut chat = with_keys(&["chat"]).open_stdin().spawn();
    chat.type_line("Show me everything.");
    chat.wait_stdout("All seen.\n");
    let below = descendants(chat.pid());
    assert!(below.len() >= 3, "the watcher, the server and its launchers: {below:?}");
    let mut has_drill = false;
    for pid in below {
        let environ = fs::read(format!("/proc/{pid}/environ")).expect("a process that lives");
        let command = fs::read(format!("/proc/{pid}/cmdline")).expect("a process that lives");
        let command = String::from_utf8_lossy(&command).replace('\0', " ");
        assert_no_canary(&command, &environ);
        let seen = variables(&environ);
        let who = if command.contains("bob-watcher") { "the watcher" } else { &command };
        assert_only(who, &seen, &["DRILL_TOKEN"]);
        has_drill |= seen.get("DRILL_TOKEN").map(String::as_str) == Some("for the drill");
    }
    assert!(has_drill, "what is named is given");
    assert_eq!(chat.finish().code, Some(0));

    let told: Vec<Value> = provider.requests().into_iter().map(|request| request.body).collect();
    let last = told.last().expect("requests").to_string();
    assert!(last.contains("DRILL_TOKEN") && last.contains("exit code 0"), "{last}");
    let results = told.last().expect("requests")["messages"].as_array().expect("messages").iter();
    for result in results.filter(|message| message["role"] == "tool") {
        assert_no_canary("the result of a tool", result["content"].as_str().unwrap_or_default().as_bytes());
    }
    assert!(!last.contains("for the model"), "one child's key is not another's");

    let run = with_keys(&["run", "--model", "slow:m", "hi"]).run();
    assert_eq!(run.code, Some(5), "{run:?}");
    let environ = fs::read(fixture.scratch.join("model.env")).expect("the model server was started");
    assert_no_canary("the model server", &environ);
    let seen = variables(&environ);
    assert_only("the model server", &seen, &["MODEL_TOKEN", "PIP_INDEX"]);
    assert_eq!(seen["MODEL_TOKEN"], "for the model");
}
