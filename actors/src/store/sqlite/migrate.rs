//! A database of an older program is brought up to date: once, wholly, in one transaction.
//!
//! A process that has it open must notice: programs that know only older steps read the version at the beginning of
//! each transaction. Owners of a program that did not do that are waited for.

use super::database::{Database, Nature, Transaction};
use super::statement::Value;
use super::steps::{IDENTITY, Step};
use crate::store::folder::Folder;
use crate::store::{line, owners};
use bob_messages::store::{Formats, StoreError};
use std::path::Path;

/// How many records are rewritten at once.
const PAGE: i64 = 256;

impl Database {
    /// Brings the tables and records up to the newest step.
    pub(super) fn migrate(&self) -> Result<(), StoreError> {
        let transaction = self.write()?;
        let have = match self.nature()? {
            Nature::Empty => 0,
            Nature::Ours(have) => have,
        };
        take(self, transaction, have, &super::owners_folder(&self.path))
    }
}

fn take(database: &Database, transaction: Transaction<'_>, have: usize, owners: &Path) -> Result<(), StoreError> {
    if have == database.known.steps.len() {
        // Another process was first.
        return Ok(());
    }
    // A database without tables has no owners.
    if have > 0 {
        refuse_living(owners)?;
    }
    for step in database.known.steps.iter().skip(have) {
        match step {
            Step::Tables(sql) => database.run(sql)?,
            Step::Records => bring_up(database, &database.known.formats)?,
        }
    }
    if have >= IDENTITY {
        // Changes of tables alone would leave a log without it.
        database.sign()?;
    }
    database.mark(database.known.steps.len())?;
    transaction.commit()
}

/// Refuses while another process has claimed something in the database since it opened it.
fn refuse_living(owners: &Path) -> Result<(), StoreError> {
    if !owners.exists() {
        return Ok(());
    }
    let living = Folder::open(owners).and_then(|folder| owners::living(&folder, ""));
    match living.map_err(|error| super::file::unavailable("look into", owners, &error))? {
        Some(name) => {
            let owner = format!("{name}, an older program that has the whole database open: end it first");
            Err(StoreError::Busy { owner })
        }
        None => Ok(()),
    }
}

/// Writes the records anew that a format changes. One that does not read stays as it is: its
/// session says so when it is read.
fn bring_up(database: &Database, formats: &Formats) -> Result<(), StoreError> {
    if !formats.rewrites() {
        return Ok(());
    }
    let mut page = database.statement("SELECT rowid, line FROM records WHERE rowid > ?1 ORDER BY rowid LIMIT ?2")?;
    let mut change = database.statement("UPDATE records SET line = ?2 WHERE rowid = ?1")?;
    let mut last = i64::MIN;
    loop {
        let (mut changed, mut count) = (Vec::new(), 0);
        page.each(&[Value::Number(last), Value::Number(PAGE)], |row| {
            (last, count) = (row.number(0)?, count + 1);
            if let Ok(Some(new)) = line::brought_up(row.text(1)?.unwrap_or_default(), formats) {
                changed.push((last, new));
            }
            Ok::<_, StoreError>(())
        })?;
        for (row, new) in &changed {
            let new = new.strip_suffix(b"\n").unwrap_or(new);
            change.run(&[Value::Number(*row), Value::Text(new)])?;
        }
        if count < PAGE {
            return Ok(());
        }
    }
}
