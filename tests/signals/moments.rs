//! Ctrl-C at every moment of an answer and of a command that put out text: what the screen showed is in the journal.
//!
//! 40 moments by default. A parameter behind the name of the test sets another number:
//! `cargo test --all-features --test whole -- ctrl_c_at_every_moment moments=200`.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::{Value, json};

use crate::signals::fixture::{AGENT, Fixture};
use crate::support::provider::FakeProvider;
use crate::support::reply::Reply;
use crate::support::terminal::{CTRL_C, CTRL_D, Terminal};

const PROMPT: &str = "auto>";
const PACE: Duration = Duration::from_millis(10);

/// How many moments are tried: the parameter `moments=N` of the test program, else 40.
fn moments() -> usize {
    let given = std::env::args().find_map(|word| word.strip_prefix("moments=")?.parse().ok());
    given.unwrap_or(40)
}

/// A turn: whether a command is interrupted instead of an answer, how many words there are, how many of the four pieces of
/// an answer have come, and whether the text stands still there or goes on.
#[derive(Clone, Copy, Debug)]
struct Moment {
    turn: usize,
    is_command: bool,
    count: usize,
    pieces: usize,
    goes_on: bool,
}

impl Moment {
    fn of(turn: usize) -> Self {
        let (is_command, goes_on) = (turn % 2 == 1, turn % 6 >= 4);
        Self { turn, is_command, count: 2 + turn / 8 % 7, pieces: 1 + turn / 2 % 4, goes_on }
    }

    /// A word that no other turn has.
    fn word(self, number: usize) -> String {
        format!("t{:03}w{number}x", self.turn)
    }

    fn words(self, count: usize) -> String {
        (1..=count).map(|number| self.word(number) + " ").collect()
    }

    fn reply(self) -> Reply {
        if !self.is_command {
            return match self.goes_on {
                // It never ends by itself, however late the key is pressed.
                true => Reply::text(&self.words(400)).stall_after(5).paced(PACE),
                // The first chunk has no text.
                false => Reply::text(&self.words(self.count)).stall_after(1 + self.pieces),
            };
        }
        // At most ten lines of a second are shown.
        let (count, pause) = if self.goes_on { (100_000, 0.01) } else { (self.count, 0.15) };
        let command = format!(
            "i=1; while [ $i -le {count} ]; do echo t{:03}w${{i}}x; i=$((i+1)); sleep {pause}; done; sleep 600",
            self.turn
        );
        Reply::call("c1", "local__shell_exec", &json!({ "command": command }).to_string())
    }

    /// What the screen has at this moment.
    fn is_reached(self, screen: &str) -> bool {
        match (self.is_command, self.goes_on) {
            (true, false) => screen.contains(&self.word(self.count)),
            (false, false) => {
                let text = self.words(self.count);
                let shown = text.len().div_ceil(4) * self.pieces;
                screen.contains(text[..shown.min(text.len())].trim_end())
            }
            // It may be beyond any word before it is drawn.
            (_, true) => {
                words(screen).get(&self.turn).is_some_and(|words| words.iter().any(|word| word.ends_with('x')))
            }
        }
    }
}

/// The words of the turns in a text, cut ones included.
fn words(text: &str) -> BTreeMap<usize, Vec<String>> {
    let mut found: BTreeMap<usize, Vec<String>> = BTreeMap::new();
    // Rows that are full follow each other without a break.
    for word in text.split(|c: char| !c.is_ascii_alphanumeric()).flat_map(|word| word.split_inclusive('x')) {
        let turn = word.strip_prefix('t').and_then(|rest| rest.get(..3)?.parse().ok());
        if let Some(turn) = turn {
            found.entry(turn).or_default().push(word.to_owned());
        }
    }
    found
}

#[test]
fn ctrl_c_at_every_moment_keeps_what_the_screen_showed() {
    let count = moments();
    let provider = FakeProvider::answering(|body| {
        let messages = body["messages"].as_array().cloned().unwrap_or_default();
        let said = messages.iter().rev().find_map(|message| message["content"].as_str()?.strip_prefix("turn "));
        let turn: usize = said.and_then(|turn| turn.trim().parse().ok()).expect("a turn is named");
        Moment::of(turn).reply()
    });
    let fixture = Fixture::new(&provider, "").keeping("", "retry_max = 0", "");
    let plain = fixture.scratch.read("agent.toml");
    fixture.scratch.agent_toml(&plain.replace("[policy]\n", "[policy]\ndeny_tools = []\n"));
    let args = ["--config", "agent.toml", "chat", "--session", "s"];
    let mut terminal = Terminal::start(AGENT, &args, fixture.scratch.path(), &[]).deadline(Duration::from_secs(60));
    let is_ready = |screen: &vt100::Screen| screen.contents().trim_end().ends_with(PROMPT);
    let mut shown: BTreeMap<usize, Vec<String>> = BTreeMap::new();
    for turn in 0..count {
        let moment = Moment::of(turn);
        terminal.wait_until("the prompt", is_ready);
        let before = terminal.bytes().len();
        terminal.type_line(&format!("turn {turn}"));
        terminal.wait_until(&format!("{moment:?}"), |screen| moment.is_reached(&screen.contents()));
        let on_screen = terminal.screen();
        terminal.press(CTRL_C);
        terminal.wait_until("the end", |screen| {
            let text = screen.contents();
            is_ready(screen) && text.rfind("[cancelled]") > text.rfind(&format!("turn {turn}\n"))
        });
        let written = String::from_utf8_lossy(&terminal.bytes()[before..]).into_owned();
        let mut all = words(&on_screen).remove(&turn).unwrap_or_default();
        // Escape codes between them are no letters, and what is drawn over was shown as well.
        all.extend(words(&written).remove(&turn).unwrap_or_default());
        shown.insert(turn, all);
    }
    terminal.press(CTRL_D);
    assert!(terminal.wait_exit().success());

    let journal = fixture.agent(["sessions", "export", "s"]).run().stdout;
    let records: Vec<Value> = journal.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
    let kept =
        words(&records.iter().map(|record| record["body"].to_string() + "\n").collect::<String>().replace("\\n", " "));
    let (mut answers, mut commands) = (0, 0);
    for (turn, shown) in &shown {
        let moment = Moment::of(*turn);
        let kept = kept.get(turn).cloned().unwrap_or_default();
        for word in shown {
            let is_kept = kept.iter().any(|kept| kept.starts_with(word.as_str()));
            assert!(is_kept, "{word} was on the screen at {moment:?} and is not in the journal, which has {kept:?}");
        }
        *(if moment.is_command { &mut commands } else { &mut answers }) += shown.len();
    }
    println!("{count} moments: {answers} pieces of answers and {commands} of commands were shown, and all are kept");
    assert!(answers >= count / 2 && commands >= count / 2, "something was shown each time");
}
