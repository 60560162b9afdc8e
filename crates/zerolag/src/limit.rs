//! [`Limit`]: the limit and the weight of a group in the notation of each program that sets them.
//!
//! A manifest says `limits.cpu: 750m`, the kernel is told `75000 100000`, and a graph shows shares.
//! A result that repeats only the notation of its input leaves the conversion to its reader, so
//! every result has all of them. Two conversions of `requests.cpu` to `cpu.weight` are in use: by
//! container runtimes until 2025 (linear: 1 CPU is weight 39) and by later ones (1 CPU is weight
//! 100).

use crate::knob::{Knob, Part};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::fmt;
use zerolag_model::CpuMax;
use zerolag_workload::Program;
use zerolag_workload::limits::{Conversion, LimitPart, milli_text, notations, shares_of_milli, shares_to_weight};
use zerolag_workload::program::{GroupDef, GroupWeight, InCpus};

/// The limit and the weight of a group, as the kernel and its users write them.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[non_exhaustive]
pub struct Limit {
    /// The path of the group.
    pub group: String,
    /// `cpu.max`: the quota, or `max`, and the period, in microseconds; a burst follows in
    /// brackets.
    pub cpu_max: String,
    /// The quota per period in microseconds; none without a limit.
    pub quota_us: Option<u64>,
    /// The period in microseconds.
    pub period_us: u64,
    /// The unused quota that later periods may use, in microseconds.
    pub burst_us: u64,
    /// The limit in thousandths of a CPU (`limits.cpu`), rounded down.
    pub limits_cpu_milli: Option<u64>,
    /// The request in thousandths of a CPU (`requests.cpu`), if the weight was given so.
    pub requests_cpu_milli: Option<u64>,
    /// The weight that the group has (`cpu.weight`), if it was given so.
    pub cpu_weight: Option<u32>,
    /// The weight that the same request gives under runtimes with the linear conversion.
    pub cpu_weight_linear: Option<u32>,
    /// The shares of the group (`cpu.shares`), if they or a request were given.
    pub cpu_shares: Option<u64>,
}

impl Limit {
    /// Returns the limits of a program's groups, without groups that have neither a limit nor a
    /// request.
    #[must_use]
    pub fn all(program: &Program) -> Vec<Self> {
        let groups = program.groups.iter();
        let said = groups.filter(|group| group.max.quota.is_some() || group.cpus.request_milli.is_some());
        let limit = |group: &GroupDef| {
            let CpuMax { quota, period, burst, .. } = group.max;
            let request = group.cpus.request_milli;
            let shares = request.map(shares_of_milli);
            let (cpu_weight, own_shares) = match group.weight {
                GroupWeight::Weight(weight) => (Some(weight), None),
                GroupWeight::Shares(shares) => (None, Some(u64::from(shares))),
                GroupWeight::Nice(_) => (None, None),
            };
            let of_quota = quota.map(|quota| {
                let milli = u128::from(quota.as_nanos()) * 1000 / u128::from(period.as_nanos().max(1));
                u64::try_from(milli).unwrap_or(u64::MAX)
            });
            Self {
                group: group.path.to_string(),
                cpu_max: group.max.to_string(),
                quota_us: quota.map(zerolag_model::Duration::as_micros_floor),
                period_us: period.as_micros_floor(),
                burst_us: burst.as_micros_floor(),
                limits_cpu_milli: group.cpus.limit_milli.filter(|_| quota.is_some()).or(of_quota),
                requests_cpu_milli: request,
                cpu_weight,
                cpu_weight_linear: shares.map(|shares| shares_to_weight(shares, Conversion::Linear)),
                cpu_shares: own_shares.or(shares),
            }
        };
        said.map(limit).collect()
    }

    /// Returns what it lets the group take, in microseconds per second of time: the quota, without
    /// end if there is none, and the burst. Less is cheaper, the quota first.
    pub(crate) fn taken(&self) -> [u64; 2] {
        let per_second = |part: u64| {
            let part = u128::from(part) * 1_000_000 / u128::from(self.period_us.max(1));
            u64::try_from(part).unwrap_or(u64::MAX)
        };
        [self.quota_us.map_or(u64::MAX, per_second), per_second(self.burst_us)]
    }
}

/// Reads a limit in any notation: `200000 100000`, `max`, `2`, `750m` or `75%`.
///
/// # Errors
/// The reason, and a valid form.
pub fn read(text: &str) -> Result<CpuMax, String> {
    let is_kernels = text.contains(' ') || text == "max";
    let part = if is_kernels {
        LimitPart::Max
    } else if text.ends_with('%') {
        LimitPart::Percent
    } else {
        LimitPart::Cpus
    };
    let group = GroupDef {
        path: "/now".into(),
        parent: None,
        weight: GroupWeight::Weight(100),
        is_idle: false,
        max: CpuMax::UNLIMITED,
        clamp: zerolag_model::UtilClamp::NONE,
        cpus: InCpus::default(),
        rt: None,
        triggers: Vec::new(),
    };
    let mut program = Program { groups: vec![group], ..Program::default() };
    Knob { part: Part::Limit(part), index: 0 }
        .set(&mut program, text)
        .map_err(|error| format!("{error}; {}", error.help))?;
    Ok(program.groups[0].max)
}

impl fmt::Display for Limit {
    /// Writes `/web: limits.cpu 750m, --cpus 0.75, CPUQuota=75%, cpu.max 75000 100000, cpu.weight
    /// 100`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: ", self.group)?;
        match self.limits_cpu_milli {
            Some(milli) => write!(f, "{}, cpu.max {}", notations(milli), self.cpu_max)?,
            None => write!(f, "no limit")?,
        }
        if let Some(milli) = self.requests_cpu_milli {
            write!(f, ", requests.cpu {}", milli_text(milli))?;
        }
        if let Some(shares) = self.cpu_shares {
            write!(f, ", cpu.shares {shares}")?;
        }
        if let Some(weight) = self.cpu_weight {
            write!(f, ", cpu.weight {weight}")?;
        }
        match self.cpu_weight_linear {
            Some(weight) => write!(f, " ({weight} under runc before 1.3.2, crun before 1.23)"),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use zerolag_workload::{LoadOptions, load};

    fn limits(groups: &str) -> Vec<String> {
        let text = format!("{groups}\n[task.a]\nsteps = [{{ run = \"1ms\" }}]\n");
        let read = load("s.toml", text.as_bytes(), &LoadOptions::default()).unwrap_or_else(|errors| panic!("{errors}"));
        Limit::all(&read.program).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn every_notation_is_given_in_all() {
        let of_kubernetes = "limits.cpu 750m, --cpus 0.75, CPUQuota=75%, cpu.max 75000 100000, requests.cpu 500m, cpu.shares 512, cpu.weight 59 \
                             (20 under runc before 1.3.2, crun before 1.23)";
        assert_eq!(
            limits("[group.\"/web\"]\n\"limits.cpu\" = \"750m\"\n\"requests.cpu\" = \"500m\""),
            [format!("/web: {of_kubernetes}")]
        );
        assert_eq!(
            limits("[group.\"/a\"]\n\"cpu.max\" = \"30000 20000\"\n\"cpu.max.burst\" = 1000\n[group.\"/b\"]"),
            ["/a: limits.cpu 1500m, --cpus 1.5, CPUQuota=150%, cpu.max 30000 20000 (burst 1000), cpu.weight 100"]
        );
        assert_eq!(
            limits("[group.\"/a\"]\nCPUQuota = \"150%\"\n\"cpu.shares\" = 512"),
            ["/a: limits.cpu 1500m, --cpus 1.5, CPUQuota=150%, cpu.max 150000 100000, cpu.shares 512"]
        );
    }
}
