//! Terminal output: no text of a model, a tool or a server controls the terminal.

use vt100::{Callbacks, Screen};

use crate::secure::fixture::{Fixture, LONG, hostile_server, model_at};
use crate::support::clean::assert_clean;
use crate::support::provider::FakeProvider;
use crate::support::reply::Reply;
use crate::support::terminal::{CTRL_D, Terminal};

/// How a sequence begins, and how it may end.
const INTRODUCERS: [&str; 12] = [
    "\u{1b}]0;owned",
    "\u{1b}]2;owned",
    "\u{1b}]52;c;b3duZWQ=",
    "\u{1b}]8;;http://owned/",
    "\u{1b}]9;owned",
    "\u{1b}]4;1;rgb:ff/00/00",
    "\u{1b}P1$qowned",
    "\u{1b}_Gowned",
    "\u{1b}^owned",
    "\u{1b}Xowned",
    "\u{9d}0;owned",
    "\u{90}owned",
];
const TERMINATORS: [&str; 4] = ["\u{7}", "\u{1b}\\", "\u{9c}", ""];
const OTHERS: [&str; 24] = [
    "\u{1b}[2J",
    "\u{1b}[3J",
    "\u{1b}[H",
    "\u{1b}[1;1H",
    "\u{1b}[99A",
    "\u{1b}[2K",
    "\u{1b}[1G",
    "\u{1b}[?1049h",
    "\u{1b}[?25l",
    "\u{1b}[?1000h",
    "\u{1b}[8m",
    "\u{1b}[30;40m",
    "\u{1b}[21t",
    "\u{1b}[1;5r",
    "\u{1b}[!p",
    "\u{1b}c",
    "\u{1b}7",
    "\u{1b}#8",
    "\u{9b}2J",
    "\r",
    "\u{8}\u{8}\u{8}",
    "\u{7f}",
    "\u{202e}",
    "\u{e}",
];

/// Every attack, by itself: 72 of them.
fn attacks() -> Vec<String> {
    let strings = INTRODUCERS.iter().flat_map(|begin| TERMINATORS.map(|end| format!("{begin}{end}")));
    strings.chain(OTHERS.map(str::to_owned)).collect()
}

/// One line for each attack, numbered so that none can hide another.
fn text(number: usize) -> String {
    let line = |(number, attack): (usize, String)| format!("{number:02}<{attack}>\n");
    attacks().into_iter().enumerate().map(line).collect::<String>() + &format!("That was number {number}.\n")
}

/// Control sequences that the terminal received.
#[derive(Default)]
struct Effects(Vec<String>);

impl Callbacks for Effects {
    fn set_window_icon_name(&mut self, _: &mut Screen, name: &[u8]) {
        self.0.push(format!("icon {name:?}"));
    }
    fn set_window_title(&mut self, _: &mut Screen, title: &[u8]) {
        self.0.push(format!("title {title:?}"));
    }
    fn copy_to_clipboard(&mut self, _: &mut Screen, _ty: &[u8], data: &[u8]) {
        self.0.push(format!("clipboard {data:?}"));
    }
    fn paste_from_clipboard(&mut self, _: &mut Screen, ty: &[u8]) {
        self.0.push(format!("paste {ty:?}"));
    }
    fn resize(&mut self, _: &mut Screen, size: (u16, u16)) {
        self.0.push(format!("resize {size:?}"));
    }
    fn audible_bell(&mut self, _: &mut Screen) {
        self.0.push("bell".to_owned());
    }
    fn unhandled_osc(&mut self, _: &mut Screen, parameters: &[&[u8]]) {
        self.0.push(format!("osc {parameters:?}"));
    }
}

/// Fails when anything foreign steered the terminal that showed these bytes.
#[track_caller]
fn assert_unsteered(bytes: &[u8]) {
    let (rows, columns) = (24.try_into().expect("rows"), 80.try_into().expect("columns"));
    let mut parser = vt100::Parser::new_with_callbacks(rows, columns, 0, Effects::default());
    parser.process(bytes);
    assert_eq!(parser.callbacks().0, Vec::<String>::new());
    assert!(!parser.screen().alternate_screen() && !parser.screen().hide_cursor());
    // The line editor moves its own cursor; no other output begins a string, clears the screen or uses 8-bit
    // controls.
    let never = [
        "\u{1b}]",
        "\u{1b}P",
        "\u{1b}_",
        "\u{1b}^",
        "\u{1b}X",
        "\u{1b}c",
        "\u{1b}7",
        "\u{1b}#",
        "\u{1b}[2J",
        "\u{1b}[3J",
        "\u{1b}[H",
        "\u{1b}[1;1H",
        "\u{1b}[99A",
        "\u{1b}[?1049h",
        "\u{1b}[?1000h",
        "\u{1b}[8m",
        "\u{1b}[30;40m",
        "\u{1b}[21t",
        "\u{1b}[1;5r",
        "\u{1b}[!p",
        "\u{8}\u{8}\u{8}",
        "\u{7f}",
        "\u{202e}",
        "\u{e}",
        "\u{7}",
    ];
    for sequence in never {
        let sequence = sequence.as_bytes();
        assert!(!bytes.windows(sequence.len()).any(|window| window == sequence), "{sequence:?} reached the terminal");
    }
    let text = String::from_utf8_lossy(bytes);
    assert!(!text.contains(|c: char| ('\u{80}'..='\u{9f}').contains(&c)), "an 8-bit control reached the terminal");
}

fn chat(fixture: &Fixture) -> Terminal {
    let arguments = ["--config", "agent.toml", "chat", "--session", "s"];
    let terminal =
        Terminal::start(crate::secure::fixture::AGENT, &arguments, fixture.scratch.path(), &[]).deadline(LONG);
    terminal.wait_for("you>");
    terminal
}

#[test]
fn g5_no_attack_of_a_model_steers_a_terminal() {
    assert!(attacks().len() >= 60);
    let sizes = [1, 2, 3, 7, 64];
    let provider = FakeProvider::start(sizes.map(|bytes| Reply::text(&text(bytes)).splintered(bytes)));
    let fixture = Fixture::served_by(&provider, "[store]\nkind = \"memory\"\n");
    let mut terminal = chat(&fixture);
    for bytes in sizes {
        terminal.type_line("Attack me.");
        let last = format!("71<>\nThat was number {bytes}.");
        // The last rows hold the last lines, each where it belongs.
        terminal.wait_until("the end of the answer, and a prompt", |screen| {
            let shown = screen.contents();
            shown.contains(&last) && shown.trim_end().ends_with("you>")
        });
    }
    assert_unsteered(&terminal.bytes());
    terminal.press(CTRL_D);
    assert!(terminal.wait_exit().success());
}

#[test]
fn g5_no_attack_that_markdown_spells_in_numbers_steers_a_terminal() {
    let spelled = |attack: &String| attack.chars().map(|c| format!("&#{};", u32::from(c))).collect::<String>();
    let line = |attack: String| format!("- {0} and [a link](http://{0})\n", spelled(&attack));
    let text = attacks().into_iter().map(line).collect::<String>() + "\nThat was all.\n";
    let provider = FakeProvider::start([Reply::text(&text)]);
    let fixture = Fixture::served_by(&provider, "[store]\nkind = \"memory\"\n");
    let mut terminal = chat(&fixture);
    terminal.type_line("Attack me.");
    terminal.wait_until("the end of the answer, and a prompt", |screen| {
        let shown = screen.contents();
        shown.contains("That was all.\n") && shown.trim_end().ends_with("you>")
    });
    assert_unsteered(&terminal.bytes());
    terminal.press(CTRL_D);
    assert!(terminal.wait_exit().success());
}

/// The attacks as JSON writes them, short enough for a name.
fn words() -> String {
    let all = ["\u{1b}]0;owned\u{7}", "\u{1b}[2J", "\u{9d}52;c;aGk=\u{9c}", "\u{202e}", "\u{1b}P+q\u{1b}\\", "\u{1b}c"]
        .concat();
    all.chars()
        .map(|c| if c.is_ascii_graphic() && c != '\\' { c.to_string() } else { format!("\\u{:04x}", u32::from(c)) })
        .collect()
}

#[test]
fn g5_no_attack_of_a_tool_server_or_an_error_steers_a_terminal() {
    let refusal = |body: String| Reply::Status { code: 400, headers: Vec::new(), body: Some(body) };
    let attack = attacks().concat();
    let provider = FakeProvider::start([
        Reply::call("c1", "mcp__odd__say", "{}"),
        Reply::call("c2", &format!("mcp__odd__{attack}"), &format!("{{\"a\":{}}}", serde_json::json!(attack))),
        Reply::call("c3", "mcp__odd__die", "{}"),
        Reply::text("That was all."),
        refusal(attack.clone()),
        refusal(serde_json::json!({"error": {"message": attack, "type": attack, "code": attack}}).to_string()),
    ]);
    let script = hostile_server(&words()).replace("RAW", "\\033]0;owned\\007\\033[2J\\0302\\0233H\\r");
    let script = script.replace("${", "$${");
    let server = format!("[[mcp.servers]]\nid = \"odd\"\ncommand = \"sh\"\nargs = [\"-c\", '''{script}''']\n");
    let policy = "[policy]\nallow = [\"mcp/**\"]\n[store]\nkind = \"memory\"\n";
    let model = model_at(&provider.base_url(), "max_consecutive_errors = 50");
    let fixture = Fixture::new(&format!("{model}{policy}[log]\nlevel = \"trace\"\n{server}"));
    for command in [&["tools"][..], &["tools", "--json"], &["mcp", "list"], &["mcp", "list", "--json"]] {
        let run = fixture.run(command.iter().copied());
        assert_eq!(run.code, Some(0), "{run:?}");
        assert!(run.stdout.contains("odd"), "{run:?}");
        assert_clean(&run.stdout);
        assert_clean(&run.stderr);
    }
    // Records would come between the prompts.
    fixture.scratch.agent_toml(&format!("{model}{policy}[log]\nlevel = \"off\"\n{server}"));
    let mut terminal = chat(&fixture);
    for (line, shown) in [
        ("Do it.", "That was all."),
        ("/mcp", "stdio"),
        ("/tools", "local/shell_stop"),
        ("Fail.", "HTTP 400"),
        ("Fail in JSON.", "[rephrase the message"),
    ] {
        terminal.type_line(line);
        terminal.wait_until(&format!("{shown:?} and a prompt"), |screen| {
            let screen = screen.contents();
            let after = match screen.rsplit_once(line) {
                Some((_, after)) => after,
                // The list is longer than the screen.
                None if line == "/tools" => &screen,
                None => "",
            };
            after.contains(shown) && after.trim_end().ends_with("you>")
        });
    }
    terminal.type_line("/resume \u{1b}]0;owned\u{7}");
    terminal.wait_until("the complaint and a prompt", |screen| {
        let screen = screen.contents();
        let after = screen.rsplit_once("/resume").map_or("", |(_, after)| after);
        after.contains("the session id") && after.trim_end().ends_with("you>")
    });
    terminal.press(CTRL_D);
    assert!(terminal.wait_exit().exit_code() < 128);
    let bytes = terminal.bytes();
    // The line editor echoes typed text itself; earlier output is foreign text.
    let typed = bytes.windows(7).rposition(|window| window == b"/resume").unwrap_or(bytes.len());
    assert_unsteered(&bytes[..typed]);
}

#[test]
fn g5_no_session_id_steers_a_terminal() {
    let provider = FakeProvider::repeating([Reply::text("hi")]);
    let fixture = Fixture::served_by(&provider, "[store]\nkind = \"memory\"\n");
    for attack in attacks().into_iter().step_by(5) {
        for option in ["--session", "--resume"] {
            let run = fixture.run(["run", &format!("{option}=a{attack}b"), "hi"]);
            assert_eq!(run.code, Some(2), "{run:?}");
            assert_clean(&run.stderr);
        }
    }
    let line = |attack: &String| format!("{}\n", serde_json::json!({"session": format!("a{attack}"), "prompt": "hi"}));
    let lines: String = attacks().iter().map(line).collect();
    let run = fixture.agent(["batch", "-"]).stdin(lines).run();
    assert_eq!((run.code, run.stdout.lines().count()), (Some(2), attacks().len()), "{}", run.stderr);
    assert_clean(&run.stdout);
    assert_clean(&run.stderr);
}
