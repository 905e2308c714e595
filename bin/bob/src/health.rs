//! Health: the state of a runtime and of its actors, counts and latencies.

pub use crate::facade::{RuntimeHealth, RuntimeStatus};
pub use bob_actors::metrics::{
    LatencyBucket, LatencyFigures, LatencyQuantiles, MetricsSnapshot, RestartCounts, TokenCounts, TurnCounts,
};
pub use bob_messages::submission::SessionsLoad;
pub use bob_supervisors::look::NodeStatus;
pub use bob_supervisors::{NodeState, TreeEnd};
pub use enum_map::EnumMap;
