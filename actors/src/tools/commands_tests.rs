use super::*;
use proptest::prelude::*;

fn names(line: &str, command: &str) -> bool {
    named_in(line).iter().any(|word| word == command)
}

#[test]
fn a_command_is_found_wherever_a_shell_looks_for_one() {
    for line in [
        "rm x",
        "  rm x",
        "/bin/rm x",
        "../bin/rm x",
        "ls; rm x",
        "ls;rm x",
        "ls && rm x",
        "ls || rm x",
        "ls | rm x",
        "ls & rm x",
        "ls\nrm x",
        "ls \\\n; rm x",
        "A=1 rm x",
        "A=1 B='2 3' rm x",
        "env rm x",
        "env -i A=1 /bin/rm x",
        "nohup nice -n 5 rm x",
        "command rm x",
        "sudo rm x",
        "(rm x)",
        "{ rm x; }",
        "if true; then rm x; fi",
        "while ! rm x; do :; done",
        "echo $(rm x)",
        "echo \"$(rm x)\"",
        "echo \"$(date)\"; rm x",
        "echo \"`date`\"; rm x",
        "echo \"$(echo \"$(date)\")\"; rm x",
        "echo `rm x`",
        "cat <(rm x)",
        "> out rm x",
        "2>&1 rm x",
        "ls >out; rm x",
        "'rm' x",
        "r\"m\" x",
        "r\\m x",
        "\\rm x",
        "$'rm' x",
        "sh -c 'rm x'",
        "bash -c \"ls; rm x\"",
        "sh -c 'sh -c \"rm x\"'",
        "eval 'rm x'",
        "find . -exec rm {} +",
        "ls | xargs rm",
        "# don't\nrm x",
        "cat <<EOF\ndon't\nEOF\nrm x",
        "f() { rm x; }; f",
        "x=$(rm x)",
        "trap 'rm x' EXIT",
    ] {
        assert!(names(line, "rm"), "{line:?}: {:?}", named_in(line));
    }
}

#[test]
fn a_word_that_is_no_command_is_not_taken_for_one() {
    for line in [
        "echo rm",
        "ls rm",
        "ls 'a; rm x'",
        "git commit -m \"remove; rm old\"",
        "ls > rm",
        "ls 2> rm",
        "ls # rm",
        "rmdir x",
        "rm-rf x",
        "confirm",
        "rm=1 ls",
        "",
        "   ",
        ";;;",
    ] {
        assert!(!names(line, "rm"), "{line:?}: {:?}", named_in(line));
    }
}

proptest! {
    #[test]
    fn any_line_can_be_read(line in "[ a-c'\"`$();|&\\\\\n#<>{}=]{0,64}") {
        let named = named_in(&line);
        prop_assert!(named.iter().all(|word| word.len() <= line.len()));
    }

    #[test]
    fn what_comes_before_a_separator_hides_nothing(before in "[a-z ]{0,12}", quoted in "[a-z;& ]{0,12}") {
        let line = format!("{before} '{quoted}' \"{quoted}\" ; rm x");
        prop_assert!(names(&line, "rm"));
    }
}
