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
