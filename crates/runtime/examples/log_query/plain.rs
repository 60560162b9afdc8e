//! The server as it was: axum on tokio.

use crate::search::{Logs, Query};
use axum::Router;
use axum::extract::{Path, State};
use axum::routing::get;
use std::error::Error;
use std::sync::Arc;
use tokio::net::TcpListener;

async fn query(State(logs): State<Arc<Logs>>, Path(words): Path<String>) -> String {
    let mut query = Query::new(&words);
    for line in logs.lines() {
        query.look_at(line);
    }
    query.answer()
}

async fn health() -> &'static str {
    "ok\n"
}

fn app(logs: Arc<Logs>) -> Router {
    Router::new().route("/query/{words}", get(query)).route("/health", get(health)).with_state(logs)
}

pub(crate) fn serve(at: &str, logs: Logs) -> Result<(), Box<dyn Error>> {
    let tokio = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    let app = app(Arc::new(logs));
    tokio.block_on(async {
        let listener = TcpListener::bind(at).await?;
        println!("{}", listener.local_addr()?);
        axum::serve(listener, app).await
    })?;
    Ok(())
}
