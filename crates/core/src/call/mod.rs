//! The calls of the core as data: [`Call`] names one with its arguments, [`Call::apply`] makes it.
//!
//! A host with threads wants to write down what it asked, replay it on one thread, and draw it at
//! random. With the methods of [`Scheduler`](crate::Scheduler) each such host needs its own list of
//! methods, its own
//! `match` that makes them, and a second `match` that makes them again; the two differ sooner or
//! later, and then a replay proves nothing. Here a call is made at one place, for the host, its
//! recorder and its replay alike.
//!
//! A call does not hold what has an owner. Run queues and clocks are passed beside it ([`Rqs`]),
//! the body of a task goes through the caller's *hand* (`Option<Parcel>`):
//!
//! ```text
//!   Call::under()  -> lock these run queues -> Rqs ---+
//!   Call::handed() -> take this body into the hand ---+--> Call::apply --> Answer
//!                                                          |-> hand: a body that was handed out
//!                                                          '-> Io: operations, parked bodies
//! ```
//!
//! [`Place`] is the table that every such host keeps: where the body of a task is while the core
//! does not hold it. [`Made`] is a call with what came of it, and [`Player`] makes it again.
//!
//! A single-threaded host that neither records nor replays can call [`Scheduler`](crate::Scheduler)
//! directly, as the simulator does: it knows each result's type and needs no `match` on [`Answer`].

mod apply;
mod data;
mod place;
mod player;

pub use apply::Rqs;
pub use data::{Answer, Call, LeftAs, Refused, Under};
pub use place::Place;
pub use player::{Made, Now, Player};
