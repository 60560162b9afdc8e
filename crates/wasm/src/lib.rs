//! The simulator in a browser: what the playground calls.
//!
//! The same simulator as everywhere else: this crate only turns texts into a
//! [`Simulation`](zerolag::Simulation) and results into texts. [`play`] has that for every target,
//! so that tests compare it with the program; the bindings below it exist only for WebAssembly.

pub mod play;
#[cfg(target_arch = "wasm32")]
pub mod policy;

#[cfg(target_arch = "wasm32")]
pub mod bindings {
    //! What JavaScript calls: texts in, texts and bytes out.

    use crate::{play, policy};
    use std::ops::ControlFlow;
    use wasm_bindgen::prelude::*;

    /// Returns the mistakes of a workload and its values, as JSON.
    #[wasm_bindgen]
    pub fn check(text: &str, values: &str) -> String {
        play::check(text, values).to_string()
    }

    /// Runs a workload; `progress` is called with the done part, 0 to 1.
    #[wasm_bindgen]
    pub fn run(text: &str, values: &str, title: &str, progress: &js_sys::Function) -> String {
        let tell = |part: f64| {
            // A page that does not listen does not end the run.
            drop(progress.call1(&JsValue::NULL, &JsValue::from_f64(part)));
            ControlFlow::Continue(())
        };
        drop(policy::raised());
        let ran = play::run(text, values, title, tell);
        policy::raised().map_or(ran, |says| play::mistake_of_policy(&says)).to_string()
    }

    /// Returns the trace of a run in zerolag's own format; empty if the workload has mistakes.
    #[wasm_bindgen]
    pub fn trace(text: &str, values: &str) -> Vec<u8> {
        play::trace(text, values).unwrap_or_default()
    }

    /// Returns the trace of a run as Perfetto reads it; empty if the workload has mistakes.
    #[wasm_bindgen]
    pub fn run_for_perfetto(text: &str, values: &str) -> Vec<u8> {
        play::run_for_perfetto(text, values).unwrap_or_default()
    }

    /// Returns a recorded trace as Perfetto reads it; empty if it cannot be read.
    #[wasm_bindgen]
    pub fn trace_for_perfetto(bytes: &[u8]) -> Vec<u8> {
        play::trace_for_perfetto(bytes).unwrap_or_default()
    }

    /// Returns the page of a recorded trace with the verdicts of the monitors, or why it cannot be
    /// read, as JSON.
    #[wasm_bindgen]
    pub fn report(name: &str, bytes: &[u8]) -> String {
        play::report(name, bytes).to_string()
    }

    /// Returns the kernels, settings and the version, as JSON.
    #[wasm_bindgen]
    pub fn about() -> String {
        play::about().to_string()
    }
}
