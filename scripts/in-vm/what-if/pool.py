# A pool of processes with 48 computations of different lengths, for programs.sh: pool.py WORKERS GO. They begin with a line from the pipe GO.
import multiprocessing
import random
import sys
import time


def compute(turns):
    value = 0
    for at in range(turns):
        value = (value * 31 + at) & 0xFFFF
    return value


if __name__ == "__main__":
    lengths = [random.Random(54 + at).randrange(7_000, 27_000) for at in range(48)]
    with multiprocessing.get_context("fork").Pool(int(sys.argv[1])) as pool:
        pool.map(compute, [100] * 16)
        open(sys.argv[2]).readline()
        began = time.monotonic()
        pool.map(compute, lengths, chunksize=1)
        print(f"seconds {time.monotonic() - began:.3f}")
