//! Keys stay where they belong: not in any output, log or file, at the most talkative level, on every way that fails.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::thread;

use serde_json::json;

use crate::secure::canaries::{CORE, assert_no_canary, canary, files};
use crate::secure::fixture::{Fixture, STORES, drill};
use crate::support::program::{Program, Run};
use crate::support::provider::FakeProvider;
use crate::support::reply::Reply;

/// A server that answers every request with this status and, as its body, the whole request: headers, keys and all.
fn parrot(status: &'static str) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("its address");
    thread::spawn(move || {
        for stream in listener.incoming() {
            let Ok(mut stream) = stream else { return };
            thread::spawn(move || {
                let mut said = Vec::new();
                let mut buffer = [0; 4096];
                while !said.windows(4).any(|end| end == b"\r\n\r\n") {
                    match stream.read(&mut buffer) {
                        Ok(length @ 1..) => said.extend_from_slice(&buffer[..length]),
                        Ok(0) | Err(_) => return,
                    }
                }
                let text = String::from_utf8_lossy(&said);
                let head = text.split("\r\n\r\n").next().unwrap_or_default();
                let body = json!({"error": {"message": format!("you said: {head}"), "code": head}}).to_string();
                let answer = format!(
                    "HTTP/1.1 {status}\r\ncontent-type: application/json\r\ncontent-length: {}\r\nconnection: close\r\n\
                     www-authenticate: Bearer realm=\"{}\"\r\n\r\n{body}",
                    body.len(),
                    head.lines().last().unwrap_or_default().replace('"', "'")
                );
                let _ = stream.write_all(answer.as_bytes());
            });
        }
    });
    format!("http://{address}")
}

/// The environment that the configuration takes its keys from.
fn keys() -> Vec<(String, String)> {
    let mut keys: Vec<_> = (1..=9).map(|number| (format!("KEY_{number}"), canary(number))).collect();
    keys.push(("OPENAI_API_KEY".to_owned(), canary(10)));
    keys.push(("KEY_IN_URL".to_owned(), format!("{CORE}11")));
    keys.push(("KEY_IN_ARGS".to_owned(), canary(12)));
    keys.push(("BOB__PROVIDERS__SPARE__API_KEY".to_owned(), canary(13)));
    keys.push(("BOB__PROVIDERS__SPARE__BASE_URL".to_owned(), "http://127.0.0.1:9/v1/".to_owned()));
    keys
}

fn config(good: &FakeProvider, store: &str, format: &str) -> String {
    let (refusing, failing) = (parrot("401 Unauthorized"), parrot("500 Internal Server Error"));
    let provider = |name: &str, address: &str, key: &str| {
        format!(
            "[providers.{name}]\nkind = \"openai\"\nbase_url = \"{address}/v1/\"\napi_key = '{key}'\n\
             capabilities = {{ native_tools = true, context_tokens = 32000 }}\n"
        )
    };
    let providers = [
        provider("fake", &good.url(), "${KEY_1}"),
        provider("refusing", &refusing, &canary(20)),
        provider("failing", &failing, "${KEY_2}"),
        provider("openai", &refusing, "${OPENAI_API_KEY}"),
        provider("anthropic", &refusing, "${KEY_3}").replace("kind = \"openai\"", "kind = \"anthropic\""),
        provider("nobody", "http://127.0.0.1:9", "${KEY_4}"),
        "[providers.slow]\nkind = \"openai\"\nbase_url = \"http://127.0.0.1:9/v1/\"\napi_key = \"${KEY_4}\"\nstart = { command = \"sh\", \
         args = [\"-c\", 'echo \"with $TOKEN\"; echo \"$TOKEN is refused\" >&2; exit 4'], env = { TOKEN = \"${KEY_5}\" } }\n"
            .to_owned(),
    ];
    let servers = [
        drill("drill", &[], "env = { DRILL_KEY = \"${KEY_6}\" }"),
        "[[mcp.servers]]\nid = \"loud\"\ncommand = \"sh\"\nargs = [\"-c\", 'echo \"$TOKEN is refused\" >&2; exit 3', \"sh\", \"--key=${KEY_IN_ARGS}\"]\n\
         env = { TOKEN = \"${KEY_7}\" }\n"
            .to_owned(),
        format!("[[mcp.servers]]\nid = \"web\"\ntransport = \"http\"\nurl = \"{refusing}/mcp\"\nheaders = {{ Authorization = \"Bearer ${{KEY_8}}\", X-Key = '{}' }}\n", canary(21)),
        format!("[[mcp.servers]]\nid = \"address\"\ntransport = \"http\"\nurl = \"{failing}/mcp?api_key=${{KEY_IN_URL}}&x=1\"\n"),
        "[[mcp.servers]]\nid = \"gone\"\ntransport = \"http\"\nurl = \"http://127.0.0.1:9/mcp?api_key=${KEY_IN_URL}\"\n".to_owned(),
    ];
    format!(
        "[runtime]\ndefault_model = \"fake:model\"\n[llm]\nretry_max = 0\n{}[policy]\nrequire_high_risk_approval = false\n\
         [store]\nkind = \"{store}\"\n[log]\nlevel = \"trace\"\nformat = \"{format}\"\n{}",
        providers.concat(),
        servers.concat()
    )
}

fn with_keys(program: Program) -> Program {
    keys().into_iter().fold(program, |program, (name, value)| program.env(&name, value))
}

/// Fails when anything of this run, or anything it left behind, holds a key.
#[track_caller]
fn assert_silent(what: &str, run: &Run) {
    assert_no_canary(&format!("{what}, stdout"), run.stdout.as_bytes());
    assert_no_canary(&format!("{what}, stderr"), run.stderr.as_bytes());
}

#[test]
fn g3_no_key_gets_out_of_any_command() {
    for (number, store) in STORES.iter().enumerate() {
        let format = ["text", "json"][number % 2];
        let good = FakeProvider::answering(|body| {
            let called = body["messages"].as_array().into_iter().flatten().any(|one| one["role"] == "tool");
            if called { Reply::text("done") } else { Reply::call("c", "mcp__drill__echo", r#"{"text":"hi"}"#) }
        });
        let fixture = Fixture::new(&config(&good, store, format));
        let line = |model: &str| format!("{}\n", json!({"session": "b", "prompt": "hi", "model": model}));
        let batch = line("fake:model") + &line("failing:m") + &line("refusing:m");
        let all: Vec<(&[&str], Option<String>, Option<i32>)> = vec![
            (&["trust"], None, Some(2)),
            (&["run", "--session", "s", "hi"], None, Some(0)),
            (&["run", "--output", "stream-json", "--model", "refusing:m", "hi"], None, Some(5)),
            (&["run", "--output", "json", "--model", "failing:m", "hi"], None, Some(5)),
            (&["run", "--model", "slow:m", "hi"], None, Some(5)),
            (&["chat"], Some("/mcp\n/tools\nhi\n/model openai:x\nhi\n/sessions\n".to_owned()), None),
            (&["batch", "-"], Some(batch), Some(5)),
            (&["run", "--model", "openai:m", "hi"], None, Some(5)),
            (&["run", "--model", "anthropic:m", "hi"], None, Some(5)),
            (&["run", "--model", "nobody:m", "hi"], None, Some(5)),
            (&["run", "--model", "spare:m", "hi"], None, Some(5)),
            (&["run", "--model", "unknown:m", "hi"], None, Some(2)),
            (&["tools", "--json"], None, Some(0)),
            (&["mcp", "list"], None, Some(0)),
            (&["mcp", "list", "--json"], None, Some(0)),
            (&["doctor"], None, Some(6)),
            (&["doctor", "--json"], None, Some(6)),
            (&["sessions", "list", "--json"], None, Some(0)),
            (&["sessions", "show", "s"], None, Some(0)),
            (&["sessions", "export", "s"], None, Some(0)),
        ];
        // The other format of the log has the data in another form.
        let some = if number == 0 { all.len() } else { 7 };
        for (arguments, stdin, code) in all.into_iter().take(some) {
            let program = if arguments == ["trust"] {
                fixture.found(arguments.iter().copied())
            } else {
                fixture.agent(arguments.iter().copied())
            };
            let program = with_keys(program);
            let run = match stdin {
                Some(text) => program.stdin(text).run(),
                None => program.run(),
            };
            assert!(code.is_none_or(|code| run.code == Some(code)), "{arguments:?}: {run:?}");
            assert_silent(&format!("{arguments:?} with {store}"), &run);
            if arguments == ["trust"] {
                assert!(
                    run.stderr.contains("--key=${KEY_IN_ARGS}") && run.stderr.contains("DRILL_KEY"),
                    "{}",
                    run.stderr
                );
            }
            if arguments.contains(&"slow:m") {
                assert!(run.stderr.contains("… is refused"), "it was shown without its key: {}", run.stderr);
            }
        }
        // Every key was there to get out.
        let asked = good
            .requests()
            .into_iter()
            .flat_map(|request| request.headers)
            .any(|(_, value)| value.contains(&canary(1)));
        assert!(asked, "the provider was sent its key");
        let found = files(fixture.scratch.path());
        assert!(found.iter().any(|(name, _)| name.contains("sessions")), "something was kept");
        for (name, content) in
            found.iter().filter(|(name, _)| !name.ends_with("/agent.toml") && !name.ends_with("/drill.log"))
        {
            assert_no_canary(name, content);
        }
        println!(
            "figure: G3 {store}: {some} commands, {} files, no canary in {} spellings",
            found.len(),
            crate::secure::canaries::spellings().len()
        );
    }
}

#[test]
fn g3_a_broken_configuration_is_told_without_its_keys() {
    let good = FakeProvider::repeating([Reply::text("hi")]);
    let sound = config(&good, "memory", "text");
    let fixture = Fixture::new(&sound);
    for (what, broken) in [
        ("wrong types", sound.replace("retry_max = 0", "retry_max = 'x'").replace("env = {", "env = 3 # {")),
        ("every quote", sound.replace("'sk-", "sk-")),
        ("a header that is a list", sound.replace("X-Key = '", "X-Key = ['").replace("q' }", "q'] }")),
        ("unknown keys", sound.replace("api_key =", "api-key =").replace("headers =", "header =")),
        ("not closed", sound.replacen("[[mcp", "[[[mcp", 1)),
        (
            "arguments",
            sound
                .replace("\"--key=${KEY_IN_ARGS}\"]", "\"--key=${KEY_IN_ARGS}\", 7]")
                .replace("${KEY_IN_ARGS}", &format!("{CORE}12")),
        ),
        ("addresses", sound.replace("http://", "htp://").replace("${KEY_IN_URL}", &format!("{CORE}11"))),
        ("nothing is set", sound.clone()),
    ] {
        fixture.scratch.agent_toml(&broken);
        for arguments in [&["run", "hi"][..], &["run", "--output", "json", "hi"], &["doctor"], &["doctor", "--json"]] {
            let program = fixture.agent(arguments.iter().copied());
            let run = if what == "nothing is set" { program.run() } else { with_keys(program).run() };
            assert_eq!(run.code, Some(2), "{what}: {run:?}");
            assert_silent(what, &run);
        }
    }
}

#[test]
fn g3_what_tools_are_called_with_is_in_no_log() {
    for format in ["text", "json"] {
        let call = json!({"text": canary(30)}).to_string();
        let bad = json!({"text": 7, "other": canary(31)}).to_string();
        let good = FakeProvider::start([
            Reply::call("c1", "mcp__drill__echo", &call),
            Reply::call("c2", "mcp__drill__echo", &bad),
            Reply::call("c3", "local__read_file", &json!({"path": canary(32)}).to_string()),
            Reply::call("c4", "mcp__drill__crash", &json!({"why": canary(33)}).to_string()),
            Reply::call("c5", &format!("mcp__{}", canary(34)), "{}"),
            Reply::text(&canary(35)),
        ]);
        let log = format!(
            "[log]\nlevel = \"trace\"\nformat = \"{format}\"\n[policy]\nrequire_high_risk_approval = false\n[store]\nkind = \"json\"\n"
        );
        let runtime = "max_consecutive_errors = 50\n";
        let fixture = Fixture::new(&format!(
            "{}{log}{}",
            crate::secure::fixture::model_at(&good.base_url(), runtime),
            drill("drill", &[], "")
        ));
        let run = fixture.run(["run", "--output", "json", "--mode", "auto", &format!("here is {}", canary(36))]);
        assert_eq!(run.code, Some(0), "{run:?}");
        assert!(run.stdout.contains(CORE), "whoever asks for the result gets it: {run:?}");
        assert_no_canary("the log", run.stderr.as_bytes());
    }
}
