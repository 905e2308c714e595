//! Real providers: their kinds, keys and settings, and what is known of their models.

/// What is known of single models beside the built-in profiles.
///
/// ```
/// use bob::ModelName;
/// use bob::model::providers::{CapabilityOverrides, KnownModels};
///
/// /// The models of one laboratory say by their names what they can do.
/// struct Lab;
///
/// impl KnownModels for Lab {
///     fn abilities(&self, model: &ModelName) -> Option<CapabilityOverrides> {
///         let native_tools = Some(model.model().ends_with("-tools"));
///         (model.provider() == "lab").then(|| CapabilityOverrides { native_tools, ..CapabilityOverrides::default() })
///     }
/// }
/// ```
pub use bob_actors::llm::providers::KnownModels;
pub use bob_actors::llm::providers::*;
