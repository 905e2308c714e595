//! Rules that relate several keys, and rules for names that a user chooses.
//!
//! They check the merged tree, not the finished structs, because its values know their positions. A value of the
//! wrong type is skipped; the reader reports it.

mod selectors;
mod sign_in;

use std::collections::BTreeMap;

use bob::Agent;
use bob::context::RequestContext;
use bob::model::providers::KNOWN;

use super::keys::{ID_FORM, MODEL_FORM, is_id, is_model, is_pattern};
use super::problem::Findings;
use super::tree::{self, Item, Table};

/// Adds an error for everything impossible. With broken lines, keys that seem missing may be on such a line.
pub(super) fn check(root: &Table<'_>, is_broken: bool, findings: &mut Findings) {
    if !is_broken {
        default_model(root, findings);
    }
    providers(root, findings);
    shell_env(root, findings);
    prices(root, findings);
    selectors::check(root, findings);
    tool_names(root, findings);
    servers(root, findings);
    hooks(root, findings);
    subagents(root, findings);
    tenants(root, findings);
    prompt_and_skills(root, findings);
    skill_sources(root, findings);
    postgres(root, findings);
    if let Some(kind) = tree::get(root, "store.kind").filter(|kind| tree::text(kind) == Some("sqlite"))
        && cfg!(not(feature = "sqlite"))
    {
        let message = "`store.kind`: this program was built without sqlite; use kind = \"json\" or \"memory\"";
        findings.add(kind.span(), message);
    }
}

/// The database of `store.kind = "postgres"`: its URL, and a program that was built with it.
fn postgres(root: &Table<'_>, findings: &mut Findings) {
    let Some(kind) = tree::get(root, "store.kind").filter(|kind| tree::text(kind) == Some("postgres")) else { return };
    if cfg!(not(feature = "postgres")) {
        let message = "`store.kind`: this program was built without postgres";
        let help = "build it with `cargo build --release --features postgres`, or use another kind";
        findings.add_with_help(kind.span(), message, Some(help.to_owned()));
        return;
    }
    match tree::get(root, "store.url").map(|url| (url.span(), tree::text(url))) {
        None => findings.add_with_help(
            kind.span(),
            "`store.url` is missing, the address of the database",
            Some("set it below [store], for example url = \"${DATABASE_URL}\"".to_owned()),
        ),
        Some((at, Some(url))) if !["postgres://", "postgresql://"].iter().any(|scheme| url.starts_with(scheme)) => {
            findings.add(at, "`store.url` must have the form postgres://USER:PASSWORD@HOST:PORT/DATABASE");
        }
        Some(_) => {}
    }
}

fn default_model(root: &Table<'_>, findings: &mut Findings) {
    let runtime = root.get("runtime");
    // A `runtime` that is not a table is reported elsewhere.
    if runtime.is_some_and(|runtime| tree::table(runtime).is_none())
        || tree::get(root, "runtime.default_model").is_some()
    {
        return;
    }
    let start = runtime.map_or(0, |runtime| runtime.span().start);
    findings.add_with_help(
        start..start,
        "`runtime.default_model` is missing",
        Some("set it to provider:model, for example default_model = \"openai:gpt-4o-mini\" below [runtime]".to_owned()),
    );
}

fn providers(root: &Table<'_>, findings: &mut Findings) {
    let Some(providers) = root.get("providers").and_then(tree::table) else { return };
    for (name, item) in providers.iter() {
        let at = name.span();
        if !is_id(name.get_ref()) {
            findings.add(at, format!("the name of a provider {ID_FORM}"));
            continue;
        }
        let Some(provider) = tree::table(item) else { continue };
        let is_scripted = provider.get("kind").and_then(tree::text) == Some("scripted");
        let path = format!("providers.{}", name.get_ref());
        match (is_scripted, provider.get("script")) {
            (true, None) => findings.add(at.clone(), format!("`{path}` is scripted and needs `script`, a file")),
            (false, Some(script)) => {
                findings.add(script.span(), format!("`{path}.script` is only read with kind = \"scripted\""));
            }
            (true, Some(_)) | (false, None) => {}
        }
        let Some(written) = provider.get("start") else { continue };
        let Some(start) = tree::table(written) else { continue };
        if start.get("command").is_none() {
            findings.add(written.span(), format!("`{path}.start` needs `command`, a program"));
        }
        let inherited = start.get("inherit_env").and_then(tree::list);
        for name in inherited.into_iter().flatten().filter(|name| tree::text(name) == Some("*")) {
            let text = "a lone `*` would hand every key of this environment to the server: name what it needs";
            findings.add(name.span(), text.to_owned());
        }
        if provider.get("base_url").is_none() {
            findings.add(at, format!("`{path}` starts a server and needs `base_url`, where it answers"));
        }
    }
}

fn shell_env(root: &Table<'_>, findings: &mut Findings) {
    let names = tree::get(root, "policy.shell_env").and_then(tree::list);
    let is_short = |name: &str| name.strip_suffix('*').is_some_and(|stem| stem.len() < 3);
    for name in names.into_iter().flatten().filter(|name| tree::text(name).is_some_and(is_short)) {
        let text = "a lone `*`, or one behind fewer than three characters, would hand keys of this environment to \
                    commands: name what they need";
        findings.add(name.span(), text.to_owned());
    }
}

fn prices(root: &Table<'_>, findings: &mut Findings) {
    let Some(prices) = root.get("prices").and_then(tree::table) else { return };
    for (name, _) in prices.iter().filter(|(name, _)| !is_model(name.get_ref())) {
        findings.add(name.span(), format!("the key below `prices` {MODEL_FORM}, in quotes"));
    }
}

fn tool_names(root: &Table<'_>, findings: &mut Findings) {
    let Some(tools) = root.get("tools").and_then(tree::table) else { return };
    for (name, _) in tools.iter().filter(|(name, _)| !is_pattern(name.get_ref())) {
        let form = "must be the name of a tool, local/<tool>, mcp/<server>/<tool> or agent/<id>, or a pattern like \
                    mcp/<server>/*, in quotes";
        findings.add(name.span(), format!("the key below `tools` {form}"));
    }
}

fn servers(root: &Table<'_>, findings: &mut Findings) {
    let mut ids: BTreeMap<&str, usize> = BTreeMap::new();
    let servers = tree::get(root, "mcp.servers").and_then(tree::list);
    for (index, item) in servers.into_iter().flat_map(|servers| servers.iter()).enumerate() {
        let Some(server) = tree::table(item) else { continue };
        let path = format!("mcp.servers[{index}]");
        let id = server.get("id").filter(|id| tree::text(id).is_some());
        if let Some(id) = id {
            let text = tree::text(id).unwrap_or_default();
            if let Some(first) = ids.get(text).filter(|_| !text.is_empty()) {
                findings.add(id.span(), format!("`{path}.id`: mcp.servers[{first}] has this id already"));
            }
            if text == "local" {
                findings.add(id.span(), format!("`{path}.id`: \"local\" is the name of the tools of this process"));
            }
            ids.entry(text).or_insert(index);
        }
        let at = id.map_or(item.span().start..item.span().start, |id| id.span());
        let (needed, foreign): (&str, &[&str]) = match server.get("transport").map(|kind| tree::text(kind)) {
            None | Some(Some("stdio")) => {
                ("command", &["url", "headers", "auth", "client_id", "client_secret", "client_metadata_url", "scopes"])
            }
            Some(Some("http")) => ("url", &["command", "args", "env"]),
            Some(_) => continue,
        };
        let transport = if needed == "url" { "http" } else { "stdio" };
        if server.get(needed).is_none() {
            findings.add(at, format!("`{path}` has the transport {transport} and needs `{needed}`"));
        }
        for (key, _) in server.iter().filter(|(key, _)| foreign.contains(&&**key.get_ref())) {
            let message = format!("`{path}.{}` means nothing with the transport {transport}", key.get_ref());
            findings.add(key.span(), message);
        }
        sign_in::check(server, &path, findings);
    }
}

fn hooks(root: &Table<'_>, findings: &mut Findings) {
    for (name, item) in root.get("hooks").and_then(tree::table).into_iter().flatten() {
        if !is_id(name.get_ref()) {
            findings.add(name.span(), format!("the name of a hook {ID_FORM}"));
            continue;
        }
        let Some(hook) = tree::table(item) else { continue };
        let on = hook.get("on").and_then(tree::text);
        let foreign: &[&str] = match on {
            Some("before_call") => &[],
            Some("after_call") => &["on_failure"],
            Some("question" | "turn_end") => &["on_failure", "calls"],
            Some(_) | None => continue,
        };
        for (key, _) in hook.iter().filter(|(key, _)| foreign.contains(&&**key.get_ref())) {
            let (key, path, on) = (key, key.get_ref(), on.unwrap_or_default());
            let message = format!("`hooks.{}.{path}` means nothing with on = \"{on}\"", name.get_ref());
            findings.add(key.span(), message);
        }
    }
}

fn subagents(root: &Table<'_>, findings: &mut Findings) {
    let mut ids: BTreeMap<&str, usize> = BTreeMap::new();
    let agents = root.get("subagents").and_then(tree::list);
    for (index, item) in agents.into_iter().flat_map(|agents| agents.iter()).enumerate() {
        let Some(agent) = tree::table(item) else { continue };
        if let Some(model) = agent.get("model") {
            let path = format!("subagents[{index}].model");
            selectors::check_selector(root, &path, model, findings);
            check_provider(root, &path, model, findings);
        }
        let is_async = agent.get("mode").and_then(tree::text) == Some("async");
        let on_end = agent.get("on_parent_end").filter(|item| tree::text(item) == Some("continue") && !is_async);
        if let Some(item) = on_end {
            let message = format!("`subagents[{index}].on_parent_end`: \"continue\" needs mode = \"async\"");
            findings.add(item.span(), message);
        }
        let Some(id) = agent.get("id") else { continue };
        let Some(text) = tree::text(id) else { continue };
        if Agent::is_taken(text) {
            let message =
                format!("`subagents[{index}].id`: the built-in tool agent/{text} has this name; choose another");
            findings.add(id.span(), message);
        }
        if let Some(first) = ids.get(text) {
            findings.add(id.span(), format!("`subagents[{index}].id`: subagents[{first}] has this id already"));
        }
        ids.entry(text).or_insert(index);
    }
}

/// Adds an error if the provider of a model is neither built in nor configured.
fn check_provider(root: &Table<'_>, path: &str, model: &Item<'_>, findings: &mut Findings) {
    let Some((provider, _)) = tree::text(model).and_then(|model| model.split_once(':')) else { return };
    let configured = root.get("providers").and_then(tree::table);
    let is_known = provider == "select"
        || configured.is_some_and(|providers| providers.get(provider).is_some())
        || KNOWN.iter().any(|known| known.name == provider);
    if !is_known {
        let message = format!("`{path}`: provider {provider:?} is not known; add [providers.{provider}]");
        findings.add(model.span(), message);
    }
}

fn skill_sources(root: &Table<'_>, findings: &mut Findings) {
    let sources = tree::get(root, "skills.sources").and_then(tree::list);
    for (index, item) in sources.into_iter().flat_map(|sources| sources.iter()).enumerate() {
        let Some(source) = tree::table(item) else { continue };
        let path = format!("skills.sources[{index}]");
        let (kind, needed, foreign): (&str, &[&str], &[&str]) = match source.get("type").map(|kind| tree::text(kind)) {
            None | Some(Some("directory")) => ("directory", &["path"], &["url", "rev"]),
            // A commit does not change.
            Some(Some("git")) => ("git", &["url", "rev"], &["watch"]),
            Some(_) => continue,
        };
        let start = item.span().start;
        for needed in needed.iter().filter(|needed| !source.contains_key(**needed)) {
            findings.add(start..start, format!("`{path}` has the type {kind} and needs `{needed}`"));
        }
        for (key, _) in source.iter().filter(|(key, _)| foreign.contains(&&**key.get_ref())) {
            findings.add(key.span(), format!("`{path}.{}` means nothing with the type {kind}", key.get_ref()));
        }
        #[cfg(feature = "skills")]
        if kind == "git" {
            commit(source, &path, findings);
        }
    }
}

fn tenants(root: &Table<'_>, findings: &mut Findings) {
    let Some(tenants) = root.get("tenants").and_then(tree::table) else { return };
    for name in tenants.keys() {
        if let Err(error) = RequestContext::of_tenant(name.get_ref().as_ref()).check() {
            let why = error.to_string();
            findings.add(name.span(), why.replacen("the context has tenant with", "`tenants` has a tenant with", 1));
        }
    }
}

/// Whether a source names a commit that can be mirrored.
#[cfg(feature = "skills")]
fn commit(source: &Table<'_>, path: &str, findings: &mut Findings) {
    use bob::tools::skills::{GitSkills, GitSourceError};
    let item = |key: &str| source.get(key).and_then(|item| Some((item.span(), tree::text(item)?)));
    let (Some((url_at, url)), Some((rev_at, rev))) = (item("url"), item("rev")) else { return };
    let below = item("path").unwrap_or((url_at.clone(), ""));
    let (at, key, why) = match GitSkills::new(url, rev, below.1) {
        Ok(_) => return,
        Err(GitSourceError::Url(why)) => (url_at, "url", why),
        Err(GitSourceError::Rev(why)) => (rev_at, "rev", why),
        Err(error) => (below.0, "path", error.to_string()),
    };
    findings.add(at, format!("`{path}.{key}`: {why}"));
}

fn prompt_and_skills(root: &Table<'_>, findings: &mut Findings) {
    let ratio = |key: &str| tree::get(root, key).map(|item| (item.span(), tree::decimal(item).unwrap_or(f64::NAN)));
    let trigger = ratio("prompt.condense_trigger_ratio");
    let target = ratio("prompt.condense_target_ratio");
    let default = super::Prompt::default();
    let (trigger_value, target_value) = (
        trigger.as_ref().map_or(default.condense_trigger_ratio, |(_, value)| *value),
        target.as_ref().map_or(default.condense_target_ratio, |(_, value)| *value),
    );
    if target_value >= trigger_value
        && let Some((span, _)) = target.or(trigger)
    {
        let message = format!(
            "`prompt.condense_target_ratio` ({target_value}) must be below `prompt.condense_trigger_ratio` ({trigger_value})"
        );
        findings.add(span, message);
    }
    if let (Some(tokens), Some(_)) =
        (tree::get(root, "skills.token_budget_tokens"), tree::get(root, "skills.token_budget_ratio"))
    {
        findings
            .add(tokens.span(), "only one of `skills.token_budget_ratio` and `skills.token_budget_tokens` may be set");
    }
}
