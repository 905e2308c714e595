//! What is wrong with a database or the way to it is one sentence, and costs nothing that was stored.

use super::database::{is_there, run, schema, url};
use super::*;

fn why(url: &str) -> String {
    PostgresStore::open(url, StoreOptions::default()).map(drop).unwrap_err().to_string()
}

#[test]
fn what_is_no_url_of_a_database_is_refused_without_repeating_it() {
    for bad in [
        "",
        "sessions.db",
        "mysql://root:geheim@h/d",
        "postgres://u:geheim@h:port/d",
        "postgres:///d?user=u",
        "host=h password=geheim",
    ] {
        let why = why(bad);
        assert!(why.contains("the database") && !why.contains("geheim"), "{bad}: {why}");
    }
}

#[test]
fn a_server_that_is_not_there_is_named() {
    // The port of a listener that is closed again.
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let why = why(&format!("postgres://bob:geheim@127.0.0.1:{port}/bob"));
    assert_eq!(
        why,
        format!(
            "the store is unavailable: PostgreSQL on 127.0.0.1:{port} cannot be reached: the connection was refused; does it run?"
        )
    );
}

#[test]
fn a_wrong_password_and_an_absent_database_are_named() {
    if !is_there("a_wrong_password_and_an_absent_database_are_named") {
        return;
    }
    let url = url();
    let (user, rest) = url.split_once("://").unwrap().1.split_once('@').unwrap();
    let (server, database) = rest.split_once('/').unwrap();
    let name = user.split_once(':').unwrap().0;
    let wrong = why(&format!("postgres://{name}:geheim@{rest}"));
    assert!(
        wrong.contains(&format!("PostgreSQL on {server} does not accept the password of user {name}; correct the URL")),
        "{wrong}"
    );
    let absent = why(&format!("postgres://{user}@{server}/{database}_absent"));
    assert!(
        absent.contains(&format!("has no database {database}_absent; create it (createdb {database}_absent)")),
        "{absent}"
    );
    let nobody = why(&format!("postgres://{user}@{server}/{database}?options=-c%20search_path%3Dabsent"));
    assert!(nobody.contains("has no schema to create tables in"), "{nobody}");
}

#[tokio::test]
async fn a_database_of_a_newer_program_is_refused_and_left_as_it_is() {
    let Some(schema) = schema("a_database_of_a_newer_program_is_refused") else { return };
    let (store, one) = (schema.open("ann", false), session("one"));
    let epoch = claim(&store, &one).await;
    assert_eq!(store_one(&store, append(&one, epoch, 0, 2)).await, Ok(2));
    drop(store);
    schema.run("UPDATE bob_meta SET version = 99; ALTER TABLE bob_sessions ADD COLUMN mood text");
    let refused = PostgresStore::open(&schema.url(), StoreOptions::default()).map(drop);
    assert_eq!(refused, Err(StoreError::TooNew { found: 99, known: schema::STEPS.len() as u32 }));
    assert_eq!(schema.one("SELECT count(*)::text FROM bob_records"), "2");
}

#[tokio::test]
async fn a_newer_program_stops_the_claims_of_one_that_has_the_database_open_and_none_of_its_appends() {
    let Some(schema) = schema("a_newer_program_stops_the_claims") else { return };
    let (store, one, two) = (schema.open("ann", false), session("one"), session("two"));
    let epoch = claim(&store, &one).await;
    schema.run("UPDATE bob_meta SET version = 99");
    let too_new = StoreError::TooNew { found: 99, known: schema::STEPS.len() as u32 };
    assert_eq!(store.claim(&two).await, Err(too_new.clone()));
    assert_eq!(store.claim(&one).await, Err(too_new), "also of its own");
    assert_eq!(store_one(&store, append(&one, epoch, 0, 2)).await, Ok(2), "what it owns, it goes on with");
    assert_eq!(schema.one("SELECT string_agg(id, ' ') FROM bob_sessions"), "one");
}

#[tokio::test]
async fn tables_of_another_program_are_left_as_they_are() {
    for (table, sql) in [
        ("bob_sessions", "CREATE TABLE bob_sessions (id int)"),
        ("bob_meta", "CREATE TABLE bob_meta (key text, value text)"),
        (
            "bob_meta",
            "CREATE TABLE bob_meta (application text, version integer); INSERT INTO bob_meta VALUES ('bobby', 3)",
        ),
    ] {
        let Some(schema) = schema("tables_of_another_program_are_left_as_they_are") else { return };
        schema.run(sql);
        let why = why(&schema.url());
        let expected = format!(
            "has a table {table} that another program made; it was left as it is: name another database or schema"
        );
        assert!(why.contains(&expected), "{why}");
        assert_eq!(schema.tables(), table);
    }
}

#[tokio::test]
async fn tables_that_another_program_changed_are_named_and_cost_nothing() {
    let Some(schema) = schema("tables_that_another_program_changed") else { return };
    let (store, one) = (schema.open("ann", false), session("one"));
    let epoch = claim(&store, &one).await;
    assert_eq!(store_one(&store, append(&one, epoch, 0, 2)).await, Ok(2));
    schema.run("ALTER TABLE bob_records RENAME line TO text");
    let why = store_one(&store, append(&one, epoch, 2, 1)).await.unwrap_err().to_string();
    assert!(why.contains("does not have the tables of its version"), "{why}");
    schema.run("ALTER TABLE bob_records RENAME text TO line");
    assert_eq!(store_one(&store, append(&one, epoch, 2, 1)).await, Ok(3));
}

#[tokio::test]
async fn a_user_who_may_not_create_tables_is_named() {
    let Some(schema) = schema("a_user_who_may_not_create_tables") else { return };
    let name = format!("bob_test_user_{:08x}", fastrand::u32(..));
    let space = schema.one("SELECT current_schema()::text");
    run(&url(), &format!("CREATE ROLE {name} LOGIN PASSWORD 'x'; GRANT USAGE ON SCHEMA {space} TO {name}"));
    let url = schema.url();
    let rest = url.split_once('@').unwrap().1;
    let store: Arc<dyn SessionStore> =
        PostgresStore::open(&format!("postgres://{name}:x@{rest}"), StoreOptions::default()).unwrap();
    let why = store.claim(&session("one")).await.unwrap_err().to_string();
    assert!(why.contains(&format!("user {name} may not create the tables of the store in")), "{why}");
    drop(store);
    schema.run(&format!("REVOKE ALL ON SCHEMA {space} FROM {name}; DROP ROLE {name}"));
}
