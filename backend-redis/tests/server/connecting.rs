//! Connecting, and connecting again.

use std::time::{Duration, Instant};

use leasehold_api::{Acquired, Backend, ErrorKind, Renewal};
use leasehold_conformance::proxy::{Action, Direction, Framing, Proxy};
use leasehold_conformance::servers::Redis;
use leasehold_conformance::truth::RedisTruth;
use leasehold_conformance::{Verdict, ensure};
use leasehold_redis::{Options, Redis as Driver};

use crate::common::{claim, connect, fails, take};
use crate::fakes;

pub(crate) async fn an_unreachable_server_is_tried_until_the_connect_timeout() {
    let address = fakes::closed().await;
    let start = Instant::now();
    let url = format!("redis://:hunter2@{address}");
    let error = connect(&url, "connect_timeout=300ms").await;
    let error = fails(error, ErrorKind::Unreachable, None);
    let says = format!("redis: connect: the server at {address} can't be reached");
    assert_eq!(error.to_string(), says, "it names host and port, and no password");
    let took = start.elapsed();
    assert!(took > Duration::from_millis(100) && took < Duration::from_secs(3), "{took:?}");
    let error = connect("redis://no-such-host.invalid", "connect_timeout=300ms").await;
    fails(error, ErrorKind::Unreachable, None);
}

/// Its system still takes connections: that we give up is not its doing.
pub(crate) async fn a_frozen_server_is_told_from_one_that_ends_the_connection() -> Verdict {
    let server = Redis::new().controlled().start().await?;
    server.pause().await?;
    let error = connect(server.url(), "timeout=200ms&connect_timeout=1s").await;
    server.resume().await?;
    let error = fails(error, ErrorKind::Unreachable, None).to_string();
    ensure!(error.ends_with("took the connection, but did not answer within 200ms"), "{error}");
    Ok(())
}

pub(crate) async fn f24_a_server_that_comes_up_in_time_is_connected_to() -> Verdict {
    let server = Redis::new().controlled().start().await?;
    server.stop().await?;
    let url = server.url();
    let connecting = connect(url, "");
    let (client, started) = tokio::join!(connecting, server.start());
    started?;
    take(&*client?, &claim("a")).await?;
    Ok(())
}

pub(crate) async fn a_loading_server_is_waited_for() -> Verdict {
    let server = Redis::new().controlled().start().await?;
    let truth = RedisTruth::connect(server.url()).await?;
    let loading = crate::errors::load_slowly(&server, &truth).await?;
    let client = connect(server.url(), "").await?;
    take(&*client, &claim("a")).await?;
    loading.await.unwrap();
    Ok(())
}

pub(crate) async fn bad_input_ends_before_any_traffic() -> Verdict {
    let server = Redis::shared().await?;
    let proxy = Proxy::start(server.addr(), Framing::Resp).await?;
    let url = proxy.url(server.url());
    for query in ["nonsense=1", "timeout=1", "prefix=", "prefix={", "tls_ca=/nowhere"] {
        fails(connect(&url, query).await, ErrorKind::BadInput, None);
    }
    fails(connect(&format!("{url}/x"), "").await, ErrorKind::BadInput, None);
    let secure = url.replace("redis:", "rediss:");
    for query in ["tls_ca=/nowhere", "tls_ca=/dev/null", "tls_cert=/dev/null"] {
        fails(connect(&secure, query).await, ErrorKind::BadInput, None);
    }
    ensure!(proxy.counts().accepted == 0, "{:?}", proxy.counts());

    let client = connect(&url, "").await?;
    let sent = proxy.counts().to_server.messages;
    let mut short = claim("a");
    short.ttl = crate::common::ttl(9);
    fails(client.acquire(&short).await, ErrorKind::BadInput, None);
    let lease = take(&*client, &claim("b")).await?;
    let ticket = lease.ticket();
    let sent = proxy.counts().to_server.messages - sent;
    ensure!(sent == 1, "{sent} messages were sent");
    let year = Some(Duration::from_secs(365 * 24 * 3600));
    fails(client.release(&ticket, year).await, ErrorKind::BadInput, None);
    fails(client.hand_over(&lease, &short, false).await, ErrorKind::BadInput, None);
    fails(client.hand_over(&lease, &claim("other"), false).await, ErrorKind::BadInput, None);
    ensure!(matches!(client.renew(&lease).await?, Renewal::Renewed(_)), "nothing was released");
    Ok(())
}

pub(crate) async fn replicas_and_clusters_are_refused() -> Verdict {
    let server = Redis::new().controlled().start().await?;
    let truth = RedisTruth::connect(server.url()).await?;
    truth.command(&["REPLICAOF", "127.0.0.1", "1"]).await?;
    fails(connect(server.url(), "").await, ErrorKind::NotPrimary, None);
    let cluster = Redis::new().arg("--cluster-enabled", "yes").start().await?;
    let error = fails(connect(cluster.url(), "").await, ErrorKind::Unsupported, None);
    ensure!(error.to_string().contains("cluster mode"), "{error}");
    Ok(())
}

pub(crate) async fn evicting_and_forgetful_servers_are_warned_of() -> Verdict {
    let careful = Redis::new().append_only().start().await?;
    let warnings = connect(careful.url(), "").await?.profile().warnings.clone();
    ensure!(warnings.is_empty(), "{warnings:?}");
    let careless = Redis::new().arg("--maxmemory-policy", "volatile-lru").start().await?;
    let warnings = connect(careless.url(), "").await?.profile().warnings.join("; ");
    ensure!(warnings.contains("maxmemory-policy is volatile-lru"), "{warnings}");
    ensure!(warnings.contains("appendonly is off"), "{warnings}");
    Ok(())
}

pub(crate) async fn what_can_not_be_checked_is_a_warning() -> Verdict {
    let server = Redis::new().start().await?;
    let truth = RedisTruth::connect(server.url()).await?;
    truth.acl_set_user("plain", &["on", ">pw", "~*", "&*", "+@all", "-info", "-config"]).await?;
    let url = server.url().replace("redis://", "redis://plain:pw@");
    let client = connect(&url, "").await?;
    let warnings = client.profile().warnings.join("; ");
    ensure!(warnings.contains("INFO is not permitted"), "{warnings}");
    take(&*client, &claim("a")).await?;
    Ok(())
}

pub(crate) async fn user_password_and_odd_characters_are_understood() -> Verdict {
    let server = Redis::new().password("p@ss:/?#[]% word").start().await?;
    let client = connect(server.url(), "").await?;
    take(&*client, &claim("a")).await?;
    let truth = RedisTruth::connect(server.url()).await?;
    truth.acl_set_user("al:ice", &["on", ">b@b", "~*", "&*", "+@all"]).await?;
    let url = format!("redis://al%3Aice:b%40b@{}", server.addr());
    let client = connect(&url, "").await?;
    // The subscription's connection needs them as well.
    client.acquire(&claim("a").with_queue(true)).await?;
    let clients = truth.clients().await?;
    let ours = clients.iter().filter(|client| client.field("user") == "al:ice").count();
    ensure!(ours == 2, "{clients:?}");
    Ok(())
}

/// What the README says that a user needs.
pub(crate) const PERMISSIONS: &[&str] = &[
    "on",
    ">pw",
    "resetchannels",
    "~mine:*",
    "&mine:*",
    "+evalsha",
    "+eval",
    "+exists",
    "+setrange",
    "+get",
    "+set",
    "+setnx",
    "+del",
    "+pttl",
    "+pexpire",
    "+time",
    "+zadd",
    "+zrem",
    "+zpopmin",
    "+hset",
    "+hget",
    "+hdel",
    "+publish",
    "+subscribe",
    "+scan",
    "+hello",
    "+ping",
];

pub(crate) async fn users_may_be_confined_to_a_prefix() -> Verdict {
    let server = Redis::new().start().await?;
    let truth = RedisTruth::connect(server.url()).await?;
    truth.acl_set_user("confined", PERMISSIONS).await?;
    let url = format!("redis://confined:pw@{}", server.addr());
    fails(connect(&url, "prefix=theirs").await, ErrorKind::Auth, Some("NOPERM"));
    let client = connect(&url, "prefix=mine").await?;
    let first = take(&*client, &claim("a")).await?;
    let waiter = claim("a").with_queue(true);
    let held = client.acquire(&waiter).await?;
    ensure!(matches!(held, Acquired::Held { .. }), "{held:?}");
    client.renew(&first).await?;
    ensure!(client.inspect(&first.name).await?.is_some(), "it is held");
    ensure!(client.list("").await?.len() == 1, "it is listed");
    client.release(&first.ticket(), None).await?;
    client.wake(&waiter).await;
    let second = take(&*client, &waiter).await?;
    let third = claim("a");
    client.hand_over(&second, &third, true).await?;
    client.fencing_token(&first.name).await?;
    let third = take(&*client, &third).await?;
    client.raise_tokens(leasehold_api::Names::All, third.token).await?;
    ensure!(client.evict(&third.name, third.token).await?, "it is evicted");
    Ok(())
}

pub(crate) async fn databases_and_prefixes_are_apart() -> Verdict {
    let server = Redis::new().start().await?;
    let (url, other) = (server.url(), format!("{}/3", server.url().trim_end_matches('/')));
    let places = [(url, ""), (url, "prefix=leasehold:"), (url, "prefix=other"), (&other, "")];
    for (url, query) in places {
        take(&*connect(url, query).await?, &claim("a")).await?;
    }
    let again = connect(&other, "prefix=leasehold").await?.acquire(&claim("a")).await?;
    ensure!(matches!(again, Acquired::Held { .. }), "{again:?}");
    let options = Options::new("127.0.0.1", server.port()).with_database(3);
    let client = Driver::connect(options.clone()).await?;
    ensure!(matches!(client.acquire(&claim("a")).await?, Acquired::Held { .. }), "the same place");
    let client = Driver::connect(options.with_prefix("third")).await?;
    take(&client, &claim("a")).await?;
    let nowhere = Options::new("", 0).with_connect_timeout(Duration::ZERO);
    fails(Driver::connect(nowhere).await, ErrorKind::BadInput, None);
    Ok(())
}

pub(crate) async fn tls_trusts_the_named_authority_and_no_other() -> Verdict {
    let server = Redis::new().tls().password("pw").start().await?;
    let tls = server.tls().unwrap();
    let client = connect(&tls.url, &format!("tls_ca={}", tls.ca_file.display())).await?;
    let lease = take(&*client, &claim("a")).await?;
    let waiter = claim("a").with_queue(true);
    client.acquire(&waiter).await?;
    client.release(&lease.ticket(), None).await?;
    client.wake(&waiter).await;

    let start = Instant::now();
    for query in ["", "connect_timeout=10s"] {
        let error = fails(connect(&tls.url, query).await, ErrorKind::Auth, None);
        let source = std::error::Error::source(&error).unwrap().to_string();
        ensure!(source.contains("certificate"), "{source}");
    }
    ensure!(start.elapsed() < Duration::from_secs(4), "no certificate gets better by waiting");
    let by_another_name = tls.url.replace("localhost", "[::ffff:127.0.0.1]");
    let query = format!("tls_ca={}", tls.ca_file.display());
    fails(connect(&by_another_name, &query).await, ErrorKind::Auth, None);
    Ok(())
}

pub(crate) async fn a_wrong_guess_about_tls_is_told() -> Verdict {
    let server = Redis::new().tls().password("pw").start().await?;
    let tls = server.tls().unwrap();
    let plain = tls.url.replace("rediss", "redis");
    let error = connect(&plain, "connect_timeout=300ms").await;
    let error = fails(error, ErrorKind::Unreachable, None).to_string();
    ensure!(error.contains(" TLS (rediss://)"), "{error}");
    ensure!(error.contains("the server at localhost:"), "{error}");
    let secure = server.url().replace("redis:", "rediss:");
    let query = format!("tls_ca={}&connect_timeout=300ms", tls.ca_file.display());
    let error = fails(connect(&secure, &query).await, ErrorKind::Unreachable, None).to_string();
    ensure!(error.contains("redis:// is without TLS"), "{error}");
    ensure!(error.contains(&format!("the server at {} ", server.addr())), "{error}");
    Ok(())
}

pub(crate) async fn tls_client_certificates_are_shown() -> Verdict {
    let server = Redis::new().tls().arg("--tls-auth-clients", "yes").start().await?;
    let tls = server.tls().unwrap();
    let trust = format!("tls_ca={}", tls.ca_file.display());
    let start = Instant::now();
    let refused = connect(&tls.url, &format!("{trust}&connect_timeout=10s")).await;
    let refused = fails(refused, ErrorKind::Auth, None).to_string();
    ensure!(start.elapsed() < Duration::from_secs(4), "it does not get one by waiting");
    ensure!(refused.contains("tls_cert, tls_key"), "{refused}");
    // Any certificate of that authority will do; the server's own lies beside it.
    let beside = |name| tls.ca_file.with_file_name(name).display().to_string();
    let identity = format!("tls_cert={}&tls_key={}", beside("server.crt"), beside("server.key"));
    let client = connect(&tls.url, &format!("{trust}&{identity}")).await?;
    take(&*client, &claim("a")).await?;
    Ok(())
}

/// After so long the runtime has read that a connection ended, on a busy machine too.
const NOTICED: Duration = Duration::from_millis(400);

pub(crate) async fn one_reconnect_is_shared_and_survives_who_asked_for_it() -> Verdict {
    let server = Redis::shared().await?;
    let proxy = Proxy::start(server.addr(), Framing::Resp).await?;
    let client = connect(&proxy.url(server.url()), "prefix=shared").await?;
    proxy.cut();
    proxy.until(|counts| counts.open == 0).await;
    // Its end is read by the runtime, not awaited by anybody; a request before that may get lost.
    tokio::time::sleep(NOTICED).await;
    proxy.set(Direction::ToClient, Action::Hold);
    let first = claim("a");
    tokio::select! {
        answer = client.acquire(&first) => panic!("{answer:?}"),
        // The greeting's answer is under way.
        () = proxy.held(Direction::ToClient, 1) => {}
    }
    let claims: Vec<_> = (0..20).map(|n| claim(&format!("b{n}"))).collect();
    let all = futures_util::future::join_all(claims.iter().map(|claim| client.acquire(claim)));
    let heal = async {
        tokio::task::yield_now().await;
        proxy.heal();
    };
    let (all, ()) = tokio::join!(all, heal);
    for answer in all {
        ensure!(matches!(answer?, Acquired::Granted(_)), "free");
    }
    ensure!(proxy.counts().accepted == 2, "{:?}", proxy.counts());
    let first = client.acquire(&claim("a")).await?;
    ensure!(matches!(first, Acquired::Granted(_)), "a claim dropped unsent: {first:?}");
    Ok(())
}

pub(crate) async fn an_idle_connection_that_was_closed_costs_no_call() -> Verdict {
    let server = Redis::new().controlled().start().await?;
    let truth = RedisTruth::connect(server.url()).await?;
    let client = connect(server.url(), "").await?;
    for n in 0..5 {
        truth.client_kill_all().await?;
        // The end of the connection is read by the runtime, not awaited by anybody.
        tokio::time::sleep(NOTICED).await;
        take(&*client, &claim(&format!("a{n}"))).await?;
    }
    Ok(())
}

pub(crate) async fn a_silent_connection_is_replaced() -> Verdict {
    let server = Redis::shared().await?;
    let proxy = Proxy::start(server.addr(), Framing::Resp).await?;
    let client = connect(&proxy.url(server.url()), "prefix=silent&timeout=1s").await?;
    let lease = take(&*client, &claim("a")).await?;
    proxy.set(Direction::ToClient, Action::Silence);
    let short = Duration::from_millis(60);
    ensure!(tokio::time::timeout(short, client.renew(&lease)).await.is_err(), "no answer");
    proxy.heal();
    ensure!(tokio::time::timeout(short, client.renew(&lease)).await.is_err(), "not yet lost");
    tokio::time::sleep(Duration::from_secs(1)).await;
    client.renew(&lease).await?;
    ensure!(proxy.counts().accepted == 2, "{:?}", proxy.counts());

    // Answers that nobody waits for any more are a sign of life.
    for _ in 0..5 {
        let mut renewal = client.renew(&lease);
        let sent = proxy.counts().to_server.messages;
        tokio::select! {
            _ = &mut renewal => {}
            _ = proxy.until(|counts| counts.to_server.messages > sent) => drop(renewal),
        }
        tokio::time::sleep(Duration::from_millis(400)).await;
    }
    client.renew(&lease).await?;
    ensure!(proxy.counts().accepted == 2, "{:?}", proxy.counts());
    Ok(())
}

pub(crate) async fn a_client_outlives_the_runtime_it_was_made_on() -> Verdict {
    let url = Redis::shared().await?.url();
    let waiter = claim("runtimes").with_queue(true);
    let (client, lease) = on_another_runtime({
        let (url, waiter) = (url.to_owned(), waiter.clone());
        async move {
            let client = connect(&url, "prefix=runtimes").await.unwrap();
            let lease = take(&*client, &claim("runtimes")).await.unwrap();
            client.acquire(&waiter).await.unwrap();
            (client, lease)
        }
    })
    .await;
    client.renew(&lease).await?;
    client.acquire(&waiter).await?;
    client.release(&lease.ticket(), None).await?;
    client.wake(&waiter).await;
    take(&*client, &waiter).await?;
    Ok(())
}

async fn on_another_runtime<T: Send + 'static>(
    work: impl Future<Output = T> + Send + 'static,
) -> T {
    let work = move || tokio::runtime::Runtime::new().unwrap().block_on(work);
    tokio::task::spawn_blocking(move || std::thread::spawn(work).join().unwrap()).await.unwrap()
}
