//! The context of a request: its tenant and principal, and what its tools and ports need to know of them.

pub use crate::facade::TenantRuntime;
pub use bob_messages::context::{Identity, RequestContext};
pub use bob_messages::ids::{PrincipalId, TenantId};
