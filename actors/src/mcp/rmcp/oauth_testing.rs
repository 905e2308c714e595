//! A tool server that wants its clients to sign in, and its authorization server, at one address.

use crate::mcp::sign_in::SignInPort;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode, Uri, header};
use axum::response::{IntoResponse, Response};
use axum::routing::any;
use axum::{Json, Router};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use bob_messages::ids::ServerId;
use futures_util::future::BoxFuture;
use serde_json::{Value, json};
use std::collections::HashMap;
use std::future::pending;
use std::sync::{Arc, Mutex, MutexGuard};
use tokio::sync::Semaphore;

/// What happened, and how it behaves.
pub(in super::super) struct World {
    base: String,
    /// The token that is valid now.
    pub(in super::super) access: Option<String>,
    /// What the valid token permits.
    pub(in super::super) granted: String,
    refresh: Option<String>,
    /// The challenge and the permissions of each code.
    codes: HashMap<String, (String, String)>,
    issued: usize,
    /// How often each grant was asked for, by its name.
    pub(in super::super) grants: HashMap<String, usize>,
    pub(in super::super) registered: usize,
    pub(in super::super) pages: usize,
    pub(in super::super) calls: usize,
    /// What a call needs, beyond a token.
    pub(in super::super) needs: Option<String>,
    /// Life of a token, in seconds.
    pub(in super::super) expires_in: Option<u64>,
    /// Whether people say yes.
    pub(in super::super) allows: bool,
    /// Whether tokens are renewed.
    pub(in super::super) renews: bool,
    /// Whether a call fails with an error that repeats the token.
    pub(in super::super) echoes: Echoes,
    /// Replaces parts of the metadata of the authorization server; null removes one.
    pub(in super::super) metadata: Value,
    /// The authorization server that it names, in the place of itself.
    pub(in super::super) elsewhere: Option<String>,
    /// Whether it publishes metadata.
    pub(in super::super) publishes: bool,
    /// Whether it leaves `server/discover` without an answer.
    pub(in super::super) is_silent: bool,
    /// A token leaves with a permit of this, after it was made.
    pub(in super::super) gate: Option<Arc<Semaphore>>,
    /// Every address that was asked for, and every `resource` that a token was asked for.
    pub(in super::super) asked: Vec<String>,
    pub(in super::super) resources: Vec<String>,
}

/// How a call fails.
#[derive(Clone, Copy)]
pub(in super::super) enum Echoes {
    No,
    Json,
    Stream,
}

#[derive(Clone)]
pub(in super::super) struct Realm(Arc<Mutex<World>>);

pub(in super::super) const SECRET: &str = "canary-client-secret";

impl Realm {
    pub(in super::super) async fn start() -> Self {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let base = format!("http://{}", listener.local_addr().expect("an address"));
        let world = World {
            base,
            access: None,
            granted: String::new(),
            refresh: None,
            codes: HashMap::new(),
            issued: 0,
            grants: HashMap::new(),
            registered: 0,
            pages: 0,
            calls: 0,
            needs: None,
            expires_in: Some(3_600),
            allows: true,
            renews: true,
            echoes: Echoes::No,
            metadata: Value::Null,
            elsewhere: None,
            publishes: true,
            is_silent: false,
            gate: None,
            asked: Vec::new(),
            resources: Vec::new(),
        };
        let realm = Self(Arc::new(Mutex::new(world)));
        let router = Router::new().fallback(any(answer)).with_state(realm.clone());
        tokio::spawn(async move { axum::serve(listener, router).await.expect("it serves") });
        realm
    }

    pub(in super::super) fn world(&self) -> MutexGuard<'_, World> {
        self.0.lock().expect("no test panics while it looks")
    }

    pub(in super::super) fn url(&self) -> String {
        format!("{}/mcp", self.world().base)
    }

    pub(in super::super) fn base(&self) -> String {
        self.world().base.clone()
    }

    /// Pages that were opened, clients that registered themselves, and calls that ran.
    pub(in super::super) fn counts(&self) -> (usize, usize, usize) {
        let world = self.world();
        (world.pages, world.registered, world.calls)
    }

    pub(in super::super) fn pages(&self) -> usize {
        self.world().pages
    }

    pub(in super::super) fn granted(&self) -> String {
        self.world().granted.clone()
    }

    /// The token is valid no longer.
    pub(in super::super) fn revoke(&self) {
        self.world().access = None;
    }

    pub(in super::super) fn grants(&self, name: &str) -> usize {
        self.world().grants.get(name).copied().unwrap_or_default()
    }
}

/// A person with a browser.
pub(in super::super) struct Browser;

impl SignInPort for Browser {
    fn open<'a>(&'a self, _server: &'a ServerId, page: &'a str) -> BoxFuture<'a, ()> {
        Box::pin(async move {
            // The redirect leads to the listener.
            reqwest::get(page).await.expect("the page is there");
        })
    }
}

async fn answer(State(realm): State<Realm>, uri: Uri, headers: HeaderMap, body: Bytes) -> Response {
    let is_token = uri.path() == "/token";
    let is_discovery = String::from_utf8_lossy(&body).contains("server/discover");
    if is_discovery && realm.world().is_silent {
        return pending().await;
    }
    let answer = answer_of(&realm, &uri, &headers, &body);
    let gate = realm.world().gate.clone().filter(|_| is_token);
    if let Some(gate) = gate {
        gate.acquire().await.expect("it is open").forget();
    }
    answer
}

fn answer_of(realm: &Realm, uri: &Uri, headers: &HeaderMap, body: &Bytes) -> Response {
    let mut world = realm.world();
    world.asked.push(uri.to_string());
    let base = world.base.clone();
    let form: HashMap<String, String> = reqwest::Url::parse(&format!("http://x/?{}", String::from_utf8_lossy(body)))
        .map(|url| url.query_pairs().into_owned().collect())
        .unwrap_or_default();
    match uri.path() {
        "/mcp" => tool_server(&mut world, headers, body),
        path if path.starts_with("/.well-known") && !world.publishes => StatusCode::NOT_FOUND.into_response(),
        "/.well-known/oauth-protected-resource/mcp" => Json(json!({
            "resource": format!("{base}/mcp"), "authorization_servers": [world.elsewhere.as_ref().unwrap_or(&base)],
            "scopes_supported": ["read"],
        }))
        .into_response(),
        "/.well-known/oauth-authorization-server" => {
            let mut metadata = json!({
                "issuer": base, "authorization_endpoint": format!("{base}/authorize"),
                "token_endpoint": format!("{base}/token"), "registration_endpoint": format!("{base}/register"),
                "response_types_supported": ["code"], "code_challenge_methods_supported": ["S256"],
                "token_endpoint_auth_methods_supported": ["client_secret_post"],
                "authorization_response_iss_parameter_supported": true,
            });
            for (name, value) in world.metadata.as_object().into_iter().flatten() {
                metadata[name] = value.clone();
            }
            metadata.as_object_mut().expect("an object").retain(|_, value| !value.is_null());
            Json(metadata).into_response()
        }
        "/register" => {
            world.registered += 1;
            let asked: Value = serde_json::from_slice(body).expect("JSON");
            let client = json!({"client_id": format!("client-{}", world.registered), "client_secret": SECRET,
                "client_name": asked["client_name"], "redirect_uris": asked["redirect_uris"]});
            (StatusCode::CREATED, Json(client)).into_response()
        }
        "/authorize" => page(&mut world, uri),
        "/token" => token(&mut world, &form),
        _ => StatusCode::NOT_FOUND.into_response(),
    }
}

fn page(world: &mut World, uri: &Uri) -> Response {
    world.pages += 1;
    let url = reqwest::Url::parse(&format!("http://x{uri}")).expect("a page");
    let asked: HashMap<String, String> = url.query_pairs().into_owned().collect();
    assert_eq!((asked["response_type"].as_str(), asked["code_challenge_method"].as_str()), ("code", "S256"));
    assert_eq!(asked["resource"], format!("{}/mcp", world.base));
    let mut back = reqwest::Url::parse(&asked["redirect_uri"]).expect("a redirect");
    assert_eq!(back.host_str(), Some("127.0.0.1"));
    let code = format!("canary-code-{}", world.pages);
    if world.allows {
        let scope = asked.get("scope").cloned().unwrap_or_default();
        world.codes.insert(code.clone(), (asked["code_challenge"].clone(), scope));
        back.query_pairs_mut().append_pair("code", &code).append_pair("iss", &world.base);
    } else {
        back.query_pairs_mut().append_pair("error", "access_denied");
    }
    back.query_pairs_mut().append_pair("state", &asked["state"]);
    (StatusCode::FOUND, [(header::LOCATION, back.to_string())]).into_response()
}

fn token(world: &mut World, form: &HashMap<String, String>) -> Response {
    let grant = form["grant_type"].clone();
    *world.grants.entry(grant.clone()).or_default() += 1;
    world.resources.extend(form.get("resource").cloned());
    let refused = |error: &str| (StatusCode::BAD_REQUEST, Json(json!({"error": error}))).into_response();
    if form.get("client_secret").map(String::as_str) != Some(SECRET) {
        return refused("invalid_client");
    }
    match grant.as_str() {
        "authorization_code" => {
            let Some((challenge, scope)) = world.codes.remove(&form["code"]) else { return refused("invalid_grant") };
            if sha256(form["code_verifier"].as_bytes()) != challenge {
                return refused("invalid_grant");
            }
            world.granted = scope;
        }
        "refresh_token" if !world.renews || Some(&form["refresh_token"]) != world.refresh.as_ref() => {
            return refused("invalid_grant");
        }
        "refresh_token" => {}
        "client_credentials" => world.granted = form.get("scope").cloned().unwrap_or_default(),
        _ => return refused("unsupported_grant_type"),
    }
    world.issued += 1;
    let number = world.issued;
    world.access = Some(format!("canary-access-{number}"));
    let mut token = json!({"access_token": world.access, "token_type": "Bearer", "scope": world.granted});
    if grant != "client_credentials" {
        world.refresh = Some(format!("canary-refresh-{number}"));
        token["refresh_token"] = json!(world.refresh);
    }
    if let Some(seconds) = world.expires_in {
        token["expires_in"] = json!(seconds);
    }
    Json(token).into_response()
}

/// It speaks a version with a handshake, and has no sessions.
fn tool_server(world: &mut World, headers: &HeaderMap, body: &Bytes) -> Response {
    let sent = headers.get(header::AUTHORIZATION).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let metadata = format!("resource_metadata=\"{}/.well-known/oauth-protected-resource/mcp\"", world.base);
    let is_valid = world.access.as_ref().is_some_and(|access| sent == format!("Bearer {access}"));
    if !is_valid {
        // It repeats what it was sent, which must reach no log.
        let challenge = format!("Bearer {metadata}, error_description=\"{sent}\"");
        return (StatusCode::UNAUTHORIZED, [(header::WWW_AUTHENTICATE, challenge)], sent.to_owned()).into_response();
    }
    let message: Value = serde_json::from_slice(body).unwrap_or_default();
    let result = match message["method"].as_str() {
        None => return StatusCode::METHOD_NOT_ALLOWED.into_response(),
        _ if message["id"].is_null() => return StatusCode::ACCEPTED.into_response(),
        Some("initialize") => {
            json!({"protocolVersion": "2025-11-25", "capabilities": {"tools": {}}, "serverInfo": {"name": "r", "version": "1"}})
        }
        Some("tools/list") => {
            json!({"tools": [{"name": "echo", "inputSchema": {"type": "object"}, "annotations": {"destructiveHint": false}}]})
        }
        Some("tools/call") => {
            let needs = world.needs.clone().filter(|scope| !world.granted.split(' ').any(|had| had == scope));
            if let Some(scope) = needs {
                let challenge = format!("Bearer error=\"insufficient_scope\", scope=\"{scope}\", {metadata}");
                return (StatusCode::FORBIDDEN, [(header::WWW_AUTHENTICATE, challenge)]).into_response();
            }
            world.calls += 1;
            let error = json!({"code": -32000, "message": format!("no luck with {sent}")});
            let error = json!({"jsonrpc": "2.0", "id": message["id"], "error": error});
            match world.echoes {
                Echoes::No => {}
                Echoes::Json => return Json(error).into_response(),
                Echoes::Stream => {
                    return ([(header::CONTENT_TYPE, "text/event-stream")], format!("data: {error}\n\n"))
                        .into_response();
                }
            }
            json!({"content": [{"type": "text", "text": "heard"}]})
        }
        Some(_) => {
            let error = json!({"code": -32601, "message": "no such method"});
            return Json(json!({"jsonrpc": "2.0", "id": message["id"], "error": error})).into_response();
        }
    };
    Json(json!({"jsonrpc": "2.0", "id": message["id"], "result": result})).into_response()
}

/// As the challenge of a code.
fn sha256(bytes: &[u8]) -> String {
    let suite = rustls::crypto::ring::cipher_suite::TLS13_AES_128_GCM_SHA256;
    let hash = suite.tls13().expect("a suite of TLS 1.3").common.hash_provider.hash(bytes);
    URL_SAFE_NO_PAD.encode(hash.as_ref())
}
