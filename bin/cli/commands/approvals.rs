//! `approvals`: lists and revokes lasting decisions about tools. Reads the user's file directly; starts no tree and
//! no server.

use std::sync::Arc;

use bob::approvals::Standing;
use bob_config::Config;
use serde_json::{Value, json};

use crate::arguments::DecisionsAction;
use crate::commands::sessions::rows;
use crate::exit::{Exit, Failure};
use crate::runtime::remembered::{Known, Place};
use crate::terminal::{approval, print};

/// How many characters of arguments and reasons the list shows; `--json` has all of them.
const MOST_SHOWN: usize = 100;

/// How many characters of a hash name a decision.
const ID_LENGTH: usize = 8;

pub(crate) fn approvals(action: &DecisionsAction, config: &Config) -> Result<Exit, Failure> {
    let no_place = || Failure::usage("HOME is not set; lasting decisions are stored below it");
    let place = Place::of(&config.folder).ok_or_else(no_place)?;
    let failed =
        |what: &str, error: std::io::Error| Failure::usage(format!("cannot {what} {}: {error}", place.file.display()));
    let known = place.read().map_err(|error| failed("read", error))?;
    match action {
        DecisionsAction::List(list) if list.json => {
            let decisions: Vec<Value> = known.decided.iter().map(|standing| as_json(standing, &known)).collect();
            print::json(&json!({ "folder": place.folder, "decisions": decisions }))?;
        }
        DecisionsAction::List(_) => {
            for standing in &known.decided {
                print::line(&row(standing, &known))?;
            }
            if known.decided.is_empty() {
                print::note(&format!("no lasting decisions for {}", place.folder.display()));
            }
        }
        DecisionsAction::Revoke { ids, json } => {
            let chosen = ids.iter().map(|id| of_id(id, &known)).collect::<Result<Vec<_>, _>>()?;
            for standing in chosen {
                place.take_back(standing).map_err(|error| failed("write", error))?;
                if !json {
                    print::note(&format!("revoked: {}", row(standing, &known)));
                }
            }
            match json {
                true => print::json(&json!({ "revoked": ids }))?,
                false => print::note("such calls will ask again; a running process does so after a restart"),
            }
        }
    }
    Ok(Exit::Success)
}

pub(crate) fn listed(place: &Place) -> Result<Vec<String>, Failure> {
    let failed = |error| Failure::usage(format!("cannot read {}: {error}", place.file.display()));
    let known = place.read().map_err(failed)?;
    Ok(known.decided.iter().map(|standing| row(standing, &known)).collect())
}

fn of_id<'a>(id: &str, known: &'a Known) -> Result<&'a Arc<Standing>, Failure> {
    let nothing = || {
        let id = print::on_one_line(id, MOST_SHOWN);
        Failure::usage(format!("there is no decision {id}; `cli-agent approvals list` lists them"))
    };
    known.decided.iter().find(|standing| id_of(standing) == id).ok_or_else(nothing)
}

/// The id of a decision, derived from its tool and its rules or arguments, which identify it.
fn id_of(standing: &Standing) -> String {
    let what = match &standing.like[..] {
        [] => json!([standing.tool, standing.arguments]),
        rules => json!([standing.tool, rules]),
    };
    let mut id = bob_config::digest(&what.to_string());
    id.truncate(ID_LENGTH);
    id
}

fn row(standing: &Arc<Standing>, known: &Known) -> String {
    let shown = |text: &str| print::first_line(&approval::visible(text), MOST_SHOWN);
    let word = if standing.allowed { "allow" } else { "deny" };
    let when = known.decided_at(standing).map_or_else(|| "-".to_owned(), rows::time);
    let calls = match (&standing.arguments, &standing.like[..]) {
        (None, _) => "all calls".to_owned(),
        (Some(arguments), []) => format!("exactly {}", shown(&arguments.to_string())),
        (Some(_), rules) => format!("like {}", shown(&rules.join(" and "))),
    };
    let why = if standing.reason.is_empty() { String::new() } else { format!(": {}", shown(&standing.reason)) };
    format!("{}  {word:<5}  {when:<16}  {}  {calls}{why}", id_of(standing), shown(standing.tool.as_str()))
}

fn as_json(standing: &Arc<Standing>, known: &Known) -> Value {
    json!({
        "id": id_of(standing), "decision": if standing.allowed { "allow" } else { "deny" }, "tool": standing.tool,
        "arguments": standing.arguments, "like": standing.like, "definition": standing.definition, "reason": standing.reason,
        "decided_at": known.decided_at(standing),
    })
}
