//! Once everything that is ever queued has been queued, nothing is allocated.

use crate::host::{Host, Program, ms};
use zerolag_core::{Config, Weight};
use zerolag_model::{Duration, GroupId, KernelVersion, SchedAttr, Topology};

#[test]
fn nothing_is_allocated_after_warm_up() {
    for version in [KernelVersion::V6_12, KernelVersion::V6_1] {
        let config = Config::new(Topology::flat(2).expect("2 CPUs"), version.settings()).with_queue_reserve(64);
        let mut host = Host::with_config(config);
        let outer = host.sched.create_group(GroupId::ROOT, Weight::NICE_0).expect("a group");
        let inner = host.sched.create_group(outer, Weight::NICE_0).expect("a group");
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
