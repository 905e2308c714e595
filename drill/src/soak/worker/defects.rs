//! Defects that are planted on purpose, each at a port, to see whether the checker finds it. None of it happens unless
//! the plan names one, which only builds for tests can ask for.

use std::fs::File;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bob::store::{MemoryStore, Record, SessionStore};
use bob_messages::store::{Append, Fact};

use super::telling::Telling;
use crate::soak::plan::{Defect, Plan};
use crate::soak::wire::{Answer, Report};
use crate::store::FaultStore;

/// Memory leaked for each answer: enough to be detected.
const LEAKED_BYTES: usize = 6 * 1024 * 1024;

pub(crate) struct FrontEnd {
    plan: Arc<Plan>,
    telling: Telling,
    told: AtomicU64,
    kept: Mutex<Vec<Kept>>,
}

/// A leaked resource.
enum Kept {
    File { _open: File },
    Bytes { _there: Vec<u8> },
}

impl FrontEnd {
    pub(crate) fn new(plan: Arc<Plan>, telling: Telling) -> Self {
        Self { plan, telling, told: AtomicU64::new(0), kept: Mutex::default() }
    }

    pub(crate) fn tell(&self, answer: Answer) {
        let number = self.told.fetch_add(1, Ordering::Relaxed);
        let Some(defect) = self.plan.defect else {
            return self.telling.tell(Report::Answered(Box::new(answer)));
        };
        match defect {
            Defect::AnswerNever if number == 3 => return,
            Defect::AnswerTwice if number == 3 => self.telling.tell(Report::Answered(Box::new(answer.clone()))),
            // In its own process group, so that it survives the worker.
            Defect::LeakChild if number == 3 => spawn("sleep", "120", true),
            Defect::Zombie if number == 3 => spawn("true", "", false),
            Defect::LeakThreads => {
                let _never_joined = std::thread::spawn(|| std::thread::sleep(Duration::from_secs(600)));
            }
            Defect::LeakFds => self.keep(File::open("/dev/null").ok().map(|open| Kept::File { _open: open })),
            Defect::LeakMemory => self.keep(Some(Kept::Bytes { _there: vec![1; LEAKED_BYTES] })),
            _at_another_port => {}
        }
        self.telling.tell(Report::Answered(Box::new(answer)));
    }

    fn keep(&self, kept: Option<Kept>) {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner).extend(kept);
    }

    /// Before the outcome of a cancelled turn is looked at.
    pub(crate) async fn after_cancel(&self) {
        if self.plan.has(Defect::SlowCancel) {
            tokio::time::sleep(Duration::from_secs(3)).await;
        }
    }
}

fn spawn(program: &str, argument: &str, apart: bool) {
    use std::os::unix::process::CommandExt;
    let mut command = Command::new(program);
    command.arg(argument).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    if apart {
        command.process_group(0);
    }
    // Never waited for: that is the defect.
    let _left_behind = command.spawn();
}

/// The store, behind the defect that is planted in it.
pub(crate) fn store(inner: Arc<dyn SessionStore>, plan: &Plan) -> Arc<dyn SessionStore> {
    match plan.defect {
        Some(Defect::EarlyAck) => MemoryStore::new(),
        Some(
            defect @ (Defect::SkipSave
            | Defect::ChangedAnswer
            | Defect::LostResult
            | Defect::LostIntent
            | Defect::LostOutcome
            | Defect::DoubleInput),
        ) => FaultStore::altering(inner, move |append| broken(defect, append)),
        Some(_) | None => inner,
    }
}

fn broken(defect: Defect, append: Append) -> Option<Append> {
    // From its fourth record on, one session is silently not stored.
    if defect == Defect::SkipSave && append.session.as_str() == "s1" && append.expected_version > 3 {
        return None;
    }
    let before = std::iter::once(None).chain(append.records.iter().map(Some));
    let records =
        append.records.iter().zip(before).map(|(record, before)| broken_record(defect, before, record)).collect();
    Some(Append { records, ..append })
}

fn broken_record(defect: Defect, before: Option<&Arc<Record>>, record: &Arc<Record>) -> Arc<Record> {
    let nothing = || Fact::Steered { parts: Vec::new(), request_id: None, behind: false };
    let fact = match (defect, &record.fact) {
        (Defect::ChangedAnswer, Fact::Outcome(ended)) => {
            let mut ended = ended.clone();
            ended.content.push('!');
            Fact::Outcome(ended)
        }
        (Defect::LostResult, Fact::Result(_))
        | (Defect::LostIntent, Fact::Intent { .. })
        | (Defect::LostOutcome, Fact::Outcome(_)) => nothing(),
        // Repeats the input before the start of the turn.
        (Defect::DoubleInput, Fact::Started { .. }) => match before.map(|before| &before.fact) {
            Some(Fact::Input(input)) => Fact::Input(Arc::clone(input)),
            _ => return Arc::clone(record),
        },
        _ => return Arc::clone(record),
    };
    Arc::new(Record { fact, ..(**record).clone() })
}
