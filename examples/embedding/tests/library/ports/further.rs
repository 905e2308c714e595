//! The ports beside the model and the servers: what is known of models, and the page to sign in at.

use bob::BoxFuture;
use bob::ModelName;
use bob::model::catalogue::{ModelBook, ModelCatalogPort, ModelPrice, Resolution};
use bob::model::providers::{CapabilityOverrides, KnownModels};
use bob::tools::servers::{ServerId, SignInPort, SignIns};
use std::sync::{Arc, Mutex};

/// A list of models that does not change.
struct Fixed(Arc<ModelBook>);

impl ModelCatalogPort for Fixed {
    fn book(&self) -> Arc<ModelBook> {
        Arc::clone(&self.0)
    }

    fn resolve(&self, model: &ModelName) -> Resolution {
        match self.0.get(model) {
            Some(entry) => Resolution::Mapped(Arc::clone(entry)),
            None => Resolution::Unmapped { why: format!("{model} is not in the list"), alternatives: Vec::new() },
        }
    }

    fn price(&self, model: &ModelName) -> Option<ModelPrice> {
        self.0.get(model).and_then(|entry| entry.price.clone())
    }
}

/// Knows what the models of one laboratory can do.
struct Lab;

impl KnownModels for Lab {
    fn abilities(&self, model: &ModelName) -> Option<CapabilityOverrides> {
        let native_tools = Some(model.model().ends_with("-tools"));
        (model.provider() == "lab").then(|| CapabilityOverrides { native_tools, ..CapabilityOverrides::default() })
    }
}

/// Keeps the pages that were to be shown.
#[derive(Default)]
struct Pages(Mutex<Vec<String>>);

impl SignInPort for Pages {
    fn open<'a>(&'a self, server: &'a ServerId, page: &'a str) -> BoxFuture<'a, ()> {
        self.0.lock().expect("not poisoned").push(format!("{server}: {page}"));
        Box::pin(std::future::ready(()))
    }
}

#[test]
fn a_list_of_models_of_ones_own_says_what_can_be_run() {
    let model = ModelName::parse("lab:small").expect("a name");
    let catalogue: Arc<dyn ModelCatalogPort> = Arc::new(Fixed(Arc::new(ModelBook::closed("nothing was read"))));
    assert!(matches!(catalogue.resolve(&model), Resolution::Unmapped { why, .. } if why.contains("lab:small")));
    assert_eq!((catalogue.price(&model), catalogue.list().is_err()), (None, true));
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
