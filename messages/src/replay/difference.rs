//! A readable description of the first difference between two values.

use serde_json::Value;

/// The most characters of each side that are shown.
const SHOWN: usize = 60;

/// Returns where two values first differ and both values there; `None` when they are equal. `sides` labels the
/// values, for example `["the tape has", "asked was"]`.
pub fn first_difference(sides: [&str; 2], path: &str, one: &Value, other: &Value) -> Option<String> {
    Sides(sides).first(path, one, other)
}

#[derive(Clone, Copy)]
struct Sides<'a>([&'a str; 2]);

impl Sides<'_> {
    fn first(self, path: &str, tape: &Value, asked: &Value) -> Option<String> {
        match (tape, asked) {
            (Value::Object(one), Value::Object(other)) => {
                let names = one.keys().chain(other.keys().filter(|name| !one.contains_key(*name)));
                let mut names = names.map(|name| (format!("{path}.{name}"), one.get(name), other.get(name)));
                names.find_map(|(path, one, other)| self.either(&path, one, other))
            }
            (Value::Array(one), Value::Array(other)) => {
                let mut places =
                    (0..one.len().max(other.len())).map(|at| (format!("{path}[{at}]"), one.get(at), other.get(at)));
                places.find_map(|(path, one, other)| self.either(&path, one, other))
            }
            (Value::String(one), Value::String(other)) if one != other => {
                let at = one.bytes().zip(other.bytes()).take_while(|(one, other)| one == other).count();
                let from = one.floor_char_boundary(at.saturating_sub(SHOWN / 3));
                let here =
                    |text: &str| text.get(from..).map_or_else(|| "nothing".to_owned(), |text| quoted(text, from > 0));
                Some(self.told(path, &here(one), &here(other)))
            }
            (one, other) if one == other => None,
            (one, other) => Some(self.told(path, &short(one), &short(other))),
        }
    }

    fn either(self, path: &str, tape: Option<&Value>, asked: Option<&Value>) -> Option<String> {
        match (tape, asked) {
            (Some(tape), Some(asked)) => self.first(path, tape, asked),
            (Some(tape), None) => Some(self.told(path, &short(tape), "nothing")),
            (None, Some(asked)) => Some(self.told(path, "nothing", &short(asked))),
            (None, None) => None,
        }
    }

    fn told(self, path: &str, one: &str, other: &str) -> String {
        let [has, was] = self.0;
        format!("{path}: {has} {one}, {was} {other}")
    }
}

fn short(value: &Value) -> String {
    match value {
        Value::String(text) => quoted(text, false),
        // Tools are identified by name.
        Value::Object(fields) if fields.get("name").is_some_and(Value::is_string) => fields["name"].to_string(),
        other => cut(&other.to_string()),
    }
}

fn quoted(text: &str, goes_before: bool) -> String {
    let before = if goes_before { "…" } else { "" };
    format!("{:?}", format!("{before}{}", cut(text)))
}

fn cut(text: &str) -> String {
    match text.char_indices().nth(SHOWN) {
        Some((at, _)) => format!("{}…", &text[..at]),
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn the_first_difference_is_named_by_its_path() {
        let first =
            |path: &str, one: &Value, other: &Value| first_difference(["the tape has", "asked was"], path, one, other);
        let told = |one, other| first("messages", &one, &other).unwrap_or_default();
        let texts = |text: &str| json!([{"role": "user", "parts": [{"type": "text", "text": text}]}]);
        let one = told(texts("what is the time in Paris"), texts("what is the time in Rome"));
        assert!(
            one.starts_with("messages[0].parts[0].text: ") && one.contains("Paris") && one.contains("Rome"),
            "{one}"
        );
        let missing = told(json!([1, 2]), json!([1]));
        assert_eq!(missing, "messages[1]: the tape has 2, asked was nothing");
        assert_eq!(
            told(json!([{"name": "a"}]), json!([{"name": "a"}, {"name": "b"}])),
            "messages[1]: the tape has nothing, asked was \"b\""
        );
        assert!(first("x", &json!({"a": [1, {"b": null}]}), &json!({"a": [1, {"b": null}]})).is_none());
        let odd = told(json!("éé"), json!("éa"));
        assert!(odd.contains("éé") && odd.contains("éa"), "{odd}");
    }
}
