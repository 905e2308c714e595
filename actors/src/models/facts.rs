//! What is known of models, in memory: where it comes from, how old it is, and what was measured.

use super::latency::Latencies;
use super::source::{CatalogueError, Entries, Source, of_file};
use super::{cache, formats};
use crate::clock::WallClock;
use crate::llm::providers::{CapabilityOverrides, KnownModels};
use bob_messages::Millis;
use bob_messages::ids::ModelName;
use bob_messages::models::{LatencyClass, ModelEntry, ModelPrice, ModelSelector, Requirement};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};
use std::time::Duration;
use tokio::sync::watch;

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
pub(super) struct Known {
    pub(super) entries: Entries,
    /// When the source gave them; `None` when it never did.
    at: Option<Millis>,
    /// Why the source did not answer the last time.
    trouble: Option<String>,
    /// How often the entries were replaced.
    pub(super) generation: u64,
}

impl ModelFacts {
    /// What is kept of the source, or the file itself. Reads files, and asks no address.
    pub fn open(settings: CatalogueSettings) -> Arc<Self> {
        let (entries, at, trouble) = match &settings.source {
            Source::BuiltIn => (formats::built_in(), None, None),
            Source::File(path) => match of_file(path) {
                Ok(entries) => (entries, Some(settings.clock.now()), None),
                Err(error) => (Entries::default(), None, Some(error.to_string())),
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
    pub async fn refresh(&self) -> Result<usize, CatalogueError> {
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
            Err(error) => {
                self.known.write().unwrap_or_else(PoisonError::into_inner).trouble = Some(error.to_string());
                Err(error)
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

    /// Whether there is a source that is asked again.
    pub fn is_refreshed(&self) -> bool {
        self.settings.asks && !matches!(self.settings.source, Source::BuiltIn)
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
            tracing::info!(%error, "the latencies of providers are not kept");
        }
    }

    /// The model of this name as it was last known, however old that is.
    pub fn get(&self, model: &ModelName) -> Option<Arc<ModelEntry>> {
        let entries = self.known().entries;
        entries.binary_search_by(|entry| entry.name.cmp(model)).ok().map(|at| Arc::clone(&entries[at]))
    }

    /// The price of a model: the configuration's, else the catalogue's.
    pub(super) fn price(&self, model: &ModelName) -> Option<ModelPrice> {
        self.settings.prices.get(model).cloned().or_else(|| self.get(model)?.price.clone())
    }

    pub(super) fn known(&self) -> Known {
        self.known.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(super) fn latencies(&self) -> MutexGuard<'_, Latencies> {
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
