//! `work`: runs the turns that other processes submit to the same store.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::time::Duration;

use bob::approvals::PermissionMode;
use bob::inbox::{Worked, Worker};
use bob::sessions::TurnOutcome;
use bob::tools::FileChange;
use bob_config::Config;
use bob_config::assemble::Choices;
use tokio::runtime::Handle;
use tokio::sync::oneshot;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use crate::arguments::WorkArgs;
use crate::commands::output::ResultObject;
use crate::commands::{file_changes, submit};
use crate::control::Control;
use crate::exit::{Exit, Failure};
use crate::runtime::OpenRuntime;
use crate::runtime::origin::Origin;
use crate::runtime::signals::Signals;
use crate::terminal::print;
use crate::terminal::progress;

/// How long the end waits for a reader of the results.
const PRINTED_WITHIN: Duration = Duration::from_secs(2);

/// The most results that wait for a reader of stdout; further ones are not printed.
const MOST_UNPRINTED: usize = 1_000;

/// Works until a signal or a drain.
/// Errors: when the configuration, the store or the model's provider cannot be used, or the runtime gives up.
pub(crate) async fn work(args: &WorkArgs, mut config: Config, origin: Origin) -> Result<Exit, Failure> {
    submit::refuse_memory(&config)?;
    if !args.pools.is_empty() {
        config.runtime.pools = args.pools.iter().map(ToString::to_string).collect();
    }
    let mut signals = Signals::new().map_err(|error| Failure::internal(format!("cannot catch signals: {error}")))?;
    let choices = Choices { progress: Some(progress::to_stderr()), ..Choices::default() };
    let opened = tokio::select! {
        opened = OpenRuntime::open(&config, choices) => opened?,
        caught = signals.next() => return Err(Failure::signalled(caught.exit())),
    };
    opened.check_model(&opened.default_model)?;
    // The same error as that of a submitter.
    submit::submitter(&opened.store)?;
    let concurrency = concurrency(args.concurrency, config.runtime.max_concurrent_turns);
    let mut control = Control::open(&opened.runtime, &config, "work", origin).await;
    let (told, results) = Told::channel(MOST_UNPRINTED);
    let (unprinted, waiting) = (Arc::clone(&told.unprinted), Arc::clone(&told.waiting));
    let is_json = args.json;
    let (printed_all, printed) = oneshot::channel::<()>();
    // A reader that is slow delays the lines, and no turn.
    let (mode, store, tokio) = (opened.default_mode, Arc::clone(&opened.store), Handle::current());
    let changes = move |outcome: &TurnOutcome| tokio.block_on(file_changes::of_outcome(&*store, outcome));
    let left = Arc::clone(&waiting);
    std::thread::spawn(move || {
        print_all(&results, is_json.then_some(&changes), mode, &left);
        // The last holder of a store waits until the store was left, and the program ends once this thread has told its end.
        drop((changes, printed_all));
    });
    let result = works(told, &opened, (concurrency, &config.runtime.pools), &mut control, &mut signals).await;
    if let Ok(Ended::AtOnce(exit)) = result {
        // As after a kill, what runs is left to other workers.
        exit.leave();
    }
    let caught = opened.close(&mut signals).await;
    control.close().await;
    let left = match timeout(PRINTED_WITHIN, printed).await {
        Ok(_printed) => 0,
        Err(_too_slow) => waiting.load(Ordering::Relaxed),
    };
    match unprinted.load(Ordering::Relaxed) + left {
        0 => {}
        count => print::note(&format!("[{} not printed in time]", print::counted(count, "result"))),
    }
    caught.map_or(result.map(|_| Exit::Success), |caught| Ok(caught.exit()))
}

/// The number of concurrent turns; a request above the runtime's limit is reduced with a warning.
pub(crate) fn concurrency(wished: Option<u32>, most: u32) -> usize {
    if let Some(wished) = wished.filter(|wished| *wished > most) {
        print::note(&format!("warning: --concurrency {wished} is cut to runtime.max_concurrent_turns, {most}"));
    }
    wished.map_or(Worker::CONCURRENCY, |wished| wished as usize).min(most as usize)
}

enum Ended {
    HandedOver,
    /// A second signal came.
    AtOnce(Exit),
}

async fn works(
    told: Told,
    opened: &OpenRuntime,
    (concurrency, pools): (usize, &[String]),
    control: &mut Control,
    signals: &mut Signals,
) -> Result<Ended, Failure> {
    let Some(worker) = Worker::new(opened.runtime.clone(), opened.store.clone()) else {
        return Err(Failure::internal("the store has no inbox"));
    };
    let worker = worker.concurrency(concurrency).telling(move |worked| told.tell(worked));
    let until = CancellationToken::new();
    let works = worker.run(until.clone());
    tokio::pin!(works);
    let pools: Vec<&str> = pools.iter().map(String::as_str).collect();
    let in_pools = if pools.is_empty() { String::new() } else { format!(" in {}", pools.join(", ")) };
    print::note(&format!(
        "[working on up to {concurrency} sessions at a time{in_pools}; SIGTERM or Ctrl-C hands them over]"
    ));
    let mut tree = opened.runtime.ended();
    loop {
        tokio::select! {
            () = &mut works => {
                let gave_up = !until.is_cancelled() && opened.runtime.ended().borrow().is_some();
                return if gave_up { Err(opened.gave_up()) } else { Ok(Ended::HandedOver) };
            }
            caught = signals.next() => match until.is_cancelled() {
                false => hand_over(&until),
                true => return Ok(Ended::AtOnce(caught.exit())),
            },
            () = control.drained(), if !until.is_cancelled() => hand_over(&until),
            _ = tree.wait_for(Option::is_some), if !until.is_cancelled() => return Err(opened.gave_up()),
        }
    }
}

fn hand_over(until: &CancellationToken) {
    print::note("[no new turns are begun; running ones end, or are left to other workers]");
    until.cancel();
}

/// The way of results to the thread that prints them, which turns do not wait for.
struct Told {
    results: SyncSender<Worked>,
    /// How many had no place.
    unprinted: Arc<AtomicU64>,
    /// How many wait to be printed.
    waiting: Arc<AtomicU64>,
}

impl Told {
    fn channel(most: usize) -> (Self, Receiver<Worked>) {
        let (results, printed) = sync_channel(most);
        (Self { results, unprinted: Arc::default(), waiting: Arc::default() }, printed)
    }

    fn tell(&self, worked: &Worked) {
        // Before it is sent: it may be printed at once.
        self.waiting.fetch_add(1, Ordering::Relaxed);
        let Err(refused) = self.results.try_send(worked.clone()) else { return };
        self.waiting.fetch_sub(1, Ordering::Relaxed);
        // Without a reader nothing is printed any more.
        if let TrySendError::Full(_) = refused {
            self.unprinted.fetch_add(1, Ordering::Relaxed);
        }
    }
}

type Changes = dyn Fn(&TurnOutcome) -> Vec<FileChange>;

/// Prints results until the worker has ended. When stdout is closed, the worker goes on without them.
fn print_all(results: &Receiver<Worked>, as_json: Option<&Changes>, mode: PermissionMode, waiting: &AtomicU64) {
    for worked in results.iter() {
        if line(&worked, as_json, mode).is_err() {
            return;
        }
        waiting.fetch_sub(1, Ordering::Relaxed);
    }
}

fn line(worked: &Worked, as_json: Option<&Changes>, mode: PermissionMode) -> std::io::Result<()> {
    match (&worked.result, as_json) {
        (Ok(outcome), Some(changes)) => print::json(&ResultObject::of(outcome, mode, changes(outcome))),
        (Err(error), Some(_)) => {
            let failure = Failure::from(error.clone());
            print::json(&ResultObject::without_turn(Some(worked.session.as_str()), &failure))
        }
        (Ok(outcome), None) => {
            let what = print::on_one_line(&outcome.content, 60);
            let reason = print::json_text(&outcome.finish_reason);
            print::line(&format!("{}  {}  {what}", worked.session, reason.trim_matches('"')))
        }
        (Err(error), None) => print::line(&format!("{}  refused  {error}", worked.session)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bob::{AgentError, SessionId};

    #[test]
    fn results_that_nobody_reads_are_bounded_and_counted() {
        let (told, results) = Told::channel(2);
        let session = SessionId::parse("one").expect("it is an id");
        let worked = Worked::new(session, None, Err(AgentError::Invalid("it is empty".to_owned())));
        for _result in 0..5 {
            told.tell(&worked);
        }
        assert_eq!(told.unprinted.load(Ordering::Relaxed), 3);
        assert_eq!(told.waiting.load(Ordering::Relaxed), 2);
        assert_eq!(results.try_iter().count(), 2);
        drop(results);
        told.tell(&worked);
        assert_eq!(told.unprinted.load(Ordering::Relaxed), 3, "stdout is closed");
        assert_eq!(told.waiting.load(Ordering::Relaxed), 2, "what cannot be printed does not wait");
    }
}
