//! `memory`, and `#` and `/memory` in a chat: lines that a person wants every prompt to have, in the file that
//! `[prompt] memory` names.

use std::fs::{self, OpenOptions};
use std::io::{ErrorKind, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Component, Path, PathBuf};

use bob_config::{Config, sanitise};
use rustix::fs::OFlags;
use serde_json::json;

use crate::arguments::MemoryArgs;
use crate::exit::{Exit, Failure};
use crate::terminal::print;

/// The longest line, bytes.
const MAX_LINE_BYTES: usize = 1024;

/// The largest file, bytes: a prompt has no more of it.
const MAX_FILE_BYTES: usize = 16 * 1024;

pub(crate) struct Memory {
    /// The file's name in a folder; empty: there is none.
    name: String,
    folder: PathBuf,
}

impl Memory {
    pub(crate) fn of(config: &Config) -> Self {
        Self { name: config.prompt.memory.clone(), folder: config.folder.clone() }
    }

    /// The file of a session in this folder: the one that its prompts have, or the one to be made.
    /// Errors: when the configuration names none, or one that is not below its folder.
    fn file(&self, working: &Path) -> Result<PathBuf, Failure> {
        if self.name.is_empty() {
            return Err(Failure::usage("there is no memory: prompt.memory is empty in the configuration"));
        }
        let is_below = Path::new(&self.name).components().all(|part| matches!(part, Component::Normal(_)));
        if !is_below {
            return Err(Failure::usage(format!("prompt.memory is {:?}; name a file below the folder", self.name)));
        }
        let own = working.join(&self.name);
        let of_configuration = self.folder.join(&self.name);
        let is_there = |file: &Path| file.symlink_metadata().is_ok();
        Ok(if !is_there(&own) && is_there(&of_configuration) { of_configuration } else { own })
    }

    /// What the file of a session in this folder has, and where it is; empty if there is none.
    pub(crate) fn read(&self, working: &Path) -> Result<(PathBuf, String), Failure> {
        let file = self.file(working)?;
        let mut text = String::new();
        match open(&file, false) {
            Ok(opened) => {
                let read = opened.take(MAX_FILE_BYTES as u64 * 64).read_to_string(&mut text);
                read.map_err(|error| refused(&file, &error))?;
            }
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            Err(error) => return Err(refused(&file, &error)),
        }
        Ok((file, text))
    }

    /// Adds a line, and returns the file. Blocks on the disk. Errors: when the text is empty, too long or of several
    /// lines, when the file would be larger than a prompt takes, and when it is a link or cannot be written.
    pub(crate) fn add(&self, working: &Path, text: &str) -> Result<PathBuf, Failure> {
        let text = text.trim();
        let bytes = text.len();
        let refused_as = match () {
            () if text.is_empty() => "the line to remember is empty".to_owned(),
            () if text.contains(['\n', '\r']) => "what is remembered is one line; call it once for each".to_owned(),
            () if bytes > MAX_LINE_BYTES => {
                format!("the line has {bytes} bytes; the memory takes {MAX_LINE_BYTES} of one")
            }
            () => String::new(),
        };
        if !refused_as.is_empty() {
            return Err(Failure::usage(refused_as));
        }
        let text = sanitise::clean(text);
        let (file, there) = self.read(working)?;
        let begin = if there.is_empty() || there.ends_with('\n') { "" } else { "\n" };
        let line = format!("{begin}- {text}\n");
        let bytes = there.len() + line.len();
        if bytes > MAX_FILE_BYTES {
            return Err(Failure::usage(format!(
                "{} would have {bytes} bytes, and a prompt takes {MAX_FILE_BYTES} of it; remove something first",
                file.display()
            )));
        }
        if let Some(folder) = file.parent() {
            fs::create_dir_all(folder).map_err(|error| refused(&file, &error))?;
        }
        let written = open(&file, true).and_then(|mut file| file.write_all(line.as_bytes()));
        written.map_err(|error| refused(&file, &error))?;
        Ok(file)
    }

    /// Adds a line, and says which one and where.
    pub(crate) fn remember(&self, working: &Path, text: &str) -> Result<PathBuf, Failure> {
        let file = self.add(working, text)?;
        print::note(&format!("added to {}: - {}", file.display(), text.trim()));
        Ok(file)
    }
}

/// Opens the file, never a link and never waiting for a pipe.
fn open(file: &Path, to_add: bool) -> std::io::Result<fs::File> {
    let flags = (OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY).bits().cast_signed();
    let opened = OpenOptions::new().read(true).append(to_add).create(to_add).custom_flags(flags).open(file)?;
    match opened.metadata()?.is_file() {
        true => Ok(opened),
        false => Err(std::io::Error::other("it is not a regular file")),
    }
}

fn refused(file: &Path, error: &std::io::Error) -> Failure {
    Failure::usage(format!("cannot use {}: {error}", file.display()))
}

/// `memory [TEXT]`. Errors: as [`Memory::add`] and [`Memory::read`].
pub(crate) fn memory(args: &MemoryArgs, config: &Config) -> Result<Exit, Failure> {
    let memory = Memory::of(config);
    let working = bob_config::assemble::workspace(config)?;
    let (file, text) = match args.text.is_empty() {
        true => memory.read(&working)?,
        false => {
            memory.remember(&working, &args.text.join(" "))?;
            memory.read(&working)?
        }
    };
    match (args.json, args.text.is_empty()) {
        (true, _) => print::json(&json!({ "file": file, "text": text }))?,
        (false, true) if text.is_empty() => {
            print::note(&format!("{} has nothing yet; cli-agent memory TEXT adds a line", file.display()));
        }
        (false, true) => print::text(&text)?,
        (false, false) => {}
    }
    Ok(Exit::Success)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn memory(folder: &Path, name: &str) -> Memory {
        Memory { name: name.to_owned(), folder: folder.to_owned() }
    }

    #[test]
    fn lines_are_added_where_prompts_look() {
        let scratch = tempfile::tempdir().unwrap();
        let (folder, work) = (scratch.path(), scratch.path().join("work"));
        fs::create_dir(&work).unwrap();
        let memory = memory(folder, "MEMORY.md");
        assert_eq!(memory.add(&work, " tea, not coffee ").unwrap(), work.join("MEMORY.md"));
        fs::write(work.join("MEMORY.md"), "- without an end").unwrap();
        memory.add(&work, "second").unwrap();
        assert_eq!(memory.read(&work).unwrap().1, "- without an end\n- second\n");
        fs::rename(work.join("MEMORY.md"), folder.join("MEMORY.md")).unwrap();
        assert_eq!(memory.add(&work, "third").unwrap(), folder.join("MEMORY.md"), "the one that is there");
    }

    #[test]
    fn what_is_no_line_or_leads_elsewhere_is_refused() {
        let scratch = tempfile::tempdir().unwrap();
        let folder = scratch.path();
        for text in ["", "  ", "two\nlines", &"x".repeat(MAX_LINE_BYTES + 1)] {
            assert!(memory(folder, "MEMORY.md").add(folder, text).is_err(), "{text:?}");
        }
        for name in ["", "../MEMORY.md", "/tmp/MEMORY.md"] {
            assert!(memory(folder, name).add(folder, "x").is_err(), "{name:?}");
        }
        std::os::unix::fs::symlink(folder.join("other"), folder.join("MEMORY.md")).unwrap();
        assert!(memory(folder, "MEMORY.md").add(folder, "x").is_err());
        assert!(!folder.join("other").exists());
        fs::write(folder.join("full.md"), "x".repeat(MAX_FILE_BYTES)).unwrap();
        let refused = memory(folder, "full.md").add(folder, "x").unwrap_err();
        assert!(refused.to_string().contains("remove something first"), "{refused}");
    }
}
