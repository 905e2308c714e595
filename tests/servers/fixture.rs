//! A folder with a configuration and drill servers, and their processes.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::support::program::Program;
use crate::support::provider::FakeProvider;
use crate::support::scratch::Scratch;

pub(crate) const AGENT: &str = env!("CARGO_BIN_EXE_cli-agent");

/// Longer than anything here takes on a crowded machine.
const LONG: Duration = Duration::from_secs(60);

pub(crate) struct Fixture {
    pub(crate) scratch: Scratch,
    /// The configuration before the tables of servers.
    pub(crate) before: String,
}

/// The table of a drill server: its id, its modes, and further keys.
pub(crate) fn drill(id: &str, modes: &[&str], keys: &str) -> String {
    let modes: String = modes.iter().map(|mode| format!(", \"--mode\", \"{mode}\"")).collect();
    format!(
        "[[mcp.servers]]\nid = \"{id}\"\ncommand = \"{AGENT}\"\n\
         args = [\"drill-server\", \"--log\", \"{id}.log\"{modes}]\n{keys}\n"
    )
}

impl Fixture {
    /// A model behind this provider, and these servers.
    pub(crate) fn new(provider: &FakeProvider, servers: &str) -> Self {
        let before = format!(
            "[runtime]\ndefault_model = \"fake:model\"\n[llm]\nretry_max = 0\n[providers.fake]\nkind = \"openai\"\n\
             base_url = \"{}\"\napi_key = \"none\"\ncapabilities = {{ native_tools = true, context_tokens = 32000 }}\n\
             [store]\nkind = \"memory\"\n[policy]\nrequire_high_risk_approval = false\n",
            provider.base_url()
        );
        let fixture = Self { scratch: Scratch::new(), before };
        fixture.configure(servers);
        fixture
    }

    /// Writes the configuration with these servers.
    pub(crate) fn configure(&self, servers: &str) {
        self.scratch.agent_toml(&format!("{}{servers}", self.before));
    }

    pub(crate) fn agent<'a>(&self, args: impl IntoIterator<Item = &'a str>) -> Program {
        self.program(AGENT).args(["--config", "agent.toml"]).args(args)
    }

    /// Another program in this folder.
    pub(crate) fn program(&self, path: impl AsRef<Path>) -> Program {
        Program::new(path).dir(self.scratch.path()).deadline(LONG)
    }

    /// The log of a server.
    pub(crate) fn log(&self, id: &str) -> Vec<Value> {
        let text = fs::read_to_string(self.log_file(id)).unwrap_or_default();
        text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
    }

    fn log_file(&self, id: &str) -> PathBuf {
        self.scratch.join(&format!("{id}.log"))
    }

    /// The processes of a server, the oldest first.
    pub(crate) fn pids(&self, id: &str) -> Vec<i32> {
        let mut seen = BTreeSet::new();
        let started = self.log(id).into_iter().filter(|line| line["event"] == "start");
        let pids = started.filter_map(|line| i32::try_from(line["pid"].as_i64()?).ok());
        pids.filter(|pid| seen.insert(*pid)).collect()
    }

    /// Waits until a server has been started so often, and gives its youngest process.
    #[track_caller]
    pub(crate) fn wait_started(&self, id: &str, times: usize) -> i32 {
        wait(&format!("start number {times} of {id}"), || self.pids(id).len() >= times);
        *self.pids(id).last().expect("a process")
    }

    /// Waits until a server has received a call.
    #[track_caller]
    pub(crate) fn wait_called(&self, id: &str) {
        wait(&format!("a call of {id}"), || self.log(id).iter().any(|line| line["method"] == "tools/call"));
    }

    /// The processes on this machine that name this fixture on their command line.
    pub(crate) fn left(&self) -> Vec<String> {
        let ours = self.scratch.path().display().to_string();
        let processes = fs::read_dir("/proc").expect("the processes of this machine").flatten();
        let mut left = Vec::new();
        for process in processes {
            let folder = fs::read_link(process.path().join("cwd")).unwrap_or_default();
            let line = fs::read(process.path().join("cmdline")).unwrap_or_default();
            let line = String::from_utf8_lossy(&line).replace('\0', " ");
            if folder.display().to_string() == ours || line.contains(&ours) {
                left.push(line);
            }
        }
        left
    }

    /// Fails if a process of this fixture is still there after the five seconds any of them may take.
    #[track_caller]
    pub(crate) fn assert_nothing_left(&self) {
        let begun = Instant::now();
        while !self.left().is_empty() {
            assert!(begun.elapsed() < Duration::from_secs(60), "left behind: {:#?}", self.left());
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

/// Waits for a condition, and fails with its name after a minute.
#[track_caller]
pub(crate) fn wait(what: &str, reached: impl Fn() -> bool) {
    let begun = Instant::now();
    while !reached() {
        assert!(begun.elapsed() < LONG, "waited {LONG:?} for {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

pub(crate) fn kill(pid: i32) {
    let pid = rustix::process::Pid::from_raw(pid).expect("a process id");
    rustix::process::kill_process(pid, rustix::process::Signal::KILL).expect("a process that lives");
}
