//! Sessions whose model sends faulty streams, beside 50 good ones: every session gets its result, and each call that a
//! faulty stream begins is made once or not at all. So it is where the program is killed, and `--finish` has to go through
//! the faulty streams to finish what is open.

use crate::batch::lines::{line, results};
use crate::home::Home;
use crate::support::program::{Program, Run};
use crate::support::provider::FakeProvider;
use crate::support::reply::Reply;
use rustix::process::Signal;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

const GOOD: usize = 50;

const NO_TEXT: char = '\u{1}';

/// A faulty stream. The call `a` appends an `a` to the file `ran-N`, where `N` stands for the number of the session. The
/// letter [`NO_TEXT`] stands for a byte that is no UTF-8.
struct Bad {
    name: String,
    stream: String,
    /// The calls that are made, in their order.
    made: &'static str,
    is_answered: bool,
}

/// Values of `index` that servers have sent or may send. Some believed literally abort the process or keep it busy for a
/// minute; others make several calls of one, or none.
const INDEXES: [&str; 16] = [
    "",
    "1",
    "2",
    "7",
    "400",
    "40000",
    "400000",
    "40000000",
    "2147483648",
    "-1",
    "1e300",
    "1.0",
    "1.5",
    "null",
    "\"first\"",
    "[0]",
];

/// An argument that is larger than an answer may be, in bytes.
const HUGE: usize = 10 << 20;

/// The arguments of the call `mark`, as JSON.
fn arguments(mark: char) -> String {
    json!({ "command": format!("echo {mark} >> ran-N") }).to_string()
}

/// A piece of a call. Without `index`, `id` or `name` the field is absent.
fn piece(index: &str, id: &str, name: &str, arguments: &str) -> String {
    let field = |field: &str, value: String| if value.is_empty() { value } else { format!("\"{field}\":{value},") };
    let text = |text: &str| if text.is_empty() { String::new() } else { json!(text).to_string() };
    let (index, id, name) = (field("index", index.into()), field("id", text(id)), field("name", text(name)));
    format!("{{{index}{id}\"function\":{{{name}\"arguments\":{}}}}}", json!(arguments))
}

/// A whole call.
fn call(index: &str, id: &str, mark: char) -> String {
    piece(index, id, "local__shell_exec", &arguments(mark))
}

/// A choice whose message is these pieces of calls.
fn choice(index: usize, pieces: &[String]) -> String {
    format!("{{\"index\":{index},\"delta\":{{\"tool_calls\":[{}]}}}}", pieces.join(","))
}

/// An event with these choices.
fn event(choices: &[String]) -> String {
    format!("data: {{\"choices\":[{}]}}\n\n", choices.join(","))
}

/// A stream with a piece of a call an event.
fn stream(pieces: &[String]) -> String {
    let events: String = pieces.iter().map(|piece| event(&[choice(0, std::slice::from_ref(piece))])).collect();
    events + "data: {\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"tool_calls\"}]}\n\ndata: [DONE]\n\n"
}

/// A whole call in three pieces, the index and the id of each given.
fn cut(named: [(&str, &str); 3]) -> String {
    let whole = arguments('a');
    let (first, last) = whole.split_at(whole.len() / 2);
    let [(index, id), more, end] = named;
    stream(&[
        piece(index, id, "local__shell_exec", ""),
        piece(more.0, more.1, "", first),
        piece(end.0, end.1, "", last),
    ])
}

fn numbered() -> impl Iterator<Item = Bad> {
    INDEXES.iter().map(|index| {
        let stream = stream(&[call(index, "c", 'a')]);
        Bad { name: format!("index {index:?}"), stream, made: "a", is_answered: true }
    })
}

/// Streams that have the calls they begin.
fn readable() -> Vec<(&'static str, String, &'static str)> {
    let two = |(a, one), (b, other)| stream(&[call(a, one, 'a'), call(b, other, 'b')]);
    let whole = call("0", "c", 'a');
    let object = whole.replace(&json!(arguments('a')).to_string(), &arguments('a'));
    let deep = format!("{{\"command\":{}", "[".repeat(100_000));
    let half = piece("0", "c", "local__shell_exec", &arguments('a')[..9]);
    let unknown = piece("0", "c", "local__pay", &arguments('a'));
    let (ab, ba) = (call("3", "c1", 'a') + "," + &call("9", "c2", 'b'), [call("1", "c", 'b'), call("0", "c", 'a')]);
    vec![
        ("two, one-based", two(("1", "c1"), ("2", "c2")), "ab"),
        ("two with a gap", two(("0", "c1"), ("9", "c2")), "ab"),
        ("two, the last first", two(("1", "c1"), ("0", "c2")), "ab"),
        ("two without an index", two(("", "c1"), ("", "c2")), "ab"),
        ("two with one index", two(("0", "c1"), ("0", "c2")), "ab"),
        ("two with one id", two(("0", "c"), ("1", "c")), "ab"),
        ("two in one event, with a gap", stream(&[ab]), "ab"),
        // The arguments of both together are no JSON.
        ("one that comes twice", stream(&[whole.clone(), whole.clone()]), ""),
        ("pieces, one-based", cut([("1", "c"), ("1", ""), ("1", "")]), "a"),
        ("pieces without an index", cut([("", "c"), ("", ""), ("", "")]), "a"),
        ("pieces with ids of their own", cut([("0", "c1"), ("0", "c2"), ("0", "c3")]), "a"),
        ("pieces with nothing", cut([("", ""), ("", ""), ("", "")]), "a"),
        (
            "text before a call with index 1",
            "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"I pay.\"}}]}\n\n".to_owned()
                + &stream(&[call("1", "c", 'a')]),
            "a",
        ),
        ("two choices, the second first", event(&[choice(1, &ba[..1]), choice(0, &ba[1..])]) + "data: [DONE]\n\n", "a"),
        (
            "two choices in events of their own",
            event(&[choice(1, &ba[..1])]) + &event(&[choice(0, &ba[1..])]) + "data: [DONE]\n\n",
            "a",
        ),
        ("arguments that are an object", stream(&[object]), "a"),
        ("a call behind the end marker", stream(std::slice::from_ref(&whole)) + &stream(&[call("1", "d", 'b')]), "a"),
        ("arguments that are cut", stream(&[half]), ""),
        ("arguments that are deep", stream(&[piece("0", "c", "local__shell_exec", &deep)]), ""),
        ("a tool that does not exist", stream(&[unknown]), ""),
    ]
}

/// Streams that are no answers: nothing of them is made.
fn unreadable() -> Vec<(&'static str, String)> {
    let whole = stream(&[call("0", "c", 'a')]);
    let many: Vec<String> = (0..300).map(|at: usize| call(&at.to_string(), &format!("c{at}"), 'a')).collect();
    let huge = piece("0", "c", "local__shell_exec", &"x".repeat(HUGE));
    let pieces = vec![piece("0", "c", "", &"x".repeat(1 << 10)); HUGE >> 10];
    let (before, _) = whole.split_once("ran-N").expect("a call");
    let first = piece("0", "c", "local__shell_exec", "");
    vec![
        ("300 calls", stream(&many)),
        ("one argument of 10 MiB", stream(&[huge])),
        ("one argument of 10 MiB in pieces", stream(&[vec![first], pieces].concat())),
        ("a string that does not end", format!("{before}\n\ndata: [DONE]\n\n")),
        ("no end marker", whole.replace("data: [DONE]\n\n", "")),
        ("an error behind a call", whole.replace("[DONE]", "{\"error\":{\"message\":\"out of order\"}}")),
        ("arguments of no call", stream(&[call("0", "c", 'a'), piece("1", "", "", "{}")])),
        ("bytes that are no text", whole.replace('>', &NO_TEXT.to_string())),
    ]
}

fn bad() -> Vec<Bad> {
    let readable = readable().into_iter().map(|(name, stream, made)| (name, stream, made, true));
    let unreadable = unreadable().into_iter().map(|(name, stream)| (name, stream, "", false));
    let named = readable.chain(unreadable).map(|(name, stream, made, is_answered)| Bad {
        name: name.to_owned(),
        stream,
        made,
        is_answered,
    });
    numbered().chain(named).collect()
}

/// Which requests get no answer for now, so that their turns are open when the program is killed.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Unanswered {
    None,
    /// All: the faulty streams come when the turns are finished.
    First,
    /// All but the first of each session: the faulty streams are in the journals.
    Further,
}

/// The model's replies: to the prompt `bad N.` at first the stream of session `N`, to a good one a call, to a result and to
/// a complaint an answer. The switch says whether the requests of `unanswered` are still without one.
fn provider(unanswered: Unanswered, is_silent: &Arc<AtomicBool>) -> FakeProvider {
    let streams: Vec<String> = bad().into_iter().map(|bad| bad.stream).collect();
    let begun = Mutex::new(BTreeSet::new());
    let is_silent = Arc::clone(is_silent);
    FakeProvider::answering(move |body| {
        let text = body["messages"].to_string();
        let number = |word: &str| text.split_once(word)?.1.split_once('.')?.0.parse::<usize>().ok();
        let (bad, has_results) = (number("bad "), text.contains("\"role\":\"tool\""));
        let mut begun = begun.lock().expect("no thread panics");
        let is_further = has_results || bad.is_some_and(|number| begun.contains(&number));
        let may_wait = unanswered == Unanswered::First || unanswered == Unanswered::Further && is_further;
        if may_wait && is_silent.load(Ordering::Relaxed) {
            return Reply::Silence;
        }
        if is_further {
            return Reply::text("Done.");
        }
        if let Some(number) = number("good ") {
            let arguments = json!({ "command": format!("echo a >> good-{number}") });
            return Reply::call("c", "local__shell_exec", &arguments.to_string());
        }
        let Some(number) = bad else { return Reply::text("No.") };
        begun.insert(number);
        let stream = streams[number].replace("ran-N", &format!("ran-{number}"));
        let has_no_text = stream.contains(NO_TEXT);
        let mut bytes = stream.into_bytes();
        if has_no_text {
            bytes.iter_mut().filter(|byte| **byte == NO_TEXT as u8).for_each(|byte| *byte = 0xff);
        }
        Reply::Pieces(vec![bytes])
    })
}

/// A home where commands run without approval.
fn home(provider: &FakeProvider, policy: &str) -> Home {
    let home = Home::served_by(provider);
    let config = home.scratch.read("agent.toml");
    home.scratch.agent_toml(&format!("{config}[policy]\ndeny_tools = []\n{policy}"));
    home
}

/// What ran, by the file it was written to, a letter a call.
fn made(home: &Home, name: &str) -> String {
    std::fs::read_to_string(home.scratch.join(name)).unwrap_or_default().replace('\n', "")
}

/// The lines of all sessions, the faulty ones first.
fn lines() -> String {
    let bad_lines = (0..bad().len()).map(|number| line(&format!("bad-{number}"), &format!("bad {number}.")));
    let good_lines = (0..GOOD).map(|number| line(&format!("good-{number}"), &format!("good {number}.")));
    bad_lines.chain(good_lines).collect()
}

/// A batch of all sessions at once.
fn batch(home: &Home, options: &[&'static str]) -> Program {
    let arguments = ["batch", "-", "--concurrency", "128"].into_iter().chain(options.iter().copied());
    home.agent(arguments).stdin(lines())
}

/// Every session has its result, and its calls were made once or not at all.
#[track_caller]
fn all_have_their_results(home: &Home, run: &Run) {
    // The worst of it is a model's error.
    assert_eq!((run.code, run.signal), (Some(5), None), "{}", run.stderr);
    let (results, bad) = (results(run), bad());
    assert_eq!(results.len(), GOOD + bad.len());
    let results: BTreeMap<&str, &Value> = results
        .iter()
        .map(|result| (result["session_id"].as_str().expect("a result names its session"), result))
        .collect();
    for number in 0..GOOD {
        let (name, result) = (format!("good-{number}"), results[&*format!("good-{number}")]);
        assert_eq!((&result["content"], &*made(home, &name)), (&json!("Done."), "a"), "{result}");
    }
    for (number, bad) in bad.iter().enumerate() {
        let (result, about) = (results[&*format!("bad-{number}")], &bad.name);
        assert_eq!(made(home, &format!("ran-{number}")), bad.made, "{about}");
        assert_eq!(result["content"] == "Done.", bad.is_answered, "{about}: {result}");
        assert_eq!(result["error"]["kind"] == "llm", !bad.is_answered, "{about}: {result}");
    }
}

#[test]
fn l14_a_poisoned_session_harms_no_other_and_its_call_is_made_once() {
    let provider = provider(Unanswered::None, &Arc::default());
    let home = home(&provider, "require_high_risk_approval = false\n");
    all_have_their_results(&home, &batch(&home, &[]).run());
    let asked = provider.requests().len();
    all_have_their_results(&home, &batch(&home, &["--finish"]).run());
    assert_eq!(provider.requests().len(), asked, "what has an outcome is not asked for again");
}

/// The program is killed while all of these turns are open, and is run again with `--finish`: it lives, and finishes each.
#[track_caller]
fn all_are_finished_after_a_kill(unanswered: Unanswered) {
    let is_silent = Arc::new(AtomicBool::new(true));
    let provider = provider(unanswered, &is_silent);
    let home = home(&provider, "require_high_risk_approval = false\n");
    let (bad, mut running) = (bad(), batch(&home, &[]).spawn());
    let answered = bad.iter().filter(|bad| bad.is_answered).count();
    let (asked, ended) = match unanswered {
        Unanswered::Further => (2 * (GOOD + answered) + bad.len() - answered, bad.len() - answered),
        Unanswered::First | Unanswered::None => (GOOD + bad.len(), 0),
    };
    assert!(provider.asked_within(asked, Duration::from_secs(120)), "{} of {asked}", provider.requests().len());
    (0..ended).for_each(|_| assert!(running.next_line().is_some(), "the result of a stream that is no answer"));
    running.signal(Signal::KILL);
    let killed = running.finish();
    assert_eq!((killed.signal, results(&killed).len()), (Some(9), ended), "{}", killed.stderr);
    is_silent.store(false, Ordering::Relaxed);

    let run = batch(&home, &["--finish"]).run();
    all_have_their_results(&home, &run);
    let asked_again = provider.requests().len() - asked;
    // Each open turn asks again at least once, and nothing that has an outcome does.
    assert!(asked_again >= GOOD + bad.len() - ended, "{asked_again}");
    for number in 0..GOOD {
        let journal = home.run(["sessions", "export", &format!("good-{number}")]).stdout;
        assert_eq!(journal.matches("\"kind\":\"input\"").count(), 1, "finished, and not begun again: {journal}");
    }
}

#[test]
fn l14_what_is_open_is_finished_through_poisoned_answers() {
    all_are_finished_after_a_kill(Unanswered::First);
}

#[test]
fn l14_what_is_open_behind_poisoned_answers_is_finished_and_their_calls_are_not_made_again() {
    all_are_finished_after_a_kill(Unanswered::Further);
}

/// It was asked about twice, and paid twice.
#[test]
fn l14_a_call_is_asked_about_once_however_the_stream_numbers_it() {
    let number = bad().iter().position(|bad| bad.name == "text before a call with index 1").unwrap();
    let provider = provider(Unanswered::None, &Arc::default());
    let home = home(&provider, "");
    let (code, result) = home.json(["--approvals", "suspend", &format!("bad {number}.")]);
    assert_eq!((code, made(&home, &format!("ran-{number}"))), (Some(4), String::new()), "{result}");
    let run = home.run(["resume", result["token"].as_str().unwrap(), "allow"]);
    assert_eq!((run.code, made(&home, &format!("ran-{number}")).as_str()), (Some(0), "a"), "{run:?}");
}
