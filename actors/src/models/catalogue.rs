//! The catalogue of one runtime, in memory: what is known, how old it is, and what can be run of it.

use super::cache;
use super::formats;
use super::latency::Latencies;
use super::port::{ModelCatalogPort, Resolution};
use super::resolve;
use super::source::{Entries, Source, of_file};
use crate::clock::WallClock;
use crate::llm::LlmPort;
use crate::llm::providers::{CapabilityOverrides, KnownModels};
use bob_messages::Millis;
use bob_messages::ids::ModelName;
use bob_messages::llm::LlmErrorKind;
use bob_messages::models::{
    LatencyClass, Listing, ModelBook, ModelEntry, ModelPrice, ModelSelector, Requirement, Standing,
};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};
use std::time::Duration;
use tokio::sync::watch;
use tokio::time::Instant;

/// How long a book is used before newly measured latencies are looked at.
const BOOK_LASTS: Duration = Duration::from_secs(1);

/// How a catalogue is obtained, and what the configuration says of models itself.
#[derive(Debug, Clone)]
pub struct CatalogueSettings {
    /// Where it comes from.
    pub source: Source,
    /// How often the source is asked again.
    pub refresh_every: Duration,
    /// How old an answer of the source may be.
    pub cache_ttl: Duration,
    /// Whether the source is asked. Otherwise what is kept of it is used, however old, and a file is read.
    pub asks: bool,
    /// Where answers and latencies are kept; `None` keeps nothing.
    pub folder: Option<PathBuf>,
    /// The selectors with a name.
    pub aliases: BTreeMap<String, ModelSelector>,
    /// Prices instead of the catalogue's.
    pub prices: BTreeMap<ModelName, ModelPrice>,
    /// Of which providers the configuration itself says something, and what.
    pub overrides: BTreeMap<String, Vec<String>>,
    /// How fast providers are taken to be before they were measured.
    pub classes: BTreeMap<String, LatencyClass>,
    /// The tiers of quality, the best first.
    pub quality_tiers: Vec<Vec<String>>,
    /// The clock by which the age of an answer is judged.
    pub clock: WallClock,
}

impl Default for CatalogueSettings {
    fn default() -> Self {
        Self {
            source: Source::BuiltIn,
            refresh_every: Duration::from_secs(6 * 3_600),
            cache_ttl: Duration::from_secs(24 * 3_600),
            asks: true,
            folder: None,
            aliases: BTreeMap::new(),
            prices: BTreeMap::new(),
            overrides: BTreeMap::new(),
            classes: BTreeMap::new(),
            quality_tiers: Vec::new(),
            clock: WallClock::default(),
        }
    }
}

/// What is known of models, without a provider to run them.
#[derive(Debug)]
pub struct ModelFacts {
    pub(super) settings: CatalogueSettings,
    known: RwLock<Known>,
    latencies: Mutex<Latencies>,
    /// Whether there is an answer, or the source was asked once.
    settled: watch::Sender<bool>,
}

#[derive(Debug, Clone)]
struct Known {
    entries: Entries,
    /// When the source gave them; `None` when it never did.
    at: Option<Millis>,
    /// Why the source did not answer the last time.
    trouble: Option<String>,
    /// How often the entries were replaced.
    generation: u64,
}

impl ModelFacts {
    /// What is kept of the source, or the file itself. Reads files, and asks no address.
    pub fn open(settings: CatalogueSettings) -> Arc<Self> {
        let (entries, at, trouble) = match &settings.source {
            Source::BuiltIn => (formats::built_in(), None, None),
            Source::File(path) => match of_file(path) {
                Ok(entries) => (entries, Some(settings.clock.now()), None),
                Err(why) => (Entries::default(), None, Some(why)),
            },
            Source::Url(url) => {
                let kept = settings.folder.as_deref().and_then(|folder| cache::kept(&cache::file(folder, url)));
                let (at, entries) = kept.map(|(at, entries)| (Some(at), entries)).unwrap_or_default();
                (entries, at, None)
            }
        };
        let latencies = settings.folder.as_deref().map(|folder| Latencies::of_file(&folder.join(LATENCIES)));
        let known = RwLock::new(Known { entries, at, trouble, generation: 0 });
        let settled = watch::channel(false).0;
        let facts = Self { settings, known, latencies: Mutex::new(latencies.unwrap_or_default()), settled };
        let is_answered =
            facts.closed().is_none() || !facts.settings.asks || !matches!(facts.settings.source, Source::Url(_));
        facts.settled.send_replace(is_answered);
        Arc::new(facts)
    }

    /// Asks the source now, and keeps its answer. Returns how many models it has.
    ///
    /// # Errors
    /// Why there is no answer; what was known before is still known, as long as it is not too old.
    pub async fn refresh(&self) -> Result<usize, String> {
        let fetched = self.settings.source.fetch().await;
        let now = self.settings.clock.now();
        let result = match fetched {
            Ok((entries, text)) => {
                let many = entries.len();
                self.learn(entries, now);
                if let Some(text) = text {
                    self.keep_answer(now, text).await;
                }
                Ok(many)
            }
            Err(why) => {
                self.known.write().unwrap_or_else(PoisonError::into_inner).trouble = Some(why.clone());
                Err(why)
            }
        };
        self.settled.send_replace(true);
        result
    }

    fn learn(&self, entries: Entries, at: Millis) {
        let mut known = self.known.write().unwrap_or_else(PoisonError::into_inner);
        *known = Known { entries, at: Some(at), trouble: None, generation: known.generation + 1 };
    }

    async fn keep_answer(&self, at: Millis, text: String) {
        let (Some(folder), Source::Url(url)) = (&self.settings.folder, &self.settings.source) else { return };
        let file = cache::file(folder, url);
        let written = tokio::task::spawn_blocking(move || cache::keep(&file, at, &text)).await;
        if let Ok(Err(error)) = written {
            tracing::warn!(%error, "the catalogue of models is not kept");
        }
    }

    /// Returns when there is an answer, or the source was asked once; after a bounded time in any case.
    pub async fn settled(&self) {
        let mut settled = self.settled.subscribe();
        let _answered_or_late = tokio::time::timeout(super::source::WITHIN, settled.wait_for(|settled| *settled)).await;
    }

    /// How long ago the source gave its answer; `None` for the built-in catalogue, and without an answer.
    pub fn age(&self) -> Option<Duration> {
        let at = self.known().at?;
        let ms = u64::try_from(self.settings.clock.now().saturating_sub(at)).unwrap_or(0);
        Some(Duration::from_millis(ms))
    }

    /// Where it comes from.
    pub fn source(&self) -> &Source {
        &self.settings.source
    }

    /// Whether there are selectors with a name.
    pub fn has_aliases(&self) -> bool {
        !self.settings.aliases.is_empty()
    }

    /// Why nothing can be selected; `None` when it can.
    pub fn closed(&self) -> Option<String> {
        let Known { at, trouble, .. } = self.known();
        let source = match &self.settings.source {
            Source::BuiltIn => return None,
            Source::File(path) => path.display().to_string(),
            Source::Url(url) => url.clone(),
        };
        let (now, ttl) = (self.settings.clock.now(), self.settings.cache_ttl);
        // An answer of the future tells of a clock that was set: its age is not known.
        let age = at.map(|at| now.saturating_sub(at));
        if at.is_some() && !self.settings.asks {
            return None;
        }
        if age.is_some_and(|age| (0..=i64::try_from(ttl.as_millis()).unwrap_or(i64::MAX)).contains(&age)) {
            return None;
        }
        let why = trouble.unwrap_or_else(|| "it was not asked yet".to_owned());
        let kept = match age {
            None => "nothing is kept of an earlier answer".to_owned(),
            Some(age) if age < 0 => "what is kept is of a time to come".to_owned(),
            Some(age) => format!("what is kept is {} old, of at most {}", words(age), words(ttl.as_millis())),
        };
        Some(format!("{source} gave no answer ({why}), and {kept}"))
    }

    /// Takes the time of one call of a provider.
    pub fn took(&self, provider: &str, ms: u64) {
        self.latencies().took(provider, ms);
    }

    /// Writes the latencies that were measured since, if there is a folder for them. Blocks on the disk.
    pub fn keep_latencies(&self) {
        let Some(folder) = &self.settings.folder else { return };
        let mut latencies = self.latencies();
        if !std::mem::take(&mut latencies.is_dirty) {
            return;
        }
        let text = latencies.text();
        drop(latencies);
        if let Err(error) = cache::write(&folder.join(LATENCIES), &text) {
            tracing::warn!(%error, "the latencies of providers are not kept");
        }
    }

    /// The model of this name as it was last known, however old that is.
    pub fn get(&self, model: &ModelName) -> Option<Arc<ModelEntry>> {
        let entries = self.known().entries;
        entries.binary_search_by(|entry| entry.name.cmp(model)).ok().map(|at| Arc::clone(&entries[at]))
    }

    fn price(&self, model: &ModelName) -> Option<ModelPrice> {
        self.settings.prices.get(model).cloned().or_else(|| self.get(model)?.price.clone())
    }

    fn known(&self) -> Known {
        self.known.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn latencies(&self) -> MutexGuard<'_, Latencies> {
        self.latencies.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The file of the latencies.
const LATENCIES: &str = "latency.json";

/// A time in words: hours, or what is less.
fn words(ms: impl TryInto<u64>) -> String {
    let seconds = ms.try_into().unwrap_or(u64::MAX) / 1_000;
    match seconds {
        0..120 => format!("{seconds} s"),
        120..7_200 => format!("{} min", seconds / 60),
        _ => format!("{} h", seconds / 3_600),
    }
}

/// What the catalogue adds to the built-in profiles. What it does not say is not denied.
impl KnownModels for ModelFacts {
    fn abilities(&self, model: &ModelName) -> Option<CapabilityOverrides> {
        let entry = self.get(model)?;
        let can = |ability| entry.abilities.contains(&ability).then_some(true);
        Some(CapabilityOverrides {
            native_tools: can(Requirement::ToolUse),
            json_schema: can(Requirement::JsonMode),
            system_role: None,
            context_tokens: entry.context_tokens,
            images: can(Requirement::Vision),
            audio: can(Requirement::Audio),
        })
    }
}

/// The catalogue of one runtime: what is known of models, and the port that runs them.
pub struct Catalogue {
    facts: Arc<ModelFacts>,
    port: Arc<dyn LlmPort>,
    book: Mutex<Option<Made>>,
}

/// A book, and of what it was made.
struct Made {
    generation: u64,
    closed: Option<String>,
    at: Instant,
    book: Arc<ModelBook>,
}

impl Catalogue {
    /// The catalogue of these facts; `port` says which models can be run.
    pub fn new(facts: Arc<ModelFacts>, port: Arc<dyn LlmPort>) -> Arc<Self> {
        Arc::new(Self { facts, port, book: Mutex::new(None) })
    }

    /// What is known of models.
    pub fn facts(&self) -> &Arc<ModelFacts> {
        &self.facts
    }

    /// A port with this catalogue around it: it knows prices, names alternatives, and measures.
    pub fn around(self: &Arc<Self>, port: Arc<dyn LlmPort>) -> Arc<dyn LlmPort> {
        Arc::new(super::Catalogued::new(port, Arc::clone(self)))
    }

    fn made(&self, known: Known, closed: Option<&str>) -> ModelBook {
        let Known { entries, .. } = known;
        let settings = &self.facts.settings;
        let mut providers: BTreeMap<String, Standing> = BTreeMap::new();
        let mut runnable = Vec::with_capacity(entries.len());
        for entry in entries.iter() {
            let provider = entry.name.provider();
            let standing = match self.port.capabilities(&entry.name) {
                Ok(_can) => Standing::Ready,
                // A port that has its own models, such as a tape.
                Err(error) if error.kind == LlmErrorKind::UnknownModel => continue,
                Err(error) if error.kind == LlmErrorKind::MissingKey => {
                    Standing::NoKey { variable: self.port.key_variable(provider).unwrap_or_default() }
                }
                Err(_no_such_provider) => Standing::Unknown,
            };
            if !providers.contains_key(provider) {
                providers.insert(provider.to_owned(), standing);
            }
            runnable.push(match settings.prices.get(&entry.name) {
                Some(price) => Arc::new(ModelEntry { price: Some(price.clone()), ..(**entry).clone() }),
                None => Arc::clone(entry),
            });
        }
        ModelBook {
            listing: match closed {
                Some(why) => Listing::Closed(why.into()),
                None => Listing::Open(runnable.into()),
            },
            aliases: settings.aliases.clone(),
            providers,
            p50_ms: self.facts.latencies().p50_ms(),
            classes: settings.classes.clone(),
            quality_tiers: settings.quality_tiers.clone(),
            recorded: BTreeMap::new(),
        }
    }
}

impl ModelCatalogPort for Catalogue {
    fn book(&self) -> Arc<ModelBook> {
        let (known, closed) = (self.facts.known(), self.facts.closed());
        let mut kept = self.book.lock().unwrap_or_else(PoisonError::into_inner);
        let is_fresh = |made: &&mut Made| {
            made.generation == known.generation && made.closed == closed && made.at.elapsed() < BOOK_LASTS
        };
        if let Some(made) = kept.as_mut().filter(is_fresh) {
            return Arc::clone(&made.book);
        }
        let generation = known.generation;
        let book = self.made(known, closed.as_deref());
        // One that says the same is the same: what was made of it need not be made again.
        let book = match kept.take() {
            Some(made) if *made.book == book => made.book,
            _another => Arc::new(book),
        };
        *kept = Some(Made { generation, closed, at: Instant::now(), book: Arc::clone(&book) });
        book
    }

    fn resolve(&self, model: &ModelName) -> Resolution {
        resolve::resolve(self, &*self.port, &self.facts, model)
    }

    fn price(&self, model: &ModelName) -> Option<ModelPrice> {
        self.facts.price(model)
    }
}

impl std::fmt::Debug for Catalogue {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Catalogue").field("source", self.facts.source()).finish_non_exhaustive()
    }
}

#[cfg(test)]
#[path = "catalogue_tests.rs"]
mod tests;
