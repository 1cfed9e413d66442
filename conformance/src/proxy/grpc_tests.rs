//! The proxy between a client and a server of HTTP/2, as the driver's client is one.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use h2::client::SendRequest;
use h2::{RecvStream, client, server};
use http::{HeaderMap, Request, Response};
use tokio::net::{TcpListener, TcpStream};

use super::Direction::{ToClient, ToServer};
use super::{Action, Framing, Match, Proxy};

const SECOND: Duration = Duration::from_secs(1);

/// What calls came whole, in the order of their data.
type Heard = Arc<Mutex<Vec<String>>>;

/// Answers each call with its own data and a header with that of the request.
async fn server() -> (SocketAddr, Heard) {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
    let address = listener.local_addr().unwrap();
    let heard = Heard::default();
    let told = heard.clone();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let told = told.clone();
            tokio::spawn(async move {
                let mut connection = server::handshake(stream).await.unwrap();
                while let Some(Ok((request, respond))) = connection.accept().await {
                    tokio::spawn(answer(request, respond, told.clone()));
                }
            });
        }
    });
    (address, heard)
}

async fn answer(
    request: Request<RecvStream>,
    mut respond: server::SendResponse<Bytes>,
    told: Heard,
) {
    assert!(request.headers().get("grpc-timeout").is_none());
    let (head, mut body) = request.into_parts();
    let Ok(data) = whole(&mut body).await else { return };
    told.lock().unwrap().push(String::from_utf8_lossy(&data[..data.len().min(40)]).into_owned());
    let response = Response::builder().header("x-echo", &head.headers["x-call"]);
    let Ok(mut sent) = respond.send_response(response.body(()).unwrap(), false) else { return };
    let _ = sent.send_data(data.into(), false);
    let mut trailers = HeaderMap::new();
    trailers.insert("grpc-status", "0".parse().unwrap());
    trailers.insert("x-trailer", head.headers["x-call"].clone());
    let _ = sent.send_trailers(trailers);
}

async fn whole(body: &mut RecvStream) -> Result<Vec<u8>, h2::Error> {
    let mut all = Vec::new();
    while let Some(part) = body.data().await {
        let part = part?;
        body.flow_control().release_capacity(part.len())?;
        all.extend_from_slice(&part);
    }
    Ok(all)
}

async fn connect(proxy: &Proxy) -> SendRequest<Bytes> {
    let stream = TcpStream::connect(proxy.addr()).await.unwrap();
    let (client, connection) = client::handshake(stream).await.unwrap();
    tokio::spawn(connection);
    client.ready().await.unwrap()
}

/// A call of a method with data; what comes back must be its own.
async fn call(client: &SendRequest<Bytes>, method: &str, data: Vec<u8>) -> Result<(), h2::Error> {
    let mut client = client.clone().ready().await?;
    let word = format!("{method}-{}", String::from_utf8_lossy(&data[..data.len().min(40)]));
    let request = Request::post(format!("http://host/etcdserverpb.KV/{method}"))
        .header("x-call", &word)
        .header("x-same", "the same in every call")
        .header("grpc-timeout", "1S")
        .body(())
        .unwrap();
    let (response, mut sent) = client.send_request(request, false)?;
    sent.send_data(data.clone().into(), false)?;
    sent.send_data(Bytes::new(), true)?;
    let mut response = response.await?;
    assert_eq!(response.headers()["x-echo"], word);
    let body = response.body_mut();
    assert_eq!(whole(body).await?, data);
    let trailers = body.trailers().await?.unwrap();
    assert_eq!(trailers["x-trailer"], word);
    Ok(())
}

async fn setting() -> (Proxy, SendRequest<Bytes>, Heard) {
    let (address, heard) = server().await;
    let proxy = Proxy::start(address, Framing::Grpc).await.unwrap();
    let client = connect(&proxy).await;
    (proxy, client, heard)
}

fn bytes(text: &str) -> Vec<u8> {
    text.as_bytes().to_vec()
}

async fn never(call: impl Future<Output = Result<(), h2::Error>>) {
    assert!(tokio::time::timeout(SECOND / 20, call).await.is_err());
}

#[tokio::test]
async fn calls_pass_and_are_counted_once_each_way() {
    let (proxy, client, _) = setting().await;
    for n in 0..50 {
        call(&client, "Put", bytes(&format!("value {n}"))).await.unwrap();
    }
    call(&client, "Range", vec![b'x'; 200_000]).await.unwrap();
    let counts = proxy.counts();
    assert_eq!((counts.to_server.messages, counts.to_client.messages), (51, 51));
    assert!(counts.to_server.bytes > 200_000 && counts.to_client.bytes > 200_000);
    assert_eq!((counts.accepted, counts.to_client.dropped), (1, 0));
}

#[tokio::test]
async fn lost_answers_and_requests_leave_other_calls_alone() {
    let (proxy, client, heard) = setting().await;
    for n in 0..30 {
        let (word, other) = (format!("lost {n}"), format!("kept {n}"));
        let (direction, reaches) = if n % 2 == 0 { (ToClient, true) } else { (ToServer, false) };
        let rule = proxy.on(direction, Match::contains(word.as_bytes()), Action::Drop);
        never(call(&client, "Txn", bytes(&word))).await;
        call(&client, "Txn", bytes(&other)).await.unwrap();
        assert_eq!(rule.count(), 1);
        assert_eq!(heard.lock().unwrap().contains(&word), reaches);
    }
}

#[tokio::test]
async fn what_is_lost_closes_no_window() {
    let (proxy, client, _) = setting().await;
    for direction in [ToClient, ToServer] {
        // Each alone fills most of a connection's window.
        for _ in 0..8 {
            proxy.on(direction, Match::command("Put"), Action::Drop);
            never(call(&client, "Put", vec![b'x'; 50_000])).await;
        }
        call(&client, "Put", vec![b'y'; 50_000]).await.unwrap();
    }
}

#[tokio::test]
async fn a_held_call_is_overtaken_and_arrives_whole() {
    let (proxy, client, heard) = setting().await;
    for direction in [ToServer, ToClient] {
        proxy.on(direction, Match::command("Txn"), Action::Hold);
        let held = client.clone();
        let held = tokio::spawn(async move { call(&held, "Txn", vec![b'h'; 40_000]).await });
        proxy.held(direction, 1).await;
        for n in 0..20 {
            call(&client, "Txn", bytes(&format!("overtakes {n}"))).await.unwrap();
        }
        assert!(!held.is_finished());
        assert_eq!(proxy.deliver(direction), 1);
        held.await.unwrap().unwrap();
    }
    let heard = heard.lock().unwrap();
    assert_eq!(heard.iter().filter(|word| word.starts_with('h')).count(), 2);
    assert!(heard[20].starts_with('h'), "the held request came last");
}

#[tokio::test]
async fn a_held_request_that_is_taken_back_takes_effect_if_delivered() {
    let (proxy, client, heard) = setting().await;
    for n in 0..20 {
        let word = format!("late {n}");
        proxy.on(ToServer, Match::contains(word.as_bytes()), Action::Hold);
        let answer = proxy.on(ToClient, Match::contains(word.as_bytes()), Action::Pass);
        // Its drop resets the stream.
        never(call(&client, "Txn", bytes(&word))).await;
        call(&client, "Txn", bytes("between")).await.unwrap();
        assert!(!heard.lock().unwrap().contains(&word));
        assert_eq!(proxy.deliver(ToServer), 1);
        answer.fired().await;
        assert!(heard.lock().unwrap().contains(&word));
        call(&client, "Txn", bytes("after")).await.unwrap();
        // Never: the server sees that it was taken back.
        let word = format!("never {n}");
        proxy.on(ToServer, Match::contains(word.as_bytes()), Action::Hold);
        never(call(&client, "Txn", bytes(&word))).await;
        assert_eq!(proxy.discard(ToServer), 1);
        call(&client, "Txn", bytes("after")).await.unwrap();
        assert!(!heard.lock().unwrap().contains(&word));
    }
    assert_eq!(proxy.counts().accepted, 1);
}

#[tokio::test]
async fn faults_by_chance_mix_up_nothing() {
    let (proxy, client, _) = setting().await;
    let jitter = Action::Jitter(Duration::ZERO, Duration::from_millis(5));
    proxy.set(ToServer, jitter);
    proxy.set(ToClient, jitter);
    for direction in [ToServer, ToClient] {
        let some = Match::when(|message| message.number % 7 == 3).always();
        proxy.on(direction, some, Action::Drop);
    }
    let calls = (0..200).map(|n| {
        let client = client.clone();
        async move {
            let data = vec![b'a' + (n % 26) as u8; 1 + n * 37 % 3000];
            let called = call(&client, "Put", data);
            tokio::time::timeout(2 * SECOND, called).await.map(Result::unwrap).is_ok()
        }
    });
    let answered = futures_util::future::join_all(calls).await;
    let answered = answered.into_iter().filter(|answered| *answered).count();
    assert!((100..200).contains(&answered), "{answered}");
    proxy.heal();
    call(&client, "Put", bytes("all is well")).await.unwrap();
}
