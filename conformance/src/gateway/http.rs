//! One request over HTTP/1.0: its answer ends where the connection does, so that there is no
//! framing to get wrong.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// An answer.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Answer {
    pub(super) status: u16,
    pub(super) body: String,
}

/// Asks, with a body or without; the whole takes at most `limit`.
pub(super) async fn ask(
    address: SocketAddr,
    method: &str,
    path: &str,
    headers: &[(&str, &str)],
    body: &str,
    limit: Duration,
) -> io::Result<Answer> {
    let mut request = format!("{method} {path} HTTP/1.0\r\nContent-Length: {}\r\n", body.len());
    for (name, value) in headers {
        request.push_str(&format!("{name}: {value}\r\n"));
    }
    request.push_str(&format!("\r\n{body}"));
    let asked = async {
        let mut stream = TcpStream::connect(address).await?;
        stream.write_all(request.as_bytes()).await?;
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).await?;
        parse(&answer)
    };
    match tokio::time::timeout(limit, asked).await {
        Ok(answer) => answer,
        Err(_) => Err(io::Error::new(io::ErrorKind::TimedOut, format!("no answer in {limit:?}"))),
    }
}

fn parse(answer: &[u8]) -> io::Result<Answer> {
    let malformed = || io::Error::new(io::ErrorKind::UnexpectedEof, "the answer is cut off");
    let text = str::from_utf8(answer).map_err(io::Error::other)?;
    let (head, body) = text.split_once("\r\n\r\n").ok_or_else(malformed)?;
    let mut lines = head.lines();
    let status = lines.next().and_then(|line| line.split(' ').nth(1)?.parse().ok());
    let status = status.ok_or_else(malformed)?;
    let length = lines.filter_map(|line| line.split_once(':')).find_map(|(name, value)| {
        let ours = name.eq_ignore_ascii_case("content-length");
        ours.then(|| value.trim().parse::<usize>().ok()).flatten()
    });
    if length.is_some_and(|length| length != body.len()) {
        return Err(malformed());
    }
    Ok(Answer { status, body: body.to_owned() })
}

#[cfg(test)]
mod tests {
    use super::{Answer, parse};

    #[test]
    fn an_answer_is_whole_or_an_error() {
        let whole = b"HTTP/1.0 200 OK\r\ncontent-length: 2\r\n\r\n{}";
        assert_eq!(parse(whole).unwrap(), Answer { status: 200, body: "{}".into() });
        for length in 0..whole.len() {
            assert!(parse(&whole[..length]).is_err(), "{length}");
        }
        let unsized_ = b"HTTP/1.0 503 Service Unavailable\r\n\r\n";
        assert_eq!(parse(unsized_).unwrap(), Answer { status: 503, body: String::new() });
    }
}
