//! Proxy and truth reader together with a real Redis and a real client.

#![expect(clippy::unwrap_used, reason = "the tests are plain functions, run by `tests!`")]

use std::time::{Duration, Instant};

use leasehold_conformance::proxy::{Action, Direction, Framing, Match, Proxy};
use leasehold_conformance::servers::{Redis, Server};
use leasehold_conformance::truth::{RedisTruth, Value};
use leasehold_conformance::{Failure, Verdict};
use redis::AsyncConnectionConfig;
use redis::aio::MultiplexedConnection;

leasehold_conformance::tests! {
    a_request_whose_answer_is_cut_off_has_taken_effect,
    a_held_request_takes_effect_only_when_delivered,
    pushed_messages_are_told_from_answers_between_them,
    large_pipelines_keep_their_message_ends,
    commands_of_clients_are_counted_without_the_readers_own,
    keys_of_every_type_are_read_by_an_exact_prefix,
    an_operator_can_do_what_operators_do,
    a_busy_server_says_so_until_it_is_ended_and_a_sleeping_one_says_nothing,
    the_reader_connects_anew_after_a_restart_and_when_it_was_killed,
}

struct Setting {
    server: Server,
    proxy: Proxy,
    truth: RedisTruth,
}

async fn setting(redis: Redis) -> Result<Setting, Failure> {
    // These tests flush, count and kill: a server that is somebody else's will not do.
    let server = redis.controlled().start().await?;
    let proxy = Proxy::start(server.addr(), Framing::Resp).await?;
    let truth = RedisTruth::connect(server.url()).await?;
    Ok(Setting { server, proxy, truth })
}

impl Setting {
    /// A client as the driver has it: version 3 of the protocol, through the proxy.
    async fn client(&self) -> MultiplexedConnection {
        let url = format!("{}?protocol=resp3", self.proxy.url(self.server.url()));
        let (pushed, _) = tokio::sync::mpsc::unbounded_channel();
        let config = AsyncConnectionConfig::new()
            .set_response_timeout(Some(Duration::from_secs(10)))
            .set_push_sender(pushed);
        let client = redis::Client::open(url).unwrap();
        client.get_multiplexed_async_connection_with_config(&config).await.unwrap()
    }
}

fn incr(key: &str) -> redis::Cmd {
    let mut command = redis::cmd("INCR");
    command.arg(key);
    command
}

async fn a_request_whose_answer_is_cut_off_has_taken_effect() -> Verdict {
    let s = setting(Redis::new()).await?;
    let mut client = s.client().await;
    let cut = s.proxy.on(Direction::ToClient, Match::command("INCR"), Action::Cut);
    let error = incr("n").query_async::<i64>(&mut client).await.unwrap_err();
    assert!(error.is_connection_dropped(), "{error}");
    assert_eq!(cut.count(), 1);
    let entry = s.truth.entry("n").await.unwrap().unwrap();
    assert_eq!((entry.value.text(), entry.ttl), (Some("1"), None));
    Ok(())
}

async fn a_held_request_takes_effect_only_when_delivered() -> Verdict {
    let s = setting(Redis::new()).await?;
    let mut client = s.client().await;
    s.proxy.on(Direction::ToServer, Match::contains("held-key"), Action::Hold);
    let asking =
        tokio::spawn(async move { incr("held-key").query_async::<i64>(&mut client).await });
    s.proxy.held(Direction::ToServer, 1).await;
    assert_eq!(s.truth.entry("held-key").await.unwrap(), None);
    asking.abort();
    s.proxy.deliver(Direction::ToServer);
    let within = Duration::from_secs(5);
    let keys = s.truth.keys_until("held-", within, |keys| !keys.is_empty()).await.unwrap();
    assert_eq!(keys[&b"held-key"[..]].value, Value::String(b"1".to_vec()));
    Ok(())
}

async fn pushed_messages_are_told_from_answers_between_them() -> Verdict {
    let s = setting(Redis::new()).await?;
    let mut client = s.client().await;
    client.subscribe("channel").await.unwrap();
    let pushes = s.proxy.on(Direction::ToClient, Match::pushes().always(), Action::Drop);
    for n in 1..=20 {
        s.truth.command(&["PUBLISH", "channel", "word"]).await.unwrap();
        assert_eq!(incr("n").query_async::<i64>(&mut client).await.unwrap(), n);
    }
    pushes.fired_times(20).await;
    let before = s.proxy.counts().to_client;
    s.proxy.on(Direction::ToServer, Match::command("INCR"), Action::Duplicate);
    assert_eq!(incr("n").query_async::<i64>(&mut client).await.unwrap(), 21);
    assert_eq!(
        incr("n").query_async::<i64>(&mut client).await.unwrap(),
        23,
        "it took effect twice"
    );
    assert_eq!(s.proxy.counts().to_client.messages, before.messages + 2);
    Ok(())
}

async fn large_pipelines_keep_their_message_ends() -> Verdict {
    let s = setting(Redis::new()).await?;
    let mut client = s.client().await;
    let before = s.proxy.counts();
    let value = "x\r\n".repeat(20_000);
    let mut pipe = redis::pipe();
    for key in 0..50 {
        pipe.cmd("SET").arg(key).arg(&value).ignore();
        pipe.cmd("GET").arg(key);
    }
    let values: Vec<String> = pipe.query_async(&mut client).await.unwrap();
    assert!(values.len() == 50 && values.iter().all(|seen| *seen == value));
    let after = s.proxy.counts();
    assert_eq!(after.to_server.messages - before.to_server.messages, 100);
    assert_eq!(after.to_client.messages - before.to_client.messages, 100);
    Ok(())
}

async fn commands_of_clients_are_counted_without_the_readers_own() -> Verdict {
    let s = setting(Redis::new()).await?;
    let mut client = s.client().await;
    let before = s.truth.commands().await.unwrap();
    assert_eq!(s.truth.commands().await.unwrap().since(&before).total(), 0);
    s.truth.set("t:a", "1", Some(Duration::from_secs(60))).await.unwrap();
    for _ in 0..3 {
        incr("t:a").query_async::<i64>(&mut client).await.unwrap();
    }
    redis::cmd("CLIENT").arg("SETNAME").arg("me").exec_async(&mut client).await.unwrap();
    s.truth.keys("t:").await.unwrap();
    let calls = s.truth.commands().await.unwrap().since(&before);
    // Before 7.0 a command is counted without its second word.
    let named = calls.calls("client|setname") + calls.calls("client");
    assert_eq!((calls.calls("incr"), named), (3, 1), "{calls:?}");
    assert_eq!(calls.total(), 4, "{calls:?}");

    s.server.restart_empty().await.unwrap();
    let fresh = s.truth.commands().await.unwrap();
    assert_eq!(fresh.calls("incr"), 0, "{fresh:?}");
    s.truth.keys("t:").await.unwrap();
    assert_eq!(s.truth.commands().await.unwrap().since(&fresh).total(), 0);
    Ok(())
}

async fn keys_of_every_type_are_read_by_an_exact_prefix() -> Verdict {
    let s = setting(Redis::new()).await?;
    let truth = &s.truth;
    for words in [
        &["SET", "p[*]:s", "v", "PX", "60000"][..],
        &["RPUSH", "p[*]:l", "a", "b"],
        &["SADD", "p[*]:t", "m"],
        &["HSET", "p[*]:h", "f", "v"],
        &["ZADD", "p[*]:z", "1.5", "m"],
        &["SET", "p*:s", "another prefix"],
        &["SET", "pX:s", "another prefix"],
    ] {
        truth.command(words).await.unwrap();
    }
    let keys = truth.keys("p[*]:").await.unwrap();
    let names: Vec<_> = keys.keys().map(|key| String::from_utf8_lossy(key)).collect();
    assert_eq!(names, ["p[*]:h", "p[*]:l", "p[*]:s", "p[*]:t", "p[*]:z"]);
    let value = |name: &str| keys[name.as_bytes()].value.clone();
    let m = || b"m".to_vec();
    assert_eq!(value("p[*]:s").text(), Some("v"));
    assert_eq!(value("p[*]:l"), Value::List(vec![b"a".to_vec(), b"b".to_vec()]));
    assert_eq!(value("p[*]:t"), Value::Set([m()].into()));
    assert_eq!(value("p[*]:h"), Value::Hash([(b"f".to_vec(), b"v".to_vec())].into()));
    assert_eq!(value("p[*]:z"), Value::Sorted(vec![(m(), 1.5)]));
    let ttl = keys[&b"p[*]:s"[..]].ttl.unwrap();
    assert!(ttl > Duration::from_secs(50) && ttl <= Duration::from_secs(60), "{ttl:?}");
    assert_eq!(keys[&b"p[*]:l"[..]].ttl, None);

    assert!(truth.persist("p[*]:s").await.unwrap());
    assert_eq!(truth.entry("p[*]:s").await.unwrap().unwrap().ttl, None);
    assert!(truth.expire("p[*]:s", Duration::from_secs(1)).await.unwrap());
    assert!(truth.entry("p[*]:s").await.unwrap().unwrap().ttl.is_some());
    assert!(truth.delete("p[*]:s").await.unwrap());
    assert!(!truth.delete("p[*]:s").await.unwrap());
    truth.flush_all().await.unwrap();
    assert!(truth.keys("").await.unwrap().is_empty());
    Ok(())
}

async fn an_operator_can_do_what_operators_do() -> Verdict {
    let s = setting(Redis::new().password("secret")).await?;
    let truth = &s.truth;
    let mut client = s.client().await;
    redis::cmd("CLIENT").arg("SETNAME").arg("me").exec_async(&mut client).await.unwrap();
    assert_eq!(truth.connected("me").await.unwrap(), 1);
    assert_eq!(truth.clients().await.unwrap().len(), 1);
    assert_eq!(truth.client_kill_all().await.unwrap(), 1);
    assert!(incr("n").query_async::<i64>(&mut client).await.is_err());
    assert!(truth.clients().await.unwrap().is_empty());

    truth.config_set("maxmemory-policy", "noeviction").await.unwrap();
    let policy = truth.config_get("maxmemory-policy").await.unwrap();
    assert_eq!(policy.as_deref(), Some("noeviction"));
    assert_eq!(truth.config_get("no-such-setting").await.unwrap(), None);
    truth.acl_set_user("u", &["reset", "on", ">pw", "~*", "+@all", "-@scripting"]).await.unwrap();
    truth.script_flush().await.unwrap();
    assert!(truth.used_memory().await.unwrap() > 100_000);
    let by_the_server = truth.now().await.unwrap();
    let here = std::time::SystemTime::UNIX_EPOCH.elapsed().unwrap();
    assert!(here.abs_diff(by_the_server) < Duration::from_secs(5));
    assert!(!format!("{truth:?} {:?} {:?}", s.server, s.proxy).contains("secret"));
    Ok(())
}

async fn a_busy_server_says_so_until_it_is_ended_and_a_sleeping_one_says_nothing() -> Verdict {
    let s = setting(Redis::new()).await?;
    let mut client = s.client().await;
    let busy = s.truth.busy().await.unwrap();
    let error = incr("n").query_async::<i64>(&mut client).await.unwrap_err();
    assert_eq!(error.code(), Some("BUSY"), "{error}");
    busy.end(&s.truth).await.unwrap();
    assert_eq!(incr("n").query_async::<i64>(&mut client).await.unwrap(), 1);

    let started = Instant::now();
    s.truth.sleep(Duration::from_millis(60)).await.unwrap();
    assert!(started.elapsed() >= Duration::from_millis(60));
    Ok(())
}

async fn the_reader_connects_anew_after_a_restart_and_when_it_was_killed() -> Verdict {
    let s = setting(Redis::new()).await?;
    s.truth.set("k", "v", None).await.unwrap();
    s.server.restart().await.unwrap();
    assert_eq!(s.truth.entry("k").await.unwrap().unwrap().value.text(), Some("v"));
    // By id, from another reader: readers are left out of `client_kill_all`.
    let id = s.truth.command(&["CLIENT", "ID"]).await.unwrap();
    let redis::Value::Int(id) = id else { panic!("{id:?}") };
    let other = RedisTruth::connect(s.server.url()).await.unwrap();
    assert!(other.client_kill(id as u64).await.unwrap());
    assert!(s.truth.delete("k").await.unwrap());
    Ok(())
}
