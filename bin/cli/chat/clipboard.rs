//! Ctrl-V at the prompt: the image on the clipboard is kept in a file, whose path then stands in the message.
//!
//! A terminal passes on text alone, so the programs of the desktop are asked for the image.

use std::fs::{self, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::time::{Duration, Instant};

/// The largest image that goes with a message, bytes.
const MAX_BYTES: usize = 10 << 20;

/// How long the programs may take, all together.
const WITHIN: Duration = Duration::from_secs(2);

/// What a PNG begins with.
const PNG: &[u8] = b"\x89PNG\r\n\x1a\n";

const NO_PROGRAM: &str = "cannot read the clipboard: install wl-paste (Wayland), xclip (X11) or pngpaste (macOS), and set WAYLAND_DISPLAY or \
     DISPLAY";
const NO_IMAGE: &str = "there is no image on the clipboard";

/// A program that writes the image on the clipboard to its output.
struct Source<'a> {
    program: &'a str,
    arguments: &'a [&'a str],
    /// The variable that names its desktop.
    needs: Option<&'a str>,
}

const SOURCES: [Source<'_>; 3] = [
    Source { program: "wl-paste", arguments: &["--no-newline", "--type", "image/png"], needs: Some("WAYLAND_DISPLAY") },
    Source {
        program: "xclip",
        arguments: &["-selection", "clipboard", "-target", "image/png", "-out"],
        needs: Some("DISPLAY"),
    },
    Source { program: "pngpaste", arguments: &["-"], needs: None },
];

/// The images of a conversation, whose files are removed with it.
#[derive(Default)]
pub(super) struct Clipboard(Files);

type Files = Arc<Mutex<Vec<PathBuf>>>;

/// Keeps images for a conversation.
pub(super) struct Pasting(Files);

impl Drop for Clipboard {
    fn drop(&mut self) {
        for file in self.0.lock().unwrap_or_else(PoisonError::into_inner).drain(..) {
            let _already_gone = fs::remove_file(file);
        }
    }
}

impl Clipboard {
    pub(super) fn pasting(&self) -> Pasting {
        Pasting(Arc::clone(&self.0))
    }
}

impl Pasting {
    /// Keeps the image on the clipboard in a file that only this user can read, and returns its path. It blocks for at most
    /// two seconds.
    pub(super) fn keep(&self) -> Result<String, String> {
        let is_set = |name: &str| std::env::var_os(name).is_some_and(|value| !value.is_empty());
        let here = SOURCES.iter().filter(|source| source.needs.is_none_or(is_set));
        let image = image(here, WITHIN)?;
        let file = std::env::temp_dir().join(format!("cli-agent-{}.png", uuid::Uuid::new_v4().simple()));
        let path = file.display().to_string();
        if path.contains(char::is_whitespace) {
            return Err(format!(
                "the path of the temporary folder contains a space: {path}; set TMPDIR to another folder"
            ));
        }
        // Before it is made: what is there of it is removed with the others.
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(file.clone());
        let kept = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&file);
        kept.and_then(|mut kept| kept.write_all(&image))
            .map_err(|error| format!("cannot write {}: {error}", file.display()))?;
        Ok(path)
    }
}

/// The image of the first of these programs that has one.
fn image<'a>(sources: impl Iterator<Item = &'a Source<'a>>, within: Duration) -> Result<Vec<u8>, String> {
    let mut reason = NO_PROGRAM.to_owned();
    let end = Instant::now() + within;
    for source in sources {
        match read(source, end.saturating_duration_since(Instant::now())) {
            Ok(image) if image.len() > MAX_BYTES => {
                return Err(format!("the image on the clipboard is larger than {} MiB", MAX_BYTES >> 20));
            }
            Ok(image) if image.starts_with(PNG) => return Ok(image),
            Ok(_something_else) => NO_IMAGE.clone_into(&mut reason),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => reason = format!("{}: {error}", source.program),
        }
    }
    Err(reason)
}

/// What a program writes, up to a byte more than an image may have. It gets the variables of the desktop and no key.
fn read(source: &Source<'_>, within: Duration) -> io::Result<Vec<u8>> {
    let mut program = Command::new(source.program);
    program.args(source.arguments).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
    // A group of its own: a script that starts another program ends with it.
    program.env_clear().process_group(0);
    for name in ["PATH", "HOME", "LANG", "DISPLAY", "XAUTHORITY", "WAYLAND_DISPLAY", "XDG_RUNTIME_DIR"] {
        program.envs(std::env::var_os(name).map(|value| (name, value)));
    }
    let mut running = program.spawn()?;
    let (tell, told) = mpsc::channel();
    if let Some(output) = running.stdout.take() {
        // It ends with the programs, which are killed below.
        std::thread::spawn(move || {
            let mut image = Vec::new();
            let read = output.take(MAX_BYTES as u64 + 1).read_to_end(&mut image);
            let _nobody_waits_any_more = tell.send(read.map(|_bytes| image));
        });
    }
    let late = |_| io::Error::new(io::ErrorKind::TimedOut, "it did not answer in time");
    let image = told.recv_timeout(within).map_err(late);
    let group = rustix::process::Pid::from_child(&running);
    let _it_may_have_ended = rustix::process::kill_process_group(group, rustix::process::Signal::KILL);
    running.wait()?;
    image?
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(script: &str, within: Duration) -> Result<Vec<u8>, String> {
        let missing = Source { program: "/nothing/here", arguments: &[], needs: None };
        let source = Source { program: "/bin/sh", arguments: &["-c", script], needs: None };
        image([missing, source].iter(), within)
    }

    #[test]
    fn the_first_program_that_has_an_image_gives_it() {
        let image = told(r"printf '\211PNG\r\n\032\nrest'", WITHIN).unwrap();
        assert!(image.starts_with(PNG) && image.ends_with(b"rest"));
    }

    #[test]
    fn what_is_no_image_is_said_to_be_none() {
        assert_eq!(told("echo text", WITHIN).unwrap_err(), NO_IMAGE);
        assert_eq!(told("exit 1", WITHIN).unwrap_err(), NO_IMAGE);
        let huge = told("head -c 11000000 /dev/zero", WITHIN).unwrap_err();
        assert_eq!(huge, "the image on the clipboard is larger than 10 MiB");
        assert_eq!(image([].iter(), WITHIN).unwrap_err(), NO_PROGRAM);
    }

    #[test]
    fn a_program_that_says_nothing_is_ended() {
        // The shell writes the pid of what it started, which has the pipe open, too.
        let pid = tempfile::NamedTempFile::new().unwrap();
        let script = format!("sleep 600 & echo $! > {}; wait", pid.path().display());
        let late = told(&script, Duration::from_secs(1)).unwrap_err();
        assert!(late.ends_with("it did not answer in time"), "{late}");
        let pid: i32 = fs::read_to_string(pid.path()).unwrap().trim().parse().unwrap();
        let started = rustix::process::Pid::from_raw(pid).unwrap();
        // One that was not waited for yet has ended as well.
        let is_zombie = || fs::read_to_string(format!("/proc/{pid}/stat")).is_ok_and(|stat| stat.contains(") Z "));
        let is_there = || rustix::process::test_kill_process(started).is_ok() && !is_zombie();
        let began = Instant::now();
        while is_there() {
            assert!(began.elapsed() < Duration::from_secs(60), "what it started goes on");
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}
