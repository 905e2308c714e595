//! What is wrong with a database or the way to it is one sentence, and costs nothing that was stored.

use super::database::{Schema, connected, is_there, run, schema, url, within};
use super::*;
use bob_messages::store::FORMAT;

fn why(url: &str) -> String {
    PostgresStore::open(url, StoreOptions::default()).map(drop).unwrap_err().to_string()
}

#[test]
fn what_is_no_url_of_a_database_is_refused_without_repeating_it() {
    for bad in [
        "",
        "sessions.db",
        "mysql://root:geheim@h/d",
        "mysql://root:geheim@h/d?ssl=require",
        "postgresql+asyncpg://u:geheim@h/d?ssl=require",
        "postgres://u:geheim@h:port/d",
        "postgres://u:geheim@h:geheim/d",
        "postgres://u:geheim@h/d?geheim=1",
        "postgres://u:geheim@h/d?sslmode=geheim",
        "postgres://u:geheim@h/d?sslmode=verify-ca",
        "postgres://u:geheim@h/d?sslmode=allow",
        "postgres://u:geheim@h/d?sslmode=verify-full&sslrootcert=",
        // It would go on without TLS where the server has none.
        "postgres://u:geheim@h/d?sslrootcert=geheim.pem",
        "postgres://u:geheim@h/d?sslrootcert=system",
        "postgres://u:geheim@h/d?sslrootcert=geheim.pem&sslmode=prefer",
        "postgres:///d?user=u",
        "host=h password=geheim",
        "host=h user=u password=geheim",
        // What has special letters.
        "postgres://u:g@geheim@h:5432/d",
        "postgresql://u:g@geheim@h/d",
        "postgres://u:g@geheim/g@h/d",
        "postgres://u:g@h/geheim@h/d",
        "postgres://u:%geheim@h:x/d",
    ] {
        let why = why(bad);
        assert!(why.contains("the URL of the database ") && !why.contains("geheim"), "{bad}: {why}");
    }
    assert!(why("postgres://u:p@ss@h/d").contains("has more than one @; write %40"));
}

#[test]
fn a_server_that_is_not_there_is_named() {
    // The port of a listener that is closed again.
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let why = why(&format!("postgres://bob:geheim@127.0.0.1:{port}/bob"));
    assert_eq!(
        why,
        format!(
            "the store is away: PostgreSQL on 127.0.0.1:{port} cannot be reached: the connection was refused; does it run?"
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
async fn a_session_with_records_of_a_newer_program_is_let_go_by_a_claim_that_cannot_read_them() {
    let Some(schema) = schema("a_session_with_records_of_a_newer_program") else { return };
    let (store, one) = (schema.open("ann", false), session("one"));
    let epoch = claim(&store, &one).await;
    assert_eq!(store_one(&store, append(&one, epoch, 0, 1)).await, Ok(1));
    store.release(&one, epoch).await;
    let mut newer = append(&one, epoch, 1, 1).records.remove(0).as_ref().clone();
    newer.format = FORMAT + 1;
    let mut line = Vec::new();
    crate::store::line::write_record(&mut line, &newer).unwrap();
    let line = String::from_utf8(line).unwrap();
    schema.run(&format!(
        "INSERT INTO bob_records SELECT number, 2, $line${}$line$ FROM bob_sessions; UPDATE bob_sessions SET version = 2",
        line.trim_end()
    ));
    let too_new = StoreError::TooNew { found: FORMAT + 1, known: FORMAT };
    let ben = schema.open("ben", false);
    for store in [&store, &ben, &store] {
        assert_eq!(store.claim(&one).await, Err(too_new.clone()));
        assert_eq!(schema.one("SELECT count(node)::text FROM bob_sessions"), "0", "a newer program can have it");
    }
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

/// A user of the server who may use the schema of a test, and is dropped with all that is its own.
struct User<'s> {
    name: String,
    schema: &'s Schema,
}

impl<'s> User<'s> {
    fn create(schema: &'s Schema, options: &str, rights: &str) -> Self {
        let name = format!("bob_test_user_{:08x}", fastrand::u32(..));
        let space = schema.one("SELECT current_schema()::text");
        run(
            &url(),
            &format!("CREATE ROLE {name} LOGIN PASSWORD 'x' {options}; GRANT {rights} ON SCHEMA {space} TO {name}"),
        );
        Self { name, schema }
    }

    fn url(&self) -> String {
        let url = self.schema.url();
        format!("postgres://{}:x@{}", self.name, url.split_once('@').unwrap().1)
    }
}

impl Drop for User<'_> {
    fn drop(&mut self) {
        self.schema.run(&format!("DROP OWNED BY {0}; DROP ROLE {0}", self.name));
    }
}

#[tokio::test]
async fn a_user_who_may_not_create_tables_is_named() {
    let Some(schema) = schema("a_user_who_may_not_create_tables") else { return };
    let user = User::create(&schema, "", "USAGE");
    let store: Arc<dyn SessionStore> = PostgresStore::open(&user.url(), StoreOptions::default()).unwrap();
    let why = store.claim(&session("one")).await.unwrap_err().to_string();
    assert!(why.contains(&format!("user {} may not create the tables of the store in", user.name)), "{why}");
}

#[tokio::test]
async fn a_user_who_may_not_read_the_tables_is_named_and_the_tables_are_ours() {
    let Some(schema) = schema("a_user_who_may_not_read_the_tables") else { return };
    claim(&schema.open("ann", false), &session("one")).await;
    let user = User::create(&schema, "", "USAGE");
    let why = why(&user.url());
    assert!(why.contains(&format!("user {} may not read", user.name)), "{why}");
    assert!(why.contains("permission denied for table bob_meta"), "{why}");
}

#[tokio::test]
async fn tables_that_were_not_made_in_time_are_made_by_the_next_claim() {
    let Some(schema) = schema("tables_that_were_not_made_in_time") else { return };
    let url = format!("{}%20-c%20statement_timeout%3D1000", schema.url());
    let store: Arc<dyn SessionStore> = PostgresStore::open(&url, StoreOptions::default()).unwrap();
    let other = connected(&schema.url()).await;
    other.batch_execute("BEGIN; SELECT pg_advisory_xact_lock(hashtext('bob:' || current_schema()), 0)").await.unwrap();
    let one = session("one");
    let why = within(store.claim(&one)).await.unwrap_err().to_string();
    assert!(why.contains("cannot create the tables of the store in"), "{why}");
    other.batch_execute("ROLLBACK").await.unwrap();
    within(async {
        // Where the machine is busy, a second may be too short again.
        while let Err(error) = store.claim(&one).await {
            assert!(error.to_string().contains("statement timeout"), "{error}");
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_has_no_connection_left_for_now_is_asked_again() {
    let Some(schema) = schema("a_server_that_has_no_connection_left") else { return };
    let user = User::create(&schema, "CONNECTION LIMIT 4", "USAGE, CREATE");
    let store: Arc<dyn SessionStore> = PostgresStore::open(&user.url(), StoreOptions::default()).unwrap();
    let one = session("one");
    let epoch = claim(&store, &one).await;
    let of_user = format!("FROM pg_stat_activity WHERE usename = '{}'", user.name);
    schema.run(&format!("SELECT pg_terminate_backend(pid) {of_user}"));
    // The connection that has the lock is made again by itself; what is left is taken here.
    let mut others = Vec::new();
    let is_full =
        format!("SELECT (count(*) = 4 AND count(*) FILTER (WHERE application_name = 'bob') <= 1)::text {of_user}");
    within(async {
        loop {
            match tokio_postgres::connect(&user.url(), tokio_postgres::NoTls).await {
                Ok((client, connection)) => {
                    tokio::spawn(connection);
                    others.push(client);
                }
                Err(_full) if schema.one(&is_full) == "true" => break,
                Err(_not_yet) => tokio::time::sleep(Duration::from_millis(10)).await,
            }
        }
    })
    .await;
    let mut stored = Box::pin(store_one(&store, append(&one, epoch, 0, 1)));
    if let Ok(answer) = tokio::time::timeout(Duration::from_secs(1), &mut stored).await {
        panic!("there is no connection for it: {answer:?}");
    }
    others.clear();
    assert_eq!(stored.await, Ok(1));
    drop(store);
}
