//! [`Messages`]: what tasks send to sockets and receive from them, and which socket is at the other
//! end.
//!
//! ```text
//! sock_send_length       sk address = 00000000c1bbb1ad, ... length = 36, ...   a socket, no peer
//! tcp_rcv_space_adjust   sport=6399 dport=49322 ...                            ports, no socket
//! sock_recv_length       sk address = 000000003ae1ef23, ... length = 36, ...   the same call
//! ```
//!
//! An address names a socket until it is freed, and the next one of a program often gets the same.
//! The ports belong to the receive that the same task does next, since both events are of one call.
//! So a receive with other ports than before is that of another socket. If its own port is another
//! one too, a client has sent there on the new one since the last receive. Two sockets with
//! mirrored ports are the ends of a connection; of several, those that were first used closest to
//! each other.
//!
//! A UNIX socket has no ports. A send wakes the task that sleeps at the other end, and what that
//! one receives first is this message: so often as they agree, two sockets are the ends of a
//! connection.
//!
//! Sources: Linux v7.3 `net/socket.c` (`call_trace_sock_send_length`,
//! `call_trace_sock_recv_length`), `net/ipv4/tcp.c` (`tcp_recvmsg_locked`),
//! `include/trace/events/sock.h`, `include/trace/events/tcp.h`.

use super::event::Ports;
use super::skips::Skips;
use crate::meta::Message;
use std::collections::BTreeMap;
use zerolag_model::{Instant, TaskId};

/// More messages are left out: 24 MiB.
const MESSAGES_MAX: usize = 1 << 20;
/// One message wakes fewer tasks: they were woken by something else.
const WOKEN_MAX: usize = 64;
/// So many wakeups are needed to tell the ends of a connection from a chance.
const VOTES_MIN: u32 = 3;

#[derive(Default)]
pub(super) struct Messages {
    all: Vec<Message>,
    left_out: Option<(Instant, u64)>,
    /// The socket of each address.
    current: BTreeMap<u64, u32>,
    sockets: Vec<Socket>,
    tasks: BTreeMap<TaskId, Talking>,
    /// How often the first message after a wakeup by a send to one socket came from another.
    votes: BTreeMap<(u32, u32), u32>,
}

#[derive(Default)]
struct Socket {
    ports: Option<Ports>,
    /// The place of its first message, and of what was sent since its last receive.
    first: usize,
    sent: Vec<u32>,
}

/// What a task is about to do.
#[derive(Default)]
struct Talking {
    /// The ports of what it receives next.
    ports: Option<Ports>,
    /// The task that woke it, until it receives something.
    by: Option<TaskId>,
    /// The socket by which it was woken.
    from: Option<u32>,
    /// The tasks that it has woken since its last message, and from which socket they have received
    /// since.
    woken: Vec<(TaskId, Option<u32>)>,
}

impl Messages {
    /// A task wakes another.
    pub(super) fn wakes(&mut self, waker: TaskId, woken: TaskId) {
        // Without messages this costs nothing.
        if self.all.is_empty() {
            return;
        }
        let waking = &mut self.tasks.entry(waker).or_default().woken;
        waking.retain(|(task, _)| *task != woken);
        if waking.len() >= WOKEN_MAX {
            waking.clear();
        }
        waking.push((woken, None));
        let talking = self.tasks.entry(woken).or_default();
        (talking.by, talking.from) = (Some(waker), None);
    }

    /// A task is about to receive something from a connection with these ports.
    pub(super) fn ports(&mut self, task: TaskId, ports: Ports) {
        self.tasks.entry(task).or_default().ports = Some(ports);
    }

    /// A task has sent or received a message.
    pub(super) fn take(&mut self, at: Instant, task: TaskId, (address, bytes, is_sent): (u64, u32, bool)) {
        if self.all.len() >= MESSAGES_MAX {
            let (_, count) = self.left_out.get_or_insert((at, 0));
            *count = count.saturating_add(1);
            return;
        }
        let next = self.all.len();
        let ports = self.tasks.entry(task).or_default().ports.take().filter(|_| !is_sent);
        let socket = self.socket((task, address), ports, next);
        self.all.push(Message { at, task, socket, bytes, is_sent });
        let sent = &mut self.sockets[socket as usize].sent;
        if is_sent {
            sent.push(u32::try_from(next).expect("invariant: fewer than 2^20 messages"));
            self.sends(task, socket);
        } else {
            sent.clear();
            self.receives(task, socket);
        }
    }

    /// Returns the socket of an address.
    fn socket(&mut self, (task, address): (TaskId, u64), ports: Option<Ports>, next: usize) -> u32 {
        let known = self.current.get(&address).copied();
        let is_same = |of: &u32| match (ports, self.sockets[*of as usize].ports) {
            (Some(ports), Some(before)) => ports == before,
            _ => true,
        };
        if let Some(known) = known.filter(is_same) {
            let socket = &mut self.sockets[known as usize];
            socket.ports = socket.ports.or(ports);
            return known;
        }
        let new = u32::try_from(self.sockets.len()).expect("invariant: fewer sockets than messages");
        // A client has sent there on the new one since its last receive. A server, whose own port
        // is the same, has answered on the old one.
        let before = known.and_then(|known| self.sockets[known as usize].ports);
        let is_client = before.zip(ports).is_none_or(|(before, ports)| before.0 != ports.0);
        let is_own = |place: &u32| is_client && self.all[*place as usize].task == task;
        let mut sent = known.map(|known| core::mem::take(&mut self.sockets[known as usize].sent)).unwrap_or_default();
        let own = sent.iter().position(is_own).unwrap_or(sent.len());
        let sent = sent.split_off(own);
        for place in &sent {
            self.all[*place as usize].socket = new;
        }
        let first = sent.first().map_or(next, |first| *first as usize);
        self.sockets.push(Socket { ports, first, sent });
        self.current.insert(address, new);
        new
    }

    /// What a task has woken since its last message, it has woken by this one.
    fn sends(&mut self, task: TaskId, socket: u32) {
        let woken = core::mem::take(&mut self.tasks.entry(task).or_default().woken);
        for (other, received) in woken {
            let talking = self.tasks.entry(other).or_default();
            match received {
                // It ran before the send had returned.
                Some(received) => *self.votes.entry((socket, received)).or_default() += 1,
                None if talking.by == Some(task) => talking.from = Some(socket),
                None => {}
            }
        }
    }

    fn receives(&mut self, task: TaskId, socket: u32) {
        let talking = self.tasks.entry(task).or_default();
        talking.woken.clear();
        let (by, from) = (talking.by.take(), talking.from.take());
        if let Some(from) = from {
            *self.votes.entry((from, socket)).or_default() += 1;
        } else if let Some(by) = by
            && let Some((_, received)) =
                self.tasks.entry(by).or_default().woken.iter_mut().find(|(woken, _)| *woken == task)
        {
            *received = Some(socket);
        }
    }

    /// Returns the messages.
    pub(super) fn all(&self) -> Vec<Message> {
        self.all.clone()
    }

    /// Notes the messages that were left out.
    pub(super) fn skips(&self) -> Skips {
        let mut skips = Skips::default();
        if let Some((at, count)) = self.left_out {
            skips.note_many("messages behind the first 1048576", count, || format!("at {at}"));
        }
        skips
    }

    /// Returns of each socket the one at the other end.
    pub(super) fn peers(&self) -> Vec<Option<u32>> {
        let mut peers = vec![None; self.sockets.len()];
        let mut by_ports: BTreeMap<Ports, Vec<u32>> = BTreeMap::new();
        for (number, socket) in (0..).zip(&self.sockets) {
            if let Some(ports) = socket.ports {
                by_ports.entry(ports).or_default().push(number);
            }
        }
        let first = |socket: u32| self.all[self.sockets[socket as usize].first].at;
        for (&(own, other), sockets) in by_ports.iter().filter(|((own, other), _)| own < other) {
            let others = by_ports.get(&(other, own)).map_or(&[][..], |others| others);
            // Both are in order of time.
            let mut rest = others.iter().copied().peekable();
            for socket in sockets {
                let apart = |of: u32| first(*socket).since(first(of)).max(first(of).since(first(*socket)));
                while let Some(one) = rest.next() {
                    if rest.peek().is_none_or(|next| apart(one) <= apart(*next)) {
                        (peers[*socket as usize], peers[one as usize]) = (Some(one), Some(*socket));
                        break;
                    }
                }
            }
        }
        self.add_voted(&mut peers);
        peers
    }

    /// Adds the ends of connections without ports: those that most wakeups of both name.
    fn add_voted(&self, peers: &mut [Option<u32>]) {
        let mut both: BTreeMap<(u32, u32), u32> = BTreeMap::new();
        let mut all: BTreeMap<u32, u32> = BTreeMap::new();
        for (&(from, to), count) in &self.votes {
            *both.entry((from.min(to), from.max(to))).or_default() += count;
            for socket in [from, to] {
                *all.entry(socket).or_default() += count;
            }
        }
        let most = |socket: u32, count: u32| count * 2 > all.get(&socket).copied().unwrap_or(0);
        for (&(a, b), &count) in &both {
            let are_free = peers[a as usize].is_none() && peers[b as usize].is_none();
            let have_ports = self.sockets[a as usize].ports.is_some() || self.sockets[b as usize].ports.is_some();
            if a != b && are_free && !have_ports && count >= VOTES_MIN && most(a, count) && most(b, count) {
                (peers[a as usize], peers[b as usize]) = (Some(b), Some(a));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CLIENT: TaskId = TaskId(0);
    const SERVER: TaskId = TaskId(1);

    #[derive(Default)]
    struct Log {
        messages: Messages,
        us: u64,
    }

    impl Log {
        fn sent(&mut self, task: TaskId, address: u64) {
            self.us += 1;
            self.messages.take(Instant::from_nanos(self.us * 1000), task, (address, 10, true));
        }

        fn received(&mut self, task: TaskId, address: u64, ports: Option<Ports>) {
            self.us += 1;
            if let Some(ports) = ports {
                self.messages.ports(task, ports);
            }
            self.messages.take(Instant::from_nanos(self.us * 1000), task, (address, 10, false));
        }

        fn sockets(&self) -> Vec<u32> {
            self.messages.all().iter().map(|message| message.socket).collect()
        }
    }

    #[test]
    fn mirrored_ports_are_the_ends_of_a_connection() {
        let mut log = Log::default();
        log.sent(CLIENT, 0xa);
        log.received(SERVER, 0xb, Some((80, 5000)));
        log.sent(SERVER, 0xb);
        assert_eq!(log.messages.peers(), [None, None], "the client's ports are not known");
        log.received(CLIENT, 0xa, Some((5000, 80)));
        assert_eq!(log.sockets(), [0, 1, 1, 0]);
        assert_eq!(log.messages.peers(), [Some(1), Some(0)]);
        // Ports belong to the next receive of their task only.
        log.received(SERVER, 0xc, None);
        assert_eq!(log.messages.peers(), [Some(1), Some(0), None]);
    }

    /// A connection per request: each has the freed sockets of the one before.
    #[test]
    fn an_address_that_is_used_again_is_another_socket() {
        let mut log = Log::default();
        for turn in 0..3 {
            log.sent(CLIENT, 0xa);
            log.received(SERVER, 0xb, Some((80, 5000 + turn)));
            log.sent(SERVER, 0xb);
            log.received(CLIENT, 0xa, Some((5000 + turn, 80)));
        }
        assert_eq!(log.sockets(), [0, 1, 1, 0, 3, 2, 2, 3, 5, 4, 4, 5]);
        assert_eq!(log.messages.peers(), [1, 0, 3, 2, 5, 4].map(Some));
        // The client gets the freed socket of the server, and the other way round.
        log.sent(CLIENT, 0xb);
        log.received(SERVER, 0xa, Some((80, 5003)));
        log.sent(SERVER, 0xa);
        log.received(CLIENT, 0xb, Some((5003, 80)));
        let (count, peers) = (log.sockets().len(), log.messages.peers());
        assert_eq!(log.sockets()[count - 4..], [7, 6, 6, 7]);
        assert_eq!(peers[6..], [Some(7), Some(6)]);
        // Ports that are used again are another connection.
        for _ in 0..2 {
            log.sent(CLIENT, 0xc);
            log.received(SERVER, 0xd, Some((80, 5001)));
            log.sent(SERVER, 0xd);
            log.received(CLIENT, 0xc, Some((5001, 80)));
            log.received(SERVER, 0xd, Some((80, 6000)));
            log.received(CLIENT, 0xc, Some((6000, 80)));
        }
        assert_eq!(log.messages.peers(), [1, 0, 3, 2, 5, 4, 7, 6, 9, 8, 11, 10, 13, 12, 15, 14].map(Some));
    }

    #[test]
    fn wakeups_tell_the_other_end_of_a_socket_without_ports() {
        let mut log = Log::default();
        for turn in 0..4 {
            log.messages.wakes(CLIENT, SERVER);
            log.sent(CLIENT, 0xa);
            log.received(SERVER, 0xb, None);
            // Here the woken task receives before the send has returned.
            log.messages.wakes(SERVER, CLIENT);
            log.received(CLIENT, 0xa, None);
            log.sent(SERVER, 0xb);
            let known = if turn == 0 { [None, None] } else { [Some(1), Some(0)] };
            assert_eq!(log.messages.peers(), known, "{turn}");
        }
        // What is woken by another thing and then receives says nothing.
        let mut log = Log::default();
        log.sent(CLIENT, 0xa);
        for _ in 0..4 {
            log.messages.wakes(CLIENT, SERVER);
            log.received(SERVER, 0xb, None);
            log.received(CLIENT, 0xc, None);
        }
        assert_eq!(log.messages.peers(), [None; 3]);
    }

    #[test]
    fn there_is_a_largest_number_of_messages() {
        let mut log = Log::default();
        for _ in 0..MESSAGES_MAX + 5 {
            log.sent(CLIENT, 0xa);
        }
        assert_eq!(log.messages.all().len(), MESSAGES_MAX);
        let skipped = log.messages.skips().done();
        assert_eq!((&*skipped[0].what, skipped[0].count), ("messages behind the first 1048576", 5));
    }
}
