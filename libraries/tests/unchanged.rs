//! reqwest, tonic and sqlx in tasks of the scheduler, beside a tokio runtime with one thread. Each
//! works as its documentation says; a tenant that never yields uses up its limit meanwhile.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use zerolag_runtime::{Builder, Group, Runtime};

/// A tokio runtime for sockets and timers, the scheduler beside it, and two tenants: one in which
/// the library is used, and one that computes without end.
struct Beside {
    group: Group,
    noisy: Group,
    rt: Runtime,
    over: Arc<AtomicBool>,
    _tokio: tokio::runtime::Runtime,
}

fn beside_a_noisy_tenant() -> Beside {
    let tokio = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().expect("threads");
    let rt = Builder::new().cpus(2).reactor(tokio.handle().clone()).build().expect("threads");
    let group = rt.group("tenant").quota(0.5).create().expect("a group");
    let noisy = rt.group("noisy").quota(0.3).period(Duration::from_millis(20)).create().expect("a group");
    let over = Arc::new(AtomicBool::new(false));
    for _ in 0..2 {
        let over = Arc::clone(&over);
        let burns = noisy.spawn(async move {
            while !over.load(Ordering::Relaxed) {
                std::hint::spin_loop();
            }
        });
        burns.expect("room");
    }
    Beside { group, noisy, rt, over, _tokio: tokio }
}

impl Beside {
    /// Runs a future as a task of the tenant, and checks that its group and no other is charged.
    fn run<T: Send + 'static>(self, future: impl Future<Output = T> + Send + 'static) -> T {
        let task = self.group.spawn(future).expect("room");
        let result = self.rt.block_on(task).expect("it does not panic");
        self.over.store(true, Ordering::Relaxed);
        assert!(self.group.usage().cpu > Duration::ZERO, "its polls are charged to its group");
        assert!(self.noisy.usage().cpu > Duration::ZERO, "the noisy tenant ran beside it");
        result
    }
}

/// A client with a pool of connections, time limits and streamed bodies, and an axum server; both
/// in tasks of the tenant.
#[test]
fn reqwest_fetches_from_axum() {
    use axum::body::Bytes;
    use axum::routing::{get, post};

    let beside = beside_a_noisy_tenant();
    let tenant = beside.group.clone();
    let sum = beside.run(async move {
        let app = axum::Router::new()
            .route("/double", post(|body: Bytes| async move { [&body[..], &body[..]].concat() }))
            .route("/never", get(std::future::pending::<()>));
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let at = listener.local_addr().expect("an address");
        let server = tenant.spawn(async move { axum::serve(listener, app).await }).expect("room").abort_on_drop();

        let client = reqwest::Client::builder().no_proxy().build().expect("a client");
        let mut requests = Vec::new();
        for n in 0..16 {
            let (client, url) = (client.clone(), format!("http://{at}/double"));
            let request = tenant.spawn(async move {
                let mut answer = client.post(url).body(vec![n; 100_000]).send().await.expect("an answer");
                let mut length = 0;
                while let Some(part) = answer.chunk().await.expect("a part of the body") {
                    assert!(part.iter().all(|byte| *byte == n));
                    length += part.len();
                }
                length
            });
            requests.push(request.expect("room"));
        }
        let mut sum = 0;
        for request in requests {
            sum += request.await.expect("it does not panic");
        }
        let never = client.get(format!("http://{at}/never")).timeout(Duration::from_millis(50)).send().await;
        assert!(never.expect_err("no answer").is_timeout());
        drop(server);
        sum
    });
    assert_eq!(sum, 16 * 2 * 100_000);
}

/// Calls and a stream of answers over HTTP/2, whose connections tonic gives to `tokio::spawn`.
#[test]
fn tonic_calls_and_streams() {
    use tokio_stream::StreamExt;
    use tonic_health::ServingStatus;
    use tonic_health::pb::HealthCheckRequest;
    use tonic_health::pb::health_client::HealthClient;

    let beside = beside_a_noisy_tenant();
    let tenant = beside.group.clone();
    let seen = beside.run(async move {
        let (reporter, service) = tonic_health::server::health_reporter();
        reporter.set_service_status("store", ServingStatus::Serving).await;
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let at = listener.local_addr().expect("an address");
        let incoming = tokio_stream::wrappers::TcpListenerStream::new(listener);
        let server = tonic::transport::Server::builder().add_service(service).serve_with_incoming(incoming);
        let server = tenant.spawn(server).expect("room").abort_on_drop();

        let channel = tonic::transport::Endpoint::from_shared(format!("http://{at}")).expect("an address");
        let channel = channel.connect().await.expect("a server");
        let mut calls = Vec::new();
        for _ in 0..50 {
            let mut client = HealthClient::new(channel.clone());
            let call = tenant.spawn(async move {
                let request = HealthCheckRequest { service: "store".into() };
                client.check(request).await.expect("an answer").into_inner().status
            });
            calls.push(call.expect("room"));
        }
        for call in calls {
            assert_eq!(call.await.expect("it does not panic"), 1, "it serves");
        }
        let missing = HealthCheckRequest { service: "missing".into() };
        let error = HealthClient::new(channel.clone()).check(missing).await.expect_err("there is no such service");
        assert_eq!(error.code(), tonic::Code::NotFound);

        let request = HealthCheckRequest { service: "store".into() };
        let mut watch = HealthClient::new(channel).watch(request).await.expect("a stream").into_inner();
        let mut seen = Vec::new();
        for next in [ServingStatus::NotServing, ServingStatus::Serving] {
            seen.push(watch.next().await.expect("it goes on").expect("a status").status);
            reporter.set_service_status("store", next).await;
        }
        seen.push(watch.next().await.expect("it goes on").expect("a status").status);
        drop(server);
        seen
    });
    assert_eq!(seen, [1, 2, 1], "it served, stopped, and served again");
}

/// A pool of connections to SQLite, whose statements run on threads of sqlx; transactions that
/// commit and roll back, and a wait for a connection that ends in time.
#[test]
fn sqlx_queries_sqlite() {
    use sqlx::sqlite::SqlitePoolOptions;

    let beside = beside_a_noisy_tenant();
    let tenant = beside.group.clone();
    let sum = beside.run(async move {
        // A database in memory belongs to its connection, so there is one, and tasks wait for it.
        let pool = SqlitePoolOptions::new().max_connections(1).acquire_timeout(Duration::from_millis(500));
        let pool = pool.connect("sqlite::memory:").await.expect("a database");
        sqlx::query("CREATE TABLE numbers (n INTEGER NOT NULL)").execute(&pool).await.expect("a table");
        let mut inserts = Vec::new();
        for n in 1..=20_i64 {
            let pool = pool.clone();
            let insert = tenant.spawn(async move {
                let mut transaction = pool.begin().await.expect("a connection");
                sqlx::query("INSERT INTO numbers VALUES (?)").bind(n).execute(&mut *transaction).await.expect("a row");
                if n % 2 == 0 {
                    transaction.commit().await.expect("a commit");
                } else {
                    transaction.rollback().await.expect("the row is gone");
                }
            });
            inserts.push(insert.expect("room"));
        }
        for insert in inserts {
            insert.await.expect("it does not panic");
        }
        let held = pool.acquire().await.expect("a connection");
        assert!(matches!(pool.acquire().await, Err(sqlx::Error::PoolTimedOut)));
        drop(held);
        sqlx::query_scalar::<_, i64>("SELECT sum(n) FROM numbers").fetch_one(&pool).await.expect("a sum")
    });
    assert_eq!(sum, 2 + 4 + 6 + 8 + 10 + 12 + 14 + 16 + 18 + 20);
}
