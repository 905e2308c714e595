//! Permission for exactly one call.
//!
//! A grant is a keyed hash over the call's id, its tool with its definition, and its arguments. The key is drawn when
//! the room starts and never leaves it, so a grant cannot be made elsewhere, moved to another call or used for a tool
//! that changed. A room whose actor is started again may hand its key to the successor; with a new key no grant
//! outlives the restart.

use bob_messages::chat::ToolCall;
use bob_messages::tools::{Grant, RiskSource, ToolDescriptor};
use serde_json::Value;
use std::borrow::Cow;
use std::sync::{Arc, OnceLock};
use std::{fmt, io};

/// The key of a room over the restarts of its actor: the first one draws it, and its successors find it. Clones are
/// the same place.
#[derive(Debug, Clone, Default)]
pub struct KeyPlace(Arc<OnceLock<RoomKey>>);

impl KeyPlace {
    /// The key that is there, else `drawn`, which is there from now on.
    pub(super) fn get_or_leave(&self, drawn: &RoomKey) -> RoomKey {
        self.0.get_or_init(|| drawn.clone()).clone()
    }
}

#[derive(Clone)]
pub(crate) struct RoomKey([u8; 32]);

impl RoomKey {
    pub(crate) fn draw() -> io::Result<Self> {
        let mut key = [0; 32];
        let mut drawn = 0;
        while drawn < key.len() {
            drawn += rustix::rand::getrandom(&mut key[drawn..], rustix::rand::GetRandomFlags::empty())?;
        }
        Ok(Self(key))
    }

    pub(crate) fn grant(&self, call: &ToolCall, definition: &Definition) -> Grant {
        Grant { call: call.id.clone(), seal: self.seal(call, definition).to_hex().as_str().to_owned() }
    }

    /// Whether the grant was given by this room for exactly this call, of the tool as
    /// it is now.
    pub(crate) fn covers(&self, call: &ToolCall, definition: &Definition, grant: &Grant) -> bool {
        let given = blake3::Hash::from_hex(&grant.seal);
        grant.call == call.id && given.is_ok_and(|given| self.seal(call, definition) == given)
    }

    fn seal(&self, call: &ToolCall, definition: &Definition) -> blake3::Hash {
        let mut hasher = blake3::Hasher::new_keyed(&self.0);
        for field in [call.id.as_str().as_bytes(), call.name.as_str().as_bytes(), definition.0.as_bytes()] {
            seal_bytes(&mut hasher, field);
        }
        seal_value(&mut hasher, &call.arguments);
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
    /// Its name, the same as long as the tool is.
    pub(crate) fn digest(&self) -> String {
        self.0.to_hex().as_str().to_owned()
    }

    /// The definition as the tool's owner gave it. Who says how risky it is does not belong to it.
    pub(crate) fn of(tool: &ToolDescriptor) -> Self {
        let mut hasher = blake3::Hasher::new();
        let tool = match tool.risk_from.is_program() {
            true => Cow::Borrowed(tool),
            false => Cow::Owned(tool.clone().with_risk_from(RiskSource::Program)),
        };
        match serde_json::to_writer(&mut hasher, &*tool) {
            Ok(()) => {}
            // A descriptor is plain data and the hasher takes every byte. Should it
            // ever fail, the part that went in before still tells most tools apart.
            Err(error) => tracing::error!(tool = %tool.id, %error, "the definition of a tool is not JSON"),
        }
        Self(hasher.finalize())
    }
}

/// How many bytes these arguments are as JSON.
pub(crate) fn bytes_of(arguments: &Value) -> Result<usize, serde_json::Error> {
    let mut counted = Counted(0);
    serde_json::to_writer(&mut counted, arguments)?;
    Ok(counted.0)
}

/// Takes what is written and keeps only how much it was.
struct Counted(usize);

impl io::Write for Counted {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0 += bytes.len();
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// The length goes first, so that no two lists of fields look the same.
fn seal_bytes(hasher: &mut blake3::Hasher, bytes: &[u8]) {
    hasher.update(&(bytes.len() as u64).to_le_bytes());
    hasher.update(bytes);
}

/// Hashes equal values equally, whatever the order of keys. Numbers are hashed as they
/// are written, so large whole numbers that are one double stay apart.
fn seal_value(hasher: &mut blake3::Hasher, value: &Value) {
    match value {
        Value::Null => {
            hasher.update(b"0");
        }
        Value::Bool(true) => {
            hasher.update(b"t");
        }
        Value::Bool(false) => {
            hasher.update(b"f");
        }
        Value::Number(number) => {
            hasher.update(b"n");
            seal_bytes(hasher, number.to_string().as_bytes());
        }
        Value::String(text) => {
            hasher.update(b"s");
            seal_bytes(hasher, text.as_bytes());
        }
        Value::Array(items) => {
            hasher.update(b"a").update(&(items.len() as u64).to_le_bytes());
            items.iter().for_each(|item| seal_value(hasher, item));
        }
        Value::Object(fields) => {
            hasher.update(b"o").update(&(fields.len() as u64).to_le_bytes());
            let mut fields: Vec<_> = fields.iter().collect();
            fields.sort_unstable_by_key(|(key, _)| *key);
            for (key, field) in fields {
                seal_bytes(hasher, key.as_bytes());
                seal_value(hasher, field);
            }
        }
    }
}
