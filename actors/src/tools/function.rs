//! A tool made of one closure.
//!
//! The short way to a tool for an embedding program, and the way Bob's own tools
//! are made: the schema is derived from the type of the arguments.

use super::concerned::Concerned;
use super::port::{Concern, Invocation, Leaving, ToolError, ToolPort};
use bob_messages::chat::ToolCall;
use bob_messages::ids::{SessionId, ToolName};
use bob_messages::tools::{CallContext, Risk, ToolDescriptor, ToolKind, ToolOutput};
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use schemars::JsonSchema;
use schemars::generate::SchemaSettings;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use std::any::Any;
use std::fmt;
use std::future::{Future, ready};
use std::sync::Arc;

type Run = dyn Fn(Invocation) -> BoxFuture<'static, Result<ToolOutput, ToolError>> + Send + Sync;

type Look = dyn Fn(&ToolCall, &CallContext) -> Option<Concern> + Send + Sync;

type Limit = dyn Fn(&ToolCall, Option<u64>) -> u64 + Send + Sync;

/// A port with one tool, made by [`tool`].
pub struct FnTool {
    descriptor: ToolDescriptor,
    run: Box<Run>,
    look: Option<Arc<Look>>,
    /// What was found about calls that have not run; `None` where that is not looked for again.
    concerned: Option<Arc<Concerned>>,
    limit: Option<Box<Limit>>,
    leaves: Option<Arc<dyn Leaving>>,
}

/// Makes a tool of an async function, or of a closure, that takes typed arguments and the call's invocation.
///
/// The tool is of medium risk, neither idempotent nor read-only, until the methods
/// of [`FnTool`] say otherwise. So its calls need a person's approval, and a request that says nothing about approvals has
/// them denied: call [`read_only`](FnTool::read_only) on a tool that changes nothing. For any other, the request has the
/// mode [`Auto`](bob_messages::permission::PermissionMode::Auto) or a person is asked, or the policy allows the tool.
/// Arguments that do not fit their type never reach
/// the function; give the type `deny_unknown_fields` to refuse what it does not know.
///
/// The function returns any value that can be serialised: a text is the result as it is, a [`ToolOutput`] too, and any
/// other value is the result as JSON, and its structured content. Inside it `?` converts every type that implements
/// [`std::error::Error`]; [`ToolError`] says what to do with others.
pub fn tool<A, R, F>(name: &str, description: &str, run: impl Fn(A, Invocation) -> F + Send + Sync + 'static) -> FnTool
where
    A: DeserializeOwned + JsonSchema + Send + 'static,
    R: Serialize + 'static,
    F: Future<Output = Result<R, ToolError>> + Send + 'static,
{
    let descriptor = ToolDescriptor::new(ToolName::new(name), description, schema_of::<A>());
    let run = move |invocation: Invocation| match invocation.arguments::<A>() {
        Ok(arguments) => {
            let returned = run(arguments, invocation);
            async move { returned.await.and_then(output_of) }.boxed()
        }
        Err(error) => std::future::ready(Err(error)).boxed(),
    };
    FnTool { descriptor, run: Box::new(run), look: None, concerned: None, limit: None, leaves: None }
}

impl FnTool {
    /// What people call it; the tool's own name otherwise.
    pub fn title(mut self, title: impl Into<String>) -> Self {
        self.descriptor.title = title.into();
        self
    }

    /// What it does, in one word.
    pub fn kind(mut self, kind: ToolKind) -> Self {
        self.descriptor.kind = kind;
        self
    }

    /// What may go wrong when it runs.
    pub fn risk(mut self, risk: Risk) -> Self {
        self.descriptor.risk = risk;
        self
    }

    /// Running it twice is the same as running it once.
    pub fn idempotent(mut self) -> Self {
        self.descriptor.idempotent = true;
        self
    }

    /// It changes nothing: low risk, idempotent, and runs beside other such calls.
    pub fn read_only(mut self) -> Self {
        self.descriptor.read_only = true;
        self.descriptor.idempotent = true;
        self.descriptor.risk = Risk::Low;
        self
    }

    /// What its calls name is looked at first, see [`ToolPort::concern`]. The closure may block: it runs on a thread for
    /// that, and one that panics refuses the call.
    pub fn looked_at(
        mut self,
        look: impl Fn(&ToolCall, &CallContext) -> Option<Concern> + Send + Sync + 'static,
    ) -> Self {
        self.look = Some(Arc::new(look));
        self
    }

    /// How long a call may run, in milliseconds, see [`ToolPort::limit_ms`].
    pub fn limited(mut self, limit_ms: impl Fn(&ToolCall, Option<u64>) -> u64 + Send + Sync + 'static) -> Self {
        self.limit = Some(Box::new(limit_ms));
        self
    }
}

#[cfg(any(test, feature = "local-tools"))]
impl FnTool {
    /// Its calls leave this running.
    pub(crate) fn leaving(mut self, leaves: Arc<dyn Leaving>) -> Self {
        self.leaves = Some(leaves);
        self
    }

    /// What its calls name is looked at once more when they run: a call before them may have changed where a path leads.
    pub(crate) fn looked_at_again(mut self) -> Self {
        self.concerned = Some(Arc::default());
        self
    }

    /// It comes with Bob.
    pub(crate) fn local(mut self) -> Self {
        self.descriptor.source = bob_messages::tools::ToolSource::Local;
        leave_out_noise(&mut self.descriptor.schema);
        self
    }
}

impl FnTool {
    #[cfg(feature = "local-tools")]
    pub(crate) fn name(&self) -> &ToolName {
        &self.descriptor.id
    }

    #[cfg(test)]
    pub(crate) fn listed(&self) -> Vec<ToolDescriptor> {
        vec![self.descriptor.clone()]
    }
}

impl fmt::Debug for FnTool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FnTool").field("descriptor", &self.descriptor).finish_non_exhaustive()
    }
}

impl ToolPort for FnTool {
    fn list_tools(&self) -> BoxFuture<'_, Vec<ToolDescriptor>> {
        Box::pin(ready(vec![self.descriptor.clone()]))
    }

    fn call_tool(&self, invocation: Invocation) -> BoxFuture<'_, Result<ToolOutput, ToolError>> {
        let (Some(concerned), Some(look)) = (&self.concerned, &self.look) else { return (self.run)(invocation) };
        let (call, context) = (Arc::clone(&invocation.call), Arc::clone(&invocation.context));
        let again = looked(look, &call, &context);
        async move {
            concerned.runs(&context.session, &call, again.await)?;
            (self.run)(invocation).await
        }
        .boxed()
    }

    fn concern(&self, call: &Arc<ToolCall>, context: &Arc<CallContext>) -> Option<BoxFuture<'static, Option<Concern>>> {
        let looked = looked(self.look.as_ref()?, call, context);
        let Some(concerned) = self.concerned.clone() else { return Some(looked) };
        let (session, call) = (context.session.clone(), call.id.clone());
        Some(looked.inspect(move |concern| concerned.judged(&session, &call, concern.as_ref())).boxed())
    }

    fn limit_ms(&self, call: &ToolCall, ruled_ms: Option<u64>) -> Option<u64> {
        self.limit.as_ref().map(|limit| limit(call, ruled_ms))
    }

    fn host_ended(&self) {
        self.leaves.iter().for_each(|leaves| leaves.host_ended());
    }

    fn session_ended(&self, session: &SessionId) {
        self.leaves.iter().for_each(|leaves| leaves.session_ended(session));
    }
}

fn looked(look: &Arc<Look>, call: &Arc<ToolCall>, context: &Arc<CallContext>) -> BoxFuture<'static, Option<Concern>> {
    let (look, call, context) = (Arc::clone(look), Arc::clone(call), Arc::clone(context));
    let looked = async move {
        let looked = tokio::task::spawn_blocking(move || look(&call, &context)).await;
        looked.unwrap_or_else(|_panicked| Some(Concern::Deny("what the call names could not be looked at".to_owned())))
    };
    looked.boxed()
}

fn output_of<R: Serialize + 'static>(returned: R) -> Result<ToolOutput, ToolError> {
    let mut returned = Some(returned);
    let any: &mut dyn Any = &mut returned;
    if let Some(output) = any.downcast_mut::<Option<ToolOutput>>().and_then(Option::take) {
        return Ok(output);
    }
    match serde_json::to_value(&returned) {
        Ok(Value::String(text)) => Ok(ToolOutput::text(text)),
        Ok(json) => Ok(ToolOutput { structured: Some(json.clone()), ..ToolOutput::text(json.to_string()) }),
        Err(error) => Err(ToolError::new(format!("the result cannot be written as JSON: {error}"))),
    }
}

/// The schema of a type without what a model has no use for: everything inline,
/// no title and no address of a metaschema. Small models read every byte of it.
pub fn schema_of<A: JsonSchema>() -> Value {
    let settings = SchemaSettings::draft2020_12().with(|settings| {
        settings.meta_schema = None;
        settings.inline_subschemas = true;
    });
    let mut schema = settings.into_generator().into_root_schema_for::<A>();
    schema.remove("title");
    schema.to_value()
}

/// Leaves out of a schema what says nothing to a model: the width of integers, which some providers refuse, and defaults
/// that are nothing.
#[cfg(any(test, feature = "local-tools"))]
fn leave_out_noise(schema: &mut Value) {
    match schema {
        Value::Object(keys) => {
            if keys.get("type").is_some_and(|kind| kind == "integer") {
                keys.remove("format");
            }
            if keys.get("default").is_some_and(|default| default.is_null() || *default == Value::Bool(false)) {
                keys.remove("default");
            }
            keys.values_mut().for_each(leave_out_noise);
        }
        Value::Array(parts) => parts.iter_mut().for_each(leave_out_noise),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}
