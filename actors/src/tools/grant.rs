//! Permission for exactly one call.
//!
//! A grant is a keyed hash over the call's id, its tool with its definition, and its
//! arguments. The key
//! is drawn when the room starts and never leaves it, so a grant cannot be made
//! elsewhere, moved to another call or kept over a restart.

use bob_messages::chat::ToolCall;
use bob_messages::tools::{Grant, ToolDescriptor};
use serde_json::Value;
use std::fmt;
use std::io;

/// Beyond this, two whole numbers may be the same to JSON's canonical form.
const EXACT_INTEGERS: u64 = 1 << 53;

/// The room's own key.
pub(crate) struct RoomKey([u8; 32]);

impl RoomKey {
    /// Draws a key from the system.
    ///
    /// # Errors
    /// When the system has no randomness to give.
    pub(crate) fn draw() -> io::Result<Self> {
        let mut key = [0; 32];
        let mut drawn = 0;
        while drawn < key.len() {
            drawn += rustix::rand::getrandom(&mut key[drawn..], rustix::rand::GetRandomFlags::empty())?;
        }
        Ok(Self(key))
    }

    /// Gives permission for this call of a tool with this definition. `canonical` is
    /// its arguments in canonical form.
    pub(crate) fn grant(&self, call: &ToolCall, definition: &Definition, canonical: &[u8]) -> Grant {
        Grant { call: call.id.clone(), seal: self.seal(call, definition, canonical).to_hex().to_string() }
    }

    /// Whether the grant was given by this room for exactly this call, of the tool as
    /// it is now.
    pub(crate) fn covers(&self, call: &ToolCall, definition: &Definition, grant: &Grant) -> bool {
        let (Ok(canonical), Ok(given)) = (canonical(&call.arguments), blake3::Hash::from_hex(&grant.seal)) else {
            return false;
        };
        grant.call == call.id && self.seal(call, definition, &canonical) == given
    }

    fn seal(&self, call: &ToolCall, definition: &Definition, canonical: &[u8]) -> blake3::Hash {
        let mut hasher = blake3::Hasher::new_keyed(&self.0);
        for field in [call.id.as_str().as_bytes(), call.name.as_str().as_bytes(), definition.0.as_bytes(), canonical] {
            // The length goes first, so that no two lists of fields look the same.
            hasher.update(&(field.len() as u64).to_le_bytes());
            hasher.update(field);
        }
        seal_large_integers(&mut hasher, &call.arguments);
        hasher.finalize()
    }
}

impl fmt::Debug for RoomKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("RoomKey")
    }
}

/// What a tool is, in a few bytes: a tool whose name stayed and whose definition
/// changed is another tool, and no permission for the one is good for the other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Definition(blake3::Hash);

impl Definition {
    /// The definition as the tool's owner gave it.
    pub(crate) fn of(tool: &ToolDescriptor) -> Self {
        let mut hasher = blake3::Hasher::new();
        match serde_json::to_writer(&mut hasher, tool) {
            Ok(()) => {}
            // A descriptor is plain data and the hasher takes every byte. Should it
            // ever fail, the part that went in before still tells most tools apart.
            Err(error) => tracing::error!(tool = %tool.id, %error, "the definition of a tool is not JSON"),
        }
        Self(hasher.finalize())
    }
}

/// The arguments in JSON's canonical form (RFC 8785): the same bytes for the same
/// arguments, whatever the order of their keys.
pub(crate) fn canonical(arguments: &Value) -> Result<Vec<u8>, serde_json::Error> {
    serde_jcs::to_vec(arguments)
}

/// The canonical form writes every number as a double, in which large whole numbers
/// meet; a seal must tell them apart, so their digits go in as well, in an order
/// that does not depend on the order of keys.
fn seal_large_integers(hasher: &mut blake3::Hasher, value: &Value) {
    match value {
        Value::Number(number) => {
            let magnitude = number.as_u64().or_else(|| number.as_i64().map(i64::unsigned_abs));
            if magnitude.is_some_and(|magnitude| magnitude > EXACT_INTEGERS) {
                hasher.update(number.to_string().as_bytes());
                hasher.update(b";");
            }
        }
        Value::Array(items) => items.iter().for_each(|item| seal_large_integers(hasher, item)),
        Value::Object(fields) => {
            let mut fields: Vec<_> = fields.iter().collect();
            fields.sort_unstable_by_key(|(key, _)| *key);
            fields.into_iter().for_each(|(_, field)| seal_large_integers(hasher, field));
        }
        Value::Null | Value::Bool(_) | Value::String(_) => {}
    }
}
