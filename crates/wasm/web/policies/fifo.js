// The kernel's default: tasks run in the order in which they wake, 20 ms at a time.
class Fifo extends Policy {}
