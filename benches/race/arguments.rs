//! Command-line arguments: `--name=value`, in any order.

/// One run.
#[derive(Debug, Clone)]
pub(crate) struct Arguments {
    /// `load`: `conc` lanes run turns one after another. `hold`: all sessions start together. `idle`: like `load`;
    /// measures the remaining memory. `start`: one turn, from the start of the process. `deltas`: like `load`, with a
    /// reader. `appends`: no turns; `conc` sessions append `n` records of `words` bytes each through the store's
    /// actor, one after another. `recover`: a new runtime finds and finishes `n` sessions with interrupted turns.
    /// `cancel`: `conc` sessions are busy with turns of `k` calls, and `n` others are cancelled in each state and
    /// each wait. `activate`: a long session is activated `n` times. `provider`: no turns; serves the model of `http` and
    /// `stream` until it is ended, at the address it prints.
    pub(crate) mode: String,
    /// `mock`: answers are made in this process. `http` and `stream`: a provider at `base`.
    pub(crate) backend: String,
    /// `memory`, `json` or `sqlite`, the latter two in a folder of their own, or `postgres`, in the database of `DATABASE_URL`.
    pub(crate) store: String,
    /// Sessions.
    pub(crate) n: usize,
    /// Turns of each session, one after another.
    pub(crate) turns: usize,
    /// Lanes.
    pub(crate) conc: usize,
    /// Tool calls of a turn.
    pub(crate) k: usize,
    /// How long each answer of the model takes, in milliseconds.
    pub(crate) latency: u64,
    /// Words of the final answer of `mock`; each is one delta for a reader.
    pub(crate) words: usize,
    /// How long a session is idle before it leaves memory, in milliseconds; 0 keeps them all.
    /// With it, the figure of `idle` is taken when all have left.
    pub(crate) passivate: u64,
    /// Sessions before the first figure is taken.
    pub(crate) warmup: usize,
    /// Base URL of the provider.
    #[allow(dead_code, reason = "without the feature genai there is none")]
    pub(crate) base: String,
    /// Behind how many records `activate` has a snapshot; 0 is never.
    pub(crate) snapshots: u64,
    /// Threads that only use the processor beside `cancel`.
    #[allow(dead_code, reason = "the peers are cancelled in no way")]
    pub(crate) burn: usize,
    /// Threads of the runtime; 0 means one per core.
    pub(crate) threads: usize,
}

impl Arguments {
    /// The model's name: the provider of the race reads from it what it is to do.
    pub(crate) fn model(&self) -> String {
        format!("fake-k{}-l{}", self.k, self.latency)
    }

    /// The arguments of this process; `None` when no mode is given, as under a test runner.
    pub(crate) fn given() -> Option<Self> {
        let (text, number) = (Self::text, Self::number);
        std::env::args().any(|word| word.starts_with("--mode=")).then(|| Self {
            mode: text("mode", "load"),
            backend: text("backend", "mock"),
            store: text("store", "memory"),
            n: number("n", 1_000),
            turns: number("turns", 1),
            conc: number("conc", 1),
            k: number("k", 3),
            latency: number("latency", 0) as u64,
            words: number("words", 1),
            passivate: number("passivate", 0) as u64,
            warmup: number("warmup", 50),
            base: text("base", "http://127.0.0.1:18080/v1"),
            snapshots: number("snapshots", 200) as u64,
            burn: number("burn", 0),
            threads: number("threads", 0),
        })
    }

    /// What is given for this name.
    pub(crate) fn text(name: &str, otherwise: &str) -> String {
        let given = std::env::args().find_map(|word| word.strip_prefix(&format!("--{name}=")).map(str::to_owned));
        given.unwrap_or_else(|| otherwise.to_owned())
    }

    /// The number that is given for this name.
    pub(crate) fn number(name: &str, otherwise: usize) -> usize {
        match Self::text(name, "").as_str() {
            "" => otherwise,
            value => value.parse().unwrap_or_else(|_| panic!("--{name} takes a number, not {value:?}")),
        }
    }
}
