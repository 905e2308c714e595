//! What is wrong with the database is one sentence, exit 7, and no password.

use crate::scale::database::Database;

#[test]
fn what_is_wrong_with_the_database_is_one_sentence() {
    let Some(database) = Database::new("what_is_wrong_with_the_database_is_one_sentence") else { return };
    let machine = database.scripted();
    assert_eq!(machine.run(["run", "--session", "kept", "first"]).code, Some(0));
    let (user, place) = database.server.split_once("://").unwrap().1.split_once('@').unwrap();
    let (name, password) = user.split_once(':').unwrap();
    let server = place.split_once('/').unwrap().0;
    let closed = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    for (url, sentence) in [
        (
            format!("postgres://{name}:wrong-word@{place}"),
            format!("PostgreSQL on {server} does not accept the password of user {name}; correct the URL"),
        ),
        (
            format!("postgres://{user}@{server}/absent"),
            format!("PostgreSQL on {server} has no database absent; create it (createdb absent) or correct the URL"),
        ),
        (
            format!("postgres://{user}@{closed}/bob"),
            format!("PostgreSQL on {closed} cannot be reached: the connection was refused"),
        ),
    ] {
        for args in [&["run", "hi"][..], &["sessions", "list"], &["batch", "-"]] {
            let run = machine.at(&url, args.iter().copied()).stdin("{\"prompt\":\"hi\"}\n").run();
            assert_eq!(run.code, Some(7), "{args:?}: {run:?}");
            assert!(run.stderr.contains(&sentence), "{args:?}: {}", run.stderr);
            assert!(!run.stderr.contains(password) && !run.stderr.contains("wrong-word"), "{}", run.stderr);
            assert_eq!(run.stdout, "", "{args:?}");
        }
    }
    let version = database.sql("SELECT version FROM bob_meta");
    database.sql("UPDATE bob_meta SET version = 1000");
    let newer = machine.run(["run", "--session", "kept", "second"]);
    assert_eq!(newer.code, Some(7), "{newer:?}");
    assert!(newer.stderr.contains("1000"), "{}", newer.stderr);
    database.sql(&format!("UPDATE bob_meta SET version = {version}"));
    let run = machine.run(["run", "--resume", "kept", "second"]);
    assert_eq!(run.code, Some(0), "nothing was lost: {}", run.stderr);

    database.sql("DROP TABLE bob_meta");
    let foreign = machine.run(["run", "--session", "kept", "third"]);
    assert_eq!(foreign.code, Some(7), "{foreign:?}");
    assert!(foreign.stderr.contains("that another program made; it was left as it is"), "{}", foreign.stderr);
}

#[test]
fn without_a_url_the_configuration_is_refused() {
    let Some(database) = Database::new("without_a_url_the_configuration_is_refused") else { return };
    let machine = database.scripted();
    let config = machine.home.scratch.read("agent.toml");
    machine.home.scratch.agent_toml(&config.replace("url = \"${DATABASE_URL}\"\n", ""));
    let run = machine.run(["run", "hi"]);
    assert_eq!(run.code, Some(2), "{run:?}");
    assert!(run.stderr.contains("`store.url` is missing, the address of the database"), "{}", run.stderr);
}
