//! Encrypted connections (TLS).

use std::io;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result};
use axum::serve::Listener;
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::{ClientConfig, RootCertStore, ServerConfig};
use tokio_rustls::server::TlsStream;
use tokio_rustls::{TlsAcceptor, TlsConnector};

/// Time after which a connection without a complete handshake is closed.
const PATIENCE: Duration = Duration::from_secs(10);
/// Largest number of handshakes in progress at a time.
const HANDSHAKES: usize = 64;

/// Makes clients use the same implementation of ciphers as servers. Does nothing if one is already
/// chosen.
pub(crate) fn choose_provider() {
    let _ = ring::default_provider().install_default();
}

/// Returns an acceptor that uses a certificate and its key.
///
/// # Errors
/// If the files cannot be read, or the key does not belong to the certificate.
pub(crate) fn acceptor(certificate: &Path, key: &Path) -> Result<TlsAcceptor> {
    let chain = CertificateDer::pem_file_iter(certificate)
        .and_then(Iterator::collect::<Result<Vec<_>, _>>)
        .with_context(|| format!("reading the certificate {}", certificate.display()))?;
    let key = PrivateKeyDer::from_pem_file(key)
        .with_context(|| format!("reading the key {}", key.display()))?;
    let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()?
        .with_no_client_auth()
        .with_single_cert(chain, key)
        .context("using the certificate with its key")?;
    Ok(TlsAcceptor::from(Arc::new(config)))
}

/// Opens an encrypted connection to this host. A certificate in the file `authority` must verify
/// the host's certificate.
///
/// # Errors
/// If `authority` cannot be read, or does not verify the host's certificate.
pub(crate) async fn connect(
    tcp: TcpStream,
    host: &str,
    authority: &Path,
) -> Result<tokio_rustls::client::TlsStream<TcpStream>> {
    let name = authority.display();
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_file_iter(authority)
        .with_context(|| format!("reading the certificate {name}"))?
    {
        let certificate = certificate.with_context(|| format!("reading the certificate {name}"))?;
        roots
            .add(certificate)
            .with_context(|| format!("using the certificate {name}"))?;
    }
    let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()?
        .with_root_certificates(roots)
        .with_no_client_auth();
    let server = ServerName::try_from(host.trim_matches(['[', ']']).to_owned())
        .with_context(|| format!("`{host}` is not a host name"))?;
    TlsConnector::from(Arc::new(config))
        .connect(server, tcp)
        .await
        .with_context(|| format!("{name} does not verify the certificate of {host}"))
}

/// Listener for connections that begin with a handshake. A slow handshake does not delay other
/// connections.
pub(crate) struct TlsListener {
    tcp: TcpListener,
    acceptor: TlsAcceptor,
    handshakes: JoinSet<io::Result<(TlsStream<TcpStream>, SocketAddr)>>,
}

impl TlsListener {
    pub(crate) fn new(tcp: TcpListener, acceptor: TlsAcceptor) -> TlsListener {
        TlsListener {
            tcp,
            acceptor,
            handshakes: JoinSet::new(),
        }
    }

    fn shake_hands(&mut self, stream: TcpStream, from: SocketAddr) {
        let handshake = self.acceptor.accept(stream);
        self.handshakes.spawn(async move {
            let stream = timeout(PATIENCE, handshake).await??;
            Ok((stream, from))
        });
    }
}

impl Listener for TlsListener {
    type Io = TlsStream<TcpStream>;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (Self::Io, Self::Addr) {
        loop {
            let has_room = self.handshakes.len() < HANDSHAKES;
            tokio::select! {
                Some(shaken) = self.handshakes.join_next() => {
                    if let Ok(Ok(connection)) = shaken {
                        return connection;
                    }
                }
                came = self.tcp.accept(), if has_room => match came {
                    Ok((stream, from)) => self.shake_hands(stream, from),
                    // No file descriptor is left. A descriptor may become free soon.
                    Err(_) => sleep(Duration::from_secs(1)).await,
                },
            }
        }
    }

    fn local_addr(&self) -> io::Result<Self::Addr> {
        self.tcp.local_addr()
    }
}
