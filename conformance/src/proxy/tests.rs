//! The proxy in front of a small server of our own, which pushes a message when told to.

use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;

use super::protocol::End;
use super::resp;
use super::{Action, Direction, Framing, Match, Proxy};
use Direction::{ToClient, ToServer};

/// A connection that is read a message at a time.
struct Talk {
    stream: TcpStream,
    buffer: Vec<u8>,
}

impl Talk {
    fn new(stream: TcpStream) -> Self {
        Self { stream, buffer: Vec::new() }
    }

    async fn connect(proxy: &Proxy) -> Self {
        Self::new(TcpStream::connect(proxy.addr()).await.unwrap())
    }

    async fn say(&mut self, text: &str) {
        self.stream.write_all(text.as_bytes()).await.unwrap();
    }

    /// The next message; `None` at the end of the stream.
    async fn hear(&mut self) -> Option<String> {
        loop {
            if let End::At(length) = resp::end(&self.buffer) {
                return Some(String::from_utf8(self.buffer.drain(..length).collect()).unwrap());
            }
            if !matches!(self.stream.read_buf(&mut self.buffer).await, Ok(1..)) {
                return None;
            }
        }
    }

    async fn ask(&mut self, text: &str) -> Option<String> {
        self.say(text).await;
        self.hear().await
    }

    fn hears_nothing(&mut self) -> bool {
        let mut byte = [0];
        let error = self.stream.try_read(&mut byte).unwrap_err();
        self.buffer.is_empty() && error.kind() == std::io::ErrorKind::WouldBlock
    }
}

/// Answers `ECHO x` with `+x`; before the answer to `PUSH x` it pushes `x`. Tells what it gets.
async fn server() -> (SocketAddr, mpsc::UnboundedReceiver<String>) {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
    let address = listener.local_addr().unwrap();
    let (told, heard) = mpsc::unbounded_channel();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let told = told.clone();
            tokio::spawn(async move {
                let mut talk = Talk::new(stream);
                while let Some(request) = talk.hear().await {
                    let words: Vec<_> = request.split_whitespace().map(str::to_owned).collect();
                    told.send(words.join(" ")).unwrap();
                    if words[0] == "PUSH" {
                        talk.say(&format!(">2\r\n$4\r\npush\r\n+{}\r\n", words[1])).await;
                    }
                    talk.say(&format!("+{}\r\n", words[1])).await;
                }
                told.send("end".into()).unwrap();
            });
        }
    });
    (address, heard)
}

struct Setting {
    proxy: Proxy,
    client: Talk,
    heard: mpsc::UnboundedReceiver<String>,
}

async fn setting() -> Setting {
    let (address, heard) = server().await;
    let proxy = Proxy::start(address, Framing::Resp).await.unwrap();
    let mut client = Talk::connect(&proxy).await;
    assert_eq!(client.ask("ECHO 0\r\n").await.unwrap(), "+0\r\n");
    let mut setting = Setting { proxy, client, heard };
    setting.server_hears("ECHO 0").await;
    setting
}

impl Setting {
    async fn server_hears(&mut self, text: &str) {
        assert_eq!(self.heard.recv().await.unwrap(), text);
    }

    fn server_heard_nothing(&mut self) -> bool {
        self.heard.try_recv().is_err()
    }
}

#[tokio::test]
async fn everything_passes_and_is_counted() {
    let mut s = setting().await;
    // Two messages and a half in one write, the rest in another.
    s.client.say("ECHO 1\r\nECHO 2\r\nECHO").await;
    s.proxy.until(|counts| counts.to_client.delivered == 3).await;
    s.client.say(" 3\r\n").await;
    for answer in ["+1\r\n", "+2\r\n", "+3\r\n"] {
        assert_eq!(s.client.hear().await.unwrap(), answer);
    }
    let counts = s.proxy.until(|counts| counts.to_client.delivered == 4).await;
    assert_eq!((counts.to_server.messages, counts.to_server.bytes), (4, 32));
    assert_eq!((counts.to_client.messages, counts.to_client.bytes), (4, 16));
    assert_eq!((counts.accepted, counts.open), (1, 1));
    drop(s.client);
    s.proxy.until(|counts| counts.open == 0).await;
}

#[tokio::test]
async fn a_held_request_reaches_the_server_only_when_delivered() {
    let mut s = setting().await;
    let rule = s.proxy.on(ToServer, Match::command("echo").skip(1), Action::Hold);
    s.client.say("ECHO 1\r\nECHO 2\r\nECHO 3\r\n").await;
    s.proxy.held(ToServer, 1).await;
    rule.fired().await;
    assert_eq!(s.client.hear().await.unwrap(), "+1\r\n");
    s.server_hears("ECHO 1").await;
    // The third waits behind the second.
    s.proxy.until(|counts| counts.to_server.messages == 4).await;
    assert!(s.server_heard_nothing());
    assert_eq!(s.proxy.deliver(ToServer), 1);
    s.server_hears("ECHO 2").await;
    s.server_hears("ECHO 3").await;
    assert_eq!(s.client.hear().await.unwrap(), "+2\r\n");
    assert_eq!(s.proxy.counts().to_server.held, 0);
}

#[tokio::test]
async fn a_held_request_arrives_after_its_client_is_gone() {
    let mut s = setting().await;
    s.proxy.on(ToServer, Match::any(), Action::Hold);
    s.client.say("ECHO late\r\n").await;
    s.proxy.held(ToServer, 1).await;
    s.proxy.cut_clients();
    assert_eq!(s.client.hear().await, None);
    // Another connection overtakes it.
    let mut other = Talk::connect(&s.proxy).await;
    assert_eq!(other.ask("ECHO soon\r\n").await.unwrap(), "+soon\r\n");
    s.server_hears("ECHO soon").await;
    assert_eq!(s.proxy.deliver(ToServer), 1);
    s.server_hears("ECHO late").await;
    s.server_hears("end").await;
    s.proxy.until(|counts| counts.open == 1).await;
}

#[tokio::test]
async fn held_messages_go_on_one_by_one_or_never() {
    let mut s = setting().await;
    s.proxy.set(ToClient, Action::Hold);
    s.client.say("ECHO 1\r\nECHO 2\r\nECHO 3\r\n").await;
    s.proxy.held(ToClient, 3).await;
    assert!(s.client.hears_nothing());
    assert!(s.proxy.deliver_next(ToClient));
    assert_eq!(s.client.hear().await.unwrap(), "+1\r\n");
    assert_eq!(s.proxy.discard(ToClient), 2);
    assert!(!s.proxy.deliver_next(ToClient));
    s.proxy.heal();
    assert_eq!(s.client.ask("ECHO 4\r\n").await.unwrap(), "+4\r\n");
}

#[tokio::test]
async fn exactly_the_answer_to_that_request_is_dropped_and_no_pushed_message() {
    let mut s = setting().await;
    let rule = s.proxy.on(ToClient, Match::command("PUSH"), Action::Drop);
    s.client.say("ECHO 1\r\nPUSH 2\r\nECHO 3\r\n").await;
    assert_eq!(s.client.hear().await.unwrap(), "+1\r\n");
    assert_eq!(s.client.hear().await.unwrap(), ">2\r\n$4\r\npush\r\n+2\r\n");
    assert_eq!(s.client.hear().await.unwrap(), "+3\r\n");
    assert_eq!(rule.count(), 1);
    assert_eq!(s.proxy.counts().to_client.dropped, 1);

    s.proxy.on(ToClient, Match::pushes(), Action::Drop);
    assert_eq!(s.client.ask("PUSH 4\r\n").await.unwrap(), "+4\r\n");
    s.proxy.on(ToClient, Match::answers().and(|m| m.contains(b"6")), Action::Drop);
    s.client.say("ECHO 5\r\nECHO 6\r\nECHO 7\r\n").await;
    assert_eq!(s.client.hear().await.unwrap(), "+5\r\n");
    assert_eq!(s.client.hear().await.unwrap(), "+7\r\n");
}

#[tokio::test]
async fn a_silenced_answer_is_the_last_thing_heard() {
    let mut s = setting().await;
    let rule = s.proxy.on(ToClient, Match::contains("2"), Action::Silence);
    s.client.say("ECHO 1\r\nECHO 2\r\nECHO 3\r\n").await;
    rule.fired().await;
    assert_eq!(s.client.hear().await.unwrap(), "+1\r\n");
    s.proxy.until(|counts| counts.to_client.dropped == 2).await;
    assert!(s.client.hears_nothing());
    // Only this connection.
    assert_eq!(Talk::connect(&s.proxy).await.ask("ECHO 4\r\n").await.unwrap(), "+4\r\n");
}

#[tokio::test]
async fn a_black_hole_swallows_everything_and_resets_nothing() {
    let mut s = setting().await;
    s.proxy.blackhole();
    s.client.say("ECHO 1\r\n").await;
    s.proxy.until(|counts| counts.to_server.dropped == 1).await;
    assert!(s.server_heard_nothing() && s.client.hears_nothing());
    // A client that gives up is not seen by the server either.
    s.client = Talk::connect(&s.proxy).await;
    s.proxy.until(|counts| counts.accepted == 2 && counts.open == 2).await;
    s.client.say("ECHO 2\r\n").await;
    s.proxy.until(|counts| counts.to_server.dropped == 2).await;
    let idle = Talk::connect(&s.proxy).await;
    s.proxy.until(|counts| counts.accepted == 3).await;
    s.proxy.heal();
    // After a gap nothing can come; who lost nothing goes on.
    s.client.say("ECHO 3\r\n").await;
    s.proxy.until(|counts| counts.to_server.dropped == 3).await;
    s.client = idle;
    assert_eq!(s.client.ask("ECHO 4\r\n").await.unwrap(), "+4\r\n");
    s.server_hears("ECHO 4").await;
}

#[tokio::test]
async fn a_cut_comes_after_what_was_before_it() {
    let mut s = setting().await;
    s.proxy.on(ToClient, Match::contains("2"), Action::Cut);
    s.client.say("ECHO 1\r\nECHO 2\r\nECHO 3\r\n").await;
    assert_eq!(s.client.hear().await.unwrap(), "+1\r\n");
    assert_eq!(s.client.hear().await, None);
    s.proxy.until(|counts| counts.open == 0).await;

    let mut client = Talk::connect(&s.proxy).await;
    s.proxy.on(ToClient, Match::contains("4"), Action::Truncate(2));
    assert_eq!(client.ask("ECHO 44\r\n").await, None);
    assert_eq!(client.buffer, b"+4");
}

#[tokio::test]
async fn every_connection_is_closed_or_reset_at_once() {
    let mut s = setting().await;
    s.proxy.cut();
    assert_eq!(s.client.hear().await, None);
    s.server_hears("end").await;

    let mut client = Talk::connect(&s.proxy).await;
    client.ask("ECHO 1\r\n").await.unwrap();
    s.proxy.reset();
    let error = client.stream.read(&mut [0]).await.unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::ConnectionReset);
    s.proxy.until(|counts| counts.open == 0).await;
}

#[tokio::test]
async fn a_request_sent_twice_is_answered_once() {
    let mut s = setting().await;
    s.proxy.on(ToServer, Match::command("ECHO"), Action::Duplicate);
    s.client.say("ECHO 1\r\nECHO 2\r\n").await;
    for text in ["ECHO 1", "ECHO 1", "ECHO 2"] {
        s.server_hears(text).await;
    }
    assert_eq!(s.client.hear().await.unwrap(), "+1\r\n");
    assert_eq!(s.client.hear().await.unwrap(), "+2\r\n");
}

#[tokio::test]
async fn a_delay_counts_from_the_arrival() {
    let mut s = setting().await;
    let delay = Duration::from_millis(50);
    s.proxy.set(ToServer, Action::Delay(delay));
    let sent = std::time::Instant::now();
    s.client.say("ECHO 1\r\nECHO 2\r\nECHO 3\r\n").await;
    for _ in 0..3 {
        s.client.hear().await.unwrap();
    }
    let took = sent.elapsed();
    assert!(took >= delay, "{took:?}");
    assert!(took < 3 * delay, "one after the other: {took:?}");
}

#[tokio::test]
async fn a_jitter_gives_each_message_a_time_of_its_own_and_keeps_their_order() {
    let mut s = setting().await;
    let (least, most) = (Duration::from_millis(10), Duration::from_millis(60));
    s.proxy.set(ToServer, Action::Jitter(least, most));
    let mut took = Vec::new();
    for n in 0..8 {
        let sent = std::time::Instant::now();
        assert_eq!(s.client.ask(&format!("ECHO {n}\r\n")).await.unwrap(), format!("+{n}\r\n"));
        took.push(sent.elapsed());
    }
    assert!(took.iter().all(|took| *took >= least), "{took:?}");
    took.sort_unstable();
    // Eight times within a tenth of the range: once in ten million runs.
    assert!(took[7] - took[0] > (most - least) / 10, "all alike: {took:?}");
    s.client.say("ECHO a\r\nECHO b\r\nECHO c\r\n").await;
    for answer in ["+a\r\n", "+b\r\n", "+c\r\n"] {
        assert_eq!(s.client.hear().await.unwrap(), answer);
    }
}

#[tokio::test]
async fn a_half_closed_client_hears_no_more_and_is_still_heard() {
    let mut s = setting().await;
    s.proxy.half_close(ToClient);
    assert_eq!(s.client.hear().await, None);
    s.client.say("ECHO 1\r\n").await;
    s.server_hears("ECHO 1").await;
    s.proxy.until(|counts| counts.to_client.dropped == 1).await;
    assert_eq!(s.proxy.counts().open, 1);
    s.client.stream.shutdown().await.unwrap();
    s.server_hears("end").await;
    s.proxy.until(|counts| counts.open == 0).await;
}

#[tokio::test]
async fn a_half_closed_server_answers_what_it_has_heard() {
    let mut s = setting().await;
    s.proxy.set(ToClient, Action::Hold);
    s.proxy.on(ToServer, Match::contains("2"), Action::HalfClose);
    s.client.say("ECHO 1\r\nECHO 2\r\nECHO 3\r\n").await;
    s.server_hears("ECHO 1").await;
    s.server_hears("end").await;
    s.proxy.until(|counts| counts.to_server.dropped == 2).await;
    s.proxy.heal();
    assert_eq!(s.client.hear().await.unwrap(), "+1\r\n");
}

#[tokio::test]
async fn new_connections_go_where_the_proxy_is_aimed() {
    let mut s = setting().await;
    let (elsewhere, mut heard) = server().await;
    s.proxy.aim(elsewhere);
    assert_eq!(s.client.ask("ECHO 1\r\n").await.unwrap(), "+1\r\n");
    s.server_hears("ECHO 1").await;
    assert_eq!(Talk::connect(&s.proxy).await.ask("ECHO 2\r\n").await.unwrap(), "+2\r\n");
    assert_eq!(heard.recv().await.unwrap(), "ECHO 2");
    assert!(s.server_heard_nothing(), "an open one stays");
}

/// A child that has not begun its own program yet has a copy of each socket.
#[tokio::test]
async fn a_port_stays_ours_while_programs_are_started() {
    let s = setting().await;
    let starts = std::thread::spawn(|| {
        for _ in 0..500 {
            std::process::Command::new("true").status().unwrap();
        }
    });
    while !starts.is_finished() {
        s.proxy.refuse().await;
        s.proxy.accept().await.unwrap();
    }
    starts.join().unwrap();
}

#[tokio::test]
async fn new_connections_are_refused_and_accepted_again_on_the_same_port() {
    let mut s = setting().await;
    s.proxy.refuse().await;
    let error = TcpStream::connect(s.proxy.addr()).await.unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::ConnectionRefused);
    assert_eq!(s.client.ask("ECHO 1\r\n").await.unwrap(), "+1\r\n", "an open one stays");
    s.proxy.accept().await.unwrap();
    assert_eq!(Talk::connect(&s.proxy).await.ask("ECHO 2\r\n").await.unwrap(), "+2\r\n");
}

#[tokio::test]
async fn a_rule_takes_as_many_as_it_says_until_it_is_removed() {
    let mut s = setting().await;
    let two = s.proxy.on(ToClient, Match::any().times(2), Action::Drop);
    s.client.say("ECHO 1\r\nECHO 2\r\nECHO 3\r\n").await;
    two.fired_times(2).await;
    assert_eq!(s.client.hear().await.unwrap(), "+3\r\n");
    let all = s.proxy.on(ToClient, Match::any().always(), Action::Drop);
    s.client.say("ECHO 4\r\n").await;
    all.fired().await;
    all.remove();
    assert_eq!(s.client.ask("ECHO 5\r\n").await.unwrap(), "+5\r\n");
    assert_eq!((two.count(), all.count()), (2, 1));
}

#[tokio::test]
async fn the_last_handle_closes_everything() {
    let mut s = setting().await;
    let address = s.proxy.addr();
    let second = s.proxy.clone();
    drop(s.proxy);
    assert_eq!(s.client.ask("ECHO 1\r\n").await.unwrap(), "+1\r\n");
    drop(second);
    assert_eq!(s.client.hear().await, None);
    assert!(TcpStream::connect(address).await.is_err());
}

#[tokio::test]
async fn a_server_that_is_down_closes_the_clients_connection() {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
    let nobody = listener.local_addr().unwrap();
    drop(listener);
    let proxy = Proxy::start(nobody, Framing::Resp).await.unwrap();
    let mut client = Talk::connect(&proxy).await;
    assert_eq!(client.hear().await, None);
    let counts = proxy.until(|counts| counts.in_vain == 1).await;
    assert_eq!((counts.accepted, counts.open), (0, 0));
}

#[tokio::test]
async fn bytes_of_no_known_protocol_pass_as_they_come() {
    for framing in [Framing::Chunks, Framing::Resp] {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let proxy = Proxy::start(listener.local_addr().unwrap(), framing).await.unwrap();
        let mut client = TcpStream::connect(proxy.addr()).await.unwrap();
        let (mut server, _) = listener.accept().await.unwrap();
        let text = b"\x16\x03\x01\r\n\x00\xff*9\r\n";
        client.write_all(text).await.unwrap();
        let mut seen = vec![0; text.len()];
        server.read_exact(&mut seen).await.unwrap();
        assert_eq!(seen, text, "{framing:?}");
    }
}

#[tokio::test]
async fn a_url_keeps_all_but_its_host_and_port() {
    let proxy = Proxy::start(([127, 0, 0, 1], 1).into(), Framing::Resp).await.unwrap();
    let port = proxy.addr().port();
    let through = |url| proxy.url(url);
    let expected = format!("redis://me:p%2Fw@127.0.0.1:{port}/3?prefix=a");
    assert_eq!(through("redis://me:p%2Fw@example.com/3?prefix=a"), expected);
    assert_eq!(through("rediss://localhost:1"), format!("rediss://localhost:{port}"));
}
