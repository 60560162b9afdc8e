"""Inputs of the programs of programs.sh, the same everywhere: inputs.py transactions|text|frames|source [DIRECTORY]."""
import os
import random
import sys

draw = random.Random(54)


def transactions():
    print("CREATE TABLE account (id INTEGER PRIMARY KEY, balance INTEGER, note TEXT); CREATE INDEX by_balance ON account (balance);")
    for at in range(500):
        print(f"BEGIN; INSERT INTO account VALUES ({at}, {draw.randrange(1000)}, '{'x' * draw.randrange(200)}');")
        print(f"UPDATE account SET balance = balance + 1 WHERE id = {draw.randrange(at + 1)};")
        print(f"SELECT count(*), sum(balance) FROM account WHERE balance > {draw.randrange(1000)}; COMMIT;")


def text():
    words = ["".join(draw.choice("abcdefghijklmnop") for _ in range(draw.randrange(2, 10))) for _ in range(3000)]
    size = 0
    while size < 4_000_000:
        line = " ".join(words[int(draw.paretovariate(0.6)) % 3000] for _ in range(12))
        size += len(line) + 1
        print(line)


def frames():
    """A bright square that moves over noise: 40 frames."""
    width, height = 320, 240
    out = sys.stdout.buffer
    out.write(b"YUV4MPEG2 W%d H%d F25:1 Ip A1:1 C420jpeg\n" % (width, height))
    noise = bytes(draw.randrange(60, 90) for _ in range(width * height))
    for frame in range(40):
        luma = bytearray(noise[frame * 7 :] + noise[: frame * 7])
        for row in range(60):
            at = (60 + row) * width + frame * 5
            luma[at : at + 60] = bytes((200 + (row * frame) % 50,)) * 60
        out.write(b"FRAME\n" + bytes(luma) + bytes((128,)) * (width * height // 2))


def source(directory):
    os.makedirs(directory)
    files = 10
    with open(f"{directory}/Makefile", "w") as make:
        make.write(f"all: {' '.join(f'f{at}.o' for at in range(files))}\n%.o: %.c\n\tgcc -nostdinc -O1 -c -o $@ $<\n")
    for at in range(files):
        with open(f"{directory}/f{at}.c", "w") as code:
            code.write("int printf(const char *, ...);\n")
            for number in range(draw.randrange(3, 30)):
                code.write(f'int f{at}_{number}(int x) {{ for (int i = 0; i < x; i++) printf("%d", x ^ i); return x * {number}; }}\n')


if __name__ == "__main__":
    {"transactions": transactions, "text": text, "frames": frames, "source": source}[sys.argv[1]](*sys.argv[2:])
