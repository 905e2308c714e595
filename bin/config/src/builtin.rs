//! What holds where no file says anything: a model for which there is a key, else a small one on this machine.

use std::fs::{self, DirBuilder, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::Path;

use super::files::Files;
use super::layers::Environment;
use super::tree::{self, Table};

/// The model of each key, the first of them that is set counts.
const MODELS: [(&str, &str); 8] = [
    ("ANTHROPIC_API_KEY", "anthropic:claude-sonnet-4-5"),
    ("OPENAI_API_KEY", "openai:gpt-4.1"),
    ("GEMINI_API_KEY", "gemini:gemini-2.5-pro"),
    ("XAI_API_KEY", "xai:grok-4"),
    ("DEEPSEEK_API_KEY", "deepseek:deepseek-chat"),
    ("MISTRAL_API_KEY", "mistral:mistral-large-latest"),
    ("MOONSHOT_API_KEY", "moonshot:kimi-k2-0905-preview"),
    ("GROQ_API_KEY", "groq:llama-3.3-70b-versatile"),
];

/// The model on this machine.
const LOCAL: &str = "local:smollm2-135m";

/// What starts the model on this machine, as it is kept for programs without a copy of the repository.
const SCRIPTS: [(&str, &str); 4] = [
    ("local-model.sh", include_str!("../files/local-model.sh")),
    ("local_model.py", include_str!("../files/local_model.py")),
    ("local_model_install.py", include_str!("../files/local_model_install.py")),
    ("local-model-tools.jinja", include_str!("../files/local-model-tools.jinja")),
];

/// The document of the defaults for what these layers leave open; empty when they say enough. A file that was named
/// chooses its model itself.
pub(super) fn text(root: &Table<'_>, environment: &Environment, files: &Files) -> String {
    let cache = files.cache.as_deref();
    let named = tree::get(root, "runtime.default_model").map(|model| tree::text(model).unwrap_or_default());
    let has_local = tree::get(root, "providers.local").is_some();
    let is_set = |name: &str| matches!(environment.get(name), Some(Ok(key)) if !key.trim().is_empty());
    let keyed = MODELS.iter().find(|(variable, _)| is_set(variable)).map(|(_, model)| *model);
    let (model, is_chosen) = match (named, keyed) {
        (Some(named), _) => (named, false),
        (None, _) if files.is_named => return String::new(),
        (None, Some(model)) => (model, true),
        (None, None) if cache.is_some() => (LOCAL, true),
        (None, None) => return String::new(),
    };
    let mut text = if is_chosen { format!("runtime.default_model = {}\n", tree::quoted(model)) } else { String::new() };
    if let (true, false, Some(cache)) = (model.starts_with("local:"), has_local, cache) {
        let script = cache.join("scripts").join(SCRIPTS[0].0);
        text.push_str(&local(&tree::quoted(&script.to_string_lossy())));
    }
    // A tiny model copes with a few tools and a few words only.
    if is_chosen && model == LOCAL {
        text.push_str(FOR_A_TINY_MODEL);
    }
    text
}

fn local(script: &str) -> String {
    format!(
        "[providers.local]\n\
         kind = \"openai\"\n\
         base_url = \"http://127.0.0.1:8091/v1/\"\n\
         api_key = \"none\"\n\
         timeout_ms = 120000\n\
         max_concurrent = 1\n\
         temperature = 0.0\n\
         max_tokens = 128\n\
         capabilities = {{ native_tools = true, json_schema = true, system_role = true, context_tokens = 8192 }}\n\
         [providers.local.start]\n\
         command = \"sh\"\n\
         args = [{script}, \"--port\", \"{{port}}\"]\n\
         ready_timeout_ms = 180000\n\
         inherit_env = [\"PIP_*\", \"SSL_CERT_FILE\", \"SSL_CERT_DIR\"]\n"
    )
}

const FOR_A_TINY_MODEL: &str = "[policy]\n\
    allow_tools = [\"local/read_file\", \"local/search_files\", \"local/list_dir\"]\n\
    [prompt]\n\
    instructions = \"You are a helpful assistant. Use a tool when the question is about files. Answer in one short \
    sentence.\"\n";

/// Writes the scripts of the model on this machine below this folder, if they are not there as they should be. Blocks.
/// Errors: when the folder or a file cannot be written.
pub(super) fn write_scripts(cache: &Path) -> io::Result<()> {
    let folder = cache.join("scripts");
    DirBuilder::new().recursive(true).mode(0o700).create(&folder)?;
    for (name, text) in SCRIPTS {
        let file = folder.join(name);
        if fs::read_to_string(&file).is_ok_and(|written| written == text) {
            continue;
        }
        // Replaced in one step: another process may start it now.
        let beside = folder.join(format!("{name}.{}.new", std::process::id()));
        let mut opened = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&beside)?;
        opened.write_all(text.as_bytes())?;
        fs::rename(&beside, &file)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Config, Overrides, parse};
    use bob::model::providers::KNOWN;

    fn found(cache: &str) -> Files {
        Files { cache: Some(cache.into()), ..Files::default() }
    }

    #[test]
    fn the_model_on_this_machine_is_the_one_that_ships() {
        let nothing = Environment::default();
        let (root, _) = tree::parse("");
        let text = text(&root, &nothing, &found("/cache"));
        let read = |text: &str| {
            parse(text, Path::new("agent.toml"), &nothing, &Overrides::default()).unwrap_or_else(|why| panic!("{why}"))
        };
        let (built_in, shipped) = (read(&text), read(Config::example()));
        assert_eq!(built_in.runtime.default_model, shipped.runtime.default_model);
        let provider = |config: &Config| {
            let mut provider = config.providers["local"].clone();
            let start = provider.start.as_mut().expect("it is started");
            start.args = start.args.iter().map(|arg| arg.replace("/cache/", "")).collect();
            format!("{provider:?}")
        };
        assert_eq!(provider(&built_in), provider(&shipped));
        assert_eq!(built_in.prompt.instructions, shipped.prompt.instructions);
    }

    #[test]
    fn a_key_chooses_the_model_of_its_provider() {
        let (root, _) = tree::parse("");
        for (variable, model) in MODELS {
            let text = text(&root, &Environment::from([(variable, "k")]), &found("/cache"));
            assert_eq!(text, format!("runtime.default_model = \"{model}\"\n"), "nothing but the model");
            let provider = model.split(':').next();
            let known = KNOWN.iter().find(|known| Some(known.name) == provider).expect("it is built in");
            assert_eq!(known.key_variable, Some(variable));
        }
        let both = Environment::from([("OPENAI_API_KEY", "k"), ("ANTHROPIC_API_KEY", " ")]);
        assert!(text(&root, &both, &Files::default()).contains("openai:"), "an empty key is none");
        let (named, _) = tree::parse("runtime.default_model = 'a:b'");
        assert_eq!(text(&named, &both, &Files::default()), "", "a file has chosen");
        assert_eq!(text(&root, &both, &Files::named("x.toml")), "", "and one that was named should");
    }

    #[test]
    fn the_scripts_are_written_once_and_repaired() {
        let cache = tempfile::tempdir().unwrap();
        let script = cache.path().join("scripts/local-model.sh");
        write_scripts(cache.path()).unwrap();
        fs::write(&script, "broken").unwrap();
        write_scripts(cache.path()).unwrap();
        assert_eq!(fs::read_to_string(script).unwrap(), SCRIPTS[0].1);
        assert_eq!(fs::read_dir(cache.path().join("scripts")).unwrap().count(), SCRIPTS.len());
    }
}
