// An HTTP server on port 8092, for programs.sh: each request builds, sorts and prints a list.
const http = require("http");
const server = http.createServer((request, response) => {
    const list = Array.from({ length: 300 }, (_, at) => (at * 7919) % 1009).sort((a, b) => a - b);
    const body = JSON.stringify(list);
    response.writeHead(200, { "Content-Length": body.length });
    response.end(body);
});
// The client connects before the recording: by default idle connections are closed after 5 s.
server.keepAliveTimeout = 0;
server.listen(8092, "127.0.0.1");
