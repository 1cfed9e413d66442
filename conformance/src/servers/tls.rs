//! Certificates for servers that are tested over TLS.

use std::path::{Path, PathBuf};

#[cfg(feature = "tls")]
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair};
use url::Url;

pub(super) const CA: &str = "ca.crt";
pub(super) const CERTIFICATE: &str = "server.crt";
pub(super) const KEY: &str = "server.key";

/// How to reach a server's TLS port.
#[derive(Clone, Debug)]
pub struct Tls {
    /// The TLS port on 127.0.0.1.
    pub port: u16,
    /// The server's URL with the TLS scheme and port; the host is `localhost`.
    pub url: String,
    /// The authority that signed the server's certificate, as PEM: what a client has to trust. It
    /// is in no system's store, so a client that is not told of it must refuse to connect.
    pub ca_pem: String,
    /// The same in a file that lives as long as the server.
    pub ca_file: PathBuf,
}

/// An authority, and a certificate of its for `localhost` and 127.0.0.1; all as PEM.
#[derive(Clone, Debug)]
pub(super) struct Certificates {
    pub(super) ca: String,
    certificate: String,
    key: String,
}

#[cfg(feature = "tls")]
impl Certificates {
    pub(super) fn generate() -> Self {
        // Fixed parameters: what could fail is the system's random numbers.
        Self::try_generate().expect("certificates are made from constants")
    }

    fn try_generate() -> Result<Self, rcgen::Error> {
        let mut authority = CertificateParams::new(Vec::new())?;
        authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        authority.distinguished_name.push(DnType::CommonName, "leasehold test authority");
        let authority = CertifiedIssuer::self_signed(authority, KeyPair::generate()?)?;

        let key = KeyPair::generate()?;
        let names = vec!["localhost".to_owned(), "127.0.0.1".to_owned()];
        let mut server = CertificateParams::new(names)?;
        server.distinguished_name.push(DnType::CommonName, "leasehold test server");
        let certificate = server.signed_by(&key, &authority)?;
        Ok(Self { ca: authority.pem(), certificate: certificate.pem(), key: key.serialize_pem() })
    }
}

impl Certificates {
    /// The files' names and contents.
    pub(super) fn files(&self) -> [(&'static str, &str); 3] {
        [(CA, &self.ca), (CERTIFICATE, &self.certificate), (KEY, &self.key)]
    }

    /// How to reach the server at `plain` (its URL without TLS) by its TLS port.
    pub(super) fn reach(&self, port: u16, plain: &str, directory: &Path) -> Tls {
        let mut url = Url::parse(plain).expect("a recipe makes URLs");
        let secure = format!("{}s", url.scheme());
        url.set_scheme(&secure).expect("neither scheme is special");
        url.set_host(Some("localhost")).expect("it is a host");
        url.set_port(Some(port)).expect("the URL has a host");
        Tls { port, url: url.to_string(), ca_pem: self.ca.clone(), ca_file: directory.join(CA) }
    }
}
