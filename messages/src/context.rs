//! The context of a request: on whose behalf it is made, and what its tools and ports need to know of that.

use crate::ids::{PrincipalId, TenantId};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::BTreeMap;

/// The context of a request. Journaled with the input, and the same in every run of its turn: after a resumption, and
/// after a crash in another process. Tools, models, approval ports and the children of the turn are given it.
///
/// It holds no secrets: [`secrets`](Self::secrets) has their names; a tool looks them up where the program keeps them.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct RequestContext {
    /// The organisation the request belongs to. A session belongs to the tenant of its first input, or to none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tenant: Option<TenantId>,
    /// The user or service the request is made for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub principal: Option<PrincipalId>,
    /// Short texts by name.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
    /// The program's own data; `null` for none.
    #[serde(skip_serializing_if = "Value::is_null")]
    pub data: Value,
    /// The names of secrets that the turn's tools may look up; never their values.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub secrets: Vec<String>,
}

impl RequestContext {
    /// The most bytes of a tenant, a principal, the name of a label or the name of a secret.
    pub const MAX_NAME_BYTES: usize = 128;
    /// The most labels.
    pub const MAX_LABELS: usize = 32;
    /// The most bytes of the value of a label.
    pub const MAX_LABEL_BYTES: usize = 1024;
    /// The most bytes of the data, as JSON.
    pub const MAX_DATA_BYTES: usize = 16 * 1024;
    /// How deeply the data may be nested.
    pub const MAX_DATA_DEPTH: usize = 32;
    /// The most names of secrets.
    pub const MAX_SECRETS: usize = 16;

    /// A context with only a tenant.
    pub fn of_tenant(tenant: impl Into<TenantId>) -> Self {
        Self { tenant: Some(tenant.into()), ..Self::default() }
    }

    /// A context with only a principal, for programs without tenants.
    pub fn of_principal(principal: impl Into<PrincipalId>) -> Self {
        Self { principal: Some(principal.into()), ..Self::default() }
    }

    /// Sets the principal.
    #[must_use]
    pub fn principal(mut self, principal: impl Into<PrincipalId>) -> Self {
        self.principal = Some(principal.into());
        self
    }

    /// Sets a label.
    #[must_use]
    pub fn label(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.labels.insert(name.into(), value.into());
        self
    }

    /// Sets the program's own data.
    ///
    /// # Errors
    /// Returns an error if the value cannot be written as JSON.
    pub fn data(mut self, data: &impl Serialize) -> Result<Self, serde_json::Error> {
        self.data = serde_json::to_value(data)?;
        Ok(self)
    }

    /// Adds the name of a secret.
    #[must_use]
    pub fn secret(mut self, name: impl Into<String>) -> Self {
        self.secrets.push(name.into());
        self
    }

    /// Returns the program's own data.
    ///
    /// # Errors
    /// Returns an error if the data has another form.
    pub fn data_as<T: DeserializeOwned>(&self) -> Result<T, serde_json::Error> {
        T::deserialize(&self.data)
    }

    /// Returns tenant and principal.
    pub fn identity(&self) -> Identity {
        Identity { tenant: self.tenant.clone(), principal: self.principal.clone() }
    }

    /// Checks the bounds.
    ///
    /// # Errors
    /// Returns what is wrong, and what is accepted instead.
    pub fn check(&self) -> Result<(), ContextError> {
        self.tenant.iter().try_for_each(|tenant| named("tenant", tenant.as_str()))?;
        self.principal.iter().try_for_each(|principal| named("principal", principal.as_str()))?;
        at_most("labels", self.labels.len(), Self::MAX_LABELS)?;
        for (name, value) in &self.labels {
            named("label", name)?;
            bounded(|| format!("label {name:?}"), value.len(), Self::MAX_LABEL_BYTES)?;
        }
        if depth(&self.data, Self::MAX_DATA_DEPTH) > Self::MAX_DATA_DEPTH {
            return Err(ContextError::TooDeep { most: Self::MAX_DATA_DEPTH });
        }
        let bytes = serde_json::to_vec(&self.data).map_or(usize::MAX, |json| json.len());
        bounded(|| "data".to_owned(), bytes, Self::MAX_DATA_BYTES)?;
        at_most("secrets", self.secrets.len(), Self::MAX_SECRETS)?;
        match self.secrets.iter().all(|name| is_reference(name)) {
            true => Ok(()),
            false => Err(ContextError::NotAReference),
        }
    }
}

/// What is wrong with a [`RequestContext`]. It repeats neither its data nor the names of its secrets.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ContextError {
    /// A name is empty.
    #[error("the context has {} with an empty name; leave it out for none", with_article(what))]
    EmptyName {
        /// What has that name: `tenant`, `principal` or `label`.
        what: &'static str,
    },
    /// A name has a control character.
    #[error("the name of the context's {what} {name:?} has a control character")]
    ControlCharacter {
        /// What has that name: `tenant`, `principal` or `label`.
        what: &'static str,
        /// The name.
        name: String,
    },
    /// A part has too many bytes.
    #[error("the context's {part} has {bytes} bytes; at most {most} are accepted")]
    TooLarge {
        /// The part.
        part: String,
        /// How many it has.
        bytes: usize,
        /// How many are accepted.
        most: usize,
    },
    /// There are too many of a kind.
    #[error("the context has {count} {parts}; at most {most} are accepted")]
    TooMany {
        /// Of which kind: `labels` or `secrets`.
        parts: &'static str,
        /// How many there are.
        count: usize,
        /// How many are accepted.
        most: usize,
    },
    /// The data is nested too deeply.
    #[error("the context's data is nested too deeply; at most {most} levels are accepted")]
    TooDeep {
        /// How many levels are accepted.
        most: usize,
    },
    /// A secret is not a name.
    #[error(
        "a secret of the context is not a name: expected 1 to {} letters, digits, `_`, `-`, `.`, `/` or `:`; give the name under \
         which a tool finds the secret, never its value",
        RequestContext::MAX_NAME_BYTES
    )]
    NotAReference,
}

/// To whom a lasting decision belongs: tenant and principal of the request whose call was decided about. A decision
/// applies to requests with the same identity only.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(default)]
pub struct Identity {
    /// The tenant.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tenant: Option<TenantId>,
    /// The principal.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub principal: Option<PrincipalId>,
}

impl Identity {
    /// The identity of a request with this context.
    pub fn of(context: Option<&RequestContext>) -> Self {
        context.map(RequestContext::identity).unwrap_or_default()
    }

    /// Whether there is neither a tenant nor a principal.
    pub fn is_none(&self) -> bool {
        self.tenant.is_none() && self.principal.is_none()
    }

    /// Whether it is that of a request with this context.
    pub fn is_of(&self, context: Option<&RequestContext>) -> bool {
        let (tenant, principal) = context.map_or((&None, &None), |context| (&context.tenant, &context.principal));
        self.tenant == *tenant && self.principal == *principal
    }
}

fn with_article(what: &'static str) -> &'static str {
    if what == "label" { "a label" } else { what }
}

fn named(what: &'static str, name: &str) -> Result<(), ContextError> {
    if name.is_empty() {
        return Err(ContextError::EmptyName { what });
    }
    if name.chars().any(char::is_control) {
        return Err(ContextError::ControlCharacter { what, name: name.to_owned() });
    }
    bounded(|| format!("{what} name"), name.len(), RequestContext::MAX_NAME_BYTES)
}

fn bounded(part: impl FnOnce() -> String, bytes: usize, most: usize) -> Result<(), ContextError> {
    match bytes <= most {
        true => Ok(()),
        false => Err(ContextError::TooLarge { part: part(), bytes, most }),
    }
}

fn at_most(parts: &'static str, count: usize, most: usize) -> Result<(), ContextError> {
    match count <= most {
        true => Ok(()),
        false => Err(ContextError::TooMany { parts, count, most }),
    }
}

/// Whether this can be the name of a secret.
fn is_reference(name: &str) -> bool {
    let fits = (1..=RequestContext::MAX_NAME_BYTES).contains(&name.len());
    fits && name.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.' | '/' | ':'))
}

/// How deeply a value is nested; a text or number is one level deep. Looks no deeper than one level below `most`.
fn depth(value: &Value, most: usize) -> usize {
    let below = |inner: &Value| if most == 0 { 1 } else { depth(inner, most - 1) };
    1 + match value {
        Value::Array(items) => items.iter().map(below).max().unwrap_or(0),
        Value::Object(fields) => fields.values().map(below).max().unwrap_or(0),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_context_has_bounds_and_an_error_for_each() {
        let fits = RequestContext::of_tenant("acme").principal("ann").label("a", "b").secret("a/b:c_d-e.f");
        assert_eq!(fits.check(), Ok(()));
        let long = "x".repeat(RequestContext::MAX_NAME_BYTES + 1);
        let nested = (0..RequestContext::MAX_DATA_DEPTH).fold(json!(1), |inner, _| json!([inner]));
        let many = (0..=RequestContext::MAX_LABELS)
            .fold(RequestContext::default(), |context, number| context.label(number.to_string(), ""));
        let secrets =
            (0..=RequestContext::MAX_SECRETS).fold(RequestContext::default(), |context, _| context.secret("s"));
        let refused = [
            (RequestContext::of_tenant(""), "empty"),
            (RequestContext::of_tenant(long.as_str()), "the context's tenant name has 129 bytes; at most 128"),
            (RequestContext::of_principal("a\nb"), "control character"),
            (RequestContext::default().label("a", "x".repeat(1025)), "label \"a\" has 1025 bytes; at most 1024"),
            (many, "33 labels; at most 32"),
            (RequestContext::default().data(&nested).unwrap(), "nested too deeply; at most 32"),
            (RequestContext::default().data(&"x".repeat(16 * 1024)).unwrap(), "has 16386 bytes; at most 16384"),
            (secrets, "17 secrets; at most 16"),
            (RequestContext::default().secret("hunter2 !"), "never its value"),
        ];
        for (context, expected) in refused {
            let why = context.check().unwrap_err().to_string();
            assert!(why.contains(expected) && !why.contains("hunter2"), "{why}");
        }
        let deep = (1..RequestContext::MAX_DATA_DEPTH).fold(json!(1), |inner, _| json!({"a": inner}));
        assert_eq!(RequestContext::default().data(&deep).unwrap().check(), Ok(()));
    }

    #[test]
    fn what_is_absent_is_not_written_and_all_of_it_is_read_again() {
        assert_eq!(serde_json::to_string(&RequestContext::default()).unwrap(), "{}");
        let context = RequestContext::of_tenant("acme").principal("ann").label("a", "b").secret("s");
        let context = context.data(&json!({"seats": [1, 2]})).unwrap();
        let text = serde_json::to_string(&context).unwrap();
        assert_eq!(serde_json::from_str::<RequestContext>(&text).unwrap(), context);
        assert!(context.identity().is_of(Some(&context)) && !context.identity().is_of(None));
        assert!(Identity::default().is_none() && Identity::default().is_of(Some(&RequestContext::default())));
    }
}
