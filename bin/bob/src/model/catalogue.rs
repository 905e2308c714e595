//! The catalogue of models: prices, capabilities, and the selection of a model by what is asked of it.
//!
//! ```
//! use bob::model::catalogue::{Catalogue, CatalogueSettings, ModelFacts, ModelSelector, Preference, Requirement};
//! use bob::model::{ScriptedLlm, ScriptedReply};
//! use bob::{AgentRuntime, AgentRuntimeExt, ModelName, RuntimeBuilder};
//! use std::sync::Arc;
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let model = Arc::new(ScriptedLlm::replies(vec![ScriptedReply::text("Hello.")]));
//! let selector = ModelSelector::new(Preference::CostFirst).requiring([Requirement::ToolUse]);
//! let facts = ModelFacts::open(CatalogueSettings::default());
//! // Any model of the catalogue that is built in, since this port runs them all.
//! let catalogue = Catalogue::new(facts, model.clone());
//! let runtime = RuntimeBuilder::new(selector.name()).model(model).models(catalogue).build().await?;
//! assert_eq!(runtime.ask("Hi.").await?, "Hello.");
//! # runtime.shutdown().await;
//! # Ok(())
//! # }
//! ```

/// What a catalogue of models does, for [`RuntimeBuilder::models`](crate::RuntimeBuilder::models). [`Catalogue`] is the one of
/// the library.
///
/// ```
/// use bob::model::catalogue::{ModelBook, ModelCatalogPort, ModelEntry, ModelPrice, Rate, Resolution};
/// use bob::model::{ScriptedLlm, ScriptedReply};
/// use bob::{AgentRuntime, AgentRuntimeExt, ModelName, RuntimeBuilder};
/// use std::sync::Arc;
///
/// /// A list of models that does not change.
/// struct Fixed(Arc<ModelBook>);
///
/// impl ModelCatalogPort for Fixed {
///     fn book(&self) -> Arc<ModelBook> {
///         Arc::clone(&self.0)
///     }
///
///     fn resolve(&self, model: &ModelName) -> Resolution {
///         match self.0.get(model) {
///             Some(entry) => Resolution::Mapped(Arc::clone(entry)),
///             None => Resolution::Unmapped { why: format!("{model} is not in the list"), alternatives: Vec::new() },
///         }
///     }
///
///     fn price(&self, model: &ModelName) -> Option<ModelPrice> {
///         self.0.get(model).and_then(|entry| entry.price.clone())
///     }
/// }
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let price = ModelPrice::usd(Rate::from_amount(0.1), Rate::from_amount(0.4));
/// let small = ModelEntry {
///     name: ModelName::parse("lab:small")?,
///     context_tokens: Some(32_000),
///     max_output_tokens: None,
///     price: Some(price),
///     abilities: [].into(),
/// };
/// let model = ScriptedLlm::replies(vec![ScriptedReply::text("Hello.")]);
/// let runtime = RuntimeBuilder::new(ModelName::parse("select:preference=cost_first")?)
///     .model(Arc::new(model))
///     .models(Arc::new(Fixed(Arc::new(ModelBook::of([small])))))
///     .build()
///     .await?;
/// assert_eq!(runtime.ask("Hi.").await?, "Hello.");
/// # runtime.shutdown().await;
/// # Ok(())
/// # }
/// ```
pub use bob_actors::models::ModelCatalogPort;
pub use bob_actors::models::{
    Catalogue, CatalogueError, CatalogueSettings, Catalogued, FormatError, ModelFacts, Resolution, Source, formats,
};
/// A model by what is asked of it.
///
/// ```
/// use bob::model::catalogue::{ModelSelector, Preference, Requirement};
///
/// let selector = ModelSelector::new(Preference::CostFirst).requiring([Requirement::Vision, Requirement::ToolUse]);
/// let name = selector.name();
/// assert_eq!(name.as_str(), "select:require=tool_use+vision,preference=cost_first");
/// assert_eq!(ModelSelector::parse(name.model()).unwrap(), selector);
/// ```
pub use bob_messages::models::ModelSelector;
pub use bob_messages::models::{
    Cost, LatencyClass, Listing, ModelBook, ModelEntry, ModelPrice, Needs, Preference, PriceTier, ProviderStanding,
    Ranked, Rate, Recorded, Refused, Requirement, Selected, Selection, select,
};
