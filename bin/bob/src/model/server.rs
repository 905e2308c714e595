//! The programs that serve a model on this machine.

pub use bob_actors::model_server::{
    Endpoint, InvalidEndpoint, ModelServerSpec, ModelServers, PORT, ProgressListener, STATE,
};
