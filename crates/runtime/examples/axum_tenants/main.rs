//! An axum server in which tenants share two CPUs by weight and quota, though the code of one never
//! yields; and a load generator.
//!
//! ```text
//! cargo run --release -p zerolag-runtime --example axum_tenants            # the server, on port 8080
//! cargo run --release -p zerolag-runtime --example axum_tenants load 5     # 5 s of load, a table
//! curl -H 'x-tenant: light-1' localhost:8080/compute/1000
//! curl localhost:8080/usage
//! ```
#![expect(clippy::disallowed_methods, reason = "it measures the real clock")]

mod load;

use axum::Router;
use axum::extract::{Path, Request};
use axum::routing::get;
use std::error::Error;
use std::net::SocketAddr;
use std::time::{Duration, Instant};
use tokio::net::TcpListener;
use zerolag_runtime::{Builder, GroupLayer};

const AT: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(std::net::Ipv4Addr::LOCALHOST), 8080);

/// Computes without yielding, as a parser or a query does.
async fn work(Path(us): Path<u64>) -> String {
    let began = Instant::now();
    while began.elapsed() < Duration::from_micros(us) {
        std::hint::spin_loop();
    }
    format!("computed for {us} us\n")
}

fn tenant_of(request: &Request) -> String {
    let name = request.headers().get("x-tenant").and_then(|name| name.to_str().ok());
    name.unwrap_or("unknown").to_owned()
}

fn main() -> Result<(), Box<dyn Error>> {
    let mut args = std::env::args().skip(1);
    match args.next().as_deref() {
        None => serve(),
        Some("load") => print_load(args.next().map_or(Ok(5), |seconds| seconds.parse())?),
        Some(other) => Err(format!("`{other}`: `load SECONDS`, or nothing for the server").into()),
    }
}

fn serve() -> Result<(), Box<dyn Error>> {
    // tokio does the I/O, on one thread; the scheduler runs the handlers, on two.
    let tokio = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
    let rt = Builder::new()
        .cpus(2)
        .reactor(tokio.handle().clone())
        .on_overrun(Duration::from_millis(20), |overrun| {
            eprintln!("a poll of {:?}: {}", overrun.length, overrun.task);
        })
        .build()?;
    let layer = GroupLayer::by(rt.root(), tenant_of)
        .group(|name, group| match name.as_str() {
            "noisy" => group.quota(0.5),
            _ => group.weight(1000),
        })
        .concurrency(8)
        .queue(32);
    let usage = layer.clone();
    let app = Router::new().route("/compute/{us}", get(work)).layer(layer).route(
        "/usage",
        get(move || {
            let lines = usage.usage().into_iter().map(|(name, usage)| {
                let (cpu, throttled) = (usage.cpu.as_secs_f64(), usage.throttled().as_secs_f64());
                format!("{name}: {cpu:.3} s of CPU time, throttled for {throttled:.3} s\n")
            });
            std::future::ready(lines.collect::<String>())
        }),
    );
    tokio.block_on(async {
        let listener = TcpListener::bind(AT).await?;
        println!("listening on {AT}; Ctrl-C ends");
        let ends = async { tokio::signal::ctrl_c().await.expect("a handler of signals") };
        axum::serve(listener, app).with_graceful_shutdown(ends).await
    })?;
    println!("{}", rt.shutdown(Duration::from_secs(5)));
    Ok(())
}

fn print_load(seconds: u64) -> Result<(), Box<dyn Error>> {
    let tokio = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    println!("tenant        due   served     shed   p50 (ms)   p99 (ms)   max (ms)");
    for (name, outcome) in tokio.block_on(load::run(AT, Duration::from_secs(seconds))) {
        let ms = |quantile| outcome.latency.value_at_quantile(quantile) as f64 / 1e3;
        println!(
            "{name:<8}{:>9}{:>9}{:>9}{:>11.1}{:>11.1}{:>11.1}",
            outcome.due,
            outcome.served,
            outcome.shed,
            ms(0.5),
            ms(0.99),
            ms(1.0),
        );
    }
    Ok(())
}
