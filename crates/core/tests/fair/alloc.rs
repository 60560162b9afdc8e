//! No path allocates once everything that is ever queued has been queued.

use super::host::{Host, Program, ms};
use zerolag_core::{Config, Scheduler, Weight};
use zerolag_model::{CpuMax, Duration, GroupId, KernelVersion, SchedAttr, Topology};

#[test]
fn nothing_is_allocated_after_warm_up() {
    for version in [KernelVersion::V6_12, KernelVersion::V6_1] {
        let config = Config::new(Topology::flat(2).expect("2 CPUs"), version.settings()).with_queue_reserve(64);
        let mut host = Host::with_config(config);
        let outer = host.create_group(GroupId::ROOT, Weight::NICE_0);
        let inner = host.create_group(outer, Weight::NICE_0);
        for (index, group) in [GroupId::ROOT, outer, inner].into_iter().cycle().take(24).enumerate() {
            let time = Duration::from_micros(700 + 100 * index as u64);
            host.spawn(SchedAttr::NORMAL, group, None, Program::RunSleep(time, ms(9)));
        }
        let warm = host.now + ms(2000);
        host.run(warm);
        host.switches.clear();
        let end = host.now + ms(1000);
        let measured = allocation_counter::measure(|| host.run(end));
        assert!(host.switches.len() > 500, "{version}: something happened");
        assert_eq!(measured.count_total, 0, "{version}");
    }
}

/// The memory figures of `docs/explanation/bandwidth.md`, in bytes: a group in the table, limited
/// or not; a queue that a CPU keeps for a group without tasks there; and the most such queues per
/// CPU on a machine of many CPUs.
const PER_GROUP: u64 = 256;
const PER_RESTING_QUEUE: u64 = 768;
const RESTING: u64 = 64;
/// A machine on which so few rest: the queues of all its CPUs have 64 MiB at most otherwise.
const LARGE: u32 = 2048;

#[test]
fn a_group_costs_a_row_in_the_table() {
    let bytes = |groups| {
        let config = Config::new(Topology::flat(64).expect("64 CPUs"), KernelVersion::V6_12.settings());
        let config = config.with_group_reserve(groups);
        allocation_counter::measure(|| drop(Scheduler::<parking_lot::RawMutex>::new(config))).bytes_max
    };
    let each = (bytes(11_000) - bytes(1_000)) / 10_000;
    assert!(each <= PER_GROUP && each > PER_GROUP / 2, "{each} bytes per group, on 64 CPUs");
}

/// Tasks of many groups run on four CPUs, one after the other. The final cost of the groups is a
/// bounded number of queues per CPU, whatever the number of groups.
#[test]
fn idle_groups_cost_nothing_per_cpu_beyond_a_bounded_number_of_queues() {
    const CPUS: u32 = 4;
    let kept = |groups: u64, in_groups: bool| {
        let config = Config::new(Topology::flat(LARGE).expect("CPUs"), KernelVersion::V6_12.settings());
        let mut host = Host::with_config(config.with_queue_reserve(64).with_group_reserve(groups as usize));
        let limit = CpuMax { quota: Some(ms(10)), ..CpuMax::UNLIMITED };
        let made: Vec<GroupId> = (0..groups)
            .map(|_| {
                let group = host.create_group(GroupId::ROOT, Weight::NICE_0);
                host.set_max(group, limit);
                group
            })
            .collect();
        let measured = allocation_counter::measure(|| {
            for (index, group) in made.iter().enumerate() {
                let group = if in_groups { *group } else { GroupId::ROOT };
                let nap = Program::RunSleep(Duration::from_micros(50), Duration::from_secs(1_000));
                host.spawn(SchedAttr::NORMAL, group, Some(&(index as u32 % CPUS).to_string()), nap);
                host.run(host.now + ms(1));
            }
        });
        // The timers of groups belong to the test host, and are the same however the tasks are
        // spread.
        drop(host);
        measured.bytes_current
    };
    let cost = |groups| (kept(groups, true) - kept(groups, false)).unsigned_abs();
    let (some, many) = (cost(400), cost(2_000));
    let bound = u64::from(CPUS) * (RESTING + 8) * PER_RESTING_QUEUE * 2;
    assert!(some > 0 && many <= bound, "{some} and {many} bytes on {CPUS} CPUs, at most {bound}");
    assert!(many - some.min(many) < some / 4, "five times as many groups: {some} and {many} bytes");
}
