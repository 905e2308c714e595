//! TLS to the database, with a server and certificates of the test's own: a server that proves who it is carries turns,
//! and another one gets nothing but the beginning of a handshake.

use crate::scale::database::Database;
use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::path::Path;
use std::process::Command;
use std::sync::{Arc, Mutex};
use tempfile::TempDir;

const PROMPT: &str = "a sentence that is for no other eyes";

/// A server of its own, which has no TLS at first, and two authorities: it has certificates of the first one alone.
struct Server {
    folder: TempDir,
    certificates: TempDir,
}

impl Server {
    fn start(test: &str) -> Option<(Self, Database)> {
        // Where there is no database there may be no PostgreSQL to start.
        drop(Database::new(test)?);
        let server = Self { folder: TempDir::new().unwrap(), certificates: TempDir::new().unwrap() };
        server.script("start");
        for authority in ["ours", "other"] {
            let (key, certificate) = (format!("{authority}.key"), format!("{authority}.pem"));
            server.openssl(&["-keyout", &key, "-out", &certificate, "-subj", &format!("/CN={authority}")]);
        }
        let database = Database::on(server.script("url"));
        Some((server, database))
    }

    fn script(&self, command: &str) -> String {
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("scripts/postgres.sh");
        said(Command::new("sh").arg(script).arg(command).arg(self.folder.path())).trim().to_owned()
    }

    /// A new key and its certificate, of which both files are named by the arguments.
    fn openssl(&self, args: &[&str]) {
        let mut openssl = Command::new("openssl");
        openssl.current_dir(self.certificates.path()).args(["req", "-x509", "-days", "2", "-noenc"]);
        openssl.args(["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256"]).args(args);
        said(&mut openssl);
    }

    /// The file of an authority's certificate.
    fn authority(&self, name: &str) -> String {
        self.certificates.path().join(format!("{name}.pem")).display().to_string()
    }

    /// Has the server prove from now on that it is this host, by the authority `ours`.
    fn prove(&self, database: &Database, host: &str) {
        let name = host.replace([':', '.'], "-");
        let (key, certificate) = (format!("{name}.key"), format!("{name}.crt"));
        let names = format!("subjectAltName={host}");
        let signed = ["-CA", "ours.pem", "-CAkey", "ours.key", "-subj", "/CN=server", "-addext", &names];
        let whose = ["-addext", "basicConstraints=critical,CA:FALSE", "-keyout", &key, "-out", &certificate];
        self.openssl(&[&signed[..], &whose].concat());
        let data = self.folder.path().join("data");
        for file in [&key, &certificate] {
            let there = data.join(file);
            std::fs::copy(self.certificates.path().join(file), &there).unwrap();
            said(Command::new("chown").arg("--reference").arg(&data).arg(&there));
            said(Command::new("chmod").arg("600").arg(&there));
        }
        for setting in
            [format!("ssl_key_file = '{key}'"), format!("ssl_cert_file = '{certificate}'"), "ssl = on".into()]
        {
            database.sql(&format!("ALTER SYSTEM SET {setting}"));
        }
        database.sql("SELECT pg_reload_conf()");
        database.until("SHOW ssl_cert_file", &certificate);
        database.until("SHOW ssl", "on");
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.script("kill");
    }
}

fn said(command: &mut Command) -> String {
    let said = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    assert!(said.status.success(), "{command:?}: {}", String::from_utf8_lossy(&said.stderr));
    String::from_utf8(said.stdout).unwrap()
}

/// A way to a server that keeps what is sent there.
struct Tap {
    port: u16,
    sent: Arc<Mutex<Vec<Vec<u8>>>>,
}

impl Tap {
    fn on(server: &str) -> Self {
        let place = server.split_once('@').unwrap().1.split_once('/').unwrap().0.to_owned();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let (port, sent) = (listener.local_addr().unwrap().port(), Arc::<Mutex<Vec<Vec<u8>>>>::default());
        let kept = Arc::clone(&sent);
        std::thread::spawn(move || {
            for client in listener.incoming().map_while(Result::ok) {
                let server = TcpStream::connect(&place).unwrap();
                let number = {
                    let mut kept = kept.lock().unwrap();
                    kept.push(Vec::new());
                    kept.len() - 1
                };
                let (answers, back) = (server.try_clone().unwrap(), client.try_clone().unwrap());
                std::thread::spawn(move || pass(answers, back, |_bytes| {}));
                let kept = Arc::clone(&kept);
                let keep = move |bytes: &[u8]| kept.lock().unwrap()[number].extend_from_slice(bytes);
                std::thread::spawn(move || pass(client, server, keep));
            }
        });
        Self { port, sent }
    }

    /// The address of the database by way of this, with more options.
    fn url(&self, database: &Database, options: &str) -> String {
        let url = database.url();
        let (user, rest) = url.split_once('@').unwrap();
        format!("{user}@127.0.0.1:{}/{}&{options}", self.port, rest.split_once('/').unwrap().1)
    }

    /// Forgets and answers what was sent, one a connection.
    fn take(&self) -> Vec<Vec<u8>> {
        std::mem::take(&mut self.sent.lock().unwrap())
    }
}

fn pass(mut from: TcpStream, mut to: TcpStream, keep: impl Fn(&[u8])) {
    let mut bytes = vec![0; 1 << 16];
    while let Ok(count @ 1..) = from.read(&mut bytes) {
        keep(&bytes[..count]);
        if to.write_all(&bytes[..count]).is_err() {
            break;
        }
    }
    let _ = to.shutdown(Shutdown::Both);
    let _ = from.shutdown(Shutdown::Both);
}

fn holds(sent: &[Vec<u8>], text: &str) -> bool {
    sent.iter().any(|bytes| bytes.windows(text.len()).any(|part| part == text.as_bytes()))
}

#[test]
fn a_server_that_proves_who_it_is_carries_a_turn_that_no_one_on_the_way_can_read() {
    let Some((server, database)) = Server::start("a_server_that_proves_who_it_is_carries_a_turn") else { return };
    let machine = database.scripted();
    server.prove(&database, "IP:127.0.0.1");
    let ours = server.authority("ours");
    for (options, system, is_readable) in [
        ("sslmode=disable".to_owned(), "", true),
        (format!("sslmode=verify-full&sslrootcert={}", ours.replace('/', "%2F")), "", false),
        (format!("sslrootcert={ours}&sslmode=require"), "", false),
        ("sslmode=verify-full&sslrootcert=system".to_owned(), ours.as_str(), false),
        ("sslmode=verify-full".to_owned(), ours.as_str(), false),
        ("sslmode=prefer".to_owned(), ours.as_str(), false),
    ] {
        // The connections of one program end before those of the next one begin.
        let tap = Tap::on(&database.server);
        let program = machine.at(&tap.url(&database, &options), ["run", "--output", "json", PROMPT]);
        let program = if system.is_empty() { program } else { program.env("SSL_CERT_FILE", system) };
        let run = program.run();
        assert_eq!(run.code, Some(0), "{options}: {run:?}");
        let session = run.stdout.split_once("\"session_id\":\"").unwrap().1.split_once('"').unwrap().0.to_owned();
        let turns = database.sql(&format!("SELECT state FROM bob_sessions WHERE id = '{session}'"));
        assert_eq!(turns, "idle", "{options}");
        assert_eq!(holds(&tap.take(), PROMPT), is_readable, "{options}");
    }
}

#[test]
fn a_server_that_does_not_prove_who_it_is_is_named_and_gets_no_more_than_a_handshake() {
    let Some((server, database)) = Server::start("a_server_that_does_not_prove_who_it_is") else { return };
    let machine = database.scripted();
    let (name, password) = {
        let user = database.server.split_once("://").unwrap().1.split_once('@').unwrap().0;
        user.split_once(':').unwrap()
    };
    let (ours, other) = (server.authority("ours"), server.authority("other"));
    let absent = server.authority("absent");
    let by = |authority: &str| format!("sslmode=verify-full&sslrootcert={authority}");
    let none = "has no TLS, which sslmode in the URL demands; switch it on there (ssl = on)";
    let unknown = "does not prove who it is: invalid peer certificate: UnknownIssuer; name its certificate authority";
    let is_another = "does not prove who it is: invalid peer certificate: certificate not valid for name";
    for (host, options, sentence) in [
        ("", "sslmode=require".to_owned(), none),
        ("", by(&ours), none),
        ("IP:127.0.0.1", by(&other), unknown),
        ("IP:127.0.0.1", "sslmode=verify-full".to_owned(), unknown),
        ("IP:127.0.0.1", "sslmode=prefer".to_owned(), unknown),
        ("IP:127.0.0.1", by(&absent), "cannot be trusted: cannot read the certificate authorities in"),
        ("DNS:another.example", by(&ours), is_another),
    ] {
        if !host.is_empty() {
            server.prove(&database, host);
        }
        for args in [&["run", PROMPT][..], &["sessions", "list"], &["submit", PROMPT]] {
            let tap = Tap::on(&database.server);
            let run = machine.at(&tap.url(&database, &options), args.iter().copied()).run();
            assert_eq!((run.code, run.stdout.as_str()), (Some(7), ""), "{options}: {run:?}");
            let server = format!("PostgreSQL on 127.0.0.1:{} ", tap.port);
            let told: Vec<&str> = run.stderr.lines().filter(|line| line.contains(&server)).collect();
            assert!(matches!(told[..], [line] if line.contains(&format!("{server}{sentence}"))), "{options}: {run:?}");
            assert!(!run.stderr.contains(password), "{options}: {run:?}");
            let sent = tap.take();
            assert_eq!(sent.len(), 1, "{options}: waiting does not help, so it is not tried again");
            for secret in [password, name, "postgres", PROMPT] {
                assert!(!holds(&sent, secret), "{options}: {secret}");
            }
        }
    }
    assert_eq!(database.sql("SELECT to_regclass('bob_meta') IS NULL"), "t", "nothing was stored");
}
