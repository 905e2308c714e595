//! Folders of skills: what is found, what is wrong with it, and when it is read again.

use super::{SkillFolders, SkillPort, SkillSource};
use bob_messages::skills::SkillIndex;
use expect_test::{Expect, expect};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

struct Folder(tempfile::TempDir);

impl Folder {
    fn new() -> Self {
        Self(tempfile::tempdir().expect("a folder"))
    }

    fn path(&self) -> PathBuf {
        self.0.path().canonicalize().expect("it is there")
    }

    fn write(&self, path: &str, text: &str) {
        let path = self.path().join(path);
        fs::create_dir_all(path.parent().expect("a folder")).expect("made");
        fs::write(path, text).expect("written");
    }

    fn skill(&self, folder: &str, description: &str) {
        let name = folder.rsplit('/').next().unwrap_or_default();
        self.write(
            &format!("{folder}/SKILL.md"),
            &format!("---\nname: {name}\ndescription: {description}\n---\nDo it.\n"),
        );
    }

    fn source(&self, path: &str, recursive: bool) -> SkillFolders {
        SkillFolders::new(vec![SkillSource { recursive, ..SkillSource::new(path) }], self.path())
    }

    fn told(&self, index: &SkillIndex) -> String {
        let here = self.path().display().to_string();
        let mut told: Vec<_> =
            index.skills.iter().map(|skill| format!("{}: {}", skill.name(), skill.front.description)).collect();
        told.extend(index.findings.iter().map(|finding| {
            format!("{}{}", if finding.is_broken { "! " } else { "? " }, finding.to_string().replace(&here, ""))
        }));
        told.join("\n")
    }
}

/// What one file comes to.
fn check(text: &str, expected: Expect) {
    let folder = Folder::new();
    folder.write("pdf/SKILL.md", text);
    expected.assert_eq(&folder.told(&folder.source(".", true).read(None)));
}

#[test]
fn a_whole_head_is_read() {
    let folder = Folder::new();
    folder.write(
        "pdf/SKILL.md",
        "---\r\nname: pdf\r\ndescription: >\r\n  Fills\r\n  forms.\r\nlicense: MIT\r\ncompatibility: needs a printer\r\nmetadata:\r\n  version: 1.0\r\n  labels: forms, paper\r\nallowed-tools: local/read_file Bash(git add:*), mcp/files/*\r\n---\r\n\r\n# Body\r\n",
    );
    let index = folder.source(".", true).read(None);
    let skill = index.get("pdf").expect("it is read");
    assert_eq!((skill.front.description.as_str(), skill.body.as_str()), ("Fills forms.", "# Body"));
    assert_eq!(
        (skill.front.license.as_deref(), skill.front.compatibility.as_deref()),
        (Some("MIT"), Some("needs a printer"))
    );
    assert_eq!(skill.front.metadata["version"], "1.0");
    let tools = skill.front.allowed_tools.as_deref().unwrap_or_default();
    assert_eq!(tools, ["local/read_file", "Bash(git add:*)", "mcp/files/*"]);
    assert_eq!(skill.folder, folder.path().join("pdf").display().to_string());
    assert_eq!(skill.hash.len(), 64);
    expect![[r#"
        pdf: Fills forms.
        ? /pdf/SKILL.md:11:1: "Bash(git add:*)" names no tool here; names are local/NAME, mcp/SERVER/NAME or agent/ID, `*` stands for a part"#]]
    .assert_eq(&folder.told(&index));
}

#[test]
fn prose_with_colons_is_read() {
    check(
        "---\nname: pdf\ndescription: Use when: a \"form\" comes\nallowed-tools: [local/a, mcp/**]\n---\nx",
        expect![[r#"pdf: Use when: a "form" comes"#]],
    );
    check("---\nname: pdf\ndescription: 'quoted: it''s'\nallowed-tools:\n---\nx", expect!["pdf: quoted: it's"]);
    check(
        "\u{feff}---\nname: pdf\ndescription: d\nauthor: me\n---",
        expect![[r#"
        pdf: d
        ? /pdf/SKILL.md:4:1: the key `author` is not of the specification (name, description, license, compatibility, metadata, allowed-tools) and ignored; write it under `metadata`
        ? /pdf/SKILL.md:1:1: there is no text after the front matter; the model only gets the description"#]],
    );
}

#[test]
fn a_broken_skill_is_named_with_its_place_and_left_out() {
    check(
        "# pdf\n",
        expect!["! /pdf/SKILL.md:1:1: the file must begin with a line `---` and the skill's name and description"],
    );
    check("---\nname: pdf\n", expect!["! /pdf/SKILL.md:1:1: the head has no end; close it with a line `---`"]);
    check(
        "---\n---\nx",
        expect![[r#"
        ! /pdf/SKILL.md:1:1: `name` is missing; write the name of the skill's folder
        ! /pdf/SKILL.md:1:1: `description` is missing; say what the skill does and when to use it"#]],
    );
    check(
        "---\nname: PDF\ndescription: d\n---\nx",
        expect![[r#"! /pdf/SKILL.md:2:1: `name` "PDF" may have lower case letters, digits and hyphens only"#]],
    );
    check(
        "---\ndescription: d\nname: pdf--x\n---\nx",
        expect![[r#"! /pdf/SKILL.md:3:1: `name` "pdf--x" may not begin or end with a hyphen, nor have two in a row"#]],
    );
    check(
        "---\nname: other\ndescription: d\n---\nx",
        expect![[r#"! /pdf/SKILL.md:2:1: `name` is "other" and the folder "pdf"; they must be the same"#]],
    );
    check("---\nname: pdf\ndescription: [a\nlicense: x\n---\nx", expect!["pdf: [a"]);
    check(
        "---\nname: pdf\nname: pdf\ndescription: d\n---\nx",
        expect!["! /pdf/SKILL.md:3:1: invalid front matter: duplicate mapping key: name"],
    );
    check(
        "---\nname: pdf\ndescription: d\nmetadata: [a]\n---\nx",
        expect!["! /pdf/SKILL.md:4:11: invalid front matter: expected mapping start"],
    );
    check(
        "---\nname: pdf\ndescription: d\nallowed-tools: {a: b}\n---\nx",
        expect![
            "! /pdf/SKILL.md:4:16: invalid front matter: invalid type: map, expected names of tools between spaces, or a list of them"
        ],
    );
    check(
        &format!("---\nname: pdf\ndescription: {}\n---\nx", "é".repeat(1_025)),
        expect!["! /pdf/SKILL.md:3:1: `description` has 1025 characters; at most 1024 are allowed"],
    );
    check(
        &format!("---\nname: pdf\ndescription: d\nlicense: {}\n---\nx", "l".repeat(64 * 1024)),
        expect!["! /pdf/SKILL.md:1:1: the head is larger than 65536 bytes; move what is long below it"],
    );
    check(
        &format!("---\nname: pdf\ndescription: d\n---\n{}", "x".repeat(256 * 1024)),
        expect!["! /pdf/SKILL.md: is larger than 262144 bytes; move what is long into files beside it"],
    );
}

#[test]
fn heads_that_are_meant_badly_cost_nothing() {
    let bomb = "a: &a [x,x,x,x,x,x,x,x,x]\nb: &b [*a,*a,*a,*a,*a,*a,*a,*a,*a]\nc: &c [*b,*b,*b,*b,*b,*b,*b,*b,*b]\nd: &d [*c,*c,*c,*c,*c,*c,*c,*c,*c]\ne: &e [*d,*d,*d,*d,*d,*d,*d,*d,*d]\nf: &f [*e,*e,*e,*e,*e,*e,*e,*e,*e]\ng: [*f,*f,*f,*f,*f,*f,*f,*f,*f]\n";
    let deep = format!("metadata: {}{}\n", "[".repeat(20_000), "]".repeat(20_000));
    for head in [bomb.to_owned(), deep, "x: !include /etc/passwd\n".to_owned()] {
        let folder = Folder::new();
        folder.write("pdf/SKILL.md", &format!("---\nname: pdf\ndescription: d\n{head}---\nx"));
        let index = folder.source(".", true).read(None);
        assert!(index.skills.iter().all(|skill| !skill.body.contains("root:")), "nothing is included");
        assert!(index.skills.len() + index.findings.len() > 0);
    }
}

#[test]
fn folders_below_count_when_they_are_wanted_and_skills_hold_no_skills() {
    let folder = Folder::new();
    folder.skill("a", "one");
    folder.skill("a/inner", "never");
    folder.skill("deep/b", "two");
    folder.skill(".hidden/c", "never");
    assert_eq!(folder.told(&folder.source(".", true).read(None)), "a: one\nb: two");
    assert_eq!(folder.told(&folder.source(".", false).read(None)), "a: one");
    assert_eq!(folder.told(&folder.source("a", false).read(None)), "a: one");
    let nowhere = folder.told(&folder.source("nowhere", true).read(None));
    assert!(nowhere.starts_with("! /nowhere: no skills are read from it: "), "{nowhere}");
}

#[test]
fn links_are_not_followed() {
    let (folder, other) = (Folder::new(), Folder::new());
    other.skill("secret", "outside");
    folder.skill("a", "one");
    std::os::unix::fs::symlink(other.path().join("secret"), folder.path().join("secret")).expect("a link");
    fs::create_dir(folder.path().join("sly")).expect("made");
    std::os::unix::fs::symlink(other.path().join("secret/SKILL.md"), folder.path().join("sly/SKILL.md"))
        .expect("a link");
    assert_eq!(
        folder.told(&folder.source(".", true).read(None)),
        "a: one\n! /sly/SKILL.md: it is no regular file; links are not followed"
    );
    // The source itself leads out of a session's folder, by a link or by its name.
    let near = Folder::new();
    std::os::unix::fs::symlink(other.path(), near.path().join("skills")).expect("a link");
    let cwd = near.path().join("work");
    fs::create_dir(&cwd).expect("made");
    for (source, cwd) in [("skills", near.path()), ("../skills", cwd)] {
        let told = folder.told(&folder.source(source, true).read(cwd.to_str()));
        assert!(told.starts_with("! ") && !told.contains("outside"), "{source}: {told}");
    }
}

#[test]
fn the_first_of_two_with_one_name_counts_and_the_working_folder_comes_first() {
    let (folder, near) = (Folder::new(), Folder::new());
    folder.skill("skills/a", "beside the configuration");
    folder.skill("skills/b", "only there");
    near.skill("skills/a", "in the working folder");
    let skills = folder.source("skills", true);
    let cwd = near.path().display().to_string();
    let index = skills.read(Some(&cwd));
    let told: Vec<_> = index.skills.iter().map(|skill| skill.front.description.as_str()).collect();
    assert_eq!(told, ["in the working folder", "only there"]);
    assert!(index.findings.iter().all(|finding| !finding.is_broken));
    assert!(index.findings[0].message.contains("which counts"), "{:?}", index.findings);
    // Another session sees its own.
    assert_eq!(skills.read(None).get("a").expect("a").front.description, "beside the configuration");
}

#[test]
fn a_count_without_end_ends() {
    let folder = Folder::new();
    (0..260).for_each(|number| folder.skill(&format!("s{number:03}"), "d"));
    let index = folder.source(".", true).read(None);
    assert_eq!(index.skills.len(), 256);
    assert!(index.findings[0].message.contains("more than 256 skills"), "{:?}", index.findings);
}

#[tokio::test]
async fn what_did_not_change_is_not_read_again_and_what_did_is() {
    let folder = Folder::new();
    folder.skill("a", "one");
    let skills = folder.source(".", true);
    let first = skills.index(None).await;
    assert!(Arc::ptr_eq(&first, &skills.index(None).await), "remembered");
    assert!(Arc::ptr_eq(&first, &skills.read(None)), "looked at, and the same");
    folder.skill("a", "another text");
    folder.skill("b", "two");
    let until = Instant::now() + Duration::from_secs(20);
    loop {
        let index = skills.index(None).await;
        if index.skills.len() == 2 {
            assert_eq!(index.get("a").expect("a").front.description, "another text");
            break;
        }
        assert!(Instant::now() < until, "a change is seen");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

#[test]
fn one_skill_or_a_folder_of_them_is_checked() {
    let folder = Folder::new();
    folder.skill("all/a", "one");
    let of = |path: &Path| SkillFolders::read_one(path).skills.len();
    assert_eq!((of(&folder.path().join("all/a")), of(&folder.path().join("all"))), (1, 1));
}
