//! The classes: the actions of a queue when a task arrives, leaves, runs, or is put back.
//!
//! | class | module | ordered by |
//! |---|---|---|
//! | deadline | [`dl`], with [`dl_server`] and [`dl_sums`] | absolute deadline, then arrival |
//! | real time | [`rt`], with [`rt_throttle`] and [`rt_groups`] or [`rt_served`] | priority, then arrival |
//! | fair | [`fair`] | virtual deadline or virtual runtime |
//! | of a loaded scheduler | [`ext`] | arrival |
//!
//! A class knows its own queue and those of the classes before it in this order: real time, fair,
//! deadline. Rules that involve several classes are in [`crate::lifecycle`].

pub(crate) mod dl;
pub(crate) mod dl_later;
pub(crate) mod dl_server;
pub(crate) mod dl_sums;
pub(crate) mod ext;
pub(crate) mod fair;
pub(crate) mod policy;
pub(crate) mod rt;
pub(crate) mod rt_groups;
pub(crate) mod rt_lowest;
pub(crate) mod rt_served;
pub(crate) mod rt_throttle;
