//! The one loop of a batch: reads, begins, prints, and listens to signals. It never waits for one of them alone.

use std::collections::HashMap;
use std::pin::pin;
use std::sync::Arc;

use bob::{AgentError, AgentRequest, AgentRuntime, SessionId};
use futures_util::future::BoxFuture;
use futures_util::stream::FuturesUnordered;
use futures_util::{FutureExt, StreamExt};
use tokio::time::{Instant, MissedTickBehavior, interval_at};

use super::Manner;
use super::again::{Earlier, Seen};
use super::input::{Found, Input};
use super::line::{BadLine, BatchLine};
use super::one::{self, Ended, Journaled};
use super::outbox::Outbox;
use super::progress::Progress;
use super::queue::{Queue, Rested};
use super::stop::{Stop, Wish};
use super::tally::Tally;
use crate::commands::output::ResultObject;
use crate::control::Control;
use crate::exit::{Exit, Failure};
use crate::runtime::OpenRuntime;
use crate::runtime::signals::{Caught, Signals};
use crate::terminal::print;

/// Sessions without a line in sight whose actors are kept.
const KEPT: usize = 1_024;

/// Found lines that are taken in at once.
const AT_ONCE: usize = 256;

/// How many invalid lines are told on stderr.
const MOST_TOLD: u64 = 5;

/// How to be asked a second time to end.
const CTRL_C: &str = "press Ctrl-C again";
const SIGNAL: &str = "send a second signal";

/// A batch under way.
pub(crate) struct Conductor<'a> {
    opened: &'a OpenRuntime,
    manner: Manner,
    input: Input,
    /// Whether more may be found.
    is_reading: bool,
    /// Lines read so far, including invalid ones.
    found: u64,
    /// Invalid ones.
    bad: u64,
    queue: Queue,
    rested: Rested,
    running: FuturesUnordered<BoxFuture<'static, Ended>>,
    in_flight: HashMap<SessionId, u64>,
    seen: Seen,
    earlier: HashMap<SessionId, Earlier>,
    outbox: Outbox,
    tally: Tally,
    progress: Progress,
    stop: Stop,
    control: &'a mut Control,
}

impl<'a> Conductor<'a> {
    /// A batch that has not begun.
    pub(crate) fn new(opened: &'a OpenRuntime, manner: Manner, input: Input, control: &'a mut Control) -> Self {
        Self {
            opened,
            progress: Progress::new(manner.is_quiet),
            stop: Stop::with_grace(manner.grace),
            manner,
            input,
            is_reading: true,
            found: 0,
            bad: 0,
            queue: Queue::default(),
            rested: Rested::default(),
            running: FuturesUnordered::new(),
            in_flight: HashMap::new(),
            seen: Seen::default(),
            earlier: HashMap::new(),
            outbox: Outbox::new(),
            tally: Tally::default(),
            control,
        }
    }

    pub(crate) async fn run(mut self, signals: &mut Signals) -> Result<Exit, Failure> {
        let mut tick = interval_at(Instant::now() + self.progress.every(), self.progress.every());
        tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut tree = self.opened.runtime.ended();
        let mut found = Vec::with_capacity(AT_ONCE);
        loop {
            self.begin();
            if self.is_over() {
                break;
            }
            let wants_input = self.is_reading && !self.stop.is_asked() && !self.queue.is_full();
            tokio::select! {
                caught = signals.next() => self.obey(caught),
                () = self.stop.out_of_patience() => break,
                () = self.control.drained(), if !self.stop.is_asked() => self.drain(),
                _ = tree.wait_for(Option::is_some), if !self.stop.is_asked() => self.stop.gave_up(),
                is_read = self.outbox.go_on(), if self.stop.is_read() => if !is_read { self.stdout_closed() },
                Some(ended) = self.running.next() => self.ended(ended),
                _count = self.input.found.recv_many(&mut found, AT_ONCE), if wants_input => self.take(&mut found),
                _ = tick.tick() => self.show(),
            }
        }
        self.close(signals).await
    }

    fn is_over(&self) -> bool {
        let nothing_follows = self.stop.is_asked() || (!self.is_reading && self.queue.len() == 0);
        self.running.is_empty() && nothing_follows
    }

    /// Adds lines; an empty list means the end of the input.
    fn take(&mut self, found: &mut Vec<Found>) {
        if found.is_empty() {
            self.is_reading = false;
            self.input.total.set(self.found);
        }
        for found in found.drain(..) {
            match found {
                Found::Line(line) => {
                    self.found += 1;
                    self.rested.wake(&line.session);
                    self.queue.push(line);
                }
                Found::Bad(bad) => {
                    self.found += 1;
                    self.tell_bad(&bad);
                    self.refuse(bad.number, bad.session.as_deref(), &Failure::usage(bad.message));
                }
                Found::Broken(why) => {
                    print::note(&format!("error: {why}"));
                    self.tally.mark(Exit::Usage);
                }
            }
        }
    }

    fn begin(&mut self) {
        while self.running.len() < self.manner.concurrency && !self.stop.is_asked() && !self.outbox.is_behind() {
            let Some(line) = self.queue.next() else { return };
            let journaled = Journaled { runtime: self.opened.runtime.clone(), store: Arc::clone(&self.opened.store) };
            let number = line.number;
            self.in_flight.insert(line.session.clone(), number);
            if self.manner.finish {
                let nth = self.seen.before(&line);
                let known = self.earlier.remove(&line.session);
                self.running.push(one::finish(journaled, number, self.request(line), nth, known).boxed());
            } else {
                self.running.push(one::run(journaled, number, self.request(line)).boxed());
            }
        }
    }

    fn request(&self, line: BatchLine) -> AgentRequest {
        AgentRequest {
            model: line.model,
            labels: line.labels,
            request_id: line.request_id,
            output_schema: line.output_schema,
            mode: self.manner.mode,
            approvals: self.manner.approvals,
            ..AgentRequest::text(line.session, line.prompt)
        }
    }

    /// A line has ended: its result goes out, and its session makes room.
    fn ended(&mut self, ended: Ended) {
        let Ended { line, session, result, changes, is_new, earlier } = ended;
        self.in_flight.remove(&session);
        match result {
            Ok(outcome) => {
                self.tally.outcome(&outcome, is_new);
                let result = ResultObject::of(&outcome, self.opened.default_mode, changes).at_line(line);
                self.outbox.push(print::json_text(&result));
            }
            // It was submitted just behind the end: nothing of it was kept, so it counts as a line that was not run.
            Err(AgentError::Overloaded { .. }) if self.stop.is_asked() => {}
            Err(error) => self.refuse(line, Some(session.as_str()), &error.into()),
        }
        if !self.queue.done(&session) {
            self.earlier.extend(earlier.map(|earlier| (session, earlier)));
            return;
        }
        self.rested.rest(&session);
        while let Some(session) = self.rested.beyond(KEPT) {
            let runtime = self.opened.runtime.clone();
            tokio::spawn(async move { runtime.close(session).await });
        }
    }

    fn refuse(&mut self, line: u64, session: Option<&str>, failure: &Failure) {
        self.tally.failure(failure);
        self.outbox.push(print::json_text(&ResultObject::without_turn(session, failure).at_line(line)));
    }

    /// Says what is wrong with the first lines that are none: their results may go to a file.
    fn tell_bad(&mut self, bad: &BadLine) {
        self.bad += 1;
        match self.bad {
            _ if self.manner.is_quiet => {}
            ..=MOST_TOLD => print::note(&format!("error: {}", bad.message)),
            n if n == MOST_TOLD + 1 => print::note("error: further lines are invalid; their results say why"),
            _ => {}
        }
    }

    fn obey(&mut self, caught: Caught) {
        match self.stop.signal(caught) {
            Wish::Drain => note_end(self.running.len(), CTRL_C),
            Wish::ShutDown => {
                note_end(self.running.len(), SIGNAL);
                self.shut_down();
            }
            Wish::Cancel => self.cancel_running(),
            Wish::CancelAndShutDown => {
                self.cancel_running();
                self.shut_down();
            }
            // Child processes that still run are ended by the watcher after this process.
            Wish::Leave(exit) => {
                self.progress.end();
                exit.leave();
            }
        }
    }

    /// A drain from outside acts like one Ctrl-C.
    fn drain(&mut self) {
        self.stop.drain();
        let running = self.running.len();
        print::note(&format!("draining: no new lines are started; {running} running; press Ctrl-C twice to cancel"));
    }

    fn stdout_closed(&mut self) {
        self.stop.stdout_closed();
        self.cancel_running();
    }

    fn cancel_running(&self) {
        for session in self.in_flight.keys().cloned() {
            let runtime = self.opened.runtime.clone();
            tokio::spawn(async move { runtime.cancel(session).await });
        }
    }

    fn shut_down(&self) {
        self.opened.shut_down();
    }

    fn show(&mut self) {
        self.progress.show(self.tally.done(), self.input.total.get(), self.running.len());
    }

    async fn close(mut self, signals: &mut Signals) -> Result<Exit, Failure> {
        for (session, line) in std::mem::take(&mut self.in_flight) {
            self.refuse(line, Some(session.as_str()), &Failure::signalled(Exit::Interrupted));
        }
        let unwritten = self.outbox.unwritten();
        let mut writes = pin!(self.outbox.finish());
        let written = loop {
            tokio::select! {
                written = &mut writes => break written,
                () = self.stop.out_of_patience_to_write() => break Ok(()),
                caught = signals.next() => match self.stop.signal(caught) {
                    Wish::Drain => note_end(0, CTRL_C),
                    Wish::ShutDown => {
                        note_end(0, SIGNAL);
                        self.opened.shut_down();
                    }
                    Wish::Cancel | Wish::CancelAndShutDown | Wish::Leave(_) => break Ok(()),
                },
            }
        };
        let missing = unwritten.leave();
        self.progress.end();
        if let Err(error) = written {
            return self.stop.exit().map_or_else(|| Err(error.into()), Ok);
        }
        if missing > 0 {
            let missing = print::counted(missing as u64, "result");
            print::note(&format!("up to {missing} may be missing on stdout; --finish prints them again"));
        }
        let not_run = self.input.total.get().map(|total| total.saturating_sub(self.tally.done()));
        if !self.manner.is_quiet {
            print::note(&self.tally.summary(self.progress.elapsed(), not_run));
        }
        if self.stop.is_drained() && not_run != Some(0) {
            self.tally.mark(Exit::TryLater);
        }
        if self.stop.has_given_up() {
            self.tally.mark(Exit::GaveUp);
        }
        Ok(self.stop.exit().unwrap_or_else(|| self.tally.exit()))
    }
}

/// Prints what is still done after the first signal, and how to stop it.
fn note_end(running: usize, again: &str) {
    if running == 0 {
        print::note(&format!("writing the last results; {again} to stop"));
    } else {
        print::note(&format!("no new lines are started; {running} running; {again} to cancel"));
    }
}
