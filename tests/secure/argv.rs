//! Commands of a configuration are programs and arguments, never shell lines.

use crate::secure::fixture::{Fixture, drill, model_at, wait};
use crate::support::provider::FakeProvider;
use crate::support::reply::Reply;

#[test]
fn g13_what_looks_like_a_shell_line_is_handed_over_as_it_is() {
    let provider = FakeProvider::repeating([Reply::text("hi")]);
    let name = "we ird;$(touch mark)`touch mark`|&> $HOME 'x'\n*.log";
    let words = ["$(touch mark)", "; touch mark", "a\nb", "$HOME", "", "&& touch mark", "é\u{202e}"];
    let quoted = |word: &&str| format!("{word:?}").replace("\\u{202e}", "\\u202e").replace("\\'", "'");
    let all: Vec<String> = ["drill-server", "--log", name].iter().map(quoted).collect();
    let odd = format!(
        "[[mcp.servers]]\nid = \"odd\"\ncommand = {:?}\nargs = [{}]\n",
        crate::secure::fixture::AGENT,
        all.join(", ")
    );
    let shell: Vec<String> = words.iter().map(quoted).collect();
    let started = format!(
        "[providers.slow]\nkind = \"openai\"\nbase_url = \"http://127.0.0.1:9/v1/\"\napi_key = \"none\"\nstart = {{ \
         command = \"sh\", args = [\"-c\", \"printf '%s\\\\0' \\\"$@\\\" > words; exit 3\", \"sh\", {}] }}\n",
        shell.join(", ")
    );
    let fixture = Fixture::new(&format!(
        "{}[store]\nkind = \"memory\"\n{started}{odd}{}",
        model_at(&provider.base_url(), ""),
        drill("plain", &[], "")
    ));
    let mut chat = fixture.agent(["chat"]).open_stdin().spawn();
    chat.type_line("hi");
    chat.wait_stdout("hi\n");
    wait("the log of a server with an odd name", || fixture.scratch.join(name).exists());
    let chat = chat.finish();
    assert_eq!(chat.code, Some(0), "{chat:?}");

    assert_eq!(fixture.run(["run", "--model", "slow:m", "hi"]).code, Some(5));
    let handed = fixture.scratch.read("words");
    // `\0` ends each word: the shell is the program to be started, and its arguments are not interpreted.
    assert_eq!(handed.split_terminator(['\0']).collect::<Vec<_>>(), words);
    assert!(!fixture.scratch.list(".").iter().any(|name| name == "mark"), "{:?}", fixture.scratch.list("."));

    let missing = Fixture::new(&format!(
        "{}[store]\nkind = \"memory\"\n[[mcp.servers]]\nid = \"line\"\ncommand = \"touch mark; true\"\nrequired = true\n",
        model_at(&provider.base_url(), "")
    ));
    let run = missing.run(["run", "hi"]);
    assert_eq!(run.code, Some(6), "a whole line is no program: {run:?}");
    assert!(run.stderr.contains("touch mark; true"), "{}", run.stderr);
    // Usage by name is recorded.
    assert_eq!(missing.scratch.list("."), ["agent.toml", "state"], "nothing was touched");
}
