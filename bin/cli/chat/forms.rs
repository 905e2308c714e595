//! Forms that tool servers request during a call, answered field by field.
//!
//! All texts of a form come from the server and are sanitised before they are shown.

use bob::approvals::{Elicitation, ElicitationAnswer};
use bob_config::sanitise;
use serde_json::{Map, Value};

use super::Input;
use super::editor::Editor;
use crate::terminal::print;

/// How many characters of a field's name or of a choice are shown.
const MOST_LABEL: usize = 60;

/// How many characters of a question are shown.
const MOST_QUESTION: usize = 2_000;

/// How many choices of a field are named.
const MOST_CHOICES: usize = 20;

/// Asks the person. `None`: they pressed Ctrl-C, which ends more than the question.
pub(super) async fn ask(question: &Elicitation, editor: &mut Editor) -> Option<ElicitationAnswer> {
    for line in opening(question) {
        print::note(&line);
    }
    let mut is_interrupted = false;
    let mut next = async |prompt: String| {
        let input = editor.answer(&prompt, "").await;
        is_interrupted |= input == Input::Interrupted;
        input
    };
    let form = fill_in(&question.schema, &mut next).await;
    (!is_interrupted).then_some(form)
}

fn opening(question: &Elicitation) -> Vec<String> {
    let text: String = question.message.chars().take(MOST_QUESTION).collect();
    let mut lines =
        vec![format!("[the tool server {} asks; Enter takes what is in brackets, Ctrl-D declines]", question.server)];
    lines.extend(text.lines().map(str::to_owned));
    lines
}

/// Asks for every field. An empty line takes the default; without one it omits an optional field, and declines the
/// form otherwise.
async fn fill_in(schema: &Value, next: &mut impl AsyncFnMut(String) -> Input) -> ElicitationAnswer {
    let mut form = Map::new();
    let Some(fields) = schema.get("properties").and_then(Value::as_object).filter(|fields| !fields.is_empty()) else {
        let yes_or_no = serde_json::json!({ "type": "boolean", "default": false });
        return match Field::of("agreed", &yes_or_no, false).ask(next).await {
            Said::Value(Value::Bool(true)) => ElicitationAnswer::Accept(form),
            Said::Value(_) | Said::Nothing | Said::No => ElicitationAnswer::Decline,
        };
    };
    let required = schema.get("required").and_then(Value::as_array);
    for (name, property) in fields {
        let is_required = required.is_some_and(|names| names.iter().any(|required| required.as_str() == Some(name)));
        match Field::of(name, property, is_required).ask(next).await {
            Said::Value(value) => drop(form.insert(name.clone(), value)),
            Said::Nothing => {}
            Said::No => return ElicitationAnswer::Decline,
        }
    }
    ElicitationAnswer::Accept(form)
}

struct Field<'a> {
    name: &'a str,
    property: &'a Value,
    is_required: bool,
}

enum Said {
    Value(Value),
    Nothing,
    No,
}

impl<'a> Field<'a> {
    fn of(name: &'a str, property: &'a Value, is_required: bool) -> Self {
        Self { name, property, is_required }
    }

    async fn ask(&self, next: &mut impl AsyncFnMut(String) -> Input) -> Said {
        if let Some(text) = self.text("description") {
            print::note(&format!("  {}", print::on_one_line(text, MOST_QUESTION)));
        }
        loop {
            let line = match next(self.prompt()).await {
                Input::Line(line) => String::from_utf8_lossy(&line).trim().to_owned(),
                Input::Cleared | Input::NextMode(_) | Input::Output(_) | Input::LastMessage(_) => continue,
                Input::End | Input::Interrupted => return Said::No,
            };
            if line.is_empty() {
                return match self.property.get("default") {
                    Some(default) => Said::Value(default.clone()),
                    None if self.is_required => Said::No,
                    None => Said::Nothing,
                };
            }
            match self.understood(&line) {
                Ok(value) => return Said::Value(value),
                Err(complaint) => print::note(&format!("  {complaint}")),
            }
        }
    }

    fn prompt(&self) -> String {
        let label = print::on_one_line(self.text("title").unwrap_or(self.name), MOST_LABEL);
        let choices = self.choices();
        let kind = match self.text("type") {
            _ if !choices.is_empty() => {
                let named: Vec<String> =
                    choices.iter().take(MOST_CHOICES).map(|(_, title)| print::on_one_line(title, MOST_LABEL)).collect();
                format!(" ({})", named.join(" | "))
            }
            Some("boolean") => " (yes | no)".to_owned(),
            Some("integer") => " (a whole number)".to_owned(),
            Some("number") => " (a number)".to_owned(),
            _ => String::new(),
        };
        let default = match self.property.get("default") {
            None => String::new(),
            Some(Value::String(text)) => format!(" [{}]", print::on_one_line(text, MOST_LABEL)),
            Some(Value::Bool(is_set)) => format!(" [{}]", if *is_set { "yes" } else { "no" }),
            Some(other) => format!(" [{}]", print::on_one_line(&other.to_string(), MOST_LABEL)),
        };
        sanitise::clean(&format!("{label}{kind}{default}> ")).into_owned()
    }

    fn understood(&self, line: &str) -> Result<Value, String> {
        let choices = self.choices();
        let chosen = |word: &str| {
            let is_it = |(value, title): &&(String, String)| value == word || title.eq_ignore_ascii_case(word);
            let found = choices.iter().find(is_it).map(|(value, _)| Value::from(value.as_str()));
            found.ok_or_else(|| "not one of the choices".to_owned())
        };
        match self.text("type") {
            Some("array") => line.split(',').map(|word| chosen(word.trim())).collect(),
            _ if !choices.is_empty() => chosen(line),
            Some("boolean") => match line.to_ascii_lowercase().as_str() {
                "yes" | "y" | "true" => Ok(Value::Bool(true)),
                "no" | "n" | "false" => Ok(Value::Bool(false)),
                _neither => Err("enter yes or no".to_owned()),
            },
            Some("integer") => {
                let number: i64 = line.parse().map_err(|_no_number| "not a whole number".to_owned())?;
                #[allow(clippy::cast_precision_loss, reason = "only compared with bounds that are of this kind")]
                self.within(number as f64).map(|()| number.into())
            }
            Some("number") => {
                let number: f64 = line.parse().map_err(|_no_number| "not a number".to_owned())?;
                self.within(number)?;
                serde_json::Number::from_f64(number).map(Value::Number).ok_or_else(|| "not a number".to_owned())
            }
            _text => self.fits(line).map(|()| line.into()),
        }
    }

    fn within(&self, number: f64) -> Result<(), String> {
        let bound = |key: &str| self.property.get(key).and_then(Value::as_f64);
        match (bound("minimum"), bound("maximum")) {
            (Some(least), _) if number < least => Err(format!("it must be at least {least}")),
            (_, Some(most)) if number > most => Err(format!("it must be at most {most}")),
            (Some(_) | None, Some(_) | None) => Ok(()),
        }
    }

    fn fits(&self, line: &str) -> Result<(), String> {
        let length = line.chars().count() as u64;
        let bound = |key: &str| self.property.get(key).and_then(Value::as_u64);
        match (bound("minLength"), bound("maxLength")) {
            (Some(least), _) if length < least => Err(format!("it must have at least {least} characters")),
            (_, Some(most)) if length > most => Err(format!("it must have at most {most} characters")),
            (Some(_) | None, Some(_) | None) => Ok(()),
        }
    }

    fn choices(&self) -> Vec<(String, String)> {
        let holder = if self.text("type") == Some("array") { self.property.get("items") } else { Some(self.property) };
        let Some(holder) = holder else { return Vec::new() };
        if let Some(values) = holder.get("enum").and_then(Value::as_array) {
            let names = holder.get("enumNames").and_then(Value::as_array);
            let named = |(at, value): (usize, &Value)| {
                let value = value.as_str()?.to_owned();
                let name = names.and_then(|names| names.get(at)).and_then(Value::as_str);
                Some((value.clone(), name.map_or(value, str::to_owned)))
            };
            return values.iter().enumerate().filter_map(named).collect();
        }
        let options = ["oneOf", "anyOf"].into_iter().find_map(|key| holder.get(key).and_then(Value::as_array));
        let named = |option: &Value| {
            let value = option.get("const")?.as_str()?.to_owned();
            let title = option.get("title").and_then(Value::as_str).map_or_else(|| value.clone(), str::to_owned);
            Some((value, title))
        };
        options.into_iter().flatten().filter_map(named).collect()
    }

    fn text(&self, key: &str) -> Option<&str> {
        self.property.get(key).and_then(Value::as_str)
    }
}

#[cfg(test)]
#[path = "forms_tests.rs"]
mod tests;
