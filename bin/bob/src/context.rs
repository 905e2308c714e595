//! The context of a request: its tenant and principal, and what its tools and ports need to know of them; the limits of
//! tenants.

pub use crate::facade::{TenantRuntime, TenantUse};
pub use bob_messages::context::{Identity, RequestContext};
pub use bob_messages::ids::{PrincipalId, TenantId};
pub use bob_messages::tenants::TenantLimits;
