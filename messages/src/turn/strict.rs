//! JSON read strictly: one value, nothing after it, no key twice at any depth.
//!
//! serde_json keeps the last of two equal keys; a policy and a tool server could then read different arguments. Nesting
//! is bounded below serde_json's own limit: what is read here is written inside records and saved machines, and must be
//! readable there too.

use serde::Deserializer;
use serde::de::{DeserializeSeed, Error, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};
use std::fmt;

/// How many arrays and objects may lie inside one another. serde_json reads 127; a
/// record or a saved machine puts less than a dozen around a call's arguments.
pub(super) const MAX_DEPTH: usize = 100;

/// Reads one value.
/// Errors: when the text is not exactly one JSON value without repeated keys, or nested deeper than [`MAX_DEPTH`].
pub(super) fn parse(text: &str) -> Result<Value, serde_json::Error> {
    let mut deserializer = serde_json::Deserializer::from_str(text);
    let value = Strict { room: MAX_DEPTH }.deserialize(&mut deserializer)?;
    deserializer.end()?;
    Ok(value)
}

/// One value, with room for so many levels inside it.
#[derive(Clone, Copy)]
struct Strict {
    room: usize,
}

impl Strict {
    /// What may lie inside an array or object.
    fn inside<E: Error>(self) -> Result<Self, E> {
        let room = self.room.checked_sub(1);
        room.map(|room| Self { room }).ok_or_else(|| E::custom(format_args!("nested deeper than {MAX_DEPTH} levels")))
    }
}

impl<'de> DeserializeSeed<'de> for Strict {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Strict {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(Value::Bool(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(Value::Number(value.into()))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(Value::Number(value.into()))
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<Value, E> {
        Number::from_f64(value).map(Value::Number).ok_or_else(|| E::custom("the number is not finite"))
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(Value::String(value.to_owned()))
    }

    fn visit_string<E>(self, value: String) -> Result<Value, E> {
        Ok(Value::String(value))
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        let inside = self.inside()?;
        let mut list = Vec::new();
        while let Some(item) = items.next_element_seed(inside)? {
            list.push(item);
        }
        Ok(Value::Array(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Value, A::Error> {
        let inside = self.inside()?;
        let mut map = Map::new();
        while let Some(key) = entries.next_key::<String>()? {
            if map.contains_key(&key) {
                return Err(A::Error::custom(format_args!("the key `{key}` is there twice")));
            }
            if map.is_empty() {
                // Many objects have one key; the usual growth would make room for three.
                map = Map::with_capacity(1);
            }
            map.insert(key, entries.next_value_seed(inside)?);
        }
        Ok(Value::Object(map))
    }
}
