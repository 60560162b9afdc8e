use super::super::{Form, Import, Options, base_error, import, recorded_requests};
use zerolag_model::{Duration, Instant, TaskId};
use zerolag_report::requests::{self, RequestTimes};
use zerolag_trace::script::Script;
use zerolag_trace::{Message, Source, Thread, Trace};

const SERVER: TaskId = TaskId(0);
const CLIENT: TaskId = TaskId(1);

fn message(us: u64, task: TaskId, socket: u32, is_sent: bool) -> Message {
    Message { at: Instant::from_nanos(us * 1000), task, socket, bytes: 10, is_sent }
}

/// A round of 1 ms: a client sends a request on each of three connections, a server is woken
/// once, and answers them after 100, 200 and 300 us of its own. Sockets 0 to 2 are the
/// client's.
fn rounds(is_open: bool) -> Trace {
    rounds_of(["server", "client"], is_open)
}

fn rounds_of([server, client]: [&str; 2], is_open: bool) -> Trace {
    let mut script = Script::new(1);
    let (server, client) = (script.fair(server), script.fair(client));
    script.meta.source = Source::Text;
    let mut messages = Vec::new();
    for turn in 0..40 {
        let at = turn * 1000 + 100;
        if is_open || turn == 0 {
            script.wake(at, 0, client).run(at, 0, None, Some(client));
        }
        messages.extend((0..3).map(|socket| message(at + 10 + u64::from(socket), CLIENT, socket, true)));
        script.wake(at + 50, 0, server).run(at + 50, 0, Some(client), Some(server));
        for (socket, us) in [(0, 50), (1, 150), (2, 350)] {
            messages.push(message(at + us, SERVER, 3 + socket, false));
            messages.push(message(at + us + 90, SERVER, 3 + socket, true));
        }
        script.wake(at + 650, 0, client).run(at + 650, 0, Some(server), Some(client));
        messages.extend((0..3).map(|socket| message(at + 660 + u64::from(socket), CLIENT, socket, false)));
        if is_open {
            script.run(at + 700, 0, Some(client), None);
        }
    }
    let mut trace = script.end(41_000);
    trace.meta.recorded.messages = messages;
    trace.meta.recorded.peers = [3, 4, 5, 0, 1, 2].map(Some).to_vec();
    trace
}

fn fitted(trace: &Trace) -> Import {
    let groups = vec![("server".to_owned(), "/s".to_owned())];
    import(trace, "x", &Options { form: Form::Fitted, groups, ..Options::default() })
}

/// The wakeups show 40 requests of one client.
#[test]
fn a_closed_client_has_as_many_requests_under_way_as_connections() {
    let trace = rounds(false);
    let imported = fitted(&trace);
    let has = |text: &str| assert!(imported.scenario.contains(text), "{text}\n{}", imported.scenario);
    has("# So many requests of \"client\" are under way: --set clients=4\nclients = 3\n");
    has("workers = 1\n# A closed client");
    has("{ bursts = { size = \"${clients}\", every = \"110000ns\" } }\nrequests = \"${clients}\"\n");
    has("{ send = \"server\" },");
    has("{ send = \"client\" },");
    has("{ run = { sequence = [\"100000ns\",\"200000ns\",\"300000ns\",\"100000ns\",");
    // It computes for 400 us of a round, but for the ends of the recording.
    let client = imported.scenario.split("[service.\"client\"]").nth(1).expect("a service");
    let run = client.split("{ run = \"").nth(1).and_then(|rest| rest.split("ns").next()).expect("a time");
    assert!((128_000..134_000).contains(&run.parse::<u64>().expect("a number")), "{run}");
    let base = base_error(&trace, &imported).expect("a scenario");
    let [requests] = &base.requests[..] else { panic!("{base}") };
    assert_eq!((&*requests.service, requests.count.0), ("server", 120));
    // From its send to its answer: 130, 229 and 428 us.
    assert_eq!(requests.p50.0, Duration::from_micros(229));
    assert_eq!(requests.p99.0, Duration::from_micros(428));
    assert!((100..=130).contains(&requests.count.1), "as often in the same time: {}", requests.count.1);
    assert!(base.to_string().contains("requests of server: 120 recorded"), "{base}");
}

#[test]
fn what_a_recording_says_of_its_requests_is_listed() {
    let all = recorded_requests(&rounds(false));
    let [one] = &all[..] else { panic!("{all:?}") };
    assert_eq!((&*one.server, one.client.as_deref(), one.client_is_open), ("server", Some("client"), false));
    // 120 in 41 ms, of 100, 200 and 300 us.
    assert_eq!((one.requests, one.per_second.round(), one.demand_ns), (120, 2927.0, 200_000));
    let us = |p50: u64, p99: u64| RequestTimes { p50_ns: p50 * 1000, p99_ns: p99 * 1000, max_ns: p99 * 1000 };
    assert_eq!(one.until_sent, us(229, 428));
    // The client receives all three 650 us after it sent the first.
    assert_eq!(one.until_received, Some(us(650, 650)));
    let text = requests::text(&all);
    assert!(text.contains("server  client (closed)       120    2926.8     200us"), "{text}");
    assert!(recorded_requests(&rounds(true))[0].client_is_open);
    let mut without = rounds(false);
    without.meta.recorded.messages.clear();
    assert_eq!(requests::text(&recorded_requests(&without)), "");
}

/// `python3 server.py` and `python3 client.py`.
#[test]
fn a_server_and_its_client_can_have_one_name() {
    let with = |pids: [u32; 2]| {
        let mut trace = rounds_of(["python3"; 2], false);
        let thread = |(tid, pid)| Thread {
            tid,
            pid: Some(pid),
            process: Some("python3".into()),
            group: None,
            groups_v1: Vec::new(),
            charged: None,
        };
        trace.meta.recorded.threads = [10, 20].into_iter().zip(pids).map(thread).collect();
        recorded_requests(&trace)
    };
    let all = with([10, 20]);
    let [one] = &all[..] else { panic!("{all:?}") };
    assert_eq!((&*one.server, one.client.as_deref(), one.requests), ("python3", Some("python3:2"), 120));
    assert_eq!(with([10, 10]), [], "threads of one process that pass work on by a socket");
}

/// A timer wakes it, and each send is a request.
#[test]
fn an_open_client_sends_at_the_recorded_times() {
    let trace = rounds(true);
    let imported = fitted(&trace);
    let has = |text: &str| assert!(imported.scenario.contains(text), "{text}\n{}", imported.scenario);
    // The first at the wakeup, the others 11 and 12 us later.
    has("arrivals = { every = { sequence = [\"100000ns\",\"11000ns\",\"1000ns\",\"988000ns\",");
    has("# It sends at its own times");
    has("load = \"${load}\"");
    assert!(!imported.scenario.contains("clients"), "{}", imported.scenario);
    let base = base_error(&trace, &imported).expect("a scenario");
    // The sequence begins again after the last one, for the rest of the time.
    assert_eq!(base.requests[0].count, (120, 125), "{base}");
    // Three at once, of 100, 200 and 300 us.
    let p50 = base.requests[0].p50.1;
    assert!((Duration::from_micros(300)..Duration::from_micros(400)).contains(&p50), "{base}");
}

/// A client sends three requests on one connection, which the server receives at once.
fn pipelined() -> Trace {
    let mut trace = rounds(true);
    let recorded = &mut trace.meta.recorded;
    // All sends on the first connection; the server receives thirty bytes there.
    recorded.messages.retain(|message| !(message.task == SERVER && message.socket > 3));
    recorded.messages.retain(|message| message.task == SERVER || message.is_sent || message.socket == 0);
    for message in &mut recorded.messages {
        match message.task {
            CLIENT if message.is_sent => message.socket = 0,
            _ => message.bytes = 30,
        }
    }
    recorded.peers = vec![Some(3), None, None, Some(0)];
    trace
}

#[test]
fn what_is_sent_before_an_answer_is_a_request_of_its_own() {
    let trace = pipelined();
    let imported = fitted(&trace);
    let base = base_error(&trace, &imported).expect("a scenario");
    assert_eq!(base.requests[0].count, (120, 125), "{base}");
    let runs = "{ run = { sequence = [\"200000ns\",\"200000ns\",\"200000ns\",\"200000ns\",";
    assert!(imported.scenario.contains(runs), "600 us in equal parts: {}", imported.scenario);
}

/// The answers to them are sent 100 us apart.
#[test]
fn each_of_several_answers_is_sent_at_its_own_time() {
    let mut trace = pipelined();
    let messages = core::mem::take(&mut trace.meta.recorded.messages);
    for message in messages {
        let parts = if message.task == SERVER && message.is_sent { 3 } else { 1 };
        for part in 0..parts {
            let at = message.at.saturating_add(Duration::from_micros(100 * u64::from(part)));
            let message = Message { at, bytes: message.bytes / parts, ..message };
            trace.meta.recorded.messages.push(message);
        }
    }
    trace.meta.recorded.messages.sort_by_key(|message| message.at);
    // Sent 0, 11 and 12 us behind the wakeup of the client, answered 140, 240 and 340 behind it.
    let times = recorded_requests(&trace)[0].until_sent;
    assert_eq!(times, RequestTimes { p50_ns: 229_000, p99_ns: 328_000, max_ns: 328_000 });
}

/// Without its client a request arrives with the wakeup for it, and later ones of the same job
/// when they are received.
#[test]
fn a_client_elsewhere_is_open() {
    let mut script = Script::new(1);
    let server = script.fair("server");
    script.meta.source = Source::Text;
    for turn in 0..40 {
        let at = turn * 1000 + 150;
        script.wake(at, 0, server).run(at, 0, None, Some(server)).run(at + 600, 0, Some(server), None);
    }
    let messages = rounds(false).meta.recorded.messages;
    let mut trace = script.end(41_000);
    trace.meta.recorded.messages = messages.into_iter().filter(|message| message.task == SERVER).collect();
    let scenario = fitted(&trace).scenario;
    let arrivals = "arrivals = { every = { sequence = [\"150000ns\",\"100000ns\",\"200000ns\",\"700000ns\",";
    assert!(scenario.contains(arrivals), "{scenario}");
    assert!(scenario.contains("{ run = { sequence = [\"100000ns\",\"200000ns\",\"300000ns\","), "{scenario}");
}

/// Log messages, and messages within a class, are no requests.
#[test]
fn messages_that_none_answers_change_nothing() {
    let mut trace = rounds(false);
    let messages = core::mem::take(&mut trace.meta.recorded.messages);
    let without = fitted(&trace).scenario;
    trace.meta.recorded.messages = messages.iter().filter(|message| message.is_sent).copied().collect();
    assert_eq!(fitted(&trace).scenario, without);
    trace.meta.recorded.messages = messages;
    for message in &mut trace.meta.recorded.messages {
        message.task = SERVER;
    }
    assert_eq!(fitted(&trace).scenario, without);
}
