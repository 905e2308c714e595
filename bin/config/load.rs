//! The order of reading: the file, the layers above it, variables, checks, conversion; complaints of all of them at once.

use std::fs::File;
use std::io::Read;
use std::ops::Range;
use std::path::{Path, PathBuf};

use toml_spanner::{Arena, FromToml};

use super::layers::{self, Environment, Layers, Overrides};
use super::problem::Findings;
use super::{Config, ConfigError, check, convert, interpolate, secret};

/// The largest configuration file that is read, bytes. A real one has a few thousand.
pub const MAX_FILE_BYTES: usize = 1 << 20;

/// Reads the configuration file and lays environment and command line over it. A value that a higher layer replaces is
/// as if it had not been written, and is not checked.
///
/// # Errors
/// Everything that is wrong with it, at once; see [`ConfigError::render`]. A configuration with one fault is not used.
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

/// Reads a configuration from a text; `file` says where relative paths start and what complaints call it.
///
/// # Errors
/// As [`load`].
pub fn parse(text: &str, file: &Path, environment: &Environment, overrides: &Overrides) -> Result<Config, ConfigError> {
    if text.len() > MAX_FILE_BYTES {
        let message = format!("the configuration is larger than {MAX_FILE_BYTES} bytes");
        return Err(ConfigError::of_file(file, message, None));
    }
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let mut findings = Findings::default();
    let layers = Layers::above(text.len(), environment, overrides, &mut findings);
    let arena = Arena::new();

    let source = |span: Range<usize>| {
        let texts = [text, &layers.environment, &layers.options];
        let part = texts.into_iter().find(|text| span.end <= text.len()).and_then(|text| text.get(span));
        part.unwrap_or_default().to_owned()
    };

    let mut document = toml_spanner::parse_recoverable(text, &arena);
    // The tree leaves its document, so the errors go on in the context of an empty one. The tree is moved, never copied:
    // copying recurses, and a hostile file can be deeper than the stack.
    let mut context = toml_spanner::parse_recoverable("", &arena).ctx;
    context.errors.append(&mut document.ctx.errors);
    let is_broken = !context.errors.is_empty();
    let mut root = document.into_table();
    let broken: Vec<usize> = context.errors.iter().map(|error| error.span().range().start).collect();
    let masked = secret::masked(text, &root, &broken);
    convert::take_errors(&mut context, &root, &source, is_broken, &mut findings);
    for layer in [&layers.environment, &layers.options] {
        let mut over = toml_spanner::parse_recoverable(layer, &arena);
        convert::take_errors(&mut over.ctx, &root, &source, is_broken, &mut findings);
        layers::merge(&mut root, over.into_table(), &arena);
    }

    let filled = interpolate::interpolate(&mut root, environment, &source, &arena, &mut findings);
    check::check(&root, is_broken, &mut findings);
    let config = Config::from_toml(&mut context, root.as_item());
    convert::take_errors(&mut context, &root, &source, is_broken, &mut findings);

    match config {
        Ok(mut config) if findings.count == 0 => {
            config.file = file.to_owned();
            config.folder = folder_of(file);
            config.digest = digest(text);
            config.filled = filled;
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
