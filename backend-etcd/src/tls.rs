//! The files of a TLS connection.

use etcd_client::{Certificate, Identity, TlsOptions};
use leasehold_api::Error;

use crate::options::{TlsFiles, bad};

/// Reads the files; nothing is sent.
pub(crate) fn read(files: &TlsFiles) -> Result<TlsOptions, Error> {
    let mut tls = TlsOptions::new();
    tls = match &files.roots {
        Some(path) => tls.ca_certificate(Certificate::from_pem(file("tls_ca", path)?)),
        None => tls.with_native_roots(),
    };
    if let (Some(certificate), Some(key)) = (&files.certificate, &files.key) {
        let (certificate, key) = (file("tls_cert", certificate)?, file("tls_key", key)?);
        tls = tls.identity(Identity::from_pem(certificate, key));
    }
    Ok(match &files.name {
        Some(name) => tls.domain_name(name),
        None => tls,
    })
}

fn file(key: &str, path: &str) -> Result<Vec<u8>, Error> {
    std::fs::read(path).or_else(|error| bad(format!("{key}={path} can't be read: {error}")))
}
