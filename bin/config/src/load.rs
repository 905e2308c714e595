//! The order of reading: the file, the layers above it, variables, checks, conversion; complaints of all of them at once.

use std::fs::File;
use std::io::Read as _;
use std::ops::Range;
use std::path::{Path, PathBuf};

use super::layers::{Environment, Layers, Overrides};
use super::problem::Findings;
use super::read::{Read as _, Reader};
use super::tree::{Item, Value};
use super::{Config, ConfigError, check, interpolate, keys, profile, secret, syntax, tree};

/// The largest configuration file that is read, bytes. A real one has a few thousand.
pub const MAX_FILE_BYTES: usize = 1 << 20;

/// Reads the configuration file and applies environment and command line. A value that a higher layer replaces is not
/// checked.
///
/// # Errors
/// Returns all errors at once; see [`ConfigError::render`]. A configuration with any error is rejected.
pub fn load(file: &Path, environment: &Environment, overrides: &Overrides) -> Result<Config, ConfigError> {
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
    match String::from_utf8(bytes) {
        Ok(text) => parse(&text, file, environment, overrides),
        Err(error) => {
            let valid = error.as_bytes().get(..error.utf8_error().valid_up_to()).unwrap_or_default();
            let line = valid.iter().filter(|&&byte| byte == b'\n').count() + 1;
            Err(refuse(format!("the configuration is not valid UTF-8 in line {line}"), Some("save it as UTF-8")))
        }
    }
}

/// Reads a configuration from a text; `file` is the base of relative paths and the name in error messages.
///
/// # Errors
/// As [`load`].
pub fn parse(text: &str, file: &Path, environment: &Environment, overrides: &Overrides) -> Result<Config, ConfigError> {
    if text.len() > MAX_FILE_BYTES {
        let message = format!("the configuration is larger than {MAX_FILE_BYTES} bytes");
        return Err(ConfigError::of_file(file, message, None));
    }
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let read = || parse_bounded(text, file, environment, overrides);
    if text.matches('.').count() < SHALLOW {
        return read();
    }
    // Each part of a key is a level of the tree, and a tree is walked and dropped level by level.
    std::thread::scope(|scope| {
        let thread = std::thread::Builder::new().stack_size(DEEP_STACK).spawn_scoped(scope, read);
        match thread.map(std::thread::ScopedJoinHandle::join) {
            Ok(Ok(result)) => result,
            Ok(Err(panic)) => std::panic::resume_unwind(panic),
            Err(error) => Err(ConfigError::of_file(file, format!("cannot read the configuration: {error}"), None)),
        }
    })
}

/// A text with fewer dots is less deep than any stack.
const SHALLOW: usize = 500;

/// The parser takes 80 tables in one another, each under a key of 80 parts: that many levels fit into this many bytes.
const DEEP_STACK: usize = 64 << 20;

fn parse_bounded(
    text: &str,
    file: &Path,
    environment: &Environment,
    overrides: &Overrides,
) -> Result<Config, ConfigError> {
    let mut findings = Findings::default();
    let layers = Layers::above(text.len(), environment, overrides, &mut findings);
    let source = |span: Range<usize>| {
        let texts = [text, &layers.environment, &layers.options];
        let part = texts.into_iter().find(|text| span.end <= text.len()).and_then(|text| text.get(span));
        part.unwrap_or_default().to_owned()
    };

    let terminal = profile::terminal();
    let (mut root, errors) = tree::parse(text);
    let broken: Vec<usize> = errors.iter().map(|error| syntax::place(text, error).start).collect();
    let keys = keys::paths(Config::KEYS);
    let masked = secret::masked(text, &root, &broken, &keys);
    let is_broken = syntax::take(text, &errors, &mut findings);
    tree::drop_broken(&mut root, &tree::Faults::at(text, &broken));
    for layer in [&layers.environment, &layers.options] {
        let (over, errors) = tree::parse(layer);
        syntax::take(layer, &errors, &mut findings);
        tree::merge(&mut root, over);
    }
    profile::fill(&mut root, &terminal);

    let (filled, filled_at) = interpolate::interpolate(&mut root, environment, &source, &mut findings);
    let root = Item::new(0..text.len(), Value::Table(root));
    let config = Config::read(&root, &mut Reader::new(&mut findings, is_broken, &source, &keys));
    tree::table(&root).into_iter().for_each(|root| check::check(root, is_broken, &mut findings));

    match config {
        Some(mut config) if findings.count == 0 => {
            config.file = file.to_owned();
            config.folder = folder_of(file);
            config.digest = digest(text);
            config.filled = filled;
            config.filled_at = filled_at;
            Ok(config)
        }
        _ => Err(ConfigError::new(file, text, &masked, &layers, findings)),
    }
}

/// A hash of a configuration's text, in hex.
pub fn digest(text: &str) -> String {
    blake3::hash(text.as_bytes()).to_hex().to_string()
}

fn folder_of(file: &Path) -> PathBuf {
    match file.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder.to_owned(),
        _ => PathBuf::from("."),
    }
}
