use std::collections::BTreeMap;
use std::path::Path;

use super::{Privilege, PrivilegeKind};
use crate::{Config, HookOn, Secret, Start};

/// Programs that fetch a package and run it.
const FETCHERS: [&str; 6] = ["npx", "bunx", "pnpx", "uvx", "pipx", "deno"];

pub(super) fn model_server(config: &Config, provider: &str, start: &Start) -> Privilege {
    let Start { command, args, ready_timeout_ms: _, env, inherit_env } = start;
    let folder = config.folder_of_provider(provider);
    let what = format!("the model server of {provider}");
    let started = started(config, folder, what, (command.as_str(), args.as_slice()));
    let started = with_environment(config, started, &["providers", provider, "start", "env"], env);
    if inherit_env.is_empty() { started } else { started.line(format!("inherited:   {}", inherit_env.join(", "))) }
}

pub(super) fn tool_server(
    config: &Config,
    ([mcp, servers, position], id): ([&str; 3], &str),
    command: &str,
    args: &[String],
    env: &BTreeMap<String, Secret>,
) -> Privilege {
    let started = started(config, config.folder_of_servers(), format!("the tool server {id}"), (command, args));
    with_environment(config, started, &[mcp, servers, position, "env"], env)
}

pub(super) fn hook(
    config: &Config,
    (name, on, calls): (&str, HookOn, &[String]),
    command: &str,
    args: &[String],
    env: &BTreeMap<String, Secret>,
) -> Privilege {
    let what = match on {
        HookOn::BeforeCall => "before calls of tools",
        HookOn::AfterCall => "after calls of tools",
        HookOn::Question => "at questions",
        HookOn::TurnEnd => "at the end of turns",
    };
    let started = started(config, config.folder_of_hook(name), format!("the hook {name}, {what}"), (command, args));
    let started = with_environment(config, started, &["hooks", name, "env"], env);
    if calls.is_empty() { started } else { started.line(format!("about:       {}", calls.join(", "))) }
}

fn started(config: &Config, folder: &Path, what: String, (program, args): (&str, &[String])) -> Privilege {
    let folder = folder.canonicalize().unwrap_or_else(|_shown_as_written| folder.to_owned());
    let words: Vec<String> =
        std::iter::once(program).chain(args.iter().map(String::as_str)).map(|word| config.as_written(word)).collect();
    let mut privilege = Privilege::new(PrivilegeKind::Starts, what)
        .line(format!("command:     {}", argv(&words)))
        .line(format!("in folder:   {}", folder.display()));
    if is_unpinned(&words) {
        let warning = "the package has no version, so what runs is whatever is newest; pin it: name@1.2.3";
        privilege = privilege.line(format!("warning:     {warning}"));
    }
    privilege
}

/// With the variables that are set for it: the names are shown. A value decides what runs as much as an argument does.
fn with_environment(config: &Config, started: Privilege, place: &[&str], env: &BTreeMap<String, Secret>) -> Privilege {
    if env.is_empty() {
        return started;
    }
    let names: Vec<&str> = env.keys().map(String::as_str).collect();
    let started = started.line(format!("environment: {}", names.join(", ")));
    env.iter().fold(started, |started, (name, value)| {
        let place = [place, &[name.as_str()]].concat();
        started.value(name, &config.written_at(&place, value.expose()))
    })
}

/// Program and arguments, each as it is, quoted where one could be mistaken for two.
fn argv(words: &[String]) -> String {
    let shown = |word: &String| {
        let is_plain = !word.is_empty()
            && word.chars().all(|c| {
                c.is_alphanumeric() || matches!(c, '/' | '.' | '-' | '_' | '@' | ':' | '=' | ',' | '$' | '{' | '}')
            });
        if is_plain { word.clone() } else { format!("{word:?}") }
    };
    words.iter().map(shown).collect::<Vec<_>>().join(" ")
}

/// Whether it fetches a package of no stated version: then another program may run every day.
fn is_unpinned(words: &[String]) -> bool {
    let fetches = |word: &&String| FETCHERS.contains(&word.rsplit('/').next().unwrap_or_default());
    // A wrapper script may precede the program that downloads.
    let mut words = words.iter().skip_while(|word| !fetches(word)).skip(1);
    words.find(|word| !word.starts_with('-') && *word != "run").is_some_and(|package| {
        // The first `@` may begin the name of a scope.
        let version = package.char_indices().skip(1).find(|(_, c)| *c == '@').map(|(at, _)| &package[at + 1..]);
        let version = version.or_else(|| package.split_once("==").map(|(_, version)| version));
        !version.is_some_and(|version| version.starts_with(|c: char| c.is_ascii_digit()))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(line: &str) -> Vec<String> {
        line.split(' ').map(str::to_owned).collect()
    }

    #[test]
    fn g16_a_package_without_a_version_is_noticed() {
        for line in [
            "npx -y server",
            "npx -y @who/server",
            "/usr/bin/npx server@latest",
            "uvx server",
            "npx -y @who/server@next .",
            "sh scripts/node.sh npx -y server",
        ] {
            assert!(is_unpinned(&words(line)), "{line}");
        }
        for line in [
            "npx -y @who/server@1.2.3 .",
            "sh scripts/node.sh npx -y server@1.2.3",
            "npx server@2",
            "uvx server==1.0",
            "uvx server@1.0",
            "sh -c server",
            "npx",
            "./npx.sh server",
        ] {
            assert!(!is_unpinned(&words(line)), "{line}");
        }
    }

    #[test]
    fn g16_what_ships_with_the_program_names_versions() {
        let (read_me, example) = (include_str!("../../../../README.md"), Config::example());
        let mut seen = 0;
        for text in [read_me, example] {
            for line in text.lines().filter(|line| line.contains("args = [") && line.contains("\"-y\"")) {
                let shown = line.split('"').skip(1).step_by(2).collect::<Vec<_>>().join(" ");
                assert!(shown.contains("npx") && !is_unpinned(&words(&format!("sh {shown}"))), "{line}");
                seen += 1;
            }
        }
        assert!(seen >= 2, "{seen}");
    }
}
