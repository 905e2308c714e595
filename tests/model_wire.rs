//! The model adapters against independent fake providers, over real sockets, in both wire formats: requests, answers
//! and failures.
#![cfg(feature = "genai")]
#![allow(clippy::unwrap_used, reason = "these are tests, their helpers included")]

#[path = "model_wire/answers.rs"]
mod answers;
#[path = "model_wire/client.rs"]
pub(crate) mod client;
#[path = "model_wire/contract.rs"]
mod contract;
#[path = "model_wire/failures.rs"]
mod failures;
#[path = "model_wire/in_code.rs"]
mod in_code;
#[path = "model_wire/requests.rs"]
mod requests;
#[path = "model_wire/retries.rs"]
mod retries;
