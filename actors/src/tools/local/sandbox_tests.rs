use super::super::fixture::Workspace;
use super::super::shell::{Shell, inherited, shell_exec};
use super::*;
use crate::child::Watcher;
use crate::tools::function::FnTool;
use serde_json::json;
use std::collections::BTreeMap;
use std::fs;
use std::io::Write;
use std::os::unix::fs::symlink;
use std::sync::Arc;

fn shell(sandbox: Sandbox) -> FnTool {
    shell_exec(&Shell::new(inherited(&[]), Watcher::new(), sandbox), &Arc::default(), &[])
}

fn on() -> Sandbox {
    Sandbox { mode: SandboxMode::On, ..Sandbox::default() }
}

/// Whether this machine can confine commands. Says which test is skipped where it cannot, past the capture of the harness.
fn can(test: &str) -> bool {
    let kernel = Kernel::of_this_machine();
    if let Kernel::Nothing(why) = kernel {
        let _ = writeln!(std::io::stderr(), "skipped: tools::local::sandbox::{test}: {why}");
    }
    !matches!(kernel, Kernel::Nothing(_))
}

/// A folder that is neither in a workspace nor in the temporary folder, with things to spoil.
struct Outside(tempfile::TempDir);

impl Outside {
    fn new() -> Self {
        let program = std::env::current_exe().expect("a test has a program");
        // The program is in the temporary folder when the project is.
        let (beside, temporary) = (program.parent().expect("in a folder"), std::env::temp_dir());
        let elsewhere = if program.starts_with(&temporary) { Path::new("/var/tmp") } else { beside };
        assert!(!elsewhere.starts_with(&temporary), "{} is in the temporary folder", elsewhere.display());
        let folder = tempfile::tempdir_in(elsewhere).expect("a folder");
        fs::write(folder.path().join("there"), "as it was").expect("a file");
        fs::create_dir(folder.path().join("folder")).expect("a folder");
        Self(folder)
    }

    /// Names, and what is in each file.
    fn state(&self) -> BTreeMap<PathBuf, Option<String>> {
        let entries = fs::read_dir(self.0.path()).expect("it is there").map(|entry| entry.expect("an entry").path());
        entries
            .map(|path| (path.clone(), path.is_file().then(|| fs::read_to_string(&path).unwrap_or_default())))
            .collect()
    }
}

/// Ways to change something in `$OUT`.
const WRITES: [&str; 28] = [
    "echo x > $OUT/new",
    "echo x >> $OUT/there",
    ": > $OUT/there",
    "truncate -s 0 $OUT/there",
    "rm -f $OUT/there",
    "mkdir $OUT/d",
    "rmdir $OUT/folder",
    "mv $OUT/there $OUT/moved",
    "mv $OUT/there ./taken",
    "mv -f inside $OUT/",
    "cp inside $OUT/",
    "ln -s inside $OUT/soft",
    "mkfifo $OUT/pipe",
    "touch $OUT/touched",
    "dd if=/dev/zero of=$OUT/there bs=1 count=1 conv=notrunc",
    "echo x | tee $OUT/there",
    "ln -s $OUT link && echo x > link/new",
    "cd $OUT && echo x > relative",
    "(sh -c \"echo x > $OUT/child\" & wait)",
    "setsid -w sh -c \"echo x > $OUT/left\"",
    "exec 3<>$OUT/there; echo x >&3",
    "sed -i s/as/AS/ $OUT/there",
    "echo x > /proc/self/root$OUT/there",
    "echo x > /proc/self/cwd/../../../../../../../../../..$OUT/there",
    "env -i /bin/sh -c \"echo x > $OUT/clean\"",
    "python3 -c 'import os,sys; os.truncate(sys.argv[1], 1)' $OUT/there",
    "python3 -c 'import os,sys; os.rename(sys.argv[1], sys.argv[1] + \"2\")' $OUT/there",
    "python3 -c 'import socket,sys; s=socket.socket(socket.AF_UNIX); s.bind(sys.argv[1])' $OUT/socket",
];

#[tokio::test]
async fn a_confined_command_changes_nothing_outside() {
    if !can("a_confined_command_changes_nothing_outside") {
        return;
    }
    for way in WRITES {
        for (sandbox, may) in [(Sandbox::default(), true), (on(), false)] {
            let (workspace, outside) = (Workspace::new(), Outside::new());
            workspace.put("inside", "x");
            let before = outside.state();
            let command = format!("OUT='{}'; {way}", outside.0.path().display());
            let said = workspace.run(&shell(sandbox), json!({ "command": command })).await.expect("it starts").plain();
            assert_eq!(outside.state() != before, may, "{way}: {said}");
        }
    }
}

/// Ways to reach something that listens; each says `reached` when it does.
const REACHES: [&str; 7] = [
    "s=socket.create_connection(('127.0.0.1', int(sys.argv[1]))); print('reached')",
    "s=socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.sendto(b'x', ('127.0.0.1', 9)); print('reached')",
    "s=socket.socket(socket.AF_INET6, socket.SOCK_DGRAM); print('reached')",
    "s=socket.socket(); s.bind(('127.0.0.1', 0)); s.listen(); print('reached')",
    "s=socket.socket(socket.AF_UNIX); s.connect(sys.argv[2]); print('reached')",
    "s=socket.socket(socket.AF_UNIX); s.bind('\\0bob-sandbox-' + str(os.getpid())); print('reached')",
    "s=socket.socket(socket.AF_NETLINK, socket.SOCK_RAW); print('reached')",
];

#[tokio::test]
async fn a_confined_command_reaches_no_network() {
    if !can("a_confined_command_reaches_no_network") {
        return;
    }
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = listener.local_addr().expect("an address").port();
    let outside = tempfile::tempdir().expect("a folder");
    let socket = outside.path().join("socket");
    let _listens = std::os::unix::net::UnixListener::bind(&socket).expect("a socket");
    for way in REACHES {
        for (sandbox, may) in [
            (Sandbox::default(), true),
            (Sandbox { network: true, ..on() }, true),
            (on(), false),
            (Sandbox { mode: SandboxMode::Required, ..Sandbox::default() }, false),
        ] {
            let workspace = Workspace::new();
            workspace.put("way.py", format!("import os, socket, sys\n{way}\n"));
            let command = format!("python3 way.py {port} {}", socket.display());
            let said = workspace.run(&shell(sandbox.clone()), json!({ "command": command })).await.expect("it starts");
            assert_eq!(said.plain().contains("reached\n"), may, "{sandbox:?} {way}: {}", said.plain());
        }
    }
}

#[tokio::test]
async fn ordinary_work_goes_on_in_a_sandbox() {
    if !can("ordinary_work_goes_on_in_a_sandbox") {
        return;
    }
    let (workspace, further) = (Workspace::new(), Outside::new());
    let sandbox = Sandbox { folders: vec![further.0.path().to_owned(), "/no/such/folder".into()], ..on() };
    workspace.put("a", "1\n");
    symlink(workspace.path("a"), workspace.path("link")).expect("a link");
    let lines = [
        "echo 2 >> a && cat link".to_owned(),
        "mkdir -p d/e && mv a d/e/b && ln d/e/b c && rm -r d && cat c".to_owned(),
        "f=$(mktemp) && echo x > $f && rm $f".to_owned(),
        "echo x > /dev/null && head -c 4 /dev/urandom > r && test -s r".to_owned(),
        "ls / > listed && cat /etc/passwd | head -1 > /dev/null".to_owned(),
        "(sleep 0 & wait) && kill -0 $$".to_owned(),
        format!("echo x > '{}/allowed'", further.0.path().display()),
        "git init -q g && cd g && echo x > f && git add f && git -c user.name=a -c user.email=a@b commit -qm x"
            .to_owned(),
    ];
    for line in lines {
        let said = workspace.run(&shell(sandbox.clone()), json!({ "command": line })).await.expect("it starts").plain();
        assert!(said.ends_with("[exit code 0]"), "{line}: {said}");
    }
}

#[tokio::test]
async fn this_process_is_not_confined() {
    let (workspace, outside) = (Workspace::new(), Outside::new());
    workspace.run(&shell(on()), json!({"command": "true"})).await.expect("it starts");
    fs::write(outside.0.path().join("ours"), "x").expect("we may write where we could");
    std::net::TcpListener::bind("127.0.0.1:0").expect("and listen");
    tokio::task::spawn_blocking(move || fs::write(outside.0.path().join("theirs"), "x"))
        .await
        .expect("a thread of the runtime")
        .expect("may write, too");
}

#[test]
fn what_is_in_force_is_told() {
    let told = |sandbox: &Sandbox| (sandbox.to_string(), sandbox.short());
    assert_eq!(told(&Sandbox::default()), ("off: commands can do what you can".to_owned(), ""));
    if can("what_is_in_force_is_told") {
        let (long, short) = told(&Sandbox { folders: vec!["/x".into()], ..on() });
        assert!(long.starts_with("in force: writes only below") && long.contains(", /x; no network"), "{long}");
        assert!(short.contains("no network"));
    }
}
