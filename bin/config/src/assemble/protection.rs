//! Protected files: those that govern the agent, and the agent's own.

use std::path::{Path, PathBuf};

use bob::config::PROJECT_FILES;
use bob::tools::{Protection, Sandbox};

use crate::{Config, SourceKind, StoreKind};

/// Returns the protected files. `private` are the agent's files outside the folder: lasting decisions and trust.
pub fn protection(config: &Config, private: Vec<PathBuf>) -> Protection {
    let absolute = |path: PathBuf| std::path::absolute(&path).unwrap_or(path);
    // A program of the folder that is started, or the script passed to an interpreter, has the power of the configuration. One
    // that is not there yet may be built by the agent, and runs at the next start.
    let programs = |folder: &Path, command: Option<&String>, args: &[String]| -> Vec<PathBuf> {
        let command = command.map(|word| (word, word.contains('/')));
        let args = args.iter().map(|word| (word, Path::new(word).extension().is_some()));
        let words = command.into_iter().chain(args).map(|(word, may_come)| (folder.join(word), may_come));
        words.filter(|(path, may_come)| path.is_file() || *may_come && !path.exists()).map(|(path, _)| path).collect()
    };
    let starts = config.providers.iter().filter_map(|(name, provider)| Some((name, provider.start.as_ref()?)));
    let starts =
        starts.flat_map(|(name, start)| programs(config.folder_of_provider(name), Some(&start.command), &start.args));
    let servers = config.mcp.servers.iter();
    let servers =
        servers.flat_map(|server| programs(config.folder_of_servers(), server.command.as_ref(), &server.args));
    let hooks = config.hooks.iter();
    let hooks = hooks.flat_map(|(name, hook)| programs(config.folder_of_hook(name), Some(&hook.command), &hook.args));
    let scripts = config.providers.values().filter_map(|provider| provider.script.as_ref());
    let scripts = scripts.map(|word| config.resolve(word)).filter(|path| path.is_file());
    let programs = starts.chain(servers).chain(hooks).chain(scripts);
    // A relative folder of skills is looked up in the session's folder, too.
    let folders = config.skills.sources.iter().filter(|source| source.kind == SourceKind::Directory);
    let folders = folders.filter_map(|source| source.path.as_ref());
    let mirrors = config.files().state.iter().map(|state| absolute(state.join("skills")));
    let skills = folders.flat_map(|path| [PathBuf::from(path), absolute(config.resolve(path))]).chain(mirrors);
    let prompt = &config.prompt;
    let names = prompt.files.iter().flatten().chain([&prompt.memory, &prompt.tool_notes]);
    // They are read where no list says otherwise, perhaps by another session.
    let names: Vec<String> =
        names.cloned().chain(PROJECT_FILES.map(str::to_owned)).filter(|name| !name.is_empty()).collect();
    // They are looked up in the configuration's folder, too.
    let beside = names.iter().map(|name| absolute(config.resolve(name)));
    let governing = std::iter::once(config.file.clone())
        .chain(config.files().user.clone())
        .chain(programs)
        .map(absolute)
        .chain(skills)
        .chain(beside)
        .collect();
    // What can be made again governs, too: programs of the local model, and the prices by which `max_cost` counts.
    let own = store_files(config).into_iter().chain(config.files().cache.clone());
    Protection {
        governing,
        governing_names: names,
        private: own.map(absolute).chain(private).collect(),
        secret_files: config.policy.secret_files.clone(),
        sandbox: sandbox(config),
        shell_env: config.policy.shell_env.clone(),
    }
}

/// What commands of the shell are confined to.
pub fn sandbox(config: &Config) -> Sandbox {
    let policy = &config.policy;
    Sandbox {
        mode: policy.sandbox,
        network: policy.sandbox_network,
        folders: policy.sandbox_folders.iter().map(|folder| config.resolve(folder)).collect(),
    }
}

/// The store, and the input history that is, or was, kept beside it.
fn store_files(config: &Config) -> Vec<PathBuf> {
    let Some(store) = config.store_path() else {
        return config.beside_store().map(|folder| folder.join("chat_history")).into_iter().collect();
    };
    match config.store.kind {
        StoreKind::Memory | StoreKind::Json | StoreKind::Postgres => vec![store],
        StoreKind::Sqlite => {
            let beside = |what: &str| {
                let mut name = store.file_name().unwrap_or_default().to_owned();
                name.push(what);
                store.with_file_name(name)
            };
            vec![store.with_file_name("chat_history"), beside("-artifacts"), beside("-inbox"), store]
        }
    }
}
