//! `zerolag serve`: the page of a trace or a run, for a browser on this machine.
//!
//! A file has room for some hundred thousand slices. The page of this server asks for the parts
//! that it shows instead, so a trace of any length that fits into memory can be looked at to the
//! last nanosecond. HTTP is that of hyper; one thread answers, since one person looks.

mod site;

use super::failure::{Failure, eprintln_lossy};
use super::options::{RunArgs, WorkloadArgs};
use super::output::HtmlArgs;
use super::plan::{prepare, simulation_of};
use super::progress::{catch_interrupts, interrupted};
use super::{Done, code, input, output};
use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::header::{self, HeaderValue};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::{TokioIo, TokioTimer};
use site::{Asked, Site};
use std::fs::OpenOptions;
use std::io::{self, Write};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener};
use std::ops::ControlFlow;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Semaphore;
use zerolag::error::plain;
use zerolag::page::{Picture, Pictured, Served};
use zerolag::simulation::{Histograms, Observe};

/// Arguments of `zerolag serve`.
#[derive(Debug, clap::Args)]
#[command(mut_arg("file", |file| file.value_name("FILE").help(FILE)))]
pub(crate) struct Args {
    #[command(flatten)]
    workload: WorkloadArgs,
    /// The port of the server [default: any that is free]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    port: Option<u16>,
    /// Open the page with xdg-open
    #[arg(long)]
    open: bool,
    #[command(flatten)]
    run: RunArgs,
}

const FILE: &str = "The trace (perf.data, trace.dat, Perfetto's, the text of perf script, tracefs or trace-cmd report, \
                    zerolag's own), or a workload to run: scenario TOML, rt-app JSON or a task set";

/// How many connections are open at a time; a browser has six.
const CONNECTIONS: usize = 64;

/// How long a connection can take to say what it wants.
const PATIENCE: Duration = Duration::from_secs(10);

/// The answer if there are more.
const BUSY: &[u8] =
    b"HTTP/1.1 503 Service Unavailable\r\ncontent-length: 0\r\nretry-after: 10\r\nconnection: close\r\n\r\n";

/// Runs the subcommand.
pub(crate) fn run(args: &Args) -> Done {
    // A port that cannot be had is said before the work.
    let listener = listen(args.port)?;
    let address = listener.local_addr().map_err(|error| no_server(&error))?;
    let site = Arc::new(Site { served: served(args)?, token: token()?, address });
    catch_interrupts();
    output::print(&format!("{}\n", site.url()))?;
    if !args.run.sim.is_quiet() {
        eprintln_lossy("note: only this machine can open it, by this address; Ctrl-C ends the server");
    }
    let door = if args.open { open(&site.url()) } else { None };
    let ended = answer(listener, &site);
    if let Some(door) = door {
        // The system empties the directory of temporary files in any case.
        drop(std::fs::remove_file(door));
    }
    ended.map_err(|error| no_server(&error))?;
    Ok(code::OK)
}

/// Pictures the trace or the run.
fn served(args: &Args) -> Result<Served, Failure> {
    let path = &args.workload.file;
    let about = HtmlArgs::about(path.display());
    if !input::is_workload(path) {
        let pictured = Pictured::of_file(path).map_err(|error| Failure::trace(path, &error))?;
        return Ok(Served::of_trace(pictured, &about));
    }
    let observe = Observe { histograms: Histograms::On, ..Observe::default() };
    let prepared = prepare(&simulation_of(&args.workload, &args.run)?.observe(observe), args.run.sim.is_quiet())?;
    let mut picture = Picture::new(&prepared.plan.meta(), &prepared.plan.goals);
    let result = prepared.run_into(&mut picture, |_| ControlFlow::Continue(()))?;
    let report = result.report();
    let pictured = picture.finish(report.outcome.end, report.summary.clone(), report.histograms.clone());
    Ok(Served::of_run(&result, &prepared.plan, pictured, &about))
}

/// Listens on a loopback address only.
fn listen(port: Option<u16>) -> Result<TcpListener, Failure> {
    let number = port.unwrap_or(0);
    let addresses = [SocketAddr::from((Ipv4Addr::LOCALHOST, number)), SocketAddr::from((Ipv6Addr::LOCALHOST, number))];
    // The first error counts: a machine with IPv6 only is rare.
    TcpListener::bind(addresses[0]).or_else(|error| {
        TcpListener::bind(addresses[1]).ok().filter(|_| error.kind() != io::ErrorKind::AddrInUse).ok_or_else(|| {
            match port {
                Some(port) => Failure::input_help(
                    format!("--port {port}: {}", plain(&error)),
                    "choose another port, or none: then any that is free is taken",
                ),
                None => no_server(&error),
            }
        })
    })
}

fn no_server(error: &io::Error) -> Failure {
    Failure::Failed(format!("cannot serve on the loopback address: {}", plain(error)))
}

/// Returns 128 random bits as text.
fn token() -> Result<String, Failure> {
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes)
        .map_err(|error| Failure::Failed(format!("the system has no random numbers: {error}")))?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}

/// Opens the page in a browser. The arguments of a program can be read by other users, so the
/// program is given a file that only this user can read, which leads to the page; it is returned.
fn open(url: &str) -> Option<PathBuf> {
    let path = std::env::temp_dir().join(format!("zerolag-{}.html", token().ok()?));
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let page =
        format!("<!doctype html>\n<meta charset=\"utf-8\">\n<meta http-equiv=\"refresh\" content=\"0;url={url}\">\n");
    let opened = options.open(&path).and_then(|mut file| file.write_all(page.as_bytes())).and_then(|()| {
        Command::new("xdg-open").arg(&path).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn()
    });
    if let Err(error) = opened {
        eprintln_lossy(&format!(
            "note: no browser was opened (xdg-open: {}); open the address yourself",
            plain(&error)
        ));
    }
    Some(path)
}

/// Answers until Ctrl-C.
fn answer(listener: TcpListener, site: &Arc<Site>) -> io::Result<()> {
    listener.set_nonblocking(true)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().enable_time().build()?;
    runtime.block_on(async {
        let listener = tokio::net::TcpListener::from_std(listener)?;
        let free = Arc::new(Semaphore::new(CONNECTIONS));
        while !interrupted() {
            // It wakes up to look for Ctrl-C.
            let Ok(accepted) = tokio::time::timeout(Duration::from_millis(100), listener.accept()).await else {
                continue;
            };
            let Ok((stream, _)) = accepted else {
                // Too many open files, or a client that is gone: the next can be better.
                tokio::time::sleep(Duration::from_millis(50)).await;
                continue;
            };
            let Ok(place) = Arc::clone(&free).try_acquire_owned() else {
                // It fits into the empty buffer of a new connection, so this does not wait.
                let _ = stream.try_write(BUSY);
                continue;
            };
            let site = Arc::clone(site);
            tokio::spawn(async move {
                let answers = service_fn(move |request: Request<Incoming>| {
                    let response = respond(&site, &request);
                    async { Ok::<_, std::convert::Infallible>(response) }
                });
                let connection = http1::Builder::new()
                    .timer(TokioTimer::new())
                    .header_read_timeout(PATIENCE)
                    .max_buf_size(16 * 1024)
                    .serve_connection(TokioIo::new(stream), answers);
                // A client that goes away or speaks no HTTP is its own affair.
                drop(connection.await);
                drop(place);
            });
        }
        Ok(())
    })
}

fn respond(site: &Site, request: &Request<Incoming>) -> Response<Full<Bytes>> {
    let answer = site.answer(Asked {
        method: request.method(),
        host: request.headers().get(header::HOST).and_then(|host| host.to_str().ok()),
        path: request.uri().path(),
        query: request.uri().query(),
    });
    let mut response = Response::new(Full::new(Bytes::from(answer.body)));
    *response.status_mut() = answer.status;
    let policy = format!("{}; frame-ancestors 'none'", site.served.policy());
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(answer.kind));
    if let Ok(policy) = HeaderValue::from_str(&policy) {
        headers.insert(header::CONTENT_SECURITY_POLICY, policy);
    }
    for (name, value) in HEADERS {
        headers.insert(*name, HeaderValue::from_static(value));
    }
    response
}

/// Of every answer: nothing is stored, and no other page can embed, open or read it.
const HEADERS: &[(&str, &str)] = &[
    ("allow", "GET"),
    ("cache-control", "no-store"),
    ("cross-origin-opener-policy", "same-origin"),
    ("cross-origin-resource-policy", "same-origin"),
    ("referrer-policy", "no-referrer"),
    ("x-content-type-options", "nosniff"),
];
