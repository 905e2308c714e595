//! Sections of bodies, words of requests, patterns of tools.

use super::sections::in_form;
use super::words::words;
use super::{SkillForm, matches};
use expect_test::expect;

const BODY: &str = r"
# Work
Do it.

```text
## Example
- [ ] no item, no heading
```

## Examples
Like this:
~~~
# not a heading
~~~
### Deeper
- [x] an item stays
### Checklist of the example
one

## Before you end: checklist
- look again
#no heading
# Rest
Done.
";

#[test]
fn examples_end_where_their_rank_does_and_checklists_stay() {
    expect![[r"
        # Work
        Do it.

        ```text
        ## Example
        - [ ] no item, no heading
        ```

        - [x] an item stays
        ### Checklist of the example
        one

        ## Before you end: checklist
        - look again
        #no heading
        # Rest
        Done."]]
    .assert_eq(&in_form(BODY, SkillForm::WithoutExamples));
    expect![[r"
        - [x] an item stays
        ### Checklist of the example
        one

        ## Before you end: checklist
        - look again
        #no heading"]]
    .assert_eq(&in_form(BODY, SkillForm::Essentials));
    assert_eq!(in_form(BODY, SkillForm::Whole), BODY.trim());
}

#[test]
fn a_fence_that_never_ends_holds_the_rest() {
    let body = "a\n````\n```\n## Examples\nb";
    assert_eq!(in_form(body, SkillForm::WithoutExamples), body);
}

#[test]
fn words_are_lower_case_and_singular_and_say_something() {
    let words: Vec<_> = words("The PDFs, of 3 classes; status? Über-Größen is a bus").into_iter().collect();
    assert_eq!(words, ["bus", "classe", "größen", "pdf", "status", "über"]);
}

#[test]
fn patterns_read_as_those_of_the_policy() {
    let fits = |pattern: &str, names: &[&str]| names.iter().filter(|name| matches(pattern, name)).count();
    let names = ["local/read_file", "mcp/files/read", "mcp/files/write", "agent/a"];
    let by_star = [("*", 4), ("**", 4), ("*/*", 2), ("local/*", 1), ("mcp/*", 0), ("mcp/**", 2), ("mcp/*/read", 1)];
    let others = [("mcp/files/r??d", 1), ("", 0), ("Bash(git:*)", 0), ("LOCAL/*", 0), ("agent/a*", 1)];
    for (pattern, many) in by_star.into_iter().chain(others) {
        assert_eq!(fits(pattern, &names), many, "{pattern}");
    }
}
