//! Destinations of results, as a user sees them: links, devices, pipes, full disks, killed runs.

#![cfg(unix)]

use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::{FileTypeExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

const RUN: [&str; 5] = ["run", "examples/rt-overload.toml", "-d", "300ms", "-q"];

fn zerolag(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_zerolag"));
    command.args(args).current_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")).stdin(Stdio::null());
    command
}

fn end(command: &mut Command) -> Output {
    command.stdout(Stdio::piped()).stderr(Stdio::piped()).output().expect("the program starts")
}

/// A fresh directory for one test.
fn scratch(name: &str) -> PathBuf {
    let dir = Path::new(env!("CARGO_TARGET_TMPDIR")).join("output").join(name);
    drop(fs::remove_dir_all(&dir));
    fs::create_dir_all(&dir).expect("a directory can be made");
    dir
}

fn list(dir: &Path) -> Vec<OsString> {
    let mut names: Vec<_> = fs::read_dir(dir).expect("listed").map(|entry| entry.expect("entry").file_name()).collect();
    names.sort();
    names
}

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn a_symlink_is_followed_and_survives() {
    let dir = scratch("symlink");
    fs::create_dir(dir.join("deep")).expect("made");
    symlink("deep/real.zlt", dir.join("second.zlt")).expect("linked");
    symlink("second.zlt", dir.join("first.zlt")).expect("linked");
    // The first run creates the file that the links name, the second replaces it and keeps its
    // mode.
    for mode in [None, Some(0o640)] {
        if let Some(mode) = mode {
            fs::set_permissions(dir.join("deep/real.zlt"), fs::Permissions::from_mode(mode)).expect("set");
        }
        let output = end(zerolag(&RUN).arg("--trace").arg(dir.join("first.zlt")));
        assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
        assert!(dir.join("first.zlt").is_symlink());
        assert!(dir.join("second.zlt").is_symlink());
        assert_eq!(list(&dir), ["deep", "first.zlt", "second.zlt"]);
        assert_eq!(list(&dir.join("deep")), ["real.zlt"]);
        let found = fs::metadata(dir.join("deep/real.zlt")).expect("it exists");
        assert!(found.len() > 1_000);
        if let Some(mode) = mode {
            assert_eq!(found.permissions().mode() & 0o7777, mode);
        }
    }
    symlink("loop.zlt", dir.join("loop.zlt")).expect("linked");
    let output = end(zerolag(&RUN).arg("--trace").arg(dir.join("loop.zlt")));
    assert_eq!(output.status.code(), Some(2), "{}", stderr(&output));
    assert!(stderr(&output).contains("symbolic links"), "{}", stderr(&output));
}

#[test]
#[cfg(target_os = "linux")]
fn a_full_device_is_reported_as_full_and_is_not_replaced() {
    let dir = scratch("full");
    for name in ["full.zlt", "full.pftrace", "full.txt"] {
        symlink("/dev/full", dir.join(name)).expect("linked");
        let output = end(zerolag(&RUN).arg("--trace").arg(dir.join(name)));
        assert_eq!(output.status.code(), Some(1), "{name}: {}", stderr(&output));
        assert!(stderr(&output).contains("no space left on device"), "{name}: {}", stderr(&output));
        assert!(dir.join(name).is_symlink(), "{name}");
    }
    let explain = ["explain", "examples/rt-overload.toml", "-d", "300ms"];
    let others: [&[&str]; 5] = [
        &[&explain[..], &["--perfetto", "/dev/full"]].concat(),
        &[&RUN[..], &["--json=/dev/full"]].concat(),
        &[&RUN[..], &["--trace", "/dev/full", "--trace-format", "zlt"]].concat(),
        &["export", "examples/audio.json", "-o", "/dev/full"],
        &["rt-migrate-test", "-l", "2", "--json", "/dev/full"],
    ];
    for args in others {
        let output = end(&mut zerolag(args));
        assert_eq!(output.status.code(), Some(1), "{args:?}: {}", stderr(&output));
        let said = "cannot write `/dev/full`: no space left on device";
        assert!(stderr(&output).contains(said), "{args:?}: {}", stderr(&output));
        assert!(fs::symlink_metadata("/dev/full").expect("it exists").file_type().is_char_device(), "{args:?}");
    }
    assert_eq!(list(&dir), ["full.pftrace", "full.txt", "full.zlt"]);
}

#[test]
fn a_pipe_gets_the_same_bytes_as_a_file_and_a_closed_one_is_reported() {
    let dir = scratch("fifo");
    let (file, fifo) = (dir.join("file.zlt"), dir.join("fifo.zlt"));
    assert_eq!(end(zerolag(&RUN).arg("--trace").arg(&file)).status.code(), Some(0));
    let made = Command::new("mkfifo").arg(&fifo).status().expect("mkfifo starts");
    assert!(made.success());
    let reader = std::thread::spawn({
        let fifo = fifo.clone();
        move || fs::read(fifo).expect("read")
    });
    let output = end(zerolag(&RUN).arg("--trace").arg(&fifo));
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    assert_eq!(reader.join().expect("no panic"), fs::read(&file).expect("read"));
    // A reader that leaves at once.
    let reader = std::thread::spawn({
        let fifo = fifo.clone();
        move || drop(fs::File::open(fifo).expect("opened"))
    });
    let long = ["run", "examples/rt-overload.toml", "-d", "20s", "-q"];
    let output = end(zerolag(&long).arg("--trace").arg(&fifo));
    reader.join().expect("no panic");
    assert_eq!(output.status.code(), Some(1), "{}", stderr(&output));
    assert!(stderr(&output).contains("broken pipe"), "{}", stderr(&output));
    assert!(fs::symlink_metadata(&fifo).expect("it exists").file_type().is_fifo());
}

/// The standard output by its name: a file is neither replaced nor truncated, and a closed pipe is
/// no failure.
#[test]
#[cfg(target_os = "linux")]
fn the_standard_output_can_be_named() {
    let dir = scratch("stdout");
    let whole = dir.join("whole.zlt");
    assert_eq!(end(zerolag(&RUN).arg("--trace").arg(&whole)).status.code(), Some(0));
    let trace = fs::read(&whole).expect("read");
    let args = [&RUN[..], &["--trace", "/dev/stdout", "--trace-format", "zlt"]].concat();
    let text = end(zerolag(&RUN).arg("--trace").arg(&whole)).stdout;
    let expected = [&trace[..], &text].concat();
    assert_eq!(end(&mut zerolag(&args)).stdout, expected, "a pipe");
    let path = dir.join("redirected");
    fs::write(&path, "before\n").expect("written");
    let file = fs::OpenOptions::new().append(true).open(&path).expect("opened");
    assert!(zerolag(&args).stdout(file).stderr(Stdio::null()).status().expect("starts").success());
    assert_eq!(fs::read(&path).expect("read"), [b"before\n", &expected[..]].concat(), "a file");
    let (near, mut far) = std::os::unix::net::UnixStream::pair().expect("a pair of sockets");
    let mut child =
        zerolag(&args).stdout(std::os::fd::OwnedFd::from(near)).stderr(Stdio::null()).spawn().expect("starts");
    let mut got = Vec::new();
    std::io::Read::read_to_end(&mut far, &mut got).expect("read");
    assert!(child.wait().expect("ends").success());
    assert_eq!(got, expected, "a socket");
    let (reader, writer) = std::io::pipe().expect("a pipe");
    drop(reader);
    let output = zerolag(&args).stdout(writer).stderr(Stdio::piped()).output().expect("starts");
    assert_eq!((output.status.code(), stderr(&output)), (Some(0), String::new()), "a closed pipe");
}

#[test]
#[cfg(target_os = "linux")]
fn a_killed_run_leaves_the_old_file_and_nothing_else() {
    let dir = scratch("killed");
    let path = dir.join("a.zlt");
    fs::write(&path, "old").expect("written");
    // A run of an hour, killed while it writes: its file aside is open and has no name.
    let mut child = zerolag(&["run", "examples/rt-overload.toml", "-d", "1000h", "-q", "--trace"])
        .arg(&path)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("starts");
    let descriptors = PathBuf::from(format!("/proc/{}/fd", child.id()));
    let writes = || {
        fs::read_dir(&descriptors).is_ok_and(|mut entries| {
            entries.any(|entry| {
                let file = entry.and_then(|entry| fs::read_link(entry.path()));
                file.is_ok_and(|file| file.starts_with(fs::canonicalize(&dir).expect("it exists")))
            })
        })
    };
    while !writes() {
        assert!(child.try_wait().expect("asked").is_none(), "it ended before it wrote");
        std::thread::yield_now();
    }
    child.kill().expect("killed");
    child.wait().expect("ended");
    assert_eq!(fs::read(&path).expect("read"), b"old");
    assert_eq!(list(&dir), ["a.zlt"]);
}

/// The files of a run, written by their names in a directory.
fn run_into(dir: &Path, seed: &str) -> Command {
    let mut command = zerolag(&["run", "examples/rt-overload.toml", "-d", "200ms", "-q", "--seed", seed, "--trace"]);
    command.arg(dir.join("a.zlt")).arg("--html").arg(dir.join("a.html"));
    let mut json = OsString::from("--json=");
    json.push(dir.join("a.json"));
    command.arg(json).arg("--csv").arg(dir.join("csv"));
    command.stdout(Stdio::null()).stderr(Stdio::piped());
    command
}

/// Returns the files of a directory and those below it, by name.
fn contents(dir: &Path) -> Vec<(OsString, Vec<u8>)> {
    let mut found = Vec::new();
    for name in list(dir) {
        let path = dir.join(&name);
        if path.is_dir() {
            found.extend(contents(&path));
        } else {
            let bytes = fs::read(&path).expect("read");
            found.push((name, bytes));
        }
    }
    found
}

/// Each file is the whole result of one of the processes, and no other file is left.
#[test]
fn of_several_processes_that_write_the_same_files_each_result_is_whole() {
    const SEEDS: [&str; 4] = ["1", "2", "3", "4"];
    let alone = |seed| {
        let dir = scratch(&format!("alone-{seed}"));
        let ended = end(&mut run_into(&dir, seed));
        assert_eq!(ended.status.code(), Some(0), "{}", stderr(&ended));
        contents(&dir)
    };
    let expected = SEEDS.map(alone);
    let names = |of: &[(OsString, Vec<u8>)]| of.iter().map(|(name, _)| name.clone()).collect::<Vec<_>>();
    for round in 0..3 {
        // A new directory each time: the processes create what is below it at the same time.
        let dir = scratch(&format!("together-{round}"));
        let together: Vec<_> = SEEDS.iter().map(|seed| run_into(&dir, seed).spawn().expect("starts")).collect();
        for process in together {
            let ended = process.wait_with_output().expect("ends");
            assert_eq!(ended.status.code(), Some(0), "{}", stderr(&ended));
        }
        let found = contents(&dir);
        assert_eq!(names(&found), names(&expected[0]));
        for (place, (name, bytes)) in found.iter().enumerate() {
            // A page names the options of its run, the directory among them.
            let is_of = |of: &Vec<(OsString, Vec<u8>)>| of[place].1.len().abs_diff(bytes.len()) < 64;
            let is_whole = |of: &Vec<(OsString, Vec<u8>)>| of[place].1 == *bytes;
            let is_page = name == "a.html";
            let ends = bytes.ends_with(b"</html>\n");
            let fits = expected.iter().any(|of| if is_page { is_of(of) && ends } else { is_whole(of) });
            assert!(fits, "{} is of no single process", name.display());
        }
    }
}

/// Two that bless the same specs at once: each spec is as one of them would have written it alone.
#[test]
fn of_several_processes_that_bless_the_same_specs_each_spec_is_whole() {
    let dir = scratch("blessed");
    let spec = |name: &str, runs: u32| {
        let text = format!(
            "# A spec\n\n```toml\nduration = \"20ms\"\n[task.a]\nloop = {runs}\nsteps = [{{ run = \"1ms\" }}, \
             {{ sleep = \"1ms\" }}]\n```\n\n```switches\n```\n"
        );
        fs::write(dir.join(name), text).expect("written");
    };
    let write = || (1..=8).for_each(|runs| spec(&format!("{runs}.md"), runs));
    let bless = || {
        let mut command = zerolag(&["spec", "--bless"]);
        command.arg(&dir).stdout(Stdio::null()).stderr(Stdio::piped());
        command
    };
    write();
    let before = contents(&dir);
    assert_eq!(end(&mut bless()).status.code(), Some(0));
    let expected = contents(&dir);
    assert!(before.iter().zip(&expected).all(|(was, is)| was != is), "nothing was to be blessed");
    for _ in 0..5 {
        write();
        let together: Vec<_> = (0..4).map(|_| bless().spawn().expect("starts")).collect();
        for process in together {
            let ended = process.wait_with_output().expect("ends");
            assert_eq!(ended.status.code(), Some(0), "{}", stderr(&ended));
        }
        assert!(contents(&dir) == expected, "a spec differs, or another file is left: {:?}", list(&dir));
    }
}

/// SIGKILL at any instant leaves each file as it was, or whole, and nothing else: but for the
/// instant between the naming of a complete file and its renaming (`output::file`).
#[test]
#[cfg(target_os = "linux")]
fn runs_killed_at_any_instant_leave_whole_files() {
    let dir = scratch("killed-anywhere");
    let whole = {
        assert_eq!(end(&mut run_into(&dir, "1")).status.code(), Some(0));
        contents(&dir)
    };
    let mut killed = 0;
    for turns in (0..40).map(|turn| turn * turn * 40) {
        let mut process = run_into(&dir, "1").spawn().expect("starts");
        for _ in 0..turns {
            // Beside other work each turn takes long.
            if process.try_wait().expect("asked").is_some() {
                break;
            }
            std::thread::yield_now();
        }
        drop(process.kill());
        killed += u32::from(process.wait().expect("ended").code().is_none());
        for (name, bytes) in contents(&dir) {
            let base = name.to_str().expect("its name");
            let base = base.split_once(".part").map_or(base, |(base, _)| base.rsplit_once('.').expect("random").0);
            let (_, expected) = whole.iter().find(|(known, _)| known.to_str() == Some(base)).expect("a known name");
            assert!(bytes == *expected, "{base} is not whole after {turns} turns");
        }
    }
    assert!(killed > 0, "each run ended before it was killed");
}

/// A name that is no UTF-8 text is a name like any other, as input and as output of every
/// subcommand that takes one.
#[test]
#[cfg(target_os = "linux")]
#[expect(clippy::too_many_lines, reason = "a row per command line")]
fn names_need_not_be_text() {
    use std::os::unix::ffi::OsStringExt;
    let dir = scratch("names");
    let name = |end: &str| OsString::from_vec([b"b\xff", end.as_bytes()].concat());
    let joined = |option: &str, end: &str| {
        let mut argument = OsString::from(option);
        argument.push(name(end));
        argument
    };
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    for (from, end) in [("rt-overload.toml", ".toml"), ("audio.json", ".json")] {
        fs::copy(root.join("examples").join(from), dir.join(name(end))).expect("copied");
    }
    fs::write(dir.join(name("-costs.toml")), "context_switch = \"1us\"\n").expect("written");
    fs::write(dir.join(name(".md")), "# A spec without a scenario\n").expect("written");
    fs::create_dir(dir.join(name(".dir"))).expect("made");
    fs::create_dir(dir.join(name(".man"))).expect("made");
    fs::create_dir(dir.join(name(".folder"))).expect("made");
    for to in [name("-web.toml"), Path::new(&name(".folder")).join(name(".toml")).into_os_string()] {
        fs::copy(root.join("examples/web-service-limit.toml"), dir.join(to)).expect("copied");
    }
    fs::write(dir.join(name(".yaml")), "services:\n  web:\n    cpus: 0.5\n").expect("written");
    fs::create_dir_all(dir.join(name(".tree")).join("web")).expect("made");
    fs::write(dir.join(name(".tree")).join("web/cpu.max"), "50000 100000\n").expect("written");
    let counters = "usage_usec 500000\nnr_periods 100\nnr_throttled 10\nthrottled_usec 1000\n";
    fs::write(dir.join(name(".stat")), counters).expect("written");
    fs::write(dir.join(name(".log")), counters).expect("written");
    let run = |arguments: &[OsString], code: i32| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_zerolag"));
        let ended = end(command.args(arguments).current_dir(&dir).stdin(Stdio::null()));
        assert_eq!(ended.status.code(), Some(code), "{arguments:?}: {}", stderr(&ended));
        let said = stderr(&ended);
        assert!(!said.contains("panicked") && !said.contains("UTF-8"), "{arguments:?}: {said}");
    };
    let mut ran = 0;
    let mut all = |lines: &[(&str, &[OsString], i32)]| {
        for (line, names, code) in lines {
            let mut names = names.iter().cloned();
            let arguments = line.split(' ').map(|word| match word {
                "@" => names.next().expect("a name for each @"),
                word => OsString::from(word),
            });
            run(&arguments.collect::<Vec<_>>(), *code);
            ran += 1;
        }
    };
    let (toml, zlt, costs) = (name(".toml"), name(".zlt"), name("-costs.toml"));
    all(&[
        (
            "run @ -q -d 50ms --trace @ --html @ @ --csv @ --parquet @ --costs @",
            &[
                toml.clone(),
                zlt.clone(),
                name(".html"),
                joined("--json=", ".run.json"),
                name(".csv"),
                name(".pq"),
                costs,
            ],
            0,
        ),
        ("run @ -q -d 50ms", &[name(".json")], 0),
        ("export @ -o @", &[name(".json"), name(".out.json")], 0),
        ("report @ --html @ @ --csv @", &[zlt.clone(), name(".r.html"), joined("--json=", ".r.json"), name(".r")], 0),
        ("check @", std::slice::from_ref(&zlt), 0),
        ("explain @ --perfetto @", &[zlt.clone(), name(".e.pftrace")], 0),
        ("import @ -o @", &[zlt.clone(), name(".import.toml")], 0),
        ("run @ -q", &[name(".import.toml")], 0),
        ("convert @ @", &[zlt.clone(), name(".txt")], 0),
        ("convert @ @", &[name(".zlt"), name(".pftrace")], 0),
        ("report @", &[name(".txt")], 0),
        ("report @", &[name(".pftrace")], 0),
        ("compare @ -q -d 20ms --vary kernel=6.1,6.12 --html @", &[toml.clone(), name(".c.html")], 0),
        ("sweep @ -q -d 20ms --set seed=1,2 --html @", &[toml.clone(), name(".s.html")], 0),
        ("analyse @ -d 20ms", &[toml], 0),
        ("init @", &[name(".init.toml")], 0),
        ("fuzz -q --count 1 --out @", &[name(".dir")], 0),
        ("rt-migrate-test -l 2 --json @", &[name(".m.json")], 0),
        ("spec @", &[name(".md")], 1),
        ("merge @", &[name(".none")], 2),
        ("validate @", &[name(".none")], 2),
        ("top --socket @", &[name(".none")], 2),
        ("serve @", &[name(".none.zlt")], 2),
    ]);
    let (web, yaml, stat) = (name("-web.toml"), name(".yaml"), name(".stat"));
    let (grid, part) = (joined("--json=", ".part1"), joined("--json=", ".part2"));
    all(&[
        ("run @ -q -d 50ms -f @ --trace @", &[web.clone(), yaml.clone(), name(".web.zlt")], 99),
        ("import @ --group web-0=/web --limits @ -o @", &[name(".web.zlt"), yaml, name(".limits.toml")], 0),
        ("import @ --cgroup-tree @ -o @", &[name(".web.zlt"), name(".tree"), name(".groups.toml")], 0),
        ("advise @ -d 1s --seeds 1", std::slice::from_ref(&web), 99),
        ("advise @ --now 1 --over 10", std::slice::from_ref(&stat), 0),
        ("advise @ @ --now 1", &[name(".log"), name(".log")], 2),
        ("calibrate @", &[name(".none/costs.toml")], 2),
        ("calibrate @ --events @", &[name(".none"), name(".none")], 2),
        (
            "sweep @ -q -d 20ms --set seed=1,2 --csv @ --parquet @ --plot @",
            &[name(".toml"), name(".s.csv"), name(".s.pq"), name(".svg")],
            0,
        ),
        ("sweep @ -q -d 20ms --set seed=1,2 --resume @", &[name(".toml"), name(".log.jsonl")], 0),
        ("sweep @ -q -d 20ms --set seed=1,2 --shard 1/2 @", &[name(".toml"), grid], 0),
        ("sweep @ -q -d 20ms --set seed=1,2 --shard 2/2 @", &[name(".toml"), part], 0),
        ("merge @ @ --plot @", &[name(".part1"), name(".part2"), name(".merged.svg")], 0),
        ("compare @ -q -d 20ms --kernel 6.1 --kernel 6.12", &[name(".folder")], 0),
        ("cyclictest -q -l 10 -h 10 --histfile @ --json @", &[name(".hist"), name(".cyclic.json")], 0),
        ("repro rt-ipi --cpus 4 --out @", &[name(".repro")], 0),
        ("man --dir @", &[name(".man")], 0),
    ]);
    assert_eq!(ran, 23 + 17);
    let made = list(&dir);
    for made_name in [
        ".zlt",
        ".html",
        ".run.json",
        ".csv",
        ".pq",
        ".out.json",
        ".r.html",
        ".e.pftrace",
        ".c.html",
        ".m.json",
        ".web.zlt",
        ".limits.toml",
        ".groups.toml",
        ".s.csv",
        ".s.pq",
        ".svg",
        ".log.jsonl",
        ".merged.svg",
        ".hist",
        ".repro",
        ".man",
    ] {
        assert!(made.contains(&name(made_name)), "{made_name} is missing: {made:?}");
    }
}
