//! Checks the files of one folder: which exist, whether they changed, and their contents.
//!
//! Each name is opened beneath an open folder, so that neither `..`, nor a link, nor a concurrent swap leads out.

use super::PromptFiles;
use bob_messages::error::AgentError;
use bob_messages::turn_config::PromptLayers;
use cap_std::ambient_authority;
use cap_std::fs::{Dir, File, MetadataExt, OpenOptions, OpenOptionsExt};
use rustix::fs::OFlags;
use rustix::io::Errno;
use std::io::{self, ErrorKind, Read};
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

/// The most one file may have, bytes. A prompt shows less of it; more is a mistake.
const MAX_FILE_BYTES: u64 = 1 << 20;

/// The contents of one folder's files.
#[derive(Debug, Clone)]
pub(super) struct Look {
    /// One for each name that was looked up, `None` where there is nothing.
    stamps: Vec<Option<Stamp>>,
    /// All layers.
    pub(super) layers: Arc<PromptLayers>,
    /// How large they are.
    pub(super) bytes: usize,
}

/// Metadata that shows whether a file changed.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Stamp {
    path: PathBuf,
    inode: u64,
    bytes: u64,
    /// Seconds and nanoseconds of its last change, of its content and of itself.
    changed: (i64, i64, i64, i64),
}

/// A file that is there.
struct Found {
    key: &'static str,
    file: File,
    stamp: Stamp,
}

/// A folder files are looked up in.
struct Root {
    dir: Dir,
    path: PathBuf,
}

/// Looks up all names; reads them only if something differs from `known`.
pub(super) fn look(files: &PromptFiles, folder: &Path, known: Option<Look>) -> Result<Look, AgentError> {
    let mut roots: Vec<Root> = Vec::with_capacity(2);
    for path in [folder, &files.folder] {
        roots.extend(open_root(path)?.filter(|root| roots.iter().all(|known| known.path != root.path)));
    }
    let named = files.named.iter().map(|name| ("prompt.files", name));
    let used_when_there = [("prompt.memory", &files.memory), ("prompt.tool_notes", &files.tool_notes)];
    let mut found = Vec::with_capacity(files.named.len() + 2);
    for (key, name) in named.chain(used_when_there) {
        let file = if name.is_empty() { None } else { find(&roots, key, name)? };
        if file.is_none() && key == "prompt.files" {
            return Err(missing(files, folder, name));
        }
        found.push(file);
    }
    let stamps: Vec<_> = found.iter().map(|found| found.as_ref().map(|found| found.stamp.clone())).collect();
    if let Some(known) = known.filter(|known| known.stamps == stamps) {
        return Ok(known);
    }
    let layers = compose(files, folder, found)?;
    let bytes = [&layers.instructions, &layers.memory, &layers.tool_notes].into_iter().map(String::len).sum();
    Ok(Look { stamps, layers: Arc::new(layers), bytes })
}

fn compose(files: &PromptFiles, folder: &Path, found: Vec<Option<Found>>) -> Result<PromptLayers, AgentError> {
    let mut texts = Vec::with_capacity(found.len());
    for found in found {
        texts.push(found.map(text).transpose()?.unwrap_or_default());
    }
    let mut layers = files.texts.clone();
    layers.tool_notes = texts.pop().unwrap_or_default();
    layers.memory = texts.pop().unwrap_or_default();
    for text in texts {
        paragraph(&mut layers.instructions, "\n\n", text.trim_end());
    }
    let folder = folder.to_string_lossy().escape_debug().to_string();
    paragraph(&mut layers.runtime_policy, "\n", &format!("Your working folder is {folder}"));
    Ok(layers)
}

fn paragraph(text: &mut String, gap: &str, more: &str) {
    if !text.is_empty() {
        text.push_str(gap);
    }
    text.push_str(more);
}

/// Opens a folder; `None` when it is not there.
fn open_root(path: &Path) -> Result<Option<Root>, AgentError> {
    // The configuration's folder is the empty path when its file was named without one.
    let path = if path.as_os_str().is_empty() { Path::new(".") } else { path };
    let opened = path.canonicalize().and_then(|path| {
        let dir = Dir::open_ambient_dir(&path, ambient_authority())?;
        Ok(Root { dir, path })
    });
    match opened {
        Ok(root) => Ok(Some(root)),
        Err(error) if is_missing(&error) => Ok(None),
        Err(error) => {
            let text = format!("the folder {} of the prompt's files cannot be opened: {error}", path.display());
            Err(refusal(&error, text))
        }
    }
}

/// The file of this name in the first folder that has one.
fn find(roots: &[Root], key: &'static str, name: &str) -> Result<Option<Found>, AgentError> {
    let mut is_inside = false;
    for root in roots {
        let Some(relative) = beneath(name, &root.path) else { continue };
        is_inside = true;
        let path = root.path.join(&relative);
        match open(root, &relative) {
            Ok((file, stamp)) => return Ok(Some(Found { key, file, stamp: Stamp { path, ..stamp } })),
            Err(error) if is_missing(&error) => {}
            // Errors of the system have an error number; those of the confined lookup do not.
            Err(error) if error.kind() == ErrorKind::PermissionDenied && error.raw_os_error().is_none() => {
                let text = format!("{name:?} leads outside of {}; put the file itself there", root.path.display());
                return Err(AgentError::Invalid(format!("{key}: {text}")));
            }
            Err(error) => {
                return Err(refusal(&error, format!("{key}: cannot open {}: {error}", path.display())));
            }
        }
    }
    match is_inside || roots.is_empty() {
        true => Ok(None),
        false => {
            let folders: Vec<_> = roots.iter().map(|root| root.path.display().to_string()).collect();
            let text = format!("{name:?} is outside of {}; name a file inside it", folders.join(" and "));
            Err(AgentError::Invalid(format!("{key}: {text}")))
        }
    }
}

/// A name as it is looked up beneath a folder; `None` for a full name of something elsewhere.
fn beneath(name: &str, folder: &Path) -> Option<PathBuf> {
    let name = Path::new(name);
    let relative = if name.is_absolute() { name.strip_prefix(folder).ok()? } else { name };
    Some(relative.components().filter(|part| *part != Component::CurDir).collect())
}

fn open(root: &Root, relative: &Path) -> io::Result<(File, Stamp)> {
    let mut options = OpenOptions::new();
    // Opening never waits for the other end of a pipe.
    options.read(true).custom_flags((OFlags::NONBLOCK | OFlags::NOCTTY).bits().cast_signed());
    let file = root.dir.open_with(relative, &options)?;
    let about = file.metadata()?;
    if !about.is_file() {
        return Err(io::Error::other("it is not a regular file"));
    }
    let changed = (about.mtime(), about.mtime_nsec(), about.ctime(), about.ctime_nsec());
    Ok((file, Stamp { path: PathBuf::new(), inode: about.ino(), bytes: about.size(), changed }))
}

fn text(found: Found) -> Result<String, AgentError> {
    let Found { key, file, stamp } = found;
    let mut text = String::new();
    let read = file.take(MAX_FILE_BYTES + 1).read_to_string(&mut text);
    let why = match read {
        Ok(bytes) if bytes as u64 <= MAX_FILE_BYTES => return Ok(text),
        Ok(_) => format!("it is larger than {MAX_FILE_BYTES} bytes"),
        Err(error) if error.kind() == ErrorKind::InvalidData => "it is not text in UTF-8".to_owned(),
        Err(error) => error.to_string(),
    };
    Err(AgentError::Invalid(format!("{key}: cannot read {}: {why}", stamp.path.display())))
}

fn missing(files: &PromptFiles, folder: &Path, name: &str) -> AgentError {
    let places = [folder.join(name), files.folder.join(name)].map(|path| path.display().to_string());
    let places = if places[0] == places[1] { places[0].clone() } else { places.join(" or ") };
    AgentError::Invalid(format!("prompt.files names {name:?}, and there is no {places}"))
}

/// A machine without descriptors is no fault of a file.
fn refusal(error: &io::Error, text: String) -> AgentError {
    match Errno::from_io_error(error) {
        Some(Errno::MFILE | Errno::NFILE) => AgentError::Overloaded(text),
        _ => AgentError::Invalid(text),
    }
}

fn is_missing(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory)
}
