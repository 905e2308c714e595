//! The commands that only look: they need no model and change nothing, so they are obeyed during a turn as well.

use bob::approvals::PermissionMode;
use bob::model::ToolResult;
use bob::store::{Fact, Record, StepCost};
use bob::tools::BackgroundCommand;
use bob::tools::servers::ServerState;
use bob::{AgentRuntime, ModelName, SessionId};

use bob_config::Config;

use super::own_commands::OwnCommands;
use super::permissions::Rules;
use super::{alive, cost, help};
use crate::commands::file_changes::{self, OTHERS, Which};
use crate::commands::sessions::find::Listing;
use crate::commands::sessions::rows::{self, First};
use crate::commands::{mcp, ps, tools};
use crate::exit::Failure;
use crate::runtime::OpenRuntime;
use crate::terminal::approval::visible;
use crate::terminal::screen::look::Look;
use crate::terminal::show::took;
use crate::terminal::spending::{Prices, Spending, grouped};
use crate::terminal::{brief, print};

/// How many sessions `/sessions` names.
const SESSIONS_SHOWN: usize = 20;

/// How many characters of a command in the background are shown.
const MOST_COMMAND: usize = 60;

/// Bytes of a token, about, where the provider did not count.
const BYTES_A_TOKEN: u64 = 4;

/// What a chat keeps unchanged during a turn.
#[derive(Clone, Copy)]
pub(super) struct View<'a> {
    pub(super) opened: &'a OpenRuntime,
    pub(super) session: &'a SessionId,
    pub(super) model: Option<&'a ModelName>,
    pub(super) prices: &'a Prices,
    pub(super) own: &'a OwnCommands,
    pub(super) facts: &'a Facts,
    pub(super) is_person: bool,
    pub(super) mode: PermissionMode,
    /// The mode from the next turn on.
    pub(super) next_mode: PermissionMode,
}

/// What of the configuration `/status` and `/context` show.
pub(super) struct Facts {
    pub(super) config: String,
    pub(super) store: String,
    /// The share of the context at which a conversation is condensed, in percent.
    pub(super) condense_percent: u32,
    rules: Rules,
}

impl Facts {
    pub(super) fn of(config: &Config) -> Self {
        let store = config.store_shown();
        let condense_percent = (config.prompt.condense_trigger_ratio * 100.0).round();
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a ratio between 0 and 1")]
        let condense_percent = condense_percent as u32;
        let files: Vec<String> = config.files().all().map(|file| file.display().to_string()).collect();
        let config_files = if files.is_empty() { "built in".to_owned() } else { files.join(", over ") };
        Self { config: config_files, store, condense_percent, rules: Rules::of(config) }
    }
}

impl View<'_> {
    /// The text that a command shows; `None` if it is no such command.
    pub(super) async fn shown(self, line: &str) -> Option<Result<String, Failure>> {
        let (command, argument) = line.trim().split_once(char::is_whitespace).unwrap_or((line.trim(), ""));
        Some(match (command, argument.trim()) {
            ("/help", _) => Ok(help::help(Look::now().columns, &self.own.listed())),
            ("/cost", _) => self.cost().await,
            ("/tools", _) => Ok(self.tools()),
            ("/mcp", "") => Ok(self.servers()),
            ("/ps", which) => self.processes(which).await,
            ("/sessions", _) => self.sessions().await,
            ("/permissions", _) => self.facts.rules.text(self.mode, self.next_mode),
            ("/status", _) => self.status().await,
            ("/context", _) => self.context().await,
            ("/diff", which) => self.diff(which).await,
            ("/output", which) => self.output(which).await,
            _another_command => return None,
        })
    }

    /// The actors, and the commands in the background; or stops one of these.
    async fn processes(self, which: &str) -> Result<String, Failure> {
        let runtime = &self.opened.runtime;
        if let Some(number) = which.strip_prefix("stop") {
            let usage = || Failure::usage("usage: /ps stop N: stops the command of this number in the background");
            let number: u32 = number.trim().parse().map_err(|_| usage())?;
            return match runtime.stop_background(self.session, number).await {
                true => Ok(background(&runtime.background(self.session))),
                false => Err(Failure::usage(format!("no command {number} in the background; /ps lists them"))),
            };
        }
        if !which.is_empty() {
            return Err(Failure::usage("usage: /ps [stop N]"));
        }
        let (tree, metrics) = (runtime.tree().await, runtime.metrics().await);
        Ok(ps::table::tree(&tree, &metrics, true) + &background(&runtime.background(self.session)))
    }

    async fn records(self) -> Result<Vec<std::sync::Arc<Record>>, Failure> {
        Ok(self.opened.runtime.records(self.session.clone()).await?)
    }

    async fn diff(self, which: &str) -> Result<String, Failure> {
        let changes = file_changes::of_session(&*self.opened.store, self.session, &self.records().await?).await;
        let diff =
            file_changes::diff(&changes.turns, Which::parse(which)?, &[self.opened.workspace.display().to_string()])?;
        Ok(if diff.is_empty() { format!("no changes of files; {OTHERS}\n") } else { diff })
    }

    async fn cost(self) -> Result<String, Failure> {
        let records = self.records().await?;
        Ok(cost::table(records.iter().map(|record| &**record), self.prices, Look::now().columns))
    }

    fn tools(self) -> String {
        let tools = self.opened.runtime.tools_now();
        let rows = tools.iter().map(|tool| format!("{}\n", tools::row(tool)));
        let servers = self.opened.runtime.servers();
        let down = servers.iter().filter(|server| server.state != ServerState::Ready);
        let down = down.map(|server| format!("[tool server {}: {}]\n", server.id, mcp::word(server.state)));
        rows.chain(down).collect()
    }

    fn servers(self) -> String {
        let servers = self.opened.runtime.servers();
        match servers.is_empty() {
            true => "no tool server is configured; [[mcp.servers]] adds one\n".to_owned(),
            false => mcp::table(&servers),
        }
    }

    async fn sessions(self) -> Result<String, Failure> {
        let newest = Listing::Runtime(&self.opened.runtime).newest(SESSIONS_SHOWN).await?;
        let mut all = newest.page.sessions;
        all.retain(|summary| summary.parent.is_none());
        let sessions = &all[..all.len().min(SESSIONS_SHOWN)];
        let columns = self.is_person.then(|| Look::now().columns);
        let interrupted = alive::interrupted(self.opened, sessions).await;
        let all = newest.is_all.then_some(&all[..]);
        Ok(rows::rows(sessions, all, &interrupted, First::Time, columns).into_iter().map(|row| row + "\n").collect())
    }

    /// The model of the next turn, as far as this chat knows.
    fn model(self) -> &'static str {
        if self.model.is_some() { "chosen here" } else { "of the session or the configuration" }
    }

    async fn status(self) -> Result<String, Failure> {
        let look = self.opened.runtime.session(self.session.clone()).await?;
        let of_session = look.as_ref().and_then(|look| look.options.model.clone());
        let model = self.model.or(of_session.as_ref()).unwrap_or(&self.opened.default_model);
        let title = look.as_ref().and_then(|look| look.title.clone());
        let folder = look.as_ref().and_then(|look| look.options.cwd.clone());
        let folder = folder.unwrap_or_else(|| self.opened.workspace.display().to_string());
        let turns = look.as_ref().map_or(0, |look| look.turns);
        let servers = self.opened.runtime.servers();
        let ready = servers.iter().filter(|server| server.state == ServerState::Ready).count();
        let records = self.records().await?;
        let spent = Spending::of_records(records.iter().map(|record| &**record));
        let usage = spent.total().usage;
        let cost = spent.cost(self.prices);
        let cost = if cost.is_known() { format!(", {cost}") } else { String::new() };
        let tokens = format!("{} in, {} out{cost}", grouped(usage.input_tokens), grouped(usage.output_tokens));
        let rows = [
            ("model", format!("{model} ({})", self.model())),
            ("session", self.session.to_string()),
            ("title", title.map_or_else(|| "-".to_owned(), Into::into)),
            ("turns", turns.to_string()),
            ("folder", folder),
            ("tokens", tokens),
            ("context", used(&records, model, self).trim_end().to_owned()),
            ("tools", format!("{}, {ready} of {} servers ready", self.opened.runtime.tools_now().len(), servers.len())),
            ("config", self.facts.config.clone()),
            ("store", self.facts.store.clone()),
            ("version", env!("CARGO_PKG_VERSION").to_owned()),
        ];
        Ok(rows.iter().map(|(name, value)| format!("{name:<8} {value}\n")).collect())
    }

    async fn context(self) -> Result<String, Failure> {
        let look = self.opened.runtime.session(self.session.clone()).await?;
        let of_session = look.and_then(|look| look.options.model);
        let model = self.model.or(of_session.as_ref()).unwrap_or(&self.opened.default_model);
        Ok(format!("{model}: {}", used(&self.records().await?, model, self)))
    }

    /// The whole result of the last call, or of the one that many calls before.
    async fn output(self, which: &str) -> Result<String, Failure> {
        let back = match which {
            "" => 1,
            number => number.parse::<usize>().ok().filter(|number| *number > 0).ok_or_else(|| {
                Failure::usage("usage: /output [N]: the whole result of the last call, or of the N-th from the end")
            })?,
        };
        let records = self.records().await?;
        let mut results = records.iter().rev().filter_map(|record| match &record.fact {
            Fact::Result(result) => Some(result),
            _no_result => None,
        });
        Ok(match results.nth(back - 1) {
            Some(result) => whole(result),
            None => "no such call in this session yet\n".to_owned(),
        })
    }
}

fn background(commands: &[BackgroundCommand]) -> String {
    if commands.is_empty() {
        return String::new();
    }
    let line = |command: &BackgroundCommand| {
        let state = if command.is_running { "runs for" } else { "ended after" };
        let shown = visible(&print::first_line(&command.command, MOST_COMMAND));
        format!("{:>4}  {state} {}  $ {shown}\n", command.id, took(command.lasted_ms))
    };
    let lines: String = commands.iter().map(line).collect();
    format!("in the background of this session (/ps stop N stops one):\n{lines}")
}

fn whole(result: &ToolResult) -> String {
    let status = brief::ended(result);
    let output = result.output.plain();
    let lines = print::counted(output.lines().count(), "line");
    format!("{}  {status}, {}, {lines}:\n{}\n", result.name, took(result.duration_ms), output.trim_end_matches('\n'))
}

/// How many tokens a call of the model took, and whether that is an estimate.
fn tokens_of(cost: &StepCost) -> (u64, &'static str) {
    match &cost.usage {
        Some(usage) => (usage.input_tokens + usage.output_tokens, ""),
        None => (cost.prompt_bytes / BYTES_A_TOKEN, "about "),
    }
}

/// How much of the model's context the last prompt and its answer filled.
fn used(records: &[std::sync::Arc<Record>], model: &ModelName, view: View<'_>) -> String {
    let last = records.iter().rev().find_map(|record| match &record.fact {
        Fact::Answered(answered) => Some(tokens_of(&answered.cost)),
        Fact::Malformed { cost, .. } => Some(tokens_of(cost)),
        // The end interrupted a call of the model.
        Fact::Outcome(ended) => {
            ended.estimated.as_ref().map(|usage| (usage.input_tokens + usage.output_tokens, "about "))
        }
        _another => None,
    });
    let Some((tokens, about)) = last else { return "nothing is used yet\n".to_owned() };
    let Ok(can) = view.opened.model.capabilities(model) else {
        return format!("{about}{} tokens\n", grouped(tokens));
    };
    let all = u64::from(can.context_tokens);
    let percent = tokens * 100 / all.max(1);
    let at = all * u64::from(view.facts.condense_percent) / 100;
    format!("{about}{} of {} tokens ({percent} %); condensed from {} on\n", grouped(tokens), grouped(all), grouped(at))
}
