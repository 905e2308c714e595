//! What is asked of a model instead of naming one.

use super::price::Rate;
use crate::artifact::ArtifactKind;
use crate::chat::ContentPart;
use crate::ids::{InvalidId, ModelName};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::fmt;

/// An ability of a model that can be required.
#[doc(alias = "ModelCapabilityFlag")]
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Requirement {
    /// Takes tools and answers with calls.
    ToolUse,
    /// Takes pictures.
    Vision,
    /// Takes sound.
    Audio,
    /// Thinks before it answers.
    Reasoning,
    /// Takes a JSON schema for its answer.
    JsonMode,
}

impl Requirement {
    /// All of them.
    pub const ALL: [Self; 5] = [Self::ToolUse, Self::Vision, Self::Audio, Self::Reasoning, Self::JsonMode];

    /// Its name.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::ToolUse => "tool_use",
            Self::Vision => "vision",
            Self::Audio => "audio",
            Self::Reasoning => "reasoning",
            Self::JsonMode => "json_mode",
        }
    }

    /// What these parts require of a model.
    pub fn of(parts: &[ContentPart]) -> BTreeSet<Self> {
        let of_part = |part: &ContentPart| match part {
            ContentPart::Image { .. } => Some(Self::Vision),
            ContentPart::Audio { .. } => Some(Self::Audio),
            ContentPart::Artifact(artifact) => match artifact.kind {
                ArtifactKind::Image => Some(Self::Vision),
                ArtifactKind::Audio => Some(Self::Audio),
                ArtifactKind::Text | ArtifactKind::Json | ArtifactKind::Document | ArtifactKind::Blob => None,
            },
            ContentPart::Text { .. } | ContentPart::Resource { .. } | ContentPart::ResourceLink { .. } => None,
        };
        parts.iter().filter_map(of_part).collect()
    }

    /// The requirement of this name.
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|requirement| requirement.as_str() == name)
    }
}

/// By what the models that fit are ranked.
#[doc(alias = "ModelPreference")]
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Preference {
    /// The expected cost of the request.
    #[default]
    CostFirst,
    /// The measured latency of the provider.
    LatencyFirst,
    /// The operator's quality tiers.
    QualityFirst,
}

impl Preference {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::CostFirst, Self::LatencyFirst, Self::QualityFirst];

    /// Its name.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::CostFirst => "cost_first",
            Self::LatencyFirst => "latency_first",
            Self::QualityFirst => "quality_first",
        }
    }

    /// The preference of this name.
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|preference| preference.as_str() == name)
    }
}

/// What is asked of a model. Its [`name`](Self::name) can stand wherever a model is named.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ModelSelector {
    /// This model, whatever else is said.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub explicit: Option<ModelName>,
    /// What it must be able to do.
    pub require: BTreeSet<Requirement>,
    /// The most a million tokens of prompts may cost, in US dollars; of a model whose price depends on the length of the prompt,
    /// at the estimated length of the request's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_input_price_per_mtok: Option<Rate>,
    /// The most a million tokens of answers may cost, in US dollars, likewise.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_output_price_per_mtok: Option<Rate>,
    /// The least its context must hold, in tokens.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub min_context_tokens: Option<u32>,
    /// By what those that fit are ranked.
    pub preference: Preference,
}

impl ModelSelector {
    /// A selector of only a preference.
    pub fn new(preference: Preference) -> Self {
        Self { preference, ..Self::default() }
    }

    /// With these requirements, too.
    #[must_use]
    pub fn requiring(mut self, require: impl IntoIterator<Item = Requirement>) -> Self {
        self.require.extend(require);
        self
    }

    /// The name by which it can stand where a model is named.
    pub fn name(&self) -> ModelName {
        let mut conditions = Vec::new();
        if let Some(explicit) = &self.explicit {
            conditions.push(format!("explicit={explicit}"));
        }
        if !self.require.is_empty() {
            let required: Vec<_> = self.require.iter().map(|required| required.as_str()).collect();
            conditions.push(format!("require={}", required.join("+")));
        }
        conditions.extend(self.max_input_price_per_mtok.map(|rate| format!("max_input_price_per_mtok={rate}")));
        conditions.extend(self.max_output_price_per_mtok.map(|rate| format!("max_output_price_per_mtok={rate}")));
        conditions.extend(self.min_context_tokens.map(|tokens| format!("min_context_tokens={tokens}")));
        conditions.push(format!("preference={}", self.preference.as_str()));
        ModelName::selecting(&conditions.join(","))
    }

    /// Reads the conditions of a name, which stand behind the colon.
    ///
    /// # Errors
    /// Says what cannot be read.
    pub fn parse(conditions: &str) -> Result<Self, InvalidId> {
        let mut selector = Self::default();
        for condition in conditions.split(',') {
            let (key, value) = condition.split_once('=').unwrap_or((condition, ""));
            let bad = || InvalidId(format!("the selector has {key} = {value:?}; {FORM}"));
            match key {
                "explicit" => {
                    let model = ModelName::parse(value)?;
                    selector.explicit = Some(model).filter(|model| !model.is_selector());
                    selector.explicit.as_ref().ok_or_else(bad)?;
                }
                "require" => {
                    let read = value.split('+').map(|name| Requirement::parse(name).ok_or_else(bad));
                    selector.require = read.collect::<Result<_, _>>()?;
                }
                "max_input_price_per_mtok" => selector.max_input_price_per_mtok = Some(rate(value).ok_or_else(bad)?),
                "max_output_price_per_mtok" => selector.max_output_price_per_mtok = Some(rate(value).ok_or_else(bad)?),
                "min_context_tokens" => selector.min_context_tokens = Some(value.parse().map_err(|_| bad())?),
                "preference" => selector.preference = Preference::parse(value).ok_or_else(bad)?,
                _ => return Err(bad()),
            }
        }
        Ok(selector)
    }
}

const FORM: &str = "conditions are explicit, require (tool_use, vision, audio, reasoning, json_mode, with + between), \
    max_input_price_per_mtok, max_output_price_per_mtok, min_context_tokens and preference (cost_first, latency_first, \
    quality_first), for example select:require=vision+tool_use,preference=cost_first";

fn rate(text: &str) -> Option<Rate> {
    text.parse().ok().filter(|amount: &f64| amount.is_finite() && *amount >= 0.0).map(Rate::from_amount)
}

impl fmt::Display for ModelSelector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.name().fmt(f)
    }
}

impl From<ModelSelector> for ModelName {
    fn from(selector: ModelSelector) -> Self {
        selector.name()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_selector_is_read_as_it_was_written() {
        let all = ModelSelector {
            explicit: Some(ModelName::parse("openai:gpt-4o").unwrap()),
            require: Requirement::ALL.into(),
            max_input_price_per_mtok: Some(Rate::from_amount(0.15)),
            max_output_price_per_mtok: Some(Rate::from_amount(2.0)),
            min_context_tokens: Some(100_000),
            preference: Preference::QualityFirst,
        };
        for selector in [all, ModelSelector::default()] {
            let name = selector.name();
            assert!(name.is_selector());
            assert_eq!(ModelSelector::parse(name.model()).unwrap(), selector, "{name}");
        }
    }

    #[test]
    fn what_cannot_be_read_is_named() {
        let wrong = [
            "fast=1",
            "require=wings",
            "min_context_tokens=many",
            "preference=best",
            "max_input_price_per_mtok=-1",
            "explicit=x",
            "require=",
            "",
            "a,b",
        ];
        for text in wrong {
            let error = ModelSelector::parse(text).unwrap_err().to_string();
            assert!(error.contains("the selector has") || error.contains("is not of the form"), "{text}: {error}");
        }
    }
}
