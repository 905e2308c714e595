//! `skills list`, `show`, `validate`, and messages of `doctor` and a run about skills.

use serde_json::{Value, json};

use crate::home::Home;

const SOURCES: &str = "[[skills.sources]]\npath = \"skills\"\n[skills]\ntop_k = 2\n";

fn home() -> Home {
    let home = Home::with(
        "default_model = \"demo:one\"",
        &format!("[providers.demo]\nkind = \"scripted\"\nscript = \"s.json\"\n{SOURCES}"),
    );
    home.scratch.write("s.json", json!([{ "replies": [{ "text": "hello" }] }]).to_string());
    home.scratch.write(
        "skills/paint/SKILL.md",
        "---\nname: paint\ndescription: Paints walls: two coats\nlicense: MIT\nallowed-tools: local/read_file\n---\nUse blue.\n",
    );
    home
}

fn broken(home: &Home) {
    home.scratch.write("skills/wrong/SKILL.md", "---\nname: Wrong\ndescription: d\n---\nx\n");
}

#[test]
fn skills_are_listed_and_shown() {
    let home = home();
    let list = home.run(["skills", "list"]);
    assert_eq!(
        (list.code, list.stdout.as_str()),
        (Some(0), "paint                    Paints walls: two coats\n"),
        "{list:?}"
    );
    assert_eq!(list.stderr, "", "no key is without effect");
    let list: Value = serde_json::from_str(&home.run(["skills", "list", "--json"]).stdout).unwrap();
    assert_eq!(list["skills"][0]["name"], "paint");
    assert_eq!(list["skills"][0]["allowed_tools"], json!(["local/read_file"]));
    let shown = home.run(["skills", "show", "paint"]);
    assert!(shown.stdout.contains("license        MIT\n") && shown.stdout.ends_with("\nUse blue.\n"), "{shown:?}");
    let unknown = home.run(["skills", "show", "pain"]);
    assert_eq!(unknown.code, Some(2));
    assert!(unknown.stderr.contains("there is no skill \"pain\""), "{unknown:?}");
}

#[test]
fn what_is_wrong_is_named_by_place_and_the_rest_works() {
    let home = home();
    assert_eq!(home.run(["skills", "validate"]).code, Some(0));
    broken(&home);
    let checked = home.run(["skills", "validate"]);
    assert_eq!(checked.code, Some(1), "{checked:?}");
    assert!(checked.stdout.contains("skills/wrong/SKILL.md:2:1: `name` \"Wrong\" may have lower case"), "{checked:?}");
    let one = home.run(["skills", "validate", "skills/paint", "--json"]);
    assert_eq!((one.code, serde_json::from_str::<Value>(&one.stdout).unwrap()["ok"].clone()), (Some(0), json!(true)));
    assert_eq!(home.run(["skills", "validate", "skills/wrong/SKILL.md"]).code, Some(1));
    assert_eq!(home.run(["skills", "validate", "nowhere"]).code, Some(2));
    // Where nothing is, nothing was checked, which is no success.
    home.scratch.write("elsewhere/notes.md", "# Notes\n");
    for (path, why) in
        [("elsewhere", "there is no SKILL.md in elsewhere"), ("elsewhere/notes.md", "there is no folder")]
    {
        let refused = home.run(["skills", "validate", path]);
        assert!(refused.code == Some(2) && refused.stderr.contains(why), "{refused:?}");
    }
    let list = home.run(["skills", "list"]);
    assert!(
        list.code == Some(0) && list.stdout.starts_with("paint") && list.stderr.contains("wrong/SKILL.md:2:1"),
        "{list:?}"
    );
    let doctor = home.run(["doctor"]);
    assert!(doctor.stdout.contains("FAIL   skills: 1 broken and left out"), "{doctor:?}");
    assert_eq!(doctor.code, Some(2));
}

#[test]
fn a_run_tells_which_skills_it_had() {
    let home = home();
    broken(&home);
    let run = home.run(["run", "--output", "stream-json", "$paint the door"]);
    let events: Vec<Value> = run.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(events[0]["type"], "turn.started");
    let selected = events.iter().find(|event| event["type"] == "skills.selected").expect("told");
    assert_eq!(selected["skills"], json!([{"name": "paint", "score": 1.1, "form": "whole"}]), "{selected}");
    assert_eq!(selected["dropped"], json!([]));
}
