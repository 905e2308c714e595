//! Tests of the fakes against the published wire formats.

#[path = "support_tests/anthropic.rs"]
mod anthropic;
#[path = "support_tests/client.rs"]
mod client;
#[path = "support_tests/faults.rs"]
mod faults;
#[path = "support_tests/gemini.rs"]
mod gemini;
#[path = "support_tests/machine.rs"]
mod machine;
#[path = "support_tests/openai.rs"]
mod openai;
