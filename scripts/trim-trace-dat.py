#!/usr/bin/env python3
"""Leaves out of a trace.dat of version 6 what tests do not need: the kernel's symbols and the formats of all systems but `sched`.

    scripts/trim-trace-dat.py IN.dat OUT.dat [PAGES OF EACH CPU]

`trace-cmd convert -i OUT.dat -o V7.dat --file-version 7 --compression zstd` makes version 7 of it.
"""
import struct
import sys

source, target = sys.argv[1:3]
most = int(sys.argv[3]) if len(sys.argv) > 3 else 1 << 30
data = open(source, "rb").read()
at = 0


def take(size):
    global at
    at += size
    return data[at - size : at]


def number(form):
    return struct.unpack("<" + form, take(struct.calcsize("<" + form)))[0]


def text():
    return take(data.index(b"\0", at) + 1 - at)


out = bytearray(take(10) + text() + take(6))
page = struct.unpack_from("<I", out, len(out) - 4)[0]
for name in (b"header_page\0", b"header_event\0"):
    out += take(len(name))
    size = number("Q")
    out += struct.pack("<Q", size) + take(size)
for _ in range(number("I")):
    take(number("Q"))
out += struct.pack("<I", 0)
systems = {}
for _ in range(number("I")):
    name = text()
    systems[name] = [take(number("Q")) for _ in range(number("I"))]
out += struct.pack("<I", 1) + b"sched\0" + struct.pack("<I", len(systems[b"sched\0"]))
for form in systems[b"sched\0"]:
    out += struct.pack("<Q", len(form)) + form
take(number("I"))
take(number("I"))
out += struct.pack("<II", 0, 0)
names = take(number("Q"))
out += struct.pack("<Q", len(names)) + names
cpus = number("I")
out += struct.pack("<I", cpus)
kind = take(10)
if kind == b"options  \0":
    out += kind
    while option := number("H"):
        value = take(number("I"))
        # The buffers of other instances would need their own places.
        if option != 3:
            out += struct.pack("<HI", option, len(value)) + value
    out += struct.pack("<H", 0)
    kind = take(10)
assert kind == b"flyrecord\0", kind
out += kind
places = [(number("Q"), number("Q")) for _ in range(cpus)]
start = len(out) + 16 * cpus
pages = b""
begin = -(-start // page) * page
for place, size in places:
    size = min(size, most * page)
    out += struct.pack("<QQ", begin + len(pages), size)
    pages += data[place : place + size]
out += bytes(begin - len(out)) + pages
open(target, "wb").write(out)
