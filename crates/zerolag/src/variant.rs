//! Variants of a workload: the name and the values by which one differs from the others.
//!
//! Documents with variants have one form: `runs` per variant, the first `seed` (null for a recorded
//! trace), and for each variant its `name`, its `values`, and its results.

use std::collections::BTreeMap;

/// The name of a variant, and the values by which it differs from the others.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Label {
    /// Its name.
    pub name: String,
    /// Key and value, as on the command line.
    pub values: Vec<(String, String)>,
}

impl Label {
    /// Returns the label of a variant with these values; `default` is its name if there are none.
    #[must_use]
    pub fn of_values(values: Vec<(String, String)>, default: &str) -> Self {
        let pairs: Vec<String> = values.iter().map(|(key, value)| format!("{key}={value}")).collect();
        let name = if pairs.is_empty() { default.to_owned() } else { pairs.join(", ") };
        Self { name, values }
    }

    /// Returns the values by key, for JSON.
    pub(crate) fn by_key(&self) -> BTreeMap<&str, &str> {
        self.values.iter().map(|(key, value)| (&**key, &**value)).collect()
    }
}
