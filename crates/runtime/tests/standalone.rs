//! Sockets without tokio: `async-io` has a thread of its own, which waits for them and calls the
//! wakers of the tasks.

use smol::io::{AsyncReadExt, AsyncWriteExt};
use smol::net::{TcpListener, TcpStream};
use std::time::Duration;
use zerolag_runtime::{Builder, timeout};

#[test]
fn sockets_echo_without_tokio() {
    let rt = Builder::new().cpus(2).build().expect("threads");
    let tenant = rt.group("tenant").quota(0.5).create().expect("a group");
    let echoed = tenant.clone().spawn(async move {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let at = listener.local_addr().expect("an address");
        let server = tenant.spawn(async move {
            let (mut socket, _) = listener.accept().await.expect("a client");
            let mut text = Vec::new();
            socket.read_to_end(&mut text).await.expect("some text");
            socket.write_all(&text).await.expect("the client reads");
        });
        let mut client = TcpStream::connect(at).await.expect("a server");
        client.write_all(b"of what").await.expect("the server reads");
        client.shutdown(std::net::Shutdown::Write).expect("open until here");
        let mut text = String::new();
        client.read_to_string(&mut text).await.expect("some text");
        server.expect("room").await.expect("a result");
        // A socket without a client: the runtime's own timer ends the wait.
        let quiet = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        timeout(Duration::from_millis(5), quiet.accept()).await.expect_err("nobody connects");
        text
    });
    assert_eq!(rt.block_on(echoed.expect("room")).expect("a result"), "of what");
}
