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
use std::sync::{Arc, Mutex, MutexGuard};

/// What happened, and how it behaves.
pub(super) struct World {
    base: String,
    /// The token that is valid now.
    pub(super) access: Option<String>,
    /// What the valid token permits.
    pub(super) granted: String,
    refresh: Option<String>,
    /// The challenge and the permissions of each code.
    codes: HashMap<String, (String, String)>,
    issued: usize,
    /// How often each grant was asked for, by its name.
    pub(super) grants: HashMap<String, usize>,
    pub(super) registered: usize,
    pub(super) pages: usize,
    pub(super) calls: usize,
    /// What a call needs, beyond a token.
    pub(super) needs: Option<String>,
    /// Life of a token, in seconds.
    pub(super) expires_in: Option<u64>,
    /// Whether people say yes.
    pub(super) allows: bool,
    /// Whether tokens are renewed.
    pub(super) renews: bool,
}

#[derive(Clone)]
pub(super) struct Realm(Arc<Mutex<World>>);

pub(super) const SECRET: &str = "canary-client-secret";

impl Realm {
    pub(super) async fn start() -> Self {
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
        };
        let realm = Self(Arc::new(Mutex::new(world)));
        let router = Router::new().fallback(any(answer)).with_state(realm.clone());
        tokio::spawn(async move { axum::serve(listener, router).await.expect("it serves") });
        realm
    }

    pub(super) fn world(&self) -> MutexGuard<'_, World> {
        self.0.lock().expect("no test panics while it looks")
    }

    pub(super) fn url(&self) -> String {
        format!("{}/mcp", self.world().base)
    }

    /// Pages that were opened, clients that registered themselves, and calls that ran.
    pub(super) fn counts(&self) -> (usize, usize, usize) {
        let world = self.world();
        (world.pages, world.registered, world.calls)
    }

    pub(super) fn pages(&self) -> usize {
        self.world().pages
    }

    pub(super) fn granted(&self) -> String {
        self.world().granted.clone()
    }

    /// The token is valid no longer.
    pub(super) fn revoke(&self) {
        self.world().access = None;
    }

    pub(super) fn grants(&self, name: &str) -> usize {
        self.world().grants.get(name).copied().unwrap_or_default()
    }
}

/// A person with a browser.
pub(super) struct Browser;

impl SignInPort for Browser {
    fn open<'a>(&'a self, _server: &'a ServerId, page: &'a str) -> BoxFuture<'a, ()> {
        Box::pin(async move {
            // The redirect leads to the listener.
            reqwest::get(page).await.expect("the page is there");
        })
    }
}

async fn answer(State(realm): State<Realm>, uri: Uri, headers: HeaderMap, body: Bytes) -> Response {
    let mut world = realm.world();
    let base = world.base.clone();
    let form: HashMap<String, String> = reqwest::Url::parse(&format!("http://x/?{}", String::from_utf8_lossy(&body)))
        .map(|url| url.query_pairs().into_owned().collect())
        .unwrap_or_default();
    match uri.path() {
        "/mcp" => tool_server(&mut world, &headers, &body),
        "/.well-known/oauth-protected-resource/mcp" => Json(json!({
            "resource": format!("{base}/mcp"), "authorization_servers": [base], "scopes_supported": ["read"],
        }))
        .into_response(),
        "/.well-known/oauth-authorization-server" => Json(json!({
            "issuer": base, "authorization_endpoint": format!("{base}/authorize"),
            "token_endpoint": format!("{base}/token"), "registration_endpoint": format!("{base}/register"),
            "response_types_supported": ["code"], "code_challenge_methods_supported": ["S256"],
            "token_endpoint_auth_methods_supported": ["client_secret_post"],
            "authorization_response_iss_parameter_supported": true,
        }))
        .into_response(),
        "/register" => {
            world.registered += 1;
            let asked: Value = serde_json::from_slice(&body).expect("JSON");
            let client = json!({"client_id": format!("client-{}", world.registered), "client_secret": SECRET,
                "client_name": asked["client_name"], "redirect_uris": asked["redirect_uris"]});
            (StatusCode::CREATED, Json(client)).into_response()
        }
        "/authorize" => page(&mut world, &uri),
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
