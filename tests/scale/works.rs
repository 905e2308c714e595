//! The commands, with sessions in a database.

use crate::scale::database::Database;

#[test]
fn run_chat_batch_sessions_and_doctor_work_on_a_database() {
    let Some(database) = Database::new("run_chat_batch_sessions_and_doctor_work_on_a_database") else { return };
    let (here, there) = (database.scripted(), database.scripted());
    let listed = here.run(["sessions", "list"]);
    assert_eq!((listed.code, listed.stdout.as_str()), (Some(0), ""), "{}", listed.stderr);
    assert_eq!(database.sql("SELECT to_regclass('bob_meta')"), "", "what only reads creates no tables");

    let run = here.run(["run", "--session", "one", "first"]);
    assert_eq!((run.code, run.stdout.trim()), (Some(0), "hello"), "{}", run.stderr);
    let run = there.run(["run", "--resume", "one", "second"]);
    assert_eq!((run.code, run.stdout.trim()), (Some(0), "hello"), "{}", run.stderr);
    let chat = there.agent(["chat", "--session", "one"]).stdin("third\n").run();
    assert_eq!(chat.code, Some(0), "{}", chat.stderr);
    let lines = (0..20).map(|number| format!("{{\"session\":\"b{number}\",\"prompt\":\"hi\"}}\n")).collect::<String>();
    let batch = here.agent(["batch", "-"]).stdin(lines).run();
    assert_eq!((batch.code, batch.stdout.lines().count()), (Some(0), 20), "{}", batch.stderr);

    for machine in [&here, &there] {
        let shown = machine.run(["sessions", "show", "one"]);
        assert!(shown.stderr.contains("3 turns"), "{}", shown.stderr);
        let listed = machine.run(["sessions", "list", "--json"]);
        assert_eq!(listed.stdout.matches("\"b1").count(), 11, "{}", listed.stdout);
    }
    let journal = here.run(["sessions", "export", "one"]).stdout;
    assert_eq!(journal.lines().filter(|line| line.contains("\"kind\":\"input\"")).count(), 3, "{journal}");
    assert_eq!(there.run(["sessions", "delete", "b7"]).code, Some(0));
    assert_eq!(here.run(["run", "--resume", "b7", "again"]).code, Some(2), "it is gone everywhere");

    let doctor = here.run(["doctor"]);
    let place = database.server.rsplit_once('@').unwrap().1;
    assert!(doctor.stdout.contains(&format!("postgres://{place} can be written")), "{doctor:?}");
    let password = database.server.split(['/', ':', '@']).nth(4).unwrap();
    assert!(password.len() > 8 && !format!("{doctor:?}").contains(password), "{doctor:?}");
}

#[test]
fn two_machines_run_a_batch_each_and_lose_and_double_nothing() {
    let Some(database) = Database::new("two_machines_run_a_batch_each") else { return };
    let machines = [database.scripted(), database.scripted()];
    let running = machines.iter().zip(["a", "b"]).map(|(machine, name)| {
        let line = |number| format!("{{\"session\":\"{name}{number}\",\"prompt\":\"hi\"}}\n");
        machine.agent(["batch", "-"]).stdin((0..100).map(line).collect::<String>()).spawn()
    });
    for running in running.collect::<Vec<_>>() {
        let run = running.finish();
        assert_eq!((run.code, run.stdout.lines().count()), (Some(0), 100), "{}", run.stderr);
        assert_eq!(run.stdout.matches("\"saved\":true").count(), 100);
    }
    let gaps = "SELECT count(*) FROM bob_sessions s WHERE version <>
                (SELECT count(*) FROM bob_records r WHERE r.session = s.number AND r.version <= s.version)";
    assert_eq!(database.sql(gaps), "0");
    assert_eq!(database.sql("SELECT count(*), min(turns), max(turns) FROM bob_sessions"), "200|1|1");
    assert_eq!(database.sql("SELECT count(*) FROM bob_sessions WHERE node IS NOT NULL"), "0", "all were released");
}
