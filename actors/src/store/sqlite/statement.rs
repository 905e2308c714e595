//! Prepared statements of a [`Database`], their values and their rows. Errors are in the
//! store's words: what could not be done to which file.

use rusqlite::types::{ToSqlOutput, ValueRef};
use rusqlite::{ToSql, params_from_iter};

use super::database::Database;
use bob_messages::store::StoreError;

pub(super) struct Statement<'c> {
    pub(super) prepared: rusqlite::Statement<'c>,
    pub(super) database: &'c Database,
}

impl Database {
    pub(super) fn statement(&self, sql: &str) -> Result<Statement<'_>, StoreError> {
        let prepared = self.connection.prepare(sql).map_err(|error| self.failed("use", &error))?;
        Ok(Statement { prepared, database: self })
    }
}

#[derive(Debug, Clone, Copy)]
pub(super) enum Value<'v> {
    Number(i64),
    Nothing,
    /// UTF-8, stored as TEXT.
    Text(&'v [u8]),
}

impl ToSql for Value<'_> {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        Ok(ToSqlOutput::Borrowed(match *self {
            Value::Number(number) => ValueRef::Integer(number),
            Value::Nothing => ValueRef::Null,
            Value::Text(text) => ValueRef::Text(text),
        }))
    }
}

impl Statement<'_> {
    /// Runs it. Answers how many rows it changed.
    pub(super) fn run(&mut self, values: &[Value<'_>]) -> Result<usize, StoreError> {
        let done = self.prepared.execute(params_from_iter(values));
        done.map_err(|error| self.database.failed("write", &error))
    }

    /// Runs it and gives each row to the sink, which may end it with an error.
    pub(super) fn each<E: From<StoreError>>(
        &mut self,
        values: &[Value<'_>],
        mut sink: impl FnMut(Row<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        let database = self.database;
        let failed = |error: &rusqlite::Error| E::from(database.failed("read", error));
        let mut rows = self.prepared.query(params_from_iter(values)).map_err(|error| failed(&error))?;
        while let Some(row) = rows.next().map_err(|error| failed(&error))? {
            sink(Row { row, database })?;
        }
        Ok(())
    }
}

/// One row of an answer. Columns count from 0.
pub(super) struct Row<'r> {
    row: &'r rusqlite::Row<'r>,
    database: &'r Database,
}

impl<'r> Row<'r> {
    pub(super) fn number(&self, column: usize) -> Result<i64, StoreError> {
        self.row.get(column).map_err(|error| self.database.failed("read", &error))
    }

    /// The bytes of a text; nothing where there is none.
    pub(super) fn text(&self, column: usize) -> Result<Option<&'r [u8]>, StoreError> {
        match self.row.get_ref(column).map_err(|error| self.database.failed("read", &error))? {
            ValueRef::Text(bytes) | ValueRef::Blob(bytes) => Ok(Some(bytes)),
            ValueRef::Null | ValueRef::Integer(_) | ValueRef::Real(_) => Ok(None),
        }
    }
}
