use super::*;
use crate::clock::WallClock;
use crate::llm::{DeltaSink, ScriptedLlm, ScriptedReply};
use crate::models::{CatalogueSettings, Catalogued, ModelsActor, ModelsArguments, Source};
use crate::rooms::Profiles;
use bob_messages::llm::{Capabilities, LlmAnswer, LlmError, LlmRequest};
use bob_messages::models::{ModelSelector, Needs, Preference, Rate};
use futures_util::future::BoxFuture;
use ractor::Actor;
use std::sync::atomic::{AtomicI64, AtomicU16, AtomicUsize, Ordering};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio::sync::Notify;

const HOUR: i64 = 3_600_000;

/// Providers `ready` and `openai` can be asked, `keyless` lacks its key, and there are no others.
struct Port(ScriptedLlm);

impl LlmPort for Port {
    fn capabilities(&self, model: &ModelName) -> Result<Capabilities, LlmError> {
        match model.provider() {
            "ready" | "openai" => Ok(Capabilities::default()),
            "keyless" => {
                Err(LlmError::new(LlmErrorKind::MissingKey, "no key for provider keyless: set KEYLESS_API_KEY"))
            }
            other => Err(LlmError::new(LlmErrorKind::UnknownProvider, format!("provider {other:?} is not known"))),
        }
    }

    fn complete_stream(
        &self,
        request: Arc<LlmRequest>,
        model: &ModelName,
        deltas: DeltaSink,
    ) -> BoxFuture<'_, Result<LlmAnswer, LlmError>> {
        self.0.complete_stream(request, model, deltas)
    }

    fn key_variable(&self, provider: &str) -> Option<String> {
        (provider == "keyless").then(|| "KEYLESS_API_KEY".to_owned())
    }
}

fn port() -> Arc<dyn LlmPort> {
    Arc::new(Port(ScriptedLlm::replies(vec![ScriptedReply::text("hello")])))
}

fn name(text: &str) -> ModelName {
    ModelName::parse(text).unwrap()
}

const LISTED: &str = r#"{"ready": {"models": {
    "small-4": {"tool_call": true, "cost": {"input": 1, "output": 1}, "limit": {"context": 1000}},
    "small-4-large": {"cost": {"input": 3, "output": 3}},
    "vendor/small-5": {"cost": {"input": 2, "output": 2}},
    "other": {"cost": {"input": 0.5, "output": 9}}}},
  "keyless": {"models": {"small-4": {"cost": {"input": 0.1, "output": 0.1}}}},
  "elsewhere": {"models": {"small-4": {"cost": {"input": 0.1, "output": 0.1}}}}}"#;

/// A catalogue of a file with these models.
fn of_file(folder: &tempfile::TempDir, change: impl FnOnce(&mut CatalogueSettings)) -> Arc<Catalogue> {
    let file = folder.path().join("api.json");
    std::fs::write(&file, LISTED).unwrap();
    let mut settings = CatalogueSettings { source: Source::File(file), ..CatalogueSettings::default() };
    change(&mut settings);
    Catalogue::new(ModelFacts::open(settings), port())
}

fn selected(catalogue: &Catalogue, preference: Preference) -> (Option<String>, String) {
    let selection = catalogue.select(&ModelSelector::new(preference), &Needs::default());
    (selection.model.map(|model| model.to_string()), selection.why)
}

#[test]
fn a_model_that_cannot_be_run_comes_with_the_nearest_ones_and_the_variable_of_its_key() {
    let folder = tempfile::tempdir().unwrap();
    let catalogue = of_file(&folder, |_| {});
    let Resolution::Unmapped { why, alternatives } = catalogue.resolve(&name("keyless:small-4")) else {
        panic!("it has no key")
    };
    assert!(why.contains("KEYLESS_API_KEY"), "{why}");
    let names: Vec<_> = alternatives.iter().map(ModelName::as_str).collect();
    assert_eq!(names, ["ready:small-4", "ready:vendor/small-5", "ready:small-4-large"]);
    // The port says the same to its callers.
    let error = catalogue.around(port()).capabilities(&name("elsewhere:small-4")).unwrap_err();
    let expected = "provider \"elsewhere\" is not known; of the models that can be run here, nearest are ready:small-4, \
                    ready:vendor/small-5, ready:small-4-large";
    assert_eq!(error.message, expected);
}

#[test]
fn what_the_configuration_says_itself_is_an_override() {
    let folder = tempfile::tempdir().unwrap();
    let catalogue = of_file(&folder, |settings| {
        settings.prices.insert(name("ready:other"), ModelPrice::usd(Rate::from_amount(7.0), Rate::from_amount(8.0)));
    });
    assert!(
        matches!(catalogue.resolve(&name("ready:small-4")), Resolution::Mapped(entry) if entry.context_tokens == Some(1000))
    );
    let Resolution::MappedWithOverrides { entry, overrides } = catalogue.resolve(&name("ready:other")) else {
        panic!("its price is configured")
    };
    assert_eq!((overrides, entry.price.clone().unwrap().input), (vec!["price".to_owned()], Rate::from_amount(7.0)));
    assert_eq!(catalogue.price(&name("ready:other")).unwrap().output, Rate::from_amount(8.0));
    let unknown = catalogue.resolve(&name("openai:new"));
    assert!(
        matches!(unknown, Resolution::MappedWithOverrides { overrides, .. } if overrides == ["not in the catalogue"])
    );
    // The rank knows the configured price, too.
    let (model, _) = selected(&catalogue, Preference::CostFirst);
    assert_eq!(model.as_deref(), Some("ready:small-4"));
}

#[test]
fn a_file_that_is_away_closes_the_catalogue_and_no_explicit_model() {
    let folder = tempfile::tempdir().unwrap();
    let source = Source::File(folder.path().join("none.json"));
    let facts = ModelFacts::open(CatalogueSettings { source, ..CatalogueSettings::default() });
    let catalogue = Catalogue::new(facts, port());
    let (model, why) = selected(&catalogue, Preference::CostFirst);
    assert!(model.is_none() && why.contains("none.json gave no answer") && why.contains("nothing is kept"), "{why}");
    assert!(catalogue.list().is_err());
    assert!(catalogue.around(port()).capabilities(&name("ready:small-4")).is_ok());
    let error = catalogue.around(port()).capabilities(&name("select:preference=cost_first")).unwrap_err();
    assert!(error.kind == LlmErrorKind::NotSelected && error.is_usage(), "{error}");
}

/// A server whose answer can change; it counts.
struct Server {
    url: String,
    status: AtomicU16,
    asked: AtomicUsize,
    was_asked: Notify,
}

async fn server() -> Arc<Server> {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/api.json", listener.local_addr().unwrap());
    let server = Arc::new(Server { url, status: 200.into(), asked: 0.into(), was_asked: Notify::new() });
    let serving = Arc::clone(&server);
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let mut asked = [0; 4096];
            let _request = stream.read(&mut asked).await;
            serving.asked.fetch_add(1, Ordering::SeqCst);
            let (status, body) = (serving.status.load(Ordering::SeqCst), LISTED);
            let answer =
                format!("HTTP/1.1 {status} X\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}", body.len());
            let _sent = stream.write_all(answer.as_bytes()).await;
            serving.was_asked.notify_one();
        }
    });
    server
}

fn of_url(server: &Server, folder: &tempfile::TempDir, now: &Arc<AtomicI64>) -> Arc<ModelFacts> {
    let now = Arc::clone(now);
    ModelFacts::open(CatalogueSettings {
        source: Source::Url(server.url.clone()),
        folder: Some(folder.path().to_owned()),
        clock: WallClock::by(move || now.load(Ordering::SeqCst)),
        ..CatalogueSettings::default()
    })
}

#[tokio::test]
async fn an_answer_is_kept_for_its_time_and_then_nothing_is_selected() {
    let (server, folder, now) = (server().await, tempfile::tempdir().unwrap(), Arc::new(AtomicI64::new(1_000 * HOUR)));
    let facts = of_url(&server, &folder, &now);
    assert!(facts.closed().is_some_and(|why| why.contains("it was not asked yet")), "nothing is kept yet");
    assert_eq!(facts.refresh().await, Ok(6));
    assert_eq!(facts.closed(), None);

    // Another process, with what was kept.
    server.status.store(503, Ordering::SeqCst);
    now.fetch_add(24 * HOUR, Ordering::SeqCst);
    let facts = of_url(&server, &folder, &now);
    let catalogue = Catalogue::new(Arc::clone(&facts), port());
    assert_eq!(selected(&catalogue, Preference::CostFirst).0.as_deref(), Some("ready:small-4"));
    assert!(facts.refresh().await.unwrap_err().to_string().contains("503"));
    assert_eq!(
        selected(&catalogue, Preference::CostFirst).0.as_deref(),
        Some("ready:small-4"),
        "still within its time"
    );
    now.fetch_add(1, Ordering::SeqCst);
    let (model, why) = selected(&catalogue, Preference::CostFirst);
    assert_eq!(model, None);
    let expected =
        "gave no answer (the answer was 503 Service Unavailable), and what is kept is 24 h old, of at most 24 h";
    assert!(why.contains(expected), "{why}");
    // Its prices are still the best there are.
    assert!(catalogue.price(&name("ready:small-4")).is_some());
    server.status.store(200, Ordering::SeqCst);
    assert_eq!(facts.refresh().await, Ok(6));
    assert!(selected(&catalogue, Preference::CostFirst).0.is_some());
    // A clock that was set back.
    now.fetch_sub(HOUR, Ordering::SeqCst);
    assert!(of_url(&server, &folder, &now).closed().is_some_and(|why| why.contains("of a time to come")));
}

#[tokio::test]
async fn the_actor_asks_again_and_forgets_what_followed_from_the_old_answer() {
    let (server, folder, now) = (server().await, tempfile::tempdir().unwrap(), Arc::new(AtomicI64::new(HOUR)));
    let mut settings = of_url(&server, &folder, &now).settings.clone();
    settings.refresh_every = Duration::from_millis(5);
    let (facts, profiles) = (ModelFacts::open(settings), Profiles::default());
    let arguments = ModelsArguments { facts: Arc::clone(&facts), profiles: profiles.clone() };
    let (actor, handle) = Actor::spawn(None, ModelsActor, arguments).await.unwrap();
    facts.settled().await;
    assert_eq!(facts.closed(), None, "asked at its start");
    while server.asked.load(Ordering::SeqCst) < 3 {
        server.was_asked.notified().await;
    }
    let model = name("ready:small-4");
    let profile = bob_messages::llm::ModelProfile {
        model: model.clone(),
        capabilities: Capabilities::default(),
        price: None,
        tokens_per_kb: bob_messages::llm::TOKENS_PER_KB,
    };
    profiles.keep(&Arc::new(profile));
    while profiles.get(&model).is_some() {
        server.was_asked.notified().await;
    }
    actor.stop(None);
    handle.await.unwrap();
}

#[tokio::test]
async fn calls_are_measured_and_selectors_are_asked_as_the_model_they_select() {
    let folder = tempfile::tempdir().unwrap();
    let catalogue = of_file(&folder, |settings| settings.folder = Some(folder.path().join("kept")));
    let around = Catalogued::new(port(), catalogue.clone());
    let (request, model) = (crate::llm::testing::request("hi"), name("select:preference=cost_first"));
    let answer = around.complete(request, &model).await.unwrap();
    assert_eq!(answer.model, name("ready:small-4"));
    catalogue.facts().keep_latencies();
    let kept = std::fs::read_to_string(folder.path().join("kept/latency.json")).unwrap();
    assert!(kept.starts_with("{\"ready\":["), "{kept}");
    assert!(catalogue.facts().latencies().p50_ms().contains_key("ready"));
}
