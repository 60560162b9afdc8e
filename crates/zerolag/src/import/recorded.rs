//! [`recorded_requests`]: the requests of a recording, as its messages tell.

use super::requests::{Served, quantile};
use super::{ImportedGroups, ImportedTask, Options, extract, fitted};
use zerolag_model::Duration;
use zerolag_report::requests::{RecordedRequests, RequestTimes};
use zerolag_trace::Trace;

fn times(sorted: &[Duration]) -> Option<RequestTimes> {
    let at = |share| quantile(sorted, share).map(Duration::as_nanos);
    Some(RequestTimes { p50_ns: at(50)?, p99_ns: at(99)?, max_ns: at(100)? })
}

fn of(server: String, client: Option<String>, served: &Served, elapsed: Duration) -> Option<RecordedRequests> {
    let count = served.requests.len();
    let demand: u64 = served.requests.iter().map(|request| request.demand.as_nanos()).sum();
    let known = client.is_some();
    Some(RecordedRequests {
        server,
        client,
        client_is_open: served.client.is_none_or(|client| client.is_open),
        requests: count,
        per_second: count as f64 * 1e9 / elapsed.as_nanos().max(1) as f64,
        demand_ns: demand / count.max(1) as u64,
        until_sent: times(&served.latencies())?,
        until_received: known.then(|| times(&served.latencies_of_client())).flatten(),
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
