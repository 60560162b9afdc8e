//! A load generator: connections that send requests at their times, whatever the server does.
//!
//! Latency counts from the time at which a request was due: a server that stalls delays the
//! following requests of a connection, and they count as late. Requests that were due and have no
//! answer at the end count with the time that they have waited.

use axum::body::Body;
use axum::http::{Request, StatusCode};
use hdrhistogram::Histogram;
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use std::net::SocketAddr;
use std::time::{Duration, Instant};
use tokio::net::TcpStream;

/// The requests of a tenant.
pub(crate) struct Tenant {
    pub(crate) name: &'static str,
    pub(crate) connections: u32,
    /// The time between two requests of the tenant; `None`: each connection sends its next request
    /// after an answer.
    pub(crate) period: Option<Duration>,
    /// The computation that a request asks for.
    pub(crate) work: Duration,
}

/// Two tenants with short requests, and one whose requests compute for 50 ms without yielding, more
/// than two CPUs can serve.
pub(crate) const TENANTS: [Tenant; 3] = [
    Tenant {
        name: "light-1",
        connections: 20,
        period: Some(Duration::from_millis(10)),
        work: Duration::from_millis(1),
    },
    Tenant {
        name: "light-2",
        connections: 20,
        period: Some(Duration::from_millis(10)),
        work: Duration::from_millis(1),
    },
    Tenant { name: "noisy", connections: 8, period: None, work: Duration::from_millis(50) },
];

/// What became of the requests of a tenant.
pub(crate) struct Outcome {
    pub(crate) due: u64,
    pub(crate) served: u64,
    pub(crate) shed: u64,
    /// In microseconds, of all requests that were due and not shed.
    pub(crate) latency: Histogram<u64>,
}

impl Outcome {
    fn new() -> Self {
        Self { due: 0, served: 0, shed: 0, latency: Histogram::new(3).expect("three digits") }
    }

    fn add(&mut self, other: &Self) {
        (self.due, self.served, self.shed) = (self.due + other.due, self.served + other.served, self.shed + other.shed);
        self.latency.add(&other.latency).expect("it resizes");
    }
}

/// Sends the requests of all tenants for a time.
pub(crate) async fn run(at: SocketAddr, length: Duration) -> Vec<(&'static str, Outcome)> {
    let end = Instant::now() + length;
    let mut outcomes = Vec::new();
    let mut tasks = Vec::new();
    for (index, tenant) in TENANTS.iter().enumerate() {
        outcomes.push((tenant.name, Outcome::new()));
        tasks.extend((0..tenant.connections).map(|n| (index, tokio::spawn(connection(at, tenant, n, end)))));
    }
    for (index, task) in tasks {
        outcomes[index].1.add(&task.await.expect("no panic"));
    }
    outcomes
}

async fn connection(at: SocketAddr, tenant: &'static Tenant, n: u32, end: Instant) -> Outcome {
    let mut outcome = Outcome::new();
    let stream = TcpStream::connect(at).await.expect("a server");
    stream.set_nodelay(true).expect("a socket");
    let (mut send, drives) = http1::handshake(TokioIo::new(stream)).await.expect("a server of HTTP");
    tokio::spawn(drives);
    let mut due = Instant::now() + tenant.period.map_or(Duration::ZERO, |period| period * n);
    while due < end {
        tokio::time::sleep_until(due.into()).await;
        let request = Request::get(format!("/compute/{}", tenant.work.as_micros()))
            .header("host", "localhost")
            .header("x-tenant", tenant.name)
            .body(Body::empty())
            .expect("a request");
        outcome.due += 1;
        // A connection whose answer does not come in time sends nothing more.
        let answer = tokio::time::timeout_at(end.into(), async {
            send.ready().await.ok()?;
            let answer = send.send_request(request).await.ok()?;
            let status = answer.status();
            axum::body::to_bytes(Body::new(answer.into_body()), 1 << 16).await.ok()?;
            Some(status)
        });
        let answer = answer.await.ok().flatten();
        match answer {
            Some(StatusCode::OK) => outcome.served += 1,
            Some(_) => outcome.shed += 1,
            None => {}
        }
        if answer.is_none_or(|status| status == StatusCode::OK) {
            outcome.latency += due.elapsed().as_micros() as u64;
        }
        match (answer, tenant.period) {
            (Some(_), Some(period)) => due += period * tenant.connections,
            (Some(StatusCode::OK), None) => due = Instant::now(),
            (Some(_), None) => due = Instant::now() + Duration::from_millis(100),
            (None, period) => {
                // The requests that were due after it have waited as well.
                while let Some(period) = period
                    && due + period * tenant.connections < end
                {
                    due += period * tenant.connections;
                    outcome.due += 1;
                    outcome.latency += end.duration_since(due).as_micros() as u64;
                }
                break;
            }
        }
    }
    outcome
}
