//! Tasks use the I/O, timers and channels of a tokio runtime.

use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use zerolag_runtime::{Builder, Runtime};

fn tokio_with(threads: usize) -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_multi_thread().worker_threads(threads).enable_all().build().expect("threads")
}

fn beside(tokio: &tokio::runtime::Runtime) -> Runtime {
    Builder::new().cpus(2).reactor(tokio.handle().clone()).build().expect("threads")
}

#[test]
fn sockets_echo() {
    let tokio = tokio_with(1);
    let rt = beside(&tokio);
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
        client.shutdown().await.expect("open until here");
        let mut text = String::new();
        client.read_to_string(&mut text).await.expect("some text");
        server.expect("room").await.expect("a result");
        text
    });
    assert_eq!(rt.block_on(echoed.expect("room")).expect("a result"), "of what");
}

#[test]
fn timers_and_channels_work() {
    let tokio = tokio_with(1);
    let rt = beside(&tokio);
    let task = rt.spawn(async {
        let (send, mut receive) = tokio::sync::mpsc::channel(1);
        let sends = tokio::spawn(async move {
            for n in 0..100 {
                send.send(n).await.expect("it receives");
            }
        });
        let mut sum = 0;
        while let Some(n) = receive.recv().await {
            sum += n;
        }
        sends.await.expect("a result");
        let waits = tokio::time::timeout(Duration::from_millis(5), std::future::pending::<()>());
        assert!(waits.await.is_err());
        sum
    });
    assert_eq!(rt.block_on(task.expect("room")).expect("a result"), 4950);
}

/// A poll that loses its CPU goes on in the context, and so does the thread that takes the CPU
/// over; functions of `spawn_blocking` have it as well, and `block_on`.
#[test]
fn every_thread_is_in_the_context() {
    let tokio = tokio_with(1);
    let rt = Builder::new().cpus(1).reactor(tokio.handle().clone()).build().expect("threads");
    let is_over = Arc::new(std::sync::atomic::AtomicBool::new(false));
    let over = Arc::clone(&is_over);
    let stubborn = rt.spawn(async move {
        while !over.load(std::sync::atomic::Ordering::Relaxed) {
            std::hint::spin_loop();
        }
        tokio::time::sleep(Duration::from_millis(1)).await;
    });
    let other = rt.spawn(async move {
        tokio::time::sleep(Duration::from_millis(1)).await;
        is_over.store(true, std::sync::atomic::Ordering::Relaxed);
    });
    rt.block_on(other.expect("room")).expect("a result");
    rt.block_on(stubborn.expect("room")).expect("a result");
    let within = rt.spawn_blocking(|| tokio::runtime::Handle::try_current().is_ok());
    assert!(rt.block_on(within.expect("room")).expect("a result"));
    rt.block_on(async { tokio::time::sleep(Duration::from_millis(1)).await });
}

/// The waker of a task is called by tokio's threads, whatever flavour the runtime has.
#[test]
fn a_current_thread_runtime_drives_it_too() {
    let tokio = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("drivers");
    let rt = beside(&tokio);
    let task = rt.spawn(async {
        tokio::time::sleep(Duration::from_millis(2)).await;
        7
    });
    assert_eq!(tokio.block_on(task.expect("room")).expect("a result"), 7);
}

/// Eight clients of a group with a limit of 0.2 CPUs, each of which sends its next request after an
/// answer: together they want more than the limit, so they wait, but for some periods and not for
/// seconds. The clients block in system calls, as slow networks make them.
#[test]
fn clients_of_a_limited_group_do_not_stall() {
    use std::io::{Read, Write};
    let tokio = tokio_with(1);
    let rt = beside(&tokio);
    let tenant = rt.group("tenant").quota(0.2).period(Duration::from_millis(20)).create().expect("a group");
    let (send, at) = std::sync::mpsc::channel();
    let serves = tenant.clone().spawn(async move {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        send.send(listener.local_addr().expect("an address")).expect("the test waits");
        let mut connections = Vec::new();
        for _ in 0..8 {
            let (mut socket, _) = listener.accept().await.expect("a client");
            let serve = tenant.spawn(async move {
                let mut byte = [0];
                while socket.read_exact(&mut byte).await.is_ok() {
                    let mut sum = 0_u64;
                    for n in 0..400_000_u64 {
                        sum = std::hint::black_box(sum.wrapping_add(n));
                    }
                    socket.write_all(&byte).await.expect("the client reads");
                }
            });
            connections.push(serve.expect("room"));
        }
        for connection in connections {
            connection.await.expect("a result");
        }
    });
    let at = at.recv().expect("an address");
    let clients: Vec<_> = (0..8)
        .map(|_| {
            std::thread::spawn(move || {
                let mut socket = std::net::TcpStream::connect(at).expect("a server");
                socket.set_nodelay(true).expect("a socket");
                socket.set_read_timeout(Some(Duration::from_secs(2))).expect("a socket");
                for n in 0..60_u8 {
                    socket.write_all(&[n]).expect("the server reads");
                    let mut byte = [0];
                    socket.read_exact(&mut byte).expect("an answer within 2 s");
                    assert_eq!(byte, [n]);
                }
            })
        })
        .collect();
    for client in clients {
        client.join().expect("it did not stall");
    }
    rt.block_on(serves.expect("room")).expect("a result");
}

/// A future that counts its polls.
struct Counted<F>(std::pin::Pin<Box<F>>, Arc<std::sync::atomic::AtomicUsize>);

impl<F: Future> Future for Counted<F> {
    type Output = F::Output;

    fn poll(mut self: std::pin::Pin<&mut Self>, cx: &mut std::task::Context<'_>) -> std::task::Poll<F::Output> {
        self.1.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        self.0.as_mut().poll(cx)
    }
}

/// A channel with a backlog: a poll takes as many messages as in a task of tokio (128), and has as
/// many again next time. Such a poll did not end before the backlog.
#[test]
fn a_poll_has_the_budget_of_a_task_of_tokio() {
    const MESSAGES: usize = 10_000;
    let tokio = tokio_with(1);
    let rt = beside(&tokio);
    let receive = || {
        let (send, mut receive) = tokio::sync::mpsc::unbounded_channel();
        (0..MESSAGES).for_each(|n| send.send(n).expect("it is open"));
        drop(send);
        let polls = Arc::new(std::sync::atomic::AtomicUsize::new(0));
        let received = async move {
            let mut count = 0;
            while receive.recv().await.is_some() {
                count += 1;
            }
            count
        };
        (Counted(Box::pin(received), Arc::clone(&polls)), polls)
    };
    let (theirs, expected) = receive();
    assert_eq!(tokio.block_on(tokio.spawn(theirs)).expect("a result"), MESSAGES);
    let expected = expected.load(std::sync::atomic::Ordering::Relaxed);
    let tasks: Vec<_> = (0..4)
        .map(|_| {
            let (ours, polls) = receive();
            (rt.spawn(ours).expect("room"), polls)
        })
        .collect();
    for (task, polls) in tasks {
        assert_eq!(rt.block_on(task).expect("a result"), MESSAGES);
        let polls = polls.load(std::sync::atomic::Ordering::Relaxed);
        // Of the budget of 128 one part restores it.
        assert!((expected..=expected + expected / 50 + 1).contains(&polls), "{polls} polls, {expected} of tokio");
    }
}
