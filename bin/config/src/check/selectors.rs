//! Rules for selectors of models and where they are named.

use bob::model::catalogue::ModelSelector;

use crate::keys::{ID_FORM, is_id};
use crate::problem::Findings;
use crate::tree::{self, Item, Table};

pub(super) fn check(root: &Table<'_>, findings: &mut Findings) {
    let aliases = root.get("models").and_then(tree::table);
    for (name, item) in aliases.into_iter().flat_map(|aliases| aliases.iter()) {
        if !is_id(name.get_ref()) {
            findings.add(name.span(), format!("the name of a selector {ID_FORM}"));
        }
        let Some(selector) = tree::table(item) else { continue };
        let path = format!("models.{}", name.get_ref());
        if let Some(explicit) = selector.get("explicit").filter(|explicit| selects(explicit).is_some()) {
            findings.add(explicit.span(), format!("`{path}.explicit` must name a model, not another selector"));
        }
        let preference = selector.get("preference").filter(|item| tree::text(item) == Some("quality_first"));
        if let Some(preference) = preference.filter(|_| tree::get(root, "models_catalog.quality_tiers").is_none()) {
            findings.add(
                preference.span(),
                format!("`{path}.preference`: quality_first needs `models_catalog.quality_tiers`"),
            );
        }
    }
    for key in ["runtime.default_model", "prompt.condense_model"] {
        tree::get(root, key).into_iter().for_each(|item| check_selector(root, key, item, findings));
    }
    let fallback = tree::get(root, "llm.fallback").and_then(tree::list);
    for item in fallback.into_iter().flat_map(|list| list.iter()).filter(|item| selects(item).is_some()) {
        findings.add(item.span(), "`llm.fallback` must name models: nothing is selected during an outage".to_owned());
    }
}

/// Adds an error if a key names a selector that does not exist.
pub(super) fn check_selector(root: &Table<'_>, key: &str, item: &Item<'_>, findings: &mut Findings) {
    let Some(conditions) = selects(item) else { return };
    let aliases = root.get("models").and_then(tree::table);
    if aliases.is_some_and(|aliases| aliases.get(conditions).is_some()) {
        return;
    }
    let wrong = match conditions.contains('=') {
        true => ModelSelector::parse(conditions).err().map(|error| error.to_string()),
        false => Some(format!("there is no [models.{conditions}]")),
    };
    if let Some(wrong) = wrong {
        findings.add(item.span(), format!("`{key}`: {wrong}"));
    }
}

fn selects<'t>(item: &'t Item<'_>) -> Option<&'t str> {
    tree::text(item)?.strip_prefix("select:")
}
