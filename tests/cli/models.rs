//! The catalogue of models: listed, shown, selected from, asked for again, and not used when it is too old.

use serde_json::{Value, json};
use std::io::{Read, Write};
use std::net::TcpListener;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use crate::home::Home;
use crate::support::program::{Program, Run};

/// Three models of the scripted provider `demo` and one of a provider that is not there, in the form of models.dev.
const MODELS_DEV: &str = r#"{
  "demo": {"id": "demo", "models": {
    "small": {"id": "small", "tool_call": true, "cost": {"input": 1, "output": 2}, "limit": {"context": 100000}},
    "seeing": {"id": "seeing", "tool_call": true, "modalities": {"input": ["text", "image"], "output": ["text"]},
      "cost": {"input": 3, "output": 4}, "limit": {"context": 100000}},
    "tiny": {"id": "tiny", "cost": {"input": 0.1, "output": 0.1}, "limit": {"context": 1000}}}},
  "elsewhere": {"id": "elsewhere", "models": {
    "small": {"id": "small", "cost": {"input": 0.01, "output": 0.01}, "limit": {"context": 100000}}}}}"#;

/// The same models in the form of LiteLLM.
const LITELLM: &str = r#"{
  "demo/small": {"litellm_provider": "demo", "mode": "chat", "max_input_tokens": 100000, "input_cost_per_token": 1e-06,
    "output_cost_per_token": 2e-06, "supports_function_calling": true},
  "demo/seeing": {"litellm_provider": "demo", "mode": "chat", "max_input_tokens": 100000, "input_cost_per_token": 3e-06,
    "output_cost_per_token": 4e-06, "supports_function_calling": true, "supports_vision": true},
  "demo/tiny": {"litellm_provider": "demo", "mode": "chat", "max_input_tokens": 1000, "input_cost_per_token": 1e-07,
    "output_cost_per_token": 1e-07},
  "elsewhere/small": {"litellm_provider": "elsewhere", "mode": "chat", "max_input_tokens": 100000,
    "input_cost_per_token": 1e-08, "output_cost_per_token": 1e-08}}"#;

/// The default model is selected, from this source.
fn selecting(source: &str, more: &str) -> Home {
    let home = Home::with(
        &format!("default_model = \"select:cheap\"\n{more}"),
        &format!(
            "[providers.demo]\nkind = \"scripted\"\nscript = \"s.json\"\n\
             [models.cheap]\nrequire = [\"tool_use\"]\n[models.seeing]\nrequire = [\"vision\"]\n\
             [models_catalog]\nsource = \"{source}\"\n"
        ),
    );
    home.scratch.write("s.json", json!([{ "replies": [{ "text": "hello" }] }]).to_string());
    home
}

fn program<'a>(home: &Home, args: impl IntoIterator<Item = &'a str>) -> Program {
    home.agent(args).env("XDG_CACHE_HOME", home.scratch.join("cache"))
}

fn read(run: &Run) -> Value {
    serde_json::from_str(&run.stdout).unwrap_or_else(|why| panic!("{why}: {run:?}"))
}

#[test]
fn a_model_is_selected_from_a_file_of_either_format() {
    for (name, text) in [("api.json", MODELS_DEV), ("prices.json", LITELLM)] {
        let home = selecting(name, "");
        home.scratch.write(name, text);
        let turn = |args: &[&str]| {
            let run = program(&home, ["run", "--output", "stream-json"].into_iter().chain(args.iter().copied())).run();
            let lines: Vec<Value> = run.stdout.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
            assert_eq!(run.code, Some(0), "{name}: {run:?}");
            lines
        };
        let lines = turn(&["--session", "s", "hi"]);
        assert_eq!(lines[0]["type"], "turn.started");
        assert_eq!(lines[0]["model"], "demo:small");
        let selected = lines.iter().find(|line| line["type"] == "model.selected").expect("the event");
        assert_eq!((&selected["selector"], &selected["model"]), (&json!("select:cheap"), &json!("demo:small")));
        let refused = selected["refused"].to_string();
        let (away, blind) = (r#""why":"no provider elsewhere""#, r#""why":"lacks tool_use""#);
        assert!(refused.contains(away) && refused.contains(blind) && refused.contains("demo:tiny"), "{refused}");
        // The command line, with a name and with conditions.
        for model in ["select:seeing", "select:require=vision,preference=latency_first"] {
            let lines = turn(&["--model", model, "--session", "other", "hi"]);
            assert_eq!(lines.last().expect("a result")["model"], "demo:seeing", "{model}");
        }
        // A session.
        let set = program(&home, ["sessions", "set", "s", "--model", "select:seeing"]).run();
        assert_eq!(set.code, Some(0), "{set:?}");
        assert_eq!(turn(&["--session", "s", "hi"])[0]["model"], "demo:seeing");
        let replayed = program(&home, ["sessions", "export", "s"]).run();
        home.scratch.write("journal.jsonl", &replayed.stdout);
        let replayed = program(&home, ["replay", "journal.jsonl"]).run();
        assert_eq!(replayed.code, Some(0), "a replay selects nothing again: {replayed:?}");
    }
}

#[test]
fn a_sub_agent_may_name_a_selector_however_it_is_waited_for() {
    for mode in ["inline", "async"] {
        let home = selecting("api.json", "");
        home.scratch.write("api.json", MODELS_DEV);
        let plain = home.scratch.read("agent.toml");
        let agent = "[[subagents]]\nid = \"w\"\ndescription = \"Works.\"\nmodel = \"select:seeing\"\n";
        home.scratch.agent_toml(&format!("{plain}{agent}mode = \"{mode}\"\n"));
        let call = |name: &str, arguments: Value| json!({ "calls": [{ "name": name, "arguments": arguments }] });
        let replies = match mode {
            "inline" => json!([call("agent/w", json!({ "task": "work" })), { "text": "Done." }]),
            _ => json!([call("agent/w", json!({ "task": "work" })),
                        call("agent/result", json!({ "task": "c00000001", "wait_ms": 60_000 })), { "text": "Done." }]),
        };
        let script = json!([{ "when": "go", "replies": replies }, { "replies": [{ "text": "I worked." }] }]);
        home.scratch.write("s.json", script.to_string());
        let run = program(&home, ["run", "--output", "json", "--session", "s", "go"]).run();
        let told = read(&run);
        let last = told["tool_transcript"].as_array().and_then(|calls| calls.last()).cloned().unwrap_or_default();
        assert!(last["result"].to_string().contains("I worked."), "{mode}: {told}");
        let children = program(&home, ["sessions", "list", "--children", "--json"]).run();
        let sessions = read(&children)["sessions"].clone();
        let of_s = |session: &&Value| session["parent"] == "s";
        let child = sessions.as_array().and_then(|all| all.iter().find(of_s)).expect("a child");
        let shown = program(&home, ["sessions", "export", child["session_id"].as_str().expect("an id")]).run();
        assert!(shown.stdout.contains("demo:seeing"), "{mode}: {shown:?}");
    }
}

#[test]
fn what_a_selector_selects_is_explained() {
    let home = selecting("api.json", "");
    home.scratch.write("api.json", MODELS_DEV);
    let run = program(&home, ["models", "select", "cheap"]).run();
    assert_eq!(run.code, Some(0), "{run:?}");
    let expected = "demo:small  (first of 2 candidates by cost_first: about 0.004 USD)\n   \
                    1  demo:small  about 0.004 USD\n   2  demo:seeing  about 0.01 USD\n   \
                    -  no provider elsewhere (1): elsewhere:small\n   -  lacks tool_use (1): demo:tiny\n";
    assert_eq!(run.stdout, expected);
    let none = program(&home, ["models", "select", "require=audio", "--json"]).run();
    assert_eq!((none.code, &read(&none)["selection"]["model"]), (Some(2), &Value::Null));
    let unknown = program(&home, ["models", "select", "best"]).run();
    assert!(unknown.code == Some(2) && unknown.stderr.contains("there is cheap, seeing"), "{unknown:?}");
    assert!(unknown.stderr.contains("a table [models.NAME] of the configuration defines one"), "{unknown:?}");
    let list = program(&home, ["models", "list", "--require", "tool_use"]).run();
    let names: Vec<&str> = list.stdout.lines().filter_map(|line| line.split_whitespace().next()).collect();
    assert_eq!(names, ["demo:seeing", "demo:small"], "{list:?}");
    let all = read(&program(&home, ["models", "list", "--all", "--json"]).run());
    assert_eq!(all["models"].as_array().map(Vec::len), Some(4));
}

#[test]
fn a_model_that_cannot_be_run_comes_with_three_that_can_and_the_variable_of_its_key() {
    let home = selecting("api.json", "");
    home.scratch.write("api.json", MODELS_DEV);
    let run = program(&home, ["models", "show", "elsewhere:small", "--json"]).run();
    let shown = read(&run);
    assert_eq!((run.code, &shown["resolution"]), (Some(2), &json!("unmapped")), "{run:?}");
    assert_eq!(shown["alternatives"], json!(["demo:small", "demo:seeing", "demo:tiny"]));
    // With what is built in, and a key of another provider.
    let home = Home::with("default_model = \"openai:gpt-4o-mini\"", "");
    let keyed = |args: &[&str]| program(&home, args.iter().copied()).env("OPENAI_API_KEY", "sk-none-of-it").run();
    let run = keyed(&["run", "--model", "anthropic:claude-haiku-4-5", "hi"]);
    assert_eq!(run.code, Some(2), "{run:?}");
    assert!(run.stderr.contains("ANTHROPIC_API_KEY"), "{run:?}");
    let nearest = run.stderr.split("nearest are ").nth(1).unwrap_or_default();
    assert_eq!(nearest.matches("openai:").count(), 3, "{run:?}");
    let shown = keyed(&["models", "show", "openai:gpt-4o-mini", "--json"]);
    assert_eq!(shown.code, Some(0));
    assert_eq!((&read(&shown)["resolution"], &read(&shown)["context_tokens"]), (&json!("mapped"), &json!(128_000)));
    let list = keyed(&["models", "list"]);
    assert!(
        list.stdout.lines().all(|line| line.starts_with("openai:")) && list.stdout.contains("openai:gpt-4o-mini "),
        "{list:?}"
    );
    assert!(!list.stdout.contains("sk-none-of-it"));
}

#[test]
fn max_cost_ends_a_turn() {
    let home = selecting("api.json", "max_cost = 0.0001");
    home.scratch.write("api.json", MODELS_DEV);
    let call = json!({ "calls": [{ "name": "local/todo", "arguments": { "items": [] } }] });
    let replies: Vec<Value> = (0..20).map(|_| call.clone()).collect();
    home.scratch.write("s.json", json!([{ "replies": replies }]).to_string());
    let run = program(&home, ["run", "--output", "json", "hi"]).run();
    let line = read(&run);
    assert_eq!((run.code, &line["guard_reason"]), (Some(3), &json!("max_cost")), "{run:?}");
    let shown = program(&home, ["run", "hi"]).run();
    assert_eq!(shown.stdout, "Stopped: the turn cost its 0.0001 (max_cost).\n", "{shown:?}");
    assert!(shown.stderr.contains("raise runtime.max_cost"), "{shown:?}");
    // A price of the configuration wins, and a model without one is refused.
    let unpriced = program(&home, ["run", "--model", "demo:unheard-of", "hi"]).run();
    assert!(unpriced.code == Some(2) && unpriced.stderr.contains("[prices.\"demo:unheard-of\"]"), "{unpriced:?}");
    let config = home.scratch.read("agent.toml");
    home.scratch.agent_toml(&format!("{config}[prices.\"demo:small\"]\ninput = 0.0\noutput = 0.0\n"));
    let free = read(&program(&home, ["run", "--output", "json", "hi"]).run());
    assert_ne!(free["guard_reason"], "max_cost", "{free}");
}

#[test]
fn what_cannot_be_meant_is_refused_with_its_line() {
    let refused = |runtime: &str, tables: &str| {
        let run = Home::with(runtime, tables).run(["config", "check"]);
        assert_eq!(run.code, Some(2), "{run:?}");
        run.stderr
    };
    let model = "default_model = \"a:b\"";
    let wrong = [
        (refused("default_model = \"select:best\"", ""), "there is no [models.best]"),
        (refused("default_model = \"select:require=wings\"", ""), "wings"),
        (refused(model, "[llm]\nfallback = [\"select:x\"]\n"), "nothing is selected during an outage"),
        (refused(model, "[models.x]\npreference = \"quality_first\"\n"), "needs `models_catalog.quality_tiers`"),
        (refused(model, "[models.x]\nexplicit = \"select:y\"\n"), "must name a model, not another selector"),
        (refused(model, "[models.x]\nrequire = [\"wings\"]\n"), "tool_use, vision, audio, reasoning, json_mode"),
    ];
    for (said, expected) in wrong {
        assert!(said.contains(expected), "{expected}: {said}");
    }
}

/// An address with the catalogue, until it is switched off.
struct Source {
    url: String,
    is_up: Arc<AtomicBool>,
    asked: Arc<AtomicUsize>,
}

fn source() -> Source {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let url = format!("http://{}/api.json", listener.local_addr().expect("its address"));
    let (is_up, asked) = (Arc::new(AtomicBool::new(true)), Arc::new(AtomicUsize::new(0)));
    let (up, count) = (Arc::clone(&is_up), Arc::clone(&asked));
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let Ok(mut stream) = stream else { continue };
            let _request = stream.read(&mut [0; 4096]);
            count.fetch_add(1, Ordering::SeqCst);
            let status = if up.load(Ordering::SeqCst) { "200 OK" } else { "503 Service Unavailable" };
            let head =
                format!("HTTP/1.1 {status}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n", MODELS_DEV.len());
            let _sent = stream.write_all(head.as_bytes()).and_then(|()| stream.write_all(MODELS_DEV.as_bytes()));
        }
    });
    Source { url, is_up, asked }
}

#[cfg(feature = "genai")]
#[test]
fn an_answer_of_an_address_is_used_for_its_time_and_then_selectors_are_refused() {
    let source = source();
    let home = selecting(&source.url, "");
    let turn = |args: &[&str]| {
        let run = program(&home, ["run", "--output", "json"].into_iter().chain(args.iter().copied())).run();
        (run.code, read(&run))
    };
    // The first start asks, and waits for the answer.
    let (code, line) = turn(&["hi"]);
    assert_eq!((code, &line["model"]), (Some(0), &json!("demo:small")), "{line}");
    assert_eq!(source.asked.load(Ordering::SeqCst), 1);
    // What is kept is new enough: nothing is asked.
    source.is_up.store(false, Ordering::SeqCst);
    assert_eq!(turn(&["hi"]).0, Some(0));
    assert_eq!(source.asked.load(Ordering::SeqCst), 1);
    let refreshed = program(&home, ["models", "refresh"]).run();
    assert!(refreshed.code == Some(2) && refreshed.stderr.contains("503"), "{refreshed:?}");
    assert_eq!(turn(&["hi"]).0, Some(0), "what was kept is still there");

    // As if it had been asked 25 hours ago.
    let folder = home.scratch.join("cache/bob");
    let kept = std::fs::read_dir(&folder).expect("the folder").filter_map(Result::ok).map(|entry| entry.path());
    let kept = kept.into_iter().find(|path| path.extension().is_some_and(|end| end == "txt")).expect("the answer");
    let text = std::fs::read_to_string(&kept).expect("its text");
    let (at, text) = text.split_once('\n').expect("its time");
    let old = at.parse::<i64>().expect("a time") - 25 * 3_600_000;
    std::fs::write(&kept, format!("{old}\n{text}")).expect("written");
    let (code, line) = turn(&["hi"]);
    let error = line["error"]["message"].as_str().unwrap_or_default();
    assert_eq!(code, Some(2), "{line}");
    assert!(error.contains("503") && error.contains("what is kept is 25 h old, of at most 24 h"), "{line}");
    // A model that is named needs no catalogue.
    let (code, line) = turn(&["--model", "demo:small", "hi"]);
    assert_eq!((code, &line["model"]), (Some(0), &json!("demo:small")));

    source.is_up.store(true, Ordering::SeqCst);
    let refreshed = read(&program(&home, ["models", "refresh", "--json"]).run());
    assert_eq!(refreshed["models"], 4);
    assert_eq!(turn(&["hi"]).0, Some(0));
}

#[test]
fn a_found_configuration_asks_no_address_before_it_is_trusted() {
    let source = source();
    let home = selecting(&source.url, "");
    let found = |args: &[&str]| {
        let program = home.found(args.iter().copied()).env("XDG_CACHE_HOME", home.scratch.join("cache"));
        program.run()
    };
    for args in [["models", "list"], ["models", "refresh"], ["run", "hi"]] {
        assert_eq!(found(&args).code, Some(2), "{args:?}");
    }
    assert_eq!(source.asked.load(Ordering::SeqCst), 0);
    let shown = found(&["trust"]);
    assert!(shown.stdout.contains(&source.url) || shown.stderr.contains(&source.url), "{shown:?}");
}
