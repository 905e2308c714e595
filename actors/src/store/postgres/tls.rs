//! TLS to the database: rustls with the system's certificate authorities or those of a file, by `sslmode` and `sslrootcert`
//! of the URL. A server that is spoken to by TLS always has to prove its name.

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use rustls_platform_verifier::BuilderVerifierExt;
use std::error::Error;
use std::io;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio_postgres::Config;
use tokio_postgres::tls::{ChannelBinding, MakeTlsConnect, TlsConnect, TlsStream};
use tokio_rustls::{TlsConnector, client};

/// Makes the TLS side of a connection; its configuration is made when a server agrees to TLS.
#[derive(Clone, Default)]
pub(super) struct Tls {
    /// The file of the certificate authorities that count, instead of the system's.
    authorities: Option<Arc<PathBuf>>,
}

pub(super) struct ToHost(String, Tls);

/// Why a server may not be spoken to, by TLS or without. It lasts until a configuration is changed.
#[derive(Debug)]
pub(super) enum Untrusted {
    /// It has none, and the URL demands it.
    HasNone,
    /// It is not the server that it should be, as far as it can be told.
    Unproven(rustls::Error),
    /// The certificate authorities cannot be read.
    Authorities(String),
}

impl Tls {
    /// Takes out of a URL what its other reader, the client, does not know: the authorities, and the names of the modes that
    /// others have. What is wrong about it is answered as the end of a sentence that begins with the URL.
    pub(super) fn of(url: &str) -> Result<(Self, String), &'static str> {
        let Some((place, options)) = url.split_once('?') else { return Ok((Self::default(), url.to_owned())) };
        let (mut tls, mut is_demanded, mut names_authorities, mut left) = (Self::default(), false, false, Vec::new());
        for option in options.split('&') {
            match option.split_once('=') {
                Some(("sslmode", "require" | "verify-full")) => {
                    is_demanded = true;
                    left.push("sslmode=require");
                }
                Some(("sslmode", "allow" | "verify-ca")) => {
                    return Err("has an sslmode that is not known here; it is disable, prefer, require or verify-full");
                }
                // The last one counts for the client.
                Some(("sslmode", _of_the_client)) => {
                    is_demanded = false;
                    left.push(option);
                }
                Some(("sslrootcert", "system")) => names_authorities = true,
                Some(("sslrootcert", file)) => {
                    names_authorities = true;
                    let file = decoded(file).ok_or("has an sslrootcert that does not read")?;
                    tls.authorities = Some(Arc::new(PathBuf::from(file)));
                }
                _of_the_client => left.push(option),
            }
        }
        if names_authorities && !is_demanded {
            return Err("names certificate authorities (sslrootcert) and does not demand TLS; add sslmode=verify-full");
        }
        Ok((tls, format!("{place}?{}", left.join("&"))))
    }

    fn configuration(&self) -> io::Result<ClientConfig> {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let versions = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
        let versions = versions.map_err(io::Error::other)?;
        let verified = match &self.authorities {
            Some(file) => versions.with_root_certificates(authorities(file)?),
            None => versions.with_platform_verifier().map_err(io::Error::other)?,
        };
        Ok(verified.with_no_client_auth())
    }
}

/// A value of a URL as the client reads its own.
fn decoded(value: &str) -> Option<String> {
    let config: Config = format!("postgres://host/?application_name={value}").parse().ok()?;
    config.get_application_name().filter(|value| !value.is_empty()).map(str::to_owned)
}

fn authorities(file: &Path) -> io::Result<RootCertStore> {
    let read = || {
        let certificates = CertificateDer::pem_file_iter(file).map_err(|error| error.to_string())?;
        let mut roots = RootCertStore::empty();
        for certificate in certificates {
            let certificate = certificate.map_err(|error| error.to_string())?;
            roots.add(certificate).map_err(|error| error.to_string())?;
        }
        match roots.is_empty() {
            true => Err("it has no certificate".to_owned()),
            false => Ok(roots),
        }
    };
    let told = |why| Untrusted::Authorities(format!("{}: {why}", file.display()));
    read().map_err(|why: String| io::Error::other(told(why)))
}

impl Untrusted {
    /// What a connection was not made for, if it is this.
    pub(super) fn of(error: &tokio_postgres::Error) -> Option<Self> {
        let cause = error.source()?;
        // The client has no kind for it.
        if cause.to_string() == "server does not support TLS" {
            return Some(Self::HasNone);
        }
        let cause = cause.downcast_ref::<io::Error>()?.get_ref()?;
        if let Some(Self::Authorities(why)) = cause.downcast_ref() {
            return Some(Self::Authorities(why.clone()));
        }
        // Other errors of the handshake may be those of a server, or of what is before it, that starts again.
        let is_unproven = |error: &&rustls::Error| matches!(error, rustls::Error::InvalidCertificate(_));
        cause.downcast_ref::<rustls::Error>().filter(is_unproven).cloned().map(Self::Unproven)
    }
}

impl std::fmt::Display for Untrusted {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        use rustls::{CertificateError, Error};
        let is_unknown = |why: &CertificateError| matches!(why, CertificateError::UnknownIssuer);
        match self {
            Self::HasNone => f.write_str("has no TLS, which sslmode in the URL demands; switch it on there (ssl = on)"),
            Self::Unproven(why @ Error::InvalidCertificate(unknown)) if is_unknown(unknown) => write!(
                f,
                "does not prove who it is: {why}; name its certificate authority (sslmode=verify-full&sslrootcert=FILE in \
                 the URL), or do without TLS where the way is safe (sslmode=disable)"
            ),
            Self::Unproven(why @ Error::InvalidCertificate(_)) => write!(f, "does not prove who it is: {why}"),
            Self::Unproven(why) => write!(f, "cannot be spoken to by TLS: {why}"),
            Self::Authorities(why) => {
                write!(
                    f,
                    "cannot be trusted: cannot read the certificate authorities in {why}; correct sslrootcert in the URL"
                )
            }
        }
    }
}

impl Error for Untrusted {}

pub(super) struct Secured<S>(client::TlsStream<S>);

impl<S: AsyncRead + AsyncWrite + Unpin + Send + 'static> MakeTlsConnect<S> for Tls {
    type Stream = Secured<S>;
    type TlsConnect = ToHost;
    type Error = io::Error;

    fn make_tls_connect(&mut self, host: &str) -> io::Result<ToHost> {
        Ok(ToHost(host.to_owned(), self.clone()))
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin + Send + 'static> TlsConnect<S> for ToHost {
    type Stream = Secured<S>;
    type Error = io::Error;
    type Future = Pin<Box<dyn Future<Output = io::Result<Secured<S>>> + Send>>;

    fn connect(self, stream: S) -> Self::Future {
        Box::pin(async move {
            let Self(host, tls) = self;
            let name = ServerName::try_from(host).map_err(io::Error::other)?;
            Ok(Secured(TlsConnector::from(Arc::new(tls.configuration()?)).connect(name, stream).await?))
        })
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> TlsStream for Secured<S> {
    /// The password is not bound to the certificate: `channel_binding=require` is refused by the client.
    fn channel_binding(&self) -> ChannelBinding {
        ChannelBinding::none()
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncRead for Secured<S> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, into: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_read(cx, into)
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncWrite for Secured<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(cx)
    }
}
