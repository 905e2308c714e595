//! A folder with a configuration, and the binary run in it.

use std::fs;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::support::program::{Program, Run};
use crate::support::provider::FakeProvider;
use crate::support::scratch::Scratch;

pub(crate) const AGENT: &str = env!("CARGO_BIN_EXE_cli-agent");

/// Longer than anything here takes on a crowded machine.
pub(crate) const LONG: Duration = Duration::from_secs(120);

/// The kinds of store that keep sessions.
pub(crate) const STORES: &[&str] = if cfg!(feature = "sqlite") { &["sqlite", "json"] } else { &["json"] };

pub(crate) struct Fixture {
    pub(crate) scratch: Scratch,
}

/// The tables of a model `fake:model` behind this address, with these further keys of `[runtime]`.
pub(crate) fn model_at(base_url: &str, runtime: &str) -> String {
    format!(
        "[runtime]\ndefault_model = \"fake:model\"\n{runtime}\n[llm]\nretry_max = 0\n[providers.fake]\nkind = \"openai\"\n\
         base_url = \"{base_url}\"\napi_key = \"none\"\ncapabilities = {{ native_tools = true, context_tokens = 32000 }}\n"
    )
}

/// The table of a drill server with this id; its log is `<id>.log`.
pub(crate) fn drill(id: &str, modes: &[&str], keys: &str) -> String {
    let modes: String = modes.iter().map(|mode| format!(", \"--mode\", \"{mode}\"")).collect();
    format!(
        "[[mcp.servers]]\nid = \"{id}\"\ncommand = \"{AGENT}\"\nargs = [\"drill-server\", \"--log\", \"{id}.log\"{modes}]\n{keys}\n"
    )
}

impl Fixture {
    /// With this configuration.
    pub(crate) fn new(config: &str) -> Self {
        let scratch = Scratch::new();
        scratch.agent_toml(config);
        Self { scratch }
    }

    /// A model behind this provider, and these further tables.
    pub(crate) fn served_by(provider: &FakeProvider, tables: &str) -> Self {
        Self::new(&format!("{}{tables}", model_at(&provider.base_url(), "")))
    }

    /// The binary in this folder, with its configuration.
    pub(crate) fn agent<'a>(&self, args: impl IntoIterator<Item = &'a str>) -> Program {
        self.found(["--config", "agent.toml"].into_iter().chain(args))
    }

    /// The binary in this folder, with nothing but these arguments.
    pub(crate) fn found<'a>(&self, args: impl IntoIterator<Item = &'a str>) -> Program {
        let state = self.scratch.join("state");
        Program::new(AGENT).dir(self.scratch.path()).deadline(LONG).env("XDG_STATE_HOME", state).args(args)
    }

    #[track_caller]
    pub(crate) fn run<'a>(&self, args: impl IntoIterator<Item = &'a str>) -> Run {
        self.agent(args).run()
    }

    /// The log of a drill server.
    pub(crate) fn log(&self, id: &str) -> Vec<Value> {
        let text = fs::read_to_string(self.scratch.join(&format!("{id}.log"))).unwrap_or_default();
        text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
    }

    /// How many calls a drill server received.
    pub(crate) fn calls(&self, id: &str) -> usize {
        self.log(id).iter().filter(|line| line["method"] == "tools/call").count()
    }
}

/// Waits for a condition, and fails with its name.
#[track_caller]
pub(crate) fn wait(what: &str, reached: impl Fn() -> bool) {
    let begun = Instant::now();
    while !reached() {
        assert!(begun.elapsed() < LONG, "waited {LONG:?} for {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// A tool server in `sh`: its name, title, tool description, result, and stderr output are `words`, in JSON encoding.
/// The tool `die` ends it.
pub(crate) fn hostile_server(words: &str) -> String {
    r#"
say() { printf '%s\n' "$1"; }
answer() { say '{"jsonrpc":"2.0","id":'"$id"',"result":'"$1"'}'; }
while read -r line; do
  id=${line#*'"id":'}; id=${id%%[,\}]*}
  case $line in
    *'"method":"server/discover"'*) say '{"jsonrpc":"2.0","id":'"$id"',"error":{"code":-32601,"message":"WORDS"}}' ;;
    *'"method":"initialize"'*)
      answer '{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"WORDS","version":"WORDS"},"instructions":"WORDS"}' ;;
    *'"method":"tools/list"'*)
      answer '{"tools":[{"name":"say","title":"WORDS","description":"WORDS","inputSchema":{"type":"object","description":"WORDS"},"annotations":{"destructiveHint":false}},{"name":"die","inputSchema":{"type":"object"},"annotations":{"destructiveHint":false}},{"name":"odd WORDS","inputSchema":{"type":"object"}}]}' ;;
    *'"name":"say"'*) answer '{"content":[{"type":"text","text":"WORDS"},{"type":"resource_link","uri":"x://WORDS","name":"WORDS"}],"isError":true}' ;;
    *'"name":"die"'*) printf '%b\n' 'last RAW words' >&2; kill -9 $$ ;;
  esac
done
"#
    .replace("WORDS", words)
}
