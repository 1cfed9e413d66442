//! TLS: whom a client trusts, who a server wants it to be, and a wrong guess about it.

use std::sync::Arc;
use std::time::{Duration, Instant};

use leasehold::Locks;
use leasehold_api::{
    Acquired, Backend, Claim, Error, ErrorKind, Lease, LockName, Loss, Owner, Ttl,
};
use leasehold_conformance::servers::{Etcd, Server, Tls};
use leasehold_conformance::truth::{EtcdKeys, EtcdTruth};
use leasehold_conformance::{Failure, Verdict, ensure};
use tokio::time::timeout;
use url::Url;

use crate::common::subject::quick;

/// Far longer than anything takes here.
const LONG: Duration = Duration::from_secs(10);

async fn connect(url: &str, query: &str) -> Result<Arc<dyn Backend>, Error> {
    leasehold_etcd::connect(&Url::parse(&format!("{url}?{query}")).unwrap()).await
}

fn tls(server: &Server) -> (&Tls, String) {
    let tls = server.tls().unwrap();
    (tls, format!("tls_ca={}", tls.ca_file.display()))
}

/// Any certificate of that authority will do; the server's own lies beside it.
fn identity(tls: &Tls) -> String {
    let beside = |name| tls.ca_file.with_file_name(name).display().to_string();
    format!("tls_cert={}&tls_key={}", beside("server.crt"), beside("server.key"))
}

fn claim(name: &str) -> Claim {
    let ttl = Ttl::new(Duration::from_secs(2)).unwrap();
    Claim::new(LockName::new(name).unwrap(), Owner::random(), ttl)
}

async fn take(client: &dyn Backend, claim: &Claim) -> Result<Lease, Failure> {
    match client.acquire(claim).await? {
        Acquired::Granted(grant) => {
            Ok(Lease::new(claim.name.clone(), claim.owner, grant.token, claim.ttl))
        }
        held => Err(Failure::failed(format!("{held:?}"))),
    }
}

/// Refused with this kind, at once though trying may take long.
async fn refused(url: &str, query: &str, kind: ErrorKind) -> Result<Error, Failure> {
    let begun = Instant::now();
    let connected = connect(url, &format!("{query}&connect_timeout=60s")).await;
    let error = connected.err().ok_or_else(|| Failure::failed(format!("{query}: connected")))?;
    ensure!(error.kind() == kind, "{query}: {error:?}");
    ensure!(begun.elapsed() < LONG, "it does not get better by waiting: {:?}", begun.elapsed());
    Ok(error)
}

pub(crate) async fn a_lock_lives_over_tls_as_without() -> Verdict {
    let server = quick().tls().root_password("pw").start().await?;
    let (tls, trust) = tls(&server);
    let client = connect(&tls.url, &trust).await?;
    // A message wakes who waits.
    let lease = take(&*client, &claim("a")).await?;
    let waiter = claim("a").with_queue(true);
    client.acquire(&waiter).await?;
    client.release(&lease.ticket(), None).await?;
    timeout(LONG, client.wake(&waiter)).await?;
    let lease = take(&*client, &waiter).await?;
    client.release(&lease.ticket(), None).await?;
    // Keepalives carry a lock past its TTL, and a watch tells of its end.
    let locks = Locks::with_backend(client);
    let ttl = claim("a").ttl.get();
    let guard = locks.lock("a")?.ttl(ttl).acquire().await?;
    let past = tokio::time::sleep(ttl + ttl / 10);
    tokio::select! {
        loss = guard.lost() => return Err(Failure::failed(format!("not renewed: {loss:?}"))),
        () = past => {}
    }
    let truth = EtcdTruth::connect(server.url()).await?;
    let claims = truth.claims(&EtcdKeys::default(), guard.name()).await?;
    truth.delete(&claims[0].key).await?;
    let loss = timeout(LONG, guard.lost()).await?;
    ensure!(loss == Loss::Gone, "{loss:?}");
    Ok(())
}

pub(crate) async fn tls_trusts_the_named_authority_and_no_other() -> Verdict {
    let (server, other) = (quick().tls().start().await?, quick().tls().start().await?);
    let ((tls, trust), (_, others)) = (self::tls(&server), self::tls(&other));
    for query in ["", &others] {
        let error = refused(&tls.url, query, ErrorKind::Auth).await?;
        let source = std::error::Error::source(&error).unwrap().to_string();
        ensure!(source.contains("certificate"), "{source}");
    }
    // It says for whom it is.
    let by_another_name = tls.url.replace("localhost", "[::ffff:127.0.0.1]");
    refused(&by_another_name, &trust, ErrorKind::Auth).await?;
    connect(&by_another_name, &format!("{trust}&tls_name=localhost")).await?;
    refused(&tls.url, &format!("{trust}&tls_name=other"), ErrorKind::Auth).await?;
    Ok(())
}

pub(crate) async fn tls_client_certificates_are_shown() -> Verdict {
    let (server, other) = (quick().tls_with_certificates(), quick().tls());
    let (server, other) = (server.start().await?, other.start().await?);
    let ((tls, trust), (others, _)) = (self::tls(&server), self::tls(&other));
    // The client hears of it after the handshake, and not always in the answer to its request.
    for _ in 0..5 {
        let error = refused(&tls.url, &trust, ErrorKind::Auth).await?.to_string();
        ensure!(error.contains("wants a certificate"), "{error}");
    }
    let theirs = format!("{trust}&{}", identity(others));
    refused(&tls.url, &theirs, ErrorKind::Auth).await?;
    let client = connect(&tls.url, &format!("{trust}&{}", identity(tls))).await?;
    let lease = take(&*client, &claim("a")).await?;
    client.release(&lease.ticket(), None).await?;
    Ok(())
}

pub(crate) async fn a_wrong_guess_about_tls_is_told() -> Verdict {
    let server = Etcd::new().tls().start().await?;
    let (tls, trust) = tls(&server);
    let plain = tls.url.replace("etcds", "etcd");
    let error = connect(&plain, "connect_timeout=2s").await.unwrap_err();
    // As over Redis: it ends the connection, as one does that restarts.
    ensure!(error.kind() == ErrorKind::Unreachable, "{error:?}");
    ensure!(error.to_string().contains("TLS (etcds://)"), "{error}");
    let secure = server.url().replace("etcd:", "etcds:");
    let error = connect(&secure, &format!("{trust}&connect_timeout=2s")).await.unwrap_err();
    ensure!(error.kind() == ErrorKind::Unreachable, "{error:?}");
    ensure!(error.to_string().contains("etcd:// is without TLS"), "{error}");
    Ok(())
}

pub(crate) async fn what_speaks_no_tls_is_left_at_once() -> Verdict {
    let peer = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
    let url = format!("etcds://{}", peer.local_addr()?);
    let server = quick().tls().start().await?;
    let talks = async {
        loop {
            let (mut stream, _) = peer.accept().await.unwrap();
            tokio::io::AsyncWriteExt::write_all(&mut stream, b"220 mail.example\r\n")
                .await
                .unwrap();
        }
    };
    let trust = tls(&server).1;
    tokio::select! {
        error = refused(&url, &trust, ErrorKind::Unsupported) => drop(error?),
        () = talks => {}
    }
    Ok(())
}

pub(crate) async fn files_and_names_that_are_none_end_before_any_traffic() -> Verdict {
    let server = quick().tls().start().await?;
    let (tls, trust) = tls(&server);
    let own = tls.ca_file.with_file_name("server.crt").display().to_string();
    for query in [
        "tls_ca=/nowhere",
        "tls_ca=/dev/null",
        &format!("{trust}&tls_cert={own}"),
        &format!("{trust}&tls_cert={own}&tls_key={own}"),
        &format!("{trust}&tls_cert=/dev/null&tls_key=/dev/null"),
        &format!("{trust}&tls_name=a%20b"),
    ] {
        refused("etcds://127.0.0.1:1", query, ErrorKind::BadInput).await?;
    }
    Ok(())
}
