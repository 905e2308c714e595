//! `docs/names.md` says where each name of the design is, and what it names is there.

#![allow(clippy::unwrap_used, reason = "a test that unwraps fails where it stands")]

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

/// What a reader of the design looks for, each with a row of its own or in one with others.
const WANTED: &str = "RuntimeBuilder with_llm with_tools with_store with_events with_default_model with_policy AgentBootstrap \
    AgentBootstrap::build register_mcp_server AgentRuntime run run_stream health DefaultAgentRuntime RuntimeHealth HealthStatus \
    AgentRunResult ResumeRequest ResumeToken SuspendReason CancelToken SessionTranscript SessionSummary LlmPort complete \
    complete_stream LlmStream capabilities estimate_tokens ToolPort list_tools call_tool SessionStore load save EventSink emit \
    ContextCompactorPort compact SkillPort ArtifactStorePort TurnCheckpointStorePort TurnCheckpoint ModelCatalogPort \
    ModelSelector ModelPreference ModelCapabilityFlag ProviderRouter GenAiLlmAdapter McpToolAdapter McpConnectionPool \
    McpToolRegistry CompositeToolPort InMemorySessionStore TracingEventSink TapeLlm SubAgentProfile SubAgentToolAdapter ChatHub \
    InboundMessage OutboundMessage AgentAction ActionParseError LoopGuard TurnPolicy TurnContext GuardReason::Cancelled \
    FinishReason::Stop AgentEventStream ToolCallStarted ToolCallCompleted TokenUsage prompt_tokens SkillError AgentRunner new \
    infer run_to_completion Ready AwaitingToolCall pending_calls provide_tool_results require_approval cancel AwaitingApproval \
    approve deny approval_reason Finished response into_response session context RunnerContext llm-genai mcp-rmcp skills-agent \
    store-memory observe cli-agent service-agent VP-01 VP-05 TC-01 TC-10 P95 freeze [models_catalog] [[subagents]] [mcp.pool] \
    watch";

/// What a row without a counterpart begins with; the reason follows.
const NONE: &str = "none, since ";

/// What the second column may name.
struct Known {
    /// The items of the library, each with its methods, fields and variants.
    items: BTreeMap<String, BTreeSet<String>>,
    features: BTreeSet<String>,
    /// The keys of the shipped configuration, behind the heads of their tables.
    keys: BTreeSet<String>,
    files: fn(&str) -> bool,
}

/// A row: the names of the design, where they are, and the section of the page.
struct Row {
    section: String,
    names: Vec<String>,
    here: String,
}

#[test]
fn each_name_of_the_design_has_a_row_and_what_a_row_names_exists() {
    let (rows, known) = (rows(&read("docs/names.md")), known());
    assert!(known.items.len() > 400 && known.features.len() > 10 && known.keys.len() > 100, "too little was read");
    let named: BTreeSet<_> = rows.iter().flat_map(|row| &row.names).map(String::as_str).collect();
    let missing: Vec<_> = WANTED.split_whitespace().filter(|name| !named.contains(name)).collect();
    assert!(missing.is_empty(), "without a row: {missing:?}");
    let wrong: Vec<_> = rows.iter().filter_map(|row| wrong(row, &known)).collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn a_name_that_is_not_there_is_found() {
    let known = known();
    let of = |section: &str, here: &str| {
        let page = format!("## {section}\n| `a` | {here} | |\n");
        wrong(&rows(&page)[0], &known).is_some()
    };
    for (section, here) in [
        ("Ports", "`bob::model::LlmPort`, `bob::model::LlmPort::complete`"),
        ("Ports", "`bob::sessions::CancellationToken`"),
        ("Features", "`mcp`"),
        ("Features", "none, since it is always there"),
        ("Configuration", "`[mcp.pool] idle_ttl_ms`"),
        ("Programs and commands", "`docs/api.md`"),
    ] {
        assert!(!of(section, here), "{section}: {here}");
    }
    for (section, here) in [
        ("Ports", "`bob::model::LlmPort`, `bob::model::NoPort`"),
        ("Ports", "`bob::model::LlmPort::no_method`"),
        ("Ports", "`LlmPort`"),
        ("Ports", ""),
        ("Ports", "none, since `bob::model::LlmPort` has it"),
        ("Features", "`mcp-rmcp`"),
        ("Configuration", "`[mcp.pool] max_steps`"),
        ("Programs and commands", "`docs/none.md`"),
    ] {
        assert!(of(section, here), "{section}: {here}");
    }
}

/// A type of the design that has another name here is found by the search of the library's documentation.
#[test]
fn the_documentation_finds_each_type_of_the_design() {
    let mut aliases = BTreeSet::new();
    for folder in ["messages/src", "actors/src", "bin/bob/src"] {
        read_aliases(&root().join(folder), &mut aliases);
    }
    let rows = rows(&read("docs/names.md"));
    let is_type = |name: &str| name.starts_with(char::is_uppercase) && name.chars().all(char::is_alphanumeric);
    let of_library = rows.iter().filter(|row| row.here.contains("`bob::"));
    let (mut missing, mut count) = (Vec::new(), 0);
    for row in of_library.filter(|row| row.names.iter().all(|name| is_type(name))) {
        for name in row.names.iter().filter(|name| !row.here.contains(&format!("::{name}`"))) {
            count += 1;
            missing.extend((!aliases.contains(name)).then_some(name));
        }
    }
    assert!(count > 20, "only {count} other names were found");
    assert!(missing.is_empty(), "no item has #[doc(alias = …)] for {missing:?}");
    let named: BTreeSet<_> = rows.iter().flat_map(|row| row.names.iter().cloned()).collect();
    let idle: Vec<_> = aliases.difference(&named).collect();
    assert!(idle.is_empty(), "an alias without a row in docs/names.md: {idle:?}");
}

/// What is wrong with a row.
fn wrong(row: &Row, known: &Known) -> Option<String> {
    let named = spans(&row.here);
    let is_none = row.here.starts_with(NONE);
    let is_there = |name: &&str| match row.section.as_str() {
        "Features" => known.features.contains(*name),
        "Configuration" => known.keys.contains(*name),
        "Programs and commands" => (known.files)(name),
        _of_the_library => known.has(name),
    };
    let is_wrong = named.is_empty() != is_none || !named.iter().all(is_there);
    is_wrong.then(|| format!("{:?}: what is named does not exist, or there is no reason: {}", row.names, row.here))
}

impl Known {
    /// Whether a path leads to an item, or to a method, a field or a variant of one.
    fn has(&self, path: &str) -> bool {
        let member = path.rsplit_once("::").and_then(|(item, name)| Some(self.items.get(item)?.contains(name)));
        self.items.contains_key(path) || member.unwrap_or_default()
    }
}

fn known() -> Known {
    let mut items: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    let mut path = String::new();
    for line in read("docs/api.txt").lines() {
        if let Some(heading) = line.strip_prefix("# ") {
            let heading = heading.strip_prefix("mod ").unwrap_or(heading);
            path = heading.split(' ').next().unwrap_or_default().trim_end_matches(':').to_owned();
            items.entry(path.clone()).or_default();
        } else if let Some(members) = items.get_mut(&path) {
            members.extend(member(line).map(str::to_owned));
        }
    }
    let manifest = read("bin/bob/Cargo.toml");
    let table = manifest.split_once("[features]\n").unwrap().1.split_once("\n[").unwrap().0;
    let features = table.lines().filter_map(|line| Some(line.split_once(" = ")?.0.to_owned())).collect();
    let (mut keys, mut head) = (BTreeSet::new(), String::new());
    for line in read("agent.toml").lines().map(|line| line.trim_start_matches('#').trim_start()) {
        if line.starts_with('[') {
            head = line.split_whitespace().next().unwrap_or_default().to_owned();
        } else if let Some((key, _)) = line.split_once(" = ") {
            keys.insert(format!("{head} {key}"));
        }
    }
    let files = |name: &str| name == env!("CARGO_PKG_NAME") || root().join(name).is_file();
    Known { items, features, keys, files }
}

/// The method, field or variant that a line of the interface begins.
fn member(line: &str) -> Option<&str> {
    let line = line.trim_start();
    let begin = line.split_once("fn ").map_or(line.strip_prefix("pub ").unwrap_or(line), |(_, rest)| rest);
    begin.split(|letter: char| !letter.is_alphanumeric() && letter != '_').next().filter(|name| !name.is_empty())
}

/// The rows of the tables, without their heads.
fn rows(page: &str) -> Vec<Row> {
    let (mut rows, mut section) = (Vec::new(), String::new());
    for line in page.lines() {
        if let Some(heading) = line.strip_prefix("## ") {
            section = heading.to_owned();
        } else if let Some((names, rest)) = line.strip_prefix("| `").and_then(|line| line.split_once(" | ")) {
            let names = spans(&format!("`{names}")).into_iter().map(str::to_owned).collect();
            let here = rest.split(" | ").next().unwrap_or_default().to_owned();
            rows.push(Row { section: section.clone(), names, here });
        }
    }
    rows
}

/// What stands between backticks.
fn spans(text: &str) -> Vec<&str> {
    text.split('`').skip(1).step_by(2).collect()
}

/// The other names under which the documentation finds items of these sources.
fn read_aliases(folder: &Path, aliases: &mut BTreeSet<String>) {
    for entry in fs::read_dir(folder).unwrap().flatten() {
        let path = entry.path();
        if path.is_dir() {
            read_aliases(&path, aliases);
        } else if path.extension().is_some_and(|ending| ending == "rs") {
            let text = fs::read_to_string(&path).unwrap();
            let lines = text.lines().map(str::trim_start).filter(|line| line.starts_with("#[doc(alias"));
            aliases.extend(lines.flat_map(|line| line.split('"').skip(1).step_by(2)).map(str::to_owned));
        }
    }
}

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn read(file: &str) -> String {
    fs::read_to_string(root().join(file)).unwrap_or_else(|why| panic!("{file}: {why}"))
}
