use std::time::Duration;
use tenants::{Builder, Group, GroupLayer, spawn};

type Request = http::Request<String>;

async fn handle(request: Request) -> Result<http::Response<String>, std::convert::Infallible> {
    let group = Group::current().expect("a request is served in a group");
    let part = spawn(async move { request.body().to_uppercase() }).expect("a group");
    let body = group.wrap(async move { part.await.expect("a result") }).await;
    let blocking = group.spawn_blocking(move || format!("{body} in {}", Group::current().expect("a group").path()));
    Ok(http::Response::new(blocking.expect("a thread").await.expect("a result")))
}

/// Serves a request of each tenant; returns the responses, and the tenants that used CPU time.
pub(super) fn serve(tokio: &tokio::runtime::Runtime) -> (Vec<String>, Vec<String>) {
    let rt = Builder::new().reactor(tokio.handle().clone()).build().expect("threads");
    let tenant = |request: &Request| request.headers()["x-tenant"].to_str().expect("text").to_owned();
    let layer = GroupLayer::by(rt.root(), tenant)
        .group(|name, group| match name.as_str() {
            "gold" => group.weight(1000),
            _ => group.quota(0.4).period(Duration::from_millis(50)).burst(Duration::from_millis(10)),
        })
        .concurrency(4)
        .queue(16)
        .idle(Duration::from_secs(5));
    let service = tower::Layer::layer(&layer, tower::service_fn(handle));
    let served = tokio.block_on(async {
        let mut served = Vec::new();
        for name in ["gold", "free"] {
            let request = http::Request::builder().header("x-tenant", name).body(format!("from {name}"));
            let response = tower::ServiceExt::oneshot(service.clone(), request.expect("a request")).await;
            served.push(response.expect("infallible").into_body());
        }
        served
    });
    let acme = rt.group("acme").weight(50).create().expect("a group");
    acme.set_quota(Some(0.5)).expect("in range");
    acme.set_weight(70).expect("in range");
    assert_eq!(tokio.block_on(acme.spawn(async { 7 }).expect("a task")).expect("a result"), 7);
    drop(acme.spawn(std::future::pending::<()>()).expect("a task").abort_on_drop());
    let used = rt.usage().into_iter().filter(|(_, usage)| !usage.cpu.is_zero() && usage.throttled().is_zero());
    (served, used.map(|(path, _)| path).collect())
}
