//! The ports beside the model and the servers: what is known of models, and the page to sign in at.

use bob::config::Limits;
use bob::model::catalogue::{
    Cost, ModelBook, ModelCatalogPort, ModelEntry, ModelPrice, ModelSelector, Needs, Preference, Rate, Requirement,
    Resolution,
};
use bob::model::providers::{CapabilityOverrides, KnownModels};
use bob::model::{ScriptedLlm, ScriptedReply};
use bob::tools::servers::{ServerId, SignInPort, SignIns};
use bob::{AgentRequest, AgentRuntime, BoxFuture, ModelName, RuntimeBuilder, SessionId};
use std::sync::{Arc, Mutex};

/// Two models of one laboratory, with their prices.
pub struct Fixed(Arc<ModelBook>, Mutex<Vec<u64>>);

impl Default for Fixed {
    fn default() -> Self {
        let model = |name: &str, amount| {
            let rate = Rate::from_amount(amount);
            ModelEntry {
                name: ModelName::parse(name).expect("a name"),
                context_tokens: Some(32_000),
                max_output_tokens: None,
                price: Some(ModelPrice::usd(rate, rate)),
                abilities: [Requirement::ToolUse].into(),
            }
        };
        let book = ModelBook::of([model("lab:small", 1.0), model("lab:large", 9.0)]);
        Self(Arc::new(book), Mutex::default())
    }
}

impl ModelCatalogPort for Fixed {
    fn book(&self) -> Arc<ModelBook> {
        Arc::clone(&self.0)
    }

    fn resolve(&self, model: &ModelName) -> Resolution {
        let unmapped = |why: String| Resolution::Unmapped { why, alternatives: Vec::new() };
        if model.is_selector() {
            let Ok(selector) = self.0.selector(model) else { return unmapped(format!("{model} cannot be read")) };
            let selection = self.select(&selector, &Needs::default());
            return selection.model.map_or_else(|| unmapped(selection.why), |model| self.resolve(&model));
        }
        match self.0.get(model) {
            Some(entry) => Resolution::Mapped(Arc::clone(entry)),
            None => unmapped(format!("{model} is not in the list")),
        }
    }

    fn price(&self, model: &ModelName) -> Option<ModelPrice> {
        self.0.get(model).and_then(|entry| entry.price.clone())
    }

    fn took(&self, _provider: &str, ms: u64) {
        self.1.lock().expect("not poisoned").push(ms);
    }
}

/// Knows what the models of one laboratory can do.
pub struct Lab;

impl KnownModels for Lab {
    fn abilities(&self, model: &ModelName) -> Option<CapabilityOverrides> {
        let native_tools = Some(model.model().ends_with("-tools"));
        (model.provider() == "lab").then(|| CapabilityOverrides { native_tools, ..CapabilityOverrides::default() })
    }
}

/// Keeps the pages that were to be shown.
#[derive(Default)]
pub struct Pages(Mutex<Vec<String>>);

impl SignInPort for Pages {
    fn open<'a>(&'a self, server: &'a ServerId, page: &'a str) -> BoxFuture<'a, ()> {
        self.0.lock().expect("not poisoned").push(format!("{server}: {page}"));
        Box::pin(std::future::ready(()))
    }
}

#[tokio::test]
async fn a_catalogue_of_ones_own_selects_the_model_of_a_turn_and_knows_its_price() {
    let catalogue = Arc::new(Fixed::default());
    let model = ScriptedLlm::replies(vec![ScriptedReply::text("hello")]);
    let cheapest = ModelSelector::new(Preference::CostFirst).requiring([Requirement::ToolUse]);
    let builder = RuntimeBuilder::new(cheapest.name()).model(Arc::new(model)).models(catalogue.clone());
    // A bound of the cost is kept for models with a known price only: others are refused.
    let builder = builder.limits(Limits { max_cost: Cost::from_amount(1.0), ..Limits::default() });
    let runtime = builder.local_tools(false).build().await.expect("a runtime");
    let request = AgentRequest::text(SessionId::parse("s").expect("an id"), "hi");
    let response = runtime.run(request).await.expect("it is taken").response().clone();
    assert_eq!(response.content, "hello");
    let records = runtime.records(SessionId::parse("s").expect("an id")).await.expect("its journal");
    let text = serde_json::to_string(&records).expect("JSON");
    assert!(text.contains("lab:small") && text.contains("first of 2 candidates"), "{text}");
    assert_eq!(catalogue.1.lock().expect("not poisoned").len(), 1, "the call was measured");
    let own = runtime.models().expect("it has one");
    assert!(matches!(own.resolve(&ModelName::parse("lab:tiny").expect("a name")), Resolution::Unmapped { .. }));
    runtime.shutdown().await;
}

#[test]
fn what_a_program_knows_of_models_is_what_they_can_do() {
    use bob::Providers;
    use bob::model::LlmPort;
    use bob::model::providers::ProviderConfig;
    let base_url = Some("http://127.0.0.1:9/v1".to_owned());
    let lab = ProviderConfig { name: "lab".into(), base_url, ..ProviderConfig::default() };
    let llm = Providers::new().configured(lab).build().expect("a model").with_models(Arc::new(Lab));
    for (name, native_tools) in [("lab:small", false), ("lab:small-tools", true)] {
        let can = llm.capabilities(&ModelName::parse(name).expect("a name")).expect("it is known");
        assert_eq!(can.native_tools, native_tools, "{name}");
    }
}

#[tokio::test]
async fn a_page_to_sign_in_at_is_shown_by_the_program() {
    let pages = Arc::new(Pages::default());
    let sign_ins = SignIns { folder: None, port: Some(pages.clone()) };
    let port = sign_ins.port.expect("it was just given");
    port.open(&ServerId::new("notes"), "https://auth.example/").await;
    assert_eq!(*pages.0.lock().expect("not poisoned"), ["notes: https://auth.example/"]);
}
