//! `doctor`: checks the configuration and its environment, with advice.
//!
//! Each check prints one line. A check that needs the configuration is skipped if that cannot be read. The exit code
//! is 0 if everything is fine, else that of the first group with an error: 2 configuration and keys, 5 model, 6
//! tools, 7 store.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use bob::config::{Limits, PromptReader};
use bob::model::LlmErrorKind;
use bob::sessions::{FinishReason, TurnOutcome};
use bob::store::{Append, FORMAT, Fact, MemoryStore, Record};
use bob::tools::servers::{ServerState, ServerStatus};
use bob::tools::{Kernel, SandboxMode};
use bob::{AgentError, AgentRequest, AgentRuntime, SessionId};
use bob_config::assemble::{self, Choices};
use bob_config::{Config, Environment, Files, Hook, HookOn, Overrides, StoreKind};
use serde::Serialize;
use serde_json::json;

use crate::exit::{Exit, Failure};
use crate::runtime::signals::Signals;
use crate::runtime::{OpenRuntime, trust};
use crate::terminal::{print, progress};

/// How long the model may take to its answer. The start of a local server does not count.
const MODEL_PATIENCE: Duration = Duration::from_secs(30);

/// How many characters of the names of tools are shown.
const MOST_NAMES: usize = 66;

/// How many characters of a server's last output are shown.
const MOST_WORDS: usize = 600;

#[derive(Debug, Serialize)]
struct Finding {
    check: &'static str,
    ok: bool,
    message: String,
    #[serde(skip)]
    exit: Exit,
}

/// Whether the prompt files can be read for a session without folders.
async fn prompt_files(config: &Config) -> Result<String, String> {
    let workspace = assemble::workspace(config).map_err(|error| error.to_string())?;
    let reader = PromptReader::new(assemble::prompt_files(config, &workspace));
    let read = tokio::task::spawn_blocking(move || reader.layers(None)).await.map_err(|error| error.to_string())?;
    let layers = read.map_err(|error| error.to_string())?;
    let bytes = [&layers.instructions, &layers.bootstrap, &layers.memory, &layers.tool_notes].map(|text| text.len());
    Ok(format!("instructions and prompt files: {} bytes", bytes.iter().sum::<usize>()))
}

pub(crate) async fn doctor(files: &Files, as_json: bool) -> Result<Exit, Failure> {
    let mut signals = Signals::new().map_err(|error| Failure::internal(format!("cannot catch signals: {error}")))?;
    let mut report = Report { as_json, findings: Vec::new() };
    let checked = tokio::select! {
        checked = examine(files, &mut report) => checked,
        caught = signals.next() => return Err(Failure::signalled(caught.exit())),
    };
    if let Some(opened) = checked? {
        opened.close(&mut signals).await;
    }
    let first_bad = report.findings.iter().find(|finding| !finding.ok).map(|finding| finding.exit);
    if as_json {
        print::json(&json!({ "ok": first_bad.is_none(), "checks": report.findings }))?;
    }
    Ok(first_bad.unwrap_or(Exit::Success))
}

/// The results so far; in text form each is printed immediately, because the next check may take a while.
struct Report {
    as_json: bool,
    findings: Vec<Finding>,
}

impl Report {
    fn add(&mut self, check: &'static str, exit: Exit, found: Result<String, String>) -> Result<(), Failure> {
        let (ok, message) = match found {
            Ok(message) => (true, message),
            Err(message) => (false, message),
        };
        if !self.as_json {
            print::line(&format!("{:<6} {check}: {message}", if ok { "ok" } else { "FAIL" }))?;
        }
        self.findings.push(Finding { check, ok, message, exit });
        Ok(())
    }
}

async fn examine(files: &Files, report: &mut Report) -> Result<Option<OpenRuntime>, Failure> {
    let config = match bob_config::load_all(files, &Environment::of_process(), &Overrides::default()) {
        Ok(config) => config,
        Err(error) => {
            let failure = Failure::from(error);
            report.add("config", Exit::Usage, Err(format!("{}: {}", files.first().display(), failure.message)))?;
            return Ok(None);
        }
    };
    report.add("config", Exit::Usage, Ok(named(files)))?;
    if let Err(failure) = trust::check(&config) {
        let check = if failure.exit == Exit::Store { "store" } else { "trust" };
        report.add(check, failure.exit, Err(failure.message))?;
        return Ok(None);
    }
    report.add("prompt", Exit::Usage, prompt_files(&config).await)?;
    #[cfg(feature = "skills")]
    if let Some(skills) = crate::commands::skills::checked(&config) {
        report.add("skills", Exit::Usage, skills)?;
    }
    let stored = store(&config).await;
    let choices = Choices {
        store: Some(MemoryStore::new()),
        progress: Some(progress::to_stderr()),
        spares_servers: true,
        ..Choices::default()
    };
    let opened = match OpenRuntime::open(&config, choices).await {
        Ok(opened) => opened,
        Err(failure) => {
            report.add("config", failure.exit, Err(failure.message))?;
            report.add("store", Exit::Store, stored)?;
            return Ok(None);
        }
    };
    let keyed = opened.check_model(&opened.default_model);
    let is_keyed = keyed.is_ok();
    report.add("key", Exit::Usage, keyed.map(|()| opened.default_model.to_string()).map_err(|why| why.message))?;
    if is_keyed {
        report.add("model", Exit::Model, model(&config, &opened).await)?;
    }
    let on_offer = opened.runtime.tools().await;
    let names: Vec<&str> = on_offer.iter().map(|tool| tool.id.as_str()).collect();
    let names = print::on_one_line(&names.join(" "), MOST_NAMES);
    let health = opened.runtime.health().await;
    let tools = match health.tools_ready {
        true if names.is_empty() => Ok("no tools available".to_owned()),
        true => Ok(format!("{} available: {names}", on_offer.len())),
        false => Err("the tools actor does not answer; restart with log.level = \"debug\"".to_owned()),
    };
    report.add("tools", Exit::Tools, tools)?;
    report.add("sandbox", Exit::Tools, sandbox(&config))?;
    for (name, hook) in &config.hooks {
        report.add("hook", Exit::Tools, hooked(&config, name, hook))?;
    }
    for server in opened.runtime.servers() {
        report.add("server", Exit::Tools, reached(&server))?;
    }
    report.add("store", Exit::Store, stored)?;
    Ok(Some(opened))
}

/// What commands of the shell are held to.
fn sandbox(config: &Config) -> Result<String, String> {
    let sandbox = assemble::sandbox(config);
    if sandbox.mode == SandboxMode::Required && matches!(Kernel::of_this_machine(), Kernel::Nothing(_)) {
        return Err(format!("{sandbox}; set [policy] sandbox to \"on\" or \"off\", or use a newer kernel"));
    }
    Ok(sandbox.to_string())
}

/// Whether the program of a hook can be found; it is not run.
fn hooked(config: &Config, name: &str, hook: &Hook) -> Result<String, String> {
    let command = &hook.command;
    let program = assemble::program_of_hook(config, name, hook);
    let is_there =
        |path: &Path| path.metadata().is_ok_and(|found| found.is_file() && found.permissions().mode() & 0o111 != 0);
    let path = std::env::var_os("PATH").unwrap_or_default();
    match command.contains('/') {
        true if is_there(&program) => {}
        false if std::env::split_paths(&path).any(|folder| is_there(&folder.join(command))) => {}
        true => {
            return Err(format!("{name}: {} is no program that can be run; correct its `command`", program.display()));
        }
        false => return Err(format!("{name}: there is no program {command} on the PATH; correct its `command`")),
    }
    let on = match hook.on {
        HookOn::BeforeCall => "before calls",
        HookOn::AfterCall => "after calls",
        HookOn::Question => "at questions",
        HookOn::TurnEnd => "at the end of turns",
    };
    let about = if hook.calls.is_empty() { String::new() } else { format!(" ({})", hook.calls.join(", ")) };
    Ok(print::on_one_line(&format!("{name}: {command} {on}{about}"), MOST_NAMES))
}

fn named(files: &Files) -> String {
    let all: Vec<_> = files.all().map(|file| file.display().to_string()).collect();
    if all.is_empty() { "no agent.toml; built-in defaults".to_owned() } else { all.join(", then ") }
}

/// How a tool server that had its time to start is doing.
fn reached(server: &ServerStatus) -> Result<String, String> {
    match server.state {
        ServerState::Ready => {
            let name = server.server.as_deref().unwrap_or("it does not say its name");
            let protocol = server.protocol.as_deref().map(|version| format!(", MCP {version}")).unwrap_or_default();
            Ok(format!(
                "{}: ready, {} tools available ({}{})",
                server.id,
                server.tools,
                print::first_line(name, MOST_NAMES),
                print::first_line(&protocol, MOST_NAMES)
            ))
        }
        ServerState::Asleep | ServerState::Starting => {
            Err(format!("{}: not ready within its startup_timeout_ms; raise that, or see what it waits for", server.id))
        }
        ServerState::Restarting | ServerState::GaveUp | ServerState::Stopped => {
            let why = server.last_error.as_deref().unwrap_or("it is down");
            // Errors of a start already contain advice.
            let is_plain = why.contains("; ");
            let to_do = match (is_plain, server.transport.as_str()) {
                (true, _) => "",
                (false, "http") => "; see that it runs and that its `url` is right",
                (false, _) => "; run its command manually for details",
            };
            Err(format!("{}{to_do}", print::on_one_line(why, MOST_WORDS)))
        }
    }
}

/// A tiny real request, in a session that is not stored.
async fn model(config: &Config, opened: &OpenRuntime) -> Result<String, String> {
    let session = SessionId::parse("doctor").map_err(|error| error.to_string())?;
    let turn_timeout_ms = u64::try_from(MODEL_PATIENCE.as_millis()).unwrap_or(u64::MAX);
    let request = AgentRequest {
        allow_tools: Some(Vec::new()),
        limits: Some(Limits { max_steps: 1, turn_timeout_ms, ..config.runtime.limits }),
        interactive: true,
        ..AgentRequest::text(session, "Say ok.")
    };
    match opened.runtime.run(request).await {
        Ok(result) => judged(result.response()),
        Err(error) => Err(advice(&error)),
    }
}

fn judged(outcome: &TurnOutcome) -> Result<String, String> {
    let answered = || format!("{} answered in {} ms", name(outcome), outcome.duration_ms);
    match (&outcome.error, outcome.finish_reason) {
        // A malformed reply still proves that the model can be reached.
        (Some(AgentError::Llm(error)), _) if error.kind == LlmErrorKind::Malformed => Ok(answered()),
        (Some(error), _) => Err(advice(error)),
        (None, FinishReason::GuardExceeded) if outcome.steps == 0 => {
            let seconds = MODEL_PATIENCE.as_secs();
            Err(format!("no answer within {seconds} s; is the provider overloaded, or its address wrong?"))
        }
        (None, _) => Ok(answered()),
    }
}

fn name(outcome: &TurnOutcome) -> String {
    outcome.model.as_ref().map(ToString::to_string).unwrap_or_default()
}

fn advice(error: &AgentError) -> String {
    let AgentError::Llm(failed) = error else { return error.to_string() };
    let advice = match failed.kind {
        LlmErrorKind::Unauthorized => "; check the key",
        LlmErrorKind::QuotaExhausted => "; check the account of the provider",
        LlmErrorKind::UnknownModel => "; check the name of the model",
        LlmErrorKind::Timeout => "; check base_url and the network",
        _its_text_says_enough => "",
    };
    format!("{failed}{advice}")
}

/// Writes a record to a temporary session, and deletes it.
async fn store(config: &Config) -> Result<String, String> {
    if config.store.kind == StoreKind::Memory {
        return Ok("memory: sessions end with the process".to_owned());
    }
    // A store that is made here is the user's.
    let store = assemble::store_telling(config, false, trust::recorder(config)).map_err(|error| error.to_string())?;
    let session = SessionId::parse(&format!("doctor-{}", uuid::Uuid::now_v7())).map_err(|error| error.to_string())?;
    let tried = async {
        let claim = store.claim(&session).await?;
        let record = Record {
            format: FORMAT,
            id: bob::store::RecordId::new(uuid::Uuid::now_v7().to_string()),
            session: session.clone(),
            version: 1,
            epoch: claim.epoch,
            turn: None,
            at: jiff::Timestamp::now().as_millisecond(),
            fact: Fact::Options(Arc::default()),
        };
        let append = Append {
            session: session.clone(),
            epoch: claim.epoch,
            expected_version: 0,
            records: vec![Arc::new(record)],
        };
        let appended = store.append(vec![append]).await.into_iter().collect::<Result<Vec<_>, _>>();
        // Also where nothing could be appended: a claim alone may be listed.
        let deleted = store.delete(&session).await;
        appended.and(deleted)
    };
    tried.await.map(|_deleted| format!("{} can be written", config.store_shown())).map_err(|error| error.to_string())
}
