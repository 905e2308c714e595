//! `@path` in a message: the file goes with it. A word that is no file stays a word.

use std::fs;
use std::path::{Path, PathBuf};

/// How many files a message takes.
const MOST_FILES: usize = 20;

/// How many files are offered as completions, and how many entries of a folder are looked at for them.
const MOST_OFFERED: usize = 200;
const MOST_LOOKED_AT: usize = 10_000;

/// Punctuation that may follow a path in a sentence.
const ENDS: &[char] = &['.', ',', ';', ':', '!', '?', ')', ']', '"', '\''];

/// The names of images that go with a message when their full path stands in it: a terminal pastes the path of a file that
/// is dropped on it.
const IMAGES: [&str; 5] = ["png", "jpg", "jpeg", "gif", "webp"];

/// Whether a line that begins with a slash begins with the full path of an image.
pub(super) fn begins_with_image(line: &str) -> bool {
    line.split_whitespace().next().is_some_and(|word| image(word).is_some_and(|path| Path::new(path).is_file()))
}

/// The word, if it is the full path of an image.
fn image(word: &str) -> Option<&str> {
    let word = word.trim_matches(['\'', '"']);
    let kind = Path::new(word).extension()?.to_str()?.to_lowercase();
    (word.starts_with('/') && IMAGES.contains(&kind.as_str())).then_some(word)
}

/// The files that a message names, each once, in order: those behind an `@`, and full paths of images. Relative paths begin in
/// `folder`.
pub(super) fn files(text: &str, folder: &Path) -> Vec<PathBuf> {
    let mut files: Vec<PathBuf> = Vec::new();
    let named = |word| str::strip_prefix(str::trim_start_matches(word, ['(', '[', '"']), '@').or_else(|| image(word));
    for word in text.split_whitespace().filter_map(named) {
        let whole = [word, word.trim_end_matches(ENDS)].into_iter().map(|word| folder.join(word));
        let file = whole.into_iter().find(|path| path.is_file());
        files.extend(file.filter(|file| !files.contains(file)));
        if files.len() == MOST_FILES {
            break;
        }
    }
    files
}

/// The paths that complete this word without its `@`, folders with a slash. Hidden files need their dot.
pub(super) fn completions(word: &str, folder: &Path) -> Vec<String> {
    let (parent, begins) =
        word.rsplit_once('/').map_or(("", word), |(parent, begins)| (&word[..=parent.len()], begins));
    let Ok(entries) = fs::read_dir(folder.join(parent)) else { return Vec::new() };
    let fits = entries.take(MOST_LOOKED_AT).flatten().filter_map(|entry| {
        let name = entry.file_name().into_string().ok()?;
        let is_wanted = name.starts_with(begins) && (begins.starts_with('.') || !name.starts_with('.'));
        // A blank ends the word.
        (is_wanted && !name.contains(char::is_whitespace)).then(|| {
            let is_folder = entry.path().is_dir();
            format!("{parent}{name}{}", if is_folder { "/" } else { "" })
        })
    });
    let mut fits: Vec<String> = fits.take(MOST_OFFERED).collect();
    fits.sort_unstable();
    fits
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_found_in_a_sentence_and_completed() {
        let scratch = tempfile::tempdir().unwrap();
        let folder = scratch.path();
        fs::create_dir(folder.join("src")).unwrap();
        for name in ["notes.txt", "src/main.rs", "src/map.rs", ".env", "a b"] {
            fs::write(folder.join(name), "x").unwrap();
        }
        let found = files("Compare @notes.txt, (@src/main.rs) and @notes.txt with ada@src/main.rs @gone.", folder);
        assert_eq!(found, [folder.join("notes.txt"), folder.join("src/main.rs")]);
        assert_eq!(files("@src is a folder", folder), [] as [PathBuf; 0]);
        let image = folder.join("shot.PNG");
        fs::write(&image, "x").unwrap();
        let pasted = format!("'{}' what is this, and {}/notes.txt?", image.display(), folder.display());
        assert_eq!(files(&pasted, folder), std::slice::from_ref(&image));
        assert!(begins_with_image(&format!("{} what?", image.display())) && !begins_with_image("/gone.png /help"));
        assert_eq!(completions("", folder), ["notes.txt", "shot.PNG", "src/"]);
        assert_eq!(completions("src/ma", folder), ["src/main.rs", "src/map.rs"]);
        assert_eq!((completions(".e", folder), completions("none/x", folder)), (vec![".env".to_owned()], vec![]));
    }
}
