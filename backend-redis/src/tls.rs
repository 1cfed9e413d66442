//! TLS by rustls, over a stream of our own.
//!
//! The cryptography is the application's where it has installed one for its process, else *ring*:
//! so nothing has to be installed first, and nothing is installed for others.

use std::error::Error as _;
use std::fs;
use std::io;
use std::sync::Arc;

use leasehold_api::Error;
use redis::RedisError;
use tokio_rustls::rustls::crypto::{CryptoProvider, ring};
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use tokio_rustls::rustls::{AlertDescription, ClientConfig, RootCertStore};
use tokio_rustls::{TlsConnector, rustls};

use crate::opening::Step;
use crate::options::{TlsFiles, bad};

/// What a TLS handshake needs.
#[derive(Clone)]
pub(crate) struct Tls {
    pub(crate) connector: TlsConnector,
    pub(crate) name: ServerName<'static>,
}

impl Tls {
    /// Reads the files; nothing is sent.
    pub(crate) fn new(host: &str, files: &TlsFiles) -> Result<Self, Error> {
        let Ok(name) = ServerName::try_from(host.to_owned()) else {
            return bad(format!("the host {host:?} is neither a DNS name nor an address"));
        };
        let provider = CryptoProvider::get_default()
            .cloned()
            .unwrap_or_else(|| Arc::new(ring::default_provider()));
        let builder = match ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
        {
            Ok(builder) => builder.with_root_certificates(roots(files.roots.as_deref())?),
            Err(error) => return bad(format!("the process's TLS provider: {error}")),
        };
        let config = match (&files.certificate, &files.key) {
            (Some(certificate), Some(key)) => {
                let chain = certificates("tls_cert", certificate)?;
                let key = PrivateKeyDer::from_pem_slice(&read("tls_key", key)?)
                    .or_else(|_| bad("tls_key: no private key in PEM in this file"))?;
                builder
                    .with_client_auth_cert(chain, key)
                    .or_else(|error| bad(format!("tls_cert and tls_key: {error}")))?
            }
            _ => builder.with_no_client_auth(),
        };
        Ok(Self { connector: TlsConnector::from(Arc::new(config)), name })
    }
}

/// What a handshake's error says: that the peer took no part in it, or what rustls has against it.
pub(crate) fn step(error: &io::Error) -> Step {
    let of_tls = error.get_ref().and_then(|error| error.downcast_ref::<rustls::Error>());
    match of_tls {
        None => Step::NoTls,
        Some(rustls::Error::InvalidMessage(_)) => Step::OtherThanTls,
        Some(_) => Step::Handshake,
    }
}

/// Whether the server refused the client's certificate, or that there is none.
pub(crate) fn wants_certificate(error: &RedisError) -> bool {
    use AlertDescription::{
        AccessDenied, BadCertificate, CertificateExpired, CertificateRequired, CertificateRevoked,
        CertificateUnknown, UnknownCA, UnsupportedCertificate,
    };
    // The client library shares what it was given.
    let shared = error
        .source()
        .and_then(|source| source.downcast_ref::<Arc<dyn std::error::Error + Send + Sync>>());
    let of_tls = shared.and_then(|error| error.downcast_ref::<io::Error>());
    let of_tls = of_tls.and_then(|error| error.get_ref()?.downcast_ref::<rustls::Error>());
    matches!(
        of_tls,
        Some(rustls::Error::AlertReceived(
            AccessDenied
                | BadCertificate
                | CertificateExpired
                | CertificateRequired
                | CertificateRevoked
                | CertificateUnknown
                | UnknownCA
                | UnsupportedCertificate
        ))
    )
}

fn roots(file: Option<&str>) -> Result<RootCertStore, Error> {
    let found = match file {
        Some(path) => certificates("tls_ca", path)?,
        None => rustls_native_certs::load_native_certs().certs,
    };
    let mut roots = RootCertStore::empty();
    let (added, _) = roots.add_parsable_certificates(found);
    if added == 0 {
        return bad("no trusted roots for TLS; name a PEM file of them with tls_ca");
    }
    Ok(roots)
}

fn certificates(key: &str, path: &str) -> Result<Vec<CertificateDer<'static>>, Error> {
    let text = read(key, path)?;
    match CertificateDer::pem_slice_iter(&text).collect::<Result<Vec<_>, _>>() {
        Ok(found) if !found.is_empty() => Ok(found),
        _ => bad(format!("{key}: no certificate in PEM in {path:?}")),
    }
}

fn read(key: &str, path: &str) -> Result<Vec<u8>, Error> {
    fs::read(path).or_else(|error| bad(format!("{key}: can't read {path:?}: {error}")))
}
