//! Process and pipe modes, which test how a server is stopped.
//!
//! This process never forks or handles a signal itself: it is replaced by a shell that does, and that restarts it
//! where needed.

use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::{io, thread};

use super::{AGAIN, Moment, Step};
use crate::server::requests::Server;

/// Ignored signals stay ignored across `exec`.
const IGNORING: &str = r#"trap '' TERM INT HUP; exec "$0" "$@""#;

/// Each shell has a second command; otherwise it would `exec` the server directly.
const LAUNCHING: &str = r#"/bin/sh -c '"$0" "$@"; exit $?' "$0" "$@"; exit $?"#;

/// `$0` is this very text, `$1` the level, `$2` the log or nothing, `$3` a program to start the last level with.
const FAMILY: &str = r#"
[ -n "$2" ] && printf '{"event":"grandchild","level":%d,"pid":%d}\n' "$1" "$$" >> "$2"
case $1 in
1) /bin/sh -c "$0" "$0" 2 "$2" "$3" & ;;
2) command -v "$3" > /dev/null && before=$3
   $before /bin/sh -c "$0" "$0" 3 "$2" & ;;
3) trap '' TERM ;;
esac
exec sleep 120
"#;

pub(super) fn deaf(server: &Arc<Server>, _: u64, moment: &Moment<'_>) -> Step {
    if moment.is_ready() {
        server.log.write("deaf", serde_json::json!({}));
        live_on();
    }
    Step::Healthy
}

pub(super) fn ignore_term(server: &Arc<Server>, _: u64, moment: &Moment<'_>) -> Step {
    match moment {
        Moment::Begun => below(server, IGNORING),
        Moment::Ended => live_on(),
        Moment::Started | Moment::Asked(_) | Moment::Told(_) => Step::Healthy,
    }
}

pub(super) fn launcher(server: &Arc<Server>, _: u64, moment: &Moment<'_>) -> Step {
    match moment {
        Moment::Begun => below(server, LAUNCHING),
        Moment::Started | Moment::Asked(_) | Moment::Told(_) | Moment::Ended => Step::Healthy,
    }
}

pub(super) fn family(server: &Arc<Server>, _: u64, moment: &Moment<'_>) -> Step {
    raise(server, moment, "")
}

pub(super) fn far_family(server: &Arc<Server>, _: u64, moment: &Moment<'_>) -> Step {
    raise(server, moment, "setsid")
}

fn raise(server: &Arc<Server>, moment: &Moment<'_>, starter: &str) -> Step {
    if let Moment::Started = moment {
        let mut shell = Command::new("/bin/sh");
        shell.args(["-c", FAMILY, FAMILY, "1"]).arg(server.log_path().unwrap_or("".as_ref())).arg(starter);
        match shell.stdin(Stdio::null()).spawn() {
            Ok(mut child) => server.beside(move |_| {
                // Only so that it is no zombie while the server lives.
                let _ended = child.wait();
            }),
            Err(error) => server.exit_because(&format!("cannot start /bin/sh: {error}")),
        }
    }
    Step::Healthy
}

/// Closes the pipe for good: the process continues with another stdout.
pub(super) fn close_stdout(server: &Arc<Server>, _: u64, moment: &Moment<'_>) -> Step {
    if moment.is_ready() {
        server.log.write("stdout closed", serde_json::json!({}));
        let error = Command::new("/bin/sh").args(["-c", "exec cat"]).stdout(Stdio::null()).exec();
        give_up(server, &error);
    }
    Step::Healthy
}

/// Replaces this process by a shell that runs this script, with this program as `$0` and its arguments after that.
fn below(server: &Arc<Server>, script: &str) -> ! {
    let error = match std::env::current_exe() {
        Ok(program) => {
            let mut shell = Command::new("/bin/sh");
            shell.args(["-c", script]).arg(program).args(std::env::args_os().skip(1)).arg(AGAIN);
            shell.exec()
        }
        Err(error) => error,
    };
    give_up(server, &error)
}

fn give_up(server: &Arc<Server>, error: &io::Error) -> ! {
    server.exit_because(&format!("cannot go on as another process: {error}"))
}

fn live_on() -> ! {
    loop {
        thread::park();
    }
}
