//! Every recorded turn is replayed through a whole runtime, and every journal through the machine.

use std::path::Path;
use std::sync::Arc;

use bob::store::{Record, replay};
use bob::tape::{Redactor, Tape};

use crate::tapes::scenes::{SCENES, Scene};
use crate::tapes::stage::{Stage, folder, journals};

/// How many recorded turns there are at least.
const TURNS: usize = 50;

fn load(scene: &Scene) -> Tape {
    let file = folder().join(format!("{}.tape", scene.name));
    Tape::load(&file, Redactor::default()).unwrap_or_else(|why| panic!("{why}"))
}

async fn play(scene: &Scene, stage: &Stage) -> Vec<Arc<Record>> {
    (scene.play)(stage).await;
    stage.close(scene.name);
    stage.journals(scene.sessions).await
}

async fn record(scene: &Scene) {
    let stage = Stage::recording(&folder().join(format!("{}.tape", scene.name)), scene.name);
    let journal = play(scene, &stage).await;
    let lines: String = journal.iter().map(|record| serde_json::to_string(&**record).unwrap() + "\n").collect();
    std::fs::write(folder().join(format!("{}.journal", scene.name)), lines).unwrap();
}

#[tokio::test]
async fn every_recorded_turn_is_replayed_to_the_same_journal() {
    let mut turns = 0;
    for scene in SCENES {
        if std::env::var_os("BOB_RECORD_TAPES").is_some() {
            record(scene).await;
        }
        let stage = Stage::replaying(&load(scene));
        let now = play(scene, &stage).await;
        let recorded = journals(&folder().join(format!("{}.journal", scene.name)));
        for recorded in &recorded {
            let now: Vec<_> = now.iter().filter(|record| record.session == recorded[0].session).cloned().collect();
            let difference = replay::difference(recorded, &now);
            assert!(difference.is_none(), "{}: {}", scene.name, difference.unwrap());
        }
        assert_eq!(recorded.len(), scene.sessions.len(), "{}", scene.name);
        turns += stage.turns();
    }
    let real = real_turns();
    println!("figure: {turns} scripted and {real} real turns replayed");
    assert!(turns + real >= TURNS, "{turns} scripted and {real} real turns");
}

/// Inputs in the journals that were recorded with a real model; `program` replays their tapes.
fn real_turns() -> usize {
    let files = std::fs::read_dir(folder().join("real")).into_iter().flatten().flatten();
    let journal = |path: &Path| path.extension().is_some_and(|ending| ending == "journal");
    let all = files.map(|entry| entry.path()).filter(|path| journal(path)).flat_map(|path| journals(&path));
    all.flatten().filter(|record| serde_json::to_value(&**record).unwrap()["kind"] == "started").count()
}

#[test]
fn every_recorded_journal_is_written_again_by_the_machine() {
    // Those under `older` were written by a program that knew less; they are never recorded anew.
    for (folder, least) in [(folder(), SCENES.len()), (folder().join("real"), 2), (folder().join("older"), 6)] {
        let mut all = 0;
        for entry in std::fs::read_dir(&folder).into_iter().flatten().flatten() {
            if entry.path().extension().is_some_and(|ending| ending == "journal") {
                for journal in journals(&entry.path()) {
                    let replayed = replay::replay(&journal);
                    assert!(replayed.is_ok(), "{}: {}", entry.path().display(), replayed.unwrap_err());
                    all += 1;
                }
            }
        }
        assert!(all >= least, "{all} journals in {}", folder.display());
    }
}
