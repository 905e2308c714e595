//! A schema of plain keywords in the form in which it is asked about each call: nothing is looked up by a keyword.
//!
//! It takes no more than the schema does, see [`plain`](super::plain). What it refuses may still fit.

use super::{FEW_STEPS, STEPS_PER_VALUE};
use serde_json::Value;

/// A schema that [`plain::covers`](super::plain::covers).
#[derive(Debug, Default)]
pub(super) struct Quick {
    /// The types it names, a bit for each; none when it leaves them open.
    types: u8,
    choices: Option<Box<[Value]>>,
    least: Option<f64>,
    most: Option<f64>,
    /// By name.
    properties: Box<[Property]>,
    /// How many properties are required.
    required: usize,
    /// Whether an object has no other properties.
    is_closed: bool,
    items: Option<Box<Quick>>,
}

#[derive(Debug)]
struct Property {
    name: Box<str>,
    is_required: bool,
    /// `None` of one that is only required: it is no other than those that are not described.
    schema: Option<Quick>,
}

const NULL: u8 = 1;
const BOOLEAN: u8 = 1 << 1;
const STRING: u8 = 1 << 2;
const ARRAY: u8 = 1 << 3;
const OBJECT: u8 = 1 << 4;
const NUMBER: u8 = 1 << 5;
/// As in JSON Schema, 2.0 is an integer.
const INTEGER: u8 = 1 << 6;

impl Quick {
    pub(super) fn read(schema: &Value) -> Self {
        let texts = |keyword: &str| match schema.get(keyword) {
            Some(Value::Array(names)) => names.iter().filter_map(Value::as_str).collect(),
            Some(Value::String(name)) => vec![name.as_str()],
            _none => Vec::new(),
        };
        let required = texts("required");
        let described = schema.get("properties").and_then(Value::as_object);
        let mut properties: Vec<Property> = described
            .into_iter()
            .flatten()
            .map(|(name, part)| Property {
                name: name.as_str().into(),
                is_required: false,
                schema: Some(Self::read(part)),
            })
            .collect();
        for name in &required {
            match properties.iter_mut().find(|property| &*property.name == *name) {
                Some(property) => property.is_required = true,
                None => properties.push(Property { name: (*name).into(), is_required: true, schema: None }),
            }
        }
        properties.sort_by(|one, other| one.name.cmp(&other.name));
        let bound = |keyword: &str| schema.get(keyword).and_then(Value::as_f64);
        Self {
            types: texts("type").into_iter().map(bit).fold(0, |types, bit| types | bit),
            choices: schema.get("enum").and_then(Value::as_array).map(|choices| choices.as_slice().into()),
            least: bound("minimum"),
            most: bound("maximum"),
            properties: properties.into(),
            required: required.len(),
            is_closed: schema.get("additionalProperties") == Some(&Value::Bool(false)),
            items: schema.get("items").map(|items| Box::new(Self::read(items))),
        }
    }

    /// Whether a value is known to fit. Ends in bounded time, whatever was read.
    pub(super) fn takes(&self, value: &Value) -> bool {
        self.fits(value, &mut { FEW_STEPS })
    }

    /// `left` is how many steps may still be taken; each value adds some.
    fn fits(&self, value: &Value, left: &mut usize) -> bool {
        let choices = self.choices.as_deref();
        *left = (*left + STEPS_PER_VALUE).saturating_sub(1 + choices.map_or(0, <[Value]>::len));
        if *left == 0 || (self.types != 0 && self.types & types_of(value) == 0) {
            return false;
        }
        if choices.is_some_and(|choices| !choices.contains(value)) {
            return false;
        }
        match value {
            Value::Object(fields) => {
                let mut required = 0;
                for (name, field) in fields {
                    let at = self.properties.binary_search_by(|property| (*property.name).cmp(name.as_str()));
                    let property = at.ok().map(|at| &self.properties[at]);
                    let schema = property.and_then(|property| property.schema.as_ref());
                    if !schema.map_or(!self.is_closed, |schema| schema.fits(field, left)) {
                        return false;
                    }
                    required += usize::from(property.is_some_and(|property| property.is_required));
                }
                required == self.required
            }
            Value::Array(items) => {
                self.items.as_ref().is_none_or(|schema| items.iter().all(|item| schema.fits(item, left)))
            }
            Value::Number(number) => match number.as_f64() {
                Some(float) => {
                    self.least.is_none_or(|least| float >= least) && self.most.is_none_or(|most| float <= most)
                }
                None => self.least.or(self.most).is_none(),
            },
            Value::Null | Value::Bool(_) | Value::String(_) => true,
        }
    }
}

fn bit(name: &str) -> u8 {
    match name {
        "null" => NULL,
        "boolean" => BOOLEAN,
        "string" => STRING,
        "array" => ARRAY,
        "object" => OBJECT,
        "number" => NUMBER,
        "integer" => INTEGER,
        _no_type => 0,
    }
}

fn types_of(value: &Value) -> u8 {
    match value {
        Value::Null => NULL,
        Value::Bool(_) => BOOLEAN,
        Value::String(_) => STRING,
        Value::Array(_) => ARRAY,
        Value::Object(_) => OBJECT,
        Value::Number(number) if number.as_f64().is_some_and(|number| number.fract() == 0.0) => NUMBER | INTEGER,
        Value::Number(_) => NUMBER,
    }
}
