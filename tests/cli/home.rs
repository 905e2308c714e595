//! A folder with a configuration, and the binary run in it.

use serde_json::Value;
use std::collections::BTreeSet;

use crate::support::program::{Program, Run};
use crate::support::provider::FakeProvider;
use crate::support::scratch::Scratch;

/// The kinds of store that keep sessions; the first is the default.
pub(crate) const STORES: &[&str] = if cfg!(feature = "sqlite") { &["sqlite", "json"] } else { &["json"] };

/// Where the binary is.
pub(crate) const AGENT: &str = env!("CARGO_BIN_EXE_cli-agent");

/// All keys of the result object.
pub(crate) const KEYS: [&str; 18] = [
    "content",
    "denied",
    "duration_ms",
    "error",
    "finish_reason",
    "guard_reason",
    "labels",
    "model",
    "question",
    "request_id",
    "saved",
    "session_id",
    "steps",
    "stop_reason",
    "token",
    "tool_transcript",
    "turn_id",
    "usage",
];

/// A folder with an `agent.toml` and a store.
pub(crate) struct Home {
    pub(crate) scratch: Scratch,
}

impl Home {
    /// The model answers from this script, see the kind `scripted`.
    pub(crate) fn scripted(script: &Value) -> Self {
        let home =
            Self::with("default_model = \"demo:one\"", "[providers.demo]\nkind = \"scripted\"\nscript = \"s.json\"\n");
        home.scratch.write("s.json", script.to_string());
        home
    }

    /// The model is behind a fake provider that speaks the OpenAI format, with native tools.
    pub(crate) fn served_by(provider: &FakeProvider) -> Self {
        Self::at(&provider.base_url())
    }

    /// The model is behind this address; nothing is tried twice.
    pub(crate) fn at(base_url: &str) -> Self {
        let provider = format!(
            "[llm]\nretry_max = 0\n[providers.fake]\nkind = \"openai\"\nbase_url = \"{base_url}\"\napi_key = \"none\"\n\
             capabilities = {{ native_tools = true, context_tokens = 32000 }}\n"
        );
        Self::with("default_model = \"fake:model\"", &provider)
    }

    /// Any configuration: the keys of `[runtime]`, and the tables after it. The store is the default one.
    pub(crate) fn with(runtime: &str, tables: &str) -> Self {
        let scratch = Scratch::new();
        scratch.agent_toml(&format!("[runtime]\n{runtime}\n{tables}"));
        Self { scratch }
    }

    /// Uses another kind of store.
    pub(crate) fn keeping(self, kind: &str) -> Self {
        let config = self.scratch.read("agent.toml");
        self.scratch.agent_toml(&format!("{config}[store]\nkind = \"{kind}\"\n"));
        self
    }

    /// Runs the binary with these arguments in this folder, with its configuration.
    pub(crate) fn agent<'a>(&self, args: impl IntoIterator<Item = &'a str>) -> Program {
        let args: Vec<&str> = args.into_iter().collect();
        let named: &[&str] = if args.contains(&"--config") { &[] } else { &["--config", "agent.toml"] };
        self.found(named.iter().copied().chain(args))
    }

    /// The binary in this folder, with nothing but these arguments.
    pub(crate) fn found<'a>(&self, args: impl IntoIterator<Item = &'a str>) -> Program {
        Program::new(AGENT).dir(self.scratch.path()).env("XDG_STATE_HOME", self.scratch.join("state")).args(args)
    }

    /// Runs it to its end.
    #[track_caller]
    pub(crate) fn run<'a>(&self, args: impl IntoIterator<Item = &'a str>) -> Run {
        self.agent(args).run()
    }

    /// Runs `run --output json` and reads its line.
    #[track_caller]
    pub(crate) fn json<'a>(&self, args: impl IntoIterator<Item = &'a str>) -> (Option<i32>, Value) {
        let run = self.run(["run", "--output", "json"].into_iter().chain(args));
        (run.code, the_line(&run))
    }
}

/// The one line of JSON on stdout, which has all keys and no others.
#[track_caller]
pub(crate) fn the_line(run: &Run) -> Value {
    assert_eq!(run.stdout.lines().count(), 1, "{run:?}");
    let line: Value = serde_json::from_str(&run.stdout).unwrap_or_else(|why| panic!("{why}: {run:?}"));
    assert_keys(&line);
    line
}

/// Fails unless these are the keys of the result object.
#[track_caller]
pub(crate) fn assert_keys(object: &Value) {
    let keys = object.as_object().expect("an object").keys().map(String::as_str);
    // They are there where a file was changed, and where a sub-agent worked.
    let keys: BTreeSet<&str> = keys.filter(|key| !["changes", "delegated"].contains(key)).collect();
    assert_eq!(keys, KEYS.into());
}
