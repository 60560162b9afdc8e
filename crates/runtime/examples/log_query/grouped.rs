//! The server with a group per tenant.

use crate::search::{Logs, Query};
use axum::Router;
use axum::extract::{Path, Request, State};
use axum::routing::get;
use std::error::Error;
use std::sync::Arc;
use tokio::net::TcpListener;
use zerolag_runtime::{Builder, GroupLayer, checkpoint};

async fn query(State(logs): State<Arc<Logs>>, Path(words): Path<String>) -> String {
    let mut query = Query::new(&words);
    for (n, line) in logs.lines().enumerate() {
        query.look_at(line);
        if n % 256 == 0 {
            checkpoint().await;
        }
    }
    query.answer()
}

async fn health() -> &'static str {
    "ok\n"
}

fn tenant(request: &Request) -> String {
    let name = request.headers().get("x-tenant").and_then(|name| name.to_str().ok());
    name.unwrap_or("unknown").to_owned()
}

fn app(logs: Arc<Logs>) -> Router {
    Router::new().route("/query/{words}", get(query)).route("/health", get(health)).with_state(logs)
}

pub(crate) fn serve(at: &str, logs: Logs) -> Result<(), Box<dyn Error>> {
    let tokio = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
    let rt = Builder::new().cpus(2).reactor(tokio.handle().clone()).build()?;
    let tenants = GroupLayer::by(rt.root(), tenant).concurrency(8).queue(64);
    let app = app(Arc::new(logs)).layer(tenants);
    tokio.block_on(async {
        let listener = TcpListener::bind(at).await?;
        println!("{}", listener.local_addr()?);
        axum::serve(listener, app).await
    })?;
    Ok(())
}
