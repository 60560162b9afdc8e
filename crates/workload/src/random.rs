//! Placeholder.
use zerolag_model::Duration;
/// A distribution of times.
#[derive(Clone, Debug, PartialEq)]
pub enum Dist {
    /// Always the same.
    Constant(Duration),
}
