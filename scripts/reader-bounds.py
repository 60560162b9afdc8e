#!/usr/bin/env python3
"""Memory and time of every reader under a limit of 1 GB of address space.

    ZEROLAG=target/release/zerolag scripts/reader-bounds.py [DIR]     # prints the table of docs/lab/fuzzing.md

Of each reader a large input, and hostile ones: packed, nested, referring to itself, with lengths that lie. A row is the input, its size, the exit code,
the peak of resident memory and the CPU time, of which a minute is allowed. Code 0 is an answer, 2 a refusal; anything else, a signal above all, is a
fault, and the script ends with 1.
"""

import gzip
import json
import os
import resource
import struct
import subprocess
import sys
from pathlib import Path

LIMIT = 1 << 30
SECONDS = 60
ZEROLAG = os.environ.get("ZEROLAG", "target/release/zerolag")
ROOT = Path(__file__).resolve().parent.parent


def generated(directory):
    """Returns all inputs. They are made by another process: a child's peak is never below that of its parent."""
    plan = directory / "inputs.json"
    if not (pid := os.fork()):
        plan.write_text(json.dumps(list(inputs(directory))))
        os._exit(0)
    if os.waitpid(pid, 0)[1]:
        sys.exit("the inputs cannot be made")
    return json.loads(plan.read_text())


def measured(arguments):
    """Returns the exit code, the peak in MB, the seconds of CPU time and the first line of stderr."""

    def limit():
        resource.setrlimit(resource.RLIMIT_AS, (LIMIT, LIMIT))
        resource.setrlimit(resource.RLIMIT_CPU, (SECONDS, SECONDS))

    process = subprocess.Popen([ZEROLAG, *arguments], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, preexec_fn=limit)
    said = process.stderr.read().decode(errors="replace")
    _, status, usage = os.wait4(process.pid, 0)
    return os.waitstatus_to_exitcode(status), usage.ru_maxrss / 1024, usage.ru_utime + usage.ru_stime, said.split("\n")[0]


def zeros(path, begin, count, packer=gzip):
    """Packs `count` MB of one block behind `begin`: some kB on the disk."""
    with packer.open(path, "wb", 9) as out:
        out.write(begin)
        block = b"\0" * (1 << 20)
        for _ in range(count):
            out.write(block)


def repeated(path, line, megabytes):
    with gzip.open(path, "wb", 9) as out:
        block = line * ((1 << 20) // len(line))
        for _ in range(megabytes):
            out.write(block)


def inputs(directory):
    """Yields reader, what the input is, command and file."""

    def put(name, content):
        path = directory / name
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return str(path)

    own = directory / "large.zlt"
    run = ["run", str(ROOT / "examples/noisy-neighbour.toml"), "-d", "40s", "-q", "--no-check", "--trace", str(own)]
    subprocess.run([ZEROLAG, *run], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    yield "zlt", "a run of 40 s", "report", str(own)
    for kind, end in (("text of ftrace", "txt"), ("Perfetto", "pftrace")):
        other = directory / f"large.{end}"
        subprocess.run([ZEROLAG, "convert", str(own), str(other)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        yield kind, "the same run", "report", str(other)
    text = (directory / "large.txt").read_bytes()
    page = b'<!DOCTYPE html>\n<script class="trace-data" type="x">\n' + text + b"\n</script>"
    yield "systrace (HTML)", "the same text", "report", put("large.html", page)
    data = ROOT / "crates/trace/tests/data"
    for kind, name in (
        ("perf.data", "build-2cpu.perf.data.gz"),
        ("text of perf script", "mixed-2cpu.perf.txt.gz"),
        ("trace.dat", "hackbench-v7.trace.dat.gz"),
        ("text of trace-cmd", "juno.trace-cmd.txt.gz"),
        ("SchedViz", "schedviz.tar.gz"),
    ):
        yield kind, "the largest recording of the tests", "report", str(data / name)

    head = own.read_bytes()[:64]
    zeros(directory / "zeros.gz", b"", 4096)
    yield "gzip", "4 GB of zeros", "report", str(directory / "zeros.gz")
    zeros(directory / "zlt.gz", head, 4096)
    yield "zlt", "packed: a head, 4 GB of zeros", "report", str(directory / "zlt.gz")
    lie = struct.pack("<QQ", 1 << 62, 1 << 62) * 8
    yield "zlt", "lengths of 2^62", "report", put("lie.zlt", head[:16] + b"\xff" * 64)
    yield "perf.data", "lengths of 2^62", "report", put("lie.perf.data", b"PERFILE2" + struct.pack("<Q", 104) + lie)
    yield "trace.dat", "lengths of 2^62", "report", put("lie.dat", b"\x17\x08\x44tracing6\0\0\x08" + b"\xff" * 4096)
    yield "Perfetto", "lengths of 2^62", "report", put("lie.pftrace", b"\x0a\xff\xff\xff\xff\xff\xff\xff\xff\x3f" * 1000)
    event = (
        b" a-1 [000] d..2. 1.500000: sched_switch: prev_comm=a prev_pid=1 prev_prio=120 prev_state=S ==> "
        b"next_comm=b next_pid=2 next_prio=120\n"
    )
    repeated(directory / "same.txt.gz", event, 2048)
    yield "text of ftrace", "packed: one line, 2 GB", "report", str(directory / "same.txt.gz")
    yield "text of ftrace", "one line of 64 MB", "report", put("line.txt", b"# tracer: nop\n" + b" a-1 [000] d..2. " * (4 << 20))
    yield "SchedViz", "packed: 4 GB of zeros in tar's blocks", "report", str(tar(directory))

    tasks = "".join(f'[task.t{n}]\nsteps = [{{ run = "1ms" }}]\n' for n in range(200_000))
    yield "scenario (TOML)", "200,000 tasks", "export", put("tasks.toml", tasks)
    yield "scenario (TOML)", "10^6 brackets", "run", put("deep.toml", "a = " + "[" * 1_000_000)
    yield "scenario (TOML)", "10^6 dots of a key", "run", put("dots.toml", "a" + ".a" * 1_000_000 + " = 1")
    yield "scenario (TOML)", "100 MB of comments", "run", put("long.toml", "# x\n" * 25_000_000)
    app = {"tasks": {f"t{n}": {"run": 1000, "sleep": 1000} for n in range(100_000)}}
    yield "rt-app (JSON)", "100,000 tasks", "export", put("tasks.json", json.dumps(app))
    yield "rt-app (JSON)", "10^6 braces", "run", put("deep.json", '{"a":' * 1_000_000)
    yield "costs (TOML)", "10^6 brackets", "costs", put("deep-costs.toml", "tick = " + "[" * 1_000_000)
    rows = "task,runtime_ms,period_ms\n" + "".join(f"t{n},1,10\n" for n in range(100_000))
    yield "task set (CSV)", "100,000 tasks", "export", put("tasks.csv", rows)
    laughs = '<?xml version="1.0"?>\n<!DOCTYPE cheddar [\n<!ENTITY a "ha">\n'
    laughs += "".join(f'<!ENTITY {chr(98 + n)} "{f"&{chr(97 + n)};" * 10}">\n' for n in range(20))
    yield "task set (XML)", "entities of entities", "run", put("laughs.xml", laughs + "]>\n<cheddar>&u;</cheddar>")
    yield "task set (XML)", "10^6 elements, nested", "run", put("deep.xml", "<simulation>" + "<a>" * 1_000_000)
    yield "task set (YAML)", "aliases of aliases", "run", put("laughs.yml", "taskset:\n" + aliases())
    yield "task set (YAML)", "10^6 brackets", "run", put("deep.yml", "taskset: " + "[" * 1_000_000)

    container = "      - name: c%d\n        resources: {limits: {cpu: 500m}}\n"
    pod = "kind: Pod\nspec:\n  containers:\n" + "".join(container % n for n in range(10_000))
    yield "manifest (YAML)", "10,000 containers", "manifest", put("large.yaml", pod)
    yield "manifest (YAML)", "aliases of aliases", "manifest", put("laughs.yaml", "kind: Pod\n" + aliases())
    yield "manifest (YAML)", "10^6 brackets", "manifest", put("deep.yaml", "kind: Pod\nspec: " + "[" * 1_000_000)

    names = ["container_cpu_cfs_periods_total", "container_cpu_cfs_throttled_periods_total", "container_cpu_usage_seconds_total"]
    values = ",".join(f'[{1_700_000_000 + 10 * n},"{n}"]' for n in range(300_000))
    series = ",".join('{"metric":{"__name__":"%s"},"values":[%s]}' % (name, values) for name in names)
    answer = '{"status":"success","data":{"resultType":"matrix","result":[%s]}}' % series
    yield "counters (JSON)", "300,000 samples of three", "advise", put("large-answer.json", answer)
    deep = '{"resultType":' + "[" * 1_000_000
    yield "counters (JSON)", "10^6 brackets", "advise", put("deep-answer.json", deep)
    stat = "".join(f"{1_700_000_000 + n}\nnr_periods {10 * n}\nnr_throttled {n}\nthrottled_usec {n}\nusage_usec {n}\n" for n in range(400_000))
    yield "counters (cpu.stat)", "400,000 samples", "advise", put("large.stat", stat)
    yield "counters (cpu.stat)", "300 MB", "advise", put("huge.stat", "nr_periods 1\n" * (300 << 20 >> 4))


def aliases():
    """YAML's billion laughs."""
    lines = ["a: &a [x, x, x, x, x, x, x, x, x]"]
    lines += [f"{chr(98 + n)}: &{chr(98 + n)} [{', '.join([f'*{chr(97 + n)}'] * 9)}]" for n in range(12)]
    return "\n".join(lines) + "\n"


def tar(directory):
    path = directory / "bomb.tar.gz"
    size = 4 << 30
    head = bytearray(512)
    head[0:6] = b"traces"
    head[100:108] = b"0000644\0"
    head[124:136] = b"%011o\0" % size
    head[257:265] = b"ustar\x0000"
    head[148:156] = b" " * 8
    head[148:156] = b"%06o\0 " % sum(head)
    zeros(path, bytes(head), 4096)
    return path


def command(what, path):
    scenario = str(ROOT / "examples/noisy-neighbour.toml")
    return {
        "report": ["report", path],
        "run": ["run", path, "-d", "1ms", "-q"],
        "export": ["export", path, "-o", "/dev/null"],
        "analyse": ["analyse", path, "-d", "1ms", "--runs", "1"],
        "costs": ["run", scenario, "-d", "1ms", "-q", "--costs", path],
        "manifest": ["run", scenario, "-d", "1ms", "-q", "-f", path],
        "advise": ["advise", path, "--now", "50000 100000"],
    }[what]


def main():
    directory = Path(sys.argv[1] if len(sys.argv) > 1 else "target/reader-bounds")
    directory.mkdir(parents=True, exist_ok=True)
    is_fine = True
    print("| reader | input | MB | code | peak MB | CPU s |\n|---|---|--:|--:|--:|--:|")
    for reader, what, kind, path in generated(directory):
        code, peak, seconds, said = measured(command(kind, path))
        size = os.path.getsize(path) / (1 << 20)
        print(f"| {reader} | {what} | {size:.1f} | {code} | {peak:.0f} | {seconds:.1f} |", flush=True)
        if code not in (0, 1, 2, 99):
            print(f"{reader}, {what}: code {code} after {seconds:.0f} s: {said}", file=sys.stderr)
            is_fine = False
        elif code:
            print(f"{reader}, {what}: {said}", file=sys.stderr)
    sys.exit(0 if is_fine else 1)


if __name__ == "__main__":
    main()
