use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;

/// What a statement holds that writes records or a message: both are JSON that names a session.
const WRITES: &[u8] = b"\"session\":\"";

/// The end of an answer after which nothing is open: `ReadyForQuery`, idle. What it answers is committed.
const COMMITTED: &[u8] = b"Z\0\0\0\x05I";

/// How many bytes are read at a time.
const CHUNK: usize = 1 << 16;

/// A listener on a free port, and the connections behind it. They end when it is dropped.
pub(super) struct Proxy {
    pub(super) port: u16,
    state: Arc<State>,
    listening: JoinHandle<()>,
}

#[derive(Default)]
struct State {
    /// The next commit loses its answer.
    is_armed: AtomicBool,
    /// How many answers were lost.
    cuts: AtomicU64,
    /// How many chunks with writes went by.
    writes: AtomicU64,
}

impl Proxy {
    /// Starts one before a server.
    pub(super) async fn start(target: (String, u16)) -> io::Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let (port, state) = (listener.local_addr()?.port(), Arc::<State>::default());
        let listening = tokio::spawn(listen(listener, target, Arc::clone(&state)));
        Ok(Self { port, state, listening })
    }

    /// The connection of the next commit is cut when the database has answered it.
    pub(super) fn arm(&self) {
        self.state.is_armed.store(true, Ordering::SeqCst);
    }

    pub(super) fn cuts(&self) -> u64 {
        self.state.cuts.load(Ordering::SeqCst)
    }

    pub(super) fn writes(&self) -> u64 {
        self.state.writes.load(Ordering::Relaxed)
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.listening.abort();
    }
}

async fn listen(listener: TcpListener, target: (String, u16), state: Arc<State>) {
    loop {
        // Without descriptors there is none for a while.
        let Ok((client, _)) = listener.accept().await else {
            tokio::time::sleep(std::time::Duration::from_millis(10)).await;
            continue;
        };
        let (target, state) = (target.clone(), Arc::clone(&state));
        tokio::spawn(async move {
            // A server that is away refuses its clients, as without a proxy.
            if let Ok(server) = TcpStream::connect((target.0.as_str(), target.1)).await {
                between(client, server, state).await;
            }
        });
    }
}

/// Carries both ways until one of them ends, or the connection is cut.
async fn between(client: TcpStream, server: TcpStream, state: Arc<State>) {
    // Small messages are not held back, as by the clients of the database.
    let _slower = (client.set_nodelay(true), server.set_nodelay(true));
    let ((from_client, to_client), (from_server, to_server)) = (client.into_split(), server.into_split());
    let is_cut = AtomicBool::new(false);
    tokio::select! {
        () = questions(from_client, to_server, &state, &is_cut) => {}
        () = answers(from_server, to_client, &state, &is_cut) => {}
    }
}

async fn questions(mut client: OwnedReadHalf, mut server: OwnedWriteHalf, state: &State, is_cut: &AtomicBool) {
    let mut bytes = vec![0; CHUNK];
    while let Ok(count @ 1..) = client.read(&mut bytes).await {
        let chunk = bytes.get(..count).unwrap_or_default();
        if chunk.windows(WRITES.len()).any(|part| part == WRITES) {
            state.writes.fetch_add(1, Ordering::Relaxed);
            if state.is_armed.swap(false, Ordering::SeqCst) {
                is_cut.store(true, Ordering::SeqCst);
            }
        }
        if server.write_all(chunk).await.is_err() {
            return;
        }
    }
}

async fn answers(mut server: OwnedReadHalf, mut client: OwnedWriteHalf, state: &State, is_cut: &AtomicBool) {
    let mut bytes = vec![0; CHUNK];
    while let Ok(count @ 1..) = server.read(&mut bytes).await {
        let chunk = bytes.get(..count).unwrap_or_default();
        if is_cut.load(Ordering::SeqCst) {
            if chunk.ends_with(COMMITTED) {
                state.cuts.fetch_add(1, Ordering::SeqCst);
                return;
            }
        } else if client.write_all(chunk).await.is_err() {
            return;
        }
    }
}

#[cfg(test)]
#[path = "proxy_tests.rs"]
mod tests;
