//! Reading: the files, and what the user's own one does by itself. [`super::merged`] has the order of the layers.

use std::fs::File;
use std::io::Read as _;
use std::path::Path;

use super::files::Files;
use super::layers::{Environment, Overrides};
use super::merged::Merged;
use super::{Config, ConfigError, Privilege};

/// The largest configuration file that is read, bytes. A real one has a few thousand.
pub const MAX_FILE_BYTES: usize = 1 << 20;

/// Reads one configuration file and applies environment and command line. A value that a higher layer replaces is not
/// checked.
///
/// # Errors
/// Returns all errors at once; see [`ConfigError::render`]. A configuration with any error is rejected.
pub fn load(file: &Path, environment: &Environment, overrides: &Overrides) -> Result<Config, ConfigError> {
    load_all(&Files::named(file), environment, overrides)
}

/// Reads all files of a configuration, the user's below the project's. Where no file chooses a model, built-in defaults
/// do, unless the file was named.
///
/// # Errors
/// As [`load`]; each error names its file.
pub fn load_all(files: &Files, environment: &Environment, overrides: &Overrides) -> Result<Config, ConfigError> {
    // The pipe of `--config <(…)` has a writer.
    let read = if files.is_named { text_in } else { text_of };
    let texts = files.all().map(|file| Ok((file, read(file)?))).collect::<Result<Vec<_>, ConfigError>>()?;
    // The lowest first.
    let texts: Vec<(&Path, &str)> = texts.iter().rev().map(|(file, text)| (*file, text.as_str())).collect();
    let config = parse_all(files, &texts, environment, overrides)?;
    Ok(match (files.needs_trust(), files.user.as_deref()) {
        (true, Some(user)) => with_own(config, user, &texts, environment),
        _ => config,
    })
}

/// The text of a file.
///
/// # Errors
/// When it cannot be read, is no regular file, is too large or not UTF-8.
pub fn text_of(file: &Path) -> Result<String, ConfigError> {
    // Looked at before it is opened, since opening a pipe waits for a writer.
    if std::fs::metadata(file).is_ok_and(|found| !found.is_file() && !found.is_dir()) {
        return Err(ConfigError::of_file(file, "the configuration is not a regular file".to_owned(), None));
    }
    text_in(file)
}

fn text_in(file: &Path) -> Result<String, ConfigError> {
    let refuse = |message: String, help: Option<&str>| ConfigError::of_file(file, message, help.map(str::to_owned));
    let mut bytes = Vec::new();
    let read = File::open(file).and_then(|opened| opened.take(MAX_FILE_BYTES as u64 + 1).read_to_end(&mut bytes));
    if let Err(error) = read {
        let help = match error.kind() {
            std::io::ErrorKind::NotFound => Some("write one with `cli-agent init`, or name another with --config FILE"),
            std::io::ErrorKind::IsADirectory => Some("name the file in it: --config FILE"),
            _ => None,
        };
        return Err(refuse(format!("cannot read the configuration: {error}"), help));
    }
    if bytes.len() > MAX_FILE_BYTES {
        return Err(refuse(format!("the configuration is larger than {MAX_FILE_BYTES} bytes"), None));
    }
    String::from_utf8(bytes).map_err(|error| {
        let valid = error.as_bytes().get(..error.utf8_error().valid_up_to()).unwrap_or_default();
        let line = valid.iter().filter(|&&byte| byte == b'\n').count() + 1;
        refuse(format!("the configuration is not valid UTF-8 in line {line}"), Some("save it as UTF-8"))
    })
}

/// Notes what the user's own file does, for which no other needs trust.
fn with_own(mut config: Config, user: &Path, texts: &[(&Path, &str)], environment: &Environment) -> Config {
    let overrides = Overrides { model: Some(config.runtime.default_model.clone()), ..Overrides::default() };
    let files = Files { main: None, ..config.source.files.clone() };
    let own: Vec<(&Path, &str)> = texts.iter().filter(|(file, _)| *file == user).copied().collect();
    // A file that is only good together with the project's does nothing by itself.
    if let Ok(mut own) = parse_all(&files, &own, environment, &overrides) {
        own.folder.clone_from(&config.folder);
        config.source.own = own.privileges().iter().map(Privilege::text).collect();
    }
    config
}

/// Reads a configuration from a text; `file` is the base of relative paths and the name in error messages.
///
/// # Errors
/// As [`load`].
pub fn parse(text: &str, file: &Path, environment: &Environment, overrides: &Overrides) -> Result<Config, ConfigError> {
    parse_all(&Files::named(file), &[(file, text)], environment, overrides)
}

fn parse_all(
    files: &Files,
    texts: &[(&Path, &str)],
    environment: &Environment,
    overrides: &Overrides,
) -> Result<Config, ConfigError> {
    if let Some((file, _)) = texts.iter().find(|(_, text)| text.len() > MAX_FILE_BYTES) {
        let message = format!("the configuration is larger than {MAX_FILE_BYTES} bytes");
        return Err(ConfigError::of_file(file, message, None));
    }
    let texts: Vec<(&Path, &str)> =
        texts.iter().map(|(file, text)| (*file, text.strip_prefix('\u{feff}').unwrap_or(text))).collect();
    let read = || Merged::of(&texts, files, environment, overrides, |merged| merged.config(files, environment));
    if texts.iter().map(|(_, text)| text.matches('.').count()).sum::<usize>() < SHALLOW {
        return read();
    }
    // Each part of a key is a level of the tree, and a tree is walked and dropped level by level.
    std::thread::scope(|scope| {
        let thread = std::thread::Builder::new().stack_size(DEEP_STACK).spawn_scoped(scope, read);
        match thread.map(std::thread::ScopedJoinHandle::join) {
            Ok(Ok(result)) => result,
            Ok(Err(panic)) => std::panic::resume_unwind(panic),
            Err(error) => {
                Err(ConfigError::of_file(files.first(), format!("cannot read the configuration: {error}"), None))
            }
        }
    })
}

/// A text with fewer dots is less deep than any stack.
const SHALLOW: usize = 500;

/// The parser takes 80 tables in one another, each under a key of 80 parts: that many levels fit into this many bytes.
const DEEP_STACK: usize = 64 << 20;
