//! [`RecordedRequests`]: how long the requests of a recording took, as its messages tell.

use crate::human::Human;
use crate::table::{Align, Table, shorten};
use schemars::JsonSchema;
use serde::Serialize;
use zerolag_model::Duration;

/// The requests that threads of one name have answered.
#[derive(Clone, PartialEq, Debug, Serialize, JsonSchema)]
pub struct RecordedRequests {
    /// The name of the threads that answer.
    pub server: String,
    /// That of the threads that send them; null if they were not recorded.
    pub client: Option<String>,
    /// Whether the client sends whatever the answers; true if it was not recorded.
    pub client_is_open: bool,
    /// The number of requests that were received.
    pub requests: usize,
    /// The same per second of the recording.
    pub per_second: f64,
    /// The CPU time of the server per request.
    pub demand_ns: u64,
    /// From the send of the request, or if that was not recorded from the wakeup of the server,
    /// until the answer was sent; where the client was recorded of the requests whose answer it
    /// received.
    pub until_sent: RequestTimes,
    /// Until the client had it; null if it was not recorded.
    pub until_received: Option<RequestTimes>,
}

/// Times of requests.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, JsonSchema)]
pub struct RequestTimes {
    /// Their median.
    pub p50_ns: u64,
    /// One in a hundred is longer.
    pub p99_ns: u64,
    /// The longest.
    pub max_ns: u64,
}

/// Returns them as text: a table under a heading; nothing of none.
#[must_use]
pub fn text(all: &[RecordedRequests]) -> String {
    if all.is_empty() {
        return String::new();
    }
    let table = table(all);
    format!("\nrequests, by their messages: from the send until the answer is sent, and until it is received\n{table}")
}

/// Returns them as a table.
#[must_use]
pub fn table(all: &[RecordedRequests]) -> Table {
    let mut rows = Table::new(&[
        ("server", Align::Left),
        ("client", Align::Left),
        ("requests", Align::Right),
        ("a second", Align::Right),
        ("CPU each", Align::Right),
        ("answered: p50", Align::Right),
        ("p99", Align::Right),
        ("max", Align::Right),
        ("received: p50", Align::Right),
        ("p99", Align::Right),
    ]);
    for one in all {
        let human = |ns: u64| Human(Duration::from_nanos(ns)).to_string();
        let kind = if one.client_is_open { "open" } else { "closed" };
        let client = one.client.as_ref().map_or("?".to_owned(), |name| format!("{} ({kind})", shorten(name, 15)));
        let received = one
            .until_received
            .map_or(["-".to_owned(), "-".to_owned()], |times| [human(times.p50_ns), human(times.p99_ns)]);
        let sent = [one.until_sent.p50_ns, one.until_sent.p99_ns, one.until_sent.max_ns].map(human);
        let head = [shorten(&one.server, 15), client, one.requests.to_string(), format!("{:.1}", one.per_second)];
        rows.push(head.into_iter().chain([human(one.demand_ns)]).chain(sent).chain(received));
    }
    rows
}
