//! Hooks: what has a say in calls beside policy, mode and people, in code or as programs.

pub use bob_actors::hooks::{HookPoint, HookProgram, HookPrograms, OnFailure};
pub use bob_actors::tools::HookedCall;
/// The port of hooks in code, for [`RuntimeBuilder::tool_hook`](crate::RuntimeBuilder::tool_hook).
///
/// ```
/// use bob::BoxFuture;
/// use bob::tools::Concern;
/// use bob::tools::hooks::{HookedCall, ToolHook};
///
/// /// Lets no call of a tool server run at the weekend.
/// struct Weekdays(fn() -> bool);
///
/// impl ToolHook for Weekdays {
///     fn before_call(&self, call: &HookedCall) -> Option<BoxFuture<'static, Option<Concern>>> {
///         let is_weekend = self.0;
///         let is_servers = call.call.name.as_str().starts_with("mcp/");
///         is_servers.then(|| -> BoxFuture<'static, Option<Concern>> {
///             Box::pin(async move { is_weekend().then(|| Concern::Deny("servers rest at the weekend".into())) })
///         })
///     }
/// }
/// ```
pub use bob_actors::tools::ToolHook;
