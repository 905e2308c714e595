//! Single keys of a configuration: read from all layers, and set in one file, whose other text stays as it is.

use std::ops::Range;
use std::path::Path;

use super::files::Files;
use super::layers::{self, Environment, Overrides};
use super::load::text_of;
use super::merged::Merged;
use super::read::Read as _;
use super::secret::{self, is_known};
use super::tree::{self, Item, Value};
use super::{Config, ConfigError, keys};

/// The parts of a key as it is written, `runtime.max_steps` or `tools."local/read_file".risk`.
///
/// # Errors
/// When it is no key of a configuration; the text says which is most similar.
pub fn key(text: &str) -> Result<Vec<String>, String> {
    let line = format!("{text} = 0");
    let (root, errors) = tree::parse(&line);
    let mut path = Vec::new();
    let mut table = Some(&root);
    while let Some((key, item)) = table.and_then(|table| table.iter().next()) {
        path.push(key.get_ref().to_string());
        table = tree::table(item);
    }
    if !errors.is_empty() || path.is_empty() || text.contains(['\n', '#']) {
        return Err(format!("{text:?} is no key; write it like runtime.max_steps"));
    }
    let all = keys::paths(Config::KEYS);
    let parts: Vec<&str> = path.iter().map(String::as_str).collect();
    if is_known(&all, &parts) || all.iter().any(|key| begins(key, &parts)) {
        return Ok(path);
    }
    let near = all.iter().map(|key| (strsim::jaro_winkler(text, key), key)).max_by(|a, b| a.0.total_cmp(&b.0));
    let near = near.filter(|(likeness, _)| *likeness >= 0.85).map(|(_, key)| format!("; did you mean {key}?"));
    Err(format!("there is no key {text}{}", near.unwrap_or_default()))
}

fn begins(key: &str, parts: &[&str]) -> bool {
    let mut wanted = key.split('.');
    parts.iter().all(|part| wanted.next().is_some_and(|wanted| wanted == "*" || wanted == *part))
}

/// The value of a key as all layers together have it, or its default: as TOML, with stars in the place of each secret in
/// it. `None` when it has neither.
///
/// # Errors
/// When a file cannot be read.
pub fn get(files: &Files, environment: &Environment, key: &[String]) -> Result<Option<String>, ConfigError> {
    let texts = files.all().map(|file| Ok((file, text_of(file)?))).collect::<Result<Vec<_>, ConfigError>>()?;
    let texts: Vec<(&Path, &str)> = texts.iter().rev().map(|(file, text)| (*file, text.as_str())).collect();
    let value = Merged::of(&texts, files, environment, &Overrides::default(), |merged| merged.value(key));
    Ok(value.or_else(|| default_of(key)))
}

/// The default of a key, as the shipped configuration states it.
fn default_of(key: &[String]) -> Option<String> {
    let (wanted, section) = key.split_last()?;
    let (mut is_inside, mut stated) = (false, None);
    for line in Config::example().lines() {
        let plain = line.trim_start_matches("# ");
        if plain.starts_with('[') {
            let header = plain.trim_start_matches('[').split(']').next().unwrap_or_default();
            is_inside = header == tree::shown(section);
        } else if let Some((_, default)) = line.strip_prefix("# ").and_then(|text| text.split_once("Default ")) {
            let is_value = |text: &&str| {
                let line = format!("v = {text}");
                let (root, errors) = tree::parse(&line);
                errors.is_empty() && root.len() == 1
            };
            stated = (0..=default.len()).rev().filter_map(|end| default.get(..end)).find(is_value);
        } else if let Some((key, _)) = plain.split_once(" = ") {
            let default = stated.take();
            if is_inside && key == wanted {
                return default.map(str::to_owned);
            }
        }
    }
    None
}

/// Sets a key in the text of a file. `value` is TOML, or else taken as a text. Everything else stays, comments included;
/// a line that holds the key as a comment becomes the key.
///
/// # Errors
/// When the text is not valid TOML, or the key stands where only a person should write; the text says what to write.
pub fn set(text: &str, key: &[String], value: &str) -> Result<String, String> {
    let written = layers::as_value(key, value);
    let is_meant_as_toml = value.trim_start().starts_with(['[', '{', '"', '\'']);
    if is_meant_as_toml && written != value && !key.iter().any(|part| secret::is_secret_key(part)) {
        return Err("the value is not valid TOML; a text that begins so is written in quotes".to_owned());
    }
    let value = written;
    let (root, errors) = tree::parse(text);
    if !errors.is_empty() {
        return Err("the file is not valid TOML; `cli-agent config check` shows where".to_owned());
    }
    let (last, above) = key.split_last().ok_or("a key is needed")?;
    let by_hand = || Err(format!("{} cannot be set here; write it yourself", tree::shown(key)));
    if above.is_empty() || above.iter().any(|part| part.starts_with('[')) {
        return by_hand();
    }
    let assignment = format!("{} = {value}", tree::shown(std::slice::from_ref(last)));
    let (mut table, mut parent): (_, Option<&Item<'_>>) = (&root, None);
    for part in above {
        let Some(item) = table.get(part.as_str()) else {
            let gap = if text.is_empty() || text.ends_with("\n\n") { "" } else { "\n" };
            let end = if text.is_empty() || text.ends_with('\n') { "" } else { "\n" };
            return Ok(format!("{text}{end}{gap}[{}]\n{assignment}\n", tree::shown(above)));
        };
        let Some(below) = tree::table(item) else { return by_hand() };
        (table, parent) = (below, Some(item));
    }
    if let Some(item) = table.get(last.as_str()) {
        let span = item.span();
        return match item.get_ref() {
            Value::Table(_) if !text[span.clone()].starts_with('{') => by_hand(),
            Value::Array(_) if !text[span.clone()].starts_with('[') || text[span.clone()].starts_with("[[") => {
                by_hand()
            }
            _ => Ok(spliced(text, span, &value)),
        };
    }
    let Some(span) = parent.map(Item::span) else { return by_hand() };
    let line = text[..span.start].rfind('\n').map_or(0, |at| at + 1);
    match text[span.start..].chars().next() {
        Some('{') => {
            let before = text[..span.end - 1].trim_end();
            let comma = if before.ends_with('{') { "" } else { "," };
            Ok(spliced(text, before.len()..span.end, &format!("{comma} {assignment} }}")))
        }
        Some('[') => Ok(below_header(text, span.start, last, &assignment)),
        // Dotted keys above all headers.
        _ if text[..span.start].lines().all(|line| !line.trim_start().starts_with('[')) => {
            Ok(spliced(text, line..line, &format!("{} = {value}\n", tree::shown(key))))
        }
        // Implied by the header of a table below it.
        _ if text[line..].trim_start().starts_with('[') => {
            let end = if text.ends_with('\n') { "" } else { "\n" };
            Ok(format!("{text}{end}\n[{}]\n{assignment}\n", tree::shown(above)))
        }
        _ => by_hand(),
    }
}

/// Puts an assignment into the table whose header is here: in place of its comment, or below the header.
fn below_header(text: &str, header: usize, name: &str, assignment: &str) -> String {
    let line_end = |at: usize| text[at..].find('\n').map_or(text.len(), |length| at + length);
    let first = line_end(header);
    let mut at = first;
    while at < text.len() {
        let (start, end) = (at + 1, line_end(at + 1));
        let line = text[start..end].trim_start();
        if line.starts_with('[') {
            break;
        }
        if line.strip_prefix("# ").and_then(|line| line.split_once(" = ")).is_some_and(|(key, _)| key == name) {
            return spliced(text, start..end, assignment);
        }
        at = end;
    }
    spliced(text, first..first, &format!("\n{assignment}"))
}

fn spliced(text: &str, span: Range<usize>, with: &str) -> String {
    format!("{}{with}{}", &text[..span.start], &text[span.end..])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path(text: &str) -> Vec<String> {
        key(text).unwrap_or_else(|why| panic!("{why}"))
    }

    #[track_caller]
    fn assert_set(text: &str, name: &str, value: &str, expected: &str) {
        let changed = set(text, &path(name), value).unwrap_or_else(|why| panic!("{why}"));
        assert_eq!(changed, expected);
        assert!(tree::parse(&changed).1.is_empty(), "{changed}");
    }

    #[test]
    fn a_key_is_set_and_everything_else_stays() {
        let text = "# mine\n[runtime] # here\ndefault_model = \"a:b\" # why\n\n[log]\n";
        assert_set(text, "runtime.default_model", "c:d", &text.replace("\"a:b\"", "\"c:d\""));
        assert_set(text, "runtime.max_steps", "5", &text.replace("# here\n", "# here\nmax_steps = 5\n"));
        assert_set(text, "log.level", "info", &format!("{text}level = \"info\"\n").replace("\n\n\n", "\n\n"));
        assert_set(text, "llm.retry_max", "0", &format!("{text}\n[llm]\nretry_max = 0\n"));
        assert_set("", "llm.fallback", "['a:b']", "[llm]\nfallback = ['a:b']\n");
        let inline = "runtime = { default_model = \"a:b\" }\n";
        assert_set(inline, "runtime.max_steps", "5", "runtime = { default_model = \"a:b\", max_steps = 5 }\n");
        let dotted = "runtime.default_model = \"a:b\"\n";
        assert_set(dotted, "runtime.max_steps", "5", "runtime.max_steps = 5\nruntime.default_model = \"a:b\"\n");
        let implied = "[providers.x.start]\ncommand = \"sh\"\n";
        let whole = format!("{implied}\n[providers.x]\nbase_url = \"http://h/\"\n");
        assert_set(implied, "providers.x.base_url", "http://h/", &whole);
        assert_set("", "tools.\"local/x\".risk", "low", "[tools.\"local/x\"]\nrisk = \"low\"\n");
    }

    #[test]
    fn every_key_of_the_shipped_configuration_can_be_set() {
        for key in
            ["runtime.max_steps", "llm.retry_max", "policy.workspace", "prompt.memory", "store.kind", "log.level"]
        {
            let changed = set(Config::example(), &path(key), "7").unwrap_or_else(|why| panic!("{key}: {why}"));
            let (root, errors) = tree::parse(&changed);
            assert!(errors.is_empty(), "{key}");
            assert_eq!(tree::get(&root, key).map(tree::written).as_deref(), Some("7"), "{key}");
            assert_eq!(changed.lines().count(), Config::example().lines().count(), "{key}: its comment became the key");
        }
    }

    #[test]
    fn what_is_no_key_is_refused_and_says_why() {
        for (text, why) in [
            ("runtime.max_stepz", "did you mean runtime.max_steps?"),
            ("max steps", "is no key"),
            ("", "is no key"),
            ("runtime.max_steps = 5 # x", "is no key"),
        ] {
            let error = key(text).expect_err(text);
            assert!(error.contains(why), "{text}: {error}");
        }
        let half = set("", &path("policy.deny_tools"), "[\"a\"").unwrap_err();
        assert!(half.contains("not valid TOML"), "{half}");
        assert!(set("[runtime", &path("runtime.max_steps"), "5").unwrap_err().contains("not valid TOML"));
        let by_hand = set("[runtime]\nx = 1\n", &["y".to_owned()], "5").unwrap_err();
        assert!(by_hand.contains("write it yourself"), "{by_hand}");
    }

    #[test]
    fn a_value_is_that_of_all_layers_or_the_default() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("agent.toml");
        let text = "[runtime]\ndefault_model = 'a:b'\n[providers.x]\napi_key = 'canary-0'\n[providers.y]\napi_key = '${Y}'\n\
             [[mcp.servers]]\nid = 'f'\ncommand = 'x'\nargs = ['--token', 'canary-1']\nenv = { A = 'canary-2', B = 3 }\n\
             [[mcp.servers]]\nid = 'g'\nurl = 'https://canary-3@h/mcp'\nheaders = { Authorization = 'Bearer canary-4' }\n";
        std::fs::write(&file, text).unwrap();
        let environment = Environment::from([("BOB__RUNTIME__MAX_STEPS", "9")]);
        let files = Files::named(file);
        let value = |name: &str| get(&files, &environment, &path(name)).unwrap();
        assert_eq!(value("runtime.default_model").as_deref(), Some("\"a:b\""));
        assert_eq!(value("runtime.max_steps").as_deref(), Some("9"));
        assert_eq!(value("runtime.max_tool_calls").as_deref(), Some("200"), "of the profile");
        assert_eq!(value("llm.retry_max").as_deref(), Some("2"), "the default");
        assert_eq!(value("log.level").as_deref(), Some("\"warn\""));
        assert_eq!(value("providers.x.api_key").as_deref(), Some("\"***\""));
        assert_eq!(value("providers.y.api_key").as_deref(), Some("\"${Y}\""));
        assert_eq!(value("providers.z.base_url"), None);
        // Also where it is a part of what was asked for.
        assert_eq!(value("providers.x").as_deref(), Some("{ api_key = \"***\" }"));
        for whole in ["providers", "mcp", "mcp.servers"] {
            let shown = value(whole).unwrap();
            assert!(!shown.contains("canary"), "{whole}: {shown}");
            assert!(shown.contains("${Y}") || whole != "providers", "{shown}");
        }
    }
}
