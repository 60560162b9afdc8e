//! What groups cost an HTTP server whose handlers do next to nothing: the least favourable case.
//!
//! `hello_groups MODE [SECONDS]` serves `hello` on `127.0.0.1:8090` for so long (1000 s), on two
//! threads; a load generator measures it (`wrk -t1 -c32 -d5s --latency http://127.0.0.1:8090/`).
//! `plain` is tokio and axum; `thin` has the layer of `zerolag-tenants`, `executor` that of this
//! crate; `-limited` gives the group a limit that it does not reach.
#![expect(clippy::print_stderr, reason = "a program")]

use axum::extract::Request;
use axum::response::Response;
use axum::{Router, routing::get};
use std::error::Error;
use std::time::Duration;
use tokio::net::TcpListener;
use tokio::runtime::Builder as Tokio;

/// CPUs: more than two threads can use.
const FREE: f64 = 4.0;

fn tenant_of(request: &Request) -> String {
    request.headers().get("x-tenant").and_then(|name| name.to_str().ok()).unwrap_or("a").to_owned()
}

fn main() -> Result<(), Box<dyn Error>> {
    let mut args = std::env::args().skip(1);
    let mode = args.next().unwrap_or_default();
    let seconds = args.next().map_or(Ok(1000), |text| text.parse())?;
    let is_limited = mode.ends_with("-limited");
    let app = Router::new().route("/", get(async || "hello"));
    let (threads, app) = match mode.trim_end_matches("-limited") {
        "plain" => (2, app),
        "thin" => {
            let rt = zerolag_tenants::Builder::new().build()?;
            let layer = zerolag_tenants::GroupLayer::<Request, Response, String>::by(rt.root(), tenant_of);
            (2, app.layer(layer.group(move |_, group| if is_limited { group.quota(FREE) } else { group })))
        }
        "executor" => (1, app),
        other => {
            eprintln!("`{other}` is none of plain, thin, thin-limited, executor, executor-limited");
            std::process::exit(2);
        }
    };
    let tokio = Tokio::new_multi_thread().worker_threads(threads).enable_all().build()?;
    let rt = (threads == 1)
        .then(|| zerolag_runtime::Builder::new().cpus(2).reactor(tokio.handle().clone()).build())
        .transpose()?;
    let app = match &rt {
        None => app,
        Some(rt) => {
            let layer = zerolag_runtime::GroupLayer::<Request, Response, String>::by(rt.root(), tenant_of);
            app.layer(layer.group(move |_, group| if is_limited { group.quota(FREE) } else { group }))
        }
    };
    tokio.block_on(async {
        let listener = TcpListener::bind("127.0.0.1:8090").await?;
        let serves = async move { axum::serve(listener, app).await };
        tokio::time::timeout(Duration::from_secs(seconds), serves).await.unwrap_or(Ok(()))
    })?;
    Ok(())
}
