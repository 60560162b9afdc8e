//! Requests below tower: each is served in the group of its tenant, within the tenant's bounds.
#![expect(clippy::disallowed_methods, reason = "the runtime schedules by the real clock")]

mod common;

use common::{Gate, ms, pass};
use http::{Response, StatusCode, header::RETRY_AFTER};
use std::convert::Infallible;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};
use tower::{Layer, Service, ServiceExt, service_fn};
use zerolag_runtime::model::Nice;
use zerolag_runtime::{Builder, GroupLayer, Runtime, checkpoint};

/// The name of a tenant.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
struct Of(&'static str);

impl fmt::Display for Of {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }
}

/// Tenant and work.
type Request = (Of, Gate);
type Tenants = GroupLayer<Request, Response<String>, Of>;

fn tenants(rt: &Runtime) -> Tenants {
    GroupLayer::by(rt.root(), |request: &Request| request.0)
}

/// A service that waits for the gate of its request.
fn serve(
    layer: &Tenants,
) -> impl Service<Request, Response = Response<String>, Error = Infallible, Future: Send> + Clone + Send + use<> {
    layer.layer(service_fn(|(name, gate): Request| async move {
        pass(gate).await;
        Ok(Response::new(name.to_string()))
    }))
}

fn open() -> Gate {
    let gate = Gate::new();
    gate.open();
    gate
}

fn names(layer: &Tenants) -> Vec<&'static str> {
    layer.usage().into_iter().map(|(name, _)| name.0).collect()
}

#[test]
fn groups_arise_on_demand() {
    let rt = Builder::new().cpus(2).build().expect("threads");
    let layer = tenants(&rt).task(|request, task| task.name(request.0.0).nice(Nice::ZERO));
    let service = serve(&layer);
    for name in ["b", "a", "b"] {
        let response = rt.block_on(service.clone().oneshot((Of(name), open()))).expect("a response");
        assert_eq!((response.status(), response.body().as_str()), (StatusCode::OK, name));
    }
    assert_eq!(names(&layer), ["a", "b"]);
    // The task of a request is in its tenant's group.
    let gate = Gate::new();
    let (waits, held) = (service, gate.clone());
    let waits = rt.spawn(async move { waits.oneshot((Of("a"), held)).await.map(|_| ()) }).expect("room");
    let of_a = || rt.tasks().into_iter().find(|task| task.group == "/a");
    while of_a().is_none() {
        std::thread::sleep(ms(1));
    }
    assert_eq!(&*of_a().expect("it waits for the gate").name, "a");
    gate.open();
    rt.block_on(waits).expect("a result").expect("a response");
}

/// The group of a request is in its extensions, and in the task that serves it.
#[test]
fn a_handler_reaches_its_group() {
    let rt = Builder::new().cpus(1).build().expect("threads");
    type Asked = http::Request<()>;
    let layer: GroupLayer<Asked, Response<String>, String> =
        GroupLayer::by(rt.root(), |request: &Asked| request.uri().path()[1..].to_owned()).extension();
    let service = layer.layer(service_fn(|request: Asked| async move {
        let given = request.extensions().get::<zerolag_runtime::Group>().map(|group| group.path());
        let task = zerolag_runtime::spawn(async { zerolag_runtime::Group::current().map(|group| group.path()) });
        let inherited = task.expect("room").await.expect("a result");
        Ok::<_, Infallible>(Response::new(format!("{given:?} {inherited:?}")))
    }));
    let request = http::Request::builder().uri("/acme").body(()).expect("a request");
    let response = rt.block_on(service.oneshot(request)).expect("a response");
    assert_eq!(response.body(), r#"Some("/acme") Some("/acme")"#);
}

/// One slot, one place in the queue: the third request is shed, and other tenants are served.
#[test]
fn a_full_queue_sheds() {
    let rt = Builder::new().cpus(2).build().expect("threads");
    let layer = tenants(&rt).concurrency(1).queue(1);
    let service = serve(&layer);
    let gate = Gate::new();
    rt.block_on(async {
        let mut first = Box::pin(service.clone().oneshot((Of("a"), gate.clone())));
        let mut second = Box::pin(service.clone().oneshot((Of("a"), open())));
        for waits in [&mut first, &mut second] {
            assert!(futures_util::poll!(waits.as_mut()).is_pending());
        }
        let third = service.clone().oneshot((Of("a"), open())).await.expect("a response");
        assert_eq!(third.status(), StatusCode::SERVICE_UNAVAILABLE);
        let seconds = third.headers()[RETRY_AFTER].to_str().expect("digits").parse::<u64>().expect("digits");
        assert!((1..=60).contains(&seconds), "{seconds}");
        let other = service.clone().oneshot((Of("b"), open())).await.expect("a response");
        assert_eq!(other.status(), StatusCode::OK);
        // A request that gives up makes room in the queue.
        drop(second);
        let mut fourth = Box::pin(service.clone().oneshot((Of("a"), open())));
        assert!(futures_util::poll!(fourth.as_mut()).is_pending());
        gate.open();
        assert_eq!(first.await.expect("a response").status(), StatusCode::OK);
        assert_eq!(fourth.await.expect("a response").status(), StatusCode::OK);
    });
}

/// The caller goes away: the task ends, and its slot is free.
#[test]
fn a_request_without_a_caller_is_aborted() {
    let rt = Builder::new().cpus(1).build().expect("threads");
    let layer = tenants(&rt).concurrency(1).queue(1);
    let service = serve(&layer);
    rt.block_on(async {
        let mut first = Box::pin(service.clone().oneshot((Of("a"), Gate::new())));
        assert!(futures_util::poll!(first.as_mut()).is_pending());
        drop(first);
        let second = service.clone().oneshot((Of("a"), open())).await.expect("a response");
        assert_eq!(second.status(), StatusCode::OK);
    });
}

#[test]
fn idle_groups_are_collected() {
    let rt = Builder::new().cpus(1).groups(4).build().expect("threads");
    let layer = tenants(&rt).idle(Duration::ZERO);
    let service = serve(&layer);
    let gate = Gate::new();
    rt.block_on(async {
        let mut busy = Box::pin(service.clone().oneshot((Of("busy"), gate.clone())));
        assert!(futures_util::poll!(busy.as_mut()).is_pending());
        // Far more tenants than groups, one after the other.
        for name in ["a", "b", "c", "d", "e", "f"] {
            let response = service.clone().oneshot((Of(name), open())).await.expect("a response");
            assert_eq!(response.status(), StatusCode::OK, "{name}");
        }
        assert_eq!(names(&layer), ["busy", "f"]);
        assert_eq!((layer.collect(), names(&layer)), (1, vec!["busy"]));
        gate.open();
        busy.await.expect("a response");
        assert_eq!(layer.collect(), 1);
    });
    // All groups have been given back.
    for n in 0..3 {
        rt.group(n.to_string()).create().map(std::mem::forget).expect("room");
    }
}

/// The tenant that was seen last is the one that stays, unless all have requests.
#[test]
fn tenants_are_bounded() {
    let rt = Builder::new().cpus(1).build().expect("threads");
    let layer = tenants(&rt).tenants(2).idle(Duration::from_secs(3600));
    let service = serve(&layer);
    let gate = Gate::new();
    rt.block_on(async {
        for name in ["a", "b", "a", "c"] {
            service.clone().oneshot((Of(name), open())).await.expect("a response");
        }
        assert_eq!(names(&layer), ["a", "c"]);
        let mut busy = ["a", "c"].map(|name| Box::pin(service.clone().oneshot((Of(name), gate.clone()))));
        for waits in &mut busy {
            assert!(futures_util::poll!(waits.as_mut()).is_pending());
        }
        let shed = service.clone().oneshot((Of("d"), open())).await.expect("a response");
        assert_eq!(shed.status(), StatusCode::SERVICE_UNAVAILABLE);
        gate.open();
        for waits in busy {
            waits.await.expect("a response");
        }
    });
}

/// Two tenants compute all the time, one of them weighs three times as much.
#[test]
fn tenants_share_by_weight() {
    let rt = Builder::new().cpus(1).build().expect("threads");
    let layer: GroupLayer<_, Response<String>, _> = GroupLayer::by(rt.root(), |name: &Of| *name)
        .group(|name, group| group.weight(if name.0 == "heavy" { 300 } else { 100 }))
        .concurrency(4);
    let over = Gate::new();
    let ends = over.clone();
    let service = layer.layer(service_fn(move |_| {
        let over = ends.clone();
        async move {
            while !over.is_open() {
                checkpoint().await;
            }
            Ok::<_, Infallible>(Response::new(String::new()))
        }
    }));
    let requests: Vec<_> = (0..8)
        .map(|n| {
            let service = service.clone();
            let name = Of(if n % 2 == 0 { "heavy" } else { "light" });
            rt.spawn(async move { service.oneshot(name).await.map(|_| ()) }).expect("room")
        })
        .collect();
    let used = || layer.usage().iter().map(|(_, usage)| usage.cpu).sum::<Duration>();
    while used() < ms(600) {
        std::thread::sleep(ms(1));
    }
    let usage = layer.usage();
    over.open();
    for request in requests {
        rt.block_on(request).expect("a result").expect("a response");
    }
    let ratio = usage[0].1.cpu.as_secs_f64() / usage[1].1.cpu.as_secs_f64();
    assert!((2.5..3.5).contains(&ratio), "{ratio}: {usage:?}");
}

#[test]
fn a_panic_is_the_callers() {
    let rt = Builder::new().cpus(1).build().expect("threads");
    let calls = Arc::new(AtomicUsize::new(0));
    let counts = Arc::clone(&calls);
    let layer: GroupLayer<_, Response<String>, _> = GroupLayer::by(rt.root(), |name: &Of| *name).concurrency(1);
    let service = layer.layer(service_fn(move |_| {
        let call = counts.fetch_add(1, Ordering::Relaxed);
        async move {
            assert!(call > 0, "on purpose");
            Ok::<_, Infallible>(Response::new(String::new()))
        }
    }));
    let first = service.clone();
    let panics = rt.spawn(async move { first.oneshot(Of("a")).await.map(|_| ()) }).expect("room");
    let error = rt.block_on(panics).expect_err("it panicked");
    assert_eq!(error.to_string(), "the task panicked: on purpose");
    let second = rt.block_on(service.oneshot(Of("a"))).expect("a response");
    assert_eq!(second.status(), StatusCode::OK);
}

#[test]
fn an_ended_runtime_and_a_wrong_group_shed() {
    let rt = Builder::new().cpus(1).build().expect("threads");
    let other = Builder::new().cpus(1).build().expect("threads");
    let layer = tenants(&rt).group(|name, group| group.weight(if name.0 == "wrong" { 0 } else { 1 }));
    let service = serve(&layer);
    let refused = other.block_on(service.clone().oneshot((Of("wrong"), open()))).expect("a response");
    assert_eq!(refused.status(), StatusCode::SERVICE_UNAVAILABLE);
    let began = Instant::now();
    let _ = rt.shutdown(ms(1));
    let ended = other.block_on(service.oneshot((Of("a"), open()))).expect("a response");
    assert_eq!(ended.status(), StatusCode::SERVICE_UNAVAILABLE);
    assert!(began.elapsed() < Duration::from_secs(10));
}

/// A request says how long its client waits: it is shed at once if the queue is longer, its task is
/// aborted when the time has passed, and an urgent one runs at a better nice value.
#[test]
fn deadlines_shed_and_order() {
    let rt = Builder::new().cpus(1).build().expect("threads");
    let layer = tenants(&rt).concurrency(1).queue(8).deadline(|request| (request.0.0 != "patient").then(|| ms(30)));
    let service = serve(&layer);
    rt.block_on(async {
        // It does not end by itself.
        let late = service.clone().oneshot((Of("a"), Gate::new())).await.expect("a response");
        assert_eq!(late.status(), StatusCode::SERVICE_UNAVAILABLE);
        // Its slot is free again once its task has been dropped.
        let next = service.clone().oneshot((Of("a"), open())).await.expect("a response");
        assert_eq!(next.status(), StatusCode::OK);
        let gate = Gate::new();
        let mut patient = Box::pin(service.clone().oneshot((Of("patient"), gate.clone())));
        assert!(futures_util::poll!(patient.as_mut()).is_pending());
        std::thread::sleep(ms(40));
        assert!(futures_util::poll!(patient.as_mut()).is_pending(), "no deadline, no end");
        gate.open();
        assert_eq!(patient.await.expect("a response").status(), StatusCode::OK);
    });
    // A request takes 100 ms in its slot, by the mean so far: one behind it is not served in 30 ms.
    let layer = tenants(&rt).concurrency(1).queue(8).deadline(|_| Some(ms(5_000)));
    let slow = layer.layer(service_fn(|_: Request| async {
        std::thread::sleep(ms(100));
        Ok::<_, Infallible>(Response::new(String::new()))
    }));
    rt.block_on(slow.oneshot((Of("slow"), open()))).expect("a response");
    let urgent = tenants(&rt).concurrency(1).queue(8);
    let urgent = urgent.deadline(|request| if request.1.is_open() { Some(ms(30)) } else { None });
    let service = urgent.layer(service_fn(|(_, gate): Request| async move {
        pass(gate).await;
        Ok::<_, Infallible>(Response::new(String::new()))
    }));
    rt.block_on(async {
        let first = Gate::new();
        let held = first.clone();
        let mut slot = Box::pin(service.clone().oneshot((Of("b"), held)));
        assert!(futures_util::poll!(slot.as_mut()).is_pending());
        std::thread::sleep(ms(150));
        first.open();
        slot.await.expect("a response");
        let second = Gate::new();
        let mut slot = Box::pin(service.clone().oneshot((Of("b"), second.clone())));
        assert!(futures_util::poll!(slot.as_mut()).is_pending());
        let began = Instant::now();
        let shed = service.clone().oneshot((Of("b"), open())).await.expect("a response");
        assert_eq!(shed.status(), StatusCode::SERVICE_UNAVAILABLE);
        assert!(began.elapsed() < ms(30), "it did not wait for its deadline");
        second.open();
        slot.await.expect("a response");
    });
}

#[test]
fn a_deadline_in_a_header() {
    let request = |value: &str| http::Request::builder().header("x-deadline-ms", value).body(()).expect("a request");
    let read = |value: &str| zerolag_runtime::deadline_in(request(value).headers(), "x-deadline-ms");
    assert_eq!((read("250"), read(" 7 "), read("soon"), read("-1")), (Some(ms(250)), Some(ms(7)), None, None));
    assert_eq!(zerolag_runtime::deadline_in(request("1").headers(), "x-other"), None);
}
