//! Variants of a workload as JSON: one form for comparisons, sweeps and what-if questions.
//!
//! ```json
//! { "schema": "zerolag.sweep.v1", "runs": 3, "seed": 0,
//!   "variants": [ { "name": "hz=100", "values": { "hz": "100" }, "figures": { } } ] }
//! ```

use serde_json::{Map, Value, json};

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

    /// Returns the variant with its results, each under its key.
    #[must_use]
    pub fn to_json<const N: usize>(&self, results: [(&str, Value); N]) -> Value {
        let values: Map<String, Value> = self.values.iter().map(|(key, value)| (key.clone(), json!(value))).collect();
        let mut variant = json!({ "name": self.name, "values": values });
        for (key, result) in results {
            variant[key] = result;
        }
        variant
    }
}

/// Returns the document of variants: `schema` is its name with its version, `seed` that of the
/// first of `runs` runs (none for a recorded trace).
#[must_use]
pub fn document(schema: &str, runs: u64, seed: Option<u64>, variants: &[Value]) -> Value {
    json!({ "schema": schema, "runs": runs, "seed": seed, "variants": variants })
}
