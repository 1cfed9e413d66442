//! Servers that are none.

use std::net::SocketAddr;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

/// Answers whatever comes first on each connection with these bytes.
pub(crate) async fn answering(bytes: &'static [u8]) -> SocketAddr {
    let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let mut request = [0; 1024];
            if stream.read(&mut request).await.is_ok_and(|read| read > 0) {
                let _ = stream.write_all(bytes).await;
            }
        }
    });
    address
}

/// A port of 127.0.0.1 where nobody listens.
pub(crate) async fn closed() -> SocketAddr {
    TcpListener::bind(("127.0.0.1", 0)).await.unwrap().local_addr().unwrap()
}
