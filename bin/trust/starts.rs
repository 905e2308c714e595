//! What a configuration would start.

use std::path::PathBuf;

use bob::config::{Config, Transport};

/// One program.
#[derive(Debug, PartialEq)]
pub(super) struct Start {
    /// What it is for.
    pub(super) what: String,
    /// As it is written in the configuration: a variable by its name, not by what it holds.
    program: String,
    arguments: Vec<String>,
    /// The names of the variables that are set for it or that it gets from ours; never their values.
    pub(super) environment: Vec<String>,
    /// Where it runs.
    pub(super) folder: PathBuf,
}

impl Start {
    /// Program and arguments, each as it is, quoted where one could be mistaken for two.
    pub(super) fn argv(&self) -> String {
        let shown = |word: &String| {
            let is_plain = !word.is_empty()
                && word.chars().all(|c| {
                    c.is_alphanumeric() || matches!(c, '/' | '.' | '-' | '_' | '@' | ':' | '=' | ',' | '$' | '{' | '}')
                });
            if is_plain { word.clone() } else { format!("{word:?}") }
        };
        let words = std::iter::once(&self.program).chain(&self.arguments);
        words.map(shown).collect::<Vec<_>>().join(" ")
    }
}

/// Programs that fetch a package and run it.
const FETCHERS: [&str; 6] = ["npx", "bunx", "pnpx", "uvx", "pipx", "deno"];

impl Start {
    /// Whether it fetches a package of no stated version: then another program may run every day.
    pub(super) fn is_unpinned(&self) -> bool {
        let program = self.program.rsplit('/').next().unwrap_or_default();
        let package = self.arguments.iter().find(|word| !word.starts_with('-') && *word != "run");
        FETCHERS.contains(&program)
            && package.is_some_and(|package| {
                // The first `@` may begin the name of whoever publishes it.
                let version = package.char_indices().skip(1).find(|(_, c)| *c == '@').map(|(at, _)| &package[at + 1..]);
                let version = version.or_else(|| package.split_once("==").map(|(_, version)| version));
                !version.is_some_and(|version| version.starts_with(|c: char| c.is_ascii_digit()))
            })
    }
}

/// Every program, model servers first.
pub(super) fn of(config: &Config) -> Vec<Start> {
    let folder = config.folder.canonicalize().unwrap_or_else(|_shown_as_written| config.folder.clone());
    let written = |words: &[String]| words.iter().map(|word| config.as_written(word)).collect();
    let models = config.providers.iter().filter_map(|(name, provider)| {
        let start = provider.start.as_ref()?;
        Some(Start {
            what: format!("the model server of {name}"),
            program: config.as_written(&start.command),
            arguments: written(&start.args),
            environment: start.env.keys().chain(&start.inherit_env).cloned().collect(),
            folder: folder.clone(),
        })
    });
    let tools = config.mcp.servers.iter().filter(|server| server.transport == Transport::Stdio).map(|server| Start {
        what: format!("the tool server {}", server.id),
        program: config.as_written(server.command.as_deref().unwrap_or_default()),
        arguments: written(&server.args),
        environment: server.env.keys().cloned().collect(),
        folder: folder.clone(),
    });
    models.chain(tools).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn start(line: &str) -> Start {
        let mut words = line.split(' ').map(str::to_owned);
        let program = words.next().unwrap_or_default();
        Start {
            what: String::new(),
            program,
            arguments: words.collect(),
            environment: Vec::new(),
            folder: PathBuf::new(),
        }
    }

    #[test]
    fn g16_a_package_without_a_version_is_noticed() {
        for line in [
            "npx -y server",
            "npx -y @who/server",
            "/usr/bin/npx server@latest",
            "uvx server",
            "npx -y @who/server@next .",
        ] {
            assert!(start(line).is_unpinned(), "{line}");
        }
        for line in [
            "npx -y @who/server@1.2.3 .",
            "npx server@2",
            "uvx server==1.0",
            "uvx server@1.0",
            "sh -c server",
            "npx",
            "./npx.sh server",
        ] {
            assert!(!start(line).is_unpinned(), "{line}");
        }
    }

    #[test]
    fn g16_what_ships_with_the_program_names_versions() {
        let (read_me, example) = (include_str!("../../README.md"), Config::example());
        let mut seen = 0;
        for text in [read_me, example] {
            for line in text.lines().filter(|line| line.contains("args = [") && line.contains("\"-y\"")) {
                let words = line.split('"').skip(1).step_by(2).collect::<Vec<_>>().join(" ");
                assert!(!start(&format!("npx {words}")).is_unpinned(), "{line}");
                seen += 1;
            }
        }
        assert!(seen >= 2, "{seen}");
    }
}
