//! Profiles of servers of the years 2011 to 2014, from published measurements.
//!
//! A profile that is fitted to an experiment explains nothing, and no such machine is at hand. So
//! each number here has a source, and what no source gives is as in `default`.

use super::{ByDistance, Costs};
use zerolag_model::Duration;

impl Costs {
    /// Returns the profile of a server with four Xeon E7 of 2011 to 2014, the machines of the 2015
    /// and 2017 texts on RT balancing. Times that no published measurement gives are those of
    /// `default`.
    ///
    /// * Lines: David, Guerraoui & Trigonakis 2013 ("Everything You Always Wanted to Know about
    ///   Synchronization but Were Afraid to Ask"), table 2, Xeon E7-8867L at 2.13 GHz, in cycles: a
    ///   load of a modified line takes 109 on the die and 289 one hop away, a compare-and-swap 120
    ///   and 324, a load of a shared line on the die 44. Four sockets are one hop apart. The first
    ///   cache is 5 cycles away, also for a sibling.
    /// * A lock is one compare-and-swap and one load of the data (229 and 613 cycles); queued IPI
    ///   work is two loads (218, 578); `inner_lock` is one compare-and-swap one hop away; a scan
    ///   reads a line that the die shares.
    /// * IPIs: Kumar et al. 2018 ("LATR: Lazy Translation Coherence") give 2.7 us for an IPI and
    ///   its acknowledgement on two sockets and 6.6 us on eight. Half of the first is a flight to
    ///   another socket.
    /// * `idle_exit`: Linux v3.6 `drivers/idle/intel_idle.c`, C1 of `nehalem_cstates`: 3 us.
    #[must_use]
    pub fn xeon_e7_4s() -> Self {
        let ns = Duration::from_nanos;
        Self {
            name: "xeon-e7-4s".to_owned(),
            ipi_latency: ByDistance::nanos(400, 600, 600, 1_350),
            ipi_work: ByDistance::nanos(5, 102, 102, 271),
            inner_lock: ns(152),
            rq_lock_transfer: ByDistance::nanos(5, 108, 108, 288),
            scan_per_cpu: ns(21),
            idle_exit: ns(3_000),
            ..Self::server()
        }
    }

    /// Returns the profile of the machine on which those lines were measured: eight sockets of Xeon
    /// E7-8867L, ten cores each, 2.13 GHz. With ten and with fifteen cores per socket such a
    /// machine has the 80 and the 120 CPUs of the 2017 text. Times that no published measurement
    /// gives are those of `xeon-e7-4s`.
    ///
    /// * Lines: the same table. Of seven other sockets three are one hop away and four are two; at
    ///   two hops a load of a modified line takes 400 cycles and a compare-and-swap 430. So a load
    ///   from another socket takes 352 cycles on average, a compare-and-swap 385.
    ///   The paper was not at hand: the loads and the compare-and-swaps on the die and at one hop
    ///   agree with those that others quote of it, and the 430 cycles at two hops are not checked.
    /// * `line_read` is such a load, `line_write` such a compare-and-swap. With them, the lines of
    ///   `cpupri`, of `cpudl`, of the overload masks and of the quotas of groups have owners.
    /// * IPIs: LATR's 6.6 us for eight sockets; half of it is a flight to another socket.
    #[must_use]
    pub fn xeon_e7_8s() -> Self {
        Self {
            name: "xeon-e7-8s".to_owned(),
            ipi_latency: ByDistance::nanos(400, 600, 600, 3_300),
            ipi_work: ByDistance::nanos(5, 102, 102, 330),
            inner_lock: Duration::from_nanos(181),
            line_read: ByDistance::nanos(2, 51, 51, 165),
            line_write: ByDistance::nanos(2, 56, 56, 181),
            rq_lock_transfer: ByDistance::nanos(5, 108, 108, 346),
            ..Self::xeon_e7_4s()
        }
    }

    /// Returns the same machine, with the time of a search of `cpupri` as it was measured under
    /// contention.
    ///
    /// * `cpupri_search`: Pan Deng 2025 ("sched/rt: mitigate root_domain cache line contention",
    ///   linux-kernel, 21 July) has `perf c2c` of a machine of two sockets and 480 CPUs, whose
    ///   real-time threads wake and sleep on all of them. A load of the line of a mask takes 2200
    ///   to 8700 cycles there, one of the line of counts 1500 to 10500. A search loads both: 3700
    ///   cycles at least, here at 2.13 GHz. The least is taken, since 80 or 120 CPUs contend for
    ///   less than 480.
    #[must_use]
    pub fn xeon_e7_8s_contended() -> Self {
        let cpupri_search = Duration::from_nanos(1_737);
        Self { name: "xeon-e7-8s-contended".to_owned(), cpupri_search, ..Self::xeon_e7_8s() }
    }
}
