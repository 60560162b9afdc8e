//! The part that both servers share: log lines in memory, and a query over them. It knows no
//! runtime.

use std::fmt::Write;

/// The lines of a tenant, made by a fixed rule.
#[derive(Debug)]
pub(crate) struct Logs(String);

impl Logs {
    /// Makes `lines` lines of some 80 bytes.
    pub(crate) fn make(lines: u32) -> Self {
        const PATHS: [&str; 5] = ["/", "/login", "/search", "/cart", "/api/v1/items"];
        let (mut text, mut random) = (String::new(), 1_u64);
        for n in 0..lines {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let status = if (random >> 33).is_multiple_of(50) { 500 } else { 200 };
            let (path, took) = (PATHS[(random >> 40) as usize % PATHS.len()], (random >> 45) % 900);
            let _ = writeln!(text, "{n:08} host-{} GET {path} status={status} took={took}ms", (random >> 50) % 40);
        }
        Self(text)
    }

    pub(crate) fn lines(&self) -> std::str::Lines<'_> {
        self.0.lines()
    }
}

/// A query in progress: how many lines contain each of the words, and the sum of their `took`.
#[derive(Debug)]
pub(crate) struct Query {
    words: Vec<String>,
    lines: u64,
    took: u64,
}

impl Query {
    pub(crate) fn new(words: &str) -> Self {
        let words = words.split(',').filter(|word| !word.is_empty()).map(str::to_owned).collect();
        Self { words, lines: 0, took: 0 }
    }

    pub(crate) fn look_at(&mut self, line: &str) {
        if self.words.iter().all(|word| line.contains(word)) {
            self.lines += 1;
            let took = line.rsplit_once("took=").and_then(|(_, took)| took.strip_suffix("ms")?.parse::<u64>().ok());
            self.took += took.unwrap_or(0);
        }
    }

    pub(crate) fn answer(&self) -> String {
        format!("{} lines, mean {} ms\n", self.lines, self.took / self.lines.max(1))
    }
}
