//! Calls of Bob's own tools in few words: a plan as a list, and what reading, finding and running came to.

use bob::events::Progress;
use bob::model::ToolResult;
use bob::tools::{CallStatus, ToolName};

use crate::terminal::print;

/// How many characters of a line of output are shown.
const MOST_OUTPUT: usize = 200;

/// How many characters of a step are shown.
const MOST_STEP: usize = 100;

pub(crate) fn is_plan(name: &ToolName) -> bool {
    name.as_str() == "local/todo"
}

/// The lines of a plan, if the result is one.
pub(crate) fn plan(result: &ToolResult) -> Option<Vec<String>> {
    let is_shown = is_plan(&result.name) && result.status == CallStatus::Ok;
    let text = is_shown.then(|| result.output.plain())?;
    let mut lines = text.lines();
    let head = format!("> {}", print::on_one_line(lines.next()?, MOST_STEP));
    let steps = lines.map(|line| format!("  {}", print::on_one_line(line, MOST_STEP)));
    Some(std::iter::once(head).chain(steps).collect())
}

/// The newest line of what a running call has put out, if it has told one.
pub(crate) fn output(progress: &Progress) -> Option<String> {
    let line = progress.message.as_deref().map(|message| print::on_one_line(message, MOST_OUTPUT));
    line.filter(|line| !line.is_empty())
}

/// What a call came to, where the first line of its result does not say it.
pub(crate) fn result(result: &ToolResult) -> Option<String> {
    if result.status != CallStatus::Ok {
        return None;
    }
    let text = result.output.plain();
    let notice = text.lines().last().and_then(|line| line.strip_prefix('[')?.strip_suffix(']'));
    let count = text.lines().count() - usize::from(notice.is_some());
    match result.name.as_str() {
        "local/read_file" => Some(match notice.and_then(|notice| notice.split([';', ',']).next()) {
            Some(notice) => notice.to_owned(),
            None => counted(count, "line"),
        }),
        "local/find_files" if count > 0 => Some(counted(count, "path")),
        _ => None,
    }
}

/// What is before the output of a call that was interrupted.
const SO_FAR: &str = "; its output so far:\n";

/// How many lines of it stay on the screen.
const MOST_LAST: usize = 5;

pub(crate) fn ended(result: &ToolResult) -> String {
    let word = match result.status {
        CallStatus::Ok => "ok",
        CallStatus::Error => "error",
        CallStatus::Denied => "denied",
        CallStatus::Unknown => "interrupted",
        CallStatus::Cancelled => "cancelled",
    };
    exit(result).unwrap_or_else(|| word.to_owned())
}

pub(crate) fn is_interrupted(result: &ToolResult) -> bool {
    result.output.plain().starts_with("outcome unknown: the turn ended while the tool was running")
}

/// The last lines that an interrupted call had put out, indented: they were on the screen.
pub(crate) fn last_output(result: &ToolResult) -> Vec<String> {
    let text = if is_interrupted(result) { result.output.plain() } else { return Vec::new() };
    let lines: Vec<&str> = text.split_once(SO_FAR).map_or("", |(_, output)| output).lines().collect();
    lines[lines.len().saturating_sub(MOST_LAST)..].iter().map(|line| format!("  {line}")).collect()
}

/// The text of a result without what is shown beside it, or says nothing to a person: its status, and what marks the stderr and the
/// end of a command.
pub(crate) fn text(result: &ToolResult) -> String {
    let text = result.output.plain();
    if !is_command(result) || result.status != CallStatus::Ok {
        return without_status(result.status, &text).to_owned();
    }
    let of_bob = |line: &&str| *line == "[stderr]" || line.starts_with("[exit code ");
    text.lines().filter(|line| !of_bob(line)).collect::<Vec<_>>().join("\n")
}

fn is_command(result: &ToolResult) -> bool {
    result.name.as_str().starts_with("local/shell_")
}

/// The text of a result without the status that it begins with, which is shown beside it.
pub(crate) fn without_status(status: CallStatus, text: &str) -> &str {
    let begins = match status {
        CallStatus::Denied => "denied",
        CallStatus::Cancelled => "cancelled",
        CallStatus::Unknown => "outcome unknown",
        CallStatus::Ok | CallStatus::Error => return text,
    };
    match text.strip_prefix(begins) {
        Some("") => "",
        Some(rest) => rest.strip_prefix(": ").unwrap_or(text),
        None => text,
    }
}

/// How a command ended that did not end well, which is no error of its call.
pub(crate) fn exit(result: &ToolResult) -> Option<String> {
    let said = |key: &str| result.output.structured.as_ref().filter(|_| is_command(result))?.get(key)?.as_i64();
    match (said("exit_status"), said("signal")) {
        (Some(code), _) => (code != 0).then(|| format!("exit code {code}")),
        (None, signal) => signal.map(|signal| format!("killed by signal {signal}")),
    }
}

fn counted(count: usize, what: &str) -> String {
    if count == 1 { format!("1 {what}") } else { format!("{count} {what}s") }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bob::tools::{CallId, ToolOutput};
    use serde_json::{Value, json};

    #[test]
    fn the_last_lines_of_an_interrupted_call_stay() {
        let text = "outcome unknown: the turn ended while the tool was running, after 4.0 s; its output so far:\n1\n2\n3\n4\n5\n6";
        let cut = ToolResult { status: CallStatus::Unknown, ..came("local/shell_exec", text) };
        assert_eq!(last_output(&cut), ["  2", "  3", "  4", "  5", "  6"]);
        let silent = "outcome unknown: the turn ended while the tool was running, after 4.0 s";
        assert_eq!(last_output(&came("local/shell_exec", silent)), [""; 0]);
        assert_eq!(last_output(&came("local/shell_exec", "1\n2")), [""; 0]);
    }

    fn came(name: &str, text: &str) -> ToolResult {
        let (call, name, output) = (CallId::new("c1"), ToolName::new(name), ToolOutput::text(text));
        ToolResult { call, name, status: CallStatus::Ok, output, duration_ms: 3 }
    }

    #[test]
    fn a_plan_is_a_list() {
        let shown = plan(&came("local/todo", "plan: 1 of 3 done\n[x] read\n[>] write\n[ ] run")).expect("it is one");
        assert_eq!(shown, ["> plan: 1 of 3 done", "  [x] read", "  [>] write", "  [ ] run"]);
        assert_eq!(plan(&came("mcp/x/todo", "plan: 0 of 0 done")), None);
        assert_eq!(plan(&ToolResult { status: CallStatus::Error, ..came("local/todo", "no") }), None);
    }

    #[test]
    fn what_was_read_or_found_is_counted() {
        assert_eq!(result(&came("local/read_file", "1\ta\n2\tb")).as_deref(), Some("2 lines"));
        let part = came("local/read_file", "3\ta\n[lines 3 to 3 of 10; read on with \"offset\": 4]");
        assert_eq!(result(&part).as_deref(), Some("lines 3 to 3 of 10"));
        assert_eq!(result(&came("local/read_file", "[the file is empty]")).as_deref(), Some("the file is empty"));
        assert_eq!(result(&came("local/find_files", "a.rs")).as_deref(), Some("1 path"));
        assert_eq!(result(&came("local/find_files", "[no file matches \"x\"]")), None);
        assert_eq!(result(&came("local/list_dir", "a")), None);
        let failed = ToolResult { status: CallStatus::Error, ..came("local/read_file", "no such file") };
        assert_eq!(result(&failed), None);
    }

    #[test]
    fn an_exit_code_is_shown_when_it_is_not_zero() {
        let ended = |structured: Value| {
            let mut result = came("local/shell_exec", "out");
            result.output.structured = Some(structured);
            exit(&result)
        };
        assert_eq!(ended(json!({"exit_status": 101, "signal": null})).as_deref(), Some("exit code 101"));
        assert_eq!(ended(json!({"exit_status": null, "signal": 9})).as_deref(), Some("killed by signal 9"));
        assert_eq!(ended(json!({"exit_status": 0, "signal": null})), None);
        assert_eq!(ended(json!({"exit_status": null, "signal": null, "running": true})), None);
        assert_eq!(exit(&came("mcp/x/run", "out")), None);
    }
}
