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

pub use bob_actors::models::{
    Catalogue, CatalogueSettings, Catalogued, FormatError, ModelCatalogPort, ModelFacts, Resolution, Source, formats,
};
pub use bob_messages::models::{
    Cost, LatencyClass, Listing, ModelBook, ModelEntry, ModelPrice, ModelSelector, Needs, Preference, PriceTier,
    Ranked, Rate, Recorded, Refused, Requirement, Selected, Selection, Standing, select,
};
