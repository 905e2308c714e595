//! The message about a failed turn: the error, what was saved, and advice, in two lines; of a provider's response
//! only its message.

use std::net::TcpListener;

use serde_json::json;

use crate::secure::fixture::{Fixture, model_at};
use crate::support::provider::FakeProvider;
use crate::support::reply::Reply;

const BODY: &str = "BODY-OF-THE-PROVIDER";

/// The provider's message, and its rendering.
const SAID: &str = "the \u{1b}[31mkey sk-abcdefgh is over";
const SHOWN: &str = "; it said: the [31mkey [hidden] is over";

#[test]
fn a_failed_turn_says_what_failed_what_was_kept_and_what_to_do() {
    let body = json!({"error": {"message": SAID, "type": SAID, "code": SAID}, "prompt": BODY}).to_string();
    let status = |code: u16| Reply::Status { code, headers: Vec::new(), body: Some(body.clone()) };
    let page = |kind: &str| Reply::Status {
        code: 200,
        headers: vec![("content-type".into(), kind.into())],
        body: Some(format!("<html>{BODY}</html>")),
    };
    let stream = |text: &str| Reply::Pieces(vec![format!("data: {text}\n\n").into_bytes()]);
    let quota = json!({"error": {"message": SAID, "code": "insufficient_quota"}, "prompt": BODY}).to_string();
    let rows: Vec<(&str, Vec<Reply>)> = vec![
        ("400", vec![status(400)]),
        ("401", vec![status(401)]),
        ("403", vec![status(403)]),
        ("404", vec![status(404)]),
        ("413", vec![status(413)]),
        ("429", vec![status(429)]),
        ("quota", vec![Reply::Status { code: 429, headers: Vec::new(), body: Some(quota) }]),
        ("500", vec![status(500)]),
        ("503", vec![status(503)]),
        ("an error in a stream", vec![stream(&body)]),
        ("a page", vec![page("text/html")]),
        ("a page that says it is events", vec![page("text/event-stream")]),
        ("a stream of something else", vec![stream(&format!("{{\"{BODY}\":1}}"))]),
        ("a cut answer", vec![Reply::text(BODY).cut_after(60)]),
        ("nothing", vec![Reply::Raw(Vec::new())]),
        ("nonsense instead of HTTP", vec![Reply::Raw(BODY.as_bytes().to_vec())]),
        ("an empty answer", vec![Reply::EmptyChoices]),
    ];
    let mut report = String::new();
    let mut check = |name: &str, fixture: &Fixture, arguments: &[&str], code: i32| {
        let run = fixture.run(arguments.iter().copied());
        assert_eq!(run.code, Some(code), "{name}: {run:?}");
        assert!(!run.stderr.contains(BODY) && !run.stdout.contains(BODY), "{name}: {run:?}");
        let lines: Vec<&str> = run.stderr.lines().collect();
        report.push_str(&format!("{name}\n    {}\n", lines.join("\n    ")));
        lines.into_iter().map(str::to_owned).collect::<Vec<_>>()
    };
    for (name, replies) in rows {
        let provider = FakeProvider::start(replies);
        let fixture = Fixture::served_by(&provider, "[store]\nkind = \"json\"\n");
        // An error that another model would fix is a usage error.
        let code = if name == "404" { 2 } else { 5 };
        let lines = check(name, &fixture, &["run", "--session", "s", "hi"], code);
        assert_eq!(lines.len(), 2, "{name}: {lines:?}");
        let has_a_reason = name.parse::<u16>().is_ok() || ["quota", "an error in a stream"].contains(&name);
        assert_eq!(lines[0].contains(SHOWN), has_a_reason, "{name}: {lines:?}");
        assert!(lines[0].starts_with("error: ") && lines[0].len() < 300, "{name}: {lines:?}");
        assert!(lines[1].starts_with("[saved in session s; "), "{name}: {lines:?}");
    }
    let closed = TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr()).expect("a port");
    let fixture = Fixture::new(&format!("{}[store]\nkind = \"json\"\n", model_at(&format!("http://{closed}/v1/"), "")));
    check("nobody there", &fixture, &["run", "--session", "s", "hi"], 5);
    check("no key", &fixture, &["run", "--model", "openai:gpt-4o-mini", "hi"], 2);
    check("an unknown provider", &fixture, &["run", "--model", "nobody:x", "hi"], 2);
    check("a bad session", &fixture, &["run", "--session", "../x", "hi"], 2);
    check("a missing session", &fixture, &["run", "--resume", "nobody", "hi"], 2);
    let required = "[[mcp.servers]]\nid = \"needed\"\ncommand = \"no-such-program-here\"\nrequired = true\n[store]\nkind = \"json\"\n";
    let fixture = Fixture::new(&format!("{}{required}", model_at(&format!("http://{closed}/v1/"), "")));
    check("a required server", &fixture, &["run", "hi"], 6);
    let fixture = Fixture::new(&format!(
        "{}[store]\nkind = \"json\"\npath = \"agent.toml\"\n",
        model_at(&format!("http://{closed}/v1/"), "")
    ));
    check("a store that cannot be opened", &fixture, &["run", "hi"], 7);
    println!("{report}");
}
