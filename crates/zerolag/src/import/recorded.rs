//! [`recorded_requests`]: the requests of a recording, as its messages tell.

use super::requests::{Request, Served, quantile};
use super::{ImportedGroups, ImportedTask, Options, extract, fitted};
use zerolag_model::{Duration, Instant};
use zerolag_report::requests::{RecordedRequests, RequestTimes};
use zerolag_trace::Trace;

/// Returns how long requests took until an instant of each.
fn times(requests: &[&Request], end: impl Fn(&Request) -> Option<Instant>) -> Option<RequestTimes> {
    let mut all: Vec<Duration> =
        requests.iter().filter_map(|request| Some(end(request)?.since(request.arrived))).collect();
    all.sort_unstable();
    let at = |share| quantile(&all, share).map(Duration::as_nanos);
    Some(RequestTimes { p50_ns: at(50)?, p99_ns: at(99)?, max_ns: at(100)? })
}

fn of(server: String, client: Option<String>, served: &Served, elapsed: Duration) -> Option<RecordedRequests> {
    let count = served.requests.len();
    let demand: u64 = served.requests.iter().map(|request| request.demand.as_nanos()).sum();
    // Of the same requests: what a client had not received when the recording ended is left out.
    let is_known = client.is_some();
    let ended = |request: &&Request| !is_known || request.answered.is_some();
    let ended: Vec<&Request> = served.requests.iter().filter(ended).collect();
    Some(RecordedRequests {
        server,
        client,
        client_is_open: served.client.is_none_or(|client| client.is_open),
        requests: count,
        per_second: count as f64 * 1e9 / elapsed.as_nanos().max(1) as f64,
        demand_ns: demand / count.max(1) as u64,
        until_sent: times(&ended, |request| request.done)?,
        until_received: times(&ended, |request| request.answered.filter(|_| is_known)),
    })
}

/// Returns the requests of a recording with messages, those of the busiest server first; none of
/// one without. Cost: that of [`import`](super::import()).
#[must_use]
pub fn recorded_requests(trace: &Trace) -> Vec<RecordedRequests> {
    if trace.meta.recorded.messages.is_empty() {
        return Vec::new();
    }
    let mut tasks = extract::extract(trace);
    tasks.retain(ImportedTask::is_used);
    let groups = ImportedGroups::new(trace, &tasks, &Options::default());
    let elapsed = trace.meta.end.since(trace.meta.start);
    let all = fitted::recorded(trace, &tasks, &groups).into_iter();
    let mut all: Vec<RecordedRequests> =
        all.filter_map(|(server, client, served)| of(server, client, &served, elapsed)).collect();
    all.sort_by_key(|one| core::cmp::Reverse(one.requests));
    all
}
