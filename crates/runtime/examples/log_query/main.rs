//! A server that answers queries over log lines, once on tokio alone and once with a group per
//! tenant: what a port takes, and what it gives. `docs/how-to/runtime-port.md` has the difference
//! of the two.
//!
//! ```text
//! log_query [SECONDS] [ROUNDS]        # both, in turn, under the same load: a table
//! log_query plain|grouped ADDRESS     # one of them
//! curl -H 'x-tenant: acme' localhost:8080/query/status=500,host-7
//! ```
//!
//! The load: a dashboard that asks for `/health` and a small query every 20 ms, and a tenant with
//! six connections that send one large query after another. Latency counts from the time at which a
//! request was due.
#![expect(clippy::disallowed_methods, reason = "it measures the real clock")]

mod grouped;
mod plain;
mod search;

use axum::body::Body;
use axum::http::Request;
use hdrhistogram::Histogram;
use hyper::client::conn::http1::{self, SendRequest};
use hyper_util::rt::TokioIo;
use std::error::Error;
use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};
use tokio::net::TcpStream;

const LINES: u32 = 200_000;
const PERIOD: Duration = Duration::from_millis(20);

async fn connect(at: SocketAddr) -> Result<SendRequest<Body>, Box<dyn Error + Send + Sync>> {
    let stream = TcpStream::connect(at).await?;
    stream.set_nodelay(true)?;
    let (send, drives) = http1::handshake(TokioIo::new(stream)).await?;
    tokio::spawn(drives);
    Ok(send)
}

async fn ask(send: &mut SendRequest<Body>, tenant: &str, path: &str) -> Result<String, Box<dyn Error + Send + Sync>> {
    let request = Request::get(path).header("host", "localhost").header("x-tenant", tenant).body(Body::empty())?;
    send.ready().await?;
    let answer = send.send_request(request).await?;
    let text = axum::body::to_bytes(Body::new(answer.into_body()), 1 << 16).await?;
    Ok(String::from_utf8(text.to_vec())?)
}

/// Returns the latencies of the dashboard in microseconds, and the heavy tenant's answers.
async fn load(at: SocketAddr, length: Duration) -> Result<(Histogram<u64>, u64), Box<dyn Error + Send + Sync>> {
    let end = Instant::now() + length;
    let heavy: Vec<_> = (0..6)
        .map(|_| {
            tokio::spawn(async move {
                let (mut send, mut answers) = (connect(at).await?, 0_u64);
                while Instant::now() < end {
                    let asked = ask(&mut send, "heavy", "/query/GET,status=200,took=4");
                    if tokio::time::timeout_at((end + Duration::from_secs(2)).into(), asked).await.is_err() {
                        break;
                    }
                    answers += 1;
                }
                Ok::<_, Box<dyn Error + Send + Sync>>(answers)
            })
        })
        .collect();
    let mut latency = Histogram::new(3)?;
    let mut lines = Vec::new();
    for n in 0..4_u32 {
        lines.push(tokio::spawn(async move {
            let mut send = connect(at).await?;
            let (mut due, mut late) = (Instant::now() + PERIOD * n / 4, Vec::new());
            while due < end {
                tokio::time::sleep_until(due.into()).await;
                // One that is not answered at the end counts with the time that it has waited.
                let asked = ask(&mut send, "dashboard", "/health");
                let _ = tokio::time::timeout_at((end + Duration::from_secs(2)).into(), asked).await;
                late.push(due.elapsed());
                due += PERIOD;
            }
            Ok::<_, Box<dyn Error + Send + Sync>>(late)
        }));
    }
    for line in lines {
        for late in line.await?? {
            latency.record(late.as_micros() as u64)?;
        }
    }
    let mut answers = 0;
    for one in heavy {
        answers += one.await??;
    }
    Ok((latency, answers))
}

fn measure(kind: &str, length: Duration) -> Result<[f64; 4], Box<dyn Error>> {
    let mut server =
        Command::new(std::env::current_exe()?).args([kind, "127.0.0.1:0"]).stdout(Stdio::piped()).spawn()?;
    let mut line = String::new();
    BufReader::new(server.stdout.take().ok_or("no output")?).read_line(&mut line)?;
    let at = line.trim().parse()?;
    let tokio = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let measured = tokio.block_on(load(at, length));
    server.kill()?;
    server.wait()?;
    let (latency, answers) = measured.map_err(|error| error.to_string())?;
    let ms = |quantile| latency.value_at_quantile(quantile) as f64 / 1e3;
    Ok([ms(0.5), ms(0.99), ms(1.0), answers as f64 / length.as_secs_f64()])
}

fn main() -> Result<(), Box<dyn Error>> {
    let args: Vec<_> = std::env::args().skip(1).collect();
    match args.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
        ["plain", at] => return plain::serve(at, search::Logs::make(LINES)),
        ["grouped", at] => return grouped::serve(at, search::Logs::make(LINES)),
        _ => {}
    }
    let number = |index: usize, default| args.get(index).map_or(Ok(default), |text| text.parse());
    let (seconds, rounds) = (number(0, 5)?, number(1, 3)?);
    let mut rows = [("plain", Vec::new()), ("grouped", Vec::new())];
    for _ in 0..rounds {
        for (kind, values) in &mut rows {
            values.push(measure(kind, Duration::from_secs(seconds))?);
        }
    }
    println!("| server | dashboard: p50 (ms) | p99 (ms) | max (ms) | heavy: queries/s |");
    println!("|---|--:|--:|--:|--:|");
    for (kind, values) in rows {
        let cells = (0..4).map(|column| {
            let of = values.iter().map(|row| row[column]);
            let (least, most) = (of.clone().fold(f64::INFINITY, f64::min), of.fold(0.0, f64::max));
            format!("{least:.1} to {most:.1}")
        });
        println!("| {kind} | {} |", cells.collect::<Vec<_>>().join(" | "));
    }
    Ok(())
}
