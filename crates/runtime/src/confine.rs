//! The processors that the process has: limits of its cgroups (`cpu.max`) and of those above.
//!
//! A reservation that is admitted against CPUs that the container does not get is not kept. The
//! kernel reports the limit as a quota and a period in files of each cgroup; the smallest ratio
//! from the process's cgroup upwards counts. A container often sees a part of the tree only, so
//! what cannot be read is skipped.
//!
//! Sources: Linux `Documentation/admin-guide/cgroup-v2.rst`, *CPU*, and
//! `Documentation/scheduler/sched-bwc.rst`, *Management*, for version 1.

/// Returns the number of processors that the limits allow; `None` without a limit.
pub(crate) fn processors() -> Option<f64> {
    let read = |path: &str| std::fs::read_to_string(path).ok();
    least(&read("/proc/self/cgroup")?, read)
}

/// `cgroups` is the list of the process's cgroups, `read` the content of a file.
fn least(cgroups: &str, read: impl Fn(&str) -> Option<String>) -> Option<f64> {
    let mut limits = Vec::new();
    for line in cgroups.lines() {
        let mut fields = line.splitn(3, ':');
        let (Some(_), Some(controllers), Some(path)) = (fields.next(), fields.next(), fields.next()) else { continue };
        for place in upwards(path) {
            if controllers.is_empty() {
                limits.extend(read(&format!("/sys/fs/cgroup{place}cpu.max")).and_then(|text| ratio(&text)));
            } else if controllers.split(',').any(|controller| controller == "cpu") {
                let file = |name: &str| read(&format!("/sys/fs/cgroup/cpu{place}cpu.cfs_{name}_us"));
                let both = file("quota").zip(file("period"));
                limits.extend(both.and_then(|(quota, period)| ratio(&format!("{quota} {period}"))));
            }
        }
    }
    limits.into_iter().reduce(f64::min)
}

/// Returns the directories from a cgroup up to the root, each with a slash at both ends.
fn upwards(path: &str) -> impl Iterator<Item = String> + '_ {
    let depths = path.match_indices('/').map(|(at, _)| path[..at].to_owned() + "/");
    let own = (!path.ends_with('/')).then(|| format!("{path}/"));
    own.into_iter().chain(depths)
}

/// Reads `QUOTA PERIOD`, where the quota is no number (`max`) or negative without a limit.
fn ratio(text: &str) -> Option<f64> {
    let mut words = text.split_whitespace();
    let (quota, period): (f64, f64) = (words.next()?.parse().ok()?, words.next()?.parse().ok()?);
    (quota > 0.0 && period > 0.0).then_some(quota / period)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    fn limit(cgroups: &str, files: &[(&str, &str)]) -> Option<f64> {
        let files: BTreeMap<_, _> = files.iter().copied().collect();
        least(cgroups, |path| files.get(path).map(|text| (*text).to_owned()))
    }

    #[test]
    fn the_least_from_the_cgroup_upwards_counts() {
        let files = [
            ("/sys/fs/cgroup/pod/box/cpu.max", "max 100000\n"),
            ("/sys/fs/cgroup/pod/cpu.max", "150000 100000\n"),
            ("/sys/fs/cgroup/cpu.max", "300000 100000\n"),
        ];
        assert_eq!(limit("0::/pod/box\n", &files), Some(1.5));
        assert_eq!(limit("0::/\n", &files), Some(3.0));
        assert_eq!(limit("0::/not/seen/from/here\n", &files), Some(3.0));
        assert_eq!(limit("0::/pod/box\n", &files[..1]), None);
    }

    #[test]
    fn version_1_has_two_files() {
        let both = |quota| {
            [
                ("/sys/fs/cgroup/cpu/docker/1/cpu.cfs_quota_us", quota),
                ("/sys/fs/cgroup/cpu/docker/1/cpu.cfs_period_us", "100000\n"),
            ]
        };
        let cgroups = "4:memory:/docker/1\n2:cpu,cpuacct:/docker/1\n1:cpuset:/\n";
        assert_eq!(limit(cgroups, &both("40000\n")), Some(0.4));
        assert_eq!(limit(cgroups, &both("-1\n")), None);
    }

    #[test]
    fn nonsense_is_no_limit() {
        for text in ["", "max", "1", "0 0", "nan 1", "-5 100000"] {
            assert_eq!(limit("garbage\n0::/\n", &[("/sys/fs/cgroup/cpu.max", text)]), None, "{text:?}");
        }
    }
}
