//! Tools: how a program makes them, what a call of one is, and the policy over all calls.
//!
//! [`tool`] makes one of an async function; [`ToolPort`] is for programs that have many, or learn of them late.

pub mod agents;
pub mod file_changes;
pub mod hooks;
pub mod servers;
pub mod skills;

/// The port of tools, for [`RuntimeBuilder::tools`](crate::RuntimeBuilder::tools). [`tool`] makes a port of one function.
///
/// ```
/// use bob::BoxFuture;
/// use bob::tools::{Invocation, ToolDescriptor, ToolError, ToolName, ToolOutput, ToolPort};
/// use serde_json::json;
///
/// /// One tool for each city, which it learns of when it starts.
/// struct Weather(Vec<String>);
///
/// impl ToolPort for Weather {
///     fn list_tools(&self) -> BoxFuture<'_, Vec<ToolDescriptor>> {
///         let schema = json!({"type": "object", "properties": {}});
///         let one = |city: &String| {
///             let id = ToolName::new(format!("weather/{city}"));
///             let tool = ToolDescriptor::new(id, format!("The weather in {city}."), schema.clone());
///             tool.with_read_only(true).with_idempotent(true)
///         };
///         Box::pin(std::future::ready(self.0.iter().map(one).collect()))
///     }
///
///     fn call_tool(&self, invocation: Invocation) -> BoxFuture<'_, Result<ToolOutput, ToolError>> {
///         let city = invocation.call.name.own_name().to_owned();
///         Box::pin(async move { Ok(ToolOutput::text(format!("In {city} it rains."))) })
///     }
/// }
/// # use futures_util::FutureExt;
/// # let listed = Weather(vec!["ulm".into()]).list_tools().now_or_never().unwrap();
/// # assert_eq!(listed[0].id.as_str(), "weather/ulm");
/// ```
pub use bob_actors::tools::ToolPort;
#[cfg(feature = "local-tools")]
pub use bob_actors::tools::local::{Kernel, Protection, SECRET_FILES, Sandbox, SandboxMode};
pub use bob_actors::tools::output::{MAX_SCHEMA_BYTES, SchemaError, check_schema};
pub use bob_actors::tools::policy::{DENIED_COMMANDS, Policy, PolicyError, Rules, ToolOverride};
/// Makes a tool of an async function, for [`RuntimeBuilder::tools`](crate::RuntimeBuilder::tools).
///
/// There is no attribute macro for that. It would be one more package, a macro that parses functions with `syn`, which every
/// program that uses this library compiles whether or not it uses it, and all it would save is this call: a name, a
/// description, and the function.
///
/// ```
/// use bob::tools::{Invocation, ToolError, tool};
///
/// #[derive(serde::Deserialize, schemars::JsonSchema)]
/// struct Path { path: String }
///
/// #[derive(serde::Serialize)]
/// struct Size { bytes: usize, lines: usize }
///
/// async fn size(file: Path, _call: Invocation) -> Result<Size, ToolError> {
///     let bytes = tokio::task::spawn_blocking(move || std::fs::read(file.path)).await??;
///     let lines = std::str::from_utf8(&bytes)?.lines().count();
///     Ok(Size { bytes: bytes.len(), lines })
/// }
///
/// let tool = tool("demo/size", "Returns the size of a text file.", size).read_only();
/// # let _ = tool;
/// ```
pub use bob_actors::tools::tool;
#[cfg(feature = "web")]
pub use bob_actors::tools::web::web_fetch;
pub use bob_actors::tools::{Concern, FnTool, Invocation, ProgressRoom, ProgressSink, ToolError, schema_of};
pub use bob_messages::chat::{CallStatus, ServerWait, ToolCall};
pub use bob_messages::ids::{CallId, ToolName};
pub use bob_messages::reply::SoFar;
pub use bob_messages::tools::{
    AgentLine, BackgroundCommand, CallContext, CallTraits, ChildTerms, FileChange, Location, Risk, RiskSource,
    TextEncoding, ToolDescriptor, ToolKind, ToolOutput, ToolReturn, ToolSet, ToolSource, ToolTitle,
};
