#!/bin/busybox sh
# A load that works in the kernel, in a virtual machine: run.sh (timerlat, osnoise) and latency.sh. It prints its parts on one line and stays in the background.
#
# What is in the image runs: hackbench (messages), stress-ng (UDP on the loopback device, processes that fork and exit, a pipe), and always `find` in /proc
# and /sys and files in memory. With `ip`, `tc` and a kernel that has netem, packets circulate between two virtual network devices, about 3000 a second:
# a timer's interrupt, then softirqs of the network, without any task, as a network card would cause them.
parts="find files"
/bin/ip link set lo up 2> /dev/null
if command -v hackbench > /dev/null; then
    hackbench -g 1 -f 4 -l 100000000 > /dev/null 2>&1 &
    parts="$parts hackbench"
fi
if command -v stress-ng > /dev/null; then
    stress-ng --udp 1 --fork 1 --pipe 1 --temp-path /tmp > /dev/null 2>&1 &
    parts="$parts stress-ng"
fi
while :; do find /proc /sys -maxdepth 4 > /dev/null 2>&1; dd if=/dev/zero of=/tmp/f bs=4M count=8 2> /dev/null; rm /tmp/f; done &

# Each device sends back what it receives, 0.5 ms later on average. Links are commands of busybox, which cannot do this, and which the shell prefers without a path.
if [ -x /bin/tc ] && [ ! -L /bin/tc ] && [ ! -L /bin/ip ] && /bin/ip link add left type veth peer name right 2> /dev/null; then
    for device in left right; do
        /bin/ip link set $device up
        /bin/tc qdisc add dev $device root netem delay 500us 400us
        /bin/tc qdisc add dev $device ingress
        /bin/tc filter add dev $device ingress matchall action mirred egress redirect dev $device
    done
    /bin/ip address add 10.9.8.1/24 dev left
    # Two requests for an address, which no host answers.
    ping -c 2 -W 1 10.9.8.2 > /dev/null 2>&1
    sent=$(cat /sys/class/net/left/statistics/tx_packets)
    sleep 1
    parts="$parts packets=$(($(cat /sys/class/net/left/statistics/tx_packets) - sent))/s"
fi
echo "$parts"
