//! TLS: its files, and what is wrong where two ends do not agree on it.

use std::fs;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use etcd_client::{Certificate, Identity, TlsOptions};
use leasehold_api::Error;
use tokio::io::AsyncReadExt;
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::rustls::crypto::{CryptoProvider, ring};
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use tokio_rustls::rustls::{AlertDescription, ClientConfig, RootCertStore};
use tokio_rustls::{TlsConnector, rustls};

use crate::broken::Broken;
use crate::options::{Options, TlsFiles, bad};

/// What a server says that refuses the client's certificate, or that there is none.
const WANTS_CERTIFICATE: &[AlertDescription] = &[
    AlertDescription::AccessDenied,
    AlertDescription::BadCertificate,
    AlertDescription::CertificateExpired,
    AlertDescription::CertificateRequired,
    AlertDescription::CertificateRevoked,
    AlertDescription::CertificateUnknown,
    AlertDescription::UnknownCA,
    AlertDescription::UnsupportedCertificate,
];

/// For how long a complaint is awaited: it comes as soon as the server has read who we are.
const COMPLAINT: Duration = Duration::from_secs(1);

/// The files, read and checked, as the client library wants them and for handshakes of our own.
#[derive(Clone)]
pub(crate) struct Tls {
    pub(crate) options: TlsOptions,
    connector: TlsConnector,
    name: Option<ServerName<'static>>,
}

impl Tls {
    /// Reads the files; nothing is sent.
    pub(crate) fn new(options: &Options, files: &TlsFiles) -> Result<Self, Error> {
        let mut tls = TlsOptions::new();
        let roots = match &files.roots {
            Some(path) => {
                let text = read("tls_ca", path)?;
                let roots = certificates("tls_ca", path, &text)?;
                tls = tls.ca_certificate(Certificate::from_pem(text));
                roots
            }
            None => {
                tls = tls.with_native_roots();
                rustls_native_certs::load_native_certs().certs
            }
        };
        let mut store = RootCertStore::empty();
        if store.add_parsable_certificates(roots).0 == 0 {
            return bad("no trusted roots for TLS; name a PEM file of them with tls_ca");
        }
        let provider = CryptoProvider::get_default()
            .cloned()
            .unwrap_or_else(|| Arc::new(ring::default_provider()));
        let builder = match ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
        {
            Ok(builder) => builder.with_root_certificates(store),
            Err(error) => return bad(format!("the process's TLS provider: {error}")),
        };
        let mut config = match (&files.certificate, &files.key) {
            (Some(certificate), Some(key)) => {
                let (chain, secret) = (read("tls_cert", certificate)?, read("tls_key", key)?);
                tls = tls.identity(Identity::from_pem(&chain, &secret));
                let chain = certificates("tls_cert", certificate, &chain)?;
                let secret = PrivateKeyDer::from_pem_slice(&secret)
                    .or_else(|_| bad(format!("tls_key: no private key in PEM in {key:?}")))?;
                builder
                    .with_client_auth_cert(chain, secret)
                    .or_else(|error| bad(format!("tls_cert and tls_key: {error}")))?
            }
            _ => builder.with_no_client_auth(),
        };
        config.alpn_protocols.push(b"h2".to_vec());
        let name = match &files.name {
            Some(name) => {
                tls = tls.domain_name(name);
                Some(server_name("tls_name", name)?)
            }
            None => None,
        };
        if name.is_none() {
            for endpoint in &options.endpoints {
                server_name("the host", host(endpoint))?;
            }
        }
        Ok(Self { options: tls, connector: TlsConnector::from(Arc::new(config)), name })
    }

    /// What the server at this endpoint has against a handshake, if anything.
    ///
    /// In TLS 1.3 a client is through with it before the server looks at its certificate, and the
    /// client library's first request may end before its connection's task has read the alert.
    /// Nothing is sent here behind the handshake, so the alert is there to be read.
    pub(crate) async fn complaint(&self, endpoint: &str) -> Option<io::Error> {
        let name = match &self.name {
            Some(name) => name.clone(),
            None => ServerName::try_from(host(endpoint).to_owned()).ok()?,
        };
        let heard = async {
            let stream = TcpStream::connect(endpoint).await?;
            let mut stream = self.connector.connect(name, stream).await?;
            stream.read(&mut [0]).await
        };
        let error = timeout(COMPLAINT, heard).await.ok()?.err()?;
        of_io(&error).map(|_| error)
    }
}

/// What a handshake's error says, if it is one: that the peer took no part in it, or what rustls or
/// the peer has against it.
pub(crate) fn of_io(error: &io::Error) -> Option<Broken> {
    if let Some(error) = error.get_ref().and_then(|error| error.downcast_ref::<rustls::Error>()) {
        return Some(match error {
            rustls::Error::InvalidMessage(_) => Broken::OtherThanTls,
            rustls::Error::AlertReceived(alert) if WANTS_CERTIFICATE.contains(alert) => {
                Broken::Certificate
            }
            _ => Broken::Handshake,
        });
    }
    // The HTTP/2 library passes on what it read as text.
    let text = error.to_string();
    let is = |alert: &AlertDescription| text == rustls::Error::AlertReceived(*alert).to_string();
    WANTS_CERTIFICATE.iter().any(is).then_some(Broken::Certificate)
}

fn server_name(key: &str, name: &str) -> Result<ServerName<'static>, Error> {
    ServerName::try_from(name.to_owned())
        .or_else(|_| bad(format!("{key} {name:?} is neither a DNS name nor an address")))
}

/// The host of `host:port`, an IPv6 address without its brackets.
fn host(endpoint: &str) -> &str {
    let host = endpoint.rsplit_once(':').map_or(endpoint, |(host, _)| host);
    host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host)
}

fn certificates(key: &str, path: &str, text: &[u8]) -> Result<Vec<CertificateDer<'static>>, Error> {
    match CertificateDer::pem_slice_iter(text).collect::<Result<Vec<_>, _>>() {
        Ok(found) if !found.is_empty() => Ok(found),
        _ => bad(format!("{key}: no certificate in PEM in {path:?}")),
    }
}

fn read(key: &str, path: &str) -> Result<Vec<u8>, Error> {
    fs::read(path).or_else(|error| bad(format!("{key}: can't read {path:?}: {error}")))
}
