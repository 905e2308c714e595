use super::*;

fn shown(line: &str) -> String {
    match commands(line) {
        Ok(commands) => {
            let word = |word: &Word| match word {
                Word::Literal(word) => word.clone(),
                Word::Expanded(begins) => format!("{begins}…"),
            };
            let command = |words: &Vec<Word>| words.iter().map(word).collect::<Vec<_>>().join("_");
            commands.iter().map(command).collect::<Vec<_>>().join(" | ")
        }
        Err(NotUnderstood) => "?".to_owned(),
    }
}

#[test]
fn every_command_of_a_line_is_found() {
    for (line, wanted) in [
        ("", ""),
        ("git status", "git_status"),
        ("  git\tstatus  ", "git_status"),
        ("a; b | c && d", "a | b | c | d"),
        ("a;b||c&d", "a | b | c | d"),
        ("a\nb\n\n", "a | b"),
        ("a &&\n b", "a | b"),
        ("a &", "a"),
        ("(a; b)", "a | b"),
        ("( a ) && (b)>/dev/null", "a | b"),
        ("echo $(rm x)", "rm_x | echo_…"),
        ("echo \"$(rm $(date))\"", "date | rm_… | echo_…"),
        ("echo '$(rm x)' \\$x \"\\$(x)\"", "echo_$(rm x)_$x_$(x)"),
        ("A=1 B='2 3' git x", "A=1_B=2 3_git_x"),
        ("A=1", "A=1"),
        ("'g'i\"t\" 'a b'\"c\"\\ d", "git_a bc d"),
        ("\"a\\nb\" \"\\\"\" ''", "a\\nb_\"_"),
        ("echo $HOME ${HOME} $1 $? \"$@\" a$ \"$\"", "echo_…_…_…_…_…_a$_$"),
        ("ls *.rs a?b [ab] {a,b} ~ ~/x", "ls_…_a…_…_…_…_…"),
        ("[ -f x ]", "[_-f_x_]"),
        ("a 2>&1 >/dev/null 2> /dev/null </dev/null", "a"),
        ("a b2>/dev/null 2 c", "a_b2_2_c"),
        ("a 2'3'>/dev/null", "a_23"),
        ("a # b; c\nd #", "a | d"),
        ("a#b", "a#b"),
        ("a \\\n b", "a_b"),
        ("a \\\n# 'b\nc #'", "a | c"),
        ("a\\\nb", "ab"),
        ("echo 'äö' \"ü\"", "echo_äö_ü"),
    ] {
        assert_eq!(shown(line), wanted, "{line:?}");
    }
}

#[test]
fn what_is_not_surely_known_is_refused() {
    for line in [
        "a; ; b",
        "a ;; b",
        "; a",
        "a &&",
        "a |",
        "a | | b",
        "a |& b",
        "&& a",
        "(a",
        "a)",
        "a (b)",
        "f() { a; }",
        "f(){ a;}",
        "()",
        "{ a; }",
        "if a; then b; fi",
        "for x in a; do b; done",
        "while a; do b; done",
        "case a in b) c;; esac",
        "! a",
        "time a",
        "[[ a ]]",
        "function f",
        "'unclosed",
        "\"unclosed",
        "\"a$(b\"",
        "a \\",
        "`a`",
        "\"`a`\"",
        "$(a",
        "$((1+1))",
        "$[1+1]",
        "${a:-b}",
        "${a",
        "${}",
        "\"${a#b}\"",
        "$'a'",
        "$\"a\"",
        "\"$\\\n(a)\"",
        "$\\\n(a)",
        "a > b",
        "a >b",
        "a >> b",
        "a < b",
        "a <<EOF\nb\nEOF",
        "a <<< b",
        "a <(b)",
        "a >(b)",
        "a &> /dev/null",
        "a >| /dev/null",
        "a > /dev/nullx",
        "a > /dev/null/../x",
        "a >/dev/null$x",
        "a >&b",
        "a >& /dev/null",
        "a <> /dev/null",
        "a\0b",
        "a\rb",
        "a\u{1b}b",
        "a\u{a0}b",
        "ä",
        "> /dev/null",
        "(a) b",
        "(a) (b)",
        "a;&b",
        "a\u{85}b",
    ] {
        assert_eq!(commands(line), Err(NotUnderstood), "{line:?}");
    }
    let deep = |n: usize| format!("{}a{}", "(".repeat(n), ")".repeat(n));
    assert!(commands(&deep(MAX_DEPTH)).is_ok() && commands(&deep(MAX_DEPTH + 1)).is_err());
    assert!(commands(&"$(".repeat(100_000)).is_err(), "however deep it is");
}
