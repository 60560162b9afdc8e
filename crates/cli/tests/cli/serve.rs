//! `zerolag serve`: a process, asked by its loopback address and ended by Ctrl-C.

use super::{scratch, workspace, zerolag};
use rustix::process::{Pid, Signal, kill_process};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};

/// A server; it is ended with the test.
struct Server {
    process: Child,
    address: String,
    token: String,
}

impl Server {
    fn start(args: &[&str]) -> Self {
        let mut process = Command::new(env!("CARGO_BIN_EXE_zerolag"))
            .args([&["serve", "-q"], args].concat())
            .current_dir(workspace())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the program starts");
        let mut url = String::new();
        let out = process.stdout.as_mut().expect("piped");
        BufReader::new(out).read_line(&mut url).expect("the address is printed");
        let (address, token) =
            url.trim().strip_prefix("http://").and_then(|rest| rest.split_once('/')).expect("an address");
        let (address, token) = (address.to_owned(), token.trim_end_matches('/').to_owned());
        Self { process, address, token }
    }

    /// Sends a request and returns the status, the head and the body.
    fn ask(&self, line: &str, host: &str) -> (u16, String, Vec<u8>) {
        let mut stream = TcpStream::connect(&self.address).expect("it listens");
        write!(stream, "{line} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n").expect("it reads");
        let mut bytes = Vec::new();
        stream.read_to_end(&mut bytes).expect("it answers");
        let end = bytes.windows(4).position(|four| four == b"\r\n\r\n").expect("a head");
        let head = String::from_utf8_lossy(&bytes[..end]).to_lowercase();
        let status = head.split(' ').nth(1).and_then(|status| status.parse().ok()).expect("a status");
        (status, head, bytes[end + 4..].to_vec())
    }

    /// Presses Ctrl-C and returns the exit code.
    fn end(mut self) -> Option<i32> {
        let pid = Pid::from_raw(self.process.id().try_into().expect("a pid")).expect("a pid");
        kill_process(pid, Signal::INT).expect("it runs");
        self.process.wait().expect("it ends").code()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        drop(self.process.kill());
    }
}

#[test]
fn a_run_is_served_below_its_token_until_ctrl_c() {
    let server = Server::start(&["examples/rt-hog.toml", "-d", "1s"]);
    let (address, token) = (server.address.clone(), server.token.clone());
    assert!(address.starts_with("127.0.0.1:") && token.len() == 32, "{address} {token}");
    let (status, head, page) = server.ask(&format!("GET /{token}/"), &address);
    assert_eq!(status, 200);
    for line in
        ["cache-control: no-store", "x-content-type-options: nosniff", "cross-origin-resource-policy: same-origin"]
    {
        assert!(head.contains(line), "{head}");
    }
    let policy = head.lines().find_map(|line| line.strip_prefix("content-security-policy: ")).expect("a policy");
    assert!(policy.starts_with("default-src 'none'; script-src 'sha256-"), "{policy}");
    assert!(policy.contains("connect-src 'self'") && policy.ends_with("frame-ancestors 'none'"), "{policy}");
    let page = String::from_utf8(page).expect("text");
    assert!(page.ends_with("</html>\n") && page.contains("spinner"));
    let (status, _, part) = server.ask(&format!("GET /{token}/part?from=0&to=1000000"), &address);
    assert!(status == 200 && part.len() > 100, "{status}, {} bytes", part.len());

    for (line, host, expected) in [
        (format!("GET /{token}/"), "evil.example", 403),
        (format!("GET /{token}/part?from=9&to=1"), &*address, 400),
        (format!("POST /{token}/"), &address, 405),
        ("GET /".to_owned(), &address, 404),
        (format!("GET /{}/", "0".repeat(32)), &address, 404),
        ("GET /favicon.ico".to_owned(), &address, 404),
    ] {
        let (status, head, _) = server.ask(&line, host);
        assert_eq!(status, expected, "{line} of {host}: {head}");
        assert!(!head.contains(&token), "{head}");
    }
    assert_eq!(server.end(), Some(0));
}

#[test]
fn a_client_that_speaks_no_http_does_no_harm() {
    let server = Server::start(&["examples/rt-hog.toml", "-d", "100ms"]);
    let _silent = TcpStream::connect(&server.address).expect("it listens");
    let mut garbage = TcpStream::connect(&server.address).expect("it listens");
    drop(garbage.write_all(&[0xff; 100_000]));
    let (status, ..) = server.ask(&format!("GET /{}/", server.token), &server.address);
    assert_eq!(status, 200);
    assert_eq!(server.end(), Some(0));
}

impl Server {
    /// Sends bytes as far as the server takes them, and returns the status of its answer, if it
    /// gives one.
    fn send(&self, parts: &[&[u8]]) -> Option<u16> {
        let mut stream = TcpStream::connect(&self.address).expect("it listens");
        for part in parts {
            // It answers and hangs up before the end of what is too long.
            if stream.write_all(part).is_err() {
                break;
            }
        }
        let mut bytes = Vec::new();
        drop(stream.read_to_end(&mut bytes));
        String::from_utf8_lossy(&bytes).split(' ').nth(1)?.parse().ok()
    }

    /// Returns the memory of the process in kB.
    fn memory(&self) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.process.id())).expect("it runs");
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).expect("a line");
        line.trim().trim_end_matches(" kB").parse().expect("a number")
    }
}

/// Slow clients take places and no more: one too many is told so, and a place that is given back is
/// another one's.
#[test]
fn slow_clients_take_places_and_give_them_back() {
    let server = Server::start(&["examples/rt-hog.toml", "-d", "100ms"]);
    let ask = format!("GET /{}/ HTTP/1.1\r\nHost: {}\r\nConnection: close\r\n\r\n", server.token, server.address);
    let begin = || {
        let mut stream = TcpStream::connect(&server.address).expect("it listens");
        // The head of a request that never ends. A busy server has hung up already.
        drop(stream.write_all(b"GET / HTTP/1.1\r\nHost: "));
        stream
    };
    let mut slow: Vec<TcpStream> = (0..63).map(|_| begin()).collect();
    assert_eq!(server.send(&[ask.as_bytes()]), Some(200), "the last place");
    let before = server.memory();
    slow.extend((0..200).map(|_| begin()));
    // A busy server says so, and takes no memory for clients that wait.
    while server.send(&[ask.as_bytes()]) != Some(503) {}
    assert!(server.memory() < before + 20_000, "{} kB, and {before} before", server.memory());
    drop(slow);
    while server.send(&[ask.as_bytes()]) != Some(200) {}
    assert_eq!(server.end(), Some(0));
}

/// No request has a body, so none is read: whatever it says of its length, it is answered at once.
#[test]
fn bodies_and_heads_of_any_size_are_answered_by_a_code() {
    let server = Server::start(&["examples/rt-hog.toml", "-d", "100ms"]);
    let token = &server.token;
    let head = |line: &str, more: &str| format!("{line} HTTP/1.1\r\nHost: {}\r\n{more}\r\n", server.address);
    let before = server.memory();
    let filler = vec![b'x'; 1 << 20];
    let huge: Vec<&[u8]> = vec![&filler; 64];
    for (line, more, body, expected) in [
        (format!("POST /{token}/"), "Content-Length: 99999999999\r\n", &huge[..], Some(405)),
        (format!("PUT /{token}/part?from=0&to=1"), "Transfer-Encoding: chunked\r\n", &huge, Some(405)),
        (format!("GET /{token}/"), "Content-Length: 5\r\nConnection: close\r\n", &[b"short"], Some(200)),
        (format!("GET /{token}/"), "Content-Length: minus\r\n", &[], Some(400)),
        (format!("GET /{token}/"), "Transfer-Encoding: gzip\r\n", &[], Some(400)),
        (format!("GET /{token}/"), "X: ", &huge, Some(431)),
        (format!("GET /{}", "y".repeat(100_000)), "", &[], Some(431)),
    ] {
        let head = head(&line, more);
        let parts: Vec<&[u8]> = [head.as_bytes()].into_iter().chain(body.iter().copied()).collect();
        let answered = server.send(&parts);
        // Its answer can be lost with what it has not read, and the connection is closed then too.
        assert!(answered == expected || answered.is_none() && body.len() > 1, "{answered:?} for {line} {more}");
    }
    assert!(server.memory() < before + 20_000, "{} kB, and {before} before", server.memory());
    let (status, ..) = server.ask(&format!("GET /{token}/"), &server.address);
    assert_eq!((status, server.end()), (200, Some(0)));
}

#[test]
fn a_trace_in_our_format_and_in_others_has_the_same_parts() {
    let dir = scratch("serve");
    let own = dir.join("t.zlt").display().to_string();
    let text = dir.join("t.txt").display().to_string();
    let ran = zerolag(&["run", "-q", "examples/noisy-neighbour.toml", "-d", "200ms", "--no-check", "--trace", &own]);
    assert!(matches!(ran.code, Some(0 | 99)), "{}", ran.stderr);
    assert_eq!(zerolag(&["convert", &own, &text]).code, Some(0));
    let slices = |path: &str| {
        let server = Server::start(&[path]);
        let (status, _, part) = server.ask(&format!("GET /{}/part?from=0&to=100000000", server.token), &server.address);
        assert_eq!((status, server.end()), (200, Some(0)), "{path}");
        part.len()
    };
    // The text of tracefs has fewer events, so parts differ a little.
    let (own, text) = (slices(&own), slices(&text));
    assert!(own > 300 && text > 300, "{own}, {text}");
}

#[test]
fn what_cannot_be_served_is_refused_with_the_reason() {
    let dir = scratch("serve-refused");
    let broken = dir.join("broken.zlt");
    std::fs::write(&broken, b"\x89ZLT\r\n\x1a\n\x01\x00cut").expect("a file");
    let taken = TcpListener::bind("127.0.0.1:0").expect("a port is free");
    let port = taken.local_addr().expect("it is bound").port().to_string();
    for (args, parts) in [
        (&["none.zlt"][..], &["none.zlt", "no such file"][..]),
        (&["none.toml"], &["none.toml", "no such file"]),
        (&[&*broken.display().to_string()], &["broken.zlt"]),
        (&["README.md"], &["README.md", "this is no trace"]),
        (&["examples/rt-hog.toml", "--kernel", "1.0"], &["--kernel"]),
        (&["examples/rt-hog.toml", "--port", &port], &["--port", "in use", "help: choose another port"]),
        (&["examples/rt-hog.toml", "--port", "0"], &["--port"]),
    ] {
        let ended = zerolag(&[&["serve"], args].concat());
        assert_eq!((ended.code, &*ended.stdout), (Some(2), ""), "{args:?}: {}", ended.stderr);
        for part in parts {
            assert!(ended.stderr.contains(part), "{args:?}: `{part}` is not said: {}", ended.stderr);
        }
    }
}
