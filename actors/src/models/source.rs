//! Where a catalogue comes from.

use super::formats::{self, MAX_BYTES};
#[cfg(any(feature = "genai", feature = "mcp", feature = "web"))]
use crate::cause::{copied, root_cause};
use bob_messages::cause::Cause;
use bob_messages::models::ModelEntry;
use std::error::Error;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// How long a source may take to answer.
pub const WITHIN: std::time::Duration = std::time::Duration::from_secs(15);

/// Where a catalogue comes from.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Source {
    /// It is built in.
    #[default]
    BuiltIn,
    /// A file.
    File(PathBuf),
    /// An address.
    Url(String),
}

/// Why the catalogue of models is not available, or its source has no answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CatalogueError {
    why: String,
    cause: Cause,
}

impl CatalogueError {
    /// An error with this text.
    pub fn new(why: impl Into<String>) -> Self {
        Self { why: why.into(), cause: Cause::default() }
    }

    /// With the error that it comes from.
    #[must_use]
    pub fn with_source(self, source: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        Self { cause: Cause::of(source), ..self }
    }

    /// What another error says, which is the source.
    fn of(error: impl Error + Send + Sync + 'static) -> Self {
        Self::new(error.to_string()).with_source(error)
    }
}

impl fmt::Display for CatalogueError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.why)
    }
}

impl Error for CatalogueError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        self.cause.error()
    }
}

pub(super) type Entries = Arc<[Arc<ModelEntry>]>;

impl Source {
    /// Asks the source.
    pub(super) async fn fetch(&self) -> Result<(Entries, Option<String>), CatalogueError> {
        match self {
            Self::BuiltIn => Ok((formats::built_in(), None)),
            Self::File(path) => {
                let path = path.clone();
                let read = tokio::task::spawn_blocking(move || of_file(&path)).await;
                read.unwrap_or_else(|_panicked| Err(CatalogueError::new("it could not be read")))
                    .map(|entries| (entries, None))
            }
            Self::Url(url) => {
                let asked = tokio::time::timeout(WITHIN, body(url)).await;
                let text = asked.unwrap_or_else(|_elapsed| {
                    Err(CatalogueError::new(format!("no answer within {} s", WITHIN.as_secs())))
                })?;
                let parsed =
                    tokio::task::spawn_blocking(move || read(&text).map(|entries| (entries, Some(text)))).await;
                parsed.unwrap_or_else(|_panicked| Err(CatalogueError::new("it could not be read")))
            }
        }
    }
}

pub(super) fn of_file(path: &Path) -> Result<Entries, CatalogueError> {
    let size = path.metadata().map_err(CatalogueError::of)?.len();
    if size > MAX_BYTES as u64 {
        return Err(CatalogueError::new(format!("it has {size} bytes; at most {MAX_BYTES} are taken")));
    }
    read(&std::fs::read_to_string(path).map_err(CatalogueError::of)?)
}

pub(super) fn read(text: &str) -> Result<Entries, CatalogueError> {
    formats::read(text).map_err(CatalogueError::of)
}

#[cfg(any(feature = "genai", feature = "mcp", feature = "web"))]
async fn body(url: &str) -> Result<String, CatalogueError> {
    // One that another part of the process installed before is as good.
    let _installed_before = rustls::crypto::ring::default_provider().install_default();
    let url = reqwest::Url::parse(url).map_err(|error| CatalogueError::new(error.to_string()))?;
    let is_plain = url.scheme() == "http";
    let builder = reqwest::Client::builder()
        .connect_timeout(std::time::Duration::from_secs(10))
        // Unpacked bytes could not be bounded.
        .no_gzip()
        .redirect(reqwest::redirect::Policy::limited(3))
        .pool_max_idle_per_host(0);
    let builder = if is_plain && crate::loopback::is_loopback_host(&url) {
        builder.no_proxy().tls_certs_only([])
    } else {
        builder
    };
    let client = builder.build().map_err(|error| of_http(&error, format!("the HTTP client cannot start: {error}")))?;
    let mut response = client.get(url).send().await.map_err(|error| of_http(&error, root_cause(&error).to_string()))?;
    if !response.status().is_success() {
        return Err(CatalogueError::new(format!("the answer was {}", response.status())));
    }
    let mut bytes = Vec::new();
    while let Some(more) = response.chunk().await.map_err(|error| of_http(&error, root_cause(&error).to_string()))? {
        bytes.extend_from_slice(&more);
        if bytes.len() > MAX_BYTES {
            return Err(CatalogueError::new(format!("the answer has more than {MAX_BYTES} bytes")));
        }
    }
    String::from_utf8(bytes).map_err(|_no_text| CatalogueError::new("the answer is no text"))
}

/// What is below an error of the client. Its own text has the address.
#[cfg(any(feature = "genai", feature = "mcp", feature = "web"))]
fn of_http(error: &reqwest::Error, why: String) -> CatalogueError {
    let failed = CatalogueError::new(why);
    match error.source() {
        Some(below) => failed.with_source(copied(below, &str::to_owned)),
        None => failed,
    }
}

#[cfg(not(any(feature = "genai", feature = "mcp", feature = "web")))]
async fn body(_url: &str) -> Result<String, CatalogueError> {
    let why = "this program was built without HTTP (the feature genai)";
    std::future::ready(Err(CatalogueError::new(why))).await
}
