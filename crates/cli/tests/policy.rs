//! Policies of shared objects: `--policy FILE.so`. They are compiled here, from C, with `cc`;
//! without one these tests are skipped and say so.
#![cfg(target_os = "linux")]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use zerolag::trace::Trace;

fn workspace() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().expect("the workspace")
}

fn zerolag(args: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_zerolag"));
    command.args(args).current_dir(workspace()).output().expect("the program runs")
}

/// Returns exit code and stderr.
fn failed(args: &[&str]) -> (Option<i32>, String) {
    let output = zerolag(args);
    (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
}

/// A directory of this test, with the header that the program prints.
struct Room(PathBuf);

impl Room {
    /// `None`, with a reason, where there is no compiler.
    fn new(name: &str) -> Option<Self> {
        if Command::new("cc").arg("--version").output().is_err() {
            eprintln!("skipped: there is no `cc` that compiles a policy");
            return None;
        }
        let room = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
        fs::create_dir_all(&room).expect("a directory");
        fs::write(room.join("zerolag_policy.h"), zerolag(&["schema", "policy"]).stdout).expect("the header");
        Some(Self(room))
    }

    fn compile(&self, source: &Path) -> String {
        let object = self.0.join(source.file_name().expect("a name")).with_extension("so");
        let mut cc = Command::new("cc");
        cc.args(["-std=c11", "-O2", "-Wall", "-Wextra", "-Wno-unused-parameter", "-Werror", "-shared", "-fPIC"]);
        let output = cc.arg("-I").arg(&self.0).arg("-o").arg(&object).arg(source).output().expect("cc runs");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        object.display().to_string()
    }

    fn compile_text(&self, name: &str, text: &str) -> String {
        let source = self.0.join(name).with_extension("c");
        fs::write(&source, format!("#include \"zerolag_policy.h\"\n{text}")).expect("a file");
        self.compile(&source)
    }

    fn trace(&self, name: &str, args: &[&str]) -> Trace {
        let file = self.0.join(name).display().to_string();
        let output = zerolag(&[args, &["-q", "--trace", &file]].concat());
        // Goals of the examples do not matter here.
        assert!(matches!(output.status.code(), Some(0 | 99)), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
        zerolag::trace::open(Path::new(&file)).expect("a trace")
    }
}

#[test]
fn a_policy_in_c_does_what_the_built_in_one_does() {
    let Some(room) = Room::new("same") else { return };
    let object = room.compile(&workspace().join("examples/policies/vtime.c"));
    for workload in ["examples/web-build.toml", "examples/nice-hogs.toml", "examples/noisy-neighbour.toml"] {
        for set in ["policy.saved=1", "policy.saved=7"] {
            let run = |policy| ["run", workload, "-d", "600ms", "--policy", policy, "--set", set];
            let (rust, c) = (room.trace("rust.zlt", &run("vtime")), room.trace("c.zlt", &run(&object)));
            let differs = rust.records.iter().zip(&c.records).position(|(one, other)| one != other);
            assert_eq!((differs, rust.records.len()), (None, c.records.len()), "{workload} {set}");
            assert!(rust.records.len() > 500, "{workload}: {}", rust.records.len());
        }
    }
    // Other commands take it too, and its parameter is a value as others are.
    let sweep = zerolag(&[
        "sweep",
        "examples/nice-hogs.toml",
        "-d",
        "1s",
        "--policy",
        &object,
        "--set",
        "policy.saved=0,9",
        "--runs",
        "2",
    ]);
    assert!(matches!(sweep.status.code(), Some(0 | 99)), "{}", String::from_utf8_lossy(&sweep.stderr));
    let compare =
        ["compare", "examples/nice-hogs.toml", "-d", "1s", "--kernel", "7.3", "--policy", "vtime", "--policy", &object];
    let compare = zerolag(&[&compare[..], &["--runs", "2"]].concat());
    assert!(compare.status.success(), "{}", String::from_utf8_lossy(&compare.stderr));
    let explain = zerolag(&["explain", "examples/nice-hogs.toml", "-d", "1s", "--policy", &object]);
    assert!(matches!(explain.status.code(), Some(0 | 99)), "{}", String::from_utf8_lossy(&explain.stderr));
}

/// What a kernel does not know: the work of tasks.
#[test]
fn a_policy_in_c_that_asks_for_the_truth_does_what_the_built_in_one_does() {
    let Some(room) = Room::new("truth") else { return };
    let object = room.compile(&workspace().join("examples/policies/srtf.c"));
    for workload in ["examples/web-build.toml", "examples/noisy-neighbour.toml"] {
        let run = |policy| ["run", workload, "-d", "600ms", "--policy", policy];
        let (rust, c) = (room.trace("rust.zlt", &run("srtf")), room.trace("c.zlt", &run(&object)));
        let differs = rust.records.iter().zip(&c.records).position(|(one, other)| one != other);
        assert_eq!((differs, rust.records.len()), (None, c.records.len()), "{workload}");
        assert!(rust.records.len() > 500, "{workload}: {}", rust.records.len());
    }
    // One that does not ask is not told.
    let silent = "static void enqueue(struct scx *scx, uint32_t p, uint64_t flags) {\n\
        if (scx_task_work_left(scx, p) != SCX_WORK_NONE) scx_bpf_error(scx, \"told\");\n\
        scx_bpf_dsq_insert(scx, p, SCX_DSQ_GLOBAL, scx_slice_dfl(scx), flags);\n}\n\
        ZEROLAG_POLICY = { ZEROLAG_POLICY_HEAD, .name = \"silent\", .enqueue = enqueue };";
    let silent = room.compile_text("silent", silent);
    let (code, error) = failed(&["run", "examples/nice-hogs.toml", "-d", "300ms", "-q", "--policy", &silent]);
    assert!(matches!(code, Some(0 | 99)), "{code:?} {error}");
}

#[test]
fn a_policy_in_c_knows_the_tree_of_groups() {
    let Some(room) = Room::new("tree") else { return };
    // The run is ok if each group is below the one before it, and the first below the root.
    let text = "static void cgroup_init(struct scx *scx, uint32_t cgrp) {\n\
        uint32_t *above = scx_state(scx);\n\
        if (scx_cgroup_parent(scx, cgrp) != *above) scx_bpf_error(scx, \"another group is above\");\n\
        *above = cgrp;\n}\n\
        static void init(struct scx *scx) {\n\
        if (scx_cgroup_parent(scx, 0) != SCX_CGROUP_NONE) scx_bpf_error(scx, \"above the root\");\n\
        if (scx_cgroup_parent(scx, 77) != SCX_CGROUP_NONE) scx_bpf_error(scx, \"above no group\");\n}\n\
        ZEROLAG_POLICY = { ZEROLAG_POLICY_HEAD, .name = \"tree\", .state_size = 4, .init = init, .cgroup_init = cgroup_init };";
    let object = room.compile_text("tree", text);
    let run = |name: &str, groups: [&str; 3]| {
        let file = room.0.join(name).display().to_string();
        let groups: String = groups.iter().map(|path| format!("[group.\"{path}\"]\n")).collect();
        let text = format!(
            "duration = \"50ms\"\nkernel = \"7.3\"\n[machine]\ncpus = 1\n{groups}[task.t]\ngroup = \"/a\"\nsteps = [{{ run = \"1s\" }}]\n"
        );
        fs::write(&file, text).expect("a file");
        failed(&["run", &file, "-q", "--policy", &object])
    };
    let (code, error) = run("chain.toml", ["/a", "/a/b", "/a/b/c"]);
    assert_eq!(code, Some(0), "{error}");
    let (code, error) = run("beside.toml", ["/a", "/a/b", "/c"]);
    assert_eq!(code, Some(1), "{error}");
}

#[test]
fn an_object_of_the_first_version_is_taken() {
    let Some(room) = Room::new("version") else { return };
    let head = "#include <stddef.h>\n\
        static void enqueue(struct scx *scx, uint32_t p, uint64_t flags) {\n\
        scx_bpf_dsq_insert(scx, p, SCX_DSQ_GLOBAL, scx_slice_dfl(scx), flags);\n}\n\
        ZEROLAG_POLICY = { .name = \"fifo\", .enqueue = enqueue, ";
    let first = ".version = 1, .size = offsetof(struct zerolag_policy, needs), .needs = 99 };";
    let (first, now) = (format!("{head}{first}"), format!("{head} ZEROLAG_POLICY_HEAD }};"));
    let objects = [room.compile_text("first", &first), room.compile_text("now", &now)];
    let [first, now] = objects.each_ref().map(|object| {
        room.trace("run.zlt", &["run", "examples/nice-hogs.toml", "-d", "300ms", "--policy", object]).records
    });
    assert!(first == now && first.len() > 100, "{}", first.len());
}

#[test]
fn a_policy_in_cpp_is_one_too() {
    let Some(room) = Room::new("cpp") else { return };
    if Command::new("c++").arg("--version").output().is_err() {
        eprintln!("skipped: there is no `c++` that compiles a policy");
        return;
    }
    let (source, object) = (room.0.join("fifo.cc"), room.0.join("fifo.so"));
    let text = "#include \"zerolag_policy.h\"\n\
        static void enqueue(struct scx *scx, uint32_t p, uint64_t flags) {\n\
            scx_bpf_dsq_insert(scx, p, SCX_DSQ_GLOBAL, scx_slice_dfl(scx), flags);\n}\n\
        ZEROLAG_POLICY = { ZEROLAG_POLICY_HEAD, .name = \"fifo\", .enqueue = enqueue };\n";
    fs::write(&source, text).expect("a file");
    let mut cc = Command::new("c++");
    cc.args([
        "-std=c++20",
        "-O2",
        "-Wall",
        "-Wno-missing-field-initializers",
        "-Werror",
        "-shared",
        "-fPIC",
        "-fvisibility=hidden",
    ]);
    let output = cc.arg("-o").arg(&object).arg(&source).output().expect("c++ runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let object = object.display().to_string();
    // Without costs `fifo`, which is built into the class, does what a policy does.
    let run = |policy| ["run", "examples/nice-hogs.toml", "-d", "300ms", "--costs", "zero", "--policy", policy];
    assert!(room.trace("rust.zlt", &run("fifo")).records == room.trace("cpp.zlt", &run(&object)).records);
}

#[test]
fn an_object_that_is_no_policy_is_refused_with_its_reason() {
    let Some(room) = Room::new("refused") else { return };
    let text = room.0.join("text.so");
    fs::write(&text, "no object").expect("a file");
    let none = room.compile_text("none", "int nothing;");
    let old = room.compile_text("old", "ZEROLAG_POLICY = { .version = 99, .size = 16, .name = \"old\" };");
    let nameless = room.compile_text("nameless", "ZEROLAG_POLICY = { ZEROLAG_POLICY_HEAD };");
    let large =
        room.compile_text("large", "ZEROLAG_POLICY = { ZEROLAG_POLICY_HEAD, .name = \"l\", .task_size = 1 << 30 };");
    let asks = room.compile_text("asks", "ZEROLAG_POLICY = { ZEROLAG_POLICY_HEAD, .name = \"a\", .needs = 8 };");
    let cut = room.compile_text("cut", "ZEROLAG_POLICY = { .version = 1, .size = 16, .name = \"cut\" };");
    let cases = [
        (asks, ["needs is 0x8, and known are ZEROLAG_NEEDS_PERIOD", "correct the object"]),
        (cut, ["its interface is version 1 (16 bytes), that of this program version 2", "compile it anew"]),
        (text.display().to_string(), ["it cannot be loaded: ", "cc -O2 -shared"]),
        (none, ["it has no object `zerolag_policy`", "export one"]),
        (old, ["its interface is version 99 (16 bytes), that of this program version 2", "compile it anew"]),
        (nameless, ["its policy has no name", "correct the object"]),
        (large, ["task_size is 1073741824, above 1048576", "correct the object"]),
        ("./no-such.so".to_owned(), ["No such file or directory", "the path of a shared object"]),
        ("vtim".to_owned(), ["there is no policy `vtim`; did you mean `vtime`?", ""]),
    ];
    for (file, says) in cases {
        let (code, error) = failed(&["run", "examples/nice-hogs.toml", "--policy", &file, "--set", "hzz=3"]);
        assert_eq!(code, Some(2), "{error}");
        assert!(error.starts_with(&format!("error: --policy {file}: ")), "{error}");
        // The mistakes of other options are not hidden.
        assert!(says.iter().all(|part| error.contains(part)) && error.contains("--set hzz=3"), "{file}: {error}");
    }
}

#[test]
fn parameters_are_checked() {
    let wrong = [
        ("--policy vtime --set policy.saved=1001", "--set policy.saved=1001: expected 0 to 1000"),
        (
            "--policy vtime --set policy.slice=1",
            "the policy vtime has no parameter `slice`\n  help: it has saved (How many",
        ),
        (
            "--policy linux --set policy.rules=no-such.rules",
            "no-such.rules: No such file or directory (os error 2)\n  help: the path of a file, or the text itself",
        ),
        // A file without an end.
        ("--policy linux --set policy.rules=/dev/zero", "/dev/zero: it is longer than 1048576 bytes"),
        ("--policy fifo --set policy.saved=1", "the policy fifo has no parameter `saved`\n  help: it has none"),
        ("--set policy.saved=1", "no policy is loaded\n  help: choose one"),
    ];
    for (options, says) in wrong {
        let options: Vec<&str> = options.split(' ').collect();
        let (code, error) = failed(&[&["run", "examples/nice-hogs.toml"], &options[..]].concat());
        assert!(code == Some(2) && error.contains(says), "{options:?}: {error}");
    }
}

#[test]
fn rules_of_threads_are_checked_and_used() {
    let room = Path::new(env!("CARGO_TARGET_TMPDIR")).join("rules");
    fs::create_dir_all(&room).expect("a directory");
    let file = room.join("threads.rules").display().to_string();
    fs::write(&file, "comm light-* fifo 5 # first\ncgroup rt rr 3\ncomm heavy-* deadline 9ms 3ms\n").expect("a file");
    let run = ["run", "examples/nice-hogs.toml", "-d", "1s", "-q", "--policy", "linux", "--set"];
    let with = |rules: &str| failed(&[&run[..], &[&format!("policy.rules={rules}")]].concat());
    let (code, error) = with(&file);
    assert_eq!(code, Some(2), "{error}");
    for says in [
        format!("{file}:2:8: `rt` is no path of a group\n  help: it begins with a slash: /rt"),
        format!("{file}:3:23: runtime 9ms: expected 1.024us to 3ms, the period\n  help: the runtime is given first"),
    ] {
        assert!(error.contains(&says), "{error}");
    }
    let (code, error) = with("comm light-* fifo 100");
    assert!(
        code == Some(2) && error.contains(": 1:19: priority 100: expected 1 to 99\n  help: the greatest"),
        "{error}"
    );
    // A reservation that does not fit ends the policy, and the run goes on.
    let output = zerolag(&[&run[..], &["policy.rules=comm * deadline 9ms 10ms"]].concat());
    let said = String::from_utf8_lossy(&output.stdout);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("does not fit: 90.0 % of a CPU is asked for, 180.0 of 190.0 are reserved"), "{said}");
}

#[test]
fn a_crash_names_the_operation_the_task_and_the_time() {
    let Some(room) = Room::new("crash") else { return };
    let policy = |name: &str, operation: &str, body: &str| {
        let text = format!(
            "#include <stdlib.h>\n\
             static void go(struct scx *scx, uint32_t p, uint64_t flags) {{ {body} }}\n\
             ZEROLAG_POLICY = {{ ZEROLAG_POLICY_HEAD, .name = \"bad\", .{operation} = go }};"
        );
        room.compile_text(name, &text)
    };
    let null = policy("null", "enqueue", "*(volatile int *)(scx_bpf_now(scx) & 0) = 1;");
    let abort = policy("abort", "quiescent", "if (scx_bpf_now(scx) > 100000000) abort();");
    let waits = policy("waits", "enqueue", "while (!scx_bpf_dsq_nr_queued(scx, 5)) {}");
    for (file, says) in [
        (null, "SIGSEGV in ops.enqueue() of "),
        (abort, "SIGABRT, an abort or a panic in ops.quiescent() of "),
        (waits, "no end after two million calls of helpers in ops.enqueue() of "),
    ] {
        let (code, error) = failed(&["run", "examples/web-build.toml", "-d", "1s", "-q", "--policy", &file]);
        let line =
            error.lines().find(|line| line.starts_with("error: ")).unwrap_or_else(|| panic!("an error: {error}"));
        assert!(line.starts_with(&format!("error: {file}: ")) && line.contains(says), "{error}");
        assert!(code == Some(1) && line.contains("] at 0."), "{code:?} {error}");
    }
}

/// The policy of the tutorial, in C.
#[test]
fn a_wakeup_preempts_under_the_example_wake_first() {
    let Some(room) = Room::new("wake-first") else { return };
    let object = room.compile(&workspace().join("examples/policies/wake-first.c"));
    let scenario = fs::read_to_string(workspace().join("scripts/in-vm/scx.toml")).expect("a scenario");
    let file = room.0.join("goal.toml").display().to_string();
    fs::write(&file, format!("goals = [\"sleeper.wakeup_latency.p50 <= 100us\"]\n{scenario}")).expect("a file");
    let code = |policy: &str| zerolag(&["run", &file, "-q", "-d", "2s", "--policy", policy]).status.code();
    assert_eq!((code(&object), code("vtime")), (Some(0), Some(99)));
}
