//! An axum router whose requests are served in the groups of their tenants.

use axum::extract::{Extension, Request};
use axum::response::Response;
use axum::routing::get;
use axum::{Router, body::Body};
use http::StatusCode;
use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use tokio::sync::Semaphore;
use tower::ServiceExt;
use zerolag_tenants::{Builder, Group, GroupLayer, Runtime, spawn};

const fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

fn burn(time: Duration) {
    let used = || {
        let used = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
        Duration::new(used.tv_sec.unsigned_abs(), used.tv_nsec.unsigned_abs() as u32)
    };
    let end = used() + time;
    while used() < end {
        std::hint::spin_loop();
    }
}

fn tenant_of(request: &Request) -> String {
    request.headers().get("x-tenant").and_then(|name| name.to_str().ok()).unwrap_or("unknown").to_owned()
}

fn layer(rt: &Runtime) -> GroupLayer<Request, Response, String> {
    GroupLayer::by(rt.root(), tenant_of)
}

fn of(tenant: &str) -> Request {
    Request::builder().uri("/").header("x-tenant", tenant).body(Body::empty()).expect("a request")
}

async fn text(app: &Router, tenant: &str) -> (StatusCode, String) {
    let response = app.clone().oneshot(of(tenant)).await.expect("it is infallible");
    let status = response.status();
    let body = axum::body::to_bytes(response.into_body(), 1 << 20).await.expect("a body");
    (status, String::from_utf8(body.to_vec()).expect("text"))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn requests_are_charged_to_their_tenants() {
    let rt = Builder::new().build().expect("no second runtime");
    let handler = |Extension(group): Extension<Group>| async move {
        let part = spawn(async {
            burn(ms(5));
            Group::current().expect("a task stays in its group").path()
        });
        let path = part.expect("a group").await.expect("a result");
        burn(ms(5));
        format!("{path} {}", group.path())
    };
    let tenants = layer(&rt).extension();
    let app = Router::new().route("/", get(handler)).layer(tenants.clone());
    for _ in 0..3 {
        assert_eq!(text(&app, "a").await, (StatusCode::OK, "/a /a".to_owned()));
    }
    assert_eq!(text(&app, "b").await.1, "/b /b");
    let usage: Vec<_> = tenants.usage().into_iter().map(|(name, usage)| (name, usage.cpu)).collect();
    let (a, b) = (usage[0].1, usage[1].1);
    assert!(a >= ms(30) && b >= ms(10) && b < ms(20) && a < ms(45), "{usage:?}");
}

/// A tenant that had no request for a while, and a task that goes on: its next request does not get
/// a second group, whose quota would add up with that of the first.
#[tokio::test]
async fn a_tenant_has_one_group_as_long_as_a_task_of_it_lives() {
    let rt = Builder::new().build().expect("no second runtime");
    let handler = || async {
        drop(spawn(std::future::pending::<()>()).expect("a task of the tenant"));
        Group::current().expect("a request is in a group").path()
    };
    let made = rt.group("made").quota(0.3).create().expect("a group");
    let tenants = layer(&rt).group(|_, group| group.quota(0.2)).idle(Duration::ZERO);
    let app = Router::new().route("/", get(handler)).layer(tenants.clone());
    for tenant in ["a", "b", "a", "b", "made", "a"] {
        assert_eq!(text(&app, tenant).await.1, format!("/{tenant}"));
        tenants.collect();
    }
    assert!(tenants.usage().is_empty(), "the layer keeps none");
    let paths: Vec<String> = rt.groups().into_iter().map(|(path, _)| path).collect();
    assert_eq!(paths, ["/", "/a", "/b", "/made"]);
    assert_eq!(made.max().quota, Some(zerolag_tenants::model::Duration::from_millis(30)), "it keeps its limit");
}

/// 12 requests of 5 ms use 60 ms of a quota of 10 ms in 100 ms, and those of another tenant none.
#[tokio::test(start_paused = true)]
async fn a_tenant_waits_for_its_own_quota() {
    let rt = Builder::new().build().expect("no second runtime");
    let handler = async || {
        burn(ms(5));
        "done"
    };
    let tenants = layer(&rt).group(|name, group| if name == "noisy" { group.quota(0.1) } else { group });
    let app = Router::new().route("/", get(handler)).layer(tenants);
    let serve = |tenant: &'static str| {
        let app = app.clone();
        async move {
            let began = tokio::time::Instant::now();
            let requests: Vec<_> = (0..12).map(|_| tokio::spawn(app.clone().oneshot(of(tenant)))).collect();
            for request in requests {
                assert_eq!(request.await.expect("a result").expect("infallible").status(), StatusCode::OK);
            }
            began.elapsed()
        }
    };
    let (noisy, other) = tokio::join!(serve("noisy"), serve("other"));
    assert!(noisy >= ms(400), "{noisy:?}");
    assert!(other < ms(10), "{other:?}");
}

#[tokio::test]
async fn requests_wait_in_a_queue_and_are_shed() {
    let rt = Builder::new().build().expect("no second runtime");
    let (open, ran) = (Arc::new(Semaphore::new(0)), Arc::new(AtomicUsize::new(0)));
    let (gate, count) = (Arc::clone(&open), Arc::clone(&ran));
    let handler = move || {
        let (gate, count) = (Arc::clone(&gate), Arc::clone(&count));
        async move {
            count.fetch_add(1, Ordering::Relaxed);
            gate.acquire().await.expect("it is open").forget();
        }
    };
    let app = Router::new().route("/", get(handler)).layer(layer(&rt).concurrency(1).queue(1));
    let request = || tokio::spawn(app.clone().oneshot(of("a")));
    let (first, second) = (request(), request());
    for _ in 0..20 {
        tokio::task::yield_now().await;
    }
    let shed = request().await.expect("a result").expect("infallible");
    assert_eq!((shed.status(), shed.headers()["retry-after"].as_bytes()), (StatusCode::SERVICE_UNAVAILABLE, &b"1"[..]));
    // A client that goes away makes room.
    first.abort();
    assert!(first.await.is_err());
    open.add_permits(1);
    assert_eq!(second.await.expect("a result").expect("infallible").status(), StatusCode::OK);
    assert_eq!(ran.load(Ordering::Relaxed), 2);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn requests_can_be_served_on_the_second_runtime() {
    let rt = Builder::new().second_runtime(1, 10).build().expect("threads");
    let handler = async || std::thread::current().name().unwrap_or_default().to_owned();
    let tenants = layer(&rt).task(|request, task| if tenant_of(request) == "batch" { task.beside() } else { task });
    let app = Router::new().route("/", get(handler)).layer(tenants);
    assert_eq!(text(&app, "batch").await.1, "zerolag-beside");
    assert_ne!(text(&app, "web").await.1, "zerolag-beside");
}

fn is_send<F: Future + Send>(future: F) -> F {
    future
}

#[tokio::test]
async fn a_panic_is_the_callers() {
    let rt = Builder::new().build().expect("no second runtime");
    let handler = async || -> &'static str { std::panic::resume_unwind(Box::new("on purpose")) };
    let app = Router::new().route("/", get(handler)).layer(layer(&rt));
    let served = tokio::spawn(is_send(app.clone().oneshot(of("a")))).await;
    assert!(served.expect_err("it panics").is_panic());
    assert!(Group::current().is_none());
}
