//! Where a scene is played: before the world that is recorded, or before its tape.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use bob::model::LlmPort;
use bob::store::{MemoryStore, Record, SessionStore, replay};
use bob::tape::{Recorder, Redactor, Tape};
use bob::{AgentRequest, AgentResponse, AgentRuntime, Runtime, RuntimeBuilder};

use crate::support::runtime::{over, session, within};

/// The folder of the fixtures.
pub(crate) fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/tapes")
}

/// One playing of a scene. Everything of it is kept in one store.
pub(crate) struct Stage {
    side: Side,
    store: Arc<dyn SessionStore>,
    turns: AtomicUsize,
}

enum Side {
    Recording(Recorder),
    Replaying(Tape),
}

impl Stage {
    pub(crate) fn recording(file: &Path, scene: &str) -> Self {
        let _it_may_be_the_first = std::fs::remove_file(file);
        let note = format!("the scene {scene} of tests/tapes, with a scripted model");
        Self::of(Side::Recording(Recorder::create(file, Redactor::default(), &note).unwrap()))
    }

    pub(crate) fn replaying(tape: &Tape) -> Self {
        Self::of(Side::Replaying(tape.rewound()))
    }

    fn of(side: Side) -> Self {
        Self { side, store: MemoryStore::new(), turns: AtomicUsize::new(0) }
    }

    /// A builder with this model, on the tape.
    pub(crate) fn with(&self, model: impl LlmPort) -> RuntimeBuilder {
        let builder = over(model).local_tools(false).store(Arc::clone(&self.store));
        match &self.side {
            Side::Recording(recorder) => builder.record(recorder),
            Side::Replaying(tape) => builder.replay(tape),
        }
    }

    /// One turn to its end or to its question.
    pub(crate) async fn say(&self, runtime: &Runtime, request: AgentRequest) -> AgentResponse {
        self.began();
        within(runtime.run(request)).await.expect("the request is taken").response().clone()
    }

    /// A turn began that is not waited for here.
    pub(crate) fn began(&self) {
        self.turns.fetch_add(1, Ordering::Relaxed);
    }

    /// How many turns were begun or resumed.
    pub(crate) fn turns(&self) -> usize {
        self.turns.load(Ordering::Relaxed)
    }

    /// The journals of these sessions, whole.
    pub(crate) async fn journals(&self, sessions: &[&str]) -> Vec<Arc<Record>> {
        let mut all = Vec::new();
        for id in sessions {
            all.extend(self.store.load(&session(id)).await.unwrap());
        }
        all
    }

    /// The end of the scene: the tape is whole, or used up.
    pub(crate) fn close(&self, scene: &str) {
        match &self.side {
            Side::Recording(recorder) => recorder.keep().unwrap(),
            Side::Replaying(tape) => assert_eq!(tape.left(), 0, "{scene}: all of the tape was asked for"),
        }
    }
}

/// The journals of a file, session by session.
pub(crate) fn journals(file: &Path) -> Vec<Vec<Arc<Record>>> {
    let text = std::fs::read_to_string(file).unwrap_or_else(|why| panic!("{}: {why}", file.display()));
    let journals = replay::read(text.lines()).unwrap_or_else(|why| panic!("{}: {why}", file.display()));
    journals.into_values().collect()
}
