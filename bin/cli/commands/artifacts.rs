//! `artifacts`: large parts of records, read from the store directly; starts no tree and no server.

use std::collections::BTreeMap;
use std::fs::OpenOptions;
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::sync::Arc;

use bob::SessionId;
use bob::store::{Artifact, ArtifactId, ArtifactStorePort, Fact, Record, SessionStore, StoredArtifact};
use bob_config::{Config, assemble};
use serde_json::json;

use crate::arguments::ArtifactsAction;
use crate::commands::sessions::find::Listing;
use crate::commands::sessions::no_such;
use crate::exit::{Exit, Failure};
use crate::terminal::print;

/// How many digits of an id are shown in a list.
const SHOWN_DIGITS: usize = 16;

pub(crate) async fn artifacts(action: &ArtifactsAction, config: &Config) -> Result<Exit, Failure> {
    let store = assemble::store(config, false, None)?;
    let port = store.artifacts().ok_or_else(|| Failure::usage("this store keeps no artifacts"))?;
    match action {
        ArtifactsAction::List { session, json } => {
            let id = Listing::Store(&*store).find(session).await?;
            list(&id, &read(&*store, &id).await?, &port.list(&id).await?, *json)?;
        }
        ArtifactsAction::Export { session, artifact, output } => {
            let id = Listing::Store(&*store).find(session).await?;
            export(&*port, &id, artifact, output.as_deref()).await?;
        }
    }
    Ok(Exit::Success)
}

async fn read(store: &dyn SessionStore, id: &SessionId) -> Result<Vec<Arc<Record>>, Failure> {
    let records = store.load(id).await?;
    if records.is_empty() { Err(no_such(id)) } else { Ok(records) }
}

/// What stands for each artifact in the journal, with its origin: the tool that returned it, or the person.
fn named(records: &[Arc<Record>]) -> BTreeMap<&ArtifactId, (&Artifact, String)> {
    let mut named = BTreeMap::new();
    for record in records {
        let from = match &record.fact {
            Fact::Result(result) => result.name.to_string(),
            _of_a_person => "input".to_owned(),
        };
        for artifact in record.fact.artifacts() {
            named.entry(&artifact.id).or_insert_with(|| (artifact, from.clone()));
        }
    }
    named
}

fn list(id: &SessionId, records: &[Arc<Record>], stored: &[StoredArtifact], as_json: bool) -> Result<(), Failure> {
    let named = named(records);
    let row = |stored: &StoredArtifact| {
        let known = named.get(&stored.id);
        let kind = known.and_then(|(artifact, _)| serde_json::to_value(artifact.kind).ok());
        let kind = kind.as_ref().and_then(|kind| kind.as_str()).map(str::to_owned);
        let mime_type = known.and_then(|(artifact, _)| artifact.mime_type.clone());
        (kind, mime_type, known.map(|(_, from)| from.clone()))
    };
    if as_json {
        let artifacts = stored.iter().map(|stored| {
            let (kind, mime_type, from) = row(stored);
            json!({"id": stored.id, "bytes": stored.bytes, "kind": kind, "mime_type": mime_type, "from": from})
        });
        print::json(&json!({"session_id": id, "artifacts": artifacts.collect::<Vec<_>>()}))?;
        return Ok(());
    }
    for stored in stored {
        let (kind, mime_type, from) = row(stored);
        let kind = mime_type.or(kind).unwrap_or_else(|| "not recorded".to_owned());
        let from = from.unwrap_or_default();
        let line = format!("{}  {:>12}  {kind}  {from}", &stored.id.as_str()[..SHOWN_DIGITS], stored.bytes);
        print::line(line.trim_end())?;
    }
    if stored.is_empty() {
        print::note(&format!("the session {id} has no artifacts"));
    }
    Ok(())
}

async fn export(
    port: &dyn ArtifactStorePort,
    session: &SessionId,
    wanted: &str,
    output: Option<&Path>,
) -> Result<(), Failure> {
    let stored = port.list(session).await?;
    let mut found = stored.iter().filter(|stored| !wanted.is_empty() && stored.id.as_str().starts_with(wanted));
    let id = match (found.next(), found.next()) {
        (Some(one), None) => &one.id,
        (Some(_), Some(_)) => {
            return Err(Failure::usage(format!(
                "several artifacts of {session} begin with {wanted}; give more of the id"
            )));
        }
        (None, _) => {
            let list = format!("`cli-agent artifacts list {session}` lists them");
            return Err(Failure::usage(format!("the session {session} has no artifact {wanted}; {list}")));
        }
    };
    let content = port.get(session, id, 0..u64::MAX).await?.unwrap_or_default();
    if ArtifactId::of(&content) != *id {
        let text = format!("the content of {id} is damaged: it is not what its name says");
        return Err(bob::store::StoreError::Corrupt(text).into());
    }
    match output {
        Some(path) => {
            let failed = |error| Failure::usage(format!("cannot write {}: {error}", path.display()));
            let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path);
            file.and_then(|mut file| file.write_all(&content)).map_err(failed)?;
            print::note(&format!("wrote {} bytes to {}", content.len(), path.display()));
        }
        None => match String::from_utf8(content) {
            Ok(text) => print::text(&text)?,
            Err(_) => {
                let short = &id.as_str()[..SHOWN_DIGITS];
                return Err(Failure::usage(format!("the artifact {short} is no text; name a file with --output")));
            }
        },
    }
    Ok(())
}
