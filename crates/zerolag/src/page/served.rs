//! [`Served`]: the page of a run that a server gives, with its parts.

use super::run::{run_page, trace_page};
use super::{About, Pictured};
use crate::simulation::{Plan, RunResult};
use zerolag_html::Page;
use zerolag_html::pyramid::Pyramid;

/// How many slices, spans and points a part has at most: a browser draws them in a few
/// milliseconds.
const MOST: usize = 150_000;

/// A page whose timeline is not in it whole, and what it asks for.
///
/// Kept are the text of the page; for each time that a CPU ran a task a slice of 48 bytes, at all
/// levels of detail together less than twice that, and 8 bytes for its task; for each mark at most
/// 48 bytes. No record is kept.
#[derive(Clone, Debug)]
pub struct Served {
    html: String,
    policy: String,
    pyramid: Pyramid,
}

impl Served {
    /// Serves a simulation.
    #[must_use]
    pub fn of_run(result: &RunResult, plan: &Plan, pictured: Pictured, about: &About) -> Self {
        Self::new(pictured, |pictured| run_page(result, plan, pictured, about))
    }

    /// Serves a trace.
    #[must_use]
    pub fn of_trace(pictured: Pictured, about: &About) -> Self {
        Self::new(pictured, |pictured| trace_page(pictured, None, about))
    }

    fn new(pictured: Pictured, page: impl FnOnce(&Pictured) -> Page<'_>) -> Self {
        let (html, policy) = page(&pictured).to_served();
        Self { html, policy, pyramid: Pyramid::new(pictured.timeline) }
    }

    /// Returns the text of the page.
    #[must_use]
    pub fn html(&self) -> &str {
        &self.html
    }

    /// Returns its Content-Security-Policy, which its text has too.
    #[must_use]
    pub fn policy(&self) -> &str {
        &self.policy
    }

    /// Returns the packed part between two times, in nanoseconds.
    #[must_use]
    pub fn part(&self, from: u64, to: u64) -> Vec<u8> {
        self.pyramid.part(from, to, MOST).pack()
    }
}
