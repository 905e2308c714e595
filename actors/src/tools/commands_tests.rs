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
        "find . -exec env -u -name rm -rf x \\;",
        "find . -execdir env -u -path rm x ';'",
        "find . -ok nice -n -name rm {} \\;",
        "find . -okdir env -u -regex rm {} \\;",
        "find . -newer -name -exec env -u -name rm x \\;",
        "find . -exec true \\; -exec env -u -name rm x \\;",
        "find . -exec env + -name rm x \\;",
        "nohup find . -exec env -u -name rm x \\;",
        "xargs -I{} -n 1 rm {}",
        "env -S 'rm x'",
        "env -S'rm x'",
        "env -Srm x",
        "env -iS'nice -n 1 rm x'",
        "env -vS'rm\\_x'",
        "env --split-string='rm x'",
        "env --split='A=1 rm x'",
        "nice env -S'rm x'",
        "su -c'rm x'",
        "su --command='ls; rm x'",
        "su -lc 'rm x' me",
        "sudo su -c'rm x'",
        "script -qc'rm x' /dev/null",
        "flock lock -c 'rm x'",
        "fish -c'rm x'",
        "sh -ec 'rm x'",
        "sudo -u me rm x",
        "sudo -ume rm x",
        "nice -n5 rm x",
        "timeout -k 1 5 rm x",
        "timeout --signal=KILL 5 rm x",
        "parallel -j 2 rm ::: a b",
        "ls | parallel 'rm {}'",
        "git -c alias.x='!rm -rf y' x",
        "git -C y -c alias.x='!cd z && rm y' x",
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
        "find . -name rm",
        "find . -type f -iname rm -o -path rm",
        "find . -exec cat {} \\; -name rm",
        "find . -perm 755",
        "env -u rmx ls",
        "git -c user.name='rm' commit",
        "git -c alias.rm='log' commit -m 'a; rm b'",
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

#[test]
fn of_a_long_line_each_word_is_read_a_few_times_only() {
    for word in ["a", "-Sa", "env", "-S'b c'", "'a b'"] {
        let line = format!("env {}", format!("{word} ").repeat(5_000));
        let named = named_in(&line).len();
        assert!(named < 100_000, "{word}: {named}");
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
