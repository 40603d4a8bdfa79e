//! `vmnoise dump`: requests the last minutes from a running `vmnoise serve`, and writes them into a
//! file.

use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail, ensure};
use axum::body::{Body, Bytes};
use axum::http::header::{AUTHORIZATION, HOST};
use axum::http::uri::Scheme;
use axum::http::{Request, Uri};
use http_body_util::{BodyExt, Limited};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::time::timeout;
use vmnoise_export::{Readers, WholeFile};
use vmnoise_serve_arguments::{DumpArguments, parse_stretch_ns};

use crate::{dump_route, exits_route, tls, token};

/// Longest time for an answer. The time that is still to be recorded comes on top.
const PATIENCE: Duration = Duration::from_secs(60);
/// Largest answer, in bytes. A recording is about as large as the history from which it is made.
const MOST: usize = 1 << 30;

/// Requests a dump, and writes the answer into a file.
///
/// # Errors
/// If there is no answer, the request is refused, or the file cannot be written.
pub(crate) fn run(arguments: &DumpArguments) -> Result<()> {
    let path = arguments.output.clone().unwrap_or_else(default_path);
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("preparing the request")?;
    let exits = arguments.exits.as_deref();
    let length_ns = exits.map_or(Ok(0), parse_stretch_ns);
    let length = Duration::from_nanos(length_ns.map_err(|why| anyhow!("--exits: {why}"))?);
    let patience = PATIENCE + length;
    let asked = runtime.block_on(async { timeout(patience, ask(arguments)).await });
    let recording =
        asked.map_err(|_| anyhow!("{} has not answered in {patience:?}", arguments.from))??;
    write(&path, &recording)?;
    let path = path.display();
    println!("wrote {path}: to see it, run `vmnoise report {path}` or `vmnoise explain {path}`");
    Ok(())
}

fn default_path() -> PathBuf {
    let now = jiff::Timestamp::now();
    format!("dump-{}.vmn", now.strftime("%Y%m%dT%H%M%SZ")).into()
}

/// Writes the file. Only its owner may read it, because it names every task. If writing fails, no
/// file appears.
fn write(path: &Path, recording: &[u8]) -> Result<()> {
    let name = path.display();
    let mut file =
        WholeFile::create(path, Readers::Owner).with_context(|| format!("creating {name}"))?;
    file.write_all(recording)
        .and_then(|()| file.finish())
        .with_context(|| format!("writing {name}"))
}

async fn ask(arguments: &DumpArguments) -> Result<Bytes> {
    let from = &arguments.from;
    let uri: Uri = from.parse().with_context(|| {
        format!("`{from}` is not a URL: write http://127.0.0.1:9752, for example")
    })?;
    let host = uri
        .host()
        .with_context(|| format!("`{from}` names no host"))?;
    let is_https = uri.scheme() == Some(&Scheme::HTTPS);
    let port = uri.port_u16().unwrap_or(if is_https { 443 } else { 80 });
    let tcp = TcpStream::connect((host.trim_matches(['[', ']']), port)).await;
    let tcp = tcp.map_err(|error| match error.kind() {
        ErrorKind::ConnectionRefused => {
            anyhow!("no process listens on {from}: is `vmnoise serve` running?")
        }
        _ => anyhow!(error).context(format!("connecting to {from}")),
    })?;
    let request = request(arguments, &uri)?;
    if is_https {
        let authority = arguments.tls_ca.as_deref().context(
            "https needs --tls-ca FILE: a CA certificate (PEM) that verifies `vmnoise serve`",
        )?;
        let stream = tls::connect(tcp, host, authority).await?;
        exchange(stream, request).await
    } else {
        ensure!(
            arguments.token_file.is_none() || is_loopback(&tcp),
            "the token would be sent unencrypted to {from}: use https"
        );
        exchange(tcp, request).await
    }
}

fn is_loopback(tcp: &TcpStream) -> bool {
    tcp.peer_addr().is_ok_and(|peer| peer.ip().is_loopback())
}

fn request(arguments: &DumpArguments, uri: &Uri) -> Result<Request<Body>> {
    let (path, query) = match (&arguments.exits, &arguments.vm) {
        (Some(length), Some(vm)) => {
            let question = exits_route::Question {
                vm: vm.clone(),
                length: length.clone(),
            };
            (exits_route::PATH, serde_urlencoded::to_string(&question))
        }
        (_, vm) => {
            let question = dump_route::Question {
                last: arguments.last.clone(),
                vm: vm.clone(),
            };
            (dump_route::PATH, serde_urlencoded::to_string(&question))
        }
    };
    let query = query.context("writing the request")?;
    let authority = uri.authority().context("the address has no host")?;
    let mut request = Request::post(format!("{path}?{query}")).header(HOST, authority.as_str());
    if let Some(file) = &arguments.token_file {
        let token = token::secret(file)?;
        request = request.header(AUTHORIZATION, format!("Bearer {token}"));
    }
    request.body(Body::empty()).context("writing the request")
}

async fn exchange<T>(stream: T, request: Request<Body>) -> Result<Bytes>
where
    T: AsyncRead + AsyncWrite + Send + Unpin + 'static,
{
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
    tokio::spawn(connection);
    let response = sender
        .send_request(request)
        .await
        .context("sending the request")?;
    let status = response.status();
    let body = Limited::new(response.into_body(), MOST).collect().await;
    let body = body
        .map_err(|error| anyhow!(error))
        .context("reading the answer")?;
    let body = body.to_bytes();
    if !status.is_success() {
        let why = String::from_utf8_lossy(&body);
        bail!("`vmnoise serve` refuses ({status}): {}", why.trim());
    }
    Ok(body)
}
