//! [`Site`]: what the server says to a request. It reads no socket, so tests ask it directly.
//!
//! Pages of other sites, other programs and other users of the machine can reach a loopback
//! address too. Three things keep them out:
//!
//! 1. Every path begins with a random token of 128 bits, which only the printed address has.
//! 2. The `Host` must be a loopback address with the right port: a name that an attacker lets point
//!    to 127.0.0.1 is refused (DNS rebinding).
//! 3. Answers forbid to be embedded or read by pages of other origins.

use hyper::{Method, StatusCode};
use std::net::{IpAddr, SocketAddr};
use zerolag::page::Served;

/// A page below its token.
#[derive(Debug)]
pub(super) struct Site {
    pub(super) served: Served,
    /// The token of all paths: letters and digits.
    pub(super) token: String,
    pub(super) address: SocketAddr,
}

/// A request, as far as it matters.
#[derive(Clone, Copy, Debug)]
pub(super) struct Asked<'a> {
    pub(super) method: &'a Method,
    pub(super) host: Option<&'a str>,
    pub(super) path: &'a str,
    pub(super) query: Option<&'a str>,
}

/// An answer.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Answer {
    pub(super) status: StatusCode,
    pub(super) kind: &'static str,
    pub(super) body: Vec<u8>,
}

impl Answer {
    fn text(status: StatusCode, text: impl Into<String>) -> Self {
        Self { status, kind: "text/plain; charset=utf-8", body: text.into().into_bytes() }
    }
}

impl Site {
    /// Returns the address that the user opens.
    pub(super) fn url(&self) -> String {
        format!("http://{}/{}/", self.address, self.token)
    }

    /// Answers a request.
    pub(super) fn answer(&self, asked: Asked<'_>) -> Answer {
        if asked.method != Method::GET {
            return Answer::text(StatusCode::METHOD_NOT_ALLOWED, "only GET is answered");
        }
        if !asked.host.is_some_and(|host| self.is_own(host)) {
            return Answer::text(StatusCode::FORBIDDEN, "this server is asked by its loopback address only");
        }
        let below = asked.path.strip_prefix('/').and_then(|path| path.split_once('/'));
        match below {
            Some((token, rest)) if is_same(token, &self.token) => match rest {
                "" => Answer {
                    status: StatusCode::OK,
                    kind: "text/html; charset=utf-8",
                    body: self.served.html().as_bytes().to_vec(),
                },
                "part" => self.part(asked.query.unwrap_or_default()),
                _ => Answer::text(StatusCode::NOT_FOUND, "there is no such page"),
            },
            // A wrong token learns no more than a wrong path.
            _ => Answer::text(StatusCode::NOT_FOUND, "there is no such page"),
        }
    }

    fn part(&self, query: &str) -> Answer {
        let time = |key: &str| {
            let found = query.split('&').find_map(|pair| pair.strip_prefix(key)?.strip_prefix('='));
            found.and_then(|text| text.parse::<u64>().ok())
        };
        match (time("from"), time("to")) {
            (Some(from), Some(to)) if from < to => {
                Answer { status: StatusCode::OK, kind: "application/octet-stream", body: self.served.part(from, to) }
            }
            _ => Answer::text(StatusCode::BAD_REQUEST, "a part needs from=NS and to=NS, the first before the second"),
        }
    }

    /// Returns whether a `Host` is this server by a name that no other site can have.
    fn is_own(&self, host: &str) -> bool {
        let Some((name, port)) = host.rsplit_once(':') else { return false };
        let name = name.strip_prefix('[').and_then(|name| name.strip_suffix(']')).unwrap_or(name);
        let is_loopback = name == "localhost" || name.parse::<IpAddr>().is_ok_and(|address| address.is_loopback());
        is_loopback && port.parse() == Ok(self.address.port())
    }
}

/// Compares without telling by the time how much is right.
fn is_same(a: &str, b: &str) -> bool {
    a.len() == b.len() && a.bytes().zip(b.bytes()).fold(0, |all, (a, b)| all | (a ^ b)) == 0
}

#[cfg(test)]
mod tests {
    use super::*;
    use zerolag::page::{About, Pictured};
    use zerolag::trace::script::Script;

    fn site() -> Site {
        let mut script = Script::new(1);
        let a = script.fair("a");
        script.wake(0, 0, a).run(0, 0, None, Some(a));
        let about = About { title: "t".to_owned(), command: "test".to_owned() };
        let served = Served::of_trace(Pictured::of(&script.end(10)), &about);
        Site { served, token: "secret".to_owned(), address: ([127, 0, 0, 1], 4000).into() }
    }

    fn get(path: &str, host: Option<&str>) -> StatusCode {
        let (path, query) = path.split_once('?').map_or((path, None), |(path, query)| (path, Some(query)));
        site().answer(Asked { method: &Method::GET, host, path, query }).status
    }

    #[test]
    fn the_page_and_its_parts_are_below_the_token_only() {
        let own = Some("127.0.0.1:4000");
        assert_eq!(get("/secret/", own), StatusCode::OK);
        assert_eq!(get("/secret/part?from=0&to=5", own), StatusCode::OK);
        for path in
            ["/", "/secret", "/Secret/", "/secre/", "/secrets/", "//secret/", "/secret/x", "/secret/../secret/", ""]
        {
            assert_eq!(get(path, own), StatusCode::NOT_FOUND, "{path}");
        }
        for query in
            ["", "?", "?from=5", "?from=5&to=5", "?from=x&to=9", "?from=-1&to=9", "?from=0&to=99999999999999999999"]
        {
            assert_eq!(get(&format!("/secret/part{query}"), own), StatusCode::BAD_REQUEST, "{query}");
        }
    }

    #[test]
    fn a_name_that_points_here_is_refused() {
        for host in ["127.0.0.1:4000", "localhost:4000", "[::1]:4000"] {
            assert_eq!(get("/secret/", Some(host)), StatusCode::OK, "{host}");
        }
        for host in [
            "evil.example:4000",
            "127.0.0.1",
            "127.0.0.1:4001",
            "10.0.0.1:4000",
            "127.0.0.1.evil.example:4000",
            ":4000",
            "",
        ] {
            assert_eq!(get("/secret/", Some(host)), StatusCode::FORBIDDEN, "{host}");
        }
        assert_eq!(get("/secret/", None), StatusCode::FORBIDDEN);
    }

    #[test]
    fn only_get_is_answered() {
        for method in [Method::POST, Method::PUT, Method::OPTIONS, Method::HEAD, Method::DELETE] {
            let asked = Asked { method: &method, host: Some("127.0.0.1:4000"), path: "/secret/", query: None };
            assert_eq!(site().answer(asked).status, StatusCode::METHOD_NOT_ALLOWED);
        }
        assert_eq!(site().url(), "http://127.0.0.1:4000/secret/");
    }
}
