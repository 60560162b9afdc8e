//! Hostile inputs of every reader, in a process that may have 1 GB of address space and a minute of
//! CPU time: an answer or a refusal, and never a signal.
//!
//! `scripts/reader-bounds.py` has the large ones, and measures.

use super::{Ended, scratch, workspace};
use std::io::{Read, Write};
use std::process::{Command, Stdio};

/// The address space, in kB.
const MEMORY: u32 = 1 << 20;

fn bounded(memory: u32, args: &[&str]) -> Ended {
    // Behind the time is SIGXCPU.
    let limits = format!("ulimit -v {memory} && ulimit -t 60 && exec \"$0\" \"$@\"");
    let output = Command::new("sh")
        .args(["-c", &limits, env!("CARGO_BIN_EXE_zerolag")])
        .args(args)
        .current_dir(workspace())
        .stdin(Stdio::null())
        .output()
        .expect("a shell");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    Ended { code: output.status.code(), stdout: text(&output.stdout), stderr: text(&output.stderr) }
}

/// Gives a file to a command. Returns the code, and the first line of a refusal.
fn ends_well(args: &[&str]) -> (i32, String) {
    let ended = bounded(MEMORY, args);
    let line = ended.stderr.lines().next().unwrap_or_default().to_owned();
    let code = ended.code.unwrap_or_else(|| panic!("{args:?} ends by a signal: {}", ended.stderr));
    // 1: a rule is broken; 99: a goal is missed.
    assert!([0, 1, 2, 99].contains(&code), "{args:?}: code {code}: {}", ended.stderr);
    assert!(code != 2 || ended.stderr.contains("error"), "{args:?} is refused without a reason: {}", ended.stderr);
    (code, line)
}

/// A recording of each format of the tests of `zerolag-trace`.
const RECORDINGS: [&str; 9] = [
    "every-kind.zlt",
    "every-kind.txt",
    "compact-phone.pftrace",
    "switches-pipe.perf.data.gz",
    "mixed-2cpu.perf.txt.gz",
    "hackbench-v7.trace.dat.gz",
    "juno.trace-cmd.txt.gz",
    "schedviz.tar.gz",
    "hello.xz",
];

fn recording(name: &str) -> Vec<u8> {
    std::fs::read(workspace().join("crates/trace/tests/data").join(name)).expect("it is there")
}

/// A file, and the same one cut in the middle, with every 61st byte another one, and followed by
/// what claims to be long.
fn damaged(whole: &[u8]) -> [(&'static str, Vec<u8>); 4] {
    let flipped = whole.iter().enumerate().map(|(at, byte)| if at % 61 == 60 { !byte } else { *byte }).collect();
    let claims = [0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x3f].repeat(1000);
    let head = &whole[..whole.len().min(24)];
    let cut = whole[..whole.len() / 2].to_vec();
    [("whole", whole.to_vec()), ("cut", cut), ("flipped", flipped), ("claims", [head, &claims].concat())]
}

/// The same file without gzip, if it has that.
fn unpacked(packed: &[u8]) -> Option<Vec<u8>> {
    let mut unpacked = Vec::new();
    flate2::read::GzDecoder::new(packed).read_to_end(&mut unpacked).ok()?;
    Some(unpacked)
}

#[test]
fn damaged_recordings_of_every_format_are_answered_or_refused() {
    let dir = scratch("bounds-traces");
    let (mut refused, mut answered) = (0, 0);
    for name in RECORDINGS {
        let packed = recording(name);
        let forms = [unpacked(&packed).map(|bytes| ("unpacked", bytes)), Some(("as-it-is", packed))];
        for (form, whole) in forms.into_iter().flatten() {
            for (how, bytes) in damaged(&whole) {
                let path = dir.join(format!("{form}-{how}-{}", name.trim_end_matches(".gz")));
                std::fs::write(&path, bytes).expect("writable");
                let path = path.to_str().expect("UTF-8");
                for command in ["report", "check", "import"] {
                    match ends_well(&[command, path]).0 {
                        2 => refused += 1,
                        _ => answered += 1,
                    }
                }
            }
        }
    }
    assert!(refused > 60 && answered > 20, "{refused} are refused, {answered} answered");
}

/// Repeats a byte: frames of zstd with blocks of one byte each, 128 KB long.
fn zstd_of(head: &[u8], megabytes: usize) -> Vec<u8> {
    let block = |size: usize, kind: usize| (size << 3 | kind << 1).to_le_bytes()[..3].to_vec();
    let mut out = vec![0x28, 0xb5, 0x2f, 0xfd, 0x00, 0x58];
    out.extend([block(head.len(), 0), head.to_vec()].concat());
    for _ in 0..megabytes * 8 {
        out.extend([block(128 << 10, 1), vec![0]].concat());
    }
    out.extend(block(0, 0).iter().enumerate().map(|(at, byte)| if at == 0 { byte | 1 } else { *byte }));
    out
}

/// Packs a head and so many MB of zeros with gzip.
fn gzip_of(head: &[u8], megabytes: usize) -> Vec<u8> {
    let mut out = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    out.write_all(head).expect("memory");
    let zeros = vec![0; 1 << 20];
    (0..megabytes).for_each(|_| out.write_all(&zeros).expect("memory"));
    out.finish().expect("memory")
}

#[test]
fn packed_bombs_are_given_up_within_the_limits() {
    let dir = scratch("bounds-bombs");
    let zlt = recording("every-kind.zlt")[..64].to_vec();
    let text = b"# tracer: nop\n a-1 [000] d..2. 1.500000: ".to_vec();
    let tar = recording("schedviz.tar.gz");
    for (name, bytes) in [
        ("zeros.gz", gzip_of(b"", 2048)),
        ("zeros.zst", zstd_of(b"", 2048)),
        ("zlt.zst", zstd_of(&zlt, 2048)),
        ("zlt.gz", gzip_of(&zlt, 2048)),
        ("text.zst", zstd_of(&text, 2048)),
        ("tar-in-front.gz", [tar, gzip_of(b"", 64)].concat()),
    ] {
        let path = dir.join(name);
        std::fs::write(&path, bytes).expect("writable");
        let path = path.to_str().expect("UTF-8");
        let (code, says) = ends_well(&["report", path]);
        assert!(code == 2 || name.starts_with("tar"), "{name} is refused: {says}");
        std::fs::remove_file(path).expect("it is there");
    }
}

#[test]
fn hostile_workloads_and_inputs_of_commands_are_answered_or_refused() {
    let dir = scratch("bounds-workloads");
    let put = |name: &str, text: String| {
        let path = dir.join(name);
        std::fs::write(&path, text).expect("writable");
        path.to_str().expect("UTF-8").to_owned()
    };
    let laughs = "a: &a [x, x, x, x, x, x, x, x, x]\n".to_owned()
        + &('b'..='k')
            .map(|name| {
                let before = char::from(name as u8 - 1);
                format!("{name}: &{name} [{}]\n", vec![format!("*{before}"); 9].join(", "))
            })
            .collect::<String>();
    let scenario = "examples/noisy-neighbour.toml";
    let deep = put("deep.toml", "x = ".to_owned() + &"[".repeat(100_000));
    let dots = put("dots.toml", "a".to_owned() + &".a".repeat(100_000) + " = 1\n");
    let json = put("deep.json", "{\"tasks\": ".to_owned() + &"{\"a\": ".repeat(100_000));
    let many = put("many.toml", (0..20_000).map(|n| format!("[task.t{n}]\nsteps = [{{ run = \"1ms\" }}]\n")).collect());
    let yaml = put("laughs.yml", laughs.clone() + "taskset: *k\n");
    let manifest = put("laughs.yaml", "kind: Pod\n".to_owned() + &laughs);
    let brackets = put("brackets.yaml", "kind: Pod\nspec: ".to_owned() + &"[".repeat(100_000));
    let xml = put("nested.xml", "<t>".repeat(100_000));
    let answer = put("answer.json", "{\"resultType\":".to_owned() + &"[".repeat(100_000));
    let stat = put("cpu.stat", "nr_periods 1\n".repeat(500_000));
    for args in [
        &["run", &deep, "-q"][..],
        &["run", &dots, "-q"],
        &["run", &json, "-q"],
        &["run", &yaml, "-q"],
        &["run", &xml, "-q"],
        &["analyse", &xml],
        &["convert", &json, "/dev/null"],
        &["run", scenario, "-d", "1ms", "-q", "--costs", &deep],
        &["run", scenario, "-d", "1ms", "-q", "-f", &manifest],
        &["run", scenario, "-d", "1ms", "-q", "-f", &brackets],
        &["advise", &answer, "--now", "50000 100000"],
        &["advise", &stat, "--now", "50000 100000"],
    ] {
        let (code, says) = ends_well(args);
        assert_eq!(code, 2, "{args:?} is refused: {says}");
    }
    assert_eq!(ends_well(&["run", &many, "-q", "-d", "1ms", "--no-check"]).0, 0, "many tasks are no error");
    // The limits are in force: with a hundredth of the memory not even a small run ends well.
    let small = ["run", scenario, "-q", "-d", "1ms"];
    let codes = [MEMORY, MEMORY / 100].map(|memory| bounded(memory, &small).code);
    assert!(codes[0].is_some() && codes[1] != codes[0], "{codes:?}");
}
