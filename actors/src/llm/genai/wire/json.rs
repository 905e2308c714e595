//! JSON as it is read from a frame: a tree that borrows its strings and finds a field by looking through them.
//!
//! A frame is read once, has few fields and is thrown away. `serde_json::Value` copies every string and hashes every
//! key for that; this tree holds the same for a fraction of the work.

use serde::de::{Deserialize, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::{Number, Value};
use std::borrow::Cow;
use std::fmt;

#[derive(Debug)]
pub(super) enum Json<'a> {
    Null,
    Bool(bool),
    Number(Number),
    Text(Cow<'a, str>),
    List(Vec<Json<'a>>),
    /// In the order of the text. Of fields with the same name the last one counts.
    Object(Vec<(Cow<'a, str>, Json<'a>)>),
}

impl<'a> Json<'a> {
    pub(super) fn get(&self, name: &str) -> Option<&Self> {
        match self {
            Self::Object(fields) => fields.iter().rev().find(|(field, _)| field == name).map(|(_, value)| value),
            _has_no_fields => None,
        }
    }

    pub(super) fn at(&self, path: &[&str]) -> Option<&Self> {
        path.iter().try_fold(self, |value, name| value.get(name))
    }

    pub(super) fn text(&self) -> Option<&str> {
        match self {
            Self::Text(text) => Some(text),
            _no_text => None,
        }
    }

    pub(super) fn list(&self) -> Option<&[Self]> {
        match self {
            Self::List(values) => Some(values),
            _no_list => None,
        }
    }

    pub(super) fn is_null(&self) -> bool {
        matches!(self, Self::Null)
    }

    pub(super) fn is_object(&self) -> bool {
        matches!(self, Self::Object(_))
    }

    /// A value that borrows nothing, with each field once.
    pub(super) fn to_value(&self) -> Value {
        match self {
            Self::Null => Value::Null,
            Self::Bool(is_true) => Value::Bool(*is_true),
            Self::Number(number) => Value::Number(number.clone()),
            Self::Text(text) => Value::String(text.clone().into_owned()),
            Self::List(values) => values.iter().map(Self::to_value).collect(),
            Self::Object(fields) => {
                fields.iter().map(|(name, value)| (name.clone().into_owned(), value.to_value())).collect()
            }
        }
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for Json<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(AnyJson)
    }
}

/// Accepts what `serde_json::Value` accepts.
struct AnyJson;

impl<'de> Visitor<'de> for AnyJson {
    type Value = Json<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any JSON")
    }

    fn visit_unit<E: Error>(self) -> Result<Json<'de>, E> {
        Ok(Json::Null)
    }

    fn visit_bool<E: Error>(self, is_true: bool) -> Result<Json<'de>, E> {
        Ok(Json::Bool(is_true))
    }

    fn visit_i64<E: Error>(self, number: i64) -> Result<Json<'de>, E> {
        Ok(Json::Number(number.into()))
    }

    fn visit_u64<E: Error>(self, number: u64) -> Result<Json<'de>, E> {
        Ok(Json::Number(number.into()))
    }

    fn visit_f64<E: Error>(self, number: f64) -> Result<Json<'de>, E> {
        Ok(Number::from_f64(number).map_or(Json::Null, Json::Number))
    }

    fn visit_borrowed_str<E: Error>(self, text: &'de str) -> Result<Json<'de>, E> {
        Ok(Json::Text(Cow::Borrowed(text)))
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Json<'de>, E> {
        Ok(Json::Text(Cow::Owned(text.to_owned())))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut access: A) -> Result<Json<'de>, A::Error> {
        let mut values = Vec::new();
        while let Some(value) = access.next_element()? {
            values.push(value);
        }
        Ok(Json::List(values))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut access: A) -> Result<Json<'de>, A::Error> {
        let mut fields = Vec::new();
        while let Some(FieldName(name)) = access.next_key()? {
            fields.push((name, access.next_value()?));
        }
        Ok(Json::Object(fields))
    }
}

/// The name of a field, borrowed where nothing in it is escaped.
struct FieldName<'a>(Cow<'a, str>);

impl<'de: 'a, 'a> Deserialize<'de> for FieldName<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_str(AnyName).map(FieldName)
    }
}

struct AnyName;

impl<'de> Visitor<'de> for AnyName {
    type Value = Cow<'de, str>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the name of a field")
    }

    fn visit_borrowed_str<E: Error>(self, name: &'de str) -> Result<Self::Value, E> {
        Ok(Cow::Borrowed(name))
    }

    fn visit_str<E: Error>(self, name: &str) -> Result<Self::Value, E> {
        Ok(Cow::Owned(name.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What `Value` reads of a text, this tree reads, and it refuses what `Value` refuses.
    fn same(text: &str) {
        let value = serde_json::from_str::<Value>(text).ok();
        let tree = serde_json::from_str::<Json<'_>>(text).ok().map(|tree| tree.to_value());
        assert_eq!(tree, value, "{text}");
    }

    #[test]
    fn it_is_what_a_value_is() {
        let texts = [
            r#"{"a":[1,-2,3.5,1e300,18446744073709551616,true,false,null,"x\ny","\u00e9"],"b\n":{}}"#,
            r#"{"a":1,"b":2,"a":3}"#,
            r#"{"a":1e999}"#,
            r#"{"a":"\ud800"}"#,
            r#"{"a":1}{"b":2}"#,
            "[1,]",
            "",
            "nul",
        ];
        texts.into_iter().for_each(same);
        for depth in [100, 127, 128, 200] {
            same(&format!("{}{}", "[".repeat(depth), "]".repeat(depth)));
        }
    }

    #[test]
    fn of_fields_with_one_name_the_last_counts() {
        let tree: Json<'_> = serde_json::from_str(r#"{"a":{"b":"old"},"a":{"b":"new"}}"#).unwrap();
        assert_eq!(tree.at(&["a", "b"]).and_then(Json::text), Some("new"));
        assert!(tree.at(&["a", "c"]).is_none() && tree.get("a").is_some_and(Json::is_object));
    }

    #[test]
    fn fuzz_any_text_is_read_as_a_value_reads_it() {
        bolero::check!(name = "json").with_iterations(500).with_max_len(60).for_each(|input: &[u8]| {
            same(&String::from_utf8_lossy(input));
            // Letters JSON is made of come more often than chance would have it.
            let words =
                ["{", "}", "[", "]", ":", ",", "\"", "\"a\"", "1", "-", ".5", "e9", "true", "null", "\\u0061", "\\"];
            let text: String = input.iter().map(|byte| words[usize::from(*byte) % words.len()]).collect();
            same(&text);
        });
    }
}
