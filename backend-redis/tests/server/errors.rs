//! The table of errors, row by row, on real servers.

use std::time::Duration;

use leasehold_api::{Acquired, ErrorKind, Names, Renewal, Ticket, Token};
use leasehold_conformance::proxy::{Action, Direction, Framing, Match, Proxy};
use leasehold_conformance::servers::{Redis, Server};
use leasehold_conformance::truth::RedisTruth;
use leasehold_conformance::{Failure, Verdict, ensure};
use tokio::task::JoinHandle;

use crate::common::{claim, connect, fails, name, take};
use crate::fakes;

pub(crate) async fn wrong_credentials_are_auth() -> Verdict {
    let server = Redis::new().password("right").start().await?;
    let at = |user: &str| format!("redis://{user}@{}", server.addr());
    fails(connect(&at(""), "").await, ErrorKind::Auth, Some("NOAUTH"));
    fails(connect(&at(":wrong"), "").await, ErrorKind::Auth, Some("WRONGPASS"));
    fails(connect(&at("nobody:right"), "").await, ErrorKind::Auth, Some("WRONGPASS"));
    connect(&at(":right"), "").await?;
    let open = Redis::shared().await?;
    let url = format!("redis://:unasked@{}", open.addr());
    fails(connect(&url, "").await, ErrorKind::Auth, Some("WRONGPASS"));
    Ok(())
}

pub(crate) async fn f33_missing_permissions_are_auth() -> Verdict {
    let server = Redis::new().start().await?;
    let truth = RedisTruth::connect(server.url()).await?;
    let url = format!("redis://user:pw@{}", server.addr());
    let all = ["reset", "on", ">pw", "~*", "&*", "+@all"];
    let allow = async |rules: &[&str]| {
        let rules: Vec<_> = all.iter().chain(rules).copied().collect();
        truth.acl_set_user("user", &rules).await
    };
    allow(&["-@scripting"]).await?;
    fails(connect(&url, "").await, ErrorKind::Auth, Some("NOPERM"));
    allow(&[]).await?;
    let client = connect(&url, "").await?;
    let held = take(&*client, &claim("held")).await?;
    // Within a script too, by command and by key; and what is refused has no effect.
    for rules in [&["-set"][..], &["-time"], &["-get"], &["resetkeys", "~leasehold:*:token"]] {
        allow(rules).await?;
        fails(client.acquire(&claim("a")).await, ErrorKind::Auth, Some("NOPERM"));
        allow(&[]).await?;
        ensure!(client.inspect(&name("a")).await?.is_none(), "{rules:?}");
    }
    allow(&["-del"]).await?;
    fails(client.release(&held.ticket(), None).await, ErrorKind::Auth, Some("NOPERM"));
    fails(client.evict(&held.name, held.token).await, ErrorKind::Auth, Some("NOPERM"));
    allow(&["-pexpire"]).await?;
    fails(client.renew(&held).await, ErrorKind::Auth, Some("NOPERM"));
    allow(&["-set"]).await?;
    let next = claim("held");
    fails(client.hand_over(&held, &next, false).await, ErrorKind::Auth, Some("NOPERM"));
    let raised = client.raise_tokens(Names::All, Token::MAX).await;
    fails(raised, ErrorKind::Auth, Some("NOPERM"));
    allow(&["-scan"]).await?;
    let error = fails(client.list("").await, ErrorKind::Auth, Some("NOPERM")).to_string();
    ensure!(error.contains("list: ") && error.contains("(+scan)"), "{error}");
    allow(&["-get"]).await?;
    fails(client.fencing_token(&held.name).await, ErrorKind::Auth, Some("NOPERM"));
    allow(&[]).await?;
    ensure!(client.release(&held.ticket(), None).await?.outcome.is_ok(), "mine all the while");
    Ok(())
}

pub(crate) async fn f32_a_full_memory_is_refused_but_not_to_those_who_hold_or_wait() -> Verdict {
    let server = Redis::new().start().await?;
    let truth = RedisTruth::connect(server.url()).await?;
    let client = connect(server.url(), "").await?;
    let lease = take(&*client, &claim("held")).await?;
    let spare = take(&*client, &claim("spare")).await?;
    let full = async || truth.config_set("maxmemory", "1").await;
    full().await?;
    fails(client.acquire(&claim("a")).await, ErrorKind::Refused, Some("OOM"));
    let raised = client.raise_tokens(Names::One(&lease.name), Token::MAX).await;
    fails(raised, ErrorKind::Refused, Some("OOM"));
    let minute = Some(Duration::from_secs(60));
    // Who waits is told that it is held; who holds goes on, and may hand over and close.
    let held = client.acquire(&claim("held").with_queue(true)).await?;
    ensure!(matches!(held, Acquired::Held { .. }), "{held:?}");
    ensure!(matches!(client.renew(&lease).await?, Renewal::Renewed(_)), "renewed");
    ensure!(client.release(&spare.ticket(), minute).await?.outcome.is_ok(), "closed");
    let next = claim("held");
    client.hand_over(&lease, &next, false).await?;
    let lease = take(&*client, &next).await?;
    ensure!(client.release(&lease.ticket(), None).await?.outcome.is_ok(), "released");
    truth.config_set("maxmemory", "0").await?;
    ensure!(client.inspect(&name("a")).await?.is_none(), "nothing was half done");
    take(&*client, &claim("a")).await?;
    Ok(())
}

pub(crate) async fn f33_c42_a_server_that_can_not_save_is_refused() -> Verdict {
    let server = Redis::new().arg("--enable-protected-configs", "yes").start().await?;
    let truth = RedisTruth::connect(server.url()).await?;
    let client = connect(server.url(), "").await?;
    let lease = take(&*client, &claim("held")).await?;
    // No file can take the name of a directory.
    truth.config_set("dir", "/").await?;
    truth.config_set("dbfilename", "proc").await?;
    truth.command(&["BGSAVE"]).await?;
    loop {
        let info = format!("{:?}", truth.command(&["INFO", "persistence"]).await?);
        if info.contains("rdb_last_bgsave_status:err") {
            break;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    fails(client.acquire(&claim("a")).await, ErrorKind::Refused, Some("MISCONF"));
    fails(client.renew(&lease).await, ErrorKind::Refused, Some("MISCONF"));
    fails(client.release(&lease.ticket(), None).await, ErrorKind::Refused, Some("MISCONF"));
    ensure!(client.inspect(&name("a")).await?.is_none(), "nothing was half done");
    truth.config_set("stop-writes-on-bgsave-error", "no").await?;
    ensure!(client.release(&lease.ticket(), None).await?.outcome.is_ok(), "released");
    Ok(())
}

pub(crate) async fn f33_c42_too_few_replicas_are_refused() -> Verdict {
    let server = Redis::new().start().await?;
    let truth = RedisTruth::connect(server.url()).await?;
    let client = connect(server.url(), "").await?;
    let lease = take(&*client, &claim("held")).await?;
    truth.config_set("min-replicas-to-write", "1").await?;
    fails(client.acquire(&claim("a")).await, ErrorKind::Refused, Some("NOREPLICAS"));
    fails(client.renew(&lease).await, ErrorKind::Refused, Some("NOREPLICAS"));
    fails(client.release(&lease.ticket(), None).await, ErrorKind::Refused, Some("NOREPLICAS"));
    ensure!(client.inspect(&name("a")).await?.is_none(), "nothing was half done");
    truth.config_set("min-replicas-to-write", "0").await?;
    ensure!(client.release(&lease.ticket(), None).await?.outcome.is_ok(), "released");
    Ok(())
}

pub(crate) async fn f30_a_demoted_server_is_not_the_primary() -> Verdict {
    let server = Redis::new().controlled().start().await?;
    let truth = RedisTruth::connect(server.url()).await?;
    let client = connect(server.url(), "").await?;
    let lease = take(&*client, &claim("held")).await?;
    let gone = take(&*client, &claim("gone")).await?;
    client.release(&gone.ticket(), None).await?;
    let before = truth.clients().await?;
    truth.command(&["REPLICAOF", "127.0.0.1", "1"]).await?;
    let readonly = Some("READONLY");
    let kind = ErrorKind::NotPrimary;
    fails(client.acquire(&claim("a")).await, kind, readonly);
    // What it says of what it has is no answer either.
    fails(client.acquire(&claim("held")).await, kind, readonly);
    fails(client.acquire(&claim("held").with_queue(true)).await, kind, readonly);
    fails(client.renew(&lease).await, kind, readonly);
    fails(client.renew(&gone).await, kind, readonly);
    fails(client.release(&lease.ticket(), None).await, kind, readonly);
    fails(client.release(&gone.ticket(), None).await, kind, readonly);
    let stranger = Ticket::by_owner(lease.name.clone(), claim("held").owner);
    fails(client.release(&stranger, None).await, kind, readonly);
    fails(client.hand_over(&lease, &claim("held"), true).await, kind, readonly);
    fails(client.hand_over(&gone, &claim("gone"), false).await, kind, readonly);
    fails(client.fencing_token(&lease.name).await, kind, readonly);
    fails(client.raise_tokens(Names::All, Token::MAX).await, kind, readonly);
    fails(client.evict(&lease.name, lease.token).await, kind, readonly);
    fails(client.evict(&gone.name, gone.token).await, kind, readonly);
    let ours = |clients: &[leasehold_conformance::truth::ClientInfo]| {
        clients.iter().filter(|c| c.name() == "leasehold").map(|c| c.id()).max()
    };
    let after = truth.clients().await?;
    ensure!(ours(&after) > ours(&before), "the connection was not replaced");
    truth.command(&["REPLICAOF", "NO", "ONE"]).await?;
    ensure!(client.release(&lease.ticket(), None).await?.outcome.is_ok(), "mine all the while");
    Ok(())
}

pub(crate) async fn a_replica_without_its_primary_is_not_the_primary() -> Verdict {
    let server = Redis::new().controlled().start().await?;
    let truth = RedisTruth::connect(server.url()).await?;
    let client = connect(server.url(), "").await?;
    truth.config_set("replica-serve-stale-data", "no").await?;
    truth.command(&["REPLICAOF", "127.0.0.1", "1"]).await?;
    let code = Some("MASTERDOWN");
    fails(client.acquire(&claim("a")).await, ErrorKind::NotPrimary, code);
    fails(client.fencing_token(&name("a")).await, ErrorKind::NotPrimary, code);
    Ok(())
}

pub(crate) async fn f31_a_busy_server_is_busy() -> Verdict {
    let server = Redis::new().start().await?;
    let truth = RedisTruth::connect(server.url()).await?;
    let client = connect(server.url(), "").await?;
    let lease = take(&*client, &claim("held")).await?;
    let busy = truth.busy().await?;
    fails(client.acquire(&claim("a")).await, ErrorKind::Busy, Some("BUSY"));
    fails(client.renew(&lease).await, ErrorKind::Busy, Some("BUSY"));
    let late = connect(server.url(), "connect_timeout=2s").await;
    fails(late, ErrorKind::Busy, Some("BUSY"));
    busy.end(&truth).await?;
    ensure!(client.release(&lease.ticket(), None).await?.outcome.is_ok(), "released");
    Ok(())
}

/// Makes the server load what it has, for two seconds or three.
pub(crate) async fn load_slowly(
    server: &Server,
    truth: &RedisTruth,
) -> Result<JoinHandle<()>, Failure> {
    truth.config_set("key-load-delay", "0").await?;
    for key in 0..4000 {
        truth.set(format!("filler-{key}"), "x".repeat(100), None).await?;
    }
    truth.config_set("loading-process-events-interval-bytes", "1024").await?;
    truth.config_set("key-load-delay", "500").await?;
    let other = RedisTruth::connect(server.url()).await?;
    let loading = tokio::spawn(async move {
        other.command(&["DEBUG", "RELOAD"]).await.unwrap();
    });
    loop {
        match truth.command(&["GET", "filler-0"]).await {
            Err(error) if error.code() == Some("LOADING") => return Ok(loading),
            _ => tokio::time::sleep(Duration::from_millis(1)).await,
        }
    }
}

pub(crate) async fn f33_a_loading_server_is_busy() -> Verdict {
    let server = Redis::new().controlled().start().await?;
    let truth = RedisTruth::connect(server.url()).await?;
    let client = connect(server.url(), "").await?;
    let loading = load_slowly(&server, &truth).await?;
    fails(client.acquire(&claim("a")).await, ErrorKind::Busy, Some("LOADING"));
    let late = connect(server.url(), "connect_timeout=1s").await;
    fails(late, ErrorKind::Busy, Some("LOADING"));
    loading.await.unwrap();
    take(&*client, &claim("a")).await?;
    Ok(())
}

pub(crate) async fn a_full_house_is_busy() -> Verdict {
    let server = Redis::new().start().await?;
    let truth = RedisTruth::connect(server.url()).await?;
    truth.config_set("maxclients", "1").await?;
    loop {
        // It says so and closes at once; the close may overtake what it said.
        let error = connect(server.url(), "connect_timeout=50ms").await.unwrap_err();
        match error.kind() {
            ErrorKind::Busy => return Ok(()),
            kind => ensure!(kind == ErrorKind::Unreachable, "{error}"),
        }
    }
}

pub(crate) async fn a_database_that_is_not_there_is_refused() -> Verdict {
    let server = Redis::shared().await?;
    let url = format!("{}/9999", server.url().trim_end_matches('/'));
    let error = fails(connect(&url, "").await, ErrorKind::Refused, Some("ERR"));
    let said = std::error::Error::source(&error).unwrap().to_string();
    ensure!(said.contains("out of range"), "the server's own words are kept: {said}");
    Ok(())
}

pub(crate) async fn foreign_counters_and_used_up_tokens_are_refused() -> Verdict {
    let server = Redis::new().start().await?;
    let truth = RedisTruth::connect(server.url()).await?;
    let client = connect(server.url(), "").await?;
    let lease = take(&*client, &claim("a")).await?;
    client.release(&lease.ticket(), None).await?;
    let counter = truth.keys("").await?.into_keys().find(|key| key.ends_with(b":token")).unwrap();
    for (value, code) in [
        ("x", "FOREIGN"),
        ("9007199254740991", "EXHAUSTED"),
        ("inf", "EXHAUSTED"),
        ("nan", "EXHAUSTED"),
    ] {
        truth.set(&counter, value, None).await?;
        fails(client.acquire(&claim("a")).await, ErrorKind::Refused, Some(code));
        ensure!(client.inspect(&lease.name).await?.is_none(), "{value}: nothing was granted");
    }
    truth.delete(&counter).await?;
    let counter = String::from_utf8(counter).unwrap();
    truth.command(&["RPUSH", &counter, "x"]).await?;
    fails(client.acquire(&claim("a")).await, ErrorKind::Refused, Some("WRONGTYPE"));
    Ok(())
}

pub(crate) async fn a_lost_answer_is_indeterminate_where_something_may_have_changed() -> Verdict {
    let server = Redis::shared().await?;
    let proxy = Proxy::start(server.addr(), Framing::Resp).await?;
    let client = connect(&proxy.url(server.url()), "prefix=lost").await?;
    let lose = || proxy.on(Direction::ToClient, Match::command("EVALSHA"), Action::Cut);
    let claims = [claim("a"), claim("b")];
    let lost = ErrorKind::Indeterminate;
    lose();
    fails(client.acquire(&claims[0]).await, lost, None);
    let lease = take(&*client, &claims[0]).await?;
    lose();
    fails(client.renew(&lease).await, lost, None);
    lose();
    fails(client.raise_tokens(Names::One(&lease.name), lease.token).await, lost, None);
    lose();
    fails(client.hand_over(&lease, &claim("a"), false).await, lost, None);
    let lease = take(&*client, &claims[1]).await?;
    lose();
    fails(client.evict(&lease.name, lease.token).await, lost, None);
    lose();
    fails(client.release(&lease.ticket(), None).await, lost, None);
    lose();
    fails(client.fencing_token(&lease.name).await, ErrorKind::Unreachable, None);
    lose();
    fails(client.inspect(&lease.name).await, ErrorKind::Unreachable, None);
    Ok(())
}

pub(crate) async fn what_is_no_redis_is_unreachable() {
    for says in [&b"HTTP/1.1 400 Bad Request\r\n\r\n"[..], b"", b"\x16\x03\x01\r\n"] {
        let url = format!("redis://{}", fakes::answering(says).await);
        let error = connect(&url, "connect_timeout=200ms").await;
        let error = fails(error, ErrorKind::Unreachable, None).to_string();
        assert!(error.contains("TLS (rediss://)"), "{error}");
        assert_eq!(error.contains("does not answer as Redis does"), !says.is_empty(), "{error}");
    }
    let url = format!("redis://{}", fakes::answering(b"-NEWCODE of a later version\r\n").await);
    fails(connect(&url, "").await, ErrorKind::Unclassified, Some("NEWCODE"));
    let url = format!("redis://{}", fakes::answering(b"-DENIED protected mode\r\n").await);
    fails(connect(&url, "").await, ErrorKind::Auth, Some("DENIED"));
}
