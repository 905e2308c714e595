//! `replay`: a recorded journal through the machine of turns. It starts nothing and stores nothing.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read};
use std::sync::Arc;

use bob::SessionId;
use bob::store::replay::{Difference, Replayed};
use bob::store::{Record, replay};
use bob_config::{Config, assemble};
use serde_json::{Value, json};

use crate::arguments::ReplayArgs;
use crate::commands::sessions::find::Listing;
use crate::exit::{Exit, Failure};
use crate::terminal::print;

/// How many characters of a record are shown.
const SHOWN: usize = 400;

/// Replays a journal of a file, or a session of the store.
pub(crate) async fn replay(args: &ReplayArgs, config: impl Fn() -> Result<Config, Failure>) -> Result<Exit, Failure> {
    let session = args.session.as_deref().map(SessionId::parse).transpose()?;
    let mut journals = match &args.file {
        Some(file) => of_file(file)?,
        None => BTreeMap::new(),
    };
    if let Some(session) = session {
        let (session, records) = match &args.file {
            Some(_) => {
                let records = journals.remove(&session).unwrap_or_default();
                (session, records)
            }
            None => {
                let store = assemble::store(&config()?, false, None)?;
                let session = Listing::Store(&*store).find(session.as_str()).await?;
                let records = store.load(&session).await?;
                (session, records)
            }
        };
        if records.is_empty() {
            return Err(Failure::usage(format!("there is no session {session}")));
        }
        journals = BTreeMap::from([(session, records)]);
    }
    let mut exit = Exit::Success;
    for (session, records) in &journals {
        let replayed = replay::replay(records);
        if replayed.is_err() {
            exit = Exit::Failed;
        }
        match args.json {
            true => print::json(&as_json(session, &replayed))?,
            false => print::text(&as_text(session, &replayed))?,
        }
    }
    Ok(exit)
}

fn of_file(file: &str) -> Result<BTreeMap<SessionId, Vec<Arc<Record>>>, Failure> {
    let name = if file == "-" { "on stdin" } else { file };
    let refuse = |why: String| Failure::usage(format!("cannot read the journal {name}: {why}"));
    let mut text = String::new();
    let read = match file {
        "-" => io::stdin().read_to_string(&mut text),
        file => File::open(file).and_then(|mut file| file.read_to_string(&mut text)),
    };
    read.map_err(|error| refuse(error.to_string()))?;
    replay::read(text.lines()).map_err(|error| refuse(error.to_string()))
}

fn as_text(session: &SessionId, replayed: &Result<Replayed, Box<Difference>>) -> String {
    match replayed {
        Ok(Replayed { records, outcomes, owners, .. }) => {
            let [records, outcomes, owners] = [(*records, "record"), (*outcomes, "outcome"), (*owners, "owner")]
                .map(|(number, thing)| print::counted(number, thing));
            format!("{session}: the same, {records}, {outcomes}, {owners}\n")
        }
        Err(difference) => {
            let Difference { expected, got, .. } = &**difference;
            format!("{session}: {difference}\n  expected {}\n  got      {}\n", short(expected), short(got))
        }
    }
}

fn short(value: &Value) -> String {
    let text = if value.is_null() { "nothing".to_owned() } else { value.to_string() };
    match text.char_indices().nth(SHOWN) {
        Some((at, _)) => format!("{}…", &text[..at]),
        None => text,
    }
}

fn as_json(session: &SessionId, replayed: &Result<Replayed, Box<Difference>>) -> Value {
    match replayed {
        Ok(Replayed { records, outcomes, owners, .. }) => json!({
            "session": session, "same": true, "records": records, "outcomes": outcomes, "owners": owners,
        }),
        Err(difference) => {
            let Difference { record, expected, got, what, .. } = &**difference;
            json!({ "session": session, "same": false, "record": record, "what": what, "expected": expected, "got": got })
        }
    }
}
