//! Which tools the list of a skill means: the patterns of the policy's lists, read without
//! a library, since this crate has none for it.

/// Whether a pattern matches this name. `*` is any text inside one part of a name, `**` any text, `?` one character;
/// a lone `*` matches every name. A pattern that is no tool name here, such as `Bash(git:*)`, matches none.
pub fn matches(pattern: &str, name: &str) -> bool {
    let pattern = if pattern == "*" { "**" } else { pattern };
    fits(pattern.as_bytes(), name.as_bytes())
}

/// Goes through the pattern once and keeps which beginnings of the name it fits so far, so
/// that no pattern costs more than its length times that of the name.
fn fits(pattern: &[u8], name: &[u8]) -> bool {
    // `reached[at]`: the pattern so far fits the first `at` bytes of the name.
    let mut reached = vec![false; name.len() + 1];
    reached[0] = true;
    let mut rest = pattern;
    while let [first, after @ ..] = rest {
        let is_deep = *first == b'*' && after.first() == Some(&b'*');
        let mut next = vec![false; name.len() + 1];
        match first {
            b'*' => {
                let mut open = false;
                for at in 0..=name.len() {
                    if at > 0 && name[at - 1] == b'/' && !is_deep {
                        open = false;
                    }
                    open |= reached[at];
                    next[at] = open;
                }
            }
            byte => {
                for at in 0..name.len() {
                    let fits = *byte == name[at] || (*byte == b'?' && name[at] != b'/');
                    next[at + 1] = reached[at] && fits;
                }
            }
        }
        if !next.contains(&true) {
            return false;
        }
        reached = next;
        rest = if is_deep { &after[1..] } else { after };
    }
    reached[name.len()]
}
