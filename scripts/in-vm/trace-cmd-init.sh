#!/bin/busybox sh
# The first process of the virtual machine of trace-cmd.sh: records, and sends the files over the second serial line.
/bin/busybox --install -s /bin
export PATH=/bin HOME=/
mount -t proc proc /proc
mount -t sysfs sys /sys
mount -t devtmpfs dev /dev
mount -t tracefs tracefs /sys/kernel/tracing
cd /work
echo "== $(uname -sr), $(nproc) CPUs, $(trace-cmd --version 2>&1 | sed -n 's/^trace-cmd version/trace-cmd/p' | head -1)"
cat /recipe
report() { [ -f $1.txt ] || trace-cmd report -t -R $1.dat > $1.txt; }
# Each with its own name in place of `trace`.
record() {
    sed -e "s/trace\.dat/$1.dat/g; s/trace\.txt/$1.txt/g" $2 > /$1.sh
    sh -ex /$1.sh && report $1 || echo "FAILED: $1"
}
record v7 /recipe
sed -e 's/ -C mono/ --file-version 6 -C mono/' /recipe > /recipe6
record v6 /recipe6
sed -e 's/ -b [0-9]* / -b 8 -s 1000000 /; s/-f 3 -l 40/-l 20/' /recipe > /small
record lost /small
ls -l
stty -F /dev/ttyS1 raw
tar -cf - *.dat *.txt | gzip -1 | base64 > /dev/ttyS1
echo "== done"
sleep 1
poweroff -f
