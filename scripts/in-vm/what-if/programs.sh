# Sourced by init.sh, and by what-if-vm.sh for `need_`: real programs. For each: `need_NAME` prints the host's programs, files and directories that it needs;
# `server_NAME` starts what is ready before the recording; `work_NAME` runs, when the recording has begun, what is measured, in $cg/zl/server or, as the client of
# a server, in $cg/zl/client; `after_NAME` says more of it when it is over. The shell of busybox prefers its own
# commands to those without a path. $workers is the changed number of workers, else empty; $seed is another one for each take. Waiting is free in virtual time.

for program in redis memcached nginx pgbench go pool http node sqlite xz x264 java build; do eval "after_$program() { :; }"; done
# Prints the percentiles of numbers, in ms, which are $1 to a millisecond.
percentiles() { sort -n | awk -v unit="$1" '{ at[NR] = $1 / unit } END { printf "answered %d p50 %.3f p99 %.3f ms\n", NR, at[int(NR / 2) + 1], at[int(NR * 0.99) + 1] }'; }

need_redis() { echo redis-server redis-benchmark; }
server_redis() { in_group server redis-server --port 6399 --bind 127.0.0.1 --save '' --appendonly no --io-threads 1 --dir /tmp/data > /dev/null & }
work_redis() { in_group_recorded client redis-benchmark -p 6399 -c 10 -n 8000 -t get --csv; }

need_memcached() { echo memcached; }
server_memcached() { in_group server memcached -u root -l 127.0.0.1 -p 11299 -t "${workers:-4}" -m 64 & }
work_memcached() { in_group client client open 11299 8 "$seed" 1500 3 'get k\r\n' /tmp/go; }

need_nginx() { echo nginx; }
server_nginx() {
    mkdir -p /tmp/data/www /var/log/nginx /var/lib/nginx
    seq 3000 > /tmp/data/www/index.html
    cat > /tmp/data/nginx.conf <<CONF
worker_processes ${workers:-2}; daemon off; user root root; pid /tmp/data/nginx.pid; error_log /tmp/data/nginx.log;
events { worker_connections 64; }
http { access_log off; gzip on; gzip_types *; gzip_comp_level 1; gzip_min_length 1; server { listen 127.0.0.1:8089; root /tmp/data/www; } }
CONF
    in_group server nginx -c /tmp/data/nginx.conf &
}
work_nginx() { in_group client client open 8089 8 "$seed" 60 3 'GET /index.html HTTP/1.1\r\nHost: x\r\nAccept-Encoding: gzip\r\n\r\n' /tmp/go; }

need_pgbench() { echo /usr/lib/postgresql/15/bin/postgres /usr/lib/postgresql/15/bin/pgbench /usr/bin/setpriv /usr/lib/postgresql/15/lib /usr/share/postgresql/15 /usr/share/zoneinfo/Etc; }
server_pgbench() {
    cp -a /postgres/data /tmp/data/postgres
    chown -R 1000:1000 /tmp/data /postgres
    in_group server /usr/bin/setpriv --reuid 1000 --regid 1000 --clear-groups /usr/lib/postgresql/15/bin/postgres -D /tmp/data/postgres -k /tmp/data -p 5499 -c fsync=off > /tmp/data/log 2>&1 &
    ready=5
}
work_pgbench() { cd /tmp/data && in_group_recorded client /usr/lib/postgresql/15/bin/pgbench -h /tmp/data -p 5499 -U postgres -n -S -c 4 -t 250 -l postgres; }
after_pgbench() { awk '{ print $3 }' /tmp/data/pgbench_log.* | percentiles 1000; }

need_go() { echo go-server; }
server_go() { GOMAXPROCS=$workers in_group server go-server & ready=2; }
work_go() { in_group client client open 8090 8 "$seed" 400 3 'GET / HTTP/1.1\r\nHost: x\r\n\r\n' /tmp/go; }

need_pool() { echo /usr/bin/python3.11 /usr/lib/python3.11; }
server_pool() { ready=8; }
work_pool() { in_group server python3.11 /pool.py "${workers:-4}" /tmp/go; }

need_http() { echo /usr/bin/python3.11 /usr/lib/python3.11; }
server_http() { in_group server python3.11 /http_server.py & ready=6; }
work_http() { in_group client client open 8091 4 "$seed" 40 3 'GET / HTTP/1.1\r\nHost: x\r\n\r\n' /tmp/go; }

need_node() { echo node; }
server_node() { in_group server node /server.js & ready=8; }
work_node() { in_group client client closed 8092 4 0 300 0 'GET / HTTP/1.1\r\nHost: x\r\n\r\n' /tmp/go; }

need_sqlite() { echo sqlite3; }
server_sqlite() { :; }
work_sqlite() { in_group_recorded server sh -c 'exec sqlite3 /tmp/data/db < /transactions.sql' | tail -1; }

need_xz() { echo /usr/bin/xz; }
server_xz() { head -c 1500000 /usr/share/text > /tmp/data/text; }
work_xz() { in_group_recorded server /usr/bin/xz -T"${workers:-2}" --block-size=150000 -1 -k -c /tmp/data/text > /tmp/data/xz; }

need_x264() { echo x264; }
server_x264() { :; }
work_x264() { in_group_recorded server x264 --quiet --no-progress --preset ultrafast --threads "${workers:-2}" -o /tmp/data/out.264 /frames.y4m; }

need_java() { echo /usr/lib/jvm/java-17-openjdk-amd64; }
server_java() { ready=10; }
work_java() { in_group server /usr/lib/jvm/java-17-openjdk-amd64/bin/java -Xmx64m -XX:+UseParallelGC -XX:ActiveProcessorCount="${workers:-2}" -cp / Batch /tmp/go; }

need_build() { echo make gcc as /usr/lib/gcc/x86_64-linux-gnu/12/cc1; }
server_build() { cp -r /source /tmp/data/; }
work_build() { in_group_recorded server make -s -j"${workers:-4}" -C /tmp/data/source; }
