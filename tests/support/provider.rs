//! A fake model provider: it answers from a script, over HTTP on a loopback port, in the OpenAI chat completions
//! format (`POST …/chat/completions`), the Anthropic messages format (`POST …/messages`) and the Gemini format (`POST
//! …/models/MODEL:streamGenerateContent`).
//!
//! It owns its port, a thread with its own tokio runtime (so that a test may block, or pause its clock, while the
//! provider continues), and the record of requests. `GET …/models` lists one model and is not part of the script.
//! Everything ends when the handle is dropped.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{oneshot, watch};

use super::connection::{Connection, Request, Sent};
use super::plan::{Asked, Plan, Wire};
use super::reply::{INPUT_TOKENS, OUTPUT_TOKENS, Reply};
use super::{gemini, rules};

/// One request as the provider saw it.
#[derive(Clone, Debug)]
pub(crate) struct Recorded {
    pub(crate) method: String,
    /// With its query, if there is one.
    pub(crate) path: String,
    /// Names in lower case, in the order of the wire.
    pub(crate) headers: Vec<(String, String)>,
    /// `Null` when the body was empty or no JSON.
    pub(crate) body: Value,
}

impl Recorded {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(have, _)| have.eq_ignore_ascii_case(name)).map(|(_, value)| value.as_str())
    }
}

type Script = Box<dyn Fn(usize, &Value) -> Option<Reply> + Send + Sync>;

#[derive(Default)]
struct Seen {
    requests: Vec<Recorded>,
    closed_early: usize,
}

struct Inner {
    script: Script,
    seen: watch::Sender<Seen>,
    served: AtomicUsize,
}

/// The handle of a running provider.
pub(crate) struct FakeProvider {
    address: SocketAddr,
    inner: Arc<Inner>,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl FakeProvider {
    /// One reply per request, in order. A request past the end gets status 400, which no client should try again.
    pub(crate) fn start(replies: impl IntoIterator<Item = Reply>) -> Self {
        let replies: Vec<Reply> = replies.into_iter().collect();
        Self::serve(Box::new(move |index, _| replies.get(index).cloned()))
    }

    /// Like [`start`](Self::start), but the last reply is given for ever.
    pub(crate) fn repeating(replies: impl IntoIterator<Item = Reply>) -> Self {
        let replies: Vec<Reply> = replies.into_iter().collect();
        Self::serve(Box::new(move |index, _| replies.get(index).or_else(|| replies.last()).cloned()))
    }

    /// Every reply is made from the body of its request. A panic in the closure closes the connection.
    pub(crate) fn answering(reply: impl Fn(&Value) -> Reply + Send + Sync + 'static) -> Self {
        Self::serve(Box::new(move |_, body| Some(reply(body))))
    }

    fn serve(script: Script) -> Self {
        let listener = std::net::TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a loopback port");
        listener.set_nonblocking(true).expect("a non-blocking listener");
        let address = listener.local_addr().expect("the address of a bound listener");
        let inner = Arc::new(Inner { script, seen: watch::Sender::new(Seen::default()), served: AtomicUsize::new(0) });
        let (stop, stopped) = oneshot::channel();
        let inside = inner.clone();
        let thread = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
            runtime.block_on(async {
                tokio::select! {
                    () = accept(listener, inside) => {}
                    _ = stopped => {}
                }
            });
        });
        Self { address, inner, stop: Some(stop), thread: Some(thread) }
    }

    /// `http://127.0.0.1:PORT`, without a path.
    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// The base a client appends `chat/completions` or `messages` to: it ends in `/v1/`.
    pub(crate) fn base_url(&self) -> String {
        format!("{}/v1/", self.url())
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Every request so far, those refused and those still waiting included.
    pub(crate) fn requests(&self) -> Vec<Recorded> {
        self.inner.seen.borrow().requests.clone()
    }

    /// How many connections clients closed before their scripted reply was over. Silence is never over.
    pub(crate) fn closed_early(&self) -> usize {
        self.inner.seen.borrow().closed_early
    }

    /// Waits until at least `n` connections were closed early. It waits for ever: put a timeout around it.
    pub(crate) async fn wait_closed_early(&self, n: usize) {
        self.wait(|seen| seen.closed_early >= n).await;
    }

    /// Waits until at least `n` requests arrived. It waits for ever: put a timeout around it.
    pub(crate) async fn wait_requests(&self, n: usize) {
        self.wait(|seen| seen.requests.len() >= n).await;
    }

    /// Blocks until at least `n` connections were closed early; false when that took too long.
    pub(crate) fn closed_early_within(&self, n: usize, deadline: Duration) -> bool {
        self.block(|seen| seen.closed_early >= n, deadline)
    }

    /// Blocks until at least `n` requests arrived; false when that took too long.
    pub(crate) fn asked_within(&self, n: usize, deadline: Duration) -> bool {
        self.block(|seen| seen.requests.len() >= n, deadline)
    }

    async fn wait(&self, reached: impl Fn(&Seen) -> bool) {
        let mut seen = self.inner.seen.subscribe();
        // The sender is part of this handle, so the channel is open.
        let _ = seen.wait_for(reached).await;
    }

    /// On a separate thread, because the caller may be inside a runtime, where blocking on another is not allowed.
    fn block(&self, reached: impl Fn(&Seen) -> bool + Send, deadline: Duration) -> bool {
        let wait = || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().expect("a runtime");
            runtime.block_on(async { tokio::time::timeout(deadline, self.wait(reached)).await.is_ok() })
        };
        std::thread::scope(|scope| scope.spawn(wait).join().expect("a wait that does not panic"))
    }
}

impl Drop for FakeProvider {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            // A panic of the provider was reported already; a second panic while dropping would abort the test run.
            let _ = thread.join();
        }
    }
}

async fn accept(listener: std::net::TcpListener, inner: Arc<Inner>) {
    let listener = TcpListener::from_std(listener).expect("a listener in a runtime");
    loop {
        if let Ok((stream, _)) = listener.accept().await {
            tokio::spawn(converse(stream, inner.clone()));
        }
    }
}

/// One connection, request after request.
async fn converse(stream: TcpStream, inner: Arc<Inner>) {
    let Ok(mut connection) = Connection::new(stream) else { return };
    while let Ok(Some(request)) = connection.read().await {
        let plan = inner.plan(request);
        match connection.send(plan).await {
            Sent::Whole => {}
            Sent::Closed => return,
            Sent::ClientLeft => {
                inner.seen.send_modify(|seen| seen.closed_early += 1);
                return;
            }
        }
    }
}

impl Inner {
    /// Records a request and determines its response.
    fn plan(&self, request: Request) -> Plan {
        let Request { method, path, headers, body } = request;
        let body: Value = serde_json::from_slice(&body).unwrap_or(Value::Null);
        let route = path.split('?').next().unwrap_or_default().to_owned();
        let named = gemini::asked_for(&route);
        let wire = match (method.as_str(), route.as_str()) {
            ("POST", route) if route.ends_with("/chat/completions") => Some(Wire::OpenAi),
            ("POST", route) if route.ends_with("/messages") => Some(Wire::Anthropic),
            ("POST", route) if gemini::asked_for(route).is_some() => Some(Wire::Gemini),
            _ => None,
        };
        let models = method == "GET" && route.ends_with("/models");
        let recorded = Recorded { method, path, headers: headers.clone(), body: body.clone() };
        let mut number = 0;
        self.seen.send_modify(|seen| {
            seen.requests.push(recorded);
            number = seen.requests.len();
        });
        let Some(wire) = wire else {
            return if models {
                let list = json!({"object": "list", "data": [{"id": "fake", "object": "model", "owned_by": "tests"}]});
                Plan::plain(200, Vec::new(), list.to_string())
            } else {
                Plan::error(404, "no such path on the fake provider", Wire::OpenAi)
            };
        };
        if let Some(why) = rules::broken(wire, &headers, &body) {
            return Plan::error(400, &why, wire);
        }
        let index = self.served.fetch_add(1, Ordering::Relaxed);
        let Some(reply) = (self.script)(index, &body) else {
            return Plan::error(400, "the script of the fake provider is over", wire);
        };
        let asked = Asked {
            wire,
            number,
            model: named.map_or_else(|| body["model"].as_str().unwrap_or_default(), |(model, _)| model).to_owned(),
            stream: named.map_or_else(|| body["stream"] == true, |(_, stream)| stream),
            include_usage: body["stream_options"]["include_usage"] == true,
            usage: (INPUT_TOKENS, OUTPUT_TOKENS),
        };
        Plan::of(reply, &asked)
    }
}
