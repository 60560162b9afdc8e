//! A server with a tenant that never yields, on two CPUs, built in the ways that are open to a
//! server in Rust; the same load for each, from a process of its own. Prints a table.
//!
//! `noisy_tenants [SECONDS] [ROUNDS] [FILTER]`: the length of each run (5) and how often all are
//! run, one after the other (3); only those with `FILTER` in their name. The table has the least
//! and the greatest value of the rounds.
#![expect(clippy::disallowed_methods, reason = "it measures the real clock")]

#[path = "../axum_tenants/load.rs"]
mod load;

use axum::Router;
use axum::extract::{Path, Request, State};
use axum::http::HeaderMap;
use axum::routing::get;
use rustix::time::{ClockId, clock_gettime};
use std::error::Error;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};
use tokio::net::TcpListener;
use tokio::runtime::{Handle, Runtime as Tokio};
use tokio::sync::Semaphore;
use zerolag_runtime::model::RtPriority;
use zerolag_runtime::{Builder, GroupLayer, Runtime};

/// The CPU time of a poll of the noisy tenant if its code yields.
const SLICE: Duration = Duration::from_micros(100);

/// How a server is built.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Contender {
    Tokio,
    TokioYields,
    TwoRuntimes,
    TwoRuntimesNice,
    Slots,
    ThinQuota,
    ThinSecond,
    Weight,
    Quota,
    Fifo,
}

const CONTENDERS: [(Contender, &str); 10] = [
    (Contender::Tokio, "tokio"),
    (Contender::TwoRuntimes, "two tokio runtimes"),
    (Contender::TwoRuntimesNice, "two tokio runtimes, the second at nice 19"),
    (Contender::TokioYields, "tokio, noisy code yields every 100 us"),
    (Contender::Slots, "tokio, one request of the noisy tenant at a time"),
    (Contender::ThinQuota, "tenants on tokio: noisy limited to 0.5 CPUs"),
    (Contender::ThinSecond, "tenants on tokio, a second runtime at nice 19"),
    (Contender::Weight, "zerolag: light tenants weigh 1000, noisy 100"),
    (Contender::Quota, "zerolag: noisy limited to 0.5 CPUs"),
    (Contender::Fifo, "zerolag: light tenants SCHED_FIFO"),
];

fn thread_time() -> Duration {
    let used = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(used.tv_sec.unsigned_abs(), used.tv_nsec.unsigned_abs() as u32)
}

/// Uses so much CPU time without yielding, and counts it.
fn compute(length: Duration, counter: &AtomicU64) {
    let began = thread_time();
    while thread_time() < began + length {
        std::hint::spin_loop();
    }
    counter.fetch_add((thread_time() - began).as_nanos() as u64, Ordering::Relaxed);
}

#[derive(Clone)]
struct Server {
    yields: bool,
    /// The runtime of the noisy tenant, if it has one.
    elsewhere: Option<Handle>,
    /// How many of its requests are served at a time, as by a concurrency limit of tower.
    slots: Option<Arc<Semaphore>>,
    /// The CPU time of the noisy tenant and of the others, in nanoseconds.
    used: Arc<[AtomicU64; 2]>,
}

fn is_noisy(headers: &HeaderMap) -> bool {
    headers.get("x-tenant").is_some_and(|name| name == "noisy")
}

async fn work(State(server): State<Server>, Path(us): Path<u64>, headers: HeaderMap) -> String {
    let (length, is_noisy) = (Duration::from_micros(us), is_noisy(&headers));
    let (used, index) = (Arc::clone(&server.used), usize::from(!is_noisy));
    let _slot = match &server.slots {
        Some(slots) if is_noisy => Some(slots.acquire().await.expect("it is never closed")),
        _ => None,
    };
    match server.elsewhere.filter(|_| is_noisy) {
        Some(runtime) => runtime.spawn(async move { compute(length, &used[index]) }).await.expect("no panic"),
        None if server.yields && is_noisy => {
            let mut left = length;
            while !left.is_zero() {
                compute(left.min(SLICE), &used[index]);
                left = left.saturating_sub(SLICE);
                tokio::task::yield_now().await;
            }
        }
        None => compute(length, &used[index]),
    }
    format!("{us}\n")
}

fn tokio_with(threads: usize, nice: i32) -> std::io::Result<Tokio> {
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(threads)
        .enable_all()
        .on_thread_start(move || {
            if nice != 0 {
                let own = Some(rustix::thread::gettid());
                rustix::process::setpriority_process(own, nice).expect("a lower priority is allowed");
            }
        })
        .build()
}

/// The figures of a run: answers to the light tenants in percent of the requests that were due,
/// their latencies in milliseconds, and of the noisy tenant requests per second and CPUs.
type Row = [f64; 6];

fn measure(contender: Contender, seconds: u64) -> Result<Row, Box<dyn Error>> {
    let is_ours = matches!(contender, Contender::Weight | Contender::Quota | Contender::Fifo);
    let tokio = tokio_with(if is_ours { 1 } else { 2 }, 0)?;
    let second = match contender {
        Contender::TwoRuntimes => Some(tokio_with(2, 0)?),
        Contender::TwoRuntimesNice => Some(tokio_with(2, 19)?),
        _ => None,
    };
    let elsewhere = second.as_ref().map(|runtime| runtime.handle().clone());
    let used: Arc<[AtomicU64; 2]> = Arc::default();
    let slots = (contender == Contender::Slots).then(|| Arc::new(Semaphore::new(1)));
    let server = Server { yields: contender == Contender::TokioYields, elsewhere, slots, used: Arc::clone(&used) };
    let app = Router::new().route("/compute/{us}", get(work)).with_state(server);
    let ours = is_ours.then(|| Builder::new().cpus(2).reactor(tokio.handle().clone()).build()).transpose()?;
    let app = match (&ours, contender) {
        (Some(rt), _) => app.layer(layer(rt, contender)),
        (None, Contender::ThinQuota | Contender::ThinSecond) => app.layer(thin_layer(contender)?),
        (None, _) => app,
    };
    let listener = tokio.block_on(TcpListener::bind("127.0.0.1:0"))?;
    let at = listener.local_addr()?;
    tokio.spawn(async move { axum::serve(listener, app).await });
    let began = Instant::now();
    let child =
        Command::new(std::env::current_exe()?).args(["load", &at.to_string(), &seconds.to_string()]).output()?;
    let elapsed = began.elapsed().as_secs_f64();
    let noisy = used[0].load(Ordering::Relaxed) as f64 / 1e9 / elapsed;
    tokio.shutdown_background();
    drop((second.map(Tokio::shutdown_background), ours.map(|rt| rt.shutdown(Duration::ZERO))));
    if !child.status.success() {
        return Err(String::from_utf8_lossy(&child.stderr).into_owned().into());
    }
    let figures = String::from_utf8(child.stdout)?;
    let figures = figures.split_whitespace().map(str::parse).collect::<Result<Vec<f64>, _>>()?;
    let figures: [f64; 5] = figures.try_into().map_err(|_| "five figures")?;
    let [answered, p50, p99, max, rate] = figures;
    Ok([answered, p50, p99, max, rate, noisy])
}

fn tenant_of(request: &Request) -> String {
    let name = request.headers().get("x-tenant").and_then(|name| name.to_str().ok());
    name.unwrap_or("unknown").to_owned()
}

type ThinLayer = zerolag_tenants::GroupLayer<Request, axum::response::Response, String>;

fn thin_layer(contender: Contender) -> Result<ThinLayer, Box<dyn Error>> {
    let builder = zerolag_tenants::Builder::new();
    let has_second = contender == Contender::ThinSecond;
    let rt = if has_second { builder.second_runtime(2, 19) } else { builder }.build()?;
    Ok(ThinLayer::by(rt.root(), tenant_of).group(move |name, group| match name.as_str() {
        "noisy" if has_second => group.beside(),
        "noisy" => group.quota(0.5),
        _ => group,
    }))
}

fn layer(rt: &Runtime, contender: Contender) -> GroupLayer<Request, axum::response::Response, String> {
    GroupLayer::by(rt.root(), tenant_of)
        .group(move |name, group| match (contender, name.as_str()) {
            (Contender::Quota, "noisy") => group.quota(0.5),
            (Contender::Weight, "noisy") => group.weight(100),
            (Contender::Weight, _) => group.weight(1000),
            _ => group,
        })
        .task(move |request, task| {
            let is_urgent = contender == Contender::Fifo && !is_noisy(request.headers());
            if is_urgent { task.fifo(RtPriority::MIN) } else { task }
        })
}

/// The process that sends the requests; prints figures.
fn send(at: &str, seconds: &str) -> Result<(), Box<dyn Error>> {
    let tokio = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let (at, length) = (at.parse()?, Duration::from_secs(seconds.parse()?));
    let outcomes = tokio.block_on(load::run(at, length));
    let mut light = outcomes[0].1.latency.clone();
    light.add(&outcomes[1].1.latency)?;
    let (due, served) =
        outcomes[..2].iter().fold((0, 0), |(due, served), (_, outcome)| (due + outcome.due, served + outcome.served));
    let ms = |quantile| light.value_at_quantile(quantile) as f64 / 1e3;
    let rate = outcomes[2].1.served as f64 / length.as_secs_f64();
    println!("{} {} {} {} {rate}", 100.0 * served as f64 / due as f64, ms(0.5), ms(0.99), ms(1.0));
    Ok(())
}

fn main() -> Result<(), Box<dyn Error>> {
    let args: Vec<_> = std::env::args().skip(1).collect();
    if let [load, at, seconds] = args.as_slice()
        && load == "load"
    {
        return send(at, seconds);
    }
    let number = |index: usize, default| args.get(index).map_or(Ok(default), |text| text.parse());
    let (seconds, rounds) = (number(0, 5)?, number(1, 3)?);
    let filter = args.get(2).map_or("", String::as_str);
    let contenders: Vec<_> = CONTENDERS.into_iter().filter(|(_, name)| name.contains(filter)).collect();
    let mut rows: Vec<Vec<Row>> = vec![Vec::new(); contenders.len()];
    for _ in 0..rounds {
        for (row, (contender, _)) in rows.iter_mut().zip(&contenders) {
            row.push(measure(*contender, seconds)?);
        }
    }
    println!("| server | light: answered | p50 (ms) | p99 (ms) | max (ms) | noisy: requests/s | CPUs |");
    println!("|---|--:|--:|--:|--:|--:|--:|");
    for (place, (_, name)) in contenders.into_iter().enumerate() {
        let digits = [0, 1, 1, 1, 1, 2];
        let cells = (0..6).map(|column| {
            let values = rows[place].iter().map(|row| row[column]);
            let least = format!("{:.*}", digits[column], values.clone().fold(f64::INFINITY, f64::min));
            let most = format!("{:.*}", digits[column], values.fold(f64::NEG_INFINITY, f64::max));
            let percent = if column == 0 { " %" } else { "" };
            if least == most { format!("{least}{percent}") } else { format!("{least} to {most}{percent}") }
        });
        println!("| {name} | {} |", cells.collect::<Vec<_>>().join(" | "));
    }
    Ok(())
}
