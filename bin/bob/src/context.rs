//! The context of a request: its tenant and principal, and what its tools and ports need to know of them; the limits of
//! tenants.

pub use crate::facade::{TenantRuntime, TenantUse};
/// On whose behalf a request is made, for [`AgentRequest::context`](crate::AgentRequest::context).
///
/// ```
/// use bob::context::RequestContext;
///
/// #[derive(serde::Serialize, serde::Deserialize, PartialEq, Debug)]
/// struct Plan { seats: u32 }
///
/// let context = RequestContext::of_tenant("acme")
///     .principal("ann")
///     .label("region", "eu")
///     .data(&Plan { seats: 3 })?
///     .secret("acme/crm-token");
/// assert_eq!(context.data_as::<Plan>()?, Plan { seats: 3 });
/// assert_eq!(context.check(), Ok(()));
/// # Ok::<(), serde_json::Error>(())
/// ```
pub use bob_messages::context::RequestContext;
pub use bob_messages::context::{ContextError, Identity};
pub use bob_messages::ids::{PrincipalId, TenantId};
pub use bob_messages::tenants::TenantLimits;
