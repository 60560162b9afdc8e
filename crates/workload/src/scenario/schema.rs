//! The grammar of scenarios as JSON Schema (draft 2020-12), for completion and error marks in
//! editors.
//!
//! It is built from the same tables of keys that the reader uses to refuse unknown keys;
//! `docs/reference/scenario.schema.json` is this text. The reader checks more than a schema can
//! express: names that must exist, CPUs that the machine must have, keys that a policy does not
//! accept.

use super::{change, interrupt, machine, origin, pause, pool, server, service, shared, step, task, times};
use crate::program::OnRefused;
use serde_json::{Map, Value, json};
use zerolag_model::figure::Figure;
use zerolag_model::settings::{SchedExt, SchedExtPolicy};
use zerolag_model::{DlFlags, MAX_CPUS, Policy};

/// Returns the schema, with indentation and a line break at the end.
#[must_use]
pub fn json_schema() -> String {
    let mut schema = object(&super::KEYS, root);
    let definitions = json!({
        "time": { "type": "string", "pattern": "^[0-9]+(\\.[0-9]+)?(ns|us|ms|s|m|h)$|\\$\\{" },
        "dist": dist(),
        "cpus": { "anyOf": [{ "type": "string" }, { "type": "array", "items": { "type": "integer", "minimum": 0 } }] },
        "count": { "anyOf": [{ "type": "integer", "minimum": 0 }, parameter()] },
        "steps": { "type": "array", "items": step_schema(), "minItems": 1 },
    });
    let head = [
        ("$schema", json!("https://json-schema.org/draft/2020-12/schema")),
        ("title", json!("zerolag scenario")),
        ("$defs", definitions),
    ];
    if let Value::Object(map) = &mut schema {
        map.extend(head.map(|(key, value)| (key.to_owned(), value)));
    }
    format!("{schema:#}\n")
}

/// Returns an object with exactly these keys.
fn object(keys: &[&str], of: fn(&str) -> Value) -> Value {
    let properties: Map<String, Value> = keys.iter().map(|key| ((*key).to_owned(), of(key))).collect();
    json!({ "type": "object", "properties": properties, "additionalProperties": false })
}

/// Returns an object of objects that the user names.
fn named(inner: &Value) -> Value {
    json!({ "type": "object", "additionalProperties": inner })
}

fn defined(name: &str) -> Value {
    json!({ "$ref": format!("#/$defs/{name}") })
}

fn one_of(words: &[&str]) -> Value {
    json!({ "anyOf": [{ "enum": words }, parameter()] })
}

/// A release, a stable release, or a distribution's kernel.
const KERNEL: &str = "^([0-9]+\\.[0-9]+(\\.[0-9]+)?|rhel-[0-9]+\\.[0-9]+)$";

/// Any value may be a parameter.
fn parameter() -> Value {
    json!({ "type": "string", "pattern": "\\$\\{" })
}

fn cpuset_change() -> Value {
    let mut keys = shared::CPUSET_CHANGE_KEYS.to_vec();
    keys.push("partition");
    object(&keys, |key| match key {
        "at" => defined("time"),
        _ => one_of(&["member", "root"]),
    })
}

fn string() -> Value {
    json!({ "type": "string" })
}

fn int(low: i64, high: i64) -> Value {
    json!({ "anyOf": [{ "type": "integer", "minimum": low, "maximum": high }, parameter()] })
}

/// Keys that may be written flat with dots or as nested tables.
fn flat_or_nested() -> Value {
    json!({ "type": "object" })
}

#[expect(clippy::too_many_lines, reason = "one arm per key")]
fn root(key: &str) -> Value {
    match key {
        "include" => json!({ "type": "array", "items": string() }),
        "parameters" => {
            json!({ "type": "object", "additionalProperties": { "type": ["string", "number", "boolean"] } })
        }
        "kernel" => json!({ "anyOf": [{ "type": "string", "pattern": KERNEL }, parameter()] }),
        "duration" => defined("time"),
        "seed" => defined("count"),
        "costs" => string(),
        "goals" => {
            let names: Vec<String> = Figure::all()
                .filter(|figure| figure.is_in_goals())
                .map(|figure| figure.key().replace('.', "\\."))
                .collect();
            json!({ "type": "array", "items": { "type": "string", "pattern": format!("(^|\\.)({})\\s*[<>]", names.join("|")) } })
        }
        "on_refused" => one_of(&OnRefused::NAMES),
        "origin" => object(&origin::KEYS, |key| match key {
            "trace" | "unlike" | "work" => string(),
            "answers" => json!({ "type": "array", "items": string() }),
            "demand" => json!({ "type": "string", "pattern": "^ *[0-9.]+ *%$" }),
            _ => object(&origin::ERROR_KEYS, |key| match key {
                "nr_throttled" => defined("count"),
                "throttled" => defined("time"),
                _ => json!({ "type": "string", "pattern": "^ *([0-9.]+ *%|unknown) *$" }),
            }),
        }),
        "machine" => object(&machine::KEYS, machine_key),
        // The table grows with every mechanism: `zerolag settings` lists it, with all values.
        "settings" => json!({ "type": "object", "description": "see `zerolag settings`" }),
        "cpuset" => {
            let mut keys = shared::CPUSET_KEYS.to_vec();
            keys.extend(["cpus", "partition"]);
            named(&object(&keys, |key| match key {
                "cpuset.cpus" | "cpus" => defined("cpus"),
                "changes" => json!({ "type": "array", "items": cpuset_change() }),
                _ => one_of(&["member", "root"]),
            }))
        }
        "fair_server" => object(&server::KEYS, |_| {
            let change = object(&server::CHANGE_KEYS, |key| match key {
                "cpus" => defined("cpus"),
                "defer" => json!({ "type": "boolean" }),
                _ => defined("time"),
            });
            json!({ "type": "array", "items": change })
        }),
        "group" => named(&flat_or_nested()),
        "mutex" => named(&object(&["protocol"], |_| one_of(&["none", "inherit"]))),
        "condition" => named(&object(&[], |_| string())),
        "barrier" => named(&object(&["parties"], |_| int(1, 1_000_000))),
        "semaphore" => named(&object(&["initial"], |_| int(0, i64::from(u32::MAX)))),
        "timer" => named(&object(&["mode"], |_| one_of(&["relative", "absolute"]))),
        "rw_semaphore" | "spin_lock" => named(&object(&[], |_| string())),
        "user_spin_lock" => named(&object(&["slice_extension"], |_| one_of(&["none", "ask"]))),
        "pipe" => named(&object(&["capacity"], |_| int(1, 1 << 30))),
        "disk" => named(&object(&shared::DISK_KEYS, |key| match key {
            "depth" => int(1, i64::from(shared::DEPTH_MAX)),
            "latency" => defined("dist"),
            "irq_cpus" => defined("cpus"),
            "irq_moves" => defined("time"),
            _ => defined("count"),
        })),
        "file" => named(&object(&shared::FILE_KEYS, |key| if key == "disk" { string() } else { defined("count") })),
        "pause" => named(&object(&pause::KEYS, |key| match key {
            "every" | "length" => defined("dist"),
            "cpus" => defined("cpus"),
            "delay" => defined("time"),
            _ => json!({ "type": "boolean" }),
        })),
        "interrupt" => named(&object(&interrupt::KEYS, |key| match key {
            "every" | "handler" | "softirq" => defined("dist"),
            "on_each" | "no_thread" => json!({ "type": "boolean" }),
            other => task_key(other),
        })),
        "task" => named(&object(&task::TASK_KEYS, task_key)),
        // A group's keys may stand next to these.
        "change" => {
            let properties =
                change::KEYS.iter().chain(&change::LIFE_KEYS).chain(&change::CPU_KEYS).chain(&change::RT_RUNTIME_KEYS);
            let properties = properties.chain(&change::RT_PERIOD_KEYS).chain(&change::POLICY_KEYS);
            let properties: Map<String, Value> = properties.map(|key| ((*key).to_owned(), change_key(key))).collect();
            json!({ "type": "array", "items": { "type": "object", "properties": properties, "required": ["at"] } })
        }
        "service" => named(&object(&service::KEYS, service_key)),
        _ => json!({}),
    }
}

fn change_key(key: &str) -> Value {
    match key {
        "at" => defined("time"),
        "task" => string(),
        "start" => int(1, i64::from(u32::MAX)),
        "end" | "create" | "remove" => json!({ "const": true }),
        "cpu" => int(0, MAX_CPUS as i64 - 1),
        "online" => json!({ "type": "boolean" }),
        "sched_rt_runtime_us" => int(-1, change::RT_RUNTIME_MAX),
        "sched_rt_period_us" => int(1, change::RT_RUNTIME_MAX),
        "sched_ext" => json!({ "enum": SchedExt::ALL.iter().map(|tasks| tasks.name()).collect::<Vec<_>>() }),
        "sched_ext.policy" => {
            json!({ "enum": SchedExtPolicy::ALL.iter().map(|policy| policy.name()).collect::<Vec<_>>() })
        }
        _ => task_key(key),
    }
}

fn service_key(key: &str) -> Value {
    let rate = || json!({ "type": "string", "pattern": "^[0-9.]+ */ *(ms|s|m|h)$|\\$\\{" });
    let of = |kind: &str| match kind {
        "fixed" | "poisson" => rate(),
        "every" => defined("dist"),
        "bursts" => object(&service::BURST_KEYS, |key| match key {
            "size" => int(1, 1_000_000),
            _ => defined("dist"),
        }),
        "times" => json!({ "type": "array", "items": defined("time"), "minItems": 1 }),
        _ => string(),
    };
    match key {
        "arrivals" => {
            let kinds: Map<String, Value> =
                service::ARRIVALS.iter().map(|kind| ((*kind).to_owned(), of(kind))).collect();
            json!({
                "type": "object", "properties": kinds, "additionalProperties": false, "minProperties": 1, "maxProperties": 1
            })
        }
        "workers" => threads(),
        "queue" | "requests" => int(1, i64::from(u32::MAX)),
        "until" => defined("time"),
        "irq_cpus" => defined("cpus"),
        "load" => json!({ "type": "number", "minimum": 0.001, "maximum": 1000 }),
        _ => task_key(key),
    }
}

/// A number of threads.
fn threads() -> Value {
    let pool = object(&pool::KEYS, |key| match key {
        "follow" => one_of(&["quota"]),
        "every" => defined("time"),
        _ => int(1, i64::from(u32::MAX)),
    });
    json!({ "anyOf": [defined("count"), { "enum": ["cpus", "quota"] }, pool] })
}

fn machine_key(key: &str) -> Value {
    match key {
        "capacities" => {
            json!({ "description": "One number per CPU, as sysfs's cpu_capacity: 1024 is the strongest", "type": "array", "items": int(1, 1024) })
        }
        _ => int(1, MAX_CPUS as i64),
    }
}

fn task_key(key: &str) -> Value {
    match key {
        "policy" => {
            let full = Policy::ALL.map(Policy::name);
            let short = full.map(|name| name.trim_start_matches("SCHED_").to_ascii_lowercase());
            let words: Vec<&str> = full.into_iter().chain(short.iter().map(String::as_str)).collect();
            one_of(&words)
        }
        "nice" => int(-20, 19),
        "priority" => int(1, 99),
        "uclamp_min" | "uclamp_max" => int(0, 1024),
        "slice" | "runtime" | "deadline" | "period" | "delay" | "until" => defined("time"),
        "flags" => json!({ "type": "array", "items": { "enum": DlFlags::ALL.map(|(_, name)| name) } }),
        "cpus" => defined("cpus"),
        "cpuset" | "group" | "name" => string(),
        "process" => json!({ "type": "string", "minLength": 1 }),
        "instances" => threads(),
        "created_on" => int(0, MAX_CPUS as i64 - 1),
        "loop" => json!({ "anyOf": [defined("count"), { "const": "forever" }] }),
        "steps" => defined("steps"),
        "phase" => json!({ "type": "array", "items": object(&task::PHASE_KEYS, task_key) }),
        _ => json!({}),
    }
}

fn dist() -> Value {
    let time = || defined("time");
    let with = |keys: &[&str]| {
        let properties: Map<String, Value> = keys.iter().map(|key| ((*key).to_owned(), time())).collect();
        json!({ "type": "object", "properties": properties, "additionalProperties": false })
    };
    let of = |kind: &str| match kind {
        "uniform" => with(&["min", "max"]),
        "normal" => with(&["mean", "deviation", "min", "max"]),
        "exponential" => with(&["mean", "min", "max"]),
        "lognormal" => {
            let mut schema = with(&["median", "min", "max"]);
            schema["properties"]["sigma"] = json!({ "type": "number", "exclusiveMinimum": 0, "maximum": 10 });
            schema
        }
        "sequence" => json!({ "type": "array", "items": time(), "minItems": 1 }),
        _ => json!({ "type": "array", "items": {
            "type": "object",
            "properties": { "time": time(), "weight": { "type": "integer", "minimum": 0 } },
            "required": ["time"],
            "additionalProperties": false
        } }),
    };
    let kinds: Map<String, Value> = times::KINDS.iter().map(|kind| ((*kind).to_owned(), of(kind))).collect();
    json!({ "anyOf": [time(), {
        "type": "object", "properties": kinds, "additionalProperties": false, "minProperties": 1, "maxProperties": 1
    }] })
}

fn step_schema() -> Value {
    let steps: Map<String, Value> = step::STEPS.iter().map(|step| ((*step).to_owned(), step_value(step))).collect();
    json!({ "anyOf": [
        { "enum": step::WORDS },
        { "type": "object", "properties": steps, "additionalProperties": false, "minProperties": 1, "maxProperties": 1 }
    ] })
}

fn step_value(step: &str) -> Value {
    match step {
        "run" | "kernel" | "sleep" | "preempt_off" | "irqs_off" | "bh_off" | "rcu_read" => defined("dist"),
        "spin" => json!({ "anyOf": [
            defined("dist"),
            { "type": "object", "properties": { "wall": defined("dist"), "chunk": defined("time") } }
        ] }),
        "timer" => object(&["period", "mode", "name", "shared"], |key| match key {
            "period" => defined("dist"),
            "mode" => one_of(&["relative", "absolute"]),
            _ => string(),
        }),
        "wait" | "sync" => object(&["condition", "mutex"], |_| string()),
        "suspend" | "yield" | "cond_resched" | "synchronize_rcu" => json!({ "const": true }),
        "syscall" => defined("steps"),
        "read" => object(&step::READ_KEYS, |key| match key {
            "file" => string(),
            "windows" => defined("count"),
            _ => defined("dist"),
        }),
        "io" => object(&["disk", "bytes"], |key| if key == "bytes" { defined("count") } else { string() }),
        "pipe_write" | "pipe_read" => json!({ "anyOf": [
            string(),
            object(&step::PIPE_STEP_KEYS, |key| if key == "bytes" { defined("count") } else { string() })
        ] }),
        "stamp" => int(0, i64::from(u32::MAX)),
        _ => string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_key_of_the_reader_has_a_type() {
        let empty = json!({});
        for key in super::super::KEYS {
            assert_ne!(root(key), empty, "{key}");
        }
        for key in task::TASK_KEYS.iter().chain(&task::PHASE_KEYS) {
            assert_ne!(task_key(key), empty, "{key}");
        }
        for key in service::KEYS {
            assert_ne!(service_key(key), empty, "{key}");
        }
    }
}
